//! Generations of every lruvec: their lists, which one a page enters, and how the oldest moves on (docs/spec/mglru.md#s2, #s3, #s4-5, #s4-6).
//!
//! A generation is a number that only grows; its pages lie on the list of that number modulo four. A page's byte names the generation it
//! belongs to. A walk over page tables changes only the byte and the counts: the page stays on its list until eviction meets it there.

use super::ageing::Walk;
use super::baseline::Baseline;
use super::controller::History;
use super::page::{MAX_NR_GENS, MIN_NR_GENS, NR_GENS, PageState};
use super::v6_12;
use crate::memory::{Chain, Flag, Flags, FrameId, Frames, ListEnd, Memory, ReadAhead};
use crate::reclaim::outcome::page_type;
use crate::reclaim::scan_balance::{PageType, SWAPPINESS_ANON_ONLY};
use crate::reclaim::{ListSizes, LruvecId};
use isotherm_units::Instant;

/// Both types, in the order in which kernels count them.
pub(crate) const TYPES: [PageType; 2] = [PageType::Anon, PageType::File];

/// Whether pages of this type may be evicted at this swappiness.
pub(super) const fn is_evictable(page_type: PageType, swappiness: u32) -> bool {
    match page_type {
        PageType::Anon => swappiness != 0,
        PageType::File => swappiness != SWAPPINESS_ANON_ONLY,
    }
}

/// The list of generation `seq`.
pub(crate) const fn list_of(seq: u64) -> usize {
    (seq % MAX_NR_GENS) as usize
}

/// The generations of one group on one node.
#[derive(Clone, Debug)]
pub(crate) struct Lruvec {
    /// The youngest generation, of both types.
    pub(crate) max_seq: u64,
    /// Oldest generation, by type.
    pub(crate) min_seq: [u64; 2],
    /// When the generation on each list was made.
    pub(crate) birth: [Instant; NR_GENS],
    pub(crate) lists: [[Chain; 2]; NR_GENS],
    /// Pages of each generation and type, wherever they are linked.
    pub(crate) nr: [[u64; 2]; NR_GENS],
    pub(crate) history: [History; 2],
    pub(crate) walk: Walk,
}

