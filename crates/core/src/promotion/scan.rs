//! The scanning thread: rounds over the scan list, and the scans of spaces that are due (docs/spec/promotion.md#s1-4 and #s1-5).

use super::eligible::obstacle;
use super::linear::Linear;
use super::queue::SlotKey;
use super::range_scan::RangeScan;
use super::rotate::Rotate;
use super::throttle::Case;
use super::{Promotion, TimeoutReport};
use crate::host::{Area, Capabilities, HostError, NodeId, PromotionHost, TargetId};
use crate::vocabulary::PageRule;
use isotherm_units::{Bytes, Duration, Instant};

/// A page that is used at this interval is hot: the threshold of NUMA balancing (`hot_threshold_ms`).
const HOT_WITHIN: Duration = Duration::from_secs(1);

/// State of the thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Scanner {
    /// The next round begins then, or whole sleeps later.
    pub(super) round_at: Instant,
    /// Spaces that the round still visits; `None` between rounds.
    left: Option<u64>,
    /// The space to visit next: this one or the first after it, or the first of all if there is none.
    cursor: SlotKey,
    job: Option<(SlotKey, Job)>,
    /// Pages are moved before the round goes on.
    moves: bool,
    /// When the last piece of work was done: the next one follows at once.
    ready_at: Instant,
}

/// A scan under way.
#[derive(Clone, Debug)]
enum Job {
    Linear(Linear),
    Rotate(Rotate),
}

/// A scan that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanReport {
    /// The space that was scanned.
    pub target: TargetId,
    /// Useful base pages that the scan found.
    pub useful: u64,
    /// Comparison of this result with the result of the scan before.
    pub case: Case,
    /// Where the next one goes on: a byte address.
    pub address: u64,
    /// Time until the next scan of the space.
    pub scan_period: Duration,
    /// Bytes of address space that the next scan covers.
    pub scan_size: Bytes,
    /// The node that its pages are promoted to; `None`: the node of the knob `target_node`.
    pub target_node: Option<NodeId>,
}

impl Scanner {
    /// The space that is being scanned.
    pub(super) fn job_key(&self) -> Option<SlotKey> {
        self.job.as_ref().map(|(key, _)| *key)
    }

    /// A space has ended: its scan ends without a result.
    pub(super) fn forget(&mut self, key: SlotKey) {
        if self.job_key() == Some(key) {
            self.job = None;
        }
    }
}

impl Promotion {
    /// A running scan is finished even if scanning was switched off in between.
    pub(super) fn poll_scan(&self) -> Option<Instant> {
        let scanner = &self.scanner;
        if scanner.job.is_some() {
            return Some(scanner.ready_at);
        }
        if !self.config.scan_enabled || self.config.mms_to_scan == 0 {
            return None;
        }
        if scanner.left.is_some() || scanner.moves {
            return Some(scanner.ready_at);
        }
        // Rounds in which nothing is due are skipped: they would only compare times.
        let due = self.slots.values().filter_map(super::Slot::due).min()?;
        let sleep = Duration::from_ms(self.limits.sleep_ms).ns();
        let late = due.since(scanner.round_at).ns();
        let wait = late.div_ceil(sleep.max(1)).saturating_mul(sleep.max(1));
        Some(scanner.round_at + Duration::from_ns(wait))
    }

    pub(super) fn handle_scan(&mut self, now: Instant, host: &mut dyn PromotionHost) -> TimeoutReport {
        self.scanner.ready_at = now;
        if self.scanner.left.is_none() && self.scanner.job.is_none() && !self.scanner.moves {
            self.counters.rounds += 1;
            let visits = u64::try_from(self.slots.len()).expect("fits");
            self.scanner.left = Some(visits.min(u64::from(self.config.mms_to_scan)));
        }
        if self.scanner.job.is_none() && self.scanner.moves {
            let step = self.move_batch(now, host);
            self.scanner.moves = !self.list.is_empty();
            return step;
        }
        if self.scanner.job.is_none() && !(self.config.scan_enabled && self.begin_scan(now, host)) {
            self.scanner.left = None;
            self.scanner.round_at = now + Duration::from_ms(self.limits.sleep_ms);
            return TimeoutReport::default();
        }
        self.go_on(now, host)
    }

