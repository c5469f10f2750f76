//! Designs of proactive compaction as daemons of the simulated machine: the part of kcompactd, a driver or a user-space program
//! that decides when, where and how far to compact a node.

use super::daemon::{Ended, Habits, NewDaemon, Recorder, Wakeup, Watches};
use super::{MachineBuilder, MachineConfig, Outcome, SimError};
use isotherm_core::OutOfRange;
use isotherm_core::compaction::{CompactionDaemon, Design, Why, ZoneReport};
use isotherm_core::daemon::{Account, Kind, Report};
use isotherm_core::host::NodeId;
use isotherm_kernel::memory::buddy::{BLOCK_ORDER, MAX_ORDER};
use isotherm_kernel::memory::{Memory, Zone};
use isotherm_units::Instant;
use serde::Serialize;

/// A zone that a daemon has finished with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompactionRun {
    /// End of the run.
    pub at_ns: u64,
    /// Number of the zone in its node.
    pub zone: u8,
    pub why: Why,
    /// External fragmentation for the order in question, percent.
    pub extfrag_before: u32,
    pub extfrag_after: u32,
    pub pages_moved: u64,
    /// Pages scanned as sources.
    pub pages_scanned: u64,
    /// Page blocks that became wholly free.
    pub blocks_freed: u64,
    /// Waits of tasks for pages in flight, as far as they were known by then.
    pub stall_ns: u64,
}

/// Work of a daemon and its costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompactionOutcome {
    pub name: String,
    pub design: &'static str,
    pub node: u32,
    /// CPU time of its thread.
    pub cpu_ns: u64,
    /// How often it was woken.
    pub wakeups: u64,
    /// Delay of its runs after their due time, summed over all wake-ups.
    pub late_ns: u64,
    /// Checks of the node.
    pub checks: u64,
    /// Checks that led to compaction.
    pub starts: u64,
    /// Calls that the machine refused.
    pub refusals: u64,
    pub pages_moved: u64,
    /// Pages scanned as sources.
    pub pages_scanned: u64,
    /// Page blocks that became wholly free.
    pub blocks_freed: u64,
    /// Zones finished with.
    pub runs: Vec<CompactionRun>,
    /// All counts as text, with the reasons that held it back.
    pub words: Vec<String>,
}

impl MachineBuilder {
    /// Adds a daemon that runs `design` on a node, called `name` in results, from the beginning on.
    ///
    /// # Errors
    /// [`SimError::Daemon`]: a value of the design that is invalid, or that this machine cannot meet.
    pub fn compaction(&mut self, name: &str, design: &Design, node: u32) -> Result<(), SimError> {
        let nodes = self.machine.memory.nodes.iter().map(|(_, node)| node.zones.iter().map(Zone::managed).collect());
        let daemon = daemon_on(nodes.collect(), name, design, node)?;
        self.machine.add_daemon(NewDaemon {
            kind: Kind::Compaction,
            name: name.to_owned(),
            daemon: Box::new(daemon),
            recorder: Box::new(CompactionRecorder { design: design.name(), node, runs: Vec::new() }),
            watches: Watches::Machine,
            habits: Habits { wakeup: Wakeup::Program, goes_by_steps: true, asks_for_stalls: true },
        });
        Ok(())
    }
}

impl MachineConfig {
    /// Whether [`MachineBuilder::compaction`] would take the daemon, without a machine: that takes memory in proportion to its own.
    ///
    /// # Errors
    /// Errors of [`MachineBuilder::compaction`], and of an impossible machine.
    pub fn check_compaction(&self, name: &str, design: &Design, node: u32) -> Result<(), SimError> {
        self.validate()?;
        let nodes = self.memory_setup().nodes;
        let zones = nodes.iter().map(|node| node.zones.iter().map(|zone| zone.get()).collect());
        daemon_on(zones.collect(), name, design, node).map(drop)
    }
}

/// The daemon, if it can work on the node of this number. `nodes`: for each node the pages of its zones.
fn daemon_on(nodes: Vec<Vec<u64>>, name: &str, design: &Design, node: u32) -> Result<CompactionDaemon, SimError> {
    let wrong = |source| SimError::of(Kind::Compaction, name, source);
    let Some(zones) = nodes.get(node as usize) else {
        let allowed = match nodes.len() {
            1 => "0, the only one".to_owned(),
            len => format!("0 to {}", len - 1),
        };
        let error = OutOfRange::new("node", node, allowed);
        return Err(wrong(error));
    };
    check(design, zones).map_err(wrong)?;
    CompactionDaemon::start(design, NodeId(node), Instant::START).map_err(wrong)
}

/// A need of a design that a node with zones of these sizes, in pages, cannot meet.
fn check(design: &Design, zones: &[u64]) -> Result<(), OutOfRange> {
    let refuse = |place: &str, got: String, allowed: String| Err(OutOfRange::new(place, got, allowed));
    let huge = zones.iter().sum::<u64>() >> BLOCK_ORDER;
    match design {
        Design::Controller(config) if config.keep > huge => {
            refuse("keep", config.keep.to_string(), format!("up to {huge}, all memory of the node"))
        }
        Design::Explicit(config) if config.order > MAX_ORDER => {
            refuse("order", config.order.to_string(), format!("1 to {MAX_ORDER}, the largest here"))
        }
        Design::Explicit(config) if config.zone.is_some_and(|zone| usize::from(zone) >= zones.len()) => {
            let allowed = match zones.len() {
                1 => "0, the only one of the node".to_owned(),
                len => format!("0 to {}", len - 1),
            };
            refuse("zone", config.zone.unwrap_or(0).to_string(), allowed)
        }
        Design::Rfc(config) => {
            let too_large = |key: &&String| key.parse().is_ok_and(|order: u32| order > MAX_ORDER);
            match config.orders.keys().find(too_large) {
                Some(order) => {
                    refuse("orders", format!("{order:?}"), format!("orders 1 to {MAX_ORDER}, the largest here"))
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

struct CompactionRecorder {
    design: &'static str,
    node: u32,
    runs: Vec<CompactionRun>,
}

impl Recorder for CompactionRecorder {
    fn note(&mut self, report: Report, _ns: u64, at: Instant, _memory: &Memory) {
        let Report::Compaction(activity) = report else { return };
        let Some(ZoneReport { zone, why, extfrag_before, extfrag_after, work }) = activity.report else { return };
        self.runs.push(CompactionRun {
            at_ns: at.ns(),
            zone: zone.zone,
            why,
            extfrag_before,
            extfrag_after,
            pages_moved: work.pages_moved,
            pages_scanned: work.scanned_migrate,
            blocks_freed: work.blocks_freed,
            stall_ns: work.stalls.total.ns(),
        });
    }

    fn finish(self: Box<Self>, ended: Ended, outcome: &mut Outcome) {
        let Account::Compaction(tally) = ended.daemon.account() else { return };
        let sum = |of: fn(&CompactionRun) -> u64| self.runs.iter().map(of).sum();
        outcome.compaction.push(CompactionOutcome {
            name: ended.name,
            design: self.design,
            node: self.node,
            cpu_ns: ended.ledger.cpu_ns,
            wakeups: ended.ledger.wakeups,
            late_ns: ended.ledger.late_ns,
            checks: tally.checks,
            starts: tally.starts,
            refusals: tally.refusals,
            pages_moved: sum(|run| run.pages_moved),
            pages_scanned: sum(|run| run.pages_scanned),
            blocks_freed: sum(|run| run.blocks_freed),
            words: ended.daemon.words(),
            runs: self.runs,
        });
    }
}
