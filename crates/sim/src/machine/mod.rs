//! The machine: owns all state, moves the clock, gives CPUs to tasks. Mechanisms live elsewhere; this stays thin.
//!
//! Time advances from event to event. A task on a CPU plays its accesses up to the *horizon*: the next event of another task, but
//! at least a [step](MachineConfig::step), so that two busy CPUs do not alternate page by page. State that other CPUs see is
//! therefore up to one step old; nothing waits longer than that.

mod access;
#[cfg(test)]
mod at_once_tests;
mod balancing;
mod blocks;
#[cfg(test)]
mod blocks_tests;
mod build;
mod bursts;
mod code;
#[cfg(test)]
mod code_tests;
mod compaction;
#[cfg(test)]
mod compaction_tests;
mod config;
mod daemon;
mod events;
#[cfg(test)]
mod folding_tests;
#[cfg(test)]
mod folio_tests;
mod generations;
#[cfg(test)]
mod generations_tests;
mod hardware;
mod kdamond;
#[cfg(test)]
mod kdamond_tests;
mod kernel;
mod lean;
#[cfg(test)]
mod lean_tests;
mod limits;
#[cfg(test)]
mod limits_tests;
mod memory_high;
#[cfg(test)]
mod mglru_tests;
mod mmu;
mod monitor;
#[cfg(test)]
mod monitor_tests;
#[cfg(test)]
mod node_tests;
mod nodes;
mod oom;
mod others;
mod outcome;
mod play;
mod residency;
mod running;
#[cfg(test)]
mod running_tests;
mod schedule;
#[cfg(test)]
mod scheme_tests;
mod task;
#[cfg(test)]
mod tests;
mod tiering;
#[cfg(test)]
mod tiering_tests;

pub use build::{MachineBuilder, ProgramId, SimError};
pub use bursts::{Bursts, Lengths, ProcessTime};
pub use compaction::{CompactionOutcome, CompactionRun};
pub use config::{ConfigError, MachineConfig, SwapConfig};
pub use events::{Action, Plan};
pub use generations::{GenerationsOutcome, GenerationsPass, GenerationsSample};
pub use kdamond::{TickSink, Watched};
pub use limits::LimitsOutcome;
pub use monitor::{DriverError, MonitorDriver, MonitorOutcome, MonitorTarget};
pub use nodes::{MemoryKind, NodeConfig, TieringConfig};
pub use outcome::{
    CgroupOutcome, Ending, Incident, KernelTime, NodeOutcome, Outcome, PressureTotals, ProgramOutcome, SeriesRow,
    ThreadTime,
};
pub use residency::{Residency, ResidentFile, ResidentProcess};
pub use running::Running;
pub use tiering::TieringOutcome;

use access::AccessCosts;
use daemon::target_of;
use events::{CpuId, Event, Events};
use isotherm_core::daemon::{Control, Kind};
use isotherm_kernel::cgroup::proactive::ProactiveReclaim;
use isotherm_kernel::cgroup::{CgroupId, Knob};
use isotherm_kernel::compaction::BlockTaken;
use isotherm_kernel::fault;
use isotherm_kernel::memory::{FileId, FrameId, Memory, NodeId};
use isotherm_kernel::mmu::SpaceId;
use isotherm_kernel::mmu::translation::Caches;
use isotherm_kernel::pressure::Pressure;
use isotherm_kernel::reclaim::driver::MAX_RECLAIM_RETRIES;
use isotherm_kernel::reclaim::{ReclaimPolicy, Touches};
use isotherm_units::access::Program;
use isotherm_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use task::{Task, TaskId, WriterJob};

/// Time between the flusher's searches for old dirty pages (`dirty_writeback_centisecs`).
const FLUSHER_PERIOD: Duration = Duration::from_secs(5);
/// Time between the runs of the worker that adds up counters of groups (`mm/memcontrol.c: FLUSH_TIME`, 6.12 and 7.2).
const STATISTICS_PERIOD: Duration = Duration::from_secs(2);
/// Time between the samples of memory charges for their means.
const USAGE_PERIOD: Duration = Duration::from_ms(10);

/// Events between two checks of invariants on a strict machine: each check reads all of memory.
const CHECK_EVERY: u64 = 8;

