//! Errors of configurations.

use thiserror::Error;

/// A value that a tool refuses, with the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{key}` is {got}; allowed: {allowed}")]
pub struct GenerationsError {
    /// The key in files, such as `interval`.
    pub key: &'static str,
    pub got: String,
    /// The allowed values, as text.
    pub allowed: String,
}

impl GenerationsError {
    pub(crate) fn new(key: &'static str, got: impl ToString, allowed: impl Into<String>) -> Self {
        Self { key, got: got.to_string(), allowed: allowed.into() }
    }
}
