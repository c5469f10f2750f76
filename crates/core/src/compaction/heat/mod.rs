//! Compaction that leaves pages in use alone (docs/spec/compaction.md#s8): blocks are emptied that cost least, waits of those who use
//! their pages included; pages are moved in batches that are the smaller the more the block is used, those in use last and one
//! by one; and what others may lose is limited.
//!
//! *When* and *how far* are the controller's ([`Controller`](super::Controller)): as many huge pages are kept free as are asked
//! for. *How*: heat of blocks is measured for some epochs, only while there is something to do. Then the cheapest blocks are
//! watched for a moment, page by page, and emptied into blocks that can never be free, and into the fullest.

mod choice;
#[cfg(test)]
pub(crate) mod fake;
mod price;
#[cfg(test)]
mod tests;
mod warmth;
mod work;

use super::designs::{Activity, Compactor};
use super::keep::{Aim, LevelControl};
use super::rfc::after;
use super::run::{Budget, Task, Why};
use super::{CompactionError, HUGE_ORDER, Hold, Verdict};
use crate::host::{Compacting, HostError, NodeId, Stop};
use isotherm_units::{Duration, Instant, Ratio};
pub use price::Prices;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use work::Work;

/// Pages of a page block.
const BLOCK_PAGES: u32 = 1 << HUGE_ORDER;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct HeatConfig {
    /// Time from one check of the node to the next.
    pub interval: Duration,
    /// Huge pages to keep free, whatever was asked for recently.
    pub keep: u64,
    /// As many as are asked for in this time, at the recent rate, are kept free as well.
    pub horizon: Duration,
    /// It holds still while tasks waited for CPUs for this share of the last ten seconds, or more.
    pub max_cpu_pressure: Ratio,
    /// What the compaction of a zone may cost. `stall` counts waits as they are expected or seen, whichever are longer; with 0
    /// only pages that nobody uses are moved. Pages looked at in vain are not counted.
    pub budget: Budget,
    /// Time for which tasks may be made to wait in any 100 ms, all waits together.
    pub span_stall: Duration,
    /// Heat is measured over epochs of this length.
    pub epoch: Duration,
    /// Epochs of measuring before the first block is chosen, 1 to 1000.
    pub warm_up: u32,
    /// Pages of each block whose accessed bits are sampled in each epoch, 1 to 512.
    pub samples: u32,
    /// How long the pages of a block are watched before it is emptied.
    pub settle: Duration,
    /// Costs that are assumed for the host, to estimate CPU time and waits.
    pub prices: Prices,
}

impl Default for HeatConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            keep: 0,
            horizon: Duration::from_secs(10),
            max_cpu_pressure: Ratio::from_percent(20),
            budget: Budget::default(),
            span_stall: Duration::from_ms(1),
            epoch: Duration::from_ms(100),
            warm_up: 4,
            samples: 16,
            settle: Duration::from_us(500),
            prices: Prices::default(),
        }
    }
}

impl HeatConfig {
    const fn aim(&self) -> Aim {
        let Self { interval, keep, horizon, max_cpu_pressure, .. } = *self;
        Aim { interval, keep, horizon, max_cpu_pressure }
    }

    fn validate(&self) -> Result<(), CompactionError> {
        let spans = [
            ("epoch", self.epoch, Duration::from_ms(1), Duration::from_secs(60)),
            ("settle", self.settle, Duration::from_us(10), Duration::from_secs(60)),
        ];
        for (place, got, least, most) in spans {
            if got < least || got > most {
                return Err(CompactionError::out_of_range(place, got, format!("{least} to {most}")));
            }
        }
        if !(1..=BLOCK_PAGES).contains(&self.samples) {
            return Err(CompactionError::out_of_range("samples", self.samples, format!("1 to {BLOCK_PAGES}")));
        }
        if !(1..=1000).contains(&self.warm_up) {
            return Err(CompactionError::out_of_range("warm-up", self.warm_up, "1 to 1000 epochs"));
        }
        self.prices.validate()
    }
}

/// The design `heat`, running on one node.
#[derive(Debug)]
pub struct Heat {
    config: HeatConfig,
    control: LevelControl,
    next: Instant,
    /// The zone at work, and those that come after.
    work: Option<Work>,
    waiting: VecDeque<Task>,
    /// Of this attempt: pages moved, blocks freed, why zones ended.
    moved: u64,
    freed: u64,
    whys: Vec<Why>,
    /// Zones that were worked on so far.
    turn: u32,
}

impl Heat {
    /// On a node from `now` on.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn new(config: HeatConfig, node: NodeId, now: Instant) -> Result<Self, CompactionError> {
        config.validate()?;
        let control = LevelControl::new(config.aim(), node, now)?;
        let (waiting, whys) = (VecDeque::new(), Vec::new());
        Ok(Self { config, control, next: now, work: None, waiting, moved: 0, freed: 0, whys, turn: 0 })
    }

    fn check(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        self.next = after(now, self.config.interval);
        let (mut decision, tasks) = self.control.check(now, host)?;
        if !tasks.is_empty() {
            match self.first_look(&tasks, host) {
                Err(HostError::NotHere(_)) => decision.verdict = Verdict::Hold(Hold::HeatUnknown),
                Err(other) => return Err(other),
                Ok(()) => {
                    (self.moved, self.freed) = (0, 0);
                    self.whys.clear();
                    self.waiting = tasks.into();
                    self.start_next(now);
                    self.next = now;
                }
            }
        }
        Ok(Activity { decision: Some(decision), ..Activity::default() })
    }

    /// Asks for the calls that the work needs.
    fn first_look(&self, tasks: &[Task], host: &mut dyn Compacting) -> Result<(), HostError> {
        let zone = tasks.first().expect("not empty").zone;
        host.block_pages(zone, 0, false, &mut Vec::new())
    }

    fn start_next(&mut self, now: Instant) {
        self.work = self.waiting.pop_front().map(|task| {
            let Stop::Blocks { count, .. } = task.stop else { unreachable!("the keeper counts blocks") };
            self.turn = self.turn.wrapping_add(1);
            Work::new(task, count, self.turn, &self.config, now)
        });
    }

    fn go_on(&mut self, mut work: Work, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        let stepped = work.step(&self.config, now, host)?;
        self.next = stepped.next;
        match stepped.report {
            None => self.work = Some(work),
            Some(report) => {
                let done = work.total();
                (self.moved, self.freed) = (self.moved + done.pages_moved, self.freed + done.blocks_freed);
                self.whys.push(report.why);
                self.start_next(now);
                if self.work.is_none() {
                    self.control.finish(now, self.moved, self.freed, &self.whys);
                    self.next = after(now, self.config.interval);
                }
            }
        }
        Ok(Activity { spent: stepped.work.cpu, report: stepped.report, ..Activity::default() })
    }
}

impl Compactor for Heat {
    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        if now < self.next {
            return Ok(Activity::default());
        }
        let Some(work) = self.work.take() else { return self.check(now, host) };
        self.next = after(now, self.config.interval);
        self.go_on(work, now, host).inspect_err(|_| self.waiting.clear()).inspect_err(|_| self.control.fail(now))
    }
}