impl Lruvec {
    /// Four generations without pages.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            max_seq: MAX_NR_GENS - 1,
            min_seq: [0; 2],
            birth: [now; NR_GENS],
            lists: [[Chain::new(); 2]; NR_GENS],
            nr: [[0; 2]; NR_GENS],
            history: [History::default(); 2],
            walk: Walk::default(),
        }
    }

    pub(crate) const fn nr_generations(&self, page_type: PageType) -> u64 {
        debug_assert!(
            self.min_seq[page_type as usize] <= self.max_seq,
            "the oldest generation is no younger than the youngest"
        );
        self.max_seq - self.min_seq[page_type as usize] + 1
    }

    /// The oldest generation of the evictable types.
    pub(crate) fn min_evictable(&self, swappiness: u32) -> u64 {
        let oldest = TYPES.into_iter().filter(|&page_type| is_evictable(page_type, swappiness));
        oldest.map(|page_type| self.min_seq[page_type as usize]).min().expect("one type at least")
    }

    /// Pages of the evictable types, young ones included.
    pub(crate) fn evictable_pages(&self, swappiness: u32) -> u64 {
        let types = TYPES.into_iter().filter(|&page_type| is_evictable(page_type, swappiness));
        types.map(|page_type| self.nr.iter().map(|nr| nr[page_type as usize]).sum::<u64>()).sum()
    }

    /// Whether the generation on list `at` is one of the two youngest.
    pub(crate) const fn is_young(&self, at: usize) -> bool {
        at == list_of(self.max_seq) || at == list_of(self.max_seq - 1)
    }

    /// Lists as the rest of the kernel counts them.
    pub(crate) fn sizes(&self) -> ListSizes {
        let mut sizes = ListSizes::default();
        for (at, &[anon, file]) in self.nr.iter().enumerate() {
            if self.is_young(at) {
                sizes.active_anon += anon;
                sizes.active_file += file;
            } else {
                sizes.inactive_anon += anon;
                sizes.inactive_file += file;
            }
        }
        sizes
    }

    /// Where a page enters (docs/spec/mglru.md#s3): the generation, and `Tail` for one whose write-back just ended.
    #[inline]
    pub(crate) fn entry(&self, page: Entering) -> u64 {
        let distance = match page {
            Entering { active: true, workingset: true, .. } => 1,
            Entering { active: true, .. } => 2,
            Entering { rotated: true, .. } => 4,
            Entering { fresh_anon: true, .. } | Entering { being_written: true, .. } => 2,
            Entering { workingset: true, .. } | Entering { referenced: true, .. } => 3,
            Entering { .. } => 4,
        };
        (self.max_seq + 1 - distance).max(self.min_seq[page.page_type as usize])
    }

    /// Empty generations at the old end are given up (docs/spec/mglru.md#s4-6): whether there were any.
    pub(super) fn flush_min_seq(&mut self, swappiness: u32, baseline: Baseline) -> bool {
        let is_empty = |page_type, list: usize| self.lists[list][page_type as usize].is_empty();
        let candidates = self.after_empty(swappiness, is_empty);
        candidates.is_some_and(|candidates| self.give_up(candidates, swappiness, baseline))
    }

    /// The oldest generations behind the empty ones, where `is_empty` knows the lists of a type; `None`: none is empty.
    pub(crate) fn after_empty(
        &self,
        swappiness: u32,
        mut is_empty: impl FnMut(PageType, usize) -> bool,
    ) -> Option<[u64; 2]> {
        let mut candidates = self.min_seq;
        let mut advanced = false;
        for page_type in TYPES.into_iter().filter(|&page_type| is_evictable(page_type, swappiness)) {
            let at = page_type as usize;
            while candidates[at] + MIN_NR_GENS <= self.max_seq && is_empty(page_type, list_of(candidates[at])) {
                candidates[at] += 1;
                advanced = true;
            }
        }
        advanced.then_some(candidates)
    }

    /// Gives up generations before these, as far as both types allow: whether there were any.
    pub(crate) fn give_up(&mut self, candidates: [u64; 2], swappiness: u32, baseline: Baseline) -> bool {
        self.advance_to(match baseline {
            Baseline::V7_2 => keep_close(candidates, self.max_seq, swappiness),
            Baseline::V6_12 => v6_12::keep_step(candidates, self.min_seq, swappiness),
        })
    }

    fn advance_to(&mut self, candidates: [u64; 2]) -> bool {
        debug_assert!(
            candidates.into_iter().all(|seq| seq + MIN_NR_GENS <= self.max_seq + 1),
            "the two youngest generations stay"
        );
        let before = self.min_seq;
        for page_type in TYPES {
            let at = page_type as usize;
            if candidates[at] > self.min_seq[at] {
                self.history[at].carry_over();
                self.min_seq[at] = candidates[at];
            }
        }
        self.min_seq != before
    }
}

/// While both types may be evicted neither gets far ahead of the other.
fn keep_close(mut candidates: [u64; 2], max_seq: u64, swappiness: u32) -> [u64; 2] {
    if (1..=200).contains(&swappiness) {
        let limit = max_seq - MIN_NR_GENS;
        let [anon, file] = candidates;
        if anon > limit && file < limit {
            candidates[PageType::Anon as usize] = limit;
        } else if file > limit && anon < limit {
            candidates[PageType::File as usize] = limit;
        }
    }
    candidates
}

