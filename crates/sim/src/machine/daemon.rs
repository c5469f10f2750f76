//! Daemons in the machine: any [`Daemon`] of `isotherm-core` runs here, and no code here depends on its kind.
//!
//! Each worker of a daemon is a kernel thread. It sleeps until it is due, waits for a processor like any other task (idle ones take it
//! first, otherwise it delays threads), and pays for wake-ups and for all requests of the daemon to its [host](MemoryHost). All that is
//! done in one run is done at its beginning; the time that it takes passes afterwards.
//!
//! Kinds differ by data ([`Watches`], [`Habits`]) and a [`Recorder`], in the kind's own file.

use super::schedule::Verdict;
use super::task::{Blocked, KernelTask, RunState, TaskId, Work};
use super::{DriverError, Machine, MonitorTarget, Outcome, SimError};
use crate::host::{HostTarget, MemoryHost, ProbeCounts, Samples};
use isotherm_core::daemon::{Control, Daemon, DaemonError, Kind, Report};
use isotherm_core::host::TargetId;
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::Memory;
use isotherm_kernel::migrate::Mover;
use isotherm_kernel::mmu::SpaceId;
use isotherm_kernel::mmu::translation::{Caches, drop_stale};
use isotherm_kernel::pressure::{Resource, Severity};
use isotherm_units::{Duration, Instant};

/// A daemon that this machine can run.
pub(super) type AnyDaemon = dyn for<'h> Daemon<MemoryHost<'h>> + Send;

/// The scope of a daemon's runs, which also decides when it begins.
pub(super) enum Watches {
    /// The machine as a whole, no page tables: it begins with the machine.
    Machine,
    /// These targets, target `i` being entry `i`: the daemon begins when all of them have started.
    Targets(Vec<MonitorTarget>),
    /// A control group, whose pressure is sampled before each run, as reading its file does. It begins with the machine.
    Group(CgroupId),
    /// All address spaces by their numbers: each is reported to it.
    Spaces,
}

/// Costs of a wake-up.
#[derive(Clone, Copy)]
pub(super) enum Wakeup {
    /// The wake-up of a kernel thread.
    Thread,
    /// Being switched to, as programs are.
    Program,
}

/// How a daemon is driven.
#[derive(Clone, Copy)]
pub(super) struct Habits {
    pub(super) wakeup: Wakeup,
    /// Its runs are steps of larger pieces of work: only the first run after a sleep is a wake-up. Otherwise each run is a wake-up, even
    /// one that is due at once: a daemon that wants to run again and again does not stop the clock.
    pub(super) goes_by_steps: bool,
    /// Waits for the pages that it moves are reported to it.
    pub(super) asks_for_stalls: bool,
}

/// The cost of a daemon's threads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    /// When it began.
    pub(super) started_ns: Option<u64>,
    /// CPU time, including the time of its requests to the host.
    pub(super) cpu_ns: u64,
    /// How often it was woken.
    pub(super) wakeups: u64,
    /// Delay of its runs after their due time, summed over all wake-ups.
    pub(super) late_ns: u64,
}

/// Makes the outcome of one kind of daemon.
pub(super) trait Recorder: Send {
    /// A run at `at` took `ns` of CPU time and did this.
    fn note(&mut self, report: Report, ns: u64, at: Instant, memory: &Memory);

    /// The machine's run is over.
    fn finish(self: Box<Self>, ended: Ended, outcome: &mut Outcome);
}

/// State of a daemon after the machine's run.
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) daemon: Box<AnyDaemon>,
    pub(super) ledger: Ledger,
    /// Probes of the daemon.
    pub(super) probes: ProbeCounts,
}

/// A daemon to be put on the machine.
pub(super) struct NewDaemon {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) daemon: Box<AnyDaemon>,
    pub(super) recorder: Box<dyn Recorder>,
    pub(super) watches: Watches,
    pub(super) habits: Habits,
}

/// A daemon on its machine.
pub(super) struct Resident {
    new: NewDaemon,
    workers: Vec<Worker>,
    /// The machine has called it, and it has not run since.
    is_called: bool,
    ledger: Ledger,
    probes: ProbeCounts,
    /// Samples under way.
    samples: Samples,
    /// A buffer.
    targets: Vec<HostTarget>,
}

/// A thread of a daemon.
struct Worker {
    task: TaskId,
    /// It slept, and pays for waking up.
    has_slept: bool,
    /// End of its sleep.
    sleeps_until: Instant,
}

impl Resident {
    pub(super) fn finish(self, outcome: &mut Outcome) {
        let NewDaemon { name, daemon, recorder, .. } = self.new;
        recorder.finish(Ended { name, daemon, ledger: self.ledger, probes: self.probes }, outcome);
    }
}

