//! Errors with which a host refuses a call.

use super::TargetId;
use thiserror::Error;

/// A request that a host did not meet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// The target has ended; the driver drops it.
    #[error("target {} has ended", .0.0)]
    Gone(TargetId),
    /// This host has no such call; the text names the feature that it would need.
    #[error("not available here: {0}")]
    NotHere(&'static str),
    /// The host tried and failed, for this reason.
    #[error("{0}")]
    Failed(String),
}
