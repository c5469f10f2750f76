//! A block on a machine: the daemon's loop on one configuration, with samples during the run.

use super::design::Block;
use super::samples::{Metric, SampleError, Samples};
use super::{BlockEnd, Measured};
use crate::config::{Config, GuardConfig};
use crate::control_loop::{AuditError, Ended, Environment, Guard, Knobs, Line, Log, LoopHost, Status, System, steer};
use isotherm_units::{Clock, Duration, Instant, Meter, Woken};
use std::cell::RefCell;

/// Time between two samples.
const SAMPLE: Duration = Duration::from_secs(1);

/// Reads metrics.
pub trait Sampler {
    /// A sample of each metric, in order, or why there is none.
    fn sample(&mut self) -> Vec<Result<f64, SampleError>>;
}

/// The machine, seen from a block. The guard has a world of its own, as the loop holds the other.
pub struct BlockSide<'a> {
    pub world: &'a mut dyn System,
    pub guard_world: &'a mut dyn System,
    pub knobs: &'a mut dyn Knobs,
    pub clock: &'a mut dyn Clock,
    pub meter: &'a mut dyn Meter,
    pub log: &'a mut dyn Log,
    pub sampler: &'a mut dyn Sampler,
}

struct Watched<'a> {
    guard: Guard,
    limits: &'a GuardConfig,
    world: &'a mut dyn System,
    sampler: &'a mut dyn Sampler,
    samples: Vec<Samples>,
    from: Instant,
    due: Instant,
    ended: Option<BlockEnd>,
}

/// A clock that takes samples during sleeps, and ends them when the guard trips.
struct SamplingClock<'a, 'b> {
    clock: &'a mut dyn Clock,
    watched: &'a RefCell<Watched<'b>>,
}

impl Clock for SamplingClock<'_, '_> {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn sleep_until(&mut self, until: Instant) -> Woken {
        loop {
            let due = self.watched.borrow().due;
            let woken = self.clock.sleep_until(until.min(due));
            let now = self.clock.now();
            let mut watched = self.watched.borrow_mut();
            if woken == Woken::Stopped {
                watched.ended.get_or_insert(BlockEnd::Stopped);
                return Woken::Stopped;
            }
            if now >= watched.due {
                watched.look(now);
            }
            if watched.ended.is_some() {
                return Woken::Stopped;
            }
            // A block has one configuration, so a reload request has no effect.
            if now >= until || woken == Woken::Reload {
                return Woken::Due;
            }
        }
    }
}

impl Watched<'_> {
    fn look(&mut self, now: Instant) {
        self.due = now + SAMPLE;
        let paused = self.guard.look(self.limits, now, self.world);
        if let Some(why) = paused.filter(|_| self.guard.has_tripped()) {
            self.ended = Some(BlockEnd::Hurt(why));
            return;
        }
        if self.world.is_there(&self.limits.file) {
            self.ended =
                Some(BlockEnd::Failed(format!("the file {} is there: nothing acts while it is", self.limits.file)));
            return;
        }
        if now < self.from {
            return;
        }
        for (samples, sample) in self.samples.iter_mut().zip(self.sampler.sample()) {
            samples.take(now, sample);
        }
    }
}

/// Notes why a configuration did not act, because the trial would then not compare the two configurations.
struct HeedingLog<'a> {
    log: &'a mut dyn Log,
    failed: Option<String>,
}

impl Log for HeedingLog<'_> {
    fn line(&mut self, line: &Line) -> Result<(), AuditError> {
        let written = self.log.line(line);
        if let Err(why) = &written {
            self.failed = Some(format!("the audit cannot be written: {why}"));
        }
        written
    }

    fn status(&mut self, status: &Status) {
        self.log.status(status);
    }
}

/// Runs a block: the loop on its configuration, a sample each second after the warm-up, the guard of `limits`. All knobs are restored
/// at its end.
pub fn run_block<H: LoopHost>(
    block: Block,
    config: &Config,
    limits: &GuardConfig,
    metrics: &[Metric],
    host: &mut H,
    side: BlockSide<'_>,
) -> Measured {
    let BlockSide { world, guard_world, knobs, clock, meter, log, sampler } = side;
    let start = clock.now();
    let watched = RefCell::new(Watched {
        guard: Guard::default(),
        limits,
        world: guard_world,
        sampler,
        samples: vec![Samples::default(); metrics.len()],
        from: start + block.warm_up,
        due: start,
        ended: None,
    });
    let mut sampling = SamplingClock { clock, watched: &watched };
    let mut log = HeedingLog { log, failed: None };
    let outside = Environment { world, knobs, clock: &mut sampling, meter, log: &mut log };
    let steered = steer(config, Some(block.length), host, outside);
    let failed = log.failed;
    let watched = watched.into_inner();
    let values = watched.samples.iter().zip(metrics).map(|(samples, metric)| samples.value(metric.kind)).collect();
    let end = match steered {
        Err(error) => BlockEnd::Failed(error.to_string()),
        Ok(steered) if !steered.left.is_empty() => BlockEnd::Failed(format!(
            "{}; it stays in the journal: `isotherm restore` tries once more",
            steered.left.join("; ")
        )),
        Ok(steered) => match (steered.end, watched.ended, failed) {
            (Ended::TooLarge(why), ..) => BlockEnd::Failed(why),
            (_, Some(end), _) => end,
            (_, None, Some(why)) => BlockEnd::Failed(why),
            (Ended::TimeOver, None, None) => BlockEnd::Whole,
            (Ended::Stopped, None, None) => BlockEnd::Stopped,
        },
    };
    Measured { end, values }
}
