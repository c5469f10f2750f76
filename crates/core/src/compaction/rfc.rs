//! Proactive compaction as first proposed: `/sys/kernel/mm/compaction/order-N/extfrag_{low,high}` (docs/spec/compaction.md#s6-1).

use super::deferral::Deferral;
use super::designs::{Activity, Compactor};
use super::explicit::has_room;
use super::run::{Manner, Run, Task, Why};
use super::suitability::Gap;
use super::{Decision, MAX_ORDERS, Verdict};
use crate::OutOfRange;
use crate::host::{CompactMode, Stop, ZoneId, ZoneState};
use crate::host::{Compacting, HostError, NodeId};
use crate::vocabulary::ORDERS;
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Marks of one order on extfrag, percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OrderMarks {
    /// Compaction goes on while extfrag is above this, percent.
    pub low: u32,
    /// Compaction starts when extfrag is above this, percent.
    pub high: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct RfcConfig {
    /// Marks by order, `"9" = { low = 25, high = 30 }`. Orders without are off, as all were by default.
    pub orders: BTreeMap<String, OrderMarks>,
    /// Time from one check of the node to the next.
    pub interval: Duration,
}

impl Default for RfcConfig {
    /// The original test: order 9, 25 and 30, every 5 seconds.
    fn default() -> Self {
        let orders = BTreeMap::from([("9".to_owned(), OrderMarks { low: 25, high: 30 })]);
        Self { orders, interval: Duration::from_secs(5) }
    }
}

/// Entries by order; 100 is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Table {
    low: [u32; MAX_ORDERS],
    high: [u32; MAX_ORDERS],
}

impl RfcConfig {
    fn table(&self) -> Result<Table, OutOfRange> {
        let mut table = Table { low: [100; MAX_ORDERS], high: [100; MAX_ORDERS] };
        for (key, marks) in &self.orders {
            let order = key.parse().ok().filter(|order| (1..MAX_ORDERS).contains(order));
            let Some(order) = order else {
                return Err(OutOfRange::new("orders", format!("{key:?}"), "orders 1 to the largest, mostly 10"));
            };
            if marks.high > 100 {
                let place = format!("orders.{key}.high");
                return Err(OutOfRange::new(place, marks.high, "0 to 100 percent (off)"));
            }
            if marks.low > marks.high {
                let allowed = format!("0 to orders.{key}.high ({})", marks.high);
                return Err(OutOfRange::new(format!("orders.{key}.low"), marks.low, allowed));
            }
            (table.low[order], table.high[order]) = (marks.low, marks.high);
        }
        if self.interval < Duration::from_ms(1) {
            return Err(OutOfRange::new("interval", self.interval, "1ms and more"));
        }
        Ok(table)
    }

    /// Orders whose high mark can never start a compaction, because a larger order has the same or a lower one: extfrag does not
    /// fall with the order. Pairs of such an order and the larger one that starts before it.
    pub fn idle_orders(&self) -> Vec<(u32, u32)> {
        let Ok(table) = self.table() else { return Vec::new() };
        let high = |order: u32| table.high[order as usize];
        let orders = 1..ORDERS;
        let hidden = orders.clone().filter(|&order| high(order) < 100).filter_map(|order| {
            (order + 1..orders.end).find(|&larger| high(larger) <= high(order)).map(|larger| (order, larger))
        });
        hidden.collect()
    }
}

/// The design `rfc`, running on one node.
#[derive(Debug)]
pub struct Rfc {
    table: Table,
    interval: Duration,
    node: NodeId,
    next: Instant,
    run: Option<Run>,
    deferrals: BTreeMap<ZoneId, Deferral>,
}

/// Its runs are for no particular order; deferral counts them as runs for the lowest one.
const NO_ORDER: u32 = 0;

impl Rfc {
    /// The design for a node; time starts at `now`.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn new(config: RfcConfig, node: NodeId, now: Instant) -> Result<Self, OutOfRange> {
        let table = config.table()?;
        Ok(Self { table, interval: config.interval, node, next: now, run: None, deferrals: BTreeMap::new() })
    }

    /// The lowest order at which a zone should be compacted and has room for it.
    fn trigger(&self, zone: &ZoneState) -> Option<u32> {
        (1..zone.blocks.orders()).find(|&order| {
            zone.blocks.extfrag(order) > self.table.high[order as usize] && has_room(zone, order, Gap::Linux5_3)
        })
    }

    fn check(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        self.next = after(now, self.interval);
        let mut zones = Vec::new();
        host.zones(&mut zones)?;
        zones.retain(|zone| zone.id.node == self.node);
        let mut decision = Decision::of_zones(now, self.node, super::HUGE_ORDER, &zones);
        let Some(order) = zones.iter().find_map(|zone| self.trigger(zone)) else {
            return Ok(Activity { decision: Some(decision), ..Activity::default() });
        };
        let stop = Stop::Orders(self.table.low);
        let is_wanted = |zone: &&ZoneState| !stop.is_reached(&zone.blocks, 0);
        let tasks: Vec<Task> = zones
            .iter()
            .filter(is_wanted)
            .filter(|zone| !self.deferrals.entry(zone.id).or_default().is_deferred(NO_ORDER))
            .map(|zone| Task { zone: zone.id, stop, order })
            .collect();
        decision.verdict = if tasks.is_empty() {
            Verdict::Hold(super::Hold::Deferred)
        } else {
            Verdict::Start(tasks.iter().map(|task| task.zone).collect())
        };
        if !tasks.is_empty() {
            let manner = Manner { mode: CompactMode::Sync, ..Manner::default() };
            self.run = Some(Run::new(tasks, manner, now));
            self.next = now;
        }
        Ok(Activity { decision: Some(decision), ..Activity::default() })
    }
}

impl Compactor for Rfc {
    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        if now < self.next {
            return Ok(Activity::default());
        }
        let Some(mut run) = self.run.take() else { return self.check(now, host) };
        self.next = after(now, self.interval);
        let (step, report) = run.step(now, host)?;
        if let Some(report) = report {
            let deferral = self.deferrals.entry(report.zone).or_default();
            match report.why {
                Why::ReachedLow => deferral.reset(NO_ORDER, false),
                Why::ScannersMet => deferral.defer(NO_ORDER),
                _ => {}
            }
        }
        if !run.is_over() {
            self.run = Some(run);
            self.next = now;
        }
        Ok(Activity { spent: step.cpu, report, ..Activity::default() })
    }
}

pub(super) fn after(now: Instant, wait: Duration) -> Instant {
    Instant::from_ns(now.ns().saturating_add(wait.ns()))
}
