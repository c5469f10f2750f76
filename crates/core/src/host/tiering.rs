//! What promotion between tiers asks of a host: areas of a space, scans for accessed pages, nodes of pages, moves.

use super::{AddressRange, NodeId};
use isotherm_units::Duration;

/// What a host can do for promotion. The core plans with it and never asks for more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TieringCapabilities {
    /// All nodes, in the order of their numbers.
    pub nodes: Vec<TierNode>,
    /// [`Host::spaces`](super::Host::spaces) is there. Without it the driver tells of each space that comes and goes.
    pub spaces: bool,
    /// [`Host::areas`](super::Host::areas) and [`Host::scan_accessed`](super::Host::scan_accessed) are there.
    pub scan_accessed: bool,
    /// [`Host::page_nodes`](super::Host::page_nodes) is there.
    pub page_nodes: bool,
    /// [`Host::node_memory`](super::Host::node_memory) is there.
    pub node_memory: bool,
    /// [`Host::migrate`](super::Host::migrate) is there.
    pub migrate: bool,
    /// Moves can be limited to pages that stand among the active: [`MoveOrder::only_active`].
    pub tells_active: bool,
}

/// A node and its place among the tiers (docs/spec/promotion.md#s5-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierNode {
    /// Its number.
    pub node: NodeId,
    /// It is in a tier as fast as the slowest tier that has processors, or faster. Pages are promoted to these only.
    pub is_top_tier: bool,
    /// It has memory.
    pub has_memory: bool,
}

/// A mapping of a space (a VMA), with what decides whether it is scanned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Its bytes.
    pub range: AddressRange,
    /// What it is. The default is private anonymous memory that may be read and written.
    pub kind: AreaKind,
}

/// What speaks against scanning an area; see [`obstacle`](crate::promotion::obstacle).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a VMA, each alone")]
pub struct AreaKind {
    /// Device memory or bare frame numbers (`VM_IO`, `VM_PFNMAP`).
    pub is_io: bool,
    /// Files on memory (DAX).
    pub is_dax: bool,
    /// `hugetlbfs`.
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

/// What [`Host::scan_accessed`](super::Host::scan_accessed) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// First byte that was not looked at: the end of the range, or less where the gate said stop.
    pub next: u64,
    /// CPU time that it took whoever runs the core.
    pub spent: Duration,
}

/// Pages to be moved to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveOrder<'a> {
    /// One byte address a folio, ascending or not.
    pub pages: &'a [u64],
    /// Where to.
    pub to: NodeId,
    /// Pages that are unmapped together under one flush of translations; at least 1. Kernels of the scan daemon: 1.
    pub together: u32,
    /// A page is not moved where the node would fall below its high watermark; then its reclaim is woken. Without it
    /// only lack of any free page stops a move.
    pub keeps_high_watermark: bool,
    /// A page is not moved unless it is in one of the two youngest generations, or on an active list.
    pub only_active: bool,
    /// Folios that are mapped by several spaces stay.
    pub leaves_shared: bool,
    /// Pages of other nodes of the top tier stay: the scan daemon promotes and does nothing else. Hint faults move pages between
    /// nodes of one tier too.
    pub only_promotes: bool,
}

/// What became of one page of a [`MoveOrder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageMove {
    /// Its folio is on the node now: so many base pages, at least 1.
    Moved(u32),
    /// It was there already.
    SameNode,
    /// It is on another node of the top tier.
    TopTier,
    /// No page there any more, or none that stands on a list.
    NotPresent,
    /// Locked, under writeback, or taken off its list by somebody else: worth another try.
    Busy,
    /// Somebody holds references to it.
    Pinned,
    /// Mapped by several spaces, or executable and shared.
    Shared,
    /// A dirty page of a file.
    Dirty,
    /// Not moved as it is not among the active.
    NotActive,
    /// No free page on the node.
    Full,
    /// The node would have fallen below its high watermark.
    BelowWatermark,
}

/// Free memory of a node and its marks, in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// Memory that the node has.
    pub present: u64,
    /// Of it, free.
    pub free: u64,
    /// Reclaim stops here.
    pub high: u64,
    /// In tiering mode reclaim stops here, above `high`.
    pub promo: u64,
}
