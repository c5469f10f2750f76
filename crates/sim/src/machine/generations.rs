//! Tools over generations as daemons of the simulated machine: programs of user space that read and write `lru_gen`, and pay for
//! the walks and evictions that their commands ask for.

use super::daemon::{Ended, Habits, NewDaemon, Recorder, Wakeup, Watches};
use super::{MachineBuilder, Outcome, SimError};
use isotherm_core::daemon::{Account, Kind, Report};
use isotherm_core::generations::{
    Estimate, GenerationReason, GenerationWhy, Pass, Reading, Sample, Tool, ToolAccount, ToolConfig,
};
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::memory::{GroundTruth, Memory, Used};
use isotherm_units::{Duration, Instant};
use serde::Serialize;

/// One reading of generations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GenerationsSample {
    /// Generations of each group, right after an ageing.
    #[serde(flatten)]
    pub reading: Reading,
    /// Estimate for all groups together.
    pub estimate: Estimate,
    /// Pages really used in the window of the estimate, if there is ground truth and a window was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// The eviction, if the daemon evicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<GenerationsPass>,
}

/// Results of a pass of proactive reclaim; see [`Pass`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GenerationsPass {
    /// Bytes in generations of the threshold's age and more.
    pub cold_bytes: u64,
    /// Budget of the pass.
    pub budget_bytes: u64,
    pub evicted_bytes: u64,
    /// Bytes that were refaulted since the pass before.
    pub refaulted_bytes: Option<u64>,
    /// Share of the time since then in which some task was stalled by memory, in millionths.
    pub stalled_ppm: Option<u64>,
    /// Why the pass left cold memory alone.
    pub held_back: Option<GenerationReason>,
}

/// Work of a daemon and its costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GenerationsOutcome {
    pub name: String,
    /// CPU time of its thread, walks and evictions included.
    pub cpu_ns: u64,
    /// How often it was woken.
    pub wakeups: u64,
    /// Delay of its runs after their due time, summed over all wake-ups.
    pub late_ns: u64,
    /// Intervals without a reading because it came too late.
    pub missed: u64,
    pub evicted_bytes: u64,
    /// All readings.
    pub samples: Vec<GenerationsSample>,
    /// The results of groups.
    pub why: GenerationWhy,
    pub words: Vec<String>,
}

impl GenerationsOutcome {
    /// Mean of the estimates that had a value, in pages; `None` without any.
    pub fn mean_estimate_pages(&self) -> Option<u64> {
        mean(
            self.samples
                .iter()
                .filter(|sample| sample.estimate.reported_window_ms.is_some())
                .map(|sample| sample.estimate.pages),
        )
    }

    /// Mean number of really used pages at the same readings, only pages that still exist; `None` without ground truth.
    pub fn mean_used_pages(&self) -> Option<u64> {
        mean(self.samples.iter().filter_map(|sample| sample.used).map(|used| used.present_pages))
    }
}

fn mean(values: impl Iterator<Item = u64>) -> Option<u64> {
    let (sum, n) = values.fold((0u128, 0u128), |(sum, n), value| (sum + u128::from(value), n + 1));
    sum.checked_div(n).map(|mean| u64::try_from(mean).expect("a mean of 64-bit numbers"))
}

impl MachineBuilder {
    /// Adds a daemon that runs `tool`, called `name` in results, from the beginning on.
    ///
    /// # Errors
    /// [`SimError::Daemon`]: an invalid value of `tool`.
    pub fn generations(&mut self, name: &str, tool: ToolConfig) -> Result<(), SimError> {
        let daemon =
            Tool::start(tool, Instant::START).map_err(|source| SimError::of(Kind::Generations, name, source))?;
        self.machine.add_daemon(NewDaemon {
            kind: Kind::Generations,
            name: name.to_owned(),
            daemon: Box::new(daemon),
            recorder: Box::new(GenerationsRecorder::default()),
            watches: Watches::Machine,
            habits: Habits { wakeup: Wakeup::Program, goes_by_steps: false, asks_for_stalls: false },
        });
        Ok(())
    }

    /// Keeps ground truth on the machine, which sees every use of every page: estimates are then reported together with the
    /// truth.
    pub fn ground_truth(&mut self) {
        let frames = self.machine.memory.frames.len();
        self.machine.memory.ground_truth = Some(GroundTruth::new(frames));
    }
}

#[derive(Default)]
struct GenerationsRecorder {
    evicted_bytes: u64,
    samples: Vec<GenerationsSample>,
}

impl Recorder for GenerationsRecorder {
    fn note(&mut self, report: Report, _ns: u64, at: Instant, memory: &Memory) {
        let Report::Generations(Some(sample)) = report else { return };
        let (reading, pass) = match sample {
            Sample::Estimate(reading) => (reading, None),
            Sample::Reclaim(pass) => {
                let Pass { reading, cold_bytes, budget_bytes, evicted_bytes, refaulted_bytes, stalled_ppm, held_back } =
                    pass;
                self.evicted_bytes += evicted_bytes;
                let pass = GenerationsPass {
                    cold_bytes,
                    budget_bytes,
                    evicted_bytes,
                    refaulted_bytes,
                    stalled_ppm,
                    held_back,
                };
                (reading, Some(pass))
            }
        };
        self.samples.push(judge(reading, pass, at, memory));
    }

    fn finish(self: Box<Self>, ended: Ended, outcome: &mut Outcome) {
        let Account::Generations(ToolAccount { why, missed }) = ended.daemon.account() else { return };
        outcome.generations.push(GenerationsOutcome {
            name: ended.name,
            cpu_ns: ended.ledger.cpu_ns,
            wakeups: ended.ledger.wakeups,
            late_ns: ended.ledger.late_ns,
            missed,
            evicted_bytes: self.evicted_bytes,
            samples: self.samples,
            why,
            words: ended.daemon.words(),
        });
    }
}

/// A reading next to the truth.
fn judge(reading: Reading, pass: Option<GenerationsPass>, at: Instant, memory: &Memory) -> GenerationsSample {
    let estimate = reading.estimate();
    let used = estimate.reported_window_ms.and_then(|reported_ms| {
        let since = Instant::from_ns(at.ns().saturating_sub(Duration::from_ms(reported_ms).ns()));
        let groups: Vec<CgroupId> = (memory.cgroups.ids())
            .filter(|group| reading.groups.iter().any(|read| read.listing.lruvec.memcg == group.index() as u64))
            .collect();
        memory.used_after(since, &groups)
    });
    GenerationsSample { reading, estimate, used, pass }
}
