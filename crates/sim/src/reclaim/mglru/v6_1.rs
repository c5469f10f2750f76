//! What Linux 6.1 does otherwise, one function a row of the table (docs/spec/mglru.md#s18). Uses of pages: `baseline.rs`. Most of it holds
//! for 6.12 too; what does not is told where it differs, and in `v6_12.rs`.

use super::Mglru;
use super::ageing::Effort;
use super::baseline::Baseline;
use super::controller::{TIER_GAINS_V6_1, choose_v6_1, tier_limit};
use super::evict::{Evicted, Isolated, Queue, Turn};
use super::generations::{Entering, Lruvec, TYPES, is_evictable, list_of};
use super::look_around::Verdict;
use super::node::outlived;
use super::page::{MAX_NR_GENS, MIN_LRU_BATCH, MIN_NR_GENS, NR_TIERS, PageState};
use super::refault::REFS_BITS;
use crate::cgroup::CgroupId;
use crate::cgroup::protection::Standing;
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, ListEnd, Mapper, Memory, NodeId};
use crate::reclaim::driver::effective_protection;
use crate::reclaim::outcome::page_type;
use crate::reclaim::scan_balance::PageType;
use crate::reclaim::{DEF_PRIORITY, LruvecId, Reclaimer, Scan};
use isotherm_units::Duration;

/// Pages that a batch looks at, at most.
const MAX_LRU_BATCH: u64 = 4096;
/// Candidates of a look-around from which on their generations are rewritten at once (a batch of the kernel's).
const MANY_CANDIDATES: usize = 15;
/// Below this priority or at it a reclaimer asks whether the node has memory again.
const LOW_PRIORITY: u32 = DEF_PRIORITY - 2;
/// Address spaces with fewer pages are not walked.
const SMALL_SPACE: u64 = MIN_LRU_BATCH;

/// What the daemon keeps from step to step.
#[derive(Debug, Default)]
pub(super) struct Daemon {
    /// The last run freed a batch without need to age: the next step makes no generations.
    skips_ageing: bool,
    /// Pages freed when the step began.
    reclaimed_before: u64,
}

impl Daemon {
    /// As it is when the last run freed a batch without need to age.
    #[cfg(test)]
    pub(super) const fn after_a_good_run() -> Self {
        Self { skips_ageing: true, reclaimed_before: 0 }
    }
}

/// Whether an address space is too small to be walked. Linux counts pages of the types that may be evicted.
pub(super) const fn is_small(resident_pages: u64) -> bool {
    resident_pages < SMALL_SPACE
}

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
    pub(super) const fn entry_v6_1(&self, page: Entering) -> u64 {
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

    /// The type by whose oldest generation it is seen whether to age: anonymous pages where they may be swapped.
    pub(super) const fn checked_v6_1(swappiness: u32) -> PageType {
        if swappiness == 0 { PageType::File } else { PageType::Anon }
    }

    fn pages_of(&self, seq: u64, swappiness: u32) -> u64 {
        let types = TYPES.into_iter().filter(|&page_type| is_evictable(page_type, swappiness));
        types.map(|page_type| self.nr[list_of(seq)][page_type as usize]).sum()
    }

    /// When to age.
    pub(super) fn is_due_v6_1(&self, swappiness: u32) -> bool {
        let checked = self.nr_generations(Self::checked_v6_1(swappiness));
        let (youngest, third) = (self.max_seq, self.max_seq - MIN_NR_GENS);
        let pages = |seq| self.pages_of(seq, swappiness);
        is_due(checked, pages(youngest), pages(third), self.evictable_pages(swappiness))
    }
}

