//! Reclaim from one lruvec: how much of each list, the loop over them, the cold tail and the hot one
//! (docs/spec/classic-lru.md#s3-3 to #s3-5, #s4, #s6).

use super::reference::{self, Verdict, take_young};
use super::{Balance, Classic};
use crate::cgroup::protection::proportional_protection;
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, Memory, NodeId};
use crate::reclaim::demotion::{demote, demote_or_evict};
use crate::reclaim::outcome::{self, Batch, Fate};
use crate::reclaim::scan_balance::{
    Lru, PageType, SWAP_CLUSTER_MAX, ScanInputs, ScanLoop, cache_trim_mode, file_is_tiny, scan_size,
};
use crate::reclaim::swap_out::PlainPages;
use crate::reclaim::{DEF_PRIORITY, LruvecId, Reclaimer, Scan, Taken};

impl Classic {
    /// The state of the whole subtree that decides deactivation and the choice of type.
    pub(super) fn balance_of(&self, memory: &Memory, node: NodeId, scan: &Scan) -> Balance {
        let target = memory.lruvec(scan.root, node);
        let history = &self.history[target.index()];
        let activations = self.statistics.activations(memory, target).unwrap_or(history.activations);
        let may_deactivate = [PageType::Anon, PageType::File].map(|page_type| {
            let at = page_type as usize;
            scan.force_deactivate
                || activations[at] != history.activations_seen[at]
                || self.inactive_is_low(memory, target, page_type)
        });
        // For the whole machine sizes are known.
        let len = |lru| self.lists.subtree_len(target, lru);
        let inactive_file = self.counted_len(memory, target, Lru::InactiveFile);
        let owner = memory.nodes.get(node);
        Balance {
            may_deactivate,
            cache_trim: cache_trim_mode(inactive_file, scan.priority, may_deactivate[1], scan.cache_trim_disabled),
            file_is_tiny: scan.is_global()
                && file_is_tiny(
                    len(Lru::InactiveFile) + len(Lru::ActiveFile),
                    owner.free(),
                    owner.high_marks(),
                    may_deactivate[0],
                    len(Lru::InactiveAnon),
                    scan.priority,
                ),
            cost: history.cost,
        }
    }

    /// Scans the lists of `lruvec` as far as this priority requires.
    pub(super) fn shrink(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) {
        debug_assert!(scan.priority <= DEF_PRIORITY, "reclaim begins with the gentlest priority");
        let targets = self.scan_targets(memory, lruvec, scan);
        let is_first_direct = scan.reclaimer == Reclaimer::Direct && scan.is_global() && scan.priority == DEF_PRIORITY;
        let mut left = ScanLoop::new(targets, is_first_direct);
        let before = scan.nr_reclaimed;
        while left.goes_on() && !scan.blocked {
            for lru in Lru::ALL {
                let nr = left.take(lru);
                if nr == 0 || scan.blocked {
                    continue;
                }
                let page_type = lru.page_type();
                if !lru.is_active() {
                    self.shrink_inactive(memory, lruvec, page_type, nr, scan);
                } else if self.balance.may_deactivate[page_type as usize] {
                    self.shrink_active(memory, lruvec, page_type, nr, scan);
                } else {
                    scan.skipped_deactivate = true;
                }
            }
            left.end_round(scan.nr_reclaimed - before, scan.nr_to_reclaim);
        }
        let can_age_anon = memory.slots.total() > 0 || memory.tiers.can_demote(memory.node_of(lruvec));
        if can_age_anon && self.inactive_is_low(memory, lruvec, PageType::Anon) {
            self.shrink_active(memory, lruvec, PageType::Anon, SWAP_CLUSTER_MAX, scan);
        }
    }

    /// Pages to scan of each list (docs/spec/classic-lru.md#s6-1 to #s6-4).
    fn scan_targets(&self, memory: &Memory, lruvec: LruvecId, scan: &mut Scan) -> [u64; 4] {
        let cgroup = memory.cgroup_of(lruvec);
        let inputs = ScanInputs {
            swappiness: scan.swappiness,
            priority: scan.priority,
            can_reclaim_anon: scan.may_swap
                && (memory.swap_available(cgroup) > 0 || memory.tiers.can_demote(memory.node_of(lruvec))),
            cgroup_reclaim: !scan.is_global(),
            file_is_tiny: self.balance.file_is_tiny,
            cache_trim: self.balance.cache_trim,
            cost: self.balance.cost,
        };
        let usage = memory.cgroups.get(cgroup).usage;
        let sizes = Lru::ALL.map(|lru| self.lists.seen_len(memory, lruvec, lru));
        let offers = sizes.map(|size| proportional_protection(size, scan.effective, usage, scan.low_reclaim));
        scan.low_skipped |= offers.iter().any(|offer| offer.low_skipped);
        // Small lists offer nothing at gentle priorities.
        if offers.iter().all(|offer| offer.pages >> scan.priority == 0) {
            return [0; 4];
        }
        let mode = inputs.mode();
        Lru::ALL.map(|lru| {
            let (size, offered) = (sizes[lru as usize], offers[lru as usize].pages);
            scan_size(lru, size, offered, scan.priority, mode, false)
        })
    }

