//! Our design (compaction.md section 7.4): keeps as many huge pages free as are asked for, and compacts only where that is
//! predicted to help.
//!
//! *When*: fewer blocks are free than will be asked for within the horizon, or than are to be kept; CPUs are not short, kswapd
//! is idle, and the last attempt was worth its while. *Where*: in the zones that are predicted to yield most. *How far*: to a
//! quarter more than is asked for, not to a percentage. A percent of a large node's free memory is hundreds of huge pages, so
//! that marks in percent (the specification's default, [`percent_marks`]) would hold still until the last one was gone; they
//! are for hosts that can be aimed in no other way.

use super::designs::{Activity, Defragmenter};
use super::proactiveness::ScoreMarks;
use super::rfc::after;
use super::run::{Budget, Manner, Run, Task, ZoneReport};
use super::yields::{SpoilRate, estimated_yield};
use super::{Decision, DefragError, HUGE_ORDER, Hold, Verdict};
use crate::host::{CompactMode, DefragSignals, Stop, ZoneState};
use crate::host::{Host, HostError, NodeId};
use isotherm_units::{Duration, Instant, Ratio};
use serde::{Deserialize, Serialize};

/// Pages looked at per block freed, at most, for a run to be worth its while.
const PAGES_PER_BLOCK: u64 = 4096;
/// The pause after a run that was not, doubled by each further one up to 2^6 times.
const BACKOFF: Duration = Duration::from_ms(500);
const MAX_BACKOFF_SHIFT: u32 = 6;
/// How often what was learnt of spoilt blocks fades by an eighth.
const RELAX_INTERVAL: Duration = Duration::from_secs(300);

/// Settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ControllerConfig {
    /// How often it looks.
    pub interval: Duration,
    /// Huge pages to keep free whatever was asked for of late.
    pub keep: u64,
    /// As many as are asked for in this time, at the rate of late, are kept free as well.
    pub horizon: Duration,
    /// It holds still while tasks waited for CPUs for this share of the last ten seconds, or more.
    pub max_cpu_pressure: Ratio,
    /// What one attempt may cost.
    pub budget: Budget,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            keep: 0,
            horizon: Duration::from_secs(10),
            max_cpu_pressure: Ratio::from_percent(20),
            budget: Budget { fruitless_pages: Some(64 * PAGES_PER_BLOCK), ..Budget::default() },
        }
    }
}

impl ControllerConfig {
    fn validate(&self) -> Result<(), DefragError> {
        if self.interval < Duration::from_ms(1) {
            return Err(DefragError::out_of_range("interval", self.interval, "1ms and more"));
        }
        if self.max_cpu_pressure > Ratio::ONE {
            return Err(DefragError::out_of_range("max-cpu-pressure", self.max_cpu_pressure, "up to 100%"));
        }
        Ok(())
    }
}

/// It at work on a node.
#[derive(Debug)]
pub struct Controller {
    config: ControllerConfig,
    node: NodeId,
    next: Instant,
    demand: Demand,
    spoilt: SpoilRate,
    relaxed: Instant,
    run: Option<Attempt>,
    failures: u32,
    backing_off_until: Instant,
}

#[derive(Debug)]
struct Attempt {
    run: Run,
    scanned: u64,
    freed: u64,
}

