//! Putting a machine together, starting programs, and summing up.

use super::code::CodeInUse;
use super::others::OtherTasks;
use super::outcome::{CgroupOutcome, Outcome, PressureTotals, ProgramOutcome};
use super::schedule::Stall;
use super::task::{KernelTask, RunState, Task, TaskId, UserTask, Work};
use super::{
    Action, ConfigError, Cpu, CpuId, Ending, KernelTime, Machine, MachineConfig, Plan, ProcessTime, ProgramState,
    ThreadTime, TieringOutcome,
};
use isotherm_core::daemon::Kind;
use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::compaction::Kcompactd;
use isotherm_kernel::fault::{self, FaultState};
use isotherm_kernel::memory::{Memory, NodeId};
use isotherm_kernel::mmu::Cursor;
use isotherm_kernel::pressure::{Pressure, Resource, Severity, TaskState};
use isotherm_kernel::reclaim::mglru::Refusal;
use isotherm_kernel::reclaim::{ListSizes, PolicyError, ReclaimPolicy};
use isotherm_units::access::{After, Batch, FileKind, Forks, Program, Stream, StreamError, ThreadStart};
use isotherm_units::{Duration, Instant};
use std::collections::VecDeque;

/// Why a machine could not be made or could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The machine's description.
    #[error("the machine cannot be built: {0}")]
    Config(#[from] ConfigError),
    /// A device of the machine.
    #[error("the machine cannot be built: {0}")]
    Device(#[from] isotherm_kernel::swap::device::DeviceError),
    /// The policy refuses the workload.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The caller cancelled the run.
    #[error("the run was stopped before its end")]
    Stopped,
    /// A program is bound to a node that is not there.
    #[error("node {node} is not on this machine; allowed: 0 to {}", nodes - 1)]
    NoSuchNode { node: usize, nodes: usize },
    #[error("too many control groups; at most 65534 fit one run")]
    TooManyGroups,
    #[error("too many files; at most 65535 fit one run")]
    TooManyFiles,
    /// The policy must know the future and the workload does not.
    #[error("the policy must know the future, but workload `{workload}` has none: use a finite trace")]
    NoFuture { workload: String },
    /// A program's mappings do not fit the page table.
    #[error(
        "`{program}` maps page {page:#x}, which does not fit: a file may have 2^32 pages, and a process touch 16384 blocks of 1 GiB"
    )]
    Layout {
        program: String,
        /// First page that does not fit.
        page: u64,
    },
    /// A program refers to a thread it does not have.
    #[error("`{program}` starts thread {thread}, which does not exist or runs already")]
    NoSuchThread { program: String, thread: usize },
    /// A monitor is to watch a process that is not there.
    #[error("monitor `{monitor}` watches process {process} of program {program}, which was not added")]
    NoSuchProcess {
        monitor: String,
        program: usize,
        /// Index in the program.
        process: usize,
    },
    /// A daemon's configuration is invalid here, or it needs a feature that the machine lacks.
    #[error("{kind} `{name}`: {source}")]
    Daemon { kind: Kind, name: String, source: super::DriverError },
    /// A planned write to a file of the Multi-Gen LRU was refused.
    #[error("at {at}: `{file}` refuses `{text}`: {source}")]
    Refused {
        at: Instant,
        /// Name of the file.
        file: &'static str,
        text: String,
        source: Refusal,
    },
    /// The policy over the tiers of memory is invalid.
    #[error("[tiering] {0}")]
    Tiering(#[source] ConfigError),
    /// The scan daemon lacks a feature on this machine.
    #[error("[tiering] {0}")]
    Promotion(#[source] Box<isotherm_core::promotion::PromotionError>),
    /// A daemon does not take a control that is written while it runs.
    #[error("`{name}`: {why}")]
    Control {
        /// Name of the daemon.
        name: String,
        why: String,
    },
    /// A program asks for a block larger than the page allocator has.
    #[error("`{program}` asks for a block of order {order}; allowed: 0 to 10")]
    BlockTooLarge {
        program: String,
        /// log2 of the pages.
        order: u32,
    },
    /// A workload's stream failed.
    #[error("workload `{program}`, thread {thread}: {source}")]
    Stream { program: String, thread: usize, source: StreamError },
}

/// Number of a program on its machine, in the order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramId(pub usize);

/// Collects the parts of a machine.
pub struct MachineBuilder {
    pub(super) machine: Machine,
}

impl MachineBuilder {
    /// A machine of `config` under `policy` (called `policy_name` in messages elsewhere).
    ///
    /// # Errors
    /// The configuration's first bad value.
    pub fn new(config: &MachineConfig, policy: Box<dyn ReclaimPolicy>) -> Result<Self, SimError> {
        config.validate()?;
        if config.tiering.demotion && policy.is_exact() {
            let allowed = "false under a page-exact baseline, which evicts and never moves pages";
            let (field, got) = ("tiering.demotion".to_owned(), "true".to_owned());
            return Err(super::ConfigError::new(&field, got, allowed).into());
        }
        if let Some(file_system) = config.file_system.filter(|_| !policy.knows_folios()) {
            let allowed = "absent under this policy, or policy `classic` or `mglru`: only these take folios of files";
            return Err(ConfigError::new("file-system", file_system, allowed).into());
        }
        let mut memory = Memory::assemble(&config.memory_setup())?;
        memory.mmu = super::mmu::mmu_under(policy.as_ref(), config);
        memory.compaction = config.compaction;
        memory.migration.flush = config.compaction.flush;
        if config.step > super::config::STEP {
            memory.migration.resolution = config.step;
        }
        if policy.is_exact() {
            memory.cgroups.charge_batch = 1;
        }
        let nr_cpus = config.cpus as usize;
        let caches = super::mmu::caches_of(&memory.mmu, nr_cpus);
        let mut machine = Machine {
            access: super::AccessCosts::new(config, &memory.nodes),
            config: config.clone(),
            memory,
            touches: policy.wanted_touches(),
            policy,
            pressure: Pressure::new(Instant::START, nr_cpus, config.tick_rate()),
            pressure_now: Instant::START,
            now: Instant::START,
            events: super::Events::default(),
            tasks: Vec::new(),
            queue: VecDeque::new(),
            cpus: vec![Cpu::default(); nr_cpus],
            caches,
            programs: Vec::new(),
            plans: Vec::new(),
            kswapds: Vec::new(),
            kcompactds: Vec::new(),
            writer: TaskId(0),
            others: None,
            daemons: Vec::new(),
            tiering: super::tiering::Tiering::default(),
            failure: None,
            kernel: KernelTime::default(),
            reclaim_latencies_ns: Vec::new(),
            incidents: Vec::new(),
            series: Vec::new(),
            usage: super::UsageSums::default(),
            series_every: None,
            strict: false,
            folds_ticks: true,
            until: Instant::NEVER,
            wants_residency: false,
            lean: super::lean::LeanRun::Undecided,
        };
        machine.register_group(CgroupId::ROOT);
        machine.kswapds = machine
            .memory
            .nodes
            .ids()
            .map(|node| KernelTask::Kswapd { node, attempt: None })
            .collect::<Vec<_>>()
            .into_iter()
            .map(|task| machine.add_task(Work::Kernel(Box::new(task)), CgroupId::ROOT, None))
            .collect();
        let nodes: Vec<_> = machine.memory.nodes.ids().collect();
        for node in nodes {
            let task = Box::new(KernelTask::Kcompactd { daemon: Kcompactd::new(node) });
            let id = machine.add_task(Work::Kernel(task), CgroupId::ROOT, None);
            machine.kcompactds.push(id);
        }
        let writer = KernelTask::Writer { jobs: VecDeque::new(), attempt: None };
        machine.writer = machine.add_task(Work::Kernel(Box::new(writer)), CgroupId::ROOT, None);
        Ok(Self { machine })
    }

    /// Other tasks run for a moment once a `tick`, `from` then `until` then; they touch nothing.
    pub fn other_tasks(&mut self, tick: Duration, from: Instant, until: Instant) {
        let work = Work::Kernel(Box::new(KernelTask::Others));
        let task = self.machine.add_task(work, CgroupId::ROOT, None);
        self.machine.others = Some(OtherTasks { task, from, tick, until, asleep: None });
    }

    /// Adds a group below `parent`.
    ///
    /// # Errors
    /// More than 65 534 groups.
    pub fn add_cgroup(&mut self, parent: CgroupId, name: &str) -> Result<CgroupId, SimError> {
        let id = self.machine.memory.cgroups.add(parent, name).ok_or(SimError::TooManyGroups)?;
        self.machine.register_group(id);
        Ok(id)
    }

    /// Sets a knob before the run begins.
    pub fn set(&mut self, cgroup: CgroupId, knob: Knob, value: Limit) {
        self.machine.memory.cgroups.set(cgroup, knob, value);
    }

    /// Adds a program that runs in `cgroup`. It starts at an event of a plan.
    ///
    /// # Errors
    /// Too many files, or a policy that must know the future gets a program that does not.
    pub fn add_program(&mut self, mut program: Program, cgroup: CgroupId) -> Result<ProgramId, SimError> {
        let machine = &mut self.machine;
        let id = machine.programs.len();
        let future = program.future.take();
        let opened = program.files.iter().map(|file| machine.memory.files.open(&file.name, file.kind, file.pages));
        let files = opened.collect::<Option<Vec<_>>>().ok_or(SimError::TooManyFiles)?;
        if machine.config.warm_files {
            for (&file, spec) in files.iter().zip(&program.files).filter(|(_, spec)| spec.kind == FileKind::Regular) {
                let policy = machine.policy.as_mut();
                fault::cache_file(&mut machine.memory, policy, (file, spec.pages), CgroupId::ROOT, NodeId::default());
            }
        }
        if machine.policy.needs_future() {
            let Some(future) = future else { return Err(SimError::NoFuture { workload: program.name }) };
            machine.policy.set_future(id, future, &files)?;
        }
        machine.programs.push(ProgramState {
            cgroup,
            files,
            bound: None,
            premapped: false,
            home: None,
            spaces: vec![None; program.processes.len()],
            tasks: Vec::new(),
            alive_threads: vec![0; program.processes.len()],
            started: None,
            ended: None,
            ending: Ending::NotStarted,
            operations: 0,
            first_operation: None,
            time: ThreadTime::default(),
            peak_resident: 0,
            processes: vec![ProcessTime::default(); program.processes.len()],
            migration_stalls_ns: Vec::new(),
            blocks: Vec::new(),
            kernel_blocks: std::collections::BTreeMap::new(),
            program,
        });
        Ok(ProgramId(id))
    }

    /// Binds a program's memory to a node (`MPOL_BIND`): all its memory comes from there, and only reclaim moves it, down a tier.
    ///
    /// # Errors
    /// A node that the machine does not have.
    pub fn bind_memory(&mut self, program: ProgramId, node: usize) -> Result<(), SimError> {
        let ids: Vec<_> = self.machine.memory.nodes.ids().collect();
        let Some(&found) = ids.get(node) else { return Err(SimError::NoSuchNode { node, nodes: ids.len() }) };
        self.machine.programs[program.0].bound = Some(found);
        Ok(())
    }

    /// Plans an action.
    pub fn plan(&mut self, plan: Plan) {
        self.machine.plans.push(plan);
    }

    /// Plans the start of a program.
    pub fn start_at(&mut self, program: ProgramId, at: Instant) {
        self.plan(Plan { at, every: None, action: Action::Start(program.0) });
    }

    /// Takes a row of the time series after each span of this length.
    pub fn record_series(&mut self, every: Duration) {
        self.machine.series_every = Some(every);
    }

    /// Lists in the outcome which pages are resident when the run ends.
    pub fn record_residency(&mut self) {
        self.machine.wants_residency = true;
    }

    /// Checks all invariants after each event: slow, for tests.
    pub fn strict(&mut self) {
        self.machine.strict = true;
    }

    /// The full machine plays, even where the lean engine would do: to the same results, with more work.
    pub fn in_full(&mut self) {
        self.machine.lean = super::lean::LeanRun::Never;
    }

    /// Tests each bit again and goes to sleep before each tick, for tests of what happens without.
    #[cfg(test)]
    pub(crate) fn without_folds(&mut self) {
        self.machine.folds_ticks = false;
    }

    /// Whether the policy must know the future of every program.
    pub fn needs_future(&self) -> bool {
        self.machine.policy.needs_future()
    }

    pub fn build(self) -> Machine {
        self.machine
    }
}

impl Machine {
    fn register_group(&mut self, cgroup: CgroupId) {
        for node in self.memory.nodes.ids() {
            self.memory.nonresident_age.push(0);
            self.policy.add_lruvec(self.memory.lruvec(cgroup, node));
        }
        if cgroup != CgroupId::ROOT {
            self.pressure.add_group(self.now);
        }
    }

    pub(super) fn add_task(&mut self, work: Work, cgroup: CgroupId, process: Option<usize>) -> TaskId {
        let id = TaskId(self.tasks.len());
        // Spread first placements; later a task returns to where it ran.
        let last_cpu = CpuId(id.0 % self.cpus.len());
        self.tasks.push(Task {
            work: Some(work),
            state: RunState::Parked,
            process,
            cgroup,
            pressure: TaskState::ASLEEP,
            pressure_cpu: last_cpu,
            stall: Stall(false),
            last_cpu,
            wait_number: 0,
            dying: false,
        });
        id
    }

    /// Makes the tasks of a program and starts tasks that begin with it.
    pub(super) fn start_program(&mut self, program: usize, now: Instant) -> Result<(), SimError> {
        if self.programs[program].started.is_some() {
            return Ok(());
        }
        self.programs[program].started = Some(now);
        let cgroup = self.programs[program].cgroup;
        let nr_threads = self.programs[program].program.threads.len();
        for index in 0..nr_threads {
            let thread = &mut self.programs[program].program.threads[index];
            let process = thread.process;
            let stream = std::mem::replace(&mut thread.stream, Box::new(Ended));
            let user = UserTask {
                program,
                process,
                thread: index,
                space: isotherm_kernel::mmu::SpaceId::from_index(0), // known when it starts
                code: CodeInUse::of(stream.as_ref(), &self.config),
                stream,
                batch: Batch::default(),
                cursor: Cursor::default(),
                after: After::Continue,
                fault: self.programs[program].home.map_or_else(FaultState::default, FaultState::on),
                reclaim: None,
                interrupted: None,
                nr_shortages: 0,
                faulted: false,
                looked_ahead: 0,
                taking: None,
                compute_left_ns: 0,
                high: None,
                time: ThreadTime::default(),
                burst_began: ThreadTime::default(),
                flushes_seen: 0,
                last_stretch_ns: [0; 2],
            };
            let user = match self.programs[program].bound {
                Some(node) => UserTask { fault: FaultState::bound_to(node), ..user },
                None => user,
            };
            let id = self.add_task(Work::User(Box::new(user)), cgroup, Some(process));
            self.programs[program].tasks.push(id);
        }
        for index in 0..nr_threads {
            if self.programs[program].program.threads[index].start == ThreadStart::WithProgram {
                self.start_thread(program, index, now)?;
            }
        }
        if self.programs[program].alive_threads.iter().all(|&alive| alive == 0) {
            self.programs[program].ended = Some(now);
            self.programs[program].ending = Ending::Finished;
        }
        Ok(())
    }

    /// Starts a thread; the first one of a process brings its address space to life.
    pub(super) fn start_thread(&mut self, program: usize, thread: usize, now: Instant) -> Result<(), SimError> {
        let id = self.programs[program].tasks.get(thread).copied();
        let fresh = |id: &TaskId| {
            let task = &self.tasks[id.0];
            task.state == RunState::Parked && task.wait_number == 0 && task.work.is_some()
        };
        let Some(id) = id.filter(fresh) else {
            return Err(SimError::NoSuchThread { program: self.programs[program].program.name.clone(), thread });
        };
        let process = self.tasks[id.0].process.expect("a user thread");
        let space = match self.programs[program].spaces[process] {
            Some(space) => space,
            None => self.start_process(program, process, now)?,
        };
        if let Some(Work::User(user)) = &mut self.tasks[id.0].work {
            user.space = space;
        }
        if let Some(balancer) = &mut self.tiering.balancer {
            balancer.enter(id.0, space, now);
        }
        self.tasks[id.0].wait_number = 1;
        self.programs[program].alive_threads[process] += 1;
        self.wake(id, now);
        Ok(())
    }

    fn start_process(
        &mut self,
        program: usize,
        process: usize,
        now: Instant,
    ) -> Result<isotherm_kernel::mmu::SpaceId, SimError> {
        self.memory.now = now;
        let spec = self.programs[program].program.processes[process].clone();
        let cgroup = self.programs[program].cgroup;
        let space = fault::new_space(&mut self.memory, &spec.name, (program, process), cgroup);
        self.memory.space_mut(space).is_bound = self.programs[program].bound.is_some();
        let parent = spec.forked_from.and_then(|parent| self.programs[program].spaces[parent]);
        if let Some(parent) = parent {
            fault::fork(&mut self.memory, parent, space).map_err(|page| self.layout_error(program, page))?;
            self.policy.forked(&mut self.memory, parent, space);
        }
        let files = self.programs[program].files.clone();
        for mapping in spec.layout {
            let change = isotherm_units::access::LayoutChange::Map(mapping);
            fault::change_layout(&mut self.memory, self.policy.as_mut(), space, change, &files)
                .map_err(|page| self.layout_error(program, page))?;
            self.premap(program, space, mapping).map_err(|page| self.layout_error(program, page))?;
        }
        self.memory.ledger.take(); // exec and fork are not part of the program's own time
        self.programs[program].spaces[process] = Some(space);
        self.notify_daemons_of(space, parent, now);
        self.start_daemons(now);
        Ok(space)
    }

    pub(super) fn layout_error(&self, program: usize, page: u64) -> SimError {
        SimError::Layout { program: self.programs[program].program.name.clone(), page }
    }

    pub(super) fn pressure_totals(&mut self, cgroup: CgroupId) -> PressureTotals {
        let now = self.pressure_now.max(self.now);
        let mut total = |resource, severity| self.pressure.total(now, cgroup, resource, severity).ns();
        PressureTotals {
            memory_some_ns: total(Resource::Memory, Severity::Some),
            memory_full_ns: total(Resource::Memory, Severity::Full),
            io_some_ns: total(Resource::Io, Severity::Some),
            io_full_ns: total(Resource::Io, Severity::Full),
        }
    }

    /// Sums everything up.
    pub(super) fn finish(mut self) -> Outcome {
        // A task may have run a step past the last event.
        let now = self.programs.iter().filter_map(|program| program.ended).fold(self.now, Instant::max);
        self.now = now;
        self.end_running(now);
        self.memory.cgroups.drain_stock(CgroupId::ROOT); // charged ahead, used by none
        let ids: Vec<CgroupId> = self.memory.cgroups.ids().collect();
        let pressures: Vec<_> = ids.iter().map(|&id| self.pressure_totals(id)).collect();
        let programs = self.programs.iter().map(|state| ProgramOutcome {
            name: state.program.name.clone(),
            cgroup: self.memory.cgroups.get(state.cgroup).path.clone(),
            started_ns: state.started.unwrap_or(now).ns(),
            ended_ns: state.ended.unwrap_or(now).ns(),
            ending: state.ending,
            operations: state.operations,
            first_operation_ns: state.first_operation.map(Instant::ns),
            time: state.time,
            processes: state.processes.clone(),
            peak_resident_pages: state.peak_resident,
            blocks: state.blocks.clone(),
            migration_stalls_ns: {
                let mut stalls = state.migration_stalls_ns.clone();
                stalls.sort_unstable();
                stalls
            },
        });
        let cgroups = ids.into_iter().zip(pressures).map(|(id, pressure)| {
            let group = self.memory.cgroups.get(id);
            let mut lists = ListSizes::default();
            for node in self.memory.nodes.ids() {
                let sizes = self.policy.sizes(self.memory.lruvec(id, node));
                lists.inactive_anon += sizes.inactive_anon;
                lists.active_anon += sizes.active_anon;
                lists.inactive_file += sizes.inactive_file;
                lists.active_file += sizes.active_file;
                lists.unevictable += sizes.unevictable;
            }
            let lists = self.lean_sizes(id).unwrap_or(lists);
            CgroupOutcome {
                path: group.path.clone(),
                counters: if id == CgroupId::ROOT { self.memory.counters } else { self.memory.cgroups.memory_stat(id) },
                pressure,
                events: group.events,
                usage_pages: group.usage,
                peak_pages: group.peak,
                mean_pages: self.usage.mean(id.index()),
                swap_pages: group.swap_usage,
                lists,
            }
        });
        let tiering = self.tiering_outcome();
        let (programs, cgroups) = (programs.collect(), cgroups.collect());
        let nodes = self.node_outcomes();
        let residency = self.wants_residency.then(|| self.residency());
        self.reclaim_latencies_ns.sort_unstable();
        let mut outcome = Outcome {
            ended_ns: now.ns(),
            programs,
            cgroups,
            kernel: self.kernel,
            nodes,
            work: self.memory.reclaim.work,
            reclaim_latencies_ns: self.reclaim_latencies_ns,
            incidents: self.incidents,
            series: self.series,
            residency,
            tiering,
            monitors: Vec::new(),
            generations: Vec::new(),
            limits: Vec::new(),
            compaction: Vec::new(),
        };
        self.daemons.into_iter().for_each(|daemon| daemon.finish(&mut outcome));
        if let Some(policy) = self.tiering.policy {
            TieringOutcome::book_regions(policy, &mut outcome);
        }
        outcome
    }

    /// Accounts for tasks that still run when the run ends.
    fn end_running(&mut self, now: Instant) {
        for index in 0..self.programs.len() {
            if self.programs[index].started.is_some() && self.programs[index].ended.is_none() {
                self.programs[index].ending = Ending::Stopped;
                self.programs[index].ended = Some(now);
                for id in self.programs[index].tasks.clone() {
                    if let Some(Work::User(user)) = self.tasks[id.0].work.take() {
                        self.programs[index].book(&user);
                    }
                }
            }
        }
    }
}

/// Placeholder for a stream that moved to its task.
struct Ended;

impl Stream for Ended {
    fn next_batch(&mut self, _now: Instant, _batch: &mut Batch) -> Result<After, StreamError> {
        Ok(After::Finish)
    }

    fn fork(&self, _forks: &mut Forks) -> Option<Box<dyn Stream>> {
        Some(Box::new(Self))
    }
}
