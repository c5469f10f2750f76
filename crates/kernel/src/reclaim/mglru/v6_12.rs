//! Differences of Linux 6.12 from 7.2, a function for each difference that is longer than a line (docs/spec/mglru.md#s18). Uses of pages:
//! `baseline.rs`. The order of groups and the time to live are those of 7.2.

use super::Mglru;
use super::ageing::Effort;
use super::baseline::Baseline;
use super::controller::{TIER_GAINS_V6_12, choose_v6_12, tier_limit};
use super::evict::{Isolated, Queue, Turn};
use super::generations::{Entering, Lruvec, TYPES, is_evictable, list_of};
use super::look_around::Verdict;
use super::page::{MAX_NR_GENS, MIN_LRU_BATCH, MIN_NR_GENS, NR_TIERS, PageState};
use super::refault::REFS_BITS;
use crate::cgroup::CgroupId;
use crate::cgroup::protection::Standing;
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, ListEnd, Memory, NodeId};
use crate::reclaim::outcome::page_type;
use crate::reclaim::refault::refault_counters;
use crate::reclaim::scan_balance::PageType;
use crate::reclaim::{DEF_PRIORITY, LruvecId, Scan};

/// Folios that a batch scans, at most.
const MAX_LRU_BATCH: u64 = 4096;

/// Min_seq coupling: where swapping is possible the types advance in step.
pub(super) fn keep_step(candidates: [u64; 2], current: [u64; 2], swappiness: u32) -> [u64; 2] {
    if swappiness == 0 {
        return candidates;
    }
    let [anon, file] = candidates;
    let both = anon.min(file);
    [both, both.max(current[PageType::File as usize])]
}

/// When to age, by the youngest generation, the third youngest and all pages of the types that may be evicted.
fn is_due(nr_generations: u64, youngest: u64, third: u64, total: u64) -> bool {
    match nr_generations {
        ..=MIN_NR_GENS => true,
        MAX_NR_GENS.. => false,
        _ => youngest * MIN_NR_GENS > total || third * (MIN_NR_GENS + 2) < total,
    }
}

impl Lruvec {
    /// Where a page enters.
    pub(super) const fn entry_v6_12(&self, page: Entering) -> u64 {
        let oldest = self.min_seq[page.page_type as usize];
        if page.active {
            self.max_seq
        } else if page.fresh_anon || page.being_written {
            self.max_seq - 1
        } else if page.rotated || self.nr_generations(page.page_type) < MAX_NR_GENS {
            oldest
        } else {
            oldest + 1
        }
    }

    /// The type whose oldest generation decides whether to age: anonymous pages where they may be swapped.
    pub(super) const fn checked_v6_12(swappiness: u32) -> PageType {
        if swappiness == 0 { PageType::File } else { PageType::Anon }
    }

    fn pages_of(&self, seq: u64, swappiness: u32) -> u64 {
        let types = TYPES.into_iter().filter(|&page_type| is_evictable(page_type, swappiness));
        types.map(|page_type| self.nr[list_of(seq)][page_type as usize]).sum()
    }

    /// When to age.
    pub(super) fn is_due_v6_12(&self, swappiness: u32) -> bool {
        let checked = self.nr_generations(Self::checked_v6_12(swappiness));
        let (youngest, third) = (self.max_seq, self.max_seq - MIN_NR_GENS);
        let pages = |seq| self.pages_of(seq, swappiness);
        is_due(checked, pages(youngest), pages(third), self.evictable_pages(swappiness))
    }
}

