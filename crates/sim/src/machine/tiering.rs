//! The scan daemon of `isotherm-core` as kernel threads of the simulated machine, and what came of a policy over tiers.
//!
//! One thread scans, another moves pages, as far as the mode has one. Each sleeps until it is due, waits for a processor like any
//! other task (idle ones first) and pays for what it asks of the host. All that is done in one step is done at its beginning; its
//! time passes afterwards. Spaces come with their processes and go with them, in the middle of a scan too.

use super::schedule::Verdict;
use super::task::{Blocked, KernelTask, RunState, TaskId, Work};
use super::{Machine, MachineBuilder, MonitorTarget, ProgramId, SimError, Watched};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::host::{HostTarget, MemoryHost, ProbeCounts};
use crate::mmu::SpaceId;
use crate::tiering::{Balancer, MemoryView, Mover, TieringSpec};
use isotherm_core::host::TargetId;
use isotherm_core::promotion::{Promotion, PromotionConfig, Thread};
use isotherm_units::{Duration, Instant};
use serde::Serialize;

/// Name of the monitor that a policy of regions runs.
const MONITOR: &str = "tiering";

/// Who decides what is on fast memory.
#[derive(Default)]
pub(super) struct Tiering {
    pub(super) policy: Option<&'static crate::tiering::TieringPolicy>,
    daemon: Option<Daemon>,
    pub(super) balancer: Option<Balancer>,
    /// Of threads that answered flushes.
    interrupted_ns: u64,
}

impl Tiering {
    /// Time of hint faults so far.
    pub(super) fn hint_fault_ns(&self) -> u64 {
        self.balancer.as_ref().map_or(0, |balancer| balancer.fault_ns)
    }

    /// A thread answered flushes for so long, of which a part made hint faults longer.
    pub(super) fn interrupted(&mut self, ns: u64, in_faults_ns: u64) {
        self.interrupted_ns += ns;
        if let Some(balancer) = &mut self.balancer {
            balancer.fault_ns += in_faults_ns;
        }
    }
}

struct Daemon {
    promotion: Promotion,
    /// Of the scanning and of the moving thread.
    tasks: [TaskId; 2],
    /// Of scans and of moves, whichever thread makes them.
    cpu_ns: [u64; 2],
    /// It slept, and pays for waking up.
    has_slept: [bool; 2],
    /// Until when it sleeps.
    sleeps_until: [Instant; 2],
    counts: ProbeCounts,
}

/// What a policy over tiers did, and what it cost whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TieringOutcome {
    /// Its name.
    pub policy: String,
    /// CPU time of the daemon's scans; of the region monitor and its schemes, where that is the policy.
    pub daemon_scan_ns: u64,
    /// CPU time of the daemon's moves, whichever of its threads makes them; of schemes, in the above.
    pub daemon_move_ns: u64,
    /// CPU time of scans in threads' own time.
    pub thread_scan_ns: u64,
    /// CPU time of hint faults in threads' own time, moves included, and what interrupted them.
    pub thread_fault_ns: u64,
    /// CPU time that threads lost to flushes which others asked for: their share within hint faults is in the above too.
    pub interrupted_ns: u64,
    /// Pages promoted.
    pub promoted_pages: u64,
    /// Of them, not used again before they left the fast tier or the run ended. `None` without a witness.
    pub promoted_in_vain_pages: Option<u64>,
    /// Pages that reclaim moved to a slower tier.
    pub demoted_pages: u64,
    /// The scan daemon's counts, under the kernel's names where it has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub daemon: Vec<(&'static str, u64)>,
    /// `pgpromote_candidate` and `pgpromote_candidate_nrl`.
    pub candidates: (u64, u64),
    /// Touches of pages of the top tier and of all, where tiers differ in latency or a bound says what they are.
    pub touches: Option<(u64, u64)>,
}

impl TieringOutcome {
    /// CPU time of finding and moving pages, by who does it. What that takes from others as it interrupts them is not in it.
    pub fn overhead_ns(&self) -> u64 {
        self.daemon_scan_ns + self.daemon_move_ns + self.thread_scan_ns + self.thread_fault_ns
    }
}

