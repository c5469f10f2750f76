//! Region records of monitors as Arrow, and their analyses.

use crate::arrow::{Columns, Table};
use crate::error::{self, argument};
use crate::report_table;
use arrow_array::{UInt8Array, UInt32Array, UInt64Array};
use isotherm_report::records::{self, At, Grid, Selection, Shown, Survey};
use isotherm_trace::TraceError;
use isotherm_trace::region::RegionStore;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RegionRecord>()
}

/// A record's file that was opened and parsed.
#[pyclass(frozen, module = "isotherm._native")]
pub(crate) struct RegionRecord {
    path: PathBuf,
    meta: String,
    form: &'static str,
    warnings: Vec<String>,
}

impl RegionRecord {
    fn analyse<T: Send>(
        &self,
        py: Python<'_>,
        analysis: impl FnOnce(&mut RegionStore, &Survey) -> isotherm_trace::Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut store = RegionStore::open(&self.path)?;
            let survey = Survey::of(&mut store, &Selection::default())?;
            analysis(&mut store, &survey)
        });
        done.map_err(|refused| error::of_trace(&refused))
    }
}

#[pymethods]
impl RegionRecord {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let store = py.detach(|| RegionStore::open(&path)).map_err(|refused| error::of_trace(&refused))?;
        Ok(Self {
            meta: serde_json::to_string(store.meta()).map_err(|refused| argument("meta", refused))?,
            form: store.form().name(),
            warnings: store.warnings().iter().map(ToString::to_string).collect(),
            path,
        })
    }

    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }
    #[getter]
    fn form(&self) -> &'static str {
        self.form
    }
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
    fn meta_json(&self) -> &str {
        &self.meta
    }

    /// A row for each region of each snapshot.
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        let read = py.detach(|| {
            let mut rows = Rows::default();
            RegionStore::open(&self.path)?.for_each(|snapshot| {
                rows.push(snapshot);
                Ok::<(), TraceError>(())
            })?;
            Ok::<Rows, TraceError>(rows)
        });
        read.map_err(|refused| error::of_trace(&refused))?.table()
    }

    fn heatmap(&self, py: Python<'_>, columns: u32, rows: u32, all: bool) -> PyResult<Table> {
        if columns == 0 || rows == 0 {
            return Err(argument("heatmap", "columns and rows are at least 1"));
        }
        let shown = if all { Shown::All } else { Shown::Busy };
        let fold_bytes = isotherm_report::traces::PICTURE_CELLS.fold_pages * isotherm_units::PAGE_BYTES;
        let grid = Grid { columns, rows, fold_bytes, shown };
        let table = self.analyse(py, |store, survey| {
            let map = records::heatmap(store, survey, &grid)?;
            Ok(records::heatmap_csv(&map, store))
        })?;
        report_table::of(&table)
    }

    fn wss(&self, py: Python<'_>, min_accesses: u32, skip: u64) -> PyResult<Table> {
        let table = self.analyse(py, |store, survey| records::wss(store, survey, min_accesses, skip))?;
        report_table::of(&records::wss_csv(&table))
    }

    /// `at_ns`: from the record's first moment; `None` for the last snapshots.
    fn idle(&self, py: Python<'_>, at_ns: Option<u64>) -> PyResult<Table> {
        let at = at_ns.map_or(At::Last, At::Time);
        let idle = self.analyse(py, |store, survey| records::idle(store, survey, at))?;
        report_table::of(&records::idle_csv(&idle))
    }
}

#[derive(Default)]
struct Rows {
    snapshot: Vec<u64>,
    time_ns: Vec<u64>,
    target: Vec<u32>,
    start: Vec<u64>,
    end: Vec<u64>,
    nr_accesses: Vec<u32>,
    age: Vec<Option<u32>>,
    level: Vec<u8>,
}

impl Rows {
    fn push(&mut self, snapshot: &isotherm_trace::region::Snapshot) {
        for region in &snapshot.regions {
            self.snapshot.push(snapshot.number);
            self.time_ns.push(snapshot.time_ns);
            self.target.push(snapshot.target);
            self.start.push(region.start);
            self.end.push(region.end);
            self.nr_accesses.push(region.nr_accesses);
            self.age.push(region.age);
            self.level.push(region.level);
        }
    }

    fn table(self) -> PyResult<Table> {
        Columns::default()
            .array("snapshot", UInt64Array::from(self.snapshot))
            .array("time_ns", UInt64Array::from(self.time_ns))
            .array("target", UInt32Array::from(self.target))
            .array("start", UInt64Array::from(self.start))
            .array("end", UInt64Array::from(self.end))
            .array("nr_accesses", UInt32Array::from(self.nr_accesses))
            .array("age", UInt32Array::from(self.age))
            .array("level", UInt8Array::from(self.level))
            .table()
    }
}
