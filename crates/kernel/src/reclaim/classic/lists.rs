//! The lists of every lruvec, with sums over subtrees.

use crate::memory::{Flag, Flags, FrameId, List, ListEnd, Memory, ReadAhead};
use crate::reclaim::LruvecId;
use crate::reclaim::scan_balance::Lru;
use std::borrow::Borrow;

const UNEVICTABLE: usize = 4;
const NR_LISTS: usize = 5;
/// New pages that wait together (`PAGEVEC_SIZE`, include/linux/pagevec.h, since Linux 6.9).
const BATCH: usize = 31;

/// Lists by lruvec. A page's flags name its list.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    lruvecs: Vec<Lruvec>,
    /// New pages that are not on their lists yet: they stand there already, nearest to the head, and scans do not see them. Empty unless
    /// [`lru_batches`](crate::memory::MemoryConfig::lru_batches) is set.
    waiting: Vec<FrameId>,
}

#[derive(Clone, Debug, Default)]
struct Lruvec {
    /// Indexed by [`Lru`], then [`UNEVICTABLE`].
    lists: [List; NR_LISTS],
    /// Lengths of the lists of this group and all below it, on this node.
    subtree: [u64; NR_LISTS],
}

impl Lists {
    pub(super) fn add_lruvec(&mut self, lruvec: LruvecId) {
        let len = self.lruvecs.len().max(lruvec.index() + 1);
        self.lruvecs.resize(len, Lruvec::default());
    }

    /// Puts a page that is on no list on the one its flags name.
    #[inline(always)]
    pub(super) fn push(&mut self, memory: &mut Memory, frame: FrameId, end: ListEnd) {
        debug_assert!(!memory.frames.has(frame, Flag::OnList), "already on a list");
        let flags = memory.frames.update(frame, [Flag::Isolated], [Flag::OnList]);
        let (lruvec, list) = (memory.lruvec_of(frame), list_by(flags));
        let pages = self.lruvecs[lruvec.index()].lists[list].push(&mut memory.frames, frame, end);
        self.for_lineage(memory, lruvec, |above| above.subtree[list] += pages);
        debug_assert!(
            self.lruvecs[lruvec.index()].subtree[list] >= self.lruvecs[lruvec.index()].lists[list].len(),
            "a group counts its own pages with those below it"
        );
    }

    /// A new page, which was just put on its list, waits in a processor's batch first (`mm/swap.c: folio_add_lru`).
    /// A folio of several pages does not wait, and empties the batch (`folio_may_be_lru_cached`, docs/spec/large-folios.md#f3-1).
    pub(super) fn wait(&mut self, memory: &Memory, frame: FrameId) {
        self.waiting.push(frame);
        if self.waiting.len() >= BATCH || memory.frames.order(frame) > 0 {
            self.waiting.clear();
        }
    }

    /// Pages on a list, without those that wait.
    pub(super) fn seen_len(&self, memory: &Memory, lruvec: LruvecId, lru: Lru) -> u64 {
        let is_there = |&&frame: &&FrameId| (memory.lruvec_of(frame), list_of(memory, frame)) == (lruvec, lru as usize);
        self.len(lruvec, lru) - self.waiting.iter().filter(is_there).count() as u64
    }

    /// Takes a page off its list; its flags must not have changed since it was put there. Ignores pages on no list.
    pub(super) fn remove(&mut self, memory: &mut Memory, frame: FrameId) {
        if let Some(at) = self.waiting.iter().position(|&waiting| waiting == frame) {
            self.waiting.swap_remove(at);
        }
        if memory.frames.take(frame, Flag::OnList) {
            let (lruvec, list) = (memory.lruvec_of(frame), list_of(memory, frame));
            debug_assert!(self.lruvecs[lruvec.index()].subtree[list] > 0, "a page that leaves a list was counted");
            let pages = self.lruvecs[lruvec.index()].lists[list].remove(&mut memory.frames, frame);
            self.for_lineage(memory, lruvec, |above| above.subtree[list] -= pages);
        }
    }

    /// Puts pages of one lruvec that are on no list at the heads of those that their flags name, in this order. Returns how many pages
    /// are active.
    pub(super) fn push_all(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        pages: impl IntoIterator<Item: Borrow<FrameId>>,
    ) -> u64 {
        let own = &mut self.lruvecs[lruvec.index()];
        let (mut added, mut nr_active) = ([0; NR_LISTS], 0);
        for page in pages {
            let &frame = page.borrow();
            debug_assert!(!memory.frames.has(frame, Flag::OnList), "already on a list");
            debug_assert_eq!(memory.lruvec_of(frame), lruvec, "pages of one lruvec");
            let flags = memory.frames.update(frame, [Flag::Isolated], [Flag::OnList]);
            let list = list_by(flags);
            let pages = own.lists[list].push(&mut memory.frames, frame, ListEnd::Head);
            added[list] += pages;
            nr_active += if flags.has(Flag::Active) { pages } else { 0 };
        }
        self.for_lineage(memory, lruvec, |above| {
            above.subtree.iter_mut().zip(added).for_each(|(pages, added)| *pages += added);
        });
        nr_active
    }