impl Mglru {
    /// Reference check: as in the two lists, after the look-around.
    pub(super) fn check_references_v6_12(&mut self, memory: &mut Memory, frame: FrameId, root: CgroupId) -> Verdict {
        let (mut nr_used, mut is_code) = (0, false);
        if memory.frames.order(frame) > 0 {
            (nr_used, is_code) = self.look_through_folio(memory, frame, root);
        } else {
            for mapper in memory.mappers(frame) {
                if self.look_through(memory, frame, mapper, root) {
                    nr_used += 1;
                    is_code |= mapper.executable;
                }
            }
        }
        let state = self.generations.state(frame);
        if nr_used == 0 {
            self.generations.set_state(&memory.frames, frame, state.without_referenced());
            return Verdict::Reclaim;
        }
        self.generations.set_state(&memory.frames, frame, state.with_referenced());
        let is_code = is_code && page_type(memory, frame) == PageType::File;
        if state.is_referenced() || nr_used > 1 || is_code { Verdict::Activate } else { Verdict::Keep }
    }

    /// Look-around: candidates are activated one by one (`lru_gen_look_around`); with a walk context their generations are rewritten.
    pub(super) fn found_used_v6_12(&mut self, memory: &mut Memory, lruvec: LruvecId, used: &[FrameId]) {
        let youngest = list_of(self.generations.get(lruvec).max_seq);
        let is_older = |frame: &&FrameId| self.generations.state(**frame).generation() != Some(youngest);
        let candidates: Vec<FrameId> = used.iter().filter(is_older).copied().collect();
        for frame in candidates {
            let state = self.generations.state(frame);
            if !self.has_walk_context {
                self.generations.take_off(memory, frame);
                memory.frames.set(frame, Flag::Active);
                self.generations.insert(memory, frame, false);
                memory.count(Counter::PgActivate, memory.cgroup_of(lruvec), memory.frames.nr_pages(frame));
                memory.ledger.spend(memory.costs.lru_move_ns);
                continue;
            }
            let (Some(from), at) = (state.generation(), state.page_type() as usize) else { continue };
            let own = self.generations.get_mut(lruvec);
            let pages = memory.frames.nr_pages(frame);
            debug_assert!(own.nr[from][at] >= pages, "a page that leaves a generation was counted");
            own.nr[from][at] -= pages;
            own.nr[youngest][at] += pages;
            self.generations.states[frame.index()] = state.cold().with_generation(youngest);
        }
    }

    /// Rejected after reclaim: pages being written keep their place, the rest become young. A page worth a second attempt does
    /// not come here at the first.
    pub(super) fn put_back_v6_12(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(!memory.frames.has(frame, Flag::OnList), "a page comes back that was taken off");
        let flags = memory.frames.flags(frame);
        if flags.has(Flag::Unevictable) {
            return self.classic.adopt(memory, frame, ListEnd::Head);
        }
        let state = self.generations.state(frame);
        if !(flags.has(Flag::Reclaim) && flags.has_any([Flag::Dirty, Flag::Writeback])) {
            self.generations.set_state(&memory.frames, frame, state.cold());
            memory.frames.set(frame, Flag::Active);
        } else if state.is_workingset() {
            // Its first use was forgotten when it was taken off.
            self.generations.set_state(&memory.frames, frame, state.with_referenced());
        }
        self.generations.insert(memory, frame, false);
    }

    /// Sort (`sort_folio`).
    pub(super) fn sort_v6_12(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        frame: FrameId,
        oldest: usize,
        limit: usize,
    ) -> bool {
        debug_assert!(limit < NR_TIERS, "only tiers that there are can be spared");
        let state = self.generations.state(frame);
        let (flags, page_type) = (memory.frames.flags(frame), state.page_type());
        let generation = state.generation().expect("on a list");
        if generation != oldest {
            self.generations.relink(memory, lruvec, frame, generation, ListEnd::Head);
            return true;
        }
        let tier = Baseline::V6_12.tier(state);
        if tier > limit || Baseline::V6_12.is_lazily_promotable(state) {
            let to = self.generations.promote_by_one(&memory.frames, lruvec, frame);
            self.generations.relink(memory, lruvec, frame, to, ListEnd::Tail);
            // The activation counts when it is back.
            let pages = memory.frames.nr_pages(frame);
            self.generations.get_mut(lruvec).history[page_type as usize].protected[tier] += pages;
            return true;
        }
        let is_busy = flags.has(Flag::Writeback) || page_type == PageType::File && flags.has(Flag::Dirty);
        if is_busy {
            memory.frames.set(frame, Flag::Reclaim);
            let to = self.generations.promote_by_one(&memory.frames, lruvec, frame);
            self.generations.relink(memory, lruvec, frame, to, ListEnd::Head);
        }
        is_busy
    }