/// A simulated machine with its programs. Made by [`MachineBuilder`], run once.
pub struct Machine {
    config: MachineConfig,
    memory: Memory,
    policy: Box<dyn ReclaimPolicy>,
    /// Touches that the policy wants reported.
    touches: Touches,
    access: AccessCosts,
    pressure: Pressure,
    /// The last time given to pressure accounting: CPUs may be a step apart, its time never goes back.
    pressure_now: Instant,
    now: Instant,
    events: Events,
    tasks: Vec<Task>,
    queue: VecDeque<TaskId>,
    cpus: Vec<Cpu>,
    /// Translation caches by processor; none without the model.
    caches: Vec<Caches>,
    programs: Vec<ProgramState>,
    plans: Vec<Plan>,
    kswapds: Vec<TaskId>,
    kcompactds: Vec<TaskId>,
    writer: TaskId,
    /// Other tasks, if there are any.
    others: Option<others::OtherTasks>,
    daemons: Vec<daemon::Resident>,
    tiering: tiering::Tiering,
    /// Why the run cannot go on.
    failure: Option<SimError>,
    kernel: KernelTime,
    reclaim_latencies_ns: Vec<u64>,
    incidents: Vec<Incident>,
    series: Vec<SeriesRow>,
    usage: UsageSums,
    series_every: Option<Duration>,
    strict: bool,
    /// Ticks of monitors in which nothing happens take short cuts, to the same results.
    folds_ticks: bool,
    wants_residency: bool,
    /// When the run ends at the latest.
    until: Instant,
    /// Whether the lean engine plays.
    lean: lean::LeanRun,
}

/// One processor.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    running: Option<TaskId>,
    /// Space of the running task, if it is a thread of a program.
    space: Option<SpaceId>,
    /// When the running task got it.
    since: Instant,
}

/// A program on this machine.
struct ProgramState {
    program: Program,
    cgroup: CgroupId,
    files: Vec<FileId>,
    /// The only node that its memory may come from, if it is bound to one.
    bound: Option<NodeId>,
    /// The program's mappings at the start are premapped.
    premapped: bool,
    /// The node whose memory it takes first, wherever it runs.
    home: Option<NodeId>,
    /// Spaces by process.
    spaces: Vec<Option<SpaceId>>,
    /// Tasks of its threads, made when the program starts.
    tasks: Vec<TaskId>,
    /// By process: number of threads that have not ended.
    alive_threads: Vec<usize>,
    started: Option<Instant>,
    ended: Option<Instant>,
    ending: Ending,
    operations: u64,
    /// When a thread began the first batch with operations; the time before was preparation.
    first_operation: Option<Instant>,
    time: ThreadTime,
    /// By process.
    processes: Vec<ProcessTime>,
    peak_resident: u64,
    /// Each wait for a page on its way.
    migration_stalls_ns: Vec<u64>,
    /// Allocations of several pages in a row.
    blocks: Vec<BlockTaken>,
    /// Memory of the kernel that it took, by tag, the oldest first.
    kernel_blocks: BTreeMap<u32, VecDeque<FrameId>>,
}

/// Charges of all groups, summed over samples while some program runs.
#[derive(Clone, Debug, Default)]
struct UsageSums {
    looks: u64,
    /// Pages, by group.
    sums: Vec<u64>,
}

impl UsageSums {
    fn look(&mut self, usages: impl Iterator<Item = u64>) {
        self.looks += 1;
        for (index, usage) in usages.enumerate() {
            if self.sums.len() <= index {
                self.sums.resize(index + 1, 0);
            }
            self.sums[index] = self.sums[index].saturating_add(usage);
        }
    }

    /// Pages; `None` for a run that ended before the first sample.
    fn mean(&self, index: usize) -> Option<u64> {
        Some(self.sums.get(index).copied().unwrap_or(0) / Some(self.looks).filter(|&looks| looks > 0)?)
    }
}

impl Machine {
    /// Runs until every program has ended, or until `until`.
    ///
    /// # Errors
    /// A workload's stream failed, or the address space of a program cannot be laid out.
    pub fn run(self, until: Instant) -> Result<Outcome, SimError> {
        self.run_while(until, &|| true)
    }