/// The state that decides where a page enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a page, asked for by name")]
pub(crate) struct Entering {
    pub(crate) page_type: PageType,
    pub(crate) active: bool,
    pub(crate) workingset: bool,
    pub(crate) referenced: bool,
    /// Write-back of the page ended while reclaim waited for it.
    pub(crate) rotated: bool,
    /// Anonymous and not in the swap cache.
    pub(crate) fresh_anon: bool,
    /// Reclaim met it dirty or under write-back.
    pub(crate) being_written: bool,
}

impl Entering {
    /// A page by its flags.
    #[inline]
    pub(crate) fn of(flags: Flags, state: PageState, rotated: bool) -> Self {
        let page_type = if flags.has(Flag::SwapBacked) { PageType::Anon } else { PageType::File };
        Self {
            page_type,
            active: flags.has(Flag::Active),
            workingset: state.is_workingset(),
            referenced: state.is_referenced(),
            rotated,
            fresh_anon: page_type == PageType::Anon && !flags.has(Flag::SwapCache),
            being_written: flags.has(Flag::Reclaim) && flags.has_any([Flag::Dirty, Flag::Writeback]),
        }
    }
}

/// The lists of all lruvecs, and a byte for each frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Generations {
    pub(super) baseline: Baseline,
    pub(super) lruvecs: Vec<Lruvec>,
    /// States by frame.
    pub(super) states: Vec<PageState>,
}

impl Generations {
    pub(super) fn add_lruvec(&mut self, lruvec: LruvecId, now: Instant) {
        while self.lruvecs.len() <= lruvec.index() {
            self.lruvecs.push(Lruvec::new(now));
        }
    }

    #[inline]
    pub(super) fn get(&self, lruvec: LruvecId) -> &Lruvec {
        &self.lruvecs[lruvec.index()]
    }
    #[inline]
    pub(super) fn get_mut(&mut self, lruvec: LruvecId) -> &mut Lruvec {
        &mut self.lruvecs[lruvec.index()]
    }
    #[inline]
    pub(super) fn state(&self, frame: FrameId) -> PageState {
        self.states.get(frame.index()).copied().unwrap_or_default()
    }
    #[inline]
    pub(super) fn set_state(&mut self, frames: &Frames, frame: FrameId, state: PageState) {
        if self.states.len() <= frame.index() {
            self.make_room(frames);
        }
        self.states[frame.index()] = state;
    }

    #[cold]
    fn make_room(&mut self, frames: &Frames) {
        // Fresh zero pages, not a resize that would write them all.
        let mut states = vec![PageState::default(); frames.len()];
        states[..self.states.len()].copy_from_slice(&self.states);
        self.states = states;
    }

    /// Begins to read ahead what the next batch of the oldest generation will take.
    pub(super) fn read_ahead(&self, lruvec: LruvecId, page_type: PageType) -> ReadAhead {
        let own = self.get(lruvec);
        own.lists[list_of(own.min_seq[page_type as usize])][page_type as usize].read_ahead()
    }

    /// The generation that a page would enter.
    pub(super) fn entry(&self, memory: &Memory, frame: FrameId, rotated: bool) -> u64 {
        let page = Entering::of(memory.frames.flags(frame), self.state(frame), rotated);
        self.entry_of(memory.lruvec_of(frame), page)
    }

    #[inline]
    fn entry_of(&self, lruvec: LruvecId, page: Entering) -> u64 {
        match self.baseline {
            Baseline::V7_2 => self.get(lruvec).entry(page),
            Baseline::V6_12 => self.get(lruvec).entry_v6_12(page),
        }
    }

    /// Puts a page that is on no list where its flags say.
    #[inline]
    pub(super) fn insert(&mut self, memory: &mut Memory, frame: FrameId, rotated: bool) {
        self.insert_as(memory, frame, self.state(frame), rotated);
    }

