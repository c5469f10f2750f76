//! Page-replacement policies whose decisions a Python object makes.

use crate::error::{Error, argument};
use crate::waiting::interruptible;
use isotherm_kernel::reclaim::conformance::{self, Candidate};
use isotherm_kernel::reclaim::external_policy::{Outside, PageEvents, PolicyMaker, VictimPicker};
use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(conform, module)?)
}

/// A registered policy: the callable that makes one for each machine.
#[derive(Debug)]
pub(crate) struct PythonPolicy {
    pub(crate) name: String,
    pub(crate) make: Py<PyAny>,
}

impl PolicyMaker for PythonPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn make(&self) -> Result<Box<dyn VictimPicker>, String> {
        Python::attach(|py| {
            let made = self.make.call0(py).and_then(|policy| PythonChooser::new(py, policy));
            made.map(|chooser| Box::new(chooser) as Box<dyn VictimPicker>).map_err(|raised| words_of(py, &raised))
        })
    }
}

/// An exception with the line it comes from, as Python would print it at the end.
pub(crate) fn words_of(py: Python<'_>, raised: &PyErr) -> String {
    let kind = raised.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    let place = raised.traceback(py).and_then(|traceback| {
        let mut last = traceback.into_any();
        while let Some(next) = last.getattr("tb_next").ok().filter(|next| !next.is_none()) {
            last = next;
        }
        let line: u64 = last.getattr("tb_lineno").ok()?.extract().ok()?;
        let file: String =
            last.getattr("tb_frame").ok()?.getattr("f_code").ok()?.getattr("co_filename").ok()?.extract().ok()?;
        Some(format!(" ({file}:{line})"))
    });
    format!("it raised {kind}: {}{}", raised.value(py), place.unwrap_or_default())
}

/// The object that decides for one machine.
struct PythonChooser {
    tell: Py<PyAny>,
    choose: Py<PyAny>,
    wants_touches: bool,
    ahead: usize,
}

impl PythonChooser {
    fn new(py: Python<'_>, policy: Py<PyAny>) -> PyResult<Self> {
        let ahead: usize = policy.getattr(py, "ahead")?.extract(py)?;
        if ahead == 0 {
            return Err(PyValueError::new_err("`ahead` is 0; allowed: 1 or more"));
        }
        Ok(Self {
            wants_touches: policy.getattr(py, "wants_touches")?.extract(py)?,
            ahead,
            tell: policy.getattr(py, "observe")?,
            choose: policy.getattr(py, "victims")?,
        })
    }
}

impl VictimPicker for PythonChooser {
    fn wants_touches(&self) -> bool {
        self.wants_touches
    }

    fn ahead(&self) -> usize {
        self.ahead
    }

    fn tell(&mut self, events: PageEvents) -> Result<(), String> {
        Python::attach(|py| {
            let PageEvents { kind, page, list, distance } = events;
            let columns =
                (kind.into_pyarray(py), page.into_pyarray(py), list.into_pyarray(py), distance.into_pyarray(py));
            self.tell.call1(py, columns).map(drop).map_err(|raised| words_of(py, &raised))
        })
    }

    fn choose(&mut self, count: usize, lists: &[u32]) -> Result<Vec<u32>, String> {
        Python::attach(|py| {
            let lists = PyArray1::from_slice(py, lists);
            let chosen = self.choose.call1(py, (count, lists)).map_err(|raised| words_of(py, &raised))?;
            pages_of(chosen.bind(py)).map_err(|raised| format!("`victims` returned {}", raised.value(py)))
        })
    }
}

/// Page numbers as an array of the type that pages have, or of any other whole numbers.
fn pages_of(chosen: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    if let Ok(pages) = chosen.extract::<PyReadonlyArray1<'_, u32>>() {
        return Ok(pages.as_array().to_vec());
    }
    if let Ok(pages) = chosen.extract::<PyReadonlyArray1<'_, i64>>() {
        let number = |&page: &i64| {
            u32::try_from(page)
                .map_err(|_| PyValueError::new_err(format!("page {page}; allowed: numbers of pages it was told of")))
        };
        return pages.as_array().iter().map(number).collect();
    }
    chosen.extract::<Vec<u32>>().map_err(|_| {
        let what = chosen.get_type().name().map_or_else(|_| "something".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("{what}; allowed: an array of page numbers (uint32 or int64), or a list of them"))
    })
}

/// Checks a policy by the suite that those of the simulator pass, in `histories` random histories.
#[pyfunction]
fn conform(py: Python<'_>, name: String, make: Py<PyAny>, histories: u32) -> PyResult<()> {
    let maker = PythonPolicy { name, make };
    // That it can be made at all is checked with its own message.
    maker.make().map_err(|why| argument("policy", why))?;
    let found = interruptible(py, None, |_| {
        let make = || {
            let chooser = maker.make().unwrap_or_else(|why| panic!("{why}"));
            Box::new(Outside::new(&maker.name, chooser)) as Box<dyn isotherm_kernel::reclaim::ReclaimPolicy>
        };
        conformance::check(Candidate { name: &maker.name, make: &make }, histories)
    })?;
    found.map_err(Error::new_err)
}
