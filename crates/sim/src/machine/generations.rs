//! Tools over generations as daemons of the simulated machine: programs of user space that read and write `lru_gen`.
//!
//! A daemon sleeps until its tool wants to run, waits for a processor like any other task, and pays for being switched to, for
//! what it reads and writes, and for the walks and evictions that its commands ask for. All that is done in one wake-up is done
//! at its beginning; the time that it takes passes afterwards.

use super::schedule::Verdict;
use super::task::{Blocked, KernelTask, TaskId, Work};
use super::{Machine, MachineBuilder, SimError};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::host::{MemoryHost, ProbeCounts};
use crate::memory::{Used, Witness};
use isotherm_core::generations::{
    Estimate, Estimator, EstimatorConfig, GenerationReason, GenerationWhy, Pass, Reading, Reclaimer, ReclaimerConfig,
    explain_estimator, explain_reclaimer,
};
use isotherm_units::{Duration, Instant};
use serde::Serialize;

/// What a daemon runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GenerationsTool {
    /// Estimates the working set.
    Estimate(EstimatorConfig),
    /// Evicts what is old.
    Reclaim(ReclaimerConfig),
}

#[derive(Debug)]
enum Running {
    Estimate(Box<Estimator>),
    Reclaim(Box<Reclaimer>),
}

/// One look at generations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GenerationsLook {
    /// Generations of each group, right after an ageing.
    #[serde(flatten)]
    pub reading: Reading,
    /// Of all groups together.
    pub estimate: Estimate,
    /// What was really used in the window that the estimate tells of, where there is a witness and a window was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// What was evicted, if that is what it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<GenerationsPass>,
}

/// What a pass of proactive reclaim did; see [`Pass`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GenerationsPass {
    /// Bytes in generations of the threshold's age and more.
    pub cold_bytes: u64,
    /// What it could spend.
    pub budget_bytes: u64,
    /// What it freed.
    pub evicted_bytes: u64,
    /// What came back since the pass before.
    pub refaulted_bytes: Option<u64>,
    /// Share of the time since then in which some task was stalled by memory, in millionths.
    pub stalled_ppm: Option<u64>,
    /// Why it left cold memory alone.
    pub held_back: Option<GenerationReason>,
}

/// What a daemon did and what it cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GenerationsOutcome {
    /// Its name.
    pub name: String,
    /// CPU time of its thread, walks and evictions included.
    pub cpu_ns: u64,
    /// How often it was woken.
    pub wakeups: u64,
    /// How much later than it wanted it ran, all wake-ups together.
    pub late_ns: u64,
    /// Intervals that passed without a look because it came too late.
    pub missed: u64,
    /// What it evicted.
    pub evicted_bytes: u64,
    /// All looks.
    pub looks: Vec<GenerationsLook>,
    /// What became of groups.
    pub why: GenerationWhy,
    /// That in words.
    pub words: Vec<String>,
}

impl GenerationsOutcome {
    /// Mean of the estimates that told something, in pages; `None` without any.
    pub fn mean_estimate_pages(&self) -> Option<u64> {
        mean(self.looks.iter().filter(|look| look.estimate.told_window_ms.is_some()).map(|look| look.estimate.pages))
    }

    /// Mean of what was really used at the same looks, pages that are still there; `None` without a witness.
    pub fn mean_used_pages(&self) -> Option<u64> {
        mean(self.looks.iter().filter_map(|look| look.used).map(|used| used.present_pages))
    }
}

fn mean(values: impl Iterator<Item = u64>) -> Option<u64> {
    let (sum, n) = values.fold((0u128, 0u128), |(sum, n), value| (sum + u128::from(value), n + 1));
    sum.checked_div(n).map(|mean| u64::try_from(mean).expect("a mean of 64-bit numbers"))
}

/// A daemon in its machine.
pub(super) struct Keeper {
    tool: Running,
    task: TaskId,
    outcome: GenerationsOutcome,
}

impl MachineBuilder {
    /// Adds a daemon that runs `tool`, called `name` in results, from the beginning on.
    ///
    /// # Errors
    /// [`SimError::Generations`]: a value of `tool` that makes no sense.
    pub fn generations(&mut self, name: &str, tool: GenerationsTool) -> Result<(), SimError> {
        let wrong = |source| SimError::Generations { name: name.to_owned(), source: Box::new(source) };
        let tool = match tool {
            GenerationsTool::Estimate(config) => Running::Estimate(Box::new(Estimator::new(config).map_err(wrong)?)),
            GenerationsTool::Reclaim(config) => Running::Reclaim(Box::new(Reclaimer::new(config).map_err(wrong)?)),
        };
        let index = self.machine.keepers.len();
        let task = self.machine.add_task(Work::Kernel(Box::new(KernelTask::Keeper { index })), CgroupId::ROOT, None);
        let outcome = GenerationsOutcome {
            name: name.to_owned(),
            cpu_ns: 0,
            wakeups: 0,
            late_ns: 0,
            missed: 0,
            evicted_bytes: 0,
            looks: Vec::new(),
            why: GenerationWhy::default(),
            words: Vec::new(),
        };
        self.machine.keepers.push(Keeper { tool, task, outcome });
        Ok(())
    }

