//! A host for tests of schemes: gauges that are set, and a list of what was applied.

use super::{Action, FILTER_TYPES, METRICS};
use crate::host::{
    AddressRange, Applied, Applying, Capabilities, Gauge, GaugeCapabilities, Gauging, HostError, Mappings, NodeId,
    Order, PageTest, Probing, SchemeCapabilities, TargetId,
};
use isotherm_units::Duration;

/// One node, one group at `/group`, pages of 4 KiB that are all resident.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) active: u64,
    pub(crate) inactive: u64,
    pub(crate) group: u64,
    pub(crate) stall_us: u64,
    /// (target, action, range) of each call.
    pub(crate) applied: Vec<(u32, Action, AddressRange)>,
    /// Pages from these bytes on, in turn, that hold each test.
    pub(crate) holds: Vec<(PageTest, AddressRange)>,
    /// The error that `apply` returns instead.
    pub(crate) refusal: Option<HostError>,
    /// Bytes of a page; 4 KiB if 0.
    pub(crate) page: u64,
    /// CPU time a page.
    pub(crate) page_cost: Duration,
    /// `apply` changes nothing.
    pub(crate) is_idle: bool,
    /// Actions that are not there.
    pub(crate) lacks: Vec<Action>,
}

impl Machine {
    fn apply_to(&mut self, order: &mut Order<'_>) -> Applied {
        let page = if self.page == 0 { 4096 } else { self.page };
        let mut bytes = 0;
        let mut pages = 0;
        for start in (order.range.start..order.range.end).step_by(usize::try_from(page).expect("small")) {
            let holds = |test| {
                self.holds.iter().any(|(held, range)| *held == test && range.start <= start && start < range.end)
            };
            pages += 1;
            if order.filter.admit(page, holds) {
                bytes += page;
            }
        }
        let is_nothing = self.is_idle || order.action == Action::Stat;
        let spent = Duration::from_ns(self.page_cost.ns() * pages);
        Applied { bytes: if is_nothing { 0 } else { bytes }, spent, ..Applied::default() }
    }
}

impl Probing for Machine {
    fn capabilities(&self, _: TargetId) -> Capabilities {
        Capabilities { flush: true, scan_children: true, ..Capabilities::four_levels() }
    }
}

impl Mappings for Machine {}

impl Applying for Machine {
    fn scheme_capabilities(&self, _: TargetId) -> SchemeCapabilities {
        let actions: Vec<Action> = super::ACTIONS.iter().map(|entry| entry.action).collect();
        SchemeCapabilities {
            actions: actions.iter().copied().filter(|action| !self.lacks.contains(action)).collect(),
            filtered_actions: actions,
            filters: FILTER_TYPES.iter().map(|entry| entry.filter_type).collect(),
        }
    }

    fn apply(&mut self, target: TargetId, order: &mut Order<'_>) -> Result<Applied, HostError> {
        self.applied.push((target.0, order.action, order.range));
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(self.apply_to(order)),
        }
    }
}

impl Gauging for Machine {
    fn gauge_capabilities(&self, _: TargetId) -> GaugeCapabilities {
        GaugeCapabilities { metrics: METRICS.iter().map(|entry| entry.metric).collect(), free_mem_rate: true }
    }

    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        for (gauge, value) in gauges.iter().zip(values) {
            *value = match gauge {
                Gauge::StallSomeUs => Some(self.stall_us),
                Gauge::TotalBytes(None | Some(NodeId(0))) => Some(self.total),
                Gauge::FreeBytes(None | Some(NodeId(0))) => Some(self.free),
                Gauge::ActiveBytes => Some(self.active),
                Gauge::InactiveBytes => Some(self.inactive),
                Gauge::MemcgBytes { node: NodeId(0), memcg: 1 } => Some(self.group),
                _ => None,
            };
        }
        Ok(())
    }

    fn memcg(&self, path: &str) -> Option<u64> {
        (path == "/group").then_some(1)
    }
}
