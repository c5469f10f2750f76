//! `classic`: the two-list LRU of Linux (docs/spec/classic-lru.md; `docs/mechanism/reclaim.md`).
//!
//! Each lruvec has an inactive and an active list for anonymous and for file pages. Pages enter the inactive list and are reclaimed from
//! its tail; pages found used there get a second chance or move to the active list. The active list gives pages back when it grows too long
//! for its partner. Evicted pages leave a shadow that shows at their return whether a longer inactive list would have kept them.
//!
//! Not modelled: per-CPU batches of up to 31 pages between an event and the list it changes. Lists change at once.

#[cfg(test)]
mod folio_tests;
mod lists;
mod reference;
mod shrink;
mod statistics;
#[cfg(test)]
mod tests;
mod workingset;

use super::outcome::page_type;
use super::refault::ShadowLayout;
use super::scan_balance::{IoCost, Lru, PageType};
use super::{Arrival, Hint, ListSizes, LruvecId, PolicyEntry, ReclaimPolicy, Scan};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::lean::Kind;
use crate::memory::{Flag, FrameId, ListEnd, Memory, NodeId};
use lists::Lists;
use statistics::{Counted, Statistics};
pub(super) use workingset::shadow_layout;

/// Entry in the table of policies.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "classic",
    summary: "two-list LRU of Linux: active and inactive pages",
    runs_on_linux: true,
    make: |_| Box::new(Classic::default()),
};

/// The two-list LRU.
#[derive(Clone, Debug, Default)]
pub struct Classic {
    lists: Lists,
    /// History by lruvec.
    history: Vec<History>,
    /// State of the subtree reclaimed from; decided at the start of a walk over its groups.
    balance: Balance,
    shadows: Option<ShadowLayout>,
    /// Counters as they were last added up, where that is done now and then only.
    statistics: Statistics,
    /// Empty between calls: memory for the pages that are judged together.
    batch: Vec<FrameId>,
}

/// The history of an lruvec, descendants included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct History {
    cost: IoCost,
    /// Refaults that were activated, by type.
    activations: [u64; 2],
    /// `activations` when reclaim from here last ended.
    activations_seen: [u64; 2],
}

/// Decisions for one walk over a node (docs/spec/classic-lru.md#s4, #s6-1).
#[derive(Clone, Copy, Debug, Default)]
struct Balance {
    /// By page type.
    may_deactivate: [bool; 2],
    cache_trim: bool,
    file_is_tiny: bool,
    cost: IoCost,
}

impl Classic {
    /// Without pages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves a listed page to the list that its flags name after `change`.
    fn relist(&mut self, memory: &mut Memory, frame: FrameId, end: ListEnd, change: impl FnOnce(&mut Memory)) {
        debug_assert!(memory.frames.has(frame, Flag::OnList), "only a page on a list moves to another");
        self.lists.remove(memory, frame);
        change(memory);
        self.lists.push(memory, frame, end);
        memory.ledger.spend(memory.costs.lru_move_ns);
    }

    /// Takes a page that another policy kept, by its flags.
    pub(super) fn adopt(&mut self, memory: &mut Memory, frame: FrameId, end: ListEnd) {
        self.lists.push(memory, frame, end);
    }

    /// Gives up the oldest page of a list.
    pub(super) fn give_oldest(&mut self, memory: &mut Memory, lruvec: LruvecId, lru: Lru) -> Option<FrameId> {
        let mut taken = Vec::new();
        self.lists.isolate(memory, lruvec, lru, 1, &mut taken);
        taken.pop()
    }

    fn activate(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(!memory.frames.has(frame, Flag::Active), "a hot page stays where it is");
        self.relist(memory, frame, ListEnd::Head, |memory| memory.frames.set(frame, Flag::Active));
        let (cgroup, pages) = (memory.frames.cgroup(frame), memory.frames.nr_pages(frame));
        memory.count(Counter::PgActivate, cgroup, pages);
    }

    fn deactivate(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(memory.frames.has(frame, Flag::Active), "a cold page stays where it is");
        self.relist(memory, frame, ListEnd::Head, |memory| {
            memory.frames.clear(frame, Flag::Active);
            memory.frames.clear(frame, Flag::Referenced);
        });
        let (cgroup, pages) = (memory.frames.cgroup(frame), memory.frames.nr_pages(frame));
        memory.count(Counter::PgDeactivate, cgroup, pages);
    }

