//! Why a design is refused.

/// What is wrong with a setting or a request, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefragError {
    /// A value that makes no sense, alone or beside the others.
    #[error("`{place}` is {got}; allowed: {allowed}")]
    OutOfRange {
        /// The key.
        place: String,
        /// Its value.
        got: String,
        /// The values it may have.
        allowed: String,
    },
}

impl DefragError {
    pub(crate) fn out_of_range(
        place: impl Into<String>,
        got: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self::OutOfRange { place: place.into(), got: got.to_string(), allowed: allowed.into() }
    }
}
