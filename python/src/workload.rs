//! Workloads whose accesses a Python generator makes.

use crate::policy::words_of;
use isotherm_units::access::{
    After, Backing, Batch, Channel, FileKind, FileSpec, Mapping, Process, Program, Run, Sharing, Stream, StreamError,
    Thread, ThreadStart, Timing,
};
use isotherm_units::{Duration, Instant, PageRange};
use isotherm_workload::{Parameter, WorkloadMaker};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;

/// A registered workload: the callable that describes one.
#[derive(Debug)]
pub(crate) struct PythonWorkload {
    pub(crate) name: String,
    pub(crate) make: Py<PyAny>,
}

impl WorkloadMaker for PythonWorkload {
    fn name(&self) -> &str {
        &self.name
    }

    fn make(&self, parameters: &BTreeMap<String, Parameter>, name: &str, seed: u64) -> Result<Program, String> {
        Python::attach(|py| {
            let made = table(py, parameters).and_then(|parameters| {
                let plan: Plan = self.make.call1(py, (seed, parameters))?.extract(py)?;
                plan.program(py, name)
            });
            made.map_err(|raised| words_of(py, &raised))
        })
    }
}

fn table<'py>(py: Python<'py>, parameters: &BTreeMap<String, Parameter>) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, value) in parameters {
        all.set_item(name, plain(py, value)?)?;
    }
    Ok(all)
}

fn plain<'py>(py: Python<'py>, value: &Parameter) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Parameter::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Parameter::Integer(number) => number.into_pyobject(py)?.into_any(),
        Parameter::Number(number) => number.into_pyobject(py)?.into_any(),
        Parameter::Text(text) => text.into_pyobject(py)?.into_any(),
        Parameter::List(list) => {
            let values = list.iter().map(|value| plain(py, value)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, values)?.into_any()
        }
        Parameter::Table(parameters) => table(py, parameters)?.into_any(),
    })
}

/// The workload as described by Python: sizes are checked there.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Plan {
    /// Private memory, pages from 0.
    pages: u64,
    /// A mapped file after that, pages from `pages`.
    file_pages: u64,
    /// Iterators of batches, one for each thread.
    threads: Vec<Py<PyAny>>,
}

/// Most pages that a workload maps: 16 TiB.
const PAGES_MAX: u64 = 1 << 32;

impl Plan {
    fn program(self, _py: Python<'_>, name: &str) -> PyResult<Program> {
        let pages = self.pages.saturating_add(self.file_pages);
        if pages == 0 || pages > PAGES_MAX {
            return Err(PyValueError::new_err(format!("it has {pages} pages; allowed: 1 to {PAGES_MAX}")));
        }
        let mut layout = Vec::new();
        if self.pages > 0 {
            layout.push(Mapping::anonymous(PageRange::new(0, self.pages)));
        }
        let mut files = Vec::new();
        if self.file_pages > 0 {
            let name = format!("{name}/file");
            files.push(FileSpec { name, pages: self.file_pages, kind: FileKind::Regular });
            let backing = Backing::File { file: 0, first_page: 0, sharing: Sharing::Shared };
            let range = PageRange::new(self.pages, pages);
            layout.push(Mapping { backing, ..Mapping::anonymous(range) });
        }
        let thread = |batches| Thread {
            process: 0,
            start: ThreadStart::WithProgram,
            stream: Box::new(PythonStream { batches, pages, anonymous: self.pages, left: Vec::new() }),
        };
        Ok(Program {
            name: name.to_owned(),
            files,
            processes: vec![Process { name: name.to_owned(), forked_from: None, layout }],
            threads: self.threads.into_iter().map(thread).collect(),
            timing: Timing::Modelled,
            future: None,
        })
    }
}

/// Runs that are handed on at a time.
const RUNS: usize = 4096;

/// The accesses of one thread.
struct PythonStream {
    /// Next batches.
    batches: Py<PyAny>,
    pages: u64,
    /// Pages below are private memory, those from here on the file's.
    anonymous: u64,
    /// Steps of the current batch, the last first.
    left: Vec<Step>,
}

/// The rest of a batch.
enum Step {
    Runs { runs: Vec<Run>, operations: u64 },
    Sleep(Duration),
}

/// One batch: columns of a length, the operations that are complete with it, and the sleep after it.
type Columns<'py> = (
    PyReadonlyArray1<'py, u64>,
    PyReadonlyArray1<'py, u32>,
    PyReadonlyArray1<'py, bool>,
    PyReadonlyArray1<'py, u32>,
    bool,
    u64,
    u64,
);

impl PythonStream {
    /// Takes the next batch from Python; `false` at the end.
    fn take(&mut self, py: Python<'_>) -> PyResult<bool> {
        let next = self.batches.call0(py)?;
        if next.is_none(py) {
            return Ok(false);
        }
        let (page, pages, write, think_ns, by_descriptor, operations, sleep_ns): Columns<'_> = next.extract(py)?;
        let columns = page.as_array().into_iter().zip(pages.as_array()).zip(write.as_array()).zip(think_ns.as_array());
        let mut runs = Vec::with_capacity(page.as_array().len());
        for (((&page, &pages), &write), &think_ns) in columns {
            let fits = pages > 0 && page.checked_add(u64::from(pages)).is_some_and(|end| end <= self.pages);
            if !fits {
                let words = format!("{pages} pages from page {page}; allowed: 1 and more, below page {}", self.pages);
                return Err(PyValueError::new_err(words));
            }
            if by_descriptor && page < self.anonymous {
                let words =
                    format!("page {page} by descriptor; allowed: pages of the file, from {} on", self.anonymous);
                return Err(PyValueError::new_err(words));
            }
            let run = if write { Run::write(page, pages) } else { Run::read(page, pages) };
            let channel = if by_descriptor { Channel::FileDescriptor } else { Channel::PageTable };
            runs.push(run.after_ns(think_ns).through(channel));
        }
        if sleep_ns > 0 {
            self.left.push(Step::Sleep(Duration::from_ns(sleep_ns)));
        }
        runs.reverse();
        self.left.push(Step::Runs { runs, operations });
        Ok(true)
    }
}

impl Stream for PythonStream {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        loop {
            match self.left.last_mut() {
                Some(Step::Sleep(sleep)) => {
                    let sleep = *sleep;
                    self.left.pop();
                    return Ok(After::Sleep(sleep));
                }
                Some(Step::Runs { runs, operations }) => {
                    let rest = runs.len().saturating_sub(RUNS);
                    batch.runs.extend(runs.drain(rest..).rev());
                    if rest == 0 {
                        batch.operations = *operations;
                        self.left.pop();
                    }
                    return Ok(After::Continue);
                }
                None => {
                    let taken = Python::attach(|py| self.take(py).map_err(|raised| words_of(py, &raised)))?;
                    if !taken {
                        return Ok(After::Finish);
                    }
                }
            }
        }
    }
}
