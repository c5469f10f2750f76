//! Policies and workloads that this process has registered, for one call.

use crate::error::argument;
use crate::policy::PythonPolicy;
use crate::workload::PythonWorkload;
use isotherm_scenario::Extensions;
use pyo3::prelude::*;
use std::sync::Arc;

/// Policies and workloads by name: callables that make them. The registry itself is Python's, and passed with each call.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Registered {
    policies: Vec<(String, Py<PyAny>)>,
    workloads: Vec<(String, Py<PyAny>)>,
}

impl Registered {
    pub(crate) fn extensions(self) -> PyResult<Extensions> {
        let mut extensions = Extensions::default();
        for (name, make) in self.policies {
            let added = extensions.policies.add(Arc::new(PythonPolicy { name, make }));
            added.map_err(|refused| argument("policy", refused))?;
        }
        for (name, make) in self.workloads {
            extensions.workloads.add(Arc::new(PythonWorkload { name, make }));
        }
        Ok(extensions)
    }
}
