//! Why the scan daemon cannot be set up, or a knob not be set. Nothing was changed.

use crate::OutOfRange;
use crate::host::{NodeId, TargetId};

/// The fault, its place, and the allowed values there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromotionError {
    /// A value outside its limits, or a value that the mode ignores.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// There is nowhere to promote to, or from.
    #[error("no {tier} node has memory, so there is nothing to promote; this host has {nodes}")]
    OneTier {
        /// The tier that is missing: `fast` or `slow`.
        tier: &'static str,
        nodes: String,
    },
    /// Pages cannot be promoted to that node.
    #[error("`target-node` is {}, which {why}; allowed: {allowed}", node.0)]
    TargetNode {
        node: NodeId,
        /// Why it is refused, as the end of a sentence.
        why: &'static str,
        /// The nodes that are allowed.
        allowed: String,
    },
    /// The host lacks what the daemon needs.
    #[error("mode `{mode}` is not available here: {needs}")]
    NotHere { mode: &'static str, needs: &'static str },
    /// The space is known already, or not at all.
    #[error("space {} {why}", target.0)]
    Space {
        target: TargetId,
        /// Why it is refused, as the end of a sentence.
        why: &'static str,
    },
    /// The kernel has no such knob.
    #[error("ENOENT: no knob `{name}`; there are: {allowed}")]
    UnknownKnob {
        name: String,
        /// The known names, separated by commas.
        allowed: String,
    },
    /// The kernel refuses the text that was written to a knob.
    #[error("EINVAL: `{knob}` refuses `{text}`; allowed: {allowed}")]
    Knob {
        knob: &'static str,
        text: String,
        /// The values that the knob takes.
        allowed: String,
    },
}
