//! Eviction from one lruvec: how much, the loop, and the pages taken from the oldest generation (docs/spec/mglru.md#s5,
//! #s6).

use super::Mglru;
use super::ageing::{Effort, is_due};
use super::baseline::Baseline;
use super::controller::{TIER_GAINS, tier_limit, type_to_evict};
use super::generations::{TYPES, is_evictable, list_of};
use super::look_around::Verdict;
use super::page::{MIN_LRU_BATCH, MIN_NR_GENS, NR_TIERS};
use crate::cgroup::protection::{Standing, proportional_protection};
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, ListEnd, Memory};
use crate::reclaim::demotion::{demote, demote_or_evict};
use crate::reclaim::outcome::{self, Batch, Fate};
use crate::reclaim::scan_balance::PageType;
use crate::reclaim::swap_out::PlainPages;
use crate::reclaim::{LruvecId, Reclaimer, Scan, Taken};

/// Free swap below which anonymous pages are left alone: a batch could not be swapped out.
const MIN_SWAP: u64 = MIN_LRU_BATCH;
/// Pages above the high watermark at which a daemon stops in the middle of a round.
const ABOVE_HIGH: u64 = MIN_LRU_BATCH;

/// Where an lruvec belongs among its like after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It had to age, or is protected: others first.
    Rotate,
    /// The policy may be asked about the page again.
    Stay,
}

/// The task that waits for a full device queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// The reclaimer, before it writes more.
    Waits,
    /// No task waits: the writes are queued behind the others.
    Ignored,
}

/// Folios taken off the oldest generation.
pub(super) struct Isolated {
    /// Pages of all folios that were scanned.
    pub(super) scanned: u64,
    /// Folios that were scanned.
    pub(super) looked: u64,
    /// Heads of those that were taken off.
    pub(super) pages: Vec<FrameId>,
    pub(super) page_type: PageType,
}

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evicted {
    /// Pages scanned.
    pub(super) scanned: u64,
    /// The type of the pages that were taken off, if any were.
    pub(super) page_type: Option<PageType>,
}

impl Mglru {
    /// The effective swappiness: without swap to write to, anonymous pages stay.
    pub(super) fn effective_swappiness(memory: &Memory, lruvec: LruvecId, scan: &Scan) -> u32 {
        let cgroup = memory.cgroup_of(lruvec);
        let can_go = memory.tiers.can_demote(memory.node_of(lruvec)) || memory.swap_available(cgroup) >= MIN_SWAP;
        if scan.may_swap && can_go { scan.swappiness } else { 0 }
    }

    /// Whether there are enough pages that this priority scans one.
    pub(super) fn is_sizable(&self, lruvec: LruvecId, swappiness: u32, priority: u32) -> bool {
        let pages = self.generations.get(lruvec).evictable_pages(swappiness);
        if self.is_offline(lruvec) { pages != 0 } else { pages >> priority != 0 }
    }

    pub(super) fn nr_to_scan(&self, memory: &Memory, lruvec: LruvecId, swappiness: u32, scan: &mut Scan) -> u64 {
        debug_assert!(scan.priority <= crate::reclaim::DEF_PRIORITY, "reclaim begins with the gentlest priority");
        let pages = self.generations.get(lruvec).evictable_pages(swappiness);
        if self.is_offline(lruvec) {
            return pages;
        }
        let usage = memory.cgroups.get(memory.cgroup_of(lruvec)).usage;
        let offer = proportional_protection(pages, scan.effective, usage, scan.low_reclaim);
        scan.low_skipped |= offer.low_skipped;
        offer.pages >> scan.priority
    }

    /// Evicts from one lruvec as far as this priority requires.
    pub(super) fn shrink(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) -> Turn {
        match self.baseline {
            Baseline::V7_2 => self.shrink_generations(memory, lruvec, scan),
            Baseline::V6_12 => self.shrink_v6_12(memory, lruvec, scan),
        }
    }

