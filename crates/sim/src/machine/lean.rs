//! The common machine on the [lean engine](isotherm_kernel::lean): when, and what becomes of a run that it does not cover.
//!
//! Events, time slices, sleeps, pressure and the accounts of threads stay those of the machine. The engine plays in place of the stretch of a
//! thread: touches, faults and reclaim at the limit. Its charges and counters are the machine's whenever a stretch is over, so that samples
//! and results are taken from there. Memory itself, frames and lists, stays as it was when the run began. So a run that meets
//! something else begins again from that moment, and no result of the first try is seen.

use super::play::Next;
use super::schedule::Verdict;
use super::task::{TaskId, UserTask};
use super::{Action, Machine, MachineConfig, NodeConfig, SimError};
use isotherm_kernel::cgroup::{CgroupId, Cgroups};
use isotherm_kernel::counters::Counters;
use isotherm_kernel::lean::{Clock, Event, Halt, Lean};
use isotherm_kernel::memory::Memory;
use isotherm_kernel::mmu::SpaceId;
use isotherm_kernel::reclaim::{ListSizes, Lru, Work as PolicyWork};
use isotherm_units::access::{After, Process, ThreadStart};
use isotherm_units::{Bytes, Duration, Instant};

/// Whether the engine plays.
pub(super) enum LeanRun {
    /// It is not known yet: the program has not started.
    Undecided,
    /// The full machine plays.
    Never,
    Plays(Box<Playing>),
    /// It met something that it does not cover.
    GaveUp(Box<Start>),
}

/// A run on the engine.
pub(super) struct Playing {
    engine: Box<dyn Lean>,
    group: CgroupId,
    start: Box<Start>,
    /// Empty between calls.
    events: Vec<Event>,
}

/// The machine when the engine began, without memory and policy, which the engine leaves alone.
pub(super) struct Start {
    machine: Machine,
    cgroups: Cgroups,
    counters: Counters,
    work: PolicyWork,
    /// `used` and `running_cpus` of the space.
    space: (SpaceId, u64, u32),
}

impl Playing {
    pub(super) fn flush_statistics(&mut self) {
        self.engine.flush_statistics();
    }
}

impl Start {
    fn fork(&self) -> Option<Self> {
        let Self { cgroups, counters, work, space, .. } = self;
        let machine = self.machine.fork_with(placeholder()?, Box::new(Lru::new()))?;
        Some(Self { machine, cgroups: cgroups.clone(), counters: *counters, work: *work, space: *space })
    }
}

impl LeanRun {
    /// The same for a fork of the machine.
    pub(super) fn fork(&self) -> Option<Self> {
        Some(match self {
            Self::Undecided => Self::Undecided,
            Self::Never => Self::Never,
            Self::Plays(playing) => {
                let Playing { engine, group, start, .. } = playing.as_ref();
                let (engine, start) = (engine.fork(), Box::new(start.fork()?));
                Self::Plays(Box::new(Playing { engine, group: *group, start, events: Vec::new() }))
            }
            Self::GaveUp(start) => Self::GaveUp(Box::new(start.fork()?)),
        })
    }
}

/// Memory of a machine that never runs.
fn placeholder() -> Option<Memory> {
    let nodes = vec![NodeConfig { memory: Bytes::from_mib(4), ..NodeConfig::default() }];
    Memory::assemble(&MachineConfig { nodes, ..MachineConfig::default() }.memory_setup()).ok()
}

impl Machine {
    /// Between two events: decides who plays, once the program is there, and begins again if that was wrong.
    pub(super) fn choose_engine(&mut self) {
        match &self.lean {
            LeanRun::Undecided if self.programs.iter().any(|program| program.started.is_some()) => {
                self.lean = self.play_lean().map_or(LeanRun::Never, |playing| LeanRun::Plays(Box::new(playing)));
            }
            LeanRun::GaveUp(_) => self.begin_again(),
            _ => {}
        }
    }

    /// The engine, if this machine is one that it covers, and its run can begin again.
    fn play_lean(&self) -> Option<Playing> {
        let kind = self.policy.lean().filter(|_| self.is_common())?;
        let space = self.programs[0].spaces[0]?;
        let engine = isotherm_kernel::lean::new(kind, &self.memory, space)?;
        let owner = self.memory.space(space);
        let start = Start {
            machine: self.fork_with(placeholder()?, Box::new(Lru::new()))?,
            cgroups: self.memory.cgroups.clone(),
            counters: self.memory.counters,
            work: self.memory.reclaim.work,
            space: (space, owner.used, owner.running_cpus),
        };
        Some(Playing { engine, group: owner.cgroup, start: Box::new(start), events: Vec::new() })
    }

    /// One program of one thread, and nothing that reads memory or changes it. What the engine asks of memory, it asks itself.
    fn is_common(&self) -> bool {
        let [state] = self.programs.as_slice() else { return false };
        let program = &state.program;
        let [Process { forked_from: None, .. }] = program.processes.as_slice() else { return false };
        let is_single = program.threads.len() == 1 && program.threads[0].start == ThreadStart::WithProgram;
        let starts_only = self.plans.iter().all(|plan| plan.action == Action::Start(0) && plan.every.is_none());
        let is_bound = state.bound.is_some() || state.home.is_some() || state.premapped;
        let is_watched = !self.daemons.is_empty() || self.series_every.is_some() || self.wants_residency || self.strict;
        let tiering = &self.tiering;
        let config = &self.config;
        is_single
            && program.files.is_empty()
            && starts_only
            && !is_bound
            && !is_watched
            && tiering.balancer.is_none()
            && tiering.policy.is_none()
            && self.memory.ground_truth.is_none()
            && self.memory.migration.is_empty()
            && self.caches.is_empty()
            && self.access.is_steady()
            && self.memory.mmu.leaf_accessed
            && config.compaction == MachineConfig::default().compaction
            && !config.lru_batches
            && config.file_system.is_none()
            && self.failure.is_none()
    }