impl Machine {
    /// Puts a daemon on the machine: a task for each of its workers.
    pub(super) fn add_daemon(&mut self, new: NewDaemon) {
        let daemon = self.daemons.len();
        let mut worker = |worker| {
            let work = Work::Kernel(Box::new(KernelTask::Daemon { daemon, worker }));
            let task = self.add_task(work, CgroupId::ROOT, None);
            Worker { task, has_slept: true, sleeps_until: Instant::NEVER }
        };
        let workers = (0..new.daemon.nr_workers()).map(&mut worker).collect();
        let (ledger, probes) = (Ledger::default(), ProbeCounts::default());
        self.daemons.push(Resident {
            new,
            workers,
            is_called: false,
            ledger,
            probes,
            samples: Samples::default(),
            targets: Vec::new(),
        });
    }

    /// Starts the daemons whose targets all exist by now.
    pub(super) fn start_daemons(&mut self, now: Instant) {
        for index in 0..self.daemons.len() {
            if self.daemons[index].ledger.started_ns.is_some() {
                continue;
            }
            let (is_ready, is_called) = match &self.daemons[index].new.watches {
                Watches::Machine | Watches::Group(_) => (true, false),
                Watches::Targets(targets) => (targets.iter().all(|target| self.host_target(*target).is_some()), true),
                Watches::Spaces => (false, false),
            };
            if is_ready {
                let daemon = &mut self.daemons[index];
                daemon.ledger.started_ns = Some(now.ns());
                daemon.is_called = is_called;
                let task = daemon.workers[0].task;
                self.wake(task, now);
            }
        }
    }

    /// Reports a new space to daemons over all spaces.
    pub(super) fn notify_daemons_of(&mut self, space: SpaceId, parent: Option<SpaceId>, now: Instant) {
        for index in 0..self.daemons.len() {
            let NewDaemon { daemon, watches, .. } = &mut self.daemons[index].new;
            if matches!(watches, Watches::Spaces) {
                daemon.enter(target_of(space), parent.map(target_of), now);
                self.wake_workers(index, now);
            }
        }
    }

    /// Reports an ended space to daemons over all spaces.
    pub(super) fn notify_daemons_end_of(&mut self, space: SpaceId) {
        for NewDaemon { daemon, watches, .. } in self.daemons.iter_mut().map(|daemon| &mut daemon.new) {
            if matches!(watches, Watches::Spaces) {
                daemon.exit(target_of(space));
            }
        }
    }

    /// Changes a control of all daemons of a kind, and wakes daemons that are now due sooner.
    pub(super) fn control_daemons(
        &mut self,
        (kind, only): (Kind, Option<&str>),
        control: &Control<'_>,
        now: Instant,
    ) -> Result<(), SimError> {
        for index in 0..self.daemons.len() {
            let NewDaemon { kind: own, name, daemon, .. } = &mut self.daemons[index].new;
            if *own != kind || only.is_some_and(|only| only != name) {
                continue;
            }
            daemon.control(control, now).map_err(|why| SimError::Control { name: name.clone(), why })?;
            self.wake_workers(index, now);
        }
        Ok(())
    }

    /// Wakes a daemon's workers that had nothing to do and are due now, and workers that are due sooner than their sleep ends.
    fn wake_workers(&mut self, index: usize, now: Instant) {
        let Resident { new, workers, .. } = &self.daemons[index];
        let due = workers.iter().enumerate().map(|(worker, _)| new.daemon.poll_timeout(worker));
        let sleepers = due.zip(workers).filter_map(|(due, worker)| Some((due?, worker.task, worker.sleeps_until)));
        for (due, task, until) in sleepers.collect::<Vec<_>>() {
            let is_late = matches!(self.tasks[task.0].state, RunState::Blocked(_, Blocked::Sleep)) && due < until;
            if is_late || self.tasks[task.0].state == RunState::Parked {
                self.wake(task, now);
            }
        }
    }

    /// The host's name for a target, if the target has started.
    fn host_target(&self, target: MonitorTarget) -> Option<HostTarget> {
        match target {
            MonitorTarget::Process(program, process) => self.programs[program.0].spaces[process].map(HostTarget::Space),
            MonitorTarget::Physical => Some(HostTarget::Physical),
        }
    }

    /// Puts into `targets` the existing targets that the next run of a daemon may watch. `false`: not all have started.
    fn list_targets(&self, index: usize, targets: &mut Vec<HostTarget>) -> bool {
        targets.clear();
        match &self.daemons[index].new.watches {
            Watches::Machine | Watches::Group(_) => true,
            Watches::Targets(watched) => {
                targets.extend(watched.iter().map_while(|target| self.host_target(*target)));
                targets.len() == watched.len()
            }
            Watches::Spaces => {
                let spaces = (0..self.memory.spaces.len()).map(SpaceId::from_index);
                targets.extend(spaces.map(HostTarget::Space));
                true
            }
        }
    }