    /// `MADV_FREE`: to the cold file list, where it is dropped without being written.
    fn free_lazily(&mut self, memory: &mut Memory, frame: FrameId) -> bool {
        debug_assert!(!memory.frames.has(frame, Flag::Unevictable), "locked pages take no hints");
        let frames = &memory.frames;
        let refused = [Flag::FileOwned, Flag::SwapCache].into_iter().any(|flag| frames.has(frame, flag));
        if refused || !frames.has(frame, Flag::SwapBacked) {
            return false;
        }
        self.relist(memory, frame, ListEnd::Head, |memory| {
            for flag in [Flag::Active, Flag::Referenced, Flag::SwapBacked] {
                memory.frames.clear(frame, flag);
            }
        });
        let cgroup = memory.frames.cgroup(frame);
        memory.count(Counter::PgLazyFree, cgroup, 1);
        true
    }

    /// `POSIX_FADV_DONTNEED` and the like on a file page that is not simply dropped.
    fn deactivate_file(&mut self, memory: &mut Memory, frame: FrameId) -> bool {
        debug_assert!(!memory.frames.has(frame, Flag::Unevictable), "locked pages take no hints");
        if page_type(memory, frame) == PageType::Anon || memory.is_mapped(frame) {
            return false;
        }
        let was_active = memory.frames.has(frame, Flag::Active);
        let in_use = memory.frames.has(frame, Flag::Dirty) || memory.frames.has(frame, Flag::Writeback);
        let end = if in_use { ListEnd::Head } else { ListEnd::Tail };
        self.relist(memory, frame, end, |memory| {
            memory.frames.clear(frame, Flag::Active);
            memory.frames.clear(frame, Flag::Referenced);
        });
        let (cgroup, pages) = (memory.frames.cgroup(frame), memory.frames.nr_pages(frame));
        if in_use {
            memory.frames.set(frame, Flag::Reclaim);
        } else {
            memory.count(Counter::PgRotated, cgroup, pages);
        }
        memory.count(Counter::PgDeactivate, cgroup, if was_active { pages } else { 0 });
        true
    }
}