    /// Shadow: of use only while the generation it was evicted from would still be the oldest. The refault is counted before that
    /// check, and an activation after (`lru_gen_refault`).
    pub(super) fn refaulted_v6_12(
        &mut self,
        memory: &mut Memory,
        frame: FrameId,
        shadow: u64,
        state: PageState,
    ) -> PageState {
        let layout = self.layout(memory);
        let shadow = layout.unpack(shadow);
        let lruvec = memory.lruvec_of(frame);
        let (cgroup, node) = (memory.cgroup_of(lruvec), memory.node_of(lruvec));
        let page_type = page_type(memory, frame);
        let own = self.generations.get_mut(lruvec);
        let oldest = own.min_seq[page_type as usize] & ((1 << (layout.token_bits() - REFS_BITS)) - 1);
        let is_own = (CgroupId(shadow.cgroup), NodeId(shadow.node)) == (cgroup, node);
        let is_recent = shadow.token >> REFS_BITS == oldest;
        let [refault, activate, restore] = refault_counters(page_type);
        if !is_own {
            return state;
        }
        let pages = memory.frames.nr_pages(frame);
        memory.count(refault, cgroup, pages);
        if !is_recent {
            return state;
        }
        memory.count(activate, cgroup, pages);
        let further = shadow.token & ((1 << REFS_BITS) - 1);
        let refs = further + u64::from(shadow.workingset);
        own.history[page_type as usize].refaulted[Baseline::tier_beyond_the_first(refs)] += pages;
        if !memory.recent_fault && refs < NR_TIERS as u64 - 1 {
            return state;
        }
        memory.frames.set(frame, Flag::Workingset);
        memory.count(restore, cgroup, pages);
        state.with_workingset().with_further_uses(u64::MAX)
    }

    /// Type and tier.
    pub(super) fn isolate_v6_12(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        swappiness: u32,
        queue: Queue,
        scan: &mut Scan,
    ) -> Isolated {
        let own = self.generations.get(lruvec);
        let (mut page_type, mut limit) = choose_v6_12(&own.history, own.min_seq, swappiness);
        let mut isolated = Isolated { scanned: 0, looked: 0, pages: Vec::new(), page_type };
        for _ in TYPES.into_iter().filter(|&page_type| is_evictable(page_type, swappiness)) {
            let may_block = queue == Queue::Waits && !memory.tiers.can_demote(memory.node_of(lruvec));
            if page_type == PageType::Anon && may_block && memory.io.swap_queue_is_full() {
                scan.blocked = true;
                break;
            }
            if !self.config.features.tiers {
                limit = NR_TIERS - 1;
            }
            isolated = self.scan_type(memory, lruvec, page_type, MAX_LRU_BATCH, limit);
            if !isolated.pages.is_empty() || isolated.looked == MAX_LRU_BATCH {
                return isolated;
            }
            page_type = if page_type == PageType::Anon { PageType::File } else { PageType::Anon };
            limit = tier_limit(&self.generations.get(lruvec).history[page_type as usize], TIER_GAINS_V6_12);
        }
        // Nothing to take: moved pages do not count as a reason to go on.
        Isolated { scanned: 0, ..isolated }
    }

