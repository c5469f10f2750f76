//! Decisions with their inputs, so that every start and every wait can be explained afterwards.

use crate::host::NodeId;
use crate::host::{CompactionSignals, ZoneId, ZoneState};
use crate::vocabulary::{FreeBlocks, MAX_ORDERS};
use isotherm_units::Instant;

/// A check of a node: the numbers that were read, and the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub at: Instant,
    pub node: NodeId,
    /// The order that `free_blocks` and `extfrag` refer to.
    pub order: u32,
    /// Free base pages of all zones of the node.
    pub free_pages: u64,
    /// Free blocks of the order. Without it extfrag is hard to interpret: it is a share of free memory, and swings with reclaim.
    pub free_blocks: u64,
    /// Percent of free pages that lie in blocks smaller than `order`.
    pub extfrag: u32,
    /// The node's fragmentation score, 0 to 100; only `merged` sets it, otherwise 0.
    pub score: u32,
    /// Blocks that should be free; only `controller` sets it, otherwise 0.
    pub demand: u64,
    /// Blocks that compaction is predicted to free; only `controller` sets it, otherwise 0.
    pub predicted_yield: u64,
    /// How busy the node is; all 0 if the design does not ask.
    pub signals: CompactionSignals,
    /// Whether compaction starts, or why it does not.
    pub verdict: Verdict,
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Compaction of these zones, one after the other.
    Start(Vec<ZoneId>),
    /// Nothing is done, for this reason.
    Hold(Hold),
}

/// Why nothing is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Memory is not fragmented enough, or enough blocks are free.
    Enough,
    /// Earlier attempts failed, and the order is deferred for now.
    Deferred,
    /// kswapd of the node is reclaiming.
    Reclaiming,
    /// Too many tasks wait for CPUs.
    Busy,
    /// The last run gained too little; a pause that doubles.
    BackingOff,
    /// No block is predicted to become free.
    NoYield,
    /// The host reports no data from which a yield could be predicted.
    YieldUnknown,
}

impl Decision {
    /// A check of `zones` that starts nothing.
    pub(super) fn of_zones(at: Instant, node: NodeId, order: u32, zones: &[ZoneState]) -> Self {
        let all = together(zones);
        Self {
            at,
            node,
            order,
            free_pages: all.pages(),
            free_blocks: all.suitable(order),
            extfrag: all.extfrag(order),
            score: 0,
            demand: 0,
            predicted_yield: 0,
            signals: CompactionSignals::default(),
            verdict: Verdict::Hold(Hold::Enough),
        }
    }
}

/// Free blocks of all zones. None if together they would be more than any machine has.
fn together(zones: &[ZoneState]) -> FreeBlocks {
    let mut counts = [0_u64; MAX_ORDERS];
    for zone in zones {
        for (sum, count) in counts.iter_mut().zip(zone.blocks.counts()) {
            *sum += count;
        }
    }
    FreeBlocks::new(&counts).unwrap_or_else(|_| FreeBlocks::new(&[0]).expect("no blocks are in range"))
}