    /// Puts a witness on the machine, which sees every use of every page: estimates are then told together with the truth.
    pub fn witness(&mut self) {
        let frames = self.machine.memory.frames.len();
        self.machine.memory.witness = Some(Witness::new(frames));
    }
}

impl Running {
    fn start(&mut self, now: Instant) {
        match self {
            Self::Estimate(tool) => tool.start(now),
            Self::Reclaim(tool) => tool.start(now),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Estimate(tool) => tool.poll_timeout(),
            Self::Reclaim(tool) => tool.poll_timeout(),
        }
    }

    fn run(&mut self, now: Instant, host: &mut MemoryHost<'_>) -> Option<(Reading, Option<GenerationsPass>)> {
        match self {
            Self::Estimate(tool) => tool.handle_timeout(now, host).map(|reading| (reading, None)),
            Self::Reclaim(tool) => tool.handle_timeout(now, host).map(|pass| {
                let Pass { reading, cold_bytes, budget_bytes, evicted_bytes, refaulted_bytes, stalled_ppm, held_back } =
                    pass;
                let pass = GenerationsPass {
                    cold_bytes,
                    budget_bytes,
                    evicted_bytes,
                    refaulted_bytes,
                    stalled_ppm,
                    held_back,
                };
                (reading, Some(pass))
            }),
        }
    }
}

impl Keeper {
    /// What it did, when the run is over.
    pub(super) fn into_outcome(self) -> GenerationsOutcome {
        let (why, missed, words) = match &self.tool {
            Running::Estimate(tool) => {
                (tool.why().clone(), tool.missed(), explain_estimator(tool.config(), tool.why()))
            }
            Running::Reclaim(tool) => {
                let why = tool.why();
                let words = explain_reclaimer(tool.config(), &why);
                (why, tool.missed(), words)
            }
        };
        GenerationsOutcome { why, missed, words, ..self.outcome }
    }
}

impl Machine {
    pub(super) fn start_keepers(&mut self, now: Instant) {
        for index in 0..self.keepers.len() {
            self.keepers[index].tool.start(now);
            self.wake(self.keepers[index].task, now);
        }
    }

    /// One wake-up of a daemon.
    pub(super) fn keeper_step(&mut self, index: usize, now: &mut Instant) -> Option<Verdict> {
        let Some(due) = self.keepers[index].tool.poll_timeout() else { return Some(Verdict::Park) };
        if due > *now {
            return Some(Verdict::Block(due, Blocked::Sleep));
        }
        self.memory.ledger.spend(self.memory.costs.context_switch_ns);
        let nr_written = self.memory.counters.get(Counter::PswpOut);
        let keeper = &mut self.keepers[index];
        let mut counts = ProbeCounts::default();
        let mut host =
            MemoryHost::new(&mut self.memory, self.policy.as_mut(), &self.pressure, &mut [], &[], &mut counts);
        let looked = keeper.tool.run(*now, &mut host);
        let has_written = self.memory.counters.get(Counter::PswpOut) > nr_written;
        let ns = self.memory.ledger.take();
        let outcome = &mut keeper.outcome;
        outcome.wakeups += 1;
        outcome.cpu_ns += ns;
        outcome.late_ns += now.since(due).ns();
        if let Some((reading, pass)) = looked {
            outcome.evicted_bytes += pass.as_ref().map_or(0, |pass| pass.evicted_bytes);
            let look = self.judge(reading, pass, *now);
            self.keepers[index].outcome.looks.push(look);
        }
        *now += Duration::from_ns(ns);
        // What it wrote beyond the device's queue would have made it wait on the way; it waits afterwards.
        let room_at = self.memory.io.swap_queue_has_room_at().filter(|_| has_written);
        room_at.map(|at| Verdict::Block(at, Blocked::Io))
    }

    /// A look beside the truth.
    fn judge(&self, reading: Reading, pass: Option<GenerationsPass>, now: Instant) -> GenerationsLook {
        let estimate = reading.estimate();
        let used = estimate.told_window_ms.and_then(|told_ms| {
            let since = Instant::from_ns(now.ns().saturating_sub(Duration::from_ms(told_ms).ns()));
            let groups: Vec<CgroupId> = (self.memory.cgroups.ids())
                .filter(|group| reading.groups.iter().any(|read| read.listing.lruvec.memcg == group.index() as u64))
                .collect();
            self.memory.used_after(since, &groups)
        });
        GenerationsLook { reading, estimate, used, pass }
    }
}
