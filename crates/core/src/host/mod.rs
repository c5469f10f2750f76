//! What the core asks of the memory it manages: the narrow table between decisions and the world.
//!
//! Calls are batched: one call a tick and target, not one an address. Addresses are bytes (`u64`) in the space of the
//! target: virtual addresses of a process, or physical addresses. A host charges the CPU time of what it is asked to
//! whoever runs the core (in the simulated machine: the kernel thread that monitors).

mod address;
mod defrag;
mod error;
mod generations;
mod monitor;
mod schemes;
mod tiering;

pub use crate::generations::{Ageing, Eviction, Listing, Lruvec};
pub use crate::promotion::{Flow, PageMarks, ScanGate, ScannedPage};
pub use crate::schemes::{Action, Destination, FilterType, Metric, PageFilter, PageGate, PageTest};
pub use address::{AddressRange, Level, NodeId, Probe, Seen, Sight, TargetId};
pub use defrag::{
    BlocksLook, CompactEnd, CompactMode, CompactStep, Compacted, DefragSignals, Granularity, MoveBatch, PageBlock,
    PageSight, Stalls, Stop, ZoneId, ZoneState,
};
pub use error::HostError;
pub use generations::{Answer, GenerationCapabilities};
pub use monitor::{Attribute, Capabilities};
pub use schemes::{Applied, Gauge, Order, SchemeCapabilities};
pub use tiering::{Area, AreaKind, MoveOrder, NodeMemory, PageMove, Scanned, TierNode, TieringCapabilities};

use generations::NO_GENERATIONS;
use isotherm_units::Duration;

/// Bytes of a base page, as a power of two.
const PAGE_SHIFT: u8 = 12;
const NO_LOOKS: &str = "this host does not look at accessed bits";

/// The world. A host answers what it has; the rest is "not here".
pub trait Host {
    /// What this host can do for monitors of `target`. By default it has base pages and looks at none.
    fn capabilities(&self, _target: TargetId) -> Capabilities {
        Capabilities { shifts: vec![PAGE_SHIFT], highest_level: Level(0), flush: false, scan_children: false }
    }

    /// Appends the mapped ranges of a virtual target, ascending and disjoint; adjacent ones may stay apart.
    ///
    /// # Errors
    /// [`HostError::Gone`] once the process has ended; [`HostError::NotHere`] for physical memory.
    fn mappings(&mut self, _target: TargetId, _out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell what processes map"))
    }

    /// Clears the accessed bit of each probed entry. `sights[i]` says what it was before, as far as the host read it.
    /// `sights` has the length of `probes`.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`]; then nothing was cleared.
    fn clear(&mut self, _target: TargetId, _probes: &[Probe], _sights: &mut [Sight]) -> Result<(), HostError> {
        Err(HostError::NotHere(NO_LOOKS))
    }

    /// Reads the accessed bit of each probed entry and leaves it as it is, so that two probes of one entry see the same.
    /// `sights` has the length of `probes`.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`]; then no sight is valid.
    fn test(&mut self, _target: TargetId, _probes: &[Probe], _sights: &mut [Sight]) -> Result<(), HostError> {
        Err(HostError::NotHere(NO_LOOKS))
    }

