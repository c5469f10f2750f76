//! The whole monitor on a fake world: the order of a tick, schedules, changes, and what must always hold.

mod behaviour;
mod detection;
mod invariants;
mod probabilities;
mod schemes;

use super::fake::World;
use super::*;
use crate::host::AddressRange;
use crate::vocabulary::UnitRange;
use isotherm_units::Duration;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A monitor and its world, with a clock that jumps from one wake-up to the next.
struct Bench {
    world: World,
    monitor: Monitor,
    /// Events of all ticks so far.
    events: Vec<Event>,
}

impl Bench {
    /// `fvaddr` over these ranges of target 0, started at time zero.
    fn fixed(ranges: &[(u64, u64)], change: impl FnOnce(&mut MonitorConfig)) -> Self {
        let world = World::new(ranges);
        let mut config = MonitorConfig { operations: Operations::Fvaddr, ..MonitorConfig::default() };
        change(&mut config);
        let mut monitor = Monitor::new(config, 1).expect("a good configuration");
        let ranges: Vec<UnitRange> = ranges.iter().map(|&(start, end)| UnitRange::new(start, end)).collect();
        monitor.add_target(TargetId(0), &ranges, &world).expect("good ranges");
        Self { world, monitor, events: Vec::new() }.started()
    }

    fn started(mut self) -> Self {
        self.monitor.start(Instant::START);
        self.tick();
        self
    }

    /// Runs to the next wake-up. The first ends with PREPARE; each further one tests, then prepares.
    fn tick(&mut self) -> Tick {
        self.world.run();
        let at = self.monitor.poll_timeout().expect("it runs");
        let tick = self.monitor.handle_timeout(at, &mut self.world);
        self.events.extend(tick.events.iter().cloned());
        tick
    }

    /// Runs to the end of the next aggregation.
    fn aggregate(&mut self) -> &Snapshot {
        while !self.tick().has_snapshot {}
        self.monitor.snapshot()
    }

    /// Ticks of this many wake-ups that end an aggregation.
    fn aggregations_in(&mut self, nr_ticks: u64) -> Vec<u64> {
        (0..nr_ticks).filter_map(|_| self.tick().has_snapshot.then_some(self.monitor.schedule.tick)).collect()
    }

    fn commit_attributes(&mut self, change: impl FnOnce(&mut Attributes)) {
        let mut config = self.monitor.config().clone();
        change(&mut config.attributes);
        self.monitor.commit(config, None, &self.world).expect("a good configuration");
    }
}
