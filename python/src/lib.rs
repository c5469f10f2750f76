//! The native part of the Python package `isotherm`, which needs the engine. People import the package in `isotherm/`; its
//! modules document these functions, with shapes and units. No decision about memory is made here.

mod advice;
mod arrow;
mod error;
mod extensions;
mod policy;
mod region;
mod report_table;
mod scenario;
mod sweep;
mod trace;
mod waiting;
mod workload;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::add_to(module)?;
    arrow::add_to(module)?;
    trace::add_to(module)?;
    region::add_to(module)?;
    scenario::add_to(module)?;
    sweep::add_to(module)?;
    policy::add_to(module)?;
    advice::add_to(module)
}