    /// The same for a page in a state that is not stored yet.
    pub(super) fn insert_as(&mut self, memory: &mut Memory, frame: FrameId, state: PageState, rotated: bool) {
        let lruvec = memory.lruvec_of(frame);
        let page = Entering::of(memory.frames.flags(frame), state, rotated);
        let (seq, page_type) = (self.entry_of(lruvec, page), page.page_type);
        debug_assert!(
            (self.get(lruvec).min_seq[page_type as usize]..=self.get(lruvec).max_seq).contains(&seq),
            "a page enters a generation that there is"
        );
        debug_assert!(state.generation().is_none(), "a page is of one generation at a time");
        self.set_state(&memory.frames, frame, state.of_type(page_type).with_generation(list_of(seq)));
        memory.frames.update(frame, [Flag::Active, Flag::Isolated], [Flag::OnList]);
        let end = if rotated { ListEnd::Tail } else { ListEnd::Head };
        let own = self.get_mut(lruvec);
        own.lists[list_of(seq)][page_type as usize].push(&mut memory.frames, frame, end);
        own.nr[list_of(seq)][page_type as usize] += memory.frames.nr_pages(frame);
    }

    /// Takes a page off its list; it belongs to no generation from now on.
    pub(super) fn take_off(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(memory.frames.has(frame, Flag::OnList), "a page of a generation is on a list");
        let page_type = self.state(frame).page_type() as usize;
        let own = &mut self.lruvecs[memory.lruvec_of(frame).index()];
        Chain::unlink(own.lists.iter_mut().map(|lists| &mut lists[page_type]), &mut memory.frames, frame);
        self.forget_generation(memory, frame, []);
    }

    /// Takes the oldest page, which is `frame`, off the list that it is linked in, to be judged: it belongs to no generation from now on.
    #[inline]
    pub(super) fn isolate_oldest(&mut self, memory: &mut Memory, lruvec: LruvecId, list: usize, frame: FrameId) {
        let page_type = self.state(frame).page_type() as usize;
        let list = &mut self.lruvecs[lruvec.index()].lists[list][page_type];
        debug_assert_eq!(list.tail(), Some(frame), "the oldest of its list");
        list.remove(&mut memory.frames, frame);
        self.forget_generation(memory, frame, [Flag::Isolated]);
    }

    #[inline]
    fn forget_generation<const N: usize>(&mut self, memory: &mut Memory, frame: FrameId, set: [Flag; N]) {
        let state = self.state(frame);
        let generation = state.generation().expect("on a list");
        let nr = &mut self.lruvecs[memory.lruvec_of(frame).index()].nr[generation][state.page_type() as usize];
        let pages = memory.frames.nr_pages(frame);
        debug_assert!(*nr >= pages, "a page that leaves a generation was counted");
        *nr -= pages;
        self.states[frame.index()] = state.without_generation();
        memory.frames.update(frame, [Flag::OnList], set);
    }

    /// Moves a page of the oldest generation to the next, unless a walk has promoted it; it keeps its place in the list.
    /// Returns the generation's list that it belongs on.
    pub(super) fn promote_by_one(&mut self, frames: &Frames, lruvec: LruvecId, frame: FrameId) -> usize {
        let own = &mut self.lruvecs[lruvec.index()];
        let state = self.states[frame.index()];
        let page_type = state.page_type() as usize;
        let generation = state.generation().expect("on a list");
        let oldest = own.min_seq[page_type];
        if generation != list_of(oldest) {
            return generation;
        }
        debug_assert!(oldest < own.max_seq, "there is a generation to move on to");
        let next = list_of(oldest + 1);
        self.states[frame.index()] = state.moved_on(self.baseline).with_generation(next);
        let pages = frames.nr_pages(frame);
        debug_assert!(own.nr[generation][page_type] >= pages, "a page that leaves a generation was counted");
        own.nr[generation][page_type] -= pages;
        own.nr[next][page_type] += pages;
        next
    }

