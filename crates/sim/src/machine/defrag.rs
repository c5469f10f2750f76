//! Designs of proactive compaction as daemons of the simulated machine: what of kcompactd, a driver or a program of user space
//! decides when, where and how far to compact a node.
//!
//! A daemon sleeps until its design wants to run, waits for a processor like any other task, and pays for being switched to and
//! for what it asks of the machine. A step of its work is done at the beginning of a stretch; its time passes afterwards.

use super::schedule::Verdict;
use super::task::{Blocked, KernelTask, TaskId, Work};
use super::{Machine, MachineBuilder, SimError};
use crate::cgroup::CgroupId;
use crate::host::{MemoryHost, ProbeCounts};
use crate::memory::Node;
use crate::memory::buddy::{BLOCK_ORDER, MAX_ORDER};
use crate::migrate::Mover;
use isotherm_core::defrag::{
    Activity, Budget, DefragError, Defragmenter, Design, Hold, Verdict as Decided, Why, ZoneReport,
};
use isotherm_core::host::{Compacted, NodeId};
use isotherm_units::{Duration, Instant};
use serde::Serialize;
use std::collections::BTreeMap;

/// A zone that a daemon has finished with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefragRun {
    /// When it was over.
    pub at_ns: u64,
    /// Number of the zone in its node.
    pub zone: u8,
    /// Why.
    pub why: Why,
    /// External fragmentation for the order in question, percent.
    pub extfrag_before: u32,
    /// And after.
    pub extfrag_after: u32,
    /// Pages moved.
    pub pages_moved: u64,
    /// Pages looked at as sources.
    pub pages_scanned: u64,
    /// Page blocks that became wholly free.
    pub blocks_freed: u64,
    /// Waits of tasks for pages on their way, as far as they were known by then.
    pub stall_ns: u64,
}

/// What a daemon did and what it cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefragOutcome {
    /// Its name.
    pub name: String,
    /// Its design.
    pub design: &'static str,
    /// The node.
    pub node: u32,
    /// CPU time of its thread.
    pub cpu_ns: u64,
    /// How often it was woken.
    pub wakeups: u64,
    /// How much later than it wanted it ran, all wake-ups together.
    pub late_ns: u64,
    /// Looks at the node.
    pub looks: u64,
    /// Looks that led to compaction.
    pub starts: u64,
    /// Calls that the machine refused.
    pub refusals: u64,
    /// Pages moved.
    pub pages_moved: u64,
    /// Of these, out of blocks that stayed in use.
    pub pages_in_vain: u64,
    /// Pages looked at as sources.
    pub pages_scanned: u64,
    /// Page blocks that became wholly free.
    pub blocks_freed: u64,
    /// Zones finished with.
    pub runs: Vec<DefragRun>,
    /// All that in words, with what held it back.
    pub words: Vec<String>,
}

/// A daemon in its machine.
pub(super) struct Compactor {
    design: Design,
    running: Box<dyn Defragmenter + Send>,
    task: TaskId,
    holds: BTreeMap<&'static str, u64>,
    refused: Option<String>,
    outcome: DefragOutcome,
}

impl MachineBuilder {
    /// Adds a daemon that runs `design` on a node, called `name` in results, from the beginning on.
    ///
    /// # Errors
    /// [`SimError::Defrag`]: a value of the design that makes no sense, or that this machine cannot meet.
    pub fn defrag(&mut self, name: &str, design: &Design, node: u32) -> Result<(), SimError> {
        let wrong = |source| SimError::Defrag { name: name.to_owned(), source: Box::new(source) };
        let nodes = &self.machine.memory.nodes;
        let Some((_, on)) = nodes.iter().nth(node as usize) else {
            let allowed = match nodes.len() {
                1 => "0, the only one".to_owned(),
                len => format!("0 to {}", len - 1),
            };
            let error = DefragError::OutOfRange { place: "node".to_owned(), got: node.to_string(), allowed };
            return Err(wrong(error));
        };
        check(design, on).map_err(wrong)?;
        let running = design.start(NodeId(node), Instant::START).map_err(wrong)?;
        let index = self.machine.compactors.len();
        let task = self.machine.add_task(
            Work::Kernel(Box::new(KernelTask::Defrag { index, is_fresh: true })),
            CgroupId::ROOT,
            None,
        );
        let outcome = DefragOutcome {
            name: name.to_owned(),
            design: design.name(),
            node,
            cpu_ns: 0,
            wakeups: 0,
            late_ns: 0,
            looks: 0,
            starts: 0,
            refusals: 0,
            pages_moved: 0,
            pages_in_vain: 0,
            pages_scanned: 0,
            blocks_freed: 0,
            runs: Vec::new(),
            words: Vec::new(),
        };
        let design = design.clone();
        self.machine.compactors.push(Compactor {
            design,
            running,
            task,
            holds: BTreeMap::new(),
            refused: None,
            outcome,
        });
        Ok(())
    }
}