    fn shrink_generations(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) -> Turn {
        let swappiness = Self::effective_swappiness(memory, lruvec, scan);
        let mut left = self.nr_to_scan(memory, lruvec, swappiness, scan);
        let mut turn = Turn::Stay;
        let mut has_aged = false;
        while left > 0 {
            let usage = memory.cgroups.get(memory.cgroup_of(lruvec)).usage;
            if scan.effective.standing(usage) == Standing::BelowMin {
                return Turn::Rotate;
            }
            let own = self.generations.get(lruvec);
            if is_due(own.max_seq, own.min_evictable(swappiness), scan.priority) {
                self.age(memory, lruvec, swappiness, Effort::Heuristic);
                self.has_walk_context = true;
                turn = Turn::Rotate;
                has_aged = true;
            }
            let wanted = left.min(MIN_LRU_BATCH);
            let scanned = self.evict_batch(memory, lruvec, wanted, swappiness, Queue::Waits, scan).scanned;
            if scanned == 0 || scan.blocked || self.is_enough(memory, lruvec, scan) {
                break;
            }
            if scan.is_global() && has_aged {
                break;
            }
            left = left.saturating_sub(scanned);
        }
        turn
    }

    /// Whether reclaim may stop: the target is met (the backoff), or the daemon's node has memory again.
    pub(super) fn is_enough(&self, memory: &Memory, lruvec: LruvecId, scan: &Scan) -> bool {
        let is_kswapd = scan.reclaimer == Reclaimer::Kswapd;
        if (self.config.features.backoff || is_kswapd) && scan.nr_reclaimed >= scan.nr_to_reclaim.max(2) {
            return true;
        }
        let node = memory.nodes.get(memory.node_of(lruvec));
        let zones = &node.zones;
        let highest = zones.len() - 1;
        let has_memory = zones.iter().enumerate().all(|(index, zone)| {
            let reserve = if index == highest { 0 } else { zone.marks.lowmem_reserve };
            zone.free() > node.stop_mark(zone) + ABOVE_HIGH + reserve
        });
        is_kswapd && has_memory
    }

    /// Takes up to `wanted` pages of the oldest generation and evicts the unused ones.
    pub(super) fn evict_batch(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        wanted: u64,
        swappiness: u32,
        queue: Queue,
        scan: &mut Scan,
    ) -> Evicted {
        debug_assert!(wanted > 0, "nothing is evicted unless somebody wants pages");
        let baseline = self.baseline;
        // 6.12 finds out only afterwards.
        if baseline != Baseline::V6_12 {
            self.generations.get_mut(lruvec).flush_min_seq(swappiness, baseline);
        }
        let isolated = match baseline {
            Baseline::V7_2 => self.isolate(memory, lruvec, wanted, swappiness, queue, scan),
            Baseline::V6_12 => self.isolate_v6_12(memory, lruvec, swappiness, queue, scan),
        };
        memory.warm_up_isolated(&isolated.pages);
        let (page_type, mut scanned) = (isolated.page_type, isolated.scanned);
        if baseline == Baseline::V6_12 {
            scanned = self.generations.get_mut(lruvec).scanned_v6_12(scanned, swappiness);
        } else if scanned > 0 {
            self.generations.get_mut(lruvec).flush_min_seq(swappiness, baseline);
        }
        if isolated.pages.is_empty() {
            return Evicted { scanned, page_type: None };
        }
        let taken_before = std::mem::take(&mut scan.taken);
        let nr_isolated = memory.frames.pages_of(&isolated.pages);
        let again = self.evict_pages(memory, lruvec, page_type, isolated.pages, nr_isolated, scan);
        let Taken { pages, dirty_unqueued, .. } = scan.taken;
        if dirty_unqueued > 0 && dirty_unqueued == pages {
            memory.wake_flusher();
        }
        if !again.is_empty() {
            // Their write-back ended while they were off their list.
            self.evict_pages(memory, lruvec, page_type, again, 0, scan);
        }
        scan.taken.add(&taken_before);
        Evicted { scanned, page_type: Some(page_type) }
    }

