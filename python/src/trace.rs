//! Page traces: rows as Arrow, and analyses.

use crate::arrow::{Table, stream_capsule};
use crate::error::{self, Error, argument};
use crate::report_table;
use crate::waiting::interruptible;
use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch, UInt32Array, UInt64Array, downcast_integer_array};
use arrow_pyarrow::PyArrowType;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use isotherm_report::records::{self, IDLE_BOUNDS_NS};
use isotherm_report::traces;
use isotherm_scenario::Progress as _;
use isotherm_trace::analysis::{self, HeatmapOptions, IdleAt, Sampling};
use isotherm_trace::{RowBatch, ThreadMeta, TraceMeta, TraceReader, TraceWriter};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Trace>()?;
    module.add_function(wrap_pyfunction!(write_arrays, module)?)?;
    module.add_function(wrap_pyfunction!(write_arrow, module)?)
}

/// A trace's file that was opened and parsed.
#[pyclass(frozen, module = "isotherm._native")]
pub(crate) struct Trace {
    path: PathBuf,
    meta: TraceMeta,
}

/// The columns of a trace, as in its file.
fn schema() -> SchemaRef {
    let column = |name: &str, kind| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![
        column("time_ns", DataType::UInt64),
        column("thread", DataType::UInt32),
        column("page", DataType::UInt64),
        column("pages", DataType::UInt32),
        column("write", DataType::Boolean),
        column("kernel", DataType::Boolean),
    ]))
}

/// The rows as they are, in Arrow's memory: columns of numbers are passed on, flags become bits.
fn record_batch(schema: &SchemaRef, rows: RowBatch) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(rows.time_ns)),
        Arc::new(UInt32Array::from(rows.thread)),
        Arc::new(UInt64Array::from(rows.page)),
        Arc::new(UInt32Array::from(rows.pages)),
        Arc::new(BooleanArray::from(rows.write)),
        Arc::new(BooleanArray::from(rows.kernel)),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// Appends the rows of one batch to another.
fn append(all: &mut RowBatch, more: &RowBatch) {
    all.time_ns.extend_from_slice(&more.time_ns);
    all.thread.extend_from_slice(&more.thread);
    all.page.extend_from_slice(&more.page);
    all.pages.extend_from_slice(&more.pages);
    all.write.extend_from_slice(&more.write);
    all.kernel.extend_from_slice(&more.kernel);
}

/// Rows in one batch of a stream.
const STREAM_ROWS: usize = 1 << 20;

/// Reads on as batches are asked for.
struct Batches {
    reader: TraceReader,
    schema: SchemaRef,
    batch: RowBatch,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rows = RowBatch::new();
        while rows.len() < STREAM_ROWS {
            match self.reader.next_batch(&mut self.batch) {
                Ok(true) => append(&mut rows, &self.batch),
                Ok(false) => break,
                Err(broken) => return Some(Err(ArrowError::ExternalError(Box::new(broken)))),
            }
        }
        (!rows.is_empty()).then(|| record_batch(&self.schema, rows))
    }
}

impl Trace {
    fn reader(&self) -> PyResult<TraceReader> {
        TraceReader::open(&self.path).map_err(|refused| error::of_trace(&refused))
    }

    /// Runs an analysis that reads the trace.
    fn analyse<T: Send>(
        &self,
        py: Python<'_>,
        analysis: impl FnOnce(&mut Stoppable) -> isotherm_trace::Result<T> + Send,
    ) -> PyResult<T> {
        let reader = self.reader()?;
        let done = interruptible(py, None, |watched| analysis(&mut Stoppable { reader, watched }))?;
        done.map_err(|refused| error::of_trace(&refused))
    }
}

/// A trace whose reading ends when no one waits for it any more.
struct Stoppable<'a> {
    reader: TraceReader,
    watched: &'a crate::waiting::Watched,
}

impl isotherm_trace::TraceRows for Stoppable<'_> {
    fn meta(&self) -> &TraceMeta {
        self.reader.meta()
    }
    fn path(&self) -> &Path {
        self.reader.path()
    }
    fn file_bytes(&self) -> u64 {
        self.reader.file_bytes()
    }
    fn file_accesses(&self) -> Option<u64> {
        None
    }
    fn for_each_batch(
        &mut self,
        each: &mut dyn FnMut(&RowBatch) -> isotherm_trace::Result<()>,
    ) -> isotherm_trace::Result<()> {
        let watched = self.watched;
        let path = self.reader.path().to_owned();
        self.reader.for_each_batch(|batch| {
            if watched.is_stopped() {
                let source = std::io::Error::from(std::io::ErrorKind::Interrupted);
                return Err(isotherm_trace::TraceError::Io { action: "read on in", path: path.clone(), source });
            }
            each(batch)
        })
    }
}