impl MachineBuilder {
    /// A program takes memory of this node first, and of the others in its order (`MPOL_PREFERRED`), wherever it runs; its
    /// pages may be moved all the same. Without this it takes memory of the node it runs on.
    ///
    /// # Errors
    /// A node that the machine has not.
    pub fn take_memory_of(&mut self, program: ProgramId, node: usize) -> Result<(), SimError> {
        let nodes = self.machine.memory.nodes.len();
        let found = self.machine.memory.nodes.ids().nth(node).ok_or(SimError::NoSuchNode { node, nodes })?;
        self.machine.programs[program.0].home = Some(found);
        Ok(())
    }

    /// Runs a policy over the machine's tiers. The machine was described as it is
    /// [under the policy](crate::tiering::TieringPolicy::applied_to), and all programs were added.
    ///
    /// # Errors
    /// A value that makes no sense, or what the policy lacks on this machine.
    pub fn tiering(&mut self, spec: &TieringSpec, seed: u64) -> Result<(), SimError> {
        let policy = spec.check(&self.machine.config).map_err(SimError::Tiering)?;
        self.machine.tiering.policy = Some(policy);
        match policy.mover {
            Mover::Nobody => {}
            Mover::Scan(mode) => self.machine.add_scan_daemon(spec.promotion_config(mode), seed)?,
            Mover::HintFaults(mode) => {
                let machine = &mut self.machine;
                let config = spec.balancing.unwrap_or_default();
                let tick = machine.config.tick_rate().tick();
                machine.tiering.balancer = Some(Balancer::new(mode, &config, &machine.memory, tick));
            }
            Mover::Regions(config) => {
                let watched = Watched { target: MonitorTarget::Physical, ranges: vec![self.physical_range()] };
                let config = config(&self.machine.config);
                self.kdamond(MONITOR, config, seed, vec![watched], Box::new(|_, _| ()))?;
            }
        }
        Ok(())
    }
}

impl Machine {
    fn add_scan_daemon(&mut self, config: PromotionConfig, seed: u64) -> Result<(), SimError> {
        let mut counts = ProbeCounts::default();
        let host =
            MemoryHost::new(&mut self.memory, self.policy.as_mut(), &self.pressure, &mut self.caches, &[], &mut counts);
        let promotion = Promotion::new(config, seed, &host).map_err(|source| SimError::Promotion(Box::new(source)))?;
        let mut task = |thread| {
            let work = Work::Kernel(Box::new(KernelTask::Promotion { thread }));
            self.add_task(work, CgroupId::ROOT, None)
        };
        let tasks = [task(Thread::Scan), task(Thread::Migrate)];
        self.tiering.daemon = Some(Daemon {
            promotion,
            tasks,
            cpu_ns: [0; 2],
            has_slept: [true; 2],
            sleeps_until: [Instant::NEVER; 2],
            counts,
        });
        Ok(())
    }

    /// A process has begun.
    pub(super) fn tell_tiering_of(&mut self, space: SpaceId, parent: Option<SpaceId>, now: Instant) {
        let Some(daemon) = &mut self.tiering.daemon else { return };
        let entered = daemon.promotion.enter(target_of(space), parent.map(target_of), now);
        debug_assert!(entered.is_ok(), "each space comes once");
        self.wake_daemon(now);
    }

    /// A process has ended.
    pub(super) fn tell_tiering_end_of(&mut self, space: SpaceId) {
        if let Some(daemon) = &mut self.tiering.daemon {
            daemon.promotion.exit(target_of(space));
        }
        if let Some(balancer) = &mut self.tiering.balancer {
            balancer.space_ended(space);
        }
    }

    /// Wakes the daemon's threads that had nothing to do and are wanted now, and those that are wanted sooner than they meant to sleep.
    fn wake_daemon(&mut self, now: Instant) {
        let Some(daemon) = &self.tiering.daemon else { return };
        let due = [Thread::Scan, Thread::Migrate].map(|thread| daemon.promotion.poll_timeout(thread));
        let sleepers = daemon.tasks.into_iter().zip(daemon.sleeps_until);
        let wanted = due.into_iter().zip(sleepers).filter_map(|(due, sleeper)| Some((due?, sleeper)));
        for (due, (task, until)) in wanted.collect::<Vec<_>>() {
            let is_late = matches!(self.tasks[task.0].state, RunState::Blocked(_, Blocked::Sleep)) && due < until;
            if is_late || self.tasks[task.0].state == RunState::Parked {
                self.wake(task, now);
            }
        }
    }