    /// Evicts pages that are on no list, and puts back the others. On the first attempt (`nr_isolated` is not 0) pages that are clean and
    /// unused by now are returned for a second attempt.
    fn evict_pages(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        page_type: PageType,
        pages: Vec<FrameId>,
        nr_isolated: u64,
        scan: &mut Scan,
    ) -> Vec<FrameId> {
        debug_assert!(
            nr_isolated == 0 || nr_isolated == memory.frames.pages_of(&pages),
            "the first attempt is on all that was taken off"
        );
        scan.nr_scanned += memory.frames.pages_of(&pages);
        let unmapped_before = scan.taken.unmapped;
        let mut reclaimed = 0;
        let (mut again, mut staying, mut leaving) = (Vec::new(), Vec::new(), Vec::new());
        let mut plain = PlainPages::of(memory, lruvec, scan);
        let mut ahead = self.generations.read_ahead(lruvec, page_type);
        for frame in pages {
            if let Some(next) = ahead.step(&memory.frames) {
                std::hint::black_box(self.generations.state(next));
            }
            let nr_pages = memory.frames.nr_pages(frame);
            match self.decide(memory, frame, scan, &mut plain) {
                Fate::Freed => {
                    reclaimed += nr_pages;
                    continue;
                }
                Fate::Keep => {}
                Fate::Activate => outcome::activate(memory, frame),
                Fate::Demote => {
                    leaving.push(frame);
                    continue;
                }
            }
            let is_first = nr_isolated > 0;
            if is_first && is_clean_and_idle(memory, frame) { again.push(frame) } else { staying.push(frame) }
        }
        ahead.end();
        let cgroup = memory.cgroup_of(lruvec);
        plain.book(memory, cgroup, scan);
        let demoted = demote(memory, self, leaving, scan);
        reclaimed += demoted.pages + demoted.freed;
        for (frame, fate) in demoted.staying {
            if fate == Fate::Activate {
                outcome::activate(memory, frame);
            }
            staying.push(frame);
        }
        for frame in staying {
            match self.baseline {
                Baseline::V7_2 => self.put_back(memory, frame),
                Baseline::V6_12 => self.put_back_v6_12(memory, frame),
            }
        }
        scan.nr_reclaimed += reclaimed;
        let unmapped = scan.taken.unmapped - unmapped_before;
        outcome::count_batch(memory, scan, cgroup, page_type, Batch { scanned: nr_isolated, reclaimed, unmapped });
        debug_assert!(again.is_empty() || nr_isolated > 0, "a second attempt is the last");
        again
    }

    /// Decides about a page, and evicts it if it goes.
    #[inline]
    fn decide(&mut self, memory: &mut Memory, frame: FrameId, scan: &mut Scan, plain: &mut PlainPages) -> Fate {
        // A used page is judged step by step.
        if let Some((page, false)) = plain.judged(memory, frame, scan.root)
            && !memory.frames.is_left_young(frame)
        {
            plain.take_young(memory, page, false);
            plain.swap_out(memory, self, page, scan.root);
            return Fate::Freed;
        }
        self.decide_by_steps(memory, frame, scan)
    }

    #[inline(never)]
    fn decide_by_steps(&mut self, memory: &mut Memory, frame: FrameId, scan: &mut Scan) -> Fate {
        if let Some(fate) = outcome::divert(memory, frame, scan) {
            return fate;
        }
        let verdict = match self.baseline {
            Baseline::V7_2 => self.check_references(memory, frame, scan.root),
            Baseline::V6_12 => self.check_references_v6_12(memory, frame, scan.root),
        };
        match verdict {
            Verdict::Activate => Fate::Activate,
            Verdict::Keep => Fate::Keep,
            Verdict::Reclaim => demote_or_evict(memory, self, frame, scan),
        }
    }

    /// A page that could not be evicted goes to any generation but the oldest.
    fn put_back(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(!memory.frames.has(frame, Flag::OnList), "a page comes back that was taken off");
        if memory.frames.has(frame, Flag::Unevictable) {
            self.classic.adopt(memory, frame, ListEnd::Head);
            return;
        }
        let page_type = outcome::page_type(memory, frame);
        let oldest = self.generations.get(memory.lruvec_of(frame)).min_seq[page_type as usize];
        if self.generations.entry(memory, frame, false) == oldest {
            let state = self.generations.state(frame).without_refs();
            self.generations.set_state(&memory.frames, frame, state);
            memory.frames.set(frame, Flag::Active);
        }
        self.generations.insert(memory, frame, false);
    }

    fn isolate(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        wanted: u64,
        swappiness: u32,
        queue: Queue,
        scan: &mut Scan,
    ) -> Isolated {
        let mut page_type = type_to_evict(&self.generations.get(lruvec).history, swappiness);
        let mut isolated = Isolated { scanned: 0, looked: 0, pages: Vec::new(), page_type };
        for _ in TYPES.into_iter().filter(|&page_type| is_evictable(page_type, swappiness)) {
            let may_block = queue == Queue::Waits && !memory.tiers.can_demote(memory.node_of(lruvec));
            if page_type == PageType::Anon && may_block && memory.io.swap_queue_is_full() {
                scan.blocked = true;
                break;
            }
            let limit = match self.config.features.tiers {
                true => tier_limit(&self.generations.get(lruvec).history[page_type as usize], TIER_GAINS),
                false => NR_TIERS - 1,
            };
            let found = self.scan_type(memory, lruvec, page_type, wanted, limit);
            isolated = Isolated { scanned: isolated.scanned + found.scanned, ..found };
            if !isolated.pages.is_empty() {
                break;
            }
            // The other type only where there was nothing at all to scan.
            if found.scanned == 0 {
                page_type = if page_type == PageType::Anon { PageType::File } else { PageType::Anon };
            }
        }
        isolated
    }

