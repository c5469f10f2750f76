//! `compact_extfrag(node, zone, order, high, low)`: compaction to a level of fragmentation, once, on request
//! (docs/spec/compaction.md#s6-2). The original final proposal: the caller decides when and how far.

use super::run::{Budget, Manner, Run, Task, Why, ZoneReport};
use super::suitability::{Gap, Level, margin};
use crate::OutOfRange;
use crate::host::{CompactMode, Compacted, Stop, ZoneState};
use crate::host::{Compacting, HostError, NodeId};
use crate::vocabulary::ORDERS;
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Request {
    #[serde(default)]
    pub node: u32,
    /// The zone, by its number from the lowest; all zones of the node unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<u8>,
    /// log2 of the pages of a block.
    pub order: u32,
    /// A zone is compacted if its extfrag is above this, percent (0 to 100).
    pub high: u32,
    /// Runs go on until extfrag is at this mark or below. The original series says "below"; its code, and the kernel's, stop at the mark.
    pub low: u32,
    /// Limits of the whole request.
    #[serde(default)]
    pub budget: Budget,
    /// Judges as the kernel would: pages in flight are not counted as free, and no check asks whether there is room for the moved pages.
    #[serde(default)]
    pub kernel_quirks: bool,
}

impl Request {
    /// A request with an unlimited budget and without `kernel_quirks`.
    pub fn new(node: u32, zone: Option<u8>, order: u32, high: u32, low: u32) -> Self {
        Self { node, zone, order, high, low, budget: Budget::default(), kernel_quirks: false }
    }

    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        if !(1..ORDERS).contains(&self.order) {
            return Err(OutOfRange::new("order", self.order, "1 to the largest of the zone, mostly 10"));
        }
        if self.high > 100 {
            return Err(OutOfRange::new("high", self.high, "0 to 100 percent"));
        }
        if self.low > self.high {
            return Err(OutOfRange::new("low", self.low, format!("0 to `high` ({})", self.high)));
        }
        Ok(())
    }
}

/// A request that is worked on. Drive it until [`poll_timeout`](Self::poll_timeout) returns `None`.
#[derive(Debug)]
pub struct CompactExtfrag {
    request: Request,
    /// `None` before the first call.
    run: Option<Run>,
    reports: Vec<ZoneReport>,
    next: Option<Instant>,
    is_cancelled: bool,
}

impl CompactExtfrag {
    /// Takes a request on; nothing happens before the first call.
    ///
    /// # Errors
    /// An invalid value, or a node, zone or order that this host does not have.
    pub fn new(request: Request, now: Instant, host: &mut dyn Compacting) -> Result<Self, StartError> {
        request.validate()?;
        let mut zones = Vec::new();
        host.zones(&mut zones)?;
        let nodes: Vec<u32> = dedup(zones.iter().map(|zone| zone.id.node.0));
        if !nodes.contains(&request.node) {
            return Err(OutOfRange::new("node", request.node, list(&nodes)).into());
        }
        let zones: Vec<&ZoneState> = zones.iter().filter(|zone| zone.id.node.0 == request.node).collect();
        if let Some(wanted) = request.zone
            && !zones.iter().any(|zone| zone.id.zone == wanted)
        {
            let there: Vec<u32> = zones.iter().map(|zone| zone.id.zone.into()).collect();
            return Err(OutOfRange::new("zone", wanted, list(&there)).into());
        }
        let orders = zones.iter().map(|zone| zone.blocks.orders()).max().unwrap_or(1);
        if request.order >= orders {
            let allowed = format!("1 to {}, the largest here", orders - 1);
            return Err(OutOfRange::new("order", request.order, allowed).into());
        }
        Ok(Self { request, run: None, reports: Vec::new(), next: Some(now), is_cancelled: false })
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next; `None` once it is done.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// The reports of zones; complete once it is done.
    pub fn reports(&self) -> &[ZoneReport] {
        &self.reports
    }

    /// Ends it at the next call, with reports of all zones.
    pub const fn cancel(&mut self) {
        self.is_cancelled = true;
    }

    /// Does a step of the work, and returns its CPU time, which is to pass before the next. Early or late calls do nothing.
    ///
    /// # Errors
    /// The host's; then it is done, with the reports of zones finished before.
    pub fn handle_timeout(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Duration, HostError> {
        if self.next.is_none_or(|due| now < due) {
            return Ok(Duration::ZERO);
        }
        self.next = None;
        let mut run = match self.run.take() {
            Some(run) => run,
            None => self.start(now, host)?,
        };
        if self.is_cancelled {
            run.cancel();
        }
        let mut spent = Duration::ZERO;
        if !run.is_over() {
            let (step, report) = run.step(now, host)?;
            self.reports.extend(report);
            spent = step.cpu;
        }
        if !run.is_over() {
            self.next = Some(now);
            self.run = Some(run);
        }
        Ok(spent)
    }

    /// Chooses the zones that need compaction and have room.
    fn start(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Run, HostError> {
        let request = &self.request;
        let mut zones = Vec::new();
        host.zones(&mut zones)?;
        let is_wanted = |zone: &&ZoneState| {
            zone.id.node == NodeId(request.node) && request.zone.is_none_or(|wanted| zone.id.zone == wanted)
        };
        let mut tasks = Vec::new();
        for zone in zones.iter().filter(is_wanted) {
            let extfrag = zone.blocks.extfrag(request.order);
            let why = match () {
                () if extfrag <= request.high => Why::AlreadyBelowHigh,
                () if !request.kernel_quirks && !has_room(zone, request.order, Gap::Capped) => Why::NoTargets,
                () => {
                    let stop = Stop::Order { order: request.order, low: request.low };
                    tasks.push(Task { zone: zone.id, stop, order: request.order });
                    continue;
                }
            };
            let work = Compacted::default();
            self.reports.push(ZoneReport { zone: zone.id, why, extfrag_before: extfrag, extfrag_after: extfrag, work });
        }
        let manner = Manner {
            mode: CompactMode::SyncLight,
            counts_in_flight: !request.kernel_quirks,
            stops_for_reclaim: true,
            budget: request.budget,
        };
        Ok(Run::new(tasks, manner, now))
    }
}

/// The part of suitability that asks for free pages to move into (section 4.5).
pub(super) fn has_room(zone: &ZoneState, order: u32, gap: Gap) -> bool {
    let level = Level { free: zone.blocks.pages(), blocks: &zone.blocks, reserve: 0 };
    level.watermark_ok(0, zone.marks.min.saturating_add(margin(order, &zone.marks, gap)))
}

/// Why a request was not taken on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The request is invalid on this host.
    #[error(transparent)]
    Request(#[from] OutOfRange),
    /// The host does not report its zones.
    #[error(transparent)]
    Host(#[from] HostError),
}

fn dedup(numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn list(numbers: &[u32]) -> String {
    match numbers {
        [] => "none: this host has no memory to tell of".to_owned(),
        _ => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    }
}