impl Controller {
    /// On a node from `now` on.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn new(config: ControllerConfig, node: NodeId, now: Instant) -> Result<Self, DefragError> {
        config.validate()?;
        let demand = Demand::default();
        let (spoilt, run, failures) = (SpoilRate::default(), None, 0);
        Ok(Self { config, node, next: now, demand, spoilt, relaxed: now, run, failures, backing_off_until: now })
    }

    fn look(&mut self, now: Instant, host: &mut dyn Host) -> Result<Activity, HostError> {
        self.next = after(now, self.config.interval);
        if now.since(self.relaxed) >= RELAX_INTERVAL {
            self.relaxed = now;
            self.spoilt.relax();
        }
        let signals = host.defrag_signals(self.node)?;
        self.demand.learn(signals.huge_wanted, now);
        let mut zones = Vec::new();
        host.zones(&mut zones)?;
        zones.retain(|zone| zone.id.node == self.node);
        let mut decision = Decision::of_zones(now, self.node, HUGE_ORDER, &zones);
        decision.signals = signals;
        decision.demand = self.demand.within(self.config.horizon).max(self.config.keep);
        let yields: Vec<Option<u64>> = zones.iter().map(|zone| self.predict(zone)).collect();
        decision.predicted_yield = yields.iter().flatten().sum();
        let is_known = yields.iter().any(Option::is_some);
        decision.verdict = match self.hold(now, &decision, is_known) {
            Some(hold) => Verdict::Hold(hold),
            None => {
                let tasks = plan(&zones, &yields, decision.demand);
                let chosen = tasks.iter().map(|task| task.zone).collect();
                let manner = Manner {
                    mode: CompactMode::SyncLight,
                    counts_in_flight: true,
                    stops_for_reclaim: true,
                    budget: self.config.budget,
                };
                self.run = Some(Attempt { run: Run::new(tasks, manner, now), scanned: 0, freed: 0 });
                self.next = now;
                Verdict::Start(chosen)
            }
        };
        Ok(Activity { decision: Some(decision), ..Activity::default() })
    }

    /// Why it holds still. The cheapest reasons last: what is told first is what would have to change first.
    fn hold(&self, now: Instant, decision: &Decision, is_known: bool) -> Option<Hold> {
        let DefragSignals { is_reclaiming, cpu_pressure_bp, .. } = decision.signals;
        match () {
            () if decision.free_blocks >= decision.demand => Some(Hold::Enough),
            () if now < self.backing_off_until => Some(Hold::BackingOff),
            () if !is_known => Some(Hold::YieldUnknown),
            () if decision.predicted_yield == 0 => Some(Hold::NoYield),
            () if is_reclaiming => Some(Hold::Reclaiming),
            () if u64::from(cpu_pressure_bp) * 100 >= self.config.max_cpu_pressure.ppm() => Some(Hold::Busy),
            () => None,
        }
    }

    fn predict(&self, zone: &ZoneState) -> Option<u64> {
        zone.exact_yield.or_else(|| zone.movable.map(|movable| estimated_yield(&movable, self.spoilt.ppm())))
    }

    fn learn_of_zone(&mut self, report: &ZoneReport) {
        self.spoilt.learn(report.work.blocks_tried(), report.work.blocks_freed);
    }

    fn finish(&mut self, now: Instant, scanned: u64, freed: u64) {
        if scanned > 0 && freed.saturating_mul(PAGES_PER_BLOCK) >= scanned {
            self.failures = 0;
            return;
        }
        let pause = Duration::from_ns(BACKOFF.ns() << self.failures);
        self.failures = (self.failures + 1).min(MAX_BACKOFF_SHIFT);
        self.backing_off_until = after(now, pause);
    }
}

/// Which zones, and how many blocks should be free in each: those with the largest yield first, at equal ones the highest
/// zone, since low memory is for those who can use no other; until demand is met with a quarter to spare.
fn plan(zones: &[ZoneState], yields: &[Option<u64>], demand: u64) -> Vec<Task> {
    let free: u64 = zones.iter().map(|zone| zone.blocks.suitable(HUGE_ORDER)).sum();
    let wanted = demand.saturating_add((demand / 4).max(1));
    let mut lacking = wanted.saturating_sub(free);
    let mut order: Vec<(u64, &ZoneState)> = yields.iter().map(|known| known.unwrap_or(0)).zip(zones).collect();
    order.sort_by_key(|&(known, zone)| (std::cmp::Reverse(known), std::cmp::Reverse(zone.id)));
    let mut tasks = Vec::new();
    for (known, zone) in order {
        let share = known.min(lacking);
        if share == 0 {
            break;
        }
        lacking -= share;
        let count = zone.blocks.suitable(HUGE_ORDER) + share;
        tasks.push(Task { zone: zone.id, stop: Stop::Blocks { order: HUGE_ORDER, count }, order: HUGE_ORDER });
    }
    tasks
}