#[pymethods]
impl Trace {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let reader = py.detach(|| TraceReader::open(&path)).map_err(|refused| error::of_trace(&refused))?;
        Ok(Self { meta: reader.meta().clone(), path })
    }

    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }
    #[getter]
    fn rows(&self) -> u64 {
        self.meta.rows
    }
    #[getter]
    fn accesses(&self) -> u64 {
        self.meta.accesses
    }
    #[getter]
    fn page_bytes(&self) -> u64 {
        self.meta.page_bytes
    }
    #[getter]
    fn epoch_ns(&self) -> u64 {
        self.meta.epoch_ns
    }

    /// All metadata of the trace.
    fn meta_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.meta).map_err(|refused| argument("meta", refused))
    }

    fn __arrow_c_stream__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = Batches { reader: self.reader()?, schema: schema(), batch: RowBatch::new() };
        stream_capsule(py, schema(), batches)
    }

    /// All rows, in one batch.
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        let rows = self.meta.rows;
        self.analyse(py, |trace| {
            let len = usize::try_from(rows).unwrap_or(0);
            let mut all = RowBatch {
                first_row: 0,
                time_ns: Vec::with_capacity(len),
                thread: Vec::with_capacity(len),
                page: Vec::with_capacity(len),
                pages: Vec::with_capacity(len),
                write: Vec::with_capacity(len),
                kernel: Vec::with_capacity(len),
            };
            isotherm_trace::TraceRows::for_each_batch(trace, &mut |batch| {
                append(&mut all, batch);
                Ok(())
            })?;
            Ok(all)
        })
        .and_then(|all| {
            let schema = schema();
            let batch = record_batch(&schema, all).map_err(|broken| Error::new_err(error::chain(&broken)))?;
            Ok(Table::of_batches(schema, vec![batch]))
        })
    }

    fn heatmap(&self, py: Python<'_>, columns: u32, rows: u32) -> PyResult<Table> {
        if columns == 0 || rows == 0 {
            return Err(argument("heatmap", "columns and rows are at least 1"));
        }
        let options = HeatmapOptions { columns, rows, ..HeatmapOptions::default() };
        let matrix = self.analyse(py, |trace| analysis::heatmap(trace, &options))?;
        report_table::of(&traces::heatmap_csv(&matrix, &self.meta))
    }

    fn wss(&self, py: Python<'_>, window_ns: u64) -> PyResult<Table> {
        let window_ns =
            Some(window_ns).filter(|&ns| ns > 0).ok_or_else(|| argument("window_ns", "0; allowed: 1 and more"))?;
        let working_set = self.analyse(py, |trace| analysis::wss(trace, window_ns))?;
        report_table::of(&traces::wss_csv(&working_set, &self.meta))
    }

    /// `sample`: as the command's flag.
    fn mrc(&self, py: Python<'_>, sample: &str) -> PyResult<Table> {
        let sample: Sampling = sample.parse().map_err(|refused| argument("sample", refused))?;
        let curve = self.analyse(py, |trace| analysis::mrc_sampled(trace, sample))?;
        report_table::of(&traces::mrc_csv(&curve, &self.meta))
    }

    /// `at_ns`: trace time; `None` for the last access. `moments`: the mean over this number of moments instead.
    fn idle(&self, py: Python<'_>, at_ns: Option<u64>, moments: Option<u32>) -> PyResult<Table> {
        let at = match (at_ns, moments) {
            (Some(_), Some(_)) => return Err(argument("idle", "give `at_ns` or `moments`, not both")),
            (Some(at_ns), None) => IdleAt::Time(at_ns),
            (None, Some(moments)) => IdleAt::Spread(moments.max(1)),
            (None, None) => IdleAt::LastAccess,
        };
        let moments = self.analyse(py, |trace| analysis::idle(trace, at, IDLE_BOUNDS_NS))?;
        report_table::of(&records::idle_csv(&traces::idle(&moments, self.meta.page_bytes)))
    }
}

/// Metadata of a new trace.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct NewMeta {
    name: String,
    command: Vec<String>,
    page_bytes: u64,
    epoch_ns: u64,
}

impl NewMeta {
    fn with_threads(self, nr_threads: u32) -> TraceMeta {
        let mut meta = TraceMeta::single(&self.name);
        let thread = |number: u32| ThreadMeta { name: format!("{} {number}", self.name), ..ThreadMeta::default() };
        if nr_threads > 1 {
            meta.threads = (0..nr_threads).map(thread).collect();
        }
        TraceMeta {
            recorder: "Python arrays".to_owned(),
            command: self.command,
            page_bytes: self.page_bytes,
            epoch_ns: self.epoch_ns,
            ..meta
        }
    }
}

/// Most threads a trace is given by arrays: each has a name.
const THREADS_MAX: u32 = 1 << 20;

fn nr_threads(batches: &[RowBatch]) -> PyResult<u32> {
    let last = batches.iter().flat_map(|batch| &batch.thread).max().copied().unwrap_or(0);
    let allowed = format!("{last} is too large; allowed: below {THREADS_MAX}");
    Some(last).filter(|&last| last < THREADS_MAX).map(|last| last + 1).ok_or_else(|| argument("thread", allowed))
}

