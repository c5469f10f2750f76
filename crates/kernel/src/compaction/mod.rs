//! Compaction: pages in use move to the top of a zone, so that free ones join at its bottom (docs/spec/compaction.md#s4,
//! `docs/mechanism/compaction.md`).
//!
//! Two scanners work towards each other: one takes movable pages from the bottom up, the other free pages from the top down. A [`ZoneRun`]
//! is one pass over a zone, stepped batch by batch by its caller: a thread that wants a huge page ([`HugeAllocation`]), the node's
//! [kcompactd](Kcompactd), or a design of `isotherm-core` through its host. The CPU time of a step passes before the next, and the pages
//! that it moved are out of reach in that time.
//!
//! Behaviour follows `mm/compaction.c` of Linux 7.2. Left out: CMA, contention for locks (no other thread holds them between
//! two steps), pages of drivers that can be moved (zsmalloc, balloons), `defrag_mode`.

mod allocate;
mod config;
mod direct;
mod fast;
mod free_scanner;
mod kcompactd;
mod migrate_scanner;
mod run;
#[cfg(test)]
mod tests;
mod zone;

pub use allocate::{AllocateStep, BlockTaken, HugeAllocation, HugeEffort, HugePath, Persistence};
pub use config::{CompactionConfig, Defrag};
pub use direct::{DirectCompaction, Priority};
pub use kcompactd::Kcompactd;
pub use run::{Request, RunStep, Until, Work, ZoneRun};
pub use zone::ZoneCompaction;

use crate::memory::buddy::{BLOCK_ORDER, MigrateType};
use crate::memory::{Memory, Node, NodeId, Zone};
use isotherm_core::compaction::{Gap, Level, Marks, Suitability, suitability};

/// Pages that are isolated before they are moved (`COMPACT_CLUSTER_MAX`).
pub const CLUSTER: u64 = 32;
/// Pages of a page block.
const BLOCK_PAGES: u32 = 1 << BLOCK_ORDER;

/// How compaction of a zone, or of several, ended; later ones count for more (docs/spec/compaction.md#s4-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactResult {
    /// Memory is short rather than fragmented.
    NotSuitable,
    /// Too little is free to move pages into.
    Skipped,
    /// It failed not long ago.
    Deferred,
    /// The scanners met after the whole zone.
    Complete,
    /// The scanners met, but did not begin at the ends; or kswapd ran in between.
    PartialSkipped,
    /// There was nothing to move pages into, or the caller is dying.
    Contended,
    /// A block of the wanted order is free, or the wanted level is reached.
    Success,
}

impl Zone {
    /// Watermarks as compaction uses them, boost included.
    pub fn core_marks(&self) -> Marks {
        Marks { min: self.marks.min, low: self.marks.low, high: self.marks.high }
    }

    /// Whether compacting for `order` above `mark` makes sense; `reserve`: pages kept back from this request.
    pub fn suitability(&self, order: u32, mark: u64, reserve: u64) -> Suitability {
        let blocks = self.buddy().blocks();
        let level = Level { free: self.free_in_blocks(), blocks: &blocks, reserve };
        suitability(&level, order, mark, &self.core_marks(), Gap::Capped)
    }
}

impl Node {
    /// Pages of zone number `zone` that a request that may use all zones leaves to others.
    pub(crate) fn reserve(&self, zone: usize) -> u64 {
        if zone + 1 == self.zones.len() { 0 } else { self.zones[zone].marks.lowmem_reserve }
    }
}

/// Whether too many pages are isolated for others to isolate more; `inactive` and `active` pages of the node's lists. The limit for tasks
/// that may write to file systems is an eighth of the limit of others, so that the others can help them. Source: `too_many_isolated`.
pub const fn too_many_isolated(isolated: u64, inactive: u64, active: u64, may_enter_fs: bool) -> bool {
    let (inactive, active) = if may_enter_fs { (inactive >> 3, active >> 3) } else { (inactive, active) };
    isolated > u64::midpoint(inactive, active)
}

/// Requests by caller and purpose: the table in docs/spec/compaction.md#s4-2.
impl Request {
    /// A thread that wants 2^`order` pages.
    pub const fn direct(order: u32, wanted: MigrateType, priority: Priority) -> Self {
        let is_full = matches!(priority, Priority::Full);
        Self {
            order: Some(order),
            wanted,
            mode: match priority {
                Priority::Async => crate::migrate::MigrateMode::Async,
                Priority::SyncLight | Priority::Full => crate::migrate::MigrateMode::SyncLight,
            },
            whole_zone: is_full,
            ignores_skip: is_full,
            ignores_type: is_full,
            is_direct: true,
            until: Until::Page,
        }
    }

    /// kcompactd, asked for 2^`order` pages.
    pub const fn on_demand(order: u32) -> Self {
        Self {
            order: Some(order),
            wanted: MigrateType::Unmovable,
            mode: crate::migrate::MigrateMode::SyncLight,
            whole_zone: false,
            ignores_skip: false,
            ignores_type: false,
            is_direct: false,
            until: Until::Page,
        }
    }

    /// No allocation in particular: the whole zone, until `until`.
    pub const fn whole(mode: crate::migrate::MigrateMode, until: Until) -> Self {
        Self {
            order: None,
            wanted: MigrateType::Unmovable,
            mode,
            whole_zone: true,
            ignores_skip: true,
            ignores_type: false,
            is_direct: false,
            until,
        }
    }
}

impl Memory {
    /// kswapd of the node is at work from now on, or sleeps.
    pub fn note_kswapd(&mut self, node: NodeId, is_running: bool) {
        let nodes = self.nodes.len();
        self.reclaim.kswapd_running.resize(nodes, false);
        self.reclaim.kswapd_ran.resize(nodes, false);
        self.reclaim.kswapd_running[node.index()] = is_running;
        self.reclaim.kswapd_ran[node.index()] |= is_running;
    }

    /// Whether kswapd of the node was at work since the last call.
    pub fn take_kswapd_ran(&mut self, node: NodeId) -> bool {
        self.reclaim.kswapd_ran.get_mut(node.index()).is_some_and(std::mem::take)
    }

    /// Whether kswapd of the node is at work.
    pub fn is_kswapd_running(&self, node: NodeId) -> bool {
        self.reclaim.kswapd_running.get(node.index()).copied().unwrap_or(false)
    }
}