    /// Examines up to `nr` pages at the cold tail.
    fn shrink_inactive(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        page_type: PageType,
        nr: u64,
        scan: &mut Scan,
    ) {
        let can_demote = memory.tiers.can_demote(memory.node_of(lruvec));
        if page_type == PageType::Anon && !can_demote && memory.io.swap_queue_is_full() {
            scan.blocked = true;
            return;
        }
        let lru = if page_type == PageType::Anon { Lru::InactiveAnon } else { Lru::InactiveFile };
        let mut pages = std::mem::take(&mut self.batch);
        let scanned = self.lists.isolate(memory, lruvec, lru, nr, &mut pages);
        if pages.is_empty() {
            self.batch = pages;
            return;
        }
        memory.ledger.spend(pages.len() as u64 * memory.costs.lru_scan_page_ns);
        let taken_before = std::mem::take(&mut scan.taken);
        let (mut leaving, mut plain) = (Vec::new(), PlainPages::of(memory, lruvec, scan));
        let (mut kept, mut ahead) = (0, self.lists.read_ahead(lruvec, lru));
        for at in 0..pages.len() {
            let frame = pages[at];
            ahead.step(&memory.frames);
            match self.decide(memory, frame, scan, &mut plain) {
                Fate::Freed => continue,
                Fate::Keep => {}
                Fate::Activate => outcome::activate(memory, frame),
                Fate::Demote => {
                    leaving.push(frame);
                    continue;
                }
            }
            pages[kept] = frame;
            kept += 1;
        }
        ahead.end();
        pages.truncate(kept);
        let cgroup = memory.cgroup_of(lruvec);
        plain.book(memory, cgroup, scan);
        let mut reclaimed = scanned - memory.frames.pages_of(&pages) - leaving.len() as u64;
        let demoted = demote(memory, self, leaving, scan);
        reclaimed += demoted.pages + demoted.freed;
        for (frame, fate) in demoted.staying {
            if fate == Fate::Activate {
                outcome::activate(memory, frame);
            }
            pages.push(frame);
        }
        self.put_back(memory, lruvec, pages);
        let Taken { pages, dirty_unqueued, written, unmapped, .. } = scan.taken;
        if dirty_unqueued > 0 && dirty_unqueued == pages {
            memory.wake_flusher();
        }
        debug_assert!(reclaimed <= scanned, "only what was looked at is freed");
        scan.taken.add(&taken_before);
        scan.nr_scanned += scanned;
        scan.nr_reclaimed += reclaimed;
        outcome::count_batch(memory, scan, cgroup, page_type, Batch { scanned, reclaimed, unmapped });
        self.note_cost(memory, lruvec, page_type, written, scanned - reclaimed);
    }

    /// Decides about a page, and evicts it if it goes.
    #[inline]
    fn decide(&mut self, memory: &mut Memory, frame: FrameId, scan: &mut Scan, plain: &mut PlainPages) -> Fate {
        let Some((page, is_young)) = plain.judged(memory, frame, scan.root) else {
            return self.decide_by_steps(memory, frame, scan);
        };
        let nr_young = u32::from(plain.take_young(memory, page, is_young));
        match reference::verdict(memory, frame, nr_young, false) {
            Verdict::Activate => Fate::Activate,
            Verdict::Keep => Fate::Keep,
            Verdict::Reclaim => {
                plain.swap_out(memory, self, page, scan.root);
                Fate::Freed
            }
        }
    }

    #[inline(never)]
    fn decide_by_steps(&mut self, memory: &mut Memory, frame: FrameId, scan: &mut Scan) -> Fate {
        if let Some(fate) = outcome::divert(memory, frame, scan) {
            return fate;
        }
        match reference::check(memory, frame, scan.root) {
            Verdict::Activate => Fate::Activate,
            Verdict::Keep => Fate::Keep,
            Verdict::Reclaim => demote_or_evict(memory, self, frame, scan),
        }
    }

    /// Moves up to `nr` pages from the hot tail to the cold list's head, used or not; only code that was used stays hot.
    pub(super) fn shrink_active(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        page_type: PageType,
        nr: u64,
        scan: &mut Scan,
    ) {
        let lru = if page_type == PageType::Anon { Lru::ActiveAnon } else { Lru::ActiveFile };
        let mut pages = std::mem::take(&mut self.batch);
        let scanned = self.lists.isolate(memory, lruvec, lru, nr, &mut pages);
        if pages.is_empty() {
            self.batch = pages;
            return;
        }
        memory.ledger.spend(pages.len() as u64 * memory.costs.lru_scan_page_ns);
        let (mut rotated, mut ahead) = (Vec::new(), self.lists.read_ahead(lruvec, lru));
        pages.retain(|&frame| {
            ahead.step(&memory.frames);
            let young = take_young(memory, frame, scan.root);
            let is_rotated = young.executable && page_type == PageType::File;
            if is_rotated {
                rotated.push(frame);
            } else {
                memory.frames.update(frame, [Flag::Active], [Flag::Workingset]);
            }
            !is_rotated
        });
        ahead.end();
        let cgroup = memory.cgroup_of(lruvec);
        memory.count(Counter::PgRefill, cgroup, scanned);
        let [nr_deactivated, nr_rotated] = [&pages, &rotated].map(|heads| memory.frames.pages_of(heads));
        memory.count(Counter::PgDeactivate, cgroup, nr_deactivated);
        self.note_cost(memory, lruvec, page_type, 0, nr_rotated);
        self.put_back(memory, lruvec, rotated);
        self.put_back(memory, lruvec, pages);
    }

    /// Puts pages of `lruvec` on the lists that their flags name, keeping their order. Active ones age the lruvec. The vector serves the
    /// next batch.
    fn put_back(&mut self, memory: &mut Memory, lruvec: LruvecId, mut pages: Vec<FrameId>) {
        let nr_active = self.lists.push_all(memory, lruvec, &pages);
        if nr_active > 0 {
            memory.age_nonresident(lruvec, nr_active);
        }
        pages.clear();
        self.batch = pages;
    }
}