    /// Links a page of the oldest generation into another list, which its byte names already.
    pub(super) fn relink(&mut self, memory: &mut Memory, lruvec: LruvecId, frame: FrameId, to: usize, end: ListEnd) {
        debug_assert_eq!(
            self.states[frame.index()].generation(),
            Some(to),
            "the byte of a page names its list before it is linked there"
        );
        let own = &mut self.lruvecs[lruvec.index()];
        let page_type = self.states[frame.index()].page_type() as usize;
        Chain::unlink(own.lists.iter_mut().map(|lists| &mut lists[page_type]), &mut memory.frames, frame);
        own.lists[to][page_type].push(&mut memory.frames, frame, end);
        memory.ledger.spend(memory.costs.lru_move_ns);
    }

    /// Gives up the oldest generation of a type, pages or not, to make room for a new one (docs/spec/mglru.md#s4-5).
    pub(super) fn force_min_seq(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        page_type: PageType,
        swappiness: u32,
    ) {
        debug_assert!(self.get(lruvec).nr_generations(page_type) > MIN_NR_GENS, "the two youngest generations stay");
        let at = page_type as usize;
        let oldest = list_of(self.get(lruvec).min_seq[at]);
        if is_evictable(page_type, swappiness) {
            while let Some(frame) = self.get(lruvec).lists[oldest][at].tail() {
                let before = self.state(frame);
                let to = self.promote_by_one(&memory.frames, lruvec, frame);
                self.relink(memory, lruvec, frame, to, ListEnd::Tail);
                // 6.12 counts nothing here.
                if self.baseline == Baseline::V7_2 && !before.is_lazily_promotable() {
                    let pages = memory.frames.nr_pages(frame);
                    self.get_mut(lruvec).history[at].protected[before.tier()] += pages;
                }
            }
        }
        let own = self.get_mut(lruvec);
        own.history[at].carry_over();
        own.min_seq[at] += 1;
    }

    /// Makes a new, empty, youngest generation, if `seq` is still the youngest.
    pub(super) fn advance_max_seq(&mut self, memory: &mut Memory, lruvec: LruvecId, seq: u64, swappiness: u32) -> bool {
        if seq != self.get(lruvec).max_seq {
            return false;
        }
        for page_type in TYPES {
            if self.get(lruvec).nr_generations(page_type) == MAX_NR_GENS {
                self.force_min_seq(memory, lruvec, page_type, swappiness);
            }
        }
        let own = self.get_mut(lruvec);
        own.max_seq += 1;
        own.birth[list_of(own.max_seq)] = memory.now;
        debug_assert!(
            TYPES.into_iter().all(|page_type| (MIN_NR_GENS..=MAX_NR_GENS).contains(&own.nr_generations(page_type))),
            "a type has two to four generations"
        );
        true
    }

    /// Checks lists, counts and bytes against each other.
    pub(super) fn check(&self, memory: &Memory) -> Result<(), String> {
        for (index, own) in self.lruvecs.iter().enumerate() {
            let mut counted = [[0u64; 2]; NR_GENS];
            for page_type in TYPES {
                let at = page_type as usize;
                let generations = self.lruvecs[index].nr_generations(page_type);
                if !(MIN_NR_GENS..=MAX_NR_GENS).contains(&generations) {
                    return Err(format!("lruvec {index}: {generations} generations of {page_type:?}"));
                }
                let total: u64 = own.nr.iter().map(|nr| nr[at]).sum();
                for list in own.lists.iter().map(|lists| lists[at]) {
                    for (met, frame) in list.from_tail(&memory.frames).enumerate() {
                        self.check_page(memory, frame, index, page_type)?;
                        let generation = self.state(frame).generation().expect("checked");
                        counted[generation][at] += memory.frames.nr_pages(frame);
                        if met as u64 > total {
                            return Err(format!("lruvec {index}: a list of {page_type:?} does not end"));
                        }
                    }
                }
            }
            if counted != own.nr {
                return Err(format!("lruvec {index}: counts {:?}, lists hold {counted:?}", own.nr));
            }
        }
        Ok(())
    }