    /// One run of a daemon's worker.
    pub(super) fn daemon_step(&mut self, index: usize, worker: usize, now: &mut Instant) -> Option<Verdict> {
        let Resident { new, workers, is_called, .. } = &mut self.daemons[index];
        let thread = &mut workers[worker];
        // A called worker runs when it gets a processor, and does not count as late.
        let called = std::mem::take(is_called).then_some(*now);
        let Some(due) = called.or_else(|| new.daemon.poll_timeout(worker)) else {
            thread.has_slept = true;
            return Some(Verdict::Park);
        };
        if due > *now {
            thread.has_slept = true;
            thread.sleeps_until = due;
            return Some(Verdict::Block(due, Blocked::Sleep));
        }
        let mut listed = std::mem::take(&mut self.daemons[index].targets);
        if !self.list_targets(index, &mut listed) {
            return Some(Verdict::Park);
        }
        self.drop_stale(index, &listed);
        let Resident { new, workers, ledger, probes, samples, targets, .. } = &mut self.daemons[index];
        let has_slept = std::mem::take(&mut workers[worker].has_slept);
        if has_slept || !new.habits.goes_by_steps {
            let costs = &self.memory.costs;
            self.memory.ledger.spend(match new.habits.wakeup {
                Wakeup::Thread => costs.monitor_wakeup_ns(),
                Wakeup::Program => costs.context_switch_ns(),
            });
            ledger.wakeups += 1;
            ledger.late_ns += now.since(due).ns();
        }
        if new.habits.asks_for_stalls {
            let mover = Mover::Daemon(u32::try_from(index).expect("a few daemons"));
            self.memory.migration.set_mover(mover);
        }
        let caches: &mut [Caches] = match new.watches {
            Watches::Machine | Watches::Group(_) => &mut [],
            Watches::Targets(_) | Watches::Spaces => &mut self.caches,
        };
        if let Watches::Group(group) = new.watches {
            let at = self.pressure_now.max(*now);
            self.pressure.total(at, group, Resource::Memory, Severity::Some);
        }
        let nr_written = self.memory.counters.get(Counter::PswpOut);
        let mut host = MemoryHost::new(&mut self.memory, self.policy.as_mut(), &self.pressure, caches, &listed, probes);
        if self.folds_ticks {
            host = host.remembering(samples);
        }
        let ran = new.daemon.handle_timeout(worker, *now, &mut host);
        *targets = listed;
        self.memory.migration.set_mover(Mover::Anybody);
        let has_written = self.memory.counters.get(Counter::PswpOut) > nr_written;
        let ns = self.memory.ledger.take();
        ledger.cpu_ns += ns;
        match ran {
            Ok(report) => {
                debug_assert_eq!(report.kind(), new.kind, "a daemon tells what its kind does");
                new.recorder.note(report, ns, *now, &self.memory);
            }
            // The daemon has counted that, and goes on.
            Err(DaemonError::Refused(_)) => {}
            Err(DaemonError::Failed(source)) => {
                self.failure = Some(SimError::Daemon { kind: new.kind, name: new.name.clone(), source });
                return Some(Verdict::Park);
            }
        }
        *now += Duration::from_ns(ns);
        self.follow_lowered_limits(*now);
        let Resident { new, workers, .. } = &self.daemons[index];
        if workers.len() == 1 && new.daemon.poll_timeout(worker).is_none() {
            // Nothing else could give it work.
            return Some(Verdict::Park);
        }
        self.wake_workers(index, *now);
        // Writes beyond the device's queue would have made it wait on the way; it waits afterwards.
        let room_at = self.memory.io.swap_queue_has_room_at().filter(|_| has_written);
        room_at.map(|at| Verdict::Block(at, Blocked::Io))
    }

    /// Drops translations that the kernel's changes of tables made void, before a daemon reads these. A daemon over all spaces skips spaces
    /// that have ended.
    fn drop_stale(&mut self, index: usize, targets: &[HostTarget]) {
        let passes_over_ended = matches!(self.daemons[index].new.watches, Watches::Spaces);
        for &target in targets {
            if let HostTarget::Space(space) = target
                && (self.memory.space(space).alive || !passes_over_ended)
            {
                drop_stale(&mut self.caches, space, &mut self.memory.space_mut(space).table);
            }
        }
    }
}

impl SimError {
    /// A daemon that cannot be set up.
    pub(super) fn of(kind: Kind, name: &str, source: impl Into<DriverError>) -> Self {
        Self::Daemon { kind, name: name.to_owned(), source: source.into() }
    }
}

pub(super) fn target_of(space: SpaceId) -> TargetId {
    TargetId(u32::try_from(space.index()).expect("at most 65535 spaces"))
}
