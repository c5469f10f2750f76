//! Why monitoring cannot be set up. Later errors are reported in each [`Tick`](super::Tick).

use super::ranges::RangesError;
use crate::OutOfRange;
use crate::host::TargetId;
use crate::schemes::SchemeError;

/// Why a context cannot be made, or a target not be monitored. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// An invalid value.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// There is no strategy of this name.
    #[error("unknown strategy `{name}`; allowed: {allowed}")]
    UnknownStrategy {
        name: String,
        /// The known names, separated by commas.
        allowed: String,
    },
    /// The ranges of a target cannot be monitored.
    #[error("target {}: {source}", target.0)]
    Ranges {
        target: TargetId,
        /// Fault of the ranges.
        source: RangesError,
    },
    /// This kind of target has no ranges of its own.
    #[error("target {}: `{operations}` needs ranges to monitor", target.0)]
    RangesMissing {
        target: TargetId,
        /// Name of the operations set, such as `fvaddr`.
        operations: &'static str,
    },
    /// A context of physical memory has one target.
    #[error("target {}: physical memory is one target; allowed: no second one in a context", .0.0)]
    SecondPhysicalTarget(TargetId),
    /// A target of this number is in the context already.
    #[error("target {} is in this context already", .0.0)]
    TargetTwice(TargetId),
    /// An entry to remove has no target at its place.
    #[error("target entry {index} takes away a target, but the context has only {nr_targets}")]
    NothingToTakeAway {
        /// Position of the entry in the list, from 0.
        index: usize,
        nr_targets: usize,
    },
    #[error("schemes[{index}]: {source}")]
    Scheme {
        /// Position of the scheme in the list, from 0.
        index: usize,
        /// Fault of the scheme.
        source: SchemeError,
    },
    /// The host reports that it lacks a feature that the configuration needs.
    #[error("target {}: `{what}` is not available here: {needs}", target.0)]
    NotHere { target: TargetId, what: &'static str, needs: &'static str },
    /// The host described page tables that cannot exist.
    #[error("target {}: the host's page-table shifts {shifts:?} with highest level {highest} make no sense", target.0)]
    BadLevels {
        target: TargetId,
        /// log2 of the bytes of an entry, by level, as the host reported them.
        shifts: Vec<u8>,
        /// The highest usable level, as the host reported it.
        highest: u8,
    },
}