    /// Sizes of the lists of a group whose pages the engine has.
    pub(super) fn lean_sizes(&self, cgroup: CgroupId) -> Option<ListSizes> {
        match &self.lean {
            LeanRun::Plays(playing) if playing.group == cgroup => Some(playing.engine.sizes()),
            _ => None,
        }
    }

    /// The full machine plays the run, from where the engine began.
    fn begin_again(&mut self) {
        let LeanRun::GaveUp(start) = std::mem::replace(&mut self.lean, LeanRun::Never) else { return };
        let Start { machine, mut cgroups, counters, work, space: (space, used, running_cpus) } = *start;
        // Limits may have been set as if they had been so from the beginning.
        for id in cgroups.ids() {
            cgroups.get_mut(id).max = self.memory.cgroups.get(id).max;
        }
        let before = std::mem::replace(self, machine);
        (self.memory, self.policy, self.lean) = (before.memory, before.policy, LeanRun::Never);
        let memory = &mut self.memory;
        (memory.cgroups, memory.counters, memory.reclaim.work) = (cgroups, counters, work);
        (memory.now, memory.running) = (self.now, None);
        let space = memory.space_mut(space);
        (space.used, space.running_cpus) = (used, running_cpus);
    }

    /// The engine does not cover what comes next.
    fn give_up(&mut self, now: Instant) -> (Instant, Verdict) {
        if let LeanRun::Plays(playing) = std::mem::replace(&mut self.lean, LeanRun::Never) {
            self.lean = LeanRun::GaveUp(playing.start);
        }
        (now, Verdict::Preempted)
    }

    /// Runs the thread on the engine, as `run_stretch` does on the full machine.
    pub(super) fn run_lean(
        &mut self,
        id: TaskId,
        user: &mut UserTask,
        start: Instant,
        horizon: Instant,
    ) -> Result<(Instant, Verdict), SimError> {
        let LeanRun::Plays(mut playing) = std::mem::replace(&mut self.lean, LeanRun::Never) else {
            return Ok(self.give_up(start));
        };
        playing.engine.enter(&self.memory);
        let stretch = self.run_on(&mut playing, id, user, start, horizon);
        playing.engine.settle(&mut self.memory);
        let program = &mut self.programs[user.program];
        program.peak_resident = program.peak_resident.max(playing.engine.peak_resident());
        self.lean = LeanRun::Plays(playing);
        match stretch? {
            Some(stretch) => Ok(stretch),
            None => Ok(self.give_up(start)),
        }
    }

    /// `None`: the engine gives up.
    fn run_on(
        &mut self,
        playing: &mut Playing,
        id: TaskId,
        user: &mut UserTask,
        start: Instant,
        horizon: Instant,
    ) -> Result<Option<(Instant, Verdict)>, SimError> {
        let Playing { engine, events, .. } = playing;
        let page_ns = self.pace(user.program, start, horizon).page_ns;
        let mut now = start;
        loop {
            if self.tasks[id.0].dying {
                return Ok(None);
            }
            if now >= horizon {
                return Ok(Some((now, Verdict::Preempted)));
            }
            if user.compute_left_ns > 0 {
                let ns = user.compute_left_ns.min(horizon.since(now).ns());
                user.compute_left_ns -= ns;
                user.time.compute_ns += ns;
                now += Duration::from_ns(ns);
                continue;
            }
            let mut clock = Clock { now_ns: now.ns(), until_ns: horizon.ns(), page_ns, fault_ns: 0, reclaim_ns: 0 };
            let halt = engine.play(&user.batch.runs, &mut user.cursor, &mut clock, events);
            user.time.compute_ns += clock.now_ns - now.ns() - clock.fault_ns - clock.reclaim_ns;
            user.time.fault_cpu_ns += clock.fault_ns;
            user.time.reclaim_cpu_ns += clock.reclaim_ns;
            self.kernel.direct_ns += clock.reclaim_ns;
            now = Instant::from_ns(clock.now_ns);
            for event in events.drain(..) {
                match event {
                    Event::Short(at_ns) => self.set_stall(id, true, Instant::from_ns(at_ns)),
                    Event::Reclaimed(ns) => self.reclaim_latencies_ns.push(ns),
                    Event::Served(at_ns) => self.set_stall(id, false, Instant::from_ns(at_ns)),
                }
            }
            match halt {
                Halt::TimeUp => {}
                Halt::GivesUp => return Ok(None),
                Halt::Done if matches!(user.after, After::Change(_) | After::Kernel(_) | After::Start(_)) => {
                    return Ok(None);
                }
                Halt::Done => {
                    if let Next::Leave(verdict) = self.batch_done(id, user, &mut now)? {
                        if verdict == Verdict::End {
                            engine.exit();
                        }
                        return Ok(Some((now, verdict)));
                    }
                }
            }
        }
    }
}
