//! Why a scheme is refused.

use crate::OutOfRange;

/// The fault of a scheme, its place, and the allowed values there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// An invalid value.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
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
