//! Compaction: how fragmented zones are, how busy the machine is, and steps of compaction.

use super::HostError;
use crate::vocabulary::{FreeBlocks, MAX_ORDERS, Marks, NodeId};
use isotherm_units::Duration;

/// Reports how scattered free memory is, and compacts it. Calls that a host does not implement answer "not here".
pub trait Compacting {
    /// How far [`compact`](Self::compact) can be aimed; `None` where there is no compaction.
    fn compaction_granularity(&self) -> Option<Granularity> {
        None
    }

    /// Appends the zones that have memory, ordered by node, then from low addresses to high.
    ///
    /// # Errors
    /// [`HostError::NotHere`] where free memory is not known by zone and order.
    fn zones(&mut self, _out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell free blocks of its zones"))
    }

    /// How busy a node is.
    ///
    /// # Errors
    /// [`HostError::NotHere`] where that is not known.
    fn compaction_signals(&mut self, _node: NodeId) -> Result<CompactionSignals, HostError> {
        Err(HostError::NotHere("this host does not tell how busy its nodes are"))
    }

    /// Compacts a zone some way: pages in use move to its top, so that free ones join at its bottom. Tests [`CompactStep::stop`] before
    /// each batch, the first too. Returns the work done, and whether there is more to do. A host that cannot stop after a number of pages
    /// goes on between two calls, until the mark is reached at one of them, or [`cease`](Self::cease) is called.
    ///
    /// # Errors
    /// [`HostError::NotHere`], [`HostError::Failed`]: nothing was done.
    fn compact(&mut self, _step: &CompactStep) -> Result<Compacted, HostError> {
        Err(HostError::NotHere("this host does not compact"))
    }

    /// Ends work that steps on a node have begun and that goes on without them. Does nothing if a step ends with its call.
    fn cease(&mut self, _node: NodeId) {}
}

/// A zone: its node, and its number there from the lowest addresses up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId {
    pub node: NodeId,
    /// 0 for the lowest that has memory.
    pub zone: u8,
}

impl std::fmt::Display for ZoneId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {}, zone {}", self.node.0, self.zone)
    }
}

/// The present state of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneState {
    pub id: ZoneId,
    /// Free blocks by order, of all migrate types together.
    pub blocks: FreeBlocks,
    /// Pages that are there: the weight of the zone's score.
    pub present: u64,
    /// Watermarks of the zone, in pages.
    pub marks: Marks,
    /// Free blocks of migrate type Movable; `None` where types are not known.
    pub movable: Option<FreeBlocks>,
    /// [`predicted_yield`](crate::compaction::predicted_yield) from the contents of each page block; `None` if they cannot be known.
    pub exact_yield: Option<u64>,
}

/// Signals of how busy a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionSignals {
    /// kswapd of the node is at work.
    pub is_reclaiming: bool,
    /// kswapd is not at work now, but was since the last query: known to a host that counts scanned pages.
    pub has_reclaimed: bool,
    /// Huge pages that were asked for since some fixed time, obtained or not.
    pub huge_wanted: u64,
    /// Share of the last ten seconds in which some task waited for a CPU, in hundredths of a percent.
    pub cpu_pressure_bp: u32,
}

/// How far compaction can be aimed on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Granularity {
    /// All nodes at once, for huge pages.
    System,
    /// One node at a time, with all its zones.
    Node,
    /// A zone, down to a level for an order.
    Zone,
}

/// Events that compaction may wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactMode {
    /// Waits for locks of pages, but not for write-back.
    #[default]
    SyncLight,
    /// Waits for locks of pages and for write-back.
    Sync,
}

/// When a zone is compacted far enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It ends only when the scanners meet.
    Never,
    /// extfrag of `order` is `low` percent or less.
    Order {
        /// log2 of the pages of a block.
        order: u32,
        /// Percent, 0 to 100.
        low: u32,
    },
    /// extfrag of each order is at most its percentage; orders from 0 up.
    Orders([u32; MAX_ORDERS]),
    /// At least `count` blocks of `order` are free.
    Blocks {
        /// log2 of the pages of a block.
        order: u32,
        count: u64,
    },
}

impl Stop {
    /// Whether it is. `in_flight`: pages that the compaction holds for pages to move into, to be counted as free.
    pub fn is_reached(&self, blocks: &FreeBlocks, in_flight: u64) -> bool {
        match *self {
            Self::Never => false,
            Self::Order { order, low } => blocks.extfrag_with(order, in_flight) <= low,
            Self::Orders(low) => {
                (0..).zip(low).all(|(order, low)| low >= 100 || blocks.extfrag_with(order, in_flight) <= low)
            }
            Self::Blocks { order, count } => blocks.suitable(order) >= count,
        }
    }
}

/// Some compaction of one zone: a bounded piece of work, so that the caller keeps its pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactStep {
    pub zone: ZoneId,
    /// Start at the ends of the zone. Otherwise the step starts where the last step in this zone stopped.
    pub is_first: bool,
    /// Events that the move may wait for.
    pub mode: CompactMode,
    /// When the zone is compacted far enough.
    pub stop: Stop,
    /// Pages in flight count as free when `stop` is tested. The kernel does not count them.
    pub counts_in_flight: bool,
    /// The step ends as soon as kswapd of the node reclaims.
    pub stops_for_reclaim: bool,
    /// Pages to scan for sources; the step ends at the next boundary of a page block.
    pub max_scanned: u64,
    /// Pages to move; the last batch may exceed it.
    pub max_moved: u64,
}

