//! Our design (docs/spec/compaction.md#s7-4): keeps as many huge pages free as are asked for, and compacts only where that is
//! predicted to help.
//!
//! *When*: fewer blocks are free than will be asked for within the horizon, or than are to be kept. Besides, CPUs are not
//! short, kswapd is idle, and the last attempt was worth its cost. *Where*: in the zones that are predicted to yield most.
//! *How far*: to a quarter more than is asked for, not to a percentage. A percent of a large node's free memory is hundreds of
//! huge pages, so marks in percent (the default in docs/spec/compaction.md) would do nothing until the last one was gone.

use super::designs::{Activity, Compactor};
use super::keep::{Aim, LevelControl, PAGES_PER_BLOCK};
use super::rfc::after;
use super::run::{Budget, Manner, Run, Why};
use crate::OutOfRange;
use crate::host::CompactMode;
use crate::host::{Compacting, HostError, NodeId};
use isotherm_units::{Duration, Instant, Ratio};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ControllerConfig {
    /// Time from one check of the node to the next.
    pub interval: Duration,
    /// Huge pages to keep free in any case, even without recent requests.
    pub keep: u64,
    /// In addition, as many are kept free as the recent rate of requests would take in this time.
    pub horizon: Duration,
    /// It holds still while tasks waited for CPUs for this share of the last ten seconds, or more.
    pub max_cpu_pressure: Ratio,
    /// Limits of one attempt.
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
    const fn aim(&self) -> Aim {
        let Self { interval, keep, horizon, max_cpu_pressure, .. } = *self;
        Aim { interval, keep, horizon, max_cpu_pressure }
    }
}

/// The design `controller`, running on one node.
#[derive(Debug)]
pub struct Controller {
    config: ControllerConfig,
    control: LevelControl,
    next: Instant,
    run: Option<Attempt>,
}

#[derive(Debug)]
struct Attempt {
    run: Run,
    scanned: u64,
    freed: u64,
    whys: Vec<Why>,
}

impl Controller {
    /// The design for a node; time starts at `now`.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn new(config: ControllerConfig, node: NodeId, now: Instant) -> Result<Self, OutOfRange> {
        let control = LevelControl::new(config.aim(), node, now)?;
        Ok(Self { config, control, next: now, run: None })
    }

    fn check(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        self.next = after(now, self.config.interval);
        let (decision, tasks) = self.control.check(now, host)?;
        if !tasks.is_empty() {
            let manner = Manner {
                mode: CompactMode::SyncLight,
                counts_in_flight: true,
                stops_for_reclaim: true,
                budget: self.config.budget,
            };
            self.run = Some(Attempt { run: Run::new(tasks, manner, now), scanned: 0, freed: 0, whys: Vec::new() });
            self.next = now;
        }
        Ok(Activity { decision: Some(decision), ..Activity::default() })
    }
}

impl Compactor for Controller {
    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        if now < self.next {
            return Ok(Activity::default());
        }
        let Some(mut attempt) = self.run.take() else { return self.check(now, host) };
        self.next = after(now, self.config.interval);
        let (step, report) = attempt.run.step(now, host).inspect_err(|_| self.control.fail(now))?;
        attempt.scanned += step.scanned_migrate;
        attempt.freed += step.blocks_freed;
        if let Some(report) = &report {
            self.control.learn(report.work.blocks_tried(), report.work.blocks_freed);
            attempt.whys.push(report.why);
        }
        if attempt.run.is_over() {
            self.control.finish(now, attempt.scanned, attempt.freed, &attempt.whys);
        } else {
            self.run = Some(attempt);
            self.next = now;
        }
        Ok(Activity { spent: step.cpu, report, ..Activity::default() })
    }
}