    /// One piece of work of a thread of the daemon.
    pub(super) fn promotion_step(&mut self, thread: Thread, now: &mut Instant) -> Option<Verdict> {
        let daemon = self.tiering.daemon.as_mut()?;
        let index = usize::from(thread == Thread::Migrate);
        let Some(due) = daemon.promotion.poll_timeout(thread) else {
            daemon.has_slept[index] = true;
            return Some(Verdict::Park);
        };
        if due > *now {
            daemon.has_slept[index] = true;
            daemon.sleeps_until[index] = due;
            return Some(Verdict::Block(due, Blocked::Sleep));
        }
        if std::mem::take(&mut daemon.has_slept[index]) {
            self.memory.ledger.spend(self.memory.costs.monitor_wakeup_ns);
        }
        let spaces = u16::try_from(self.memory.spaces.len()).expect("at most 65535 spaces");
        let targets: Vec<HostTarget> = (0..spaces).map(|space| HostTarget::Space(SpaceId(space))).collect();
        for space in daemon.promotion.spaces().collect::<Vec<_>>() {
            let space = space_of(space);
            let stale = self.memory.space_mut(space).table.take_stale();
            super::mmu::drop_stale(&mut self.caches, space, stale);
        }
        let mut host = MemoryHost::new(
            &mut self.memory,
            self.policy.as_mut(),
            &self.pressure,
            &mut self.caches,
            &targets,
            &mut daemon.counts,
        );
        let step = daemon.promotion.handle_timeout(thread, *now, &mut host);
        let ns = self.memory.ledger.take();
        daemon.cpu_ns[usize::from(step.migration.is_some())] += ns;
        *now += Duration::from_ns(ns);
        self.wake_daemon(*now);
        None
    }

    /// What the policy did; `None` without one.
    pub(super) fn tiering_outcome(&self) -> Option<TieringOutcome> {
        let policy = self.tiering.policy?;
        let count = |name| Counter::from_name(name).map_or(0, |counter| self.memory.counters.get(counter));
        let mut outcome = TieringOutcome {
            policy: policy.name.to_owned(),
            promoted_pages: count("pgpromote_success"),
            demoted_pages: ["pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "pgdemote_proactive"]
                .map(count)
                .iter()
                .sum(),
            promoted_in_vain_pages: self.memory.witness.as_ref().map(|witness| witness.promoted_in_vain()),
            touches: self.touches(policy.memory),
            interrupted_ns: self.tiering.interrupted_ns,
            ..TieringOutcome::default()
        };
        if let Some(daemon) = &self.tiering.daemon {
            [outcome.daemon_scan_ns, outcome.daemon_move_ns] = daemon.cpu_ns;
            outcome.daemon = daemon.promotion.counters().rows();
        }
        if let Some(balancer) = &self.tiering.balancer {
            (outcome.thread_scan_ns, outcome.thread_fault_ns) = (balancer.scan_ns, balancer.fault_ns);
            outcome.candidates = balancer.candidates();
        }
        if matches!(policy.mover, Mover::Regions(_)) {
            let monitor = self.monitors.iter().find(|monitor| monitor.outcome.name == MONITOR);
            outcome.daemon_scan_ns = monitor.map_or(0, |monitor| monitor.outcome.cpu_ns);
        }
        Some(outcome)
    }

    /// Touches of the top tier, and all.
    pub(super) fn touches(&self, view: MemoryView) -> Option<(u64, u64)> {
        let hits = &self.access.hits;
        let all = hits.iter().sum();
        match view {
            MemoryView::AllFast => Some((1, 1)),
            MemoryView::AllSlow => Some((0, 1)),
            MemoryView::AsItIs => {
                let classes = self.memory.nodes.classes()?;
                let tiers = &self.memory.tiers;
                let is_fast = |class: usize| {
                    let of_class = |node: &crate::memory::NodeId| usize::from(classes.of_node(*node)) == class;
                    self.memory.nodes.ids().filter(of_class).all(|node| tiers.is_top(node))
                };
                let fast = (0..classes.len()).filter(|&class| is_fast(class)).map(|class| hits[class]).sum();
                Some((fast, all))
            }
        }
    }
}

fn target_of(space: SpaceId) -> TargetId {
    TargetId(u32::from(space.0))
}

fn space_of(target: TargetId) -> SpaceId {
    SpaceId(u16::try_from(target.0).expect("made from a space"))
}
