//! Errors as exceptions, with the words that the command has for them.

use isotherm_scenario::ScenarioError as EngineScenarioError;
use isotherm_trace::TraceError as EngineTraceError;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyFileNotFoundError, PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use std::error::Error as _;
use std::io::ErrorKind;

create_exception!(
    isotherm,
    Error,
    PyException,
    "What isotherm cannot do, in words: what is wrong, where, and the way out."
);
create_exception!(isotherm, ScenarioError, Error, "A scenario that cannot be read or played.");
create_exception!(isotherm, TraceError, Error, "A page trace or region record that cannot be read or written.");

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("ScenarioError", py.get_type::<ScenarioError>())?;
    module.add("TraceError", py.get_type::<TraceError>())
}

/// An error with all its causes, as the command prints it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        // Some messages hold their cause already.
        let words = next.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = next.source();
    }
    text
}

/// As an exception. Interrupts are those of Python.
pub(crate) fn of_scenario(error: &EngineScenarioError) -> PyErr {
    match error {
        EngineScenarioError::Stopped => PyKeyboardInterrupt::new_err(()),
        EngineScenarioError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(chain(error))
        }
        _ => ScenarioError::new_err(chain(error)),
    }
}

/// As an exception: for missing files Python's own.
pub(crate) fn of_trace(error: &EngineTraceError) -> PyErr {
    let cause = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    match cause {
        Some(cause) if cause.kind() == ErrorKind::NotFound => PyFileNotFoundError::new_err(chain(error)),
        _ => TraceError::new_err(chain(error)),
    }
}

/// An argument that is not allowed; `what` names it.
pub(crate) fn argument(what: &str, words: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{what}: {words}"))
}