    /// Reads and clears the accessed bits of all entries one level below the entry at `parent`, in one pass over its
    /// table: appends one bit a child, in address order, 64 a word. A child that is not mapped reads as clear.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn scan_children(&mut self, _target: TargetId, _parent: Probe, _out: &mut Vec<u64>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not look at whole tables"))
    }

    /// Drops the cached translations of `target`, so that the next access to any page walks the table from the top.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn flush(&mut self, _target: TargetId) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not drop translations"))
    }

    /// How far [`compact`](Self::compact) can be aimed; `None` where there is no compaction.
    fn compaction_granularity(&self) -> Option<Granularity> {
        None
    }

    /// Appends the zones that have memory, ordered by node, then from low addresses to high.
    ///
    /// # Errors
    /// [`HostError::NotHere`] where free memory is not told by zone and order.
    fn zones(&mut self, _out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell free blocks of its zones"))
    }

    /// How busy a node is.
    ///
    /// # Errors
    /// [`HostError::NotHere`] where that is not told.
    fn defrag_signals(&mut self, _node: NodeId) -> Result<DefragSignals, HostError> {
        Err(HostError::NotHere("this host does not tell how busy its nodes are"))
    }

    /// Compacts a zone some way: pages in use move to its top, so that free ones join at its bottom. Tests
    /// [`CompactStep::stop`] before each batch, the first too. What it did, and whether there is more to do.
    ///
    /// # Errors
    /// [`HostError::NotHere`], [`HostError::Failed`]: nothing was done.
    fn compact(&mut self, _step: &CompactStep) -> Result<Compacted, HostError> {
        Err(HostError::NotHere("this host does not compact"))
    }

    /// Appends all page blocks of a zone, from the lowest up, with what they hold and how many of their pages are in use. Like
    /// a monitor's, the look leaves marks so that reclaim does not take pages for unused whose bits were cleared.
    ///
    /// # Errors
    /// [`HostError::NotHere`] where it is not told what blocks hold.
    fn page_blocks(&mut self, _look: &BlocksLook, _out: &mut Vec<PageBlock>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell what page blocks hold"))
    }

    /// Appends the pages of a block, from the lowest up; with `clears`, the accessed bits of movable ones are cleared.
    ///
    /// # Errors
    /// [`HostError::NotHere`]. [`HostError::Failed`]: there is no such block.
    fn block_pages(
        &mut self,
        _zone: ZoneId,
        _block: u32,
        _clears: bool,
        _out: &mut Vec<PageSight>,
    ) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell what page blocks hold"))
    }

    /// Moves some pages out of a block, in one batch. [`Compacted::end`] is [`CompactEnd::NoTargets`] if there was no room for
    /// some of them, and `None` otherwise; [`Compacted::pages_moved`] and [`Compacted::blocks_freed`] tell how it went. Pages
    /// that could not be moved stay where they are.
    ///
    /// # Errors
    /// [`HostError::NotHere`]. [`HostError::Failed`]: there is no such block, or it is among the targets; nothing was moved.
    fn move_pages(&mut self, _batch: &MoveBatch<'_>) -> Result<Compacted, HostError> {
        Err(HostError::NotHere("this host does not move single pages"))
    }

    /// For each address whether the page there has `attribute`; `None` where there is no page. Physical memory only.
    /// `out` has the length of `addresses`.
    ///
    /// # Errors
    /// [`HostError::NotHere`] for virtual targets.
    fn has_attribute(
        &mut self,
        _target: TargetId,
        _attribute: Attribute,
        _addresses: &[u64],
        _out: &mut [Option<bool>],
    ) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell attributes of pages"))
    }

    /// What this host can do for schemes on `target`.
    fn scheme_capabilities(&self, _target: TargetId) -> SchemeCapabilities {
        SchemeCapabilities::default()
    }

    /// Does one action with one range of a target, with as many pages of it as pass the gate.
    ///
    /// | action | target | what is done | bytes |
    /// |---|---|---|---|
    /// | `stat` | both | nothing; the gate is asked for each folio | 0 |
    /// | `willneed`, `cold`, `pageout`, `hugepage`, `nohugepage`, `collapse` | process | `madvise` of that name; the gate is not asked | the whole range if it succeeded, else 0 |
    /// | `pageout` | physical | referenced and young marks cleared, taken off the list (an unevictable folio is put back), reclaimed with writeback, unmapping and swap, never demoted | reclaimed |
    /// | `lru-prio` | physical | two lists: an inactive folio goes to the head of its active list, `referenced` stays as it is; an active one stays where it is. Generations: inserted anew at the second youngest, with the workingset mark at the youngest | all that passed and stand on a list, also where nothing moved |
    /// | `lru-deprio` | physical | two lists: an active folio goes to the head of the inactive list, active and referenced cleared; an inactive one stays where it is. Generations: references and workingset mark cleared, and unless it is in the oldest already inserted anew: file folios and anonymous ones in the swap cache in the oldest, other anonymous ones at the second youngest | all that passed and stand on a list, also where nothing moved |
    /// | `migrate-hot`, `migrate-cold` | both | moved to its node, failing rather than reclaiming there; a folio that is there already is left | moved |
    ///
    /// Physical memory is walked folio by folio: a frame without a folio on a list is passed over; after a folio the walk goes
    /// on behind as many bytes as the folio has, counted from where it was met. Only folios on a list count.
    ///
    /// # Errors
    /// [`HostError::Gone`]: nothing was done. [`HostError::NotHere`], [`HostError::Failed`]: taken as a try that changed
    /// nothing, with what the gate has counted.
    fn apply(&mut self, _target: TargetId, _order: &mut Order<'_>) -> Result<Applied, HostError> {
        Err(HostError::NotHere("this host applies no schemes"))
    }

    /// Reads numbers, all at one moment. `None` for a node or a group that is not there. `values` has the length of `gauges`.
    ///
    /// # Errors
    /// [`HostError::NotHere`] if one of them cannot be read here.
    fn gauges(&mut self, _gauges: &[Gauge], _values: &mut [Option<u64>]) -> Result<(), HostError> {
        Err(HostError::NotHere("this host reads no metrics"))
    }

    /// Appends for each node the bytes of folios inside `ranges`, which ascend; of a folio that sticks out, the part inside.
    /// Physical memory only.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn node_bytes(
        &mut self,
        _target: TargetId,
        _ranges: &[AddressRange],
        _out: &mut Vec<(NodeId, u64)>,
    ) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell which node memory is on"))
    }

    /// The number of the memory cgroup at this path, as [`Attribute::Memcg`], [`PageTest::Memcg`] and [`Gauge`] have it;
    /// `None` if there is none. Asked anew for each pass.
    fn memcg(&self, _path: &str) -> Option<u64> {
        None
    }

    /// What this host can do for promotion between tiers.
    fn tiering_capabilities(&self) -> TieringCapabilities {
        TieringCapabilities::default()
    }

    /// Appends all spaces that may be scanned, ascending: processes that have not ended.
    ///
    /// # Errors
    /// [`HostError::NotHere`] where the driver tells of spaces one by one.
    fn spaces(&mut self, _out: &mut Vec<TargetId>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host lists no spaces"))
    }

    /// Appends the areas of a space, ascending and disjoint.
    ///
    /// # Errors
    /// [`HostError::Gone`] once the process has ended. [`HostError::Failed`] while its mappings are locked by a writer: the
    /// space is passed over and asked again at its next turn.
    fn areas(&mut self, _target: TargetId, _out: &mut Vec<Area>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not list areas"))
    }

    /// Looks at each page of `range`, in the order of addresses, and clears its accessed bit: the page and its marks are shown to
    /// the gate by [`ScanGate::see`], and what the gate did to the marks is kept. A huge leaf is one page of its size unless
    /// [`ScanGate::splits_huge`] says otherwise. Entries without a page are shown by [`ScanGate::hole`], but not where the
    /// whole table is missing. Translations are not flushed.
    ///
    /// The bit of a file page whose lock cannot be had is left as it is, and shown as found.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`]. [`HostError::Failed`]: the rest of the range is passed over.
    fn scan_accessed(
        &mut self,
        _target: TargetId,
        _range: AddressRange,
        _gate: &mut ScanGate,
    ) -> Result<Scanned, HostError> {
        Err(HostError::NotHere("this host does not scan for accessed pages"))
    }

    /// The node of the page at each address; `None` where there is none. Changes nothing. `out` has the length of `addresses`.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn page_nodes(
        &mut self,
        _target: TargetId,
        _addresses: &[u64],
        _out: &mut [Option<NodeId>],
    ) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell the node of a page"))
    }

    /// Moves pages to a node without waiting for locks or reclaim, and says what became of each: `results` has the length of
    /// [`MoveOrder::pages`]. Returns the CPU time that it took.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`], [`HostError::Failed`]: nothing was moved, and no result is valid.
    fn migrate(
        &mut self,
        _target: TargetId,
        _order: &MoveOrder<'_>,
        _results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        Err(HostError::NotHere("this host does not move pages between nodes"))
    }

    /// Free memory of a node and its watermarks; `None` for a node without memory.
    ///
    /// # Errors
    /// [`HostError::NotHere`].
    fn node_memory(&mut self, _node: NodeId) -> Result<Option<NodeMemory>, HostError> {
        Err(HostError::NotHere("this host does not tell the free memory of a node"))
    }

    /// What this host can do with generations.
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        GenerationCapabilities { missing: Some(NO_GENERATIONS), ..GenerationCapabilities::default() }
    }

    /// Appends the generations of all groups on all nodes with memory, in the order of `lru_gen`.
    ///
    /// # Errors
    /// [`HostError::NotHere`], [`HostError::Failed`]; nothing was appended.
    fn read_generations(&mut self, _out: &mut Vec<Listing>) -> Result<(), HostError> {
        Err(HostError::NotHere(NO_GENERATIONS))
    }

    /// Makes a generation of each group that is named. Appends an answer an order: done, or failed with the kernel's refusal
    /// in words.
    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        answers.extend(orders.iter().map(|_| Answer::NotHere(NO_GENERATIONS)));
    }

    /// Evicts generations. Appends an answer an order: done, when nothing that was asked for is left or the limit was reached;
    /// partly, when pages stayed; failed with the kernel's refusal in words.
    fn evict_generations(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        answers.extend(orders.iter().map(|_| Answer::NotHere(NO_GENERATIONS)));
    }
}
