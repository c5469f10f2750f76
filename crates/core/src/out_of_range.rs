//! A refused value, the same for all engines.

use std::fmt::Display;

/// A value outside its limits, by itself or together with others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{place}` is {got}; allowed: {allowed}")]
pub struct OutOfRange {
    /// The key, with the number of the entry in lists.
    pub place: String,
    pub got: String,
    /// The values it may have.
    pub allowed: String,
}

impl OutOfRange {
    pub fn new(place: impl Into<String>, got: impl Display, allowed: impl Into<String>) -> Self {
        Self { place: place.into(), got: got.to_string(), allowed: allowed.into() }
    }
}
