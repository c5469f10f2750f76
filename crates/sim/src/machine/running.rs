//! A machine in the middle of its run, which can be forked: the part that runs have in common is played once.
//!
//! Runs that differ only in the limit of a group are the same until the smallest limit is first met. `memory.max` is only read where pages
//! are charged ([`Cgroups::room`], [`Cgroups::over_limit`]). Successful charges stay below the highest charge, and refused ones asked for
//! [`ASKED_MAX`] pages at most. So as long as the highest charge is that far below the limit, any larger limit would have given the same
//! answers.
//!
//! [`Cgroups::room`]: isotherm_kernel::cgroup::Cgroups::room
//! [`Cgroups::over_limit`]: isotherm_kernel::cgroup::Cgroups::over_limit

use super::task::{KernelTask, Task, UserTask, Work};
use super::{Machine, Outcome, ProgramState, SimError};
use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::memory::Memory;
use isotherm_kernel::reclaim::ReclaimPolicy;
use isotherm_units::access::{Forks, Program, Thread};
use isotherm_units::{Instant, Pages};

/// No charge asks for more pages at once: a huge page has 512, the largest block of the page allocator 1024.
const ASKED_MAX: u64 = 1024;
/// Between two events a group may grow by a part of its limit: this is kept free.
const PART_KEPT: u64 = 16;

/// A machine whose run has begun.
pub struct Running(pub(super) Machine);

impl Machine {
    /// Begins a run that ends when every program has, or at `until`.
    pub fn begin(mut self, until: Instant) -> Running {
        self.until = until;
        self.arm();
        Running(self)
    }
}

impl Running {
    /// The group with this path.
    pub fn group(&self, path: &str) -> Option<CgroupId> {
        self.0.memory.cgroups.find(path)
    }

    /// Plays on as long as a `memory.max` of `limit` would stay well above the charge of `group`. Returns whether the run so far is also
    /// the run of a machine with this limit, or any larger one.
    ///
    /// The limit that the group has must be as large.
    ///
    /// # Errors
    /// As [`Machine::run`].
    pub fn play_below(&mut self, group: CgroupId, limit: Pages) -> Result<bool, SimError> {
        let is_within = |machine: &Machine, kept: u64| {
            let charged = machine.memory.cgroups.get(group).peak;
            charged.saturating_add(ASKED_MAX + kept) <= limit.get()
        };
        self.0.play_on(&|| true, |machine| !is_within(machine, limit.get() / PART_KEPT))?;
        Ok(is_within(&self.0, 0))
    }

    /// Sets `memory.max`, as if it had been so from the beginning.
    pub fn limit(&mut self, group: CgroupId, limit: Pages) {
        self.0.memory.cgroups.set(group, Knob::Max, Limit::At(limit));
    }

    /// Plays the rest.
    ///
    /// # Errors
    /// As [`Machine::run`].
    pub fn finish(self) -> Result<Outcome, SimError> {
        self.finish_while(&|| true)
    }

    pub(super) fn finish_while(mut self, goes_on: &dyn Fn() -> bool) -> Result<Outcome, SimError> {
        self.0.play_on(goes_on, |_| false)?;
        Ok(self.0.finish())
    }

    /// A second machine that goes on from here as this one does. `None` if a part of it cannot be duplicated: a daemon, a policy over tiers
    /// or from outside, or a workload whose accesses are not known beforehand.
    pub fn fork(&self) -> Option<Self> {
        let machine = &self.0;
        let policy = machine.policy.fork()?;
        machine.fork_with(machine.memory.clone(), policy).map(Self)
    }
}

impl Machine {
    /// The same machine with another memory and policy.
    pub(super) fn fork_with(&self, memory: Memory, policy: Box<dyn ReclaimPolicy>) -> Option<Self> {
        let machine = self;
        if !machine.daemons.is_empty() || machine.failure.is_some() {
            return None;
        }
        let mut forks = Forks::default();
        let tasks = machine.tasks.iter().map(|task| task.fork(&mut forks)).collect::<Option<_>>()?;
        let programs = machine.programs.iter().map(|program| program.fork(&mut forks)).collect::<Option<_>>()?;
        Some(Self {
            config: machine.config.clone(),
            memory,
            policy,
            touches: machine.touches,
            access: machine.access.clone(),
            pressure: machine.pressure.clone(),
            pressure_now: machine.pressure_now,
            now: machine.now,
            events: machine.events.clone(),
            tasks,
            queue: machine.queue.clone(),
            cpus: machine.cpus.clone(),
            caches: machine.caches.clone(),
            programs,
            plans: machine.plans.clone(),
            kswapds: machine.kswapds.clone(),
            kcompactds: machine.kcompactds.clone(),
            writer: machine.writer,
            others: machine.others,
            daemons: Vec::new(),
            tiering: machine.tiering.fork()?,
            failure: None,
            kernel: machine.kernel,
            reclaim_latencies_ns: machine.reclaim_latencies_ns.clone(),
            incidents: machine.incidents.clone(),
            series: machine.series.clone(),
            usage: machine.usage.clone(),
            series_every: machine.series_every,
            strict: machine.strict,
            folds_ticks: machine.folds_ticks,
            wants_residency: machine.wants_residency,
            until: machine.until,
            lean: machine.lean.fork()?,
        })
    }
}

impl Task {
    fn fork(&self, forks: &mut Forks) -> Option<Self> {
        let work = match &self.work {
            None => None,
            Some(Work::Kernel(kernel)) => Some(Work::Kernel(Box::new(KernelTask::clone(kernel)))),
            Some(Work::User(user)) => Some(Work::User(Box::new(user.fork(forks)?))),
        };
        Some(Self { work, ..*self })
    }
}

impl UserTask {
    fn fork(&self, forks: &mut Forks) -> Option<Self> {
        Some(Self {
            stream: self.stream.fork(forks)?,
            batch: self.batch.clone(),
            after: self.after.clone(),
            fault: self.fault.clone(),
            reclaim: self.reclaim.clone(),
            taking: self.taking.clone(),
            code: self.code.clone(),
            ..*self
        })
    }
}

impl ProgramState {
    fn fork(&self, forks: &mut Forks) -> Option<Self> {
        let of_thread = |thread: &Thread| Some(Thread { stream: thread.stream.fork(forks)?, ..*thread });
        let program = Program {
            name: self.program.name.clone(),
            files: self.program.files.clone(),
            processes: self.program.processes.clone(),
            threads: self.program.threads.iter().map(of_thread).collect::<Option<_>>()?,
            timing: self.program.timing,
            future: None, // the policy has it
        };
        Some(Self {
            program,
            files: self.files.clone(),
            spaces: self.spaces.clone(),
            tasks: self.tasks.clone(),
            alive_threads: self.alive_threads.clone(),
            processes: self.processes.clone(),
            migration_stalls_ns: self.migration_stalls_ns.clone(),
            blocks: self.blocks.clone(),
            kernel_blocks: self.kernel_blocks.clone(),
            ..*self
        })
    }
}