/// Writes a trace in one step: `path` is replaced when all is written.
fn write(py: Python<'_>, path: PathBuf, meta: NewMeta, batches: Vec<RowBatch>) -> PyResult<()> {
    let meta = meta.with_threads(nr_threads(&batches)?);
    let written = interruptible(py, None, |watched| {
        let mut writer = TraceWriter::create_finished(&path, meta)?;
        for batch in &batches {
            for row in batch.rows() {
                writer.push(row)?;
            }
            if watched.is_stopped() {
                return Ok(());
            }
        }
        writer.set_outcome(None, true)?;
        writer.finish().map(drop)
    })?;
    written.map_err(|refused| error::of_trace(&refused))
}

/// Writes a trace of arrays of one length.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a column each")]
fn write_arrays(
    py: Python<'_>,
    path: PathBuf,
    meta: NewMeta,
    time_ns: PyReadonlyArray1<'_, u64>,
    thread: PyReadonlyArray1<'_, u32>,
    page: PyReadonlyArray1<'_, u64>,
    pages: PyReadonlyArray1<'_, u32>,
    write_flags: PyReadonlyArray1<'_, bool>,
    kernel: PyReadonlyArray1<'_, bool>,
) -> PyResult<()> {
    let broken = |refused: numpy::AsSliceError| argument("arrays", refused);
    let batch = RowBatch {
        first_row: 0,
        time_ns: time_ns.as_slice().map_err(broken)?.to_vec(),
        thread: thread.as_slice().map_err(broken)?.to_vec(),
        page: page.as_slice().map_err(broken)?.to_vec(),
        pages: pages.as_slice().map_err(broken)?.to_vec(),
        write: write_flags.as_slice().map_err(broken)?.to_vec(),
        kernel: kernel.as_slice().map_err(broken)?.to_vec(),
    };
    write(py, path, meta, vec![batch])
}

/// Writes a trace from an object with Arrow's PyCapsule interface, with the columns of a trace; only `page` is
/// required.
#[pyfunction]
fn write_arrow(
    py: Python<'_>,
    path: PathBuf,
    meta: NewMeta,
    rows: PyArrowType<RecordBatchStreamReader>,
) -> PyResult<()> {
    let mut batches = Vec::new();
    let mut first_row = 0;
    for batch in rows.0 {
        let batch = batch.map_err(|broken| Error::new_err(error::chain(&broken)))?;
        batches.push(row_batch(&batch, first_row)?);
        first_row += batch.num_rows() as u64;
    }
    write(py, path, meta, batches)
}

fn row_batch(batch: &RecordBatch, first_row: u64) -> PyResult<RowBatch> {
    let len = batch.num_rows();
    let numbers = |name: &str| batch.column_by_name(name).map(|column| whole_numbers(name, column)).transpose();
    let small = |name: &str, usual: u32| {
        let Some(numbers) = numbers(name)? else { return Ok(vec![usual; len]) };
        let fits = |number: u64| {
            u32::try_from(number).map_err(|_| argument(name, format!("{number} is too large; allowed: below 2^32")))
        };
        numbers.into_iter().map(fits).collect::<PyResult<Vec<u32>>>()
    };
    let flags = |name: &str| match batch.column_by_name(name) {
        None => Ok(vec![false; len]),
        Some(column) if *column.data_type() == DataType::Boolean && column.null_count() == 0 => {
            Ok(column.as_boolean().values().iter().collect())
        }
        Some(column) if column.data_type().is_integer() => {
            let flag = |number| match number {
                0 | 1 => Ok(number == 1),
                _ => Err(argument(name, format!("{number} is no flag; allowed: booleans, or 0 and 1"))),
            };
            whole_numbers(name, column)?.into_iter().map(flag).collect()
        }
        Some(column) => {
            let message = format!("it is of {}; allowed: booleans, or 0 and 1, without gaps", column.data_type());
            Err(argument(name, message))
        }
    };
    let page = numbers("page")?.ok_or_else(|| argument("page", "there is no such column; a trace needs it"))?;
    // A microsecond each, as with imported requests.
    let time_ns = numbers("time_ns")?;
    let time_ns = time_ns.unwrap_or_else(|| (0..len as u64).map(|row| (first_row + row) * 1000).collect());
    Ok(RowBatch {
        first_row,
        time_ns,
        thread: small("thread", 0)?,
        page,
        pages: small("pages", 1)?,
        write: flags("write")?,
        kernel: flags("kernel")?,
    })
}

/// A column of whole numbers of any width.
fn whole_numbers(name: &str, column: &ArrayRef) -> PyResult<Vec<u64>> {
    if column.null_count() > 0 {
        return Err(argument(name, "it has gaps; allowed: whole numbers in every row"));
    }
    let unsigned =
        |value: i128| u64::try_from(value).map_err(|_| argument(name, "it has negative numbers; allowed: 0 and more"));
    downcast_integer_array!(
        column => column.values().iter().map(|&value| unsigned(i128::from(value))).collect(),
        other => Err(argument(name, format!("it is of {other}; allowed: whole numbers")))
    )
}
