//! A kernel thread that watches memory: the place where a monitor of `isotherm-core` runs in a simulated machine.
//!
//! The thread sleeps until its driver wants to run, waits for a processor like any other task, and pays for the wake-up and
//! for everything that the driver asks of its [host](MemoryHost). Idle processors take it first, otherwise it delays threads. All that
//! is done in one wake-up is done at its beginning; the time that it takes passes afterwards.

use super::schedule::Verdict;
use super::task::{Blocked, KernelTask, TaskId, Work};
use super::{Machine, MachineBuilder, ProgramId, SimError};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::host::{HostTarget, MemoryHost, ProbeCounts};
use isotherm_core::schemes::SchemeReport;
use isotherm_units::{Duration, Instant};
use serde::Serialize;

/// What a monitor thread runs.
pub trait MonitorDriver: Send {
    /// Runs what is due at `now`; then says when it wants to run again, or `None` if it is done for good. Target `i` of the
    /// host is entry `i` of the list given to [`MachineBuilder::monitor`].
    ///
    /// Called first when all processes to be watched have started. May come late when all processors are busy.
    ///
    /// # Errors
    /// It cannot do its work on this machine: the run ends with [`SimError::Monitor`].
    fn run(&mut self, now: Instant, host: &mut MemoryHost<'_>) -> Result<Option<Instant>, DriverError>;

    /// How its schemes stand; asked when the run is over, for [`MonitorOutcome::schemes`].
    fn scheme_reports(&self) -> Vec<SchemeReport> {
        Vec::new()
    }
}

/// Why a driver cannot go on.
pub type DriverError = Box<dyn std::error::Error + Send + Sync>;

/// What a monitor watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorTarget {
    /// Virtual memory of a process of a program, by its index in the program.
    Process(ProgramId, usize),
    /// Physical memory.
    Physical,
}

/// What a monitor did and what it cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MonitorOutcome {
    /// Its name.
    pub name: String,
    /// When its first targets were there; `None` if they never came.
    pub started_ns: Option<u64>,
    /// CPU time of its thread.
    pub cpu_ns: u64,
    /// How often it was woken.
    pub wakeups: u64,
    /// How much later than it wanted it ran, all wake-ups together.
    pub late_ns: u64,
    /// What it asked for.
    pub probes: ProbeCounts,
    /// Its schemes in order, as they stood at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<SchemeReport>,
}

/// A monitor in its machine.
pub(super) struct MonitorState {
    driver: Box<dyn MonitorDriver>,
    targets: Vec<MonitorTarget>,
    task: TaskId,
    /// When the driver wants to run next; known from its first run on.
    due: Option<Instant>,
    pub(super) outcome: MonitorOutcome,
}

impl MachineBuilder {
    /// Adds a kernel thread that runs `driver`, called `name` in results. It begins when all processes in `targets` have
    /// started.
    ///
    /// # Errors
    /// A program or process that was not added.
    pub fn monitor(
        &mut self,
        name: &str,
        targets: Vec<MonitorTarget>,
        driver: Box<dyn MonitorDriver>,
    ) -> Result<(), SimError> {
        for &target in &targets {
            if let MonitorTarget::Process(ProgramId(program), process) = target
                && self.machine.programs.get(program).is_none_or(|program| process >= program.spaces.len())
            {
                return Err(SimError::NoSuchProcess { monitor: name.to_owned(), program, process });
            }
        }
        let index = self.machine.monitors.len();
        let task = self.machine.add_task(Work::Kernel(Box::new(KernelTask::Monitor { index })), CgroupId::ROOT, None);
        let outcome = MonitorOutcome {
            name: name.to_owned(),
            started_ns: None,
            cpu_ns: 0,
            wakeups: 0,
            late_ns: 0,
            probes: ProbeCounts::default(),
            schemes: Vec::new(),
        };
        self.machine.monitors.push(MonitorState { driver, targets, task, due: None, outcome });
        Ok(())
    }
}

impl MonitorState {
    /// What it did, when the run is over.
    pub(super) fn into_outcome(self) -> MonitorOutcome {
        MonitorOutcome { schemes: self.driver.scheme_reports(), ..self.outcome }
    }
}

impl Machine {
    /// Starts the monitors whose targets are all there by now.
    pub(super) fn start_monitors(&mut self, now: Instant) {
        for index in 0..self.monitors.len() {
            let monitor = &self.monitors[index];
            if monitor.outcome.started_ns.is_none() && self.targets_of(index).is_some() {
                let task = monitor.task;
                self.monitors[index].outcome.started_ns = Some(now.ns());
                self.wake(task, now);
            }
        }
    }

    /// The monitor's targets, if all of them have started.
    fn targets_of(&self, index: usize) -> Option<Vec<HostTarget>> {
        let host_target = |target: &MonitorTarget| match *target {
            MonitorTarget::Process(program, process) => self.programs[program.0].spaces[process].map(HostTarget::Space),
            MonitorTarget::Physical => Some(HostTarget::Physical),
        };
        self.monitors[index].targets.iter().map(host_target).collect()
    }

    /// One wake-up of a monitor's thread.
    pub(super) fn monitor_step(&mut self, index: usize, now: &mut Instant) -> Option<Verdict> {
        let due = self.monitors[index].due;
        if let Some(due) = due.filter(|&due| due > *now) {
            return Some(Verdict::Block(due, Blocked::Sleep));
        }
        let Some(targets) = self.targets_of(index) else { return Some(Verdict::Park) };
        for &target in &targets {
            if let HostTarget::Space(space) = target {
                let stale = self.memory.space_mut(space).table.take_stale();
                super::mmu::drop_stale(&mut self.caches, space, stale);
            }
        }
        self.memory.ledger.spend(self.memory.costs.monitor_wakeup_ns);
        let monitor = &mut self.monitors[index];
        let outcome = &mut monitor.outcome;
        let nr_written = self.memory.counters.get(Counter::PswpOut);
        let mut host = MemoryHost::new(
            &mut self.memory,
            self.policy.as_mut(),
            &self.pressure,
            &mut self.caches,
            &targets,
            &mut outcome.probes,
        );
        let next = monitor.driver.run(*now, &mut host);
        let has_written = self.memory.counters.get(Counter::PswpOut) > nr_written;
        let ns = self.memory.ledger.take();
        outcome.wakeups += 1;
        outcome.cpu_ns += ns;
        outcome.late_ns += due.map_or(0, |due| now.since(due).ns());
        *now += Duration::from_ns(ns);
        match next {
            // One that wants to run at once, again and again, does not stop the clock: it pays for each wake-up.
            Ok(Some(next)) => {
                monitor.due = Some(next);
                // What it wrote beyond the device's queue would have made it wait on the way; it waits afterwards.
                let room_at = self.memory.io.swap_queue_has_room_at().filter(|_| has_written);
                room_at.map(|at| Verdict::Block(at, Blocked::Io))
            }
            Ok(None) => Some(Verdict::Park),
            Err(source) => {
                self.failure = Some(SimError::of_monitor(&monitor.outcome.name, source));
                Some(Verdict::Park)
            }
        }
    }
}
