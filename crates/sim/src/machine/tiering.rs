//! The scan daemon of `isotherm-core` as kernel threads of the simulated machine, and the results of a policy over tiers.
//!
//! One thread scans and another moves pages, if the mode has them. Spaces come with their processes and go with them, in the middle of a
//! scan too.

use super::daemon::{Ended, Habits, NewDaemon, Recorder, Wakeup, Watches};
use super::{Machine, MachineBuilder, MonitorTarget, Outcome, ProgramId, SimError, Watched};
use crate::host::{MemoryHost, ProbeCounts};
use crate::tiering::{Balancer, MemoryView, Mover, TieringSpec};
use isotherm_core::daemon::{Account, Kind, Report};
use isotherm_core::promotion::{Promotion, PromotionConfig};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::Memory;
use isotherm_kernel::mmu::SpaceId;
use isotherm_units::Instant;
use serde::Serialize;

/// Name of the daemon that a policy runs.
const DAEMON: &str = "tiering";

/// The policy that decides which pages are on fast memory.
#[derive(Default)]
pub(super) struct Tiering {
    pub(super) policy: Option<&'static crate::tiering::TieringPolicy>,
    pub(super) balancer: Option<Balancer>,
    /// Time of threads that answered flushes.
    interrupted_ns: u64,
}

impl Tiering {
    /// The same on a second machine; `None` with a policy.
    pub(super) fn fork(&self) -> Option<Self> {
        let is_alone = self.policy.is_none() && self.balancer.is_none();
        is_alone.then_some(Self { policy: None, balancer: None, interrupted_ns: self.interrupted_ns })
    }

    /// A process has ended.
    pub(super) fn space_ended(&mut self, space: SpaceId) {
        if let Some(balancer) = &mut self.balancer {
            balancer.space_ended(space);
        }
    }

    /// Time of hint faults so far.
    pub(super) fn hint_fault_ns(&self) -> u64 {
        self.balancer.as_ref().map_or(0, |balancer| balancer.fault_ns)
    }

    /// A thread answered flushes for `ns`; of this time, `in_faults_ns` made hint faults longer.
    pub(super) fn interrupted(&mut self, ns: u64, in_faults_ns: u64) {
        self.interrupted_ns += ns;
        if let Some(balancer) = &mut self.balancer {
            balancer.fault_ns += in_faults_ns;
        }
    }
}

/// Work of a policy over tiers, and its costs by thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TieringOutcome {
    pub policy: String,
    /// CPU time of the daemon's scans; of the region monitor and its schemes, where that is the policy.
    pub daemon_scan_ns: u64,
    /// CPU time of the daemon's moves, in any of its threads; schemes' CPU time is in the field above.
    pub daemon_move_ns: u64,
    /// CPU time of scans in threads' own time.
    pub thread_scan_ns: u64,
    /// CPU time of hint faults in threads' own time, including moves and interrupts.
    pub thread_fault_ns: u64,
    /// CPU time that threads lost to flushes requested by others: the share within hint faults is in the field above too.
    pub interrupted_ns: u64,
    pub promoted_pages: u64,
    /// Promoted pages that were not used again before they left the fast tier or the run ended. `None` without ground truth.
    pub promoted_in_vain_pages: Option<u64>,
    /// Pages that reclaim moved to a slower tier.
    pub demoted_pages: u64,
    /// The scan daemon's counts, under the kernel's names where it has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub daemon: Vec<(&'static str, u64)>,
    /// `pgpromote_candidate` and `pgpromote_candidate_nrl`.
    pub candidates: (u64, u64),
    /// Touches of pages of the top tier and of all pages; `None` unless tiers differ in latency or a bound gives the numbers.
    pub touches: Option<(u64, u64)>,
}

impl TieringOutcome {
    /// CPU time of finding and moving pages, by who does it. The time that it costs others by interrupts is not in it.
    pub fn overhead_ns(&self) -> u64 {
        self.daemon_scan_ns + self.daemon_move_ns + self.thread_scan_ns + self.thread_fault_ns
    }
}

impl MachineBuilder {
    /// A program takes memory of this node first, and of the others in its order (`MPOL_PREFERRED`), wherever it runs; its pages may be
    /// moved all the same. Otherwise it takes memory of the node it runs on.
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
    /// An invalid value, or a feature that the policy lacks on this machine.
    pub fn tiering(&mut self, spec: &TieringSpec, seed: u64) -> Result<(), SimError> {
        self.refuse_folios("absent under a policy over tiers: folios of files do not move")?;
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
                let config = config(&self.machine.config);
                let ranges = vec![self.physical_range(config.addr_unit)];
                let watched = Watched { target: MonitorTarget::Physical, ranges };
                self.kdamond(DAEMON, config, seed, vec![watched], Box::new(|_, _| ()))?;
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
        self.add_daemon(NewDaemon {
            kind: Kind::Promotion,
            name: DAEMON.to_owned(),
            daemon: Box::new(promotion),
            recorder: Box::new(ScanRecorder::default()),
            watches: Watches::Spaces,
            habits: Habits { wakeup: Wakeup::Thread, goes_by_steps: true, asks_for_stalls: false },
        });
        Ok(())
    }

    /// Results of the policy, without the counts of its daemon; `None` without a policy.
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
            promoted_in_vain_pages: self
                .memory
                .ground_truth
                .as_ref()
                .map(|ground_truth| ground_truth.promoted_in_vain()),
            touches: self.touches(policy.memory),
            interrupted_ns: self.tiering.interrupted_ns,
            ..TieringOutcome::default()
        };
        if let Some(balancer) = &self.tiering.balancer {
            (outcome.thread_scan_ns, outcome.thread_fault_ns) = (balancer.scan_ns, balancer.fault_ns);
            outcome.candidates = balancer.candidates();
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
                    let of_class =
                        |node: &isotherm_kernel::memory::NodeId| usize::from(classes.of_node(*node)) == class;
                    self.memory.nodes.ids().filter(of_class).all(|node| tiers.is_top(node))
                };
                let fast = (0..classes.len()).filter(|&class| is_fast(class)).map(|class| hits[class]).sum();
                Some((fast, all))
            }
        }
    }
}

/// CPU time of scans and of moves, whichever thread makes them.
#[derive(Default)]
struct ScanRecorder {
    scan_ns: u64,
    move_ns: u64,
}

impl Recorder for ScanRecorder {
    fn note(&mut self, report: Report, ns: u64, _at: Instant, _memory: &Memory) {
        let Report::Promotion(step) = report else { return };
        match step.migration {
            None => self.scan_ns += ns,
            Some(_) => self.move_ns += ns,
        }
    }

    fn finish(self: Box<Self>, ended: Ended, outcome: &mut Outcome) {
        if let (Some(tiering), Account::Promotion(counters)) = (&mut outcome.tiering, ended.daemon.account()) {
            (tiering.daemon_scan_ns, tiering.daemon_move_ns) = (self.scan_ns, self.move_ns);
            tiering.daemon = counters.rows();
        }
    }
}

impl TieringOutcome {
    /// Books the monitor that a policy of regions runs.
    pub(super) fn book_regions(policy: &crate::tiering::TieringPolicy, outcome: &mut Outcome) {
        if let (Some(tiering), Mover::Regions(_)) = (&mut outcome.tiering, policy.mover) {
            let monitor = outcome.monitors.iter().find(|monitor| monitor.name == DAEMON);
            tiering.daemon_scan_ns = monitor.map_or(0, |monitor| monitor.cpu_ns);
        }
    }
}
