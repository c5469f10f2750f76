//! Why a scheme is refused.

/// The fault of a scheme, its place, and the allowed values there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// A value that is invalid, by itself or together with the others.
    #[error("`{place}` is {got}; allowed: {allowed}")]
    OutOfRange {
        /// The key, with the number of the entry in lists.
        place: String,
        got: String,
        /// The values it may have.
        allowed: String,
    },
    /// The host cannot do it for this target.
    #[error("`{place}` is {got}, which is not available here; available: {available}")]
    NotHere {
        place: String,
        /// The value that was asked for.
        got: String,
        available: String,
    },
    /// The host has no memory cgroup of this path.
    #[error("`{place}` is \"{path}\"; there is no memory cgroup of that path here")]
    UnknownMemcg { place: String, path: String },
}

impl SchemeError {
    pub(crate) fn out_of_range(
        place: impl Into<String>,
        got: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self::OutOfRange { place: place.into(), got: got.to_string(), allowed: allowed.into() }
    }
}