    fn check_page(&self, memory: &Memory, frame: FrameId, index: usize, expected: PageType) -> Result<(), String> {
        let state = self.state(frame);
        if memory.frames.head(frame) != frame {
            return Err(format!("{frame:?} is on a list of lruvec {index}, but a tail of a folio"));
        }
        if state.generation().is_none() || state.page_type() != expected || page_type(memory, frame) != expected {
            return Err(format!("{frame:?} is on a list of {expected:?} of lruvec {index}, but is {state:?}"));
        }
        let flags = memory.frames.flags(frame);
        if !flags.has(Flag::OnList) || flags.has_any([Flag::Isolated, Flag::Active, Flag::Unevictable]) {
            return Err(format!("{frame:?} is on a list of lruvec {index} but its flags deny it: {flags:?}"));
        }
        if memory.lruvec_of(frame).index() != index {
            return Err(format!(
                "{frame:?} is on a list of lruvec {index} but belongs to {:?}",
                memory.lruvec_of(frame)
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn lruvec(max_seq: u64, min_seq: [u64; 2]) -> Lruvec {
        Lruvec { max_seq, min_seq, ..Lruvec::new(Instant::START) }
    }
    pub(crate) const ANON: Entering = Entering {
        page_type: PageType::Anon,
        active: false,
        workingset: false,
        referenced: false,
        rotated: false,
        fresh_anon: false,
        being_written: false,
    };
    pub(crate) const FILE: Entering = Entering { page_type: PageType::File, ..ANON };

    /// E2 and E3: where pages enter.
    #[test]
    fn e2_e3_insertion() {
        let unequal = lruvec(7, [4, 5]);
        let table = [
            ("fresh anon fault", Entering { referenced: true, fresh_anon: true, ..ANON }, 6),
            ("swap-in without workingset", Entering { referenced: true, ..ANON }, 5),
            ("swap-in with workingset in a fault", Entering { active: true, workingset: true, ..ANON }, 7),
            ("file fault", Entering { referenced: true, ..FILE }, 5),
            ("read() miss", FILE, 5),
            ("created by a write", FILE, 5),
            ("active, not workingset", Entering { active: true, ..FILE }, 6),
            ("anon after write-back", Entering { rotated: true, ..ANON }, 4),
            ("dirty when reclaim met it", Entering { being_written: true, ..FILE }, 6),
        ];
        for (what, page, seq) in table {
            assert_eq!(unequal.entry(page), seq, "{what}");
        }
        let equal = lruvec(7, [4, 4]);
        assert_eq!(equal.entry(FILE), 4, "read() miss");
        assert_eq!(equal.entry(Entering { referenced: true, ..FILE }), 5, "file fault");
        assert_eq!(equal.entry(Entering { workingset: true, ..FILE }), 5, "read() refault with workingset");
    }

    /// E4: the first pages of a new lruvec.
    #[test]
    fn e4_initial_state() {
        let new = Lruvec::new(Instant::START);
        assert_eq!((new.max_seq, new.min_seq), (3, [0, 0]));
        assert_eq!(new.entry(Entering { referenced: true, fresh_anon: true, ..ANON }), 2);
        assert_eq!(new.entry(FILE), 0);
        assert_eq!(new.entry(Entering { referenced: true, ..FILE }), 1);
    }

    /// E18: the types stay close.
    #[test]
    fn e18_flush_min_seq() {
        assert_eq!(keep_close([9, 7], 10, 60), [8, 7]);
        assert_eq!(keep_close([7, 9], 10, 60), [7, 8]);
        assert_eq!(keep_close([9, 7], 10, 201), [9, 7]);
        let mut own = lruvec(10, [7, 7]);
        own.flush_min_seq(0, Baseline::V7_2);
        assert_eq!(own.min_seq, [7, 9], "only file is considered");
        own.flush_min_seq(60, Baseline::V7_2);
        assert_eq!(own.min_seq, [9, 9], "all empty");
    }
}