    /// Takes folios from the tail into `taken`, which is empty, oldest first, until `nr` pages are out. Returns how many pages are out.
    pub(super) fn isolate(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        lru: Lru,
        nr: u64,
        taken: &mut Vec<FrameId>,
    ) -> u64 {
        debug_assert!(taken.is_empty(), "the last batch is over");
        self.waiting.clear(); // `lru_add_drain`, before a list is scanned
        let list = lru as usize;
        let nr = nr.min(self.len(lruvec, lru));
        let pages = self.lruvecs[lruvec.index()].lists[list].isolate_tail(&mut memory.frames, nr, taken);
        debug_assert!(
            taken.iter().all(|&frame| (memory.lruvec_of(frame), list_of(memory, frame)) == (lruvec, list)),
            "flags name the list that a page is on"
        );
        memory.warm_up_isolated(taken);
        debug_assert!(self.lruvecs[lruvec.index()].subtree[list] >= pages, "what is taken was counted");
        self.for_lineage(memory, lruvec, |above| above.subtree[list] -= pages);
        pages
    }

    /// Begins to read ahead what the next batch will take.
    pub(super) fn read_ahead(&self, lruvec: LruvecId, lru: Lru) -> ReadAhead {
        self.lruvecs[lruvec.index()].lists[lru as usize].read_ahead()
    }

    pub(super) fn len(&self, lruvec: LruvecId, lru: Lru) -> u64 {
        self.lruvecs[lruvec.index()].lists[lru as usize].len()
    }

    pub(super) fn nr_unevictable(&self, lruvec: LruvecId) -> u64 {
        self.lruvecs[lruvec.index()].lists[UNEVICTABLE].len()
    }

    /// Pages on `lru` of the lruvec's group and all below it.
    pub(super) fn subtree_len(&self, lruvec: LruvecId, lru: Lru) -> u64 {
        self.lruvecs[lruvec.index()].subtree[lru as usize]
    }

    /// Pages on the four lists of the lruvec's group and all below it.
    pub(super) fn subtree_pages(&self, lruvec: LruvecId) -> u64 {
        Lru::ALL.into_iter().map(|lru| self.subtree_len(lruvec, lru)).sum()
    }

    fn for_lineage(&mut self, memory: &Memory, lruvec: LruvecId, mut each: impl FnMut(&mut Lruvec)) {
        let node = memory.node_of(lruvec);
        for cgroup in memory.cgroups.lineage(memory.cgroup_of(lruvec)) {
            each(&mut self.lruvecs[memory.lruvec(cgroup, node).index()]);
        }
    }

    pub(super) fn check(&self, memory: &Memory) -> Result<(), String> {
        let mut sums = vec![[0u64; NR_LISTS]; self.lruvecs.len()];
        for (index, lruvec) in self.lruvecs.iter().enumerate() {
            for (list, frames) in lruvec.lists.iter().enumerate() {
                let mut len = 0;
                for frame in frames.from_tail(&memory.frames) {
                    len += memory.frames.nr_pages(frame);
                    let (home, named) = (memory.lruvec_of(frame).index(), list_of(memory, frame));
                    if !memory.frames.has(frame, Flag::OnList) || memory.frames.has(frame, Flag::Isolated) {
                        return Err(format!("{frame:?} is on list {list} of lruvec {index} but its flags deny it"));
                    }
                    if memory.frames.head(frame) != frame {
                        return Err(format!("{frame:?} is on list {list} of lruvec {index}, but a tail of a folio"));
                    }
                    if (home, named) != (index, list) {
                        return Err(format!(
                            "{frame:?} is on list {list} of lruvec {index} but belongs on {named} of {home}"
                        ));
                    }
                    if len > frames.len() {
                        break;
                    }
                }
                if len != frames.len() {
                    return Err(format!("list {list} of lruvec {index} says {} but holds {len}", frames.len()));
                }
                let home = LruvecId(u32::try_from(index).expect("few lruvecs"));
                let node = memory.node_of(home);
                for cgroup in memory.cgroups.lineage(memory.cgroup_of(home)) {
                    sums[memory.lruvec(cgroup, node).index()][list] += len;
                }
            }
        }
        match self.lruvecs.iter().zip(&sums).position(|(lruvec, sum)| lruvec.subtree != *sum) {
            Some(index) => {
                Err(format!("lruvec {index}: subtree {:?}, counted {:?}", self.lruvecs[index].subtree, sums[index]))
            }
            None => Ok(()),
        }
    }
}

/// List that the flags name.
fn list_of(memory: &Memory, frame: FrameId) -> usize {
    list_by(memory.frames.flags(frame))
}

#[inline]
fn list_by(flags: Flags) -> usize {
    if flags.has(Flag::Unevictable) {
        return UNEVICTABLE;
    }
    let lru = match (flags.has(Flag::SwapBacked), flags.has(Flag::Active)) {
        (true, false) => Lru::InactiveAnon,
        (true, true) => Lru::ActiveAnon,
        (false, false) => Lru::InactiveFile,
        (false, true) => Lru::ActiveFile,
    };
    lru as usize
}
