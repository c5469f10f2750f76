//! Tiering: areas of a space, scans for accessed pages, nodes of pages, moves.

use super::HostError;
use crate::vocabulary::{AddressRange, NodeId, ScanFilter, TargetId};
use isotherm_units::Duration;

/// Finds accessed pages in spaces and moves pages between nodes. Calls that a host does not implement answer "not here".
pub trait Tiering {
    /// Features of this host for promotion between tiers.
    fn tiering_capabilities(&self) -> TieringCapabilities {
        TieringCapabilities::default()
    }

    /// Appends all spaces that may be scanned, ascending: processes that have not ended.
    ///
    /// # Errors
    /// [`HostError::NotHere`] where the driver reports spaces one by one.
    fn spaces(&mut self, _out: &mut Vec<TargetId>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host lists no spaces"))
    }

    /// Appends the areas of a space, ascending and disjoint.
    ///
    /// # Errors
    /// [`HostError::Gone`] once the process has ended. [`HostError::Failed`] while its mappings are locked by a writer: the space
    /// is skipped and tried again at its next turn.
    fn areas(&mut self, _target: TargetId, _out: &mut Vec<Area>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not list areas"))
    }

    /// Scans each page of `range`, in the order of addresses, and clears its accessed bit. The page and its marks are shown to
    /// the filter by [`ScanFilter::see`], and the marks that it leaves are kept. A huge leaf is one page of its size unless
    /// [`ScanFilter::splits_huge`] says otherwise. Entries without a page are shown by [`ScanFilter::hole`], except where the
    /// whole table is missing. Translations are not flushed.
    ///
    /// The bit of a file page whose lock cannot be taken is left as it is, and shown as found.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`]. [`HostError::Failed`]: the rest of the range is skipped.
    fn scan_accessed(
        &mut self,
        _target: TargetId,
        _range: AddressRange,
        _gate: &mut ScanFilter,
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

    /// Moves pages to a node without waiting for locks or reclaim, and gives the result of each: `results` has the length of
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
}

/// Features of a host for promotion. The core plans with it and never asks for more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TieringCapabilities {
    /// All nodes, in the order of their numbers.
    pub nodes: Vec<TierNode>,
    /// Whether [`Tiering::spaces`] works here. If not, the driver reports each space that appears and ends.
    pub spaces: bool,
    /// Whether [`Tiering::areas`] and [`Tiering::scan_accessed`] work here.
    pub scan_accessed: bool,
    /// Whether [`Tiering::page_nodes`] works here.
    pub page_nodes: bool,
    /// Whether [`Tiering::node_memory`] works here.
    pub node_memory: bool,
    /// Whether [`Tiering::migrate`] works here.
    pub migrate: bool,
    /// Moves can be limited to active pages: [`MoveOrder::only_active`].
    pub knows_active: bool,
}

/// A node and its place among the tiers (docs/spec/promotion.md#s5-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierNode {
    pub node: NodeId,
    /// It is in a tier as fast as the slowest tier that has processors, or faster. Pages are promoted to these only.
    pub is_top_tier: bool,
    pub has_memory: bool,
}

/// A mapping of a space (a VMA), with the facts that decide whether it is scanned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Byte addresses of the mapping.
    pub range: AddressRange,
    /// Kind of the mapping. The default is private anonymous memory that may be read and written.
    pub kind: AreaKind,
}

/// Reasons against scanning an area; see [`obstacle`](crate::promotion::obstacle).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a VMA, each alone")]
pub struct AreaKind {
    /// Device memory or bare frame numbers (`VM_IO`, `VM_PFNMAP`).
    pub is_io: bool,
    /// A file that is mapped directly from its device (DAX).
    pub is_dax: bool,
    /// Memory of `hugetlbfs`.
    pub is_hugetlb: bool,
    /// Frames with and without a `struct page` (`VM_MIXEDMAP`).
    pub is_mixed: bool,
    /// A memory policy that does not let pages migrate on faults.
    pub is_bound: bool,
    /// A file mapping that may be read and not written.
    pub is_read_only_file: bool,
    /// No access at all (`PROT_NONE`).
    pub is_inaccessible: bool,
    /// A file whose pages may not come from the highest zone.
    pub is_low_zone_file: bool,
}

/// The result of [`Tiering::scan_accessed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// First byte that was not scanned: the end of the range, or less if the filter stopped the scan.
    pub next: u64,
    /// CPU time that it took the thread that runs the core.
    pub spent: Duration,
}

/// Pages to be moved to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveOrder<'a> {
    /// One byte address per folio, ascending or not.
    pub pages: &'a [u64],
    pub to: NodeId,
    /// Pages that are unmapped together under one flush of translations; at least 1. Kernels of the scan daemon: 1.
    pub together: u32,
    /// A page is not moved where the node would fall below its high watermark; then its reclaim is woken. Otherwise a move stops only when
    /// no free page is left.
    pub keeps_high_watermark: bool,
    /// A page is not moved unless it is in one of the two youngest generations, or on an active list.
    pub only_active: bool,
    /// Folios that are mapped by several spaces stay.
    pub leaves_shared: bool,
    /// Pages of other nodes of the top tier stay: the scan daemon only promotes. Hint faults move pages between nodes of one tier too.
    pub only_promotes: bool,
}

/// The result of one page of a [`MoveOrder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageMove {
    /// Its folio is on the node now; the value is its number of base pages, at least 1.
    Moved(u32),
    /// The page was on that node already.
    SameNode,
    /// It is on another node of the top tier.
    TopTier,
    /// No page there any more, or none on a list.
    NotPresent,
    /// Locked, under writeback, or isolated by another thread: worth another try.
    Busy,
    /// The page is pinned: others hold references to it.
    Pinned,
    /// The page is mapped by several spaces, or it is executable and shared.
    Shared,
    /// The page is a dirty page of a file.
    Dirty,
    /// The page is not among the active ones, and [`MoveOrder::only_active`] is set.
    NotActive,
    /// The node has no free page.
    Full,
    /// The node would have fallen below its high watermark, and [`MoveOrder::keeps_high_watermark`] is set.
    BelowWatermark,
}

/// Free memory of a node and its marks, in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// Base pages that the node has in total.
    pub present: u64,
    pub free: u64,
    /// High watermark: reclaim stops when free memory is above it.
    pub high: u64,
    /// In tiering mode reclaim stops here, above `high`.
    pub promo: u64,
}