    /// Runs as [`run`](Self::run) does, as long as `goes_on` returns true. It is asked between two events of the machine, and its answer
    /// must not depend on the clock of the world where results are to be the same.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`SimError::Stopped`] if `goes_on` returns false.
    pub fn run_while(self, until: Instant, goes_on: &dyn Fn() -> bool) -> Result<Outcome, SimError> {
        self.begin(until).finish_while(goes_on)
    }

    /// Goes on until the run is over or, between two events, `pauses`.
    fn play_on(&mut self, goes_on: &dyn Fn() -> bool, pauses: impl Fn(&Self) -> bool) -> Result<(), SimError> {
        let mut nr_events = 0u64;
        loop {
            self.choose_engine();
            if self.is_over() || pauses(self) {
                break;
            }
            if !goes_on() {
                return Err(SimError::Stopped);
            }
            let io = self.memory.io.next_completion();
            let next = self.events.next_time();
            let at = match (io, next) {
                (Some(io), Some(next)) => io.min(next),
                (Some(at), None) | (None, Some(at)) => at,
                (None, None) => break,
            };
            if at > self.until {
                self.now = self.until;
                break;
            }
            self.pass_to(at);
            if io == Some(at) {
                self.complete_io(at);
                continue;
            }
            if let Some((at, event)) = self.events.pop() {
                self.handle(at, event)?;
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if let Some(failure) = self.policy.failure() {
                return Err(failure.into());
            }
            if self.strict {
                nr_events += 1;
                if nr_events.is_multiple_of(CHECK_EVERY) {
                    self.check();
                }
            }
        }
        Ok(())
    }

    /// Moves the clock on to the next event.
    fn pass_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.pressure.handle_timeout(self.pressure_now.max(at));
    }

    /// Lets time pass up to `at`, when the only task that ran wants to go on, if only samples of charges are due until then and at that
    /// time. Samples come before the task, which is only woken before them. `false`: another event is due, or may be.
    fn pass_alone_to(&mut self, at: Instant) -> bool {
        let has_failed = self.failure.is_some() || self.policy.failure().is_some();
        if !self.folds_ticks || !self.queue.is_empty() || at > self.until || has_failed {
            return false;
        }
        while self.memory.io.next_completion().is_none_or(|io| io > at) {
            match self.events.next().filter(|(next, _)| *next <= at) {
                None => {
                    self.pass_to(at);
                    return true;
                }
                Some((next, Event::Usage)) => {
                    self.events.pop();
                    self.pass_to(next);
                    self.look_at_charges(next);
                }
                Some(_) => return false,
            }
        }
        false
    }

    /// Puts the first occurrence of everything periodic into the queue.
    fn arm(&mut self) {
        for (index, plan) in self.plans.iter().enumerate() {
            self.events.push(plan.at, Event::Plan(index));
        }
        self.events.push(Instant::START + FLUSHER_PERIOD, Event::Flusher);
        self.events.push(Instant::START + USAGE_PERIOD, Event::Usage);
        if self.config.lazy_statistics {
            self.events.push(Instant::START + STATISTICS_PERIOD, Event::Statistics);
        }
        if self.series_every.is_some() {
            self.events.push(Instant::START, Event::Series);
        }
        self.start_others();
        self.start_daemons(Instant::START);
    }

    /// Nothing runs, and no plan will start anything.
    fn is_over(&self) -> bool {
        self.programs.iter().enumerate().all(|(index, program)| {
            let to_come = self.plans.iter().any(|plan| plan.action == Action::Start(index) && plan.at >= self.now);
            program.ended.is_some() || program.started.is_none() && !to_come
        })
    }

    fn handle(&mut self, at: Instant, event: Event) -> Result<(), SimError> {
        match event {
            Event::Slice(cpu) => return self.run_slice(cpu, at),
            Event::Wake(task, number) => self.wake_numbered(task, number, at),
            Event::Plan(index) => return self.carry_out(index, at),
            Event::Flusher => {
                self.memory.stir();
                self.memory.now = at;
                fault::flush_old(&mut self.memory);
                self.memory.ledger.take(); // the flusher's own CPU time is not modelled
                self.events.push(at + FLUSHER_PERIOD, Event::Flusher);
            }
            Event::Usage => self.look_at_charges(at),
            Event::Statistics => {
                self.flush_statistics();
                self.events.push(at + STATISTICS_PERIOD, Event::Statistics);
            }
            Event::Series => {
                let row = self.series_row(at);
                self.series.push(row);
                let every = self.series_every.expect("armed only with a period");
                self.events.push(at + every, Event::Series);
            }
        }
        Ok(())
    }