/// What a design asks for and a node cannot give.
fn check(design: &Design, node: &Node) -> Result<(), DefragError> {
    let refuse = |place: &str, got: String, allowed: String| {
        Err(DefragError::OutOfRange { place: place.to_owned(), got, allowed })
    };
    let huge = node.managed() >> BLOCK_ORDER;
    match design {
        Design::Controller(config) if config.keep > huge => {
            refuse("keep", config.keep.to_string(), format!("up to {huge}, all memory of the node"))
        }
        Design::Heat(config) if config.keep > huge => {
            refuse("keep", config.keep.to_string(), format!("up to {huge}, all memory of the node"))
        }
        Design::Explicit(config) if config.order > MAX_ORDER => {
            refuse("order", config.order.to_string(), format!("1 to {MAX_ORDER}, the largest here"))
        }
        Design::Explicit(config) if config.zone.is_some_and(|zone| usize::from(zone) >= node.zones.len()) => {
            let allowed = match node.zones.len() {
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

impl Compactor {
    /// What it did, when the run is over.
    pub(super) fn into_outcome(self) -> DefragOutcome {
        let words = self.words();
        DefragOutcome { words, ..self.outcome }
    }

    fn note(&mut self, activity: Activity, now: Instant) {
        let outcome = &mut self.outcome;
        if let Some(decision) = activity.decision {
            outcome.looks += 1;
            match decision.verdict {
                Decided::Start(_) => outcome.starts += 1,
                Decided::Hold(hold) => *self.holds.entry(reason(hold)).or_default() += 1,
            }
        }
        if let Some(ZoneReport { zone, why, extfrag_before, extfrag_after, work }) = activity.report {
            let Compacted { pages_moved, pages_in_vain, scanned_migrate, blocks_freed, stalls, .. } = work;
            outcome.pages_moved += pages_moved;
            outcome.pages_in_vain += pages_in_vain;
            outcome.pages_scanned += scanned_migrate;
            outcome.blocks_freed += blocks_freed;
            outcome.runs.push(DefragRun {
                at_ns: now.ns(),
                zone: zone.zone,
                why,
                extfrag_before,
                extfrag_after,
                pages_moved,
                pages_scanned: scanned_migrate,
                blocks_freed,
                stall_ns: stalls.total.ns(),
            });
        }
    }

    fn words(&self) -> Vec<String> {
        let DefragOutcome { looks, starts, .. } = self.outcome;
        let mut words = vec![format!("looked {looks} times, started {starts} times")];
        if let Some(limit) = self.empty_budget() {
            words.push(format!("its budget of {limit} is 0: nothing is done"));
        }
        if let Design::Merged(config) = &self.design
            && config.proactiveness.marks(config.leeway).high >= 100
        {
            let proactiveness = u32::from(config.proactiveness);
            words.push(format!("its proactiveness of {proactiveness} never starts it: no score is above 100 percent"));
        }
        if let Design::Rfc(config) = &self.design {
            words.extend(config.idle_orders().into_iter().map(|(order, larger)| {
                format!("the mark of order {order} never decides: that of order {larger} is as low, and comes first")
            }));
        }
        words.extend(self.holds.iter().map(|(reason, times)| format!("held still {times} times: {reason}")));
        let mut ends: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for run in &self.outcome.runs {
            let (times, freed) = ends.entry(end(run.why)).or_default();
            *times += 1;
            *freed += run.blocks_freed;
        }
        words.extend(
            ends.iter().map(|(why, (times, freed))| format!("ended {times} times with {freed} blocks freed: {why}")),
        );
        if let Some(refused) = &self.refused {
            words.push(format!("refused {} times, the last time: {refused}", self.outcome.refusals));
        }
        words
    }

    /// The limit of its budget that lets it do nothing at all.
    fn empty_budget(&self) -> Option<&'static str> {
        let budget: &Budget = match &self.design {
            Design::Explicit(config) => &config.budget,
            Design::Controller(config) => &config.budget,
            // A heat budget of no waits moves what nobody uses.
            Design::Heat(config) => &Budget { stall: None, ..config.budget },
            Design::Rfc(_) | Design::Merged(_) => return None,
        };
        let zero = Some(Duration::ZERO);
        let limits = [
            ("pages", budget.pages == Some(0)),
            ("CPU time", budget.cpu == zero),
            ("waits", budget.stall == zero),
            ("time", budget.wall == zero),
            ("pages looked at in vain", budget.fruitless_pages == Some(0)),
        ];
        limits.into_iter().find(|&(_, is_empty)| is_empty).map(|(limit, _)| limit)
    }
}

const fn reason(hold: Hold) -> &'static str {
    match hold {
        Hold::Enough => "not fragmented enough, or enough blocks free",
        Hold::Deferred => "earlier attempts failed",
        Hold::Reclaiming => "kswapd was at work",
        Hold::Busy => "tasks waited for processors",
        Hold::BackingOff => "the last attempt gained too little",
        Hold::NoYield => "no block was predicted to become free",
        Hold::YieldUnknown => "nothing to predict a yield from",
        Hold::HeatUnknown => "nobody tells what page blocks hold",
    }
}

fn end(why: Why) -> String {
    match why {
        Why::AlreadyBelowHigh => "not fragmented enough to begin".to_owned(),
        Why::ReachedLow => "the goal was reached".to_owned(),
        Why::ScannersMet => "all of the zone was gone through".to_owned(),
        Why::NoTargets => "too little is free to move pages into".to_owned(),
        Why::Budget(limit) => format!("a limit of its budget was reached ({limit:?})").to_lowercase(),
        Why::NoProgress => "too much was looked at in vain".to_owned(),
        Why::ReclaimRunning => "kswapd was at work".to_owned(),
        Why::Cancelled => "it was called off".to_owned(),
        Why::HeatBlocked => "what is left is in use".to_owned(),
        Why::Contended => "locks were not to be had".to_owned(),
        Why::Deferred => "earlier attempts failed".to_owned(),
    }
}

impl Machine {
    pub(super) fn start_compactors(&mut self, now: Instant) {
        for index in 0..self.compactors.len() {
            self.wake(self.compactors[index].task, now);
        }
    }

    /// One call of a design.
    pub(super) fn defrag_step(&mut self, index: usize, now: &mut Instant, is_fresh: &mut bool) -> Option<Verdict> {
        let Some(due) = self.compactors[index].running.poll_timeout() else { return Some(Verdict::Park) };
        if due > *now {
            *is_fresh = true;
            return Some(Verdict::Block(due, Blocked::Sleep));
        }
        if std::mem::take(is_fresh) {
            self.memory.ledger.spend(self.memory.costs.context_switch_ns);
            let outcome = &mut self.compactors[index].outcome;
            outcome.wakeups += 1;
            outcome.late_ns += now.since(due).ns();
        }
        let compactor = &mut self.compactors[index];
        let mut counts = ProbeCounts::default();
        self.memory.migration.mover = Mover::Daemon(u32::try_from(index).expect("a few daemons"));
        let mut host =
            MemoryHost::new(&mut self.memory, self.policy.as_mut(), &self.pressure, &mut [], &[], &mut counts);
        match compactor.running.handle_timeout(*now, &mut host) {
            Ok(activity) => compactor.note(activity, *now),
            Err(refusal) => {
                compactor.outcome.refusals += 1;
                compactor.refused = Some(refusal.to_string());
            }
        }
        self.memory.migration.mover = Mover::Anybody;
        let ns = self.memory.ledger.take();
        self.compactors[index].outcome.cpu_ns += ns;
        *now += Duration::from_ns(ns);
        None
    }
}
