//! A caller of `compact_extfrag`, so that the original final proposal can be compared with the designs that decide by themselves. It asks
//! for the same level again and again; a better policy is up to the caller.

use super::designs::{Activity, Compactor};
use super::explicit::{CompactExtfrag, Request};
use super::rfc::after;
use super::run::Budget;
use super::{Decision, HUGE_ORDER, Hold, Verdict};
use crate::OutOfRange;
use crate::host::{Compacting, HostError, NodeId};
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Settings. The defaults are the marks of the original test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ExplicitConfig {
    /// The zone, by its number from the lowest; all zones of the node unless it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<u8>,
    /// log2 of the pages of a block.
    pub order: u32,
    /// A zone is compacted if its extfrag is above this, percent (0 to 100).
    pub high: u32,
    /// Compaction of a zone ends when its extfrag is at or below this, percent; at most `high`.
    pub low: u32,
    /// Time from one request to the next, at least 1 ms.
    pub every: Duration,
    /// Limits of each request.
    pub budget: Budget,
    /// Judged as the kernel would; see [`Request::kernel_quirks`].
    pub kernel_quirks: bool,
}

impl Default for ExplicitConfig {
    fn default() -> Self {
        let (every, budget) = (Duration::from_secs(5), Budget::default());
        Self { zone: None, order: HUGE_ORDER, high: 30, low: 25, every, budget, kernel_quirks: false }
    }
}

/// The design `explicit`, running on one node.
#[derive(Debug)]
pub struct Explicit {
    request: Request,
    every: Duration,
    next: Instant,
    /// The request, and the number of its reports given so far.
    work: Option<(CompactExtfrag, usize)>,
}

impl Explicit {
    /// The design for a node; time starts at `now`. Whether the zone exists is known at the first request.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn new(config: ExplicitConfig, node: NodeId, now: Instant) -> Result<Self, OutOfRange> {
        let ExplicitConfig { zone, order, high, low, every, budget, kernel_quirks } = config;
        let request = Request { node: node.0, zone, order, high, low, budget, kernel_quirks };
        request.validate()?;
        if every < Duration::from_ms(1) {
            return Err(OutOfRange::new("every", every, "1ms and more"));
        }
        Ok(Self { request, every, next: now, work: None })
    }

    fn check(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        self.next = after(now, self.every);
        let Request { node, zone, order, high, .. } = self.request;
        let mut zones = Vec::new();
        host.zones(&mut zones)?;
        zones.retain(|state| state.id.node.0 == node && zone.is_none_or(|wanted| state.id.zone == wanted));
        let mut decision = Decision::of_zones(now, NodeId(node), order, &zones);
        let above = zones.iter().filter(|zone| zone.blocks.extfrag(order) > high).map(|zone| zone.id);
        let above: Vec<_> = above.collect();
        decision.verdict = Verdict::Hold(Hold::Enough);
        if !above.is_empty() {
            let work = CompactExtfrag::new(self.request.clone(), now, host);
            self.work = Some((work.map_err(|refused| HostError::Failed(refused.to_string()))?, 0));
            self.next = now;
            decision.verdict = Verdict::Start(above);
        }
        Ok(Activity { decision: Some(decision), ..Activity::default() })
    }
}

impl Compactor for Explicit {
    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        if now < self.next {
            return Ok(Activity::default());
        }
        let Some((mut work, reported)) = self.work.take() else { return self.check(now, host) };
        self.next = after(now, self.every);
        let spent = work.handle_timeout(now, host)?;
        let report = work.reports().get(reported).copied();
        let reported = reported + usize::from(report.is_some());
        if work.poll_timeout().is_some() || reported < work.reports().len() {
            self.work = Some((work, reported));
            self.next = now;
        }
        Ok(Activity { spent, report, ..Activity::default() })
    }
}
