//! Compaction of some zones of a node one after the other, in steps, within a budget: the common part of all designs after
//! their decision.

use crate::host::{CompactEnd, CompactMode, CompactStep, Compacted, Stop, ZoneId};
use crate::host::{Compacting, HostError};
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Pages scanned in one step: 8 page blocks of 512. Between steps budgets are checked and other daemons have their turn.
const STEP_PAGES: u64 = 4096;

/// Limits of the cost of a compaction. `None`: no limit. Zero: nothing is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Budget {
    /// Pages moved. Exceeded by one batch at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// CPU time. Exceeded by one step at most, like those below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Duration>,
    /// Waits of tasks for pages on their way, all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Duration>,
    /// Elapsed time since the compaction started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<Duration>,
    /// Pages scanned without a block becoming free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fruitless_pages: Option<u64>,
}

/// The limit of a [`Budget`] that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetLimit {
    /// [`Budget::pages`].
    Pages,
    /// [`Budget::cpu`].
    Cpu,
    /// [`Budget::stall`].
    Stall,
    /// [`Budget::wall`].
    Wall,
}

/// Why compaction of a zone ended, or did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// extfrag was not above the high mark: nothing was done.
    AlreadyBelowHigh,
    /// extfrag has come down to the low mark, or as many blocks are free as were wanted.
    ReachedLow,
    /// The scanners met: the whole zone was scanned.
    ScannersMet,
    /// Too little is free to move pages into.
    NoTargets,
    /// This limit of the [`Budget`] was reached.
    Budget(BudgetLimit),
    /// Too many pages were scanned without a block becoming free.
    NoProgress,
    /// kswapd is at work; both at once would work against each other.
    ReclaimRunning,
    /// The caller cancelled it.
    Cancelled,
    /// Locks were held by others.
    Contended,
    /// Earlier attempts failed, and this one was skipped.
    Deferred,
}

impl From<CompactEnd> for Why {
    fn from(end: CompactEnd) -> Self {
        match end {
            CompactEnd::Reached => Self::ReachedLow,
            CompactEnd::ScannersMet => Self::ScannersMet,
            CompactEnd::NoTargets => Self::NoTargets,
            CompactEnd::Reclaiming => Self::ReclaimRunning,
            CompactEnd::Contended => Self::Contended,
        }
    }
}

/// How the compaction of one zone ended, and its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    pub zone: ZoneId,
    /// Why the compaction ended, or did not begin.
    pub why: Why,
    /// extfrag of the order in question before, percent.
    pub extfrag_before: u32,
    pub extfrag_after: u32,
    /// Work in this zone, all steps together.
    pub work: Compacted,
}

/// A zone to compact, and how far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) zone: ZoneId,
    pub(super) stop: Stop,
    /// For reports alone.
    pub(super) order: u32,
}

/// Mode of the compaction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    pub(super) mode: CompactMode,
    pub(super) counts_in_flight: bool,
    pub(super) stops_for_reclaim: bool,
    pub(super) budget: Budget,
}

#[derive(Debug)]
pub(super) struct Run {
    manner: Manner,
    started: Instant,
    waiting: VecDeque<Task>,
    current: Option<Current>,
    /// Work in all zones, which counts against the budget.
    total: Compacted,
    is_cancelled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    task: Task,
    work: Compacted,
    extfrag_before: u32,
    fruitless_pages: u64,
}

impl Run {
    pub(super) fn new(tasks: impl IntoIterator<Item = Task>, manner: Manner, now: Instant) -> Self {
        let waiting = tasks.into_iter().collect();
        Self { manner, started: now, waiting, current: None, total: Compacted::default(), is_cancelled: false }
    }

    /// Ends it at the next step, with reports of all zones.
    pub(super) const fn cancel(&mut self) {
        self.is_cancelled = true;
    }

    /// Changes how far the zones are compacted that are not finished yet.
    pub(super) fn set_stop(&mut self, stop: Stop) {
        for task in self.waiting.iter_mut().chain(self.current.as_mut().map(|current| &mut current.task)) {
            task.stop = stop;
        }
    }

    /// One step: its work, and the report of the zone if the zone is done.
    pub(super) fn step(
        &mut self,
        now: Instant,
        host: &mut dyn Compacting,
    ) -> Result<(Compacted, Option<ZoneReport>), HostError> {
        let (mut current, is_first) = match self.current.take() {
            Some(current) => (current, false),
            None => {
                let task = self.waiting.pop_front().expect("it is not over");
                let extfrag_before = extfrag(host, task)?;
                (Current { task, work: Compacted::default(), extfrag_before, fruitless_pages: 0 }, true)
            }
        };
        let mut step = Compacted::default();
        let mut why = self.over(now);
        if why.is_none() {
            let manner = self.manner;
            step = host.compact(&CompactStep {
                zone: current.task.zone,
                is_first,
                mode: manner.mode,
                stop: current.task.stop,
                counts_in_flight: manner.counts_in_flight,
                stops_for_reclaim: manner.stops_for_reclaim,
                max_scanned: STEP_PAGES,
                max_moved: manner.budget.pages.map_or(u64::MAX, |pages| pages - self.total.pages_moved),
            })?;
            current.work.merge(&step);
            self.total.merge(&step);
            let fruitless = if step.blocks_freed > 0 { 0 } else { current.fruitless_pages };
            current.fruitless_pages = fruitless + step.scanned_migrate;
            let is_fruitless = manner.budget.fruitless_pages.is_some_and(|most| current.fruitless_pages >= most);
            why = step.end.map(Why::from).or_else(|| is_fruitless.then_some(Why::NoProgress));
        }
        let Some(why) = why else {
            self.current = Some(current);
            return Ok((step, None));
        };
        let extfrag_after = extfrag(host, current.task)?;
        let Current { task, work, extfrag_before, .. } = current;
        Ok((step, Some(ZoneReport { zone: task.zone, why, extfrag_before, extfrag_after, work })))
    }

    pub(super) fn is_over(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    /// Why all further work is forbidden.
    fn over(&self, now: Instant) -> Option<Why> {
        let Budget { pages, cpu, stall, wall, fruitless_pages } = self.manner.budget;
        let total = &self.total;
        match () {
            () if self.is_cancelled => Some(Why::Cancelled),
            () if pages.is_some_and(|most| total.pages_moved >= most) => Some(Why::Budget(BudgetLimit::Pages)),
            () if cpu.is_some_and(|most| total.cpu >= most) => Some(Why::Budget(BudgetLimit::Cpu)),
            () if stall.is_some_and(|most| total.stalls.total >= most) => Some(Why::Budget(BudgetLimit::Stall)),
            () if wall.is_some_and(|most| now.since(self.started) >= most) => Some(Why::Budget(BudgetLimit::Wall)),
            () if fruitless_pages == Some(0) => Some(Why::NoProgress),
            () => None,
        }
    }
}

fn extfrag(host: &mut dyn Compacting, task: Task) -> Result<u32, HostError> {
    let mut zones = Vec::new();
    host.zones(&mut zones)?;
    // A zone that is gone (memory was taken away) has nothing free.
    let zone = zones.iter().find(|zone| zone.id == task.zone);
    Ok(zone.map_or(0, |zone| zone.blocks.extfrag(task.order)))
}
