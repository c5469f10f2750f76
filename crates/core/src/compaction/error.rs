//! Why a design is refused.

/// The fault of a setting or a request, and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// A value that is invalid, by itself or together with the others.
    #[error("`{place}` is {got}; allowed: {allowed}")]
    OutOfRange {
        place: String,
        got: String,
        /// The values it may have.
        allowed: String,
    },
}

impl CompactionError {
    pub(crate) fn out_of_range(
        place: impl Into<String>,
        got: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self::OutOfRange { place: place.into(), got: got.to_string(), allowed: allowed.into() }
    }
}