    /// Begins the scan of the next space that is due. `false`: the round is over.
    fn begin_scan(&mut self, now: Instant, host: &mut dyn PromotionHost) -> bool {
        while let Some(left) = self.scanner.left.filter(|left| *left > 0) {
            let next = self.slots.range(self.scanner.cursor..).next().or_else(|| self.slots.iter().next());
            let Some((&key, slot)) = next else { return false };
            self.scanner.left = Some(left - 1);
            self.scanner.cursor = key + 1;
            if slot.due().is_none_or(|due| due > now) {
                continue;
            }
            let target = slot.target;
            let mut areas = Vec::new();
            match host.areas(target, &mut areas) {
                Ok(()) => {
                    let capabilities = host.capabilities(target);
                    self.begin(key, areas, &capabilities, now);
                    return true;
                }
                Err(HostError::Gone(_)) => drop(self.exit(target)),
                Err(HostError::NotHere(_) | HostError::Failed(_)) => self.counters.lock_busy += 1,
            }
        }
        false
    }

    fn begin(&mut self, key: SlotKey, areas: Vec<Area>, capabilities: &Capabilities, now: Instant) {
        if self.limits.drops_stale {
            self.counters.dropped_stale += self.list.clear(key);
        }
        self.filter.nodes.iter_mut().for_each(|tally| (tally.scanned, tally.accessed) = (0, 0));
        let slot = self.slots.get_mut(&key).expect("the space that is due");
        let job = if self.limits.by_region {
            let eligible = areas.iter().filter(|area| obstacle(area.kind).is_none()).map(|area| area.range).collect();
            let paces = (slot.throttle.size, slot.throttle.period_ms);
            Job::Rotate(Rotate::new(eligible, capabilities, &mut slot.map, paces, &self.rules, now))
        } else {
            Job::Linear(Linear::new(areas, slot.address, slot.throttle.size))
        };
        self.scanner.job = Some((key, job));
    }

    /// One piece of the scan under way.
    fn go_on(&mut self, now: Instant, host: &mut dyn PromotionHost) -> TimeoutReport {
        let Some((key, mut job)) = self.scanner.job.take() else { return TimeoutReport::default() };
        let slot = self.slots.get_mut(&key).expect("a scan ends with its space");
        let target = slot.target;
        let was_empty = self.list.is_empty();
        let mut range = RangeScan {
            host,
            target,
            key,
            filter: &mut self.filter,
            list: &mut self.list,
            counters: &mut self.counters,
            spent: Duration::ZERO,
        };
        let end = match &mut job {
            Job::Linear(scan) => scan.step(&mut range, &self.limits).map(|end| end.map(|next| (next, scan.useful, 0))),
            Job::Rotate(scan) => scan
                .step(&mut slot.map, &mut range, &self.rules, &mut self.random, now)
                .map(|is_end| is_end.then_some((slot.map.cursor, scan.useful, scan.touched))),
        };
        let spent = range.spent;
        if was_empty && !self.list.is_empty() {
            self.wake_mover(now);
        }
        let scan = match end {
            Ok(None) => {
                self.scanner.job = Some((key, job));
                None
            }
            Ok(Some((address, useful, touched))) => Some(self.end_scan(key, address, [useful, touched], now)),
            // It exited in the middle of its scan.
            Err(_) => {
                self.exit(target);
                None
            }
        };
        TimeoutReport { spent, scan, migration: None }
    }

    /// Where a page must be found more than once, touched pages speed up the scan of a space, so that the next scan comes soon.
    /// If as many scans as a page needs find none useful, as many follow a second apart. A page used once a second is hot too,
    /// and two closer scans do not both find it. Then it slows down.
    fn end_scan(&mut self, key: SlotKey, address: u64, [useful, touched]: [u64; 2], now: Instant) -> ScanReport {
        self.counters.mm_scans += 1;
        let slot = self.slots.get_mut(&key).expect("a scan ends with its space");
        let stretch = slot.stretch(&self.limits);
        let scans = match self.limits.rule {
            PageRule::FirstAccess => 0,
            PageRule::SecondAccess => 1,
            PageRule::TwoIntervals => 2,
        };
        let least = self.limits.ignore_below;
        // Once begun it goes on: between two scans that are close a page may rest.
        let is_promising = useful < least && (touched >= least || slot.promising > 0);
        slot.promising = if is_promising && slot.promising < 2 * scans { slot.promising + 1 } else { 0 };
        let found = if slot.promising > 0 { touched.max(least) } else { useful };
        let case = slot.throttle.adapt(found, &self.limits, self.config.throttling, stretch);
        let period = Duration::from_ms(slot.throttle.period_ms);
        let scan_period = if slot.promising > scans { period.max(HOT_WITHIN) } else { period };
        slot.next_scan = Some(now + scan_period);
        slot.address = address;
        slot.useful += useful;
        slot.node = self.limits.target.choose(&self.filter.nodes);
        self.scanner.moves = self.limits.migrate_pause_ms.is_none() && !self.list.is_empty();
        ScanReport {
            target: slot.target,
            useful,
            case,
            address,
            scan_period,
            scan_size: Bytes::new(slot.throttle.size),
            target_node: slot.node,
        }
    }
}