    fn look_at_charges(&mut self, at: Instant) {
        if self.programs.iter().any(|program| program.started.is_some() && program.ended.is_none()) {
            let cgroups = &self.memory.cgroups;
            self.usage.look(cgroups.ids().map(|id| cgroups.get(id).usage));
        }
        self.events.push(at + USAGE_PERIOD, Event::Usage);
    }

    /// Counters of groups are added up, whoever plays.
    fn flush_statistics(&mut self) {
        if let lean::LeanRun::Plays(playing) = &mut self.lean {
            playing.flush_statistics();
        } else {
            self.policy.flush_statistics();
        }
    }

    fn complete_io(&mut self, at: Instant) {
        self.memory.stir();
        self.memory.now = at;
        fault::complete_io(&mut self.memory, self.policy.as_mut(), at);
        self.memory.ledger.take(); // interrupt time is not modelled
    }

    fn carry_out(&mut self, index: usize, at: Instant) -> Result<(), SimError> {
        self.memory.stir();
        let plan = self.plans[index].clone();
        if let Some(every) = plan.every {
            self.events.push(at + every, Event::Plan(index));
        }
        match plan.action {
            Action::Start(program) => return self.start_program(program, at),
            Action::Stop(program) => self.stop_program(program, at),
            Action::Set(cgroup, knob, value) => {
                self.memory.cgroups.set(cgroup, knob, value);
                match knob {
                    Knob::Max => self.write(WriterJob::Max { cgroup, retries_left: MAX_RECLAIM_RETRIES }, at),
                    Knob::High => self.write(WriterJob::High { cgroup, retries_left: MAX_RECLAIM_RETRIES }, at),
                    _ => {}
                }
            }
            Action::Reclaim { cgroup, pages, swappiness } => {
                let (reclaim, step) = ProactiveReclaim::start(pages.get());
                self.write(WriterJob::Reclaim { cgroup, reclaim, step, swappiness }, at);
            }
            Action::WriteMglru(..) => self.write(WriterJob::Mglru { plan: index }, at),
            Action::WritePromotion(name, text) => {
                return self.control_daemons((Kind::Promotion, None), &Control::Knob { name, text: &text }, at);
            }
            Action::ReportGoal { monitor, scheme, goal, value } => {
                let control = Control::Goal { scheme, goal, value };
                return self.control_daemons((Kind::Monitor, Some(&monitor)), &control, at);
            }
            Action::Scale { program, scale } => {
                let spaces: Vec<SpaceId> = self.programs[program].spaces.iter().flatten().copied().collect();
                for space in spaces {
                    if !self.memory.space(space).alive {
                        continue;
                    }
                    let control = Control::Scale { space: target_of(space), scale };
                    self.control_daemons((Kind::Promotion, None), &control, at)?;
                }
            }
        }
        Ok(())
    }

    fn series_row(&mut self, at: Instant) -> SeriesRow {
        let memory_some_ns = self.pressure_totals(CgroupId::ROOT).memory_some_ns;
        let cgroups = &self.memory.cgroups;
        SeriesRow {
            at_ns: at.ns(),
            free_pages: self.memory.nodes.iter().map(|(_, node)| node.free()).sum(),
            major_faults: self.memory.counters.get(isotherm_kernel::counters::Counter::PgMajFault),
            usage_pages: cgroups.ids().map(|id| cgroups.get(id).usage).collect(),
            memory_some_ns,
            touches: self.tiering.policy.and_then(|policy| self.touches(policy.memory)),
        }
    }

    /// Aborts with a message: invariants are broken by a bug of ours, never by input.
    fn check(&self) {
        if let Err(what) = self.memory.check().and_then(|()| self.policy.check(&self.memory)) {
            panic!("simulated memory is inconsistent at {}: {what}", self.now);
        }
    }

    fn cpu_ids(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpus.len()).map(CpuId)
    }
}