    /// Scans up to `wanted` folios of the oldest generation of a type, until 64 pages are taken off (docs/spec/large-folios.md#f3-6). Tiers
    /// above `limit` are spared.
    pub(super) fn scan_type(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        page_type: PageType,
        wanted: u64,
        limit: usize,
    ) -> Isolated {
        debug_assert!(
            wanted > 0 && limit < NR_TIERS,
            "the look ends after so many pages, and spares tiers that there are"
        );
        let mut isolated = Isolated { scanned: 0, looked: 0, pages: Vec::new(), page_type };
        let own = self.generations.get(lruvec);
        if own.nr_generations(page_type) <= MIN_NR_GENS {
            return isolated;
        }
        let oldest = list_of(own.min_seq[page_type as usize]);
        isolated.pages.reserve(usize::try_from(wanted.min(MIN_LRU_BATCH)).expect("at most 64"));
        let (mut sorted, mut nr_isolated) = (0, 0);
        while let Some(frame) = self.generations.get(lruvec).lists[oldest][page_type as usize].tail() {
            let pages = memory.frames.nr_pages(frame);
            isolated.scanned += pages;
            isolated.looked += 1;
            debug_assert_eq!(self.generations.state(frame).page_type(), page_type, "each type has its own lists");
            let is_sorted = match self.baseline {
                Baseline::V7_2 => self.sort(memory, lruvec, frame, oldest, limit),
                Baseline::V6_12 => self.sort_v6_12(memory, lruvec, frame, oldest, limit),
            };
            if is_sorted {
                sorted += pages;
            } else {
                let state = self.baseline.isolated(self.generations.state(frame));
                self.generations.states[frame.index()] = state;
                self.generations.isolate_oldest(memory, lruvec, oldest, frame);
                if self.baseline != Baseline::V7_2 {
                    memory.frames.clear(frame, Flag::Reclaim);
                }
                isolated.pages.push(frame);
                nr_isolated += pages;
            }
            if isolated.looked == wanted || nr_isolated >= MIN_LRU_BATCH {
                break;
            }
        }
        let cgroup = memory.cgroup_of(lruvec);
        memory.count(Counter::PgRefill, cgroup, sorted);
        memory.ledger.spend(isolated.looked * memory.costs.lru_scan_page_ns);
        memory.reclaim.work.sorted += sorted;
        memory.reclaim.work.isolated += nr_isolated;
        isolated
    }

    /// Moves a page of the oldest list that belongs elsewhere: a walk promoted it, or its tier is spared.
    fn sort(&mut self, memory: &mut Memory, lruvec: LruvecId, frame: FrameId, oldest: usize, limit: usize) -> bool {
        debug_assert!(
            self.generations.get(lruvec).nr_generations(self.generations.state(frame).page_type()) > MIN_NR_GENS,
            "the two youngest generations are not sorted"
        );
        let state = self.generations.state(frame);
        let generation = state.generation().expect("on a list");
        if generation != oldest {
            self.generations.relink(memory, lruvec, frame, generation, ListEnd::Head);
            return true;
        }
        if state.tier() <= limit && !state.is_lazily_promotable() {
            return false;
        }
        let to = self.generations.promote_by_one(&memory.frames, lruvec, frame);
        self.generations.relink(memory, lruvec, frame, to, ListEnd::Head);
        if !state.is_lazily_promotable() {
            let history = &mut self.generations.get_mut(lruvec).history[state.page_type() as usize];
            history.protected[state.tier()] += memory.frames.nr_pages(frame);
        }
        true
    }
}

/// Whether the page can be evicted at a second attempt.
fn is_clean_and_idle(memory: &Memory, frame: FrameId) -> bool {
    let stays = [Flag::Active, Flag::Dirty, Flag::Writeback, Flag::Unevictable];
    !memory.frames.flags(frame).has_any(stays) && !memory.is_mapped(frame)
}