impl ReclaimPolicy for Classic {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        self.lists.add_lruvec(lruvec);
        let len = self.history.len().max(lruvec.index() + 1);
        self.history.resize(len, History::default());
    }

    /// docs/spec/classic-lru.md#s3-1: the cold list's head, unless it is refaulted soon enough.
    #[inline]
    fn added(&mut self, memory: &mut Memory, frame: FrameId, arrival: Arrival, shadow: Option<u64>) {
        if let Some(shadow) = shadow.filter(|_| arrival != Arrival::FileWrite) {
            self.refault(memory, frame, shadow);
        }
        self.lists.push(memory, frame, ListEnd::Head);
        if memory.config.lru_batches {
            self.lists.wait(memory, frame);
        }
    }

    fn added_all(&mut self, memory: &mut Memory, pages: &[(FrameId, Option<u64>)], arrival: Arrival) {
        let comes_back = |shadow: Option<u64>| shadow.filter(|_| arrival != Arrival::FileWrite);
        let mut left = pages;
        while let Some(&(first, shadow)) = left.first() {
            // Whether it was soon enough depends on the pages before it.
            if let Some(shadow) = comes_back(shadow) {
                self.refault(memory, first, shadow);
            }
            let is_new = |&&(_, shadow): &&(FrameId, Option<u64>)| comes_back(shadow).is_none();
            let (together, rest) = left.split_at(1 + left[1..].iter().take_while(is_new).count());
            let lruvec = memory.lruvec_of(first);
            self.lists.push_all(memory, lruvec, together.iter().map(|&(frame, _)| frame));
            if memory.config.lru_batches {
                together.iter().for_each(|&(frame, _)| self.lists.wait(memory, frame));
            }
            left = rest;
        }
    }

    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.lists.remove(memory, frame);
    }

    /// docs/spec/classic-lru.md#s3-2.
    fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId) {
        if !memory.frames.has(frame, Flag::Referenced) {
            memory.frames.set(frame, Flag::Referenced);
        } else if !memory.frames.has(frame, Flag::Unevictable)
            && !memory.frames.has(frame, Flag::Active)
            && memory.frames.has(frame, Flag::OnList)
        {
            self.activate(memory, frame);
            memory.frames.clear(frame, Flag::Referenced);
            memory.age_nonresident(memory.lruvec_of(frame), memory.frames.nr_pages(frame));
        }
    }

    /// docs/spec/classic-lru.md#s3-6.
    fn hint(&mut self, memory: &mut Memory, frame: FrameId, hint: Hint) -> bool {
        if hint == Hint::UnmappedYoung {
            self.mark_accessed(memory, frame);
            return true;
        }
        if !memory.frames.has(frame, Flag::OnList) || memory.frames.has(frame, Flag::Unevictable) {
            return false;
        }
        let is_active = memory.frames.has(frame, Flag::Active);
        match hint {
            Hint::Prioritise if !is_active => self.activate(memory, frame),
            Hint::Deprioritise if is_active => self.deactivate(memory, frame),
            Hint::Cold => {
                let was_referenced = memory.frames.take(frame, Flag::Referenced);
                if !is_active {
                    return was_referenced;
                }
                memory.frames.set(frame, Flag::Workingset);
                self.deactivate(memory, frame);
            }
            Hint::LazyFree => return self.free_lazily(memory, frame),
            Hint::DeactivateFile => return self.deactivate_file(memory, frame),
            Hint::Prioritise | Hint::Deprioritise | Hint::UnmappedYoung => return false,
        }
        true
    }

    fn heeds(&self, _hint: Hint) -> bool {
        true
    }

    fn knows_folios(&self) -> bool {
        true
    }

    fn knows_active(&self) -> bool {
        true
    }

    fn is_active(&self, memory: &Memory, frame: FrameId) -> bool {
        memory.frames.has(frame, Flag::Active) && !memory.frames.has(frame, Flag::Unevictable)
    }

    fn begin_walk(&mut self, memory: &mut Memory, node: NodeId, scan: &mut Scan) {
        debug_assert!(scan.priority <= crate::reclaim::DEF_PRIORITY, "reclaim begins with the gentlest priority");
        self.balance = self.balance_of(memory, node, scan);
        scan.cache_trim_used = self.balance.cache_trim;
    }

    fn shrink_lruvec(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) {
        self.shrink(memory, lruvec, scan);
    }

    fn flush_statistics(&mut self) {
        let counted = self.history.iter().enumerate().map(|(index, history)| {
            let lruvec = LruvecId(u32::try_from(index).expect("made from an lruvec"));
            Counted { sizes: Lru::ALL.map(|lru| self.lists.subtree_len(lruvec, lru)), activations: history.activations }
        });
        self.statistics.flush(counted.collect());
    }

    /// Cold anonymous pages are kept in store even while only file pages are reclaimed.
    fn age_node(&mut self, memory: &mut Memory, node: NodeId, scan: &mut Scan) {
        let root = memory.lruvec(CgroupId::ROOT, node);
        if memory.slots.total() == 0 || !self.inactive_is_low(memory, root, PageType::Anon) {
            return;
        }
        for cgroup in memory.cgroups.ids() {
            let lruvec = memory.lruvec(cgroup, node);
            self.shrink_active(memory, lruvec, PageType::Anon, super::SWAP_CLUSTER_MAX, scan);
        }
    }

    fn reclaim_ended(&mut self, memory: &mut Memory, node: Option<NodeId>, scan: &Scan) {
        for node in memory.nodes.ids().filter(|&id| node.is_none_or(|node| node == id)) {
            let lruvec = memory.lruvec(scan.root, node);
            let counted = self.statistics.activations(memory, lruvec);
            let history = &mut self.history[lruvec.index()];
            history.activations_seen = counted.unwrap_or(history.activations);
        }
    }

    /// To the tail of the cold list: it can be freed now.
    fn writeback_ended(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(!memory.frames.has(frame, Flag::Writeback), "the page is told of when its write is over");
        let stays = [Flag::Dirty, Flag::Unevictable].into_iter().any(|flag| memory.frames.has(frame, flag));
        if stays || !memory.frames.has(frame, Flag::OnList) {
            return;
        }
        self.relist(memory, frame, ListEnd::Tail, |memory| memory.frames.clear(frame, Flag::Active));
        let (cgroup, pages) = (memory.frames.cgroup(frame), memory.frames.nr_pages(frame));
        memory.count(Counter::PgRotated, cgroup, pages);
    }

    #[inline]
    fn shadow_of(&mut self, memory: &mut Memory, frame: FrameId, root: CgroupId) -> Option<u64> {
        Some(self.eviction(memory, frame, root))
    }

    fn sizes(&self, lruvec: LruvecId) -> ListSizes {
        let len = |lru| self.lists.len(lruvec, lru);
        ListSizes {
            inactive_anon: len(Lru::InactiveAnon),
            active_anon: len(Lru::ActiveAnon),
            inactive_file: len(Lru::InactiveFile),
            active_file: len(Lru::ActiveFile),
            unevictable: self.lists.nr_unevictable(lruvec),
        }
    }

    fn check(&self, memory: &Memory) -> Result<(), String> {
        self.lists.check(memory)
    }

    fn fork(&self) -> Option<Box<dyn ReclaimPolicy>> {
        Some(Box::new(self.clone()))
    }

    fn lean(&self) -> Option<Kind> {
        Some(Kind::Classic)
    }
}