    /// Commands: whether a `+` has an effect.
    ///
    /// # Errors
    /// Four generations already, and the walk may not be forced.
    pub(super) fn may_age_v6_12(
        &self,
        lruvec: LruvecId,
        seq: u64,
        effort: Effort,
        swappiness: u32,
    ) -> Result<bool, super::Refusal> {
        let own = self.generations.get(lruvec);
        if seq < own.max_seq {
            return Ok(false);
        }
        let is_full = own.nr_generations(Lruvec::checked_v6_12(swappiness)) == MAX_NR_GENS;
        if is_full && effort == Effort::Heuristic { Err(super::Refusal::Range) } else { Ok(true) }
    }
}

impl PageState {
    /// State as a page enters the next generation: the uses that 6.12 counts hold the mark of the working set.
    pub(crate) const fn moved_on(self, baseline: Baseline) -> Self {
        match baseline {
            Baseline::V7_2 => self.without_refs(),
            Baseline::V6_12 => self.cold(),
        }
    }
}

/// The result of [`Mglru::amount_v6_12`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    /// A number of pages.
    Pages(u64),
    /// The lruvec had to age, or is protected: no page is taken from it now.
    Rotate,
}

impl Lruvec {
    /// Oldest generations that are empty are given up after a batch, which counts as a page scanned (`evict_folios`, `try_to_inc_min_seq`).
    /// With two generations left the scan cannot go on.
    pub(super) fn scanned_v6_12(&mut self, scanned: u64, swappiness: u32) -> u64 {
        let has_advanced = self.flush_min_seq(swappiness, Baseline::V6_12);
        if self.nr_generations(Self::checked_v6_12(swappiness)) == MIN_NR_GENS {
            return 0;
        }
        scanned + u64::from(has_advanced)
    }
}

impl Mglru {
    /// How much to scan (`get_nr_to_scan`): all pages that may go, shifted by the priority. If ageing is due below the first priority, the
    /// lruvec ages in place of the scan.
    fn amount_v6_12(&mut self, memory: &mut Memory, lruvec: LruvecId, swappiness: u32, scan: &Scan) -> Amount {
        let usage = memory.cgroups.get(memory.cgroup_of(lruvec)).usage;
        if scan.effective.standing(usage) == Standing::BelowMin {
            return Amount::Rotate;
        }
        let own = self.generations.get(lruvec);
        let can_evict = own.nr_generations(Lruvec::checked_v6_12(swappiness)) > MIN_NR_GENS;
        let total = if can_evict { own.evictable_pages(swappiness) } else { 0 };
        if total > 0 && self.is_offline(lruvec) {
            return Amount::Pages(total);
        }
        if scan.priority == DEF_PRIORITY || !own.is_due_v6_12(swappiness) {
            return Amount::Pages(total >> scan.priority);
        }
        self.age(memory, lruvec, swappiness, Effort::Heuristic);
        Amount::Rotate
    }

    /// Evicts from one lruvec as far as this priority requires (`try_to_shrink_lruvec`). Reclaim for a limit does not stop at its target
    /// (`should_abort_scan`), for fairness among groups.
    pub(super) fn shrink_v6_12(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) -> Turn {
        debug_assert!(scan.priority <= DEF_PRIORITY, "reclaim begins with the gentlest priority");
        let swappiness = Self::effective_swappiness(memory, lruvec, scan);
        let mut scanned = 0;
        loop {
            let amount = match self.amount_v6_12(memory, lruvec, swappiness, scan) {
                Amount::Rotate => return Turn::Rotate,
                Amount::Pages(pages) => pages,
            };
            if amount == 0 {
                return Turn::Stay;
            }
            let batch = self.evict_batch(memory, lruvec, MIN_LRU_BATCH, swappiness, Queue::Waits, scan);
            scanned += batch.scanned;
            if batch.scanned == 0 || scan.blocked || scanned >= amount {
                return Turn::Stay;
            }
            if scan.is_global() && self.is_enough(memory, lruvec, scan) {
                return Turn::Stay;
            }
        }
    }
}