impl Mglru {
    /// Reference check: as the two lists do it, after the look-around.
    pub(super) fn check_references_v6_1(&mut self, memory: &mut Memory, frame: FrameId, root: CgroupId) -> Verdict {
        let (mut nr_used, mut is_code) = (0, false);
        let mappers = match memory.sole_mapper(frame) {
            Some((space, page)) => vec![Mapper { space, page, executable: false }],
            None => memory.mappers(frame),
        };
        for mapper in mappers {
            if self.look_through(memory, frame, mapper, root) {
                nr_used += 1;
                is_code |= mapper.executable;
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

    /// Look-around: a few candidates are activated one by one, many have their generations rewritten, as with a walk's means. 6.12
    /// activates all one by one.
    pub(super) fn found_used_v6_1(&mut self, memory: &mut Memory, lruvec: LruvecId, used: &[FrameId]) {
        let youngest = list_of(self.generations.get(lruvec).max_seq);
        let is_older = |frame: &&FrameId| self.generations.state(**frame).generation() != Some(youngest);
        let candidates: Vec<FrameId> = used.iter().filter(is_older).copied().collect();
        let are_few = candidates.len() < MANY_CANDIDATES || self.baseline == Baseline::V6_12;
        let singly = !self.has_walk_context && are_few;
        for frame in candidates {
            let state = self.generations.state(frame);
            if singly {
                self.generations.take_off(memory, frame);
                memory.frames.set(frame, Flag::Active);
                self.generations.insert(memory, frame, false);
                memory.count(Counter::PgActivate, memory.cgroup_of(lruvec), 1);
                memory.ledger.spend(memory.costs.lru_move_ns);
                continue;
            }
            let (Some(from), at) = (state.generation(), state.page_type() as usize) else { continue };
            let own = self.generations.get_mut(lruvec);
            own.nr[from][at] -= 1;
            own.nr[youngest][at] += 1;
            self.generations.states[frame.index()] = state.cold().with_generation(youngest);
        }
    }

    /// Rejected after reclaim: what is being written keeps its place, the rest gets young. A page for which a second attempt is
    /// worth while does not come here at the first.
    pub(super) fn put_back_v6_1(&mut self, memory: &mut Memory, frame: FrameId) {
        let flags = memory.frames.flags(frame);
        if flags.has(Flag::Unevictable) {
            return self.classic.adopt(memory, frame, ListEnd::Head);
        }
        let state = self.generations.state(frame);
        if !(flags.has(Flag::Reclaim) && flags.has_any([Flag::Dirty, Flag::Writeback])) {
            self.generations.set_state(&memory.frames, frame, state.cold());
            memory.frames.set(frame, Flag::Active);
        } else if self.baseline == Baseline::V6_12 && state.is_workingset() {
            // Its first use was forgotten when it was taken off.
            self.generations.set_state(&memory.frames, frame, state.with_referenced());
        }
        self.generations.insert(memory, frame, false);
    }

    /// Sort.
    pub(super) fn sort_v6_1(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        frame: FrameId,
        oldest: usize,
        limit: usize,
    ) -> bool {
        let state = self.generations.state(frame);
        let (flags, page_type) = (memory.frames.flags(frame), state.page_type());
        let is_first = self.baseline == Baseline::V6_1;
        if is_first && page_type == PageType::File && !flags.has(Flag::FileOwned) && flags.has(Flag::Dirty) {
            // Freed lazily, written since: anonymous again.
            self.generations.take_off(memory, frame);
            memory.frames.set(frame, Flag::SwapBacked);
            self.generations.insert(memory, frame, true);
            return true;
        }
        let generation = state.generation().expect("on a list");
        if generation != oldest {
            self.generations.relink(memory, lruvec, frame, generation, ListEnd::Head);
            return true;
        }
        let tier = Baseline::V6_1.tier(state);
        let is_promoted = Baseline::V6_1.is_lazily_promotable(state);
        if tier > limit || is_promoted {
            let to = self.generations.promote_by_one(lruvec, frame);
            self.generations.relink(memory, lruvec, frame, to, ListEnd::Tail);
            if is_first && is_promoted {
                return true;
            }
            self.generations.get_mut(lruvec).history[page_type as usize].protected[tier] += 1;
            // 6.12 counts it when it is back.
            if !is_first {
                return true;
            }
            let counter = match page_type {
                PageType::Anon => Counter::WorkingsetActivateAnon,
                PageType::File => Counter::WorkingsetActivateFile,
            };
            memory.count(counter, memory.cgroup_of(lruvec), 1);
            return true;
        }
        let is_busy = flags.has(Flag::Writeback) || page_type == PageType::File && flags.has(Flag::Dirty);
        if is_busy {
            memory.frames.set(frame, Flag::Reclaim);
            let to = self.generations.promote_by_one(lruvec, frame);
            self.generations.relink(memory, lruvec, frame, to, ListEnd::Head);
        }
        is_busy
    }

    /// Shadow: of use only while the generation it was evicted from would still be the oldest. 6.12 counts the refault before it asks
    /// that, and an activation after.
    pub(super) fn refaulted_v6_1(&mut self, memory: &mut Memory, frame: FrameId, shadow: u64) {
        let layout = self.layout(memory);
        let shadow = layout.unpack(shadow);
        let lruvec = memory.lruvec_of(frame);
        let (cgroup, node) = (memory.cgroup_of(lruvec), memory.node_of(lruvec));
        let page_type = page_type(memory, frame);
        let own = self.generations.get_mut(lruvec);
        let oldest = own.min_seq[page_type as usize] & ((1 << (layout.token_bits() - REFS_BITS)) - 1);
        let is_own = (CgroupId(shadow.cgroup), NodeId(shadow.node)) == (cgroup, node);
        let is_recent = shadow.token >> REFS_BITS == oldest;
        let (refault, activate, restore) = match page_type {
            PageType::Anon => {
                (Counter::WorkingsetRefaultAnon, Counter::WorkingsetActivateAnon, Counter::WorkingsetRestoreAnon)
            }
            PageType::File => {
                (Counter::WorkingsetRefaultFile, Counter::WorkingsetActivateFile, Counter::WorkingsetRestoreFile)
            }
        };
        let counts_activation = self.baseline == Baseline::V6_12;
        if is_own && (is_recent || counts_activation) {
            memory.count(refault, cgroup, 1);
        }
        if !is_own || !is_recent {
            return;
        }
        memory.count(activate, cgroup, u64::from(counts_activation));
        let further = shadow.token & ((1 << REFS_BITS) - 1);
        let refs = further + u64::from(shadow.workingset);
        own.history[page_type as usize].refaulted[Baseline::tier_beyond_the_first(refs)] += 1;
        if memory.recent_fault || refs >= NR_TIERS as u64 - 1 {
            let state = self.generations.state(frame).with_workingset().with_further_uses(u64::MAX);
            self.generations.set_state(&memory.frames, frame, state);
            memory.frames.set(frame, Flag::Workingset);
            memory.count(restore, cgroup, 1);
        }
    }

    /// Type and tier.
    pub(super) fn isolate_v6_1(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        swappiness: u32,
        queue: Queue,
        scan: &mut Scan,
    ) -> Isolated {
        let own = self.generations.get(lruvec);
        let (mut page_type, mut limit) = choose_v6_1(&own.history, own.min_seq, swappiness);
        let mut isolated = Isolated { scanned: 0, pages: Vec::new(), page_type };
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
            if !isolated.pages.is_empty() || isolated.scanned == MAX_LRU_BATCH {
                return isolated;
            }
            page_type = if page_type == PageType::Anon { PageType::File } else { PageType::Anon };
            limit = tier_limit(&self.generations.get(lruvec).history[page_type as usize], TIER_GAINS_V6_1);
        }
        // Nothing to take: what was only moved does not count as a reason to go on.
        Isolated { scanned: 0, ..isolated }
    }

    /// Who ages: the daemon, for all groups, at each of its steps. With a time to live, groups whose oldest file pages are
    /// younger are left alone, and if all are, a process is killed.
    pub(super) fn age_node_v6_1(&mut self, memory: &mut Memory, node: NodeId, scan: &Scan) {
        self.daemon.reclaimed_before = scan.nr_reclaimed;
        if std::mem::take(&mut self.daemon.skips_ageing) {
            return;
        }
        self.has_walk_context = true;
        let effective = effective_protection(memory, CgroupId::ROOT);
        let ttl = self.config.min_ttl;
        let mut has_old_pages = false;
        for group in memory.cgroups.subtree(CgroupId::ROOT) {
            let lruvec = memory.lruvec(group, node);
            let protection = effective.get(group.index()).copied().unwrap_or_default();
            if protection.standing(memory.cgroups.get(group).usage) == Standing::BelowMin {
                continue;
            }
            let swappiness = Self::effective_swappiness(memory, lruvec, scan);
            let own = self.generations.get(lruvec);
            let birth = own.birth[list_of(own.min_seq[PageType::File as usize])];
            let is_small = own.evictable_pages(swappiness) >> scan.priority == 0 && scan.priority != DEF_PRIORITY;
            if ttl != Duration::ZERO && (!outlived(birth, ttl, memory.now) || is_small) {
                continue;
            }
            has_old_pages = true;
            if own.is_due_v6_1(swappiness) {
                self.age(memory, lruvec, swappiness, Effort::Heuristic);
            }
        }
        self.has_walk_context = false;
        if ttl != Duration::ZERO && !has_old_pages {
            memory.reclaim.kill_wanted = true;
        }
    }

    /// Amount: pages to scan at this priority, and whether ageing is due. Who is not the daemon ages here.
    fn amount_v6_1(&mut self, memory: &mut Memory, lruvec: LruvecId, swappiness: u32, scan: &Scan) -> (u64, bool) {
        let usage = memory.cgroups.get(memory.cgroup_of(lruvec)).usage;
        match scan.effective.standing(usage) {
            Standing::BelowMin => return (0, false),
            Standing::BelowLow if !scan.low_reclaim => return (0, false),
            Standing::BelowLow | Standing::Unprotected => {}
        }
        let own = self.generations.get(lruvec);
        let total = own.evictable_pages(swappiness);
        let amount = if self.is_offline(lruvec) { total } else { total >> scan.priority };
        if !own.is_due_v6_1(swappiness) {
            return (amount, false);
        }
        if scan.priority == DEF_PRIORITY {
            let can_evict = own.nr_generations(Lruvec::checked_v6_1(swappiness)) > MIN_NR_GENS;
            return (if can_evict { amount } else { 0 }, true);
        }
        if scan.reclaimer == Reclaimer::Kswapd {
            return (0, true); // it ages elsewhere
        }
        self.age(memory, lruvec, swappiness, Effort::Heuristic);
        self.has_walk_context = true;
        (amount, true)
    }

    /// Evicts from one lruvec as far as this priority asks for.
    pub(super) fn shrink_v6_1(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) -> Turn {
        let swappiness = Self::effective_swappiness(memory, lruvec, scan);
        let (seq, freed) = (self.generations.get(lruvec).max_seq, scan.nr_reclaimed);
        let (mut scanned, mut was_due) = (0, false);
        loop {
            let (amount, is_due) = self.amount_v6_1(memory, lruvec, swappiness, scan);
            was_due |= is_due;
            if amount == 0 {
                break;
            }
            let batch = self.evict_batch(memory, lruvec, MAX_LRU_BATCH, swappiness, Queue::Waits, scan);
            scanned += batch.scanned;
            if batch.scanned == 0 || scan.blocked || scanned >= amount {
                break;
            }
            if self.is_enough_v6_1(memory, lruvec, seq, batch, scan) {
                break;
            }
        }
        let is_kswapd = scan.reclaimer == Reclaimer::Kswapd;
        self.daemon.skips_ageing |= is_kswapd && scan.nr_reclaimed - freed >= MIN_LRU_BATCH && !was_due;
        Turn::Stay
    }

    /// Abort.
    fn is_enough_v6_1(&self, memory: &Memory, lruvec: LruvecId, seq: u64, batch: Evicted, scan: &mut Scan) -> bool {
        let is_kswapd = scan.reclaimer == Reclaimer::Kswapd;
        if is_kswapd {
            if scan.nr_reclaimed - self.daemon.reclaimed_before.min(scan.nr_reclaimed) < scan.nr_to_reclaim {
                return false;
            }
        } else {
            let has_enough = self.config.features.backoff && scan.nr_reclaimed >= scan.nr_to_reclaim;
            let has_swapped = batch.page_type == Some(PageType::Anon);
            if self.generations.get(lruvec).max_seq - seq > 1 || has_enough && has_swapped {
                return true;
            }
            if !scan.is_global() {
                return false;
            }
        }
        if scan.priority > LOW_PRIORITY {
            return false;
        }
        let zones = &memory.nodes.get(memory.node_of(lruvec)).zones;
        let highest = zones.len() - 1;
        let has_memory = zones.iter().enumerate().all(|(index, zone)| {
            let reserve = if index == highest { 0 } else { zone.marks.lowmem_reserve };
            let mark = if is_kswapd { zone.marks.high } else { zone.marks.low };
            zone.free() > mark + reserve
        });
        scan.nr_reclaimed += if has_memory { MIN_LRU_BATCH } else { 0 };
        has_memory
    }

    /// Commands: whether a `+` has anything to do.
    ///
    /// # Errors
    /// Four generations already, and the walk may not be forced.
    pub(super) fn may_age_v6_1(
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
        let is_full = own.nr_generations(Lruvec::checked_v6_1(swappiness)) == MAX_NR_GENS;
        if is_full && effort == Effort::Heuristic { Err(super::Refusal::Range) } else { Ok(true) }
    }
}

impl PageState {
    /// As a page enters the next generation: the uses that 6.1 counts hold the mark of the working set.
    pub(super) const fn moved_on(self, baseline: Baseline) -> Self {
        match baseline {
            Baseline::V7_2 => self.without_refs(),
            Baseline::V6_1 | Baseline::V6_12 => self.cold(),
        }
    }
}