impl Defragmenter for Controller {
    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, now: Instant, host: &mut dyn Host) -> Result<Activity, HostError> {
        if now < self.next {
            return Ok(Activity::default());
        }
        let Some(mut attempt) = self.run.take() else { return self.look(now, host) };
        self.next = after(now, self.config.interval);
        let (step, report) = attempt.run.step(now, host).inspect_err(|_| self.finish(now, 0, 0))?;
        attempt.scanned += step.scanned_migrate;
        attempt.freed += step.blocks_freed;
        if let Some(report) = &report {
            self.learn_of_zone(report);
        }
        if attempt.run.is_over() {
            self.finish(now, attempt.scanned, attempt.freed);
        } else {
            self.run = Some(attempt);
            self.next = now;
        }
        Ok(Activity { spent: step.cpu, report, ..Activity::default() })
    }
}

/// How many huge pages are asked for per second, as a moving average: a look changes it by a quarter.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    milli_per_second: u64,
    last: Option<(u64, Instant)>,
}

impl Demand {
    fn learn(&mut self, wanted: u64, now: Instant) {
        if let Some((before, then)) = self.last {
            let elapsed_ns = now.since(then).ns();
            if elapsed_ns == 0 {
                return;
            }
            // A counter that went back has been reset.
            let more = u128::from(wanted.saturating_sub(before));
            let rate = more * 1_000_000_000_000 / u128::from(elapsed_ns);
            let rate = u64::try_from(rate).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
            self.milli_per_second = (self.milli_per_second * 3 + rate) / 4;
        }
        self.last = Some((wanted, now));
    }

    /// Rounded up: one in a long time is one.
    fn within(&self, horizon: Duration) -> u64 {
        let milli = u128::from(self.milli_per_second) * u128::from(horizon.ns());
        u64::try_from(milli.div_ceil(1_000_000_000_000)).unwrap_or(u64::MAX)
    }
}

/// Marks in percent with which a zone of `free_pages` keeps `demand` huge pages (section 7.4): `low` is extfrag where exactly
/// those are free, `high` is above by 5 or by a quarter. Both at most 99, or no zone would ever be above them.
pub fn percent_marks(demand: u64, free_pages: u64) -> ScoreMarks {
    let huge = demand.saturating_mul(1 << HUGE_ORDER).min(free_pages);
    let low = u128::from(free_pages - huge) * 100 / u128::from(free_pages.max(1));
    let low = u32::try_from(low).unwrap_or(100);
    ScoreMarks { low: low.min(99), high: (low + 5.max(low / 4)).min(99) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defrag::blocks::tests::blocks;

    #[test]
    fn demand_is_a_moving_average() {
        let mut demand = Demand::default();
        let at = |second: u64| Instant::from_ns(second * 1_000_000_000);
        demand.learn(1000, at(0));
        assert_eq!(demand.within(Duration::from_secs(10)), 0, "what was before does not count");
        demand.learn(1040, at(1));
        demand.learn(1040, at(1));
        // 40 a second weigh a quarter: 10 a second.
        assert_eq!(demand.within(Duration::from_secs(10)), 100);
        demand.learn(1040, at(5));
        assert_eq!(demand.within(Duration::from_secs(10)), 75);
        demand.learn(0, at(6));
        assert_eq!(demand.within(Duration::from_secs(10)), 57, "56.25, rounded up; the counter was reset");
        demand.learn(u64::MAX, at(7));
        assert!(demand.within(Duration::MAX) > 1 << 60);
    }

    #[test]
    fn marks_in_percent() {
        // (demand, free pages, low, high); 32 GiB of the seed's fragmenter has 6291456 free pages.
        for (demand, free, low, high) in [
            (0, 6_291_456, 99, 99),
            (1, 6_291_456, 99, 99),
            (4096, 6_291_456, 66, 82),
            (11_000, 6_291_456, 10, 15),
            (12_288, 6_291_456, 0, 5),
            (u64::MAX, 6_291_456, 0, 5),
            (5, 0, 0, 5),
        ] {
            assert_eq!(percent_marks(demand, free), ScoreMarks { low, high }, "{demand} of {free}");
        }
        // The low mark is met as soon as the demand is: 10 whole blocks of 15.
        let met = blocks(&[2560, 0, 0, 0, 0, 0, 0, 0, 0, 10]);
        assert_eq!(percent_marks(10, met.pages()).low, met.extfrag(9));
    }
}
