//! Right-sizing as a daemon of the simulated machine: a program of user space that reads files of its group and writes its `memory.high`.
//! The reclaim after a lowered limit is done by the machine's writer of group files, next to the daemon.

use super::daemon::{Ended, Habits, NewDaemon, Recorder, Wakeup, Watches};
use super::task::WriterJob;
use super::{Machine, MachineBuilder, Outcome, SimError};
use isotherm_core::daemon::{Account, Kind, Report};
use isotherm_core::limits::{LimitsConfig, LimitsDaemon, LimitsStep, LimitsWhy};
use isotherm_kernel::memory::Memory;
use isotherm_kernel::reclaim::driver::MAX_RECLAIM_RETRIES;
use isotherm_units::Instant;
use serde::Serialize;

/// Work of right-sizing for one group and its costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitsOutcome {
    /// Path of the group.
    pub target: String,
    /// CPU time of its thread. Reclaim below a lowered limit is not in it: see
    /// [`KernelTime::proactive_ns`](super::KernelTime::proactive_ns).
    pub cpu_ns: u64,
    /// How often it was woken.
    pub wakeups: u64,
    /// Delay of its runs after their due time, summed over all wake-ups.
    pub late_ns: u64,
    /// All decisions: the limit over time.
    pub steps: Vec<LimitsStep>,
    pub why: LimitsWhy,
    pub words: Vec<String>,
}

impl LimitsOutcome {
    /// Mean memory in use at decisions, bytes; `None` if the group was never there.
    pub fn mean_usage_bytes(&self) -> Option<u64> {
        let read = self.steps.iter().map(|step| u128::from(step.usage_bytes)).filter(|bytes| *bytes > 0);
        let (sum, n) = read.fold((0u128, 0u128), |(sum, n), bytes| (sum + bytes, n + 1));
        sum.checked_div(n).map(|mean| u64::try_from(mean).expect("a mean of 64-bit numbers"))
    }

    /// The lowest limit that was set, bytes; `None` if none was.
    pub fn lowest_limit_bytes(&self) -> Option<u64> {
        self.steps.iter().filter_map(|step| step.limit_bytes).min()
    }
}

impl MachineBuilder {
    /// Adds right-sizing of the group that `config` names, from the beginning on.
    ///
    /// # Errors
    /// [`SimError::Daemon`]: an invalid value of `config`. A group that is not there is none.
    pub fn limits(&mut self, config: LimitsConfig) -> Result<(), SimError> {
        let name = config.target.clone();
        let watches = self.machine.memory.cgroups.find(&name).map_or(Watches::Machine, Watches::Group);
        let daemon =
            LimitsDaemon::start(config, Instant::START).map_err(|source| SimError::of(Kind::Limits, &name, source))?;
        self.machine.add_daemon(NewDaemon {
            kind: Kind::Limits,
            name,
            daemon: Box::new(daemon),
            recorder: Box::new(LimitsRecorder::default()),
            watches,
            habits: Habits { wakeup: Wakeup::Program, goes_by_steps: false, asks_for_stalls: false },
        });
        Ok(())
    }
}

impl Machine {
    /// Begins to reclaim the memory above the limits that a daemon's run has set.
    pub(super) fn follow_lowered_limits(&mut self, now: Instant) {
        for cgroup in std::mem::take(&mut self.memory.high_written) {
            self.write(WriterJob::High { cgroup, retries_left: MAX_RECLAIM_RETRIES }, now);
        }
    }
}

#[derive(Default)]
struct LimitsRecorder {
    steps: Vec<LimitsStep>,
}

impl Recorder for LimitsRecorder {
    fn note(&mut self, report: Report, _ns: u64, _at: Instant, _memory: &Memory) {
        if let Report::Limits(Some(step)) = report {
            self.steps.push(step);
        }
    }

    fn finish(self: Box<Self>, ended: Ended, outcome: &mut Outcome) {
        let Account::Limits(why) = ended.daemon.account() else { return };
        outcome.limits.push(LimitsOutcome {
            target: ended.name,
            cpu_ns: ended.ledger.cpu_ns,
            wakeups: ended.ledger.wakeups,
            late_ns: ended.ledger.late_ns,
            steps: self.steps,
            why,
            words: ended.daemon.words(),
        });
    }
}