/// Why a zone's compaction is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactEnd {
    /// [`CompactStep::stop`] is reached.
    Reached,
    /// The scanners met: the whole zone was scanned.
    ScannersMet,
    /// There is no free page to move pages into.
    NoTargets,
    /// kswapd of the node is reclaiming.
    Reclaiming,
    /// Locks were held by others.
    Contended,
}

/// Waits of tasks for pages that were being moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Number of waits.
    pub count: u64,
    /// Sum of all waits.
    pub total: Duration,
    pub longest: Duration,
    /// Waits by length: entry n counts waits of 2^n up to 2^(n+1) microseconds, the first also shorter ones, the last also longer ones.
    pub histogram: [u64; 20],
}

impl Stalls {
    pub fn add(&mut self, wait: Duration) {
        self.count += 1;
        self.total = Duration::from_ns(self.total.ns().saturating_add(wait.ns()));
        self.longest = self.longest.max(wait);
        let bucket = (wait.ns() / 1000).checked_ilog2().unwrap_or(0) as usize;
        self.histogram[bucket.min(self.histogram.len() - 1)] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total = Duration::from_ns(self.total.ns().saturating_add(other.total.ns()));
        self.longest = self.longest.max(other.longest);
        for (sum, count) in self.histogram.iter_mut().zip(other.histogram) {
            *sum += count;
        }
    }
}

/// The result of a step; counts are of this step only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// `None`: there is more to do, it stopped at a limit of the step.
    pub end: Option<CompactEnd>,
    pub pages_moved: u64,
    /// Pages that the migration scanner checked for pages to move.
    pub scanned_migrate: u64,
    /// Pages that the free scanner checked for free pages.
    pub scanned_free: u64,
    /// Page blocks that became wholly free.
    pub blocks_freed: u64,
    /// Page blocks scanned that stay in use because of pages that never move.
    pub blocks_spoiled_unmovable: u64,
    /// Page blocks scanned that stay in use because of movable pages that are pinned just now.
    pub blocks_spoiled_pinned: u64,
    /// CPU time of the thread that compacts.
    pub cpu: Duration,
    /// Waits of other tasks for the pages that were moved.
    pub stalls: Stalls,
}

impl Compacted {
    /// Adds another step; `end` becomes the other's.
    pub fn merge(&mut self, other: &Self) {
        self.end = other.end;
        self.pages_moved += other.pages_moved;
        self.scanned_migrate += other.scanned_migrate;
        self.scanned_free += other.scanned_free;
        self.blocks_freed += other.blocks_freed;
        self.blocks_spoiled_unmovable += other.blocks_spoiled_unmovable;
        self.blocks_spoiled_pinned += other.blocks_spoiled_pinned;
        self.cpu = Duration::from_ns(self.cpu.ns().saturating_add(other.cpu.ns()));
        self.stalls.merge(&other.stalls);
    }

    /// Blocks that were tried: freed or found spoilt.
    pub const fn blocks_tried(&self) -> u64 {
        self.blocks_freed + self.blocks_spoiled_unmovable + self.blocks_spoiled_pinned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::{blocks_of as blocks, stride};

    #[test]
    fn it_stops_at_the_mark_and_not_above() {
        // 512 loose pages next to one huge page: 50 percent.
        let half = blocks(&[512, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let stops = |stop: Stop, in_flight| stop.is_reached(&half, in_flight);
        assert!(stops(Stop::Order { order: 9, low: 50 }, 0) && !stops(Stop::Order { order: 9, low: 49 }, 0));
        assert!(!stops(Stop::Order { order: 9, low: 50 }, 100), "pages in flight are fragmented, too");
        assert!(stops(Stop::Blocks { order: 9, count: 1 }, 0) && !stops(Stop::Blocks { order: 9, count: 2 }, 0));
        assert!(!stops(Stop::Never, 0));
        let mut low = [100; MAX_ORDERS];
        assert!(stops(Stop::Orders(low), 0), "100 is never exceeded");
        low[9] = 50;
        assert!(stops(Stop::Orders(low), 0));
        low[1] = 49;
        assert!(!stops(Stop::Orders(low), 0), "half of it lies in single pages");
    }

    /// docs/spec/compaction.md#s11, E19: what the score is while 224 pages are in flight.
    #[test]
    fn e19_pages_in_flight_count_as_free_or_not() {
        let zone = stride(8);
        assert_eq!(zone.pages(), 3072);
        let without = blocks(&[2848]);
        assert_eq!((without.extfrag(9), without.extfrag_with(9, 224)), (100, 100));
        // The second scan: five pieces of a block and one whole block, 128 pages in flight.
        let second = blocks(&[2432, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((second.pages(), second.extfrag(9), second.extfrag_with(9, 128)), (2944, 82, 83));
    }

    #[test]
    fn stalls_are_counted_by_length() {
        let mut stalls = Stalls::default();
        for ns in [0, 999, 1000, 1999, 2000, 1_000_000, u64::MAX] {
            stalls.add(Duration::from_ns(ns));
        }
        assert_eq!((stalls.count, stalls.longest), (7, Duration::MAX));
        let found: Vec<(usize, u64)> =
            stalls.histogram.iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
        assert_eq!(found, [(0, 4), (1, 1), (9, 1), (19, 1)]);
        let mut twice = stalls;
        twice.merge(&stalls);
        assert_eq!((twice.count, twice.total, twice.histogram[0]), (14, Duration::MAX, 8));
    }
}
