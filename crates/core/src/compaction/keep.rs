//! How many huge pages should be free, and whether compaction may try for them now: what our design decides by
//! (docs/spec/compaction.md#s7-4).

use super::rfc::after;
use super::run::{Task, Why};
use super::yields::{SpoilRate, estimated_yield};
use super::{Decision, HUGE_ORDER, Hold, Verdict};
use crate::OutOfRange;
use crate::host::{Compacting, HostError, NodeId};
use crate::host::{CompactionSignals, Stop, ZoneState};
use isotherm_units::{Duration, Instant, Ratio};

/// Pages scanned per block freed, at most, for a run to be worth its cost.
pub(super) const PAGES_PER_BLOCK: u64 = 4096;
/// The pause after a run that was not, doubled by each further one up to 2^6 times.
const BACKOFF: Duration = Duration::from_ms(500);
const MAX_BACKOFF_SHIFT: u32 = 6;
/// Time in which the estimate of spoilt blocks fades by an eighth.
const RELAX_INTERVAL: Duration = Duration::from_secs(300);

/// The settings of a design: number of huge pages to keep free, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    pub(super) interval: Duration,
    pub(super) keep: u64,
    pub(super) horizon: Duration,
    pub(super) max_cpu_pressure: Ratio,
}

impl Aim {
    pub(super) fn validate(&self) -> Result<(), OutOfRange> {
        if self.interval < Duration::from_ms(1) {
            return Err(OutOfRange::new("interval", self.interval, "1ms and more"));
        }
        if self.max_cpu_pressure > Ratio::ONE {
            return Err(OutOfRange::new("max-cpu-pressure", self.max_cpu_pressure, "up to 100%"));
        }
        Ok(())
    }
}

/// State of a node, and the decisions from it.
#[derive(Debug)]
pub(super) struct LevelControl {
    aim: Aim,
    pub(super) node: NodeId,
    demand: Demand,
    spoilt: SpoilRate,
    relaxed: Instant,
    failures: u32,
    backing_off_until: Instant,
}

impl LevelControl {
    pub(super) fn new(aim: Aim, node: NodeId, now: Instant) -> Result<Self, OutOfRange> {
        aim.validate()?;
        let (demand, spoilt) = (Demand::default(), SpoilRate::default());
        Ok(Self { aim, node, demand, spoilt, relaxed: now, failures: 0, backing_off_until: now })
    }

    /// Checks the node. The decision is to start if there are zones to compact, with the number of blocks that should be free
    /// in each.
    pub(super) fn check(
        &mut self,
        now: Instant,
        host: &mut dyn Compacting,
    ) -> Result<(Decision, Vec<Task>), HostError> {
        if now.since(self.relaxed) >= RELAX_INTERVAL {
            self.relaxed = now;
            self.spoilt.relax();
        }
        let signals = host.compaction_signals(self.node)?;
        self.demand.learn(signals.huge_wanted, now);
        let mut zones = Vec::new();
        host.zones(&mut zones)?;
        zones.retain(|zone| zone.id.node == self.node);
        let mut decision = Decision::of_zones(now, self.node, HUGE_ORDER, &zones);
        decision.signals = signals;
        decision.demand = self.demand.within(self.aim.horizon).max(self.aim.keep);
        let yields: Vec<Option<u64>> = zones.iter().map(|zone| self.predict(zone)).collect();
        decision.predicted_yield = yields.iter().flatten().sum();
        let is_known = yields.iter().any(Option::is_some);
        if let Some(hold) = self.hold(now, &decision, is_known) {
            decision.verdict = Verdict::Hold(hold);
            return Ok((decision, Vec::new()));
        }
        let tasks = plan(&zones, &yields, decision.demand);
        decision.verdict = Verdict::Start(tasks.iter().map(|task| task.zone).collect());
        Ok((decision, tasks))
    }

    /// Why the design does nothing. Of several reasons, it is the one that would have to change first.
    fn hold(&self, now: Instant, decision: &Decision, is_known: bool) -> Option<Hold> {
        let CompactionSignals { is_reclaiming, has_reclaimed, cpu_pressure_bp, .. } = decision.signals;
        match () {
            () if decision.free_blocks >= decision.demand => Some(Hold::Enough),
            () if now < self.backing_off_until => Some(Hold::BackingOff),
            () if !is_known => Some(Hold::YieldUnknown),
            () if decision.predicted_yield == 0 => Some(Hold::NoYield),
            () if is_reclaiming || has_reclaimed => Some(Hold::Reclaiming),
            () if u64::from(cpu_pressure_bp) * 100 >= self.aim.max_cpu_pressure.ppm() => Some(Hold::Busy),
            () => None,
        }
    }

    fn predict(&self, zone: &ZoneState) -> Option<u64> {
        zone.exact_yield.or_else(|| zone.movable.map(|movable| estimated_yield(&movable, self.spoilt.ppm())))
    }

    /// The result for a zone, block by block.
    pub(super) fn learn(&mut self, tried: u64, freed: u64) {
        self.spoilt.learn(tried, freed);
    }

    /// A run is over: pages scanned, blocks freed, and the reasons for its end. A run that reached the goal was worth its cost, in any
    /// case; a run that kswapd ended teaches nothing.
    pub(super) fn finish(&mut self, now: Instant, scanned: u64, freed: u64, whys: &[Why]) {
        let is_worth = scanned > 0 && freed.saturating_mul(PAGES_PER_BLOCK) >= scanned;
        if is_worth || whys.contains(&Why::ReachedLow) {
            self.failures = 0;
        } else if !whys.contains(&Why::ReclaimRunning) {
            self.fail(now);
        }
    }

    /// A run gained nothing.
    pub(super) fn fail(&mut self, now: Instant) {
        let pause = Duration::from_ns(BACKOFF.ns() << self.failures);
        self.failures = (self.failures + 1).min(MAX_BACKOFF_SHIFT);
        self.backing_off_until = after(now, pause);
    }
}

/// Zones to compact, and the number of blocks that should be free in each, until demand is met with a quarter to spare. The largest yield
/// comes first, at equal yields the highest zone, since low memory is kept for requests that can use no other.
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

/// Requests for huge pages per second, as a moving average: each check changes it by a quarter.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
