//! Proactive compaction as the kernel has it since 5.9 (docs/spec/compaction.md#s3, #s4-9, #s6-3): kcompactd checks the node's score twice
//! a second and compacts all zones down to the low mark. Its pitfalls are kept: neither room nor gain is checked, and runs start by a
//! weighted score but stop by unweighted ones.

use super::designs::{Activity, Compactor};
use super::proactiveness::{Leeway, Proactiveness, ScoreMarks};
use super::rfc::after;
use super::run::{Manner, Run, Task};
use super::{Decision, HUGE_ORDER, Hold, Verdict, node_score};
use crate::OutOfRange;
use crate::host::{CompactMode, Stop};
use crate::host::{Compacting, HostError, NodeId};
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Time between two checks of the score.
const CHECK_INTERVAL: Duration = Duration::from_ms(500);
/// The pause after a run that did not lower the score: 500 ms · 2^6.
const BACKOFF_INTERVAL: Duration = Duration::from_secs(32);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MergedConfig {
    /// `vm.compaction_proactiveness`, 0 (off) to 100.
    pub proactiveness: Proactiveness,
    /// The distance between the low and the high mark, which differs between kernels.
    pub leeway: Leeway,
}

/// kcompactd's proactive half, for one node.
#[derive(Debug)]
pub struct Merged {
    config: MergedConfig,
    node: NodeId,
    /// `None` while it is off.
    next: Option<Instant>,
    run: Option<(Run, u32)>,
}

impl Merged {
    /// The design for a node; the first check comes an interval after `now`.
    ///
    /// # Errors
    /// None so far: [`Proactiveness`] is checked when it is made.
    pub fn new(config: MergedConfig, node: NodeId, now: Instant) -> Result<Self, OutOfRange> {
        let next = (!config.proactiveness.is_off()).then(|| after(now, CHECK_INTERVAL));
        Ok(Self { config, node, next, run: None })
    }

    /// Writes `vm.compaction_proactiveness`. Since 5.15 any value except 0 causes a check at once. A run under way goes on to the
    /// new mark, which for 0 is 100: it ends with the next step.
    pub fn set_proactiveness(&mut self, proactiveness: Proactiveness, now: Instant) {
        self.config.proactiveness = proactiveness;
        let stop = self.stop();
        match &mut self.run {
            Some((run, _)) => run.set_stop(stop),
            None if proactiveness.is_off() => self.next = None,
            None => self.next = Some(now),
        }
    }

    fn marks(&self) -> ScoreMarks {
        self.config.proactiveness.marks(self.config.leeway)
    }

    fn stop(&self) -> Stop {
        Stop::Order { order: HUGE_ORDER, low: self.marks().low }
    }

    fn score(&self, host: &mut dyn Compacting) -> Result<(u32, Vec<crate::host::ZoneState>), HostError> {
        let mut zones = Vec::new();
        host.zones(&mut zones)?;
        zones.retain(|zone| zone.id.node == self.node && zone.present > 0);
        let scores: Vec<(u32, u64)> =
            zones.iter().map(|zone| (zone.blocks.extfrag(HUGE_ORDER), zone.present)).collect();
        Ok((node_score(&scores), zones))
    }

    fn check(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        self.next = Some(after(now, CHECK_INTERVAL));
        let signals = host.compaction_signals(self.node)?;
        let (score, zones) = self.score(host)?;
        let mut decision = Decision::of_zones(now, self.node, HUGE_ORDER, &zones);
        decision.score = score;
        decision.signals = signals;
        if signals.is_reclaiming {
            decision.verdict = Verdict::Hold(Hold::Reclaiming);
        } else if score > self.marks().high {
            let stop = self.stop();
            let tasks = zones.iter().map(|zone| Task { zone: zone.id, stop, order: HUGE_ORDER });
            let manner = Manner { mode: CompactMode::SyncLight, stops_for_reclaim: true, ..Manner::default() };
            self.run = Some((Run::new(tasks, manner, now), score));
            self.next = Some(now);
            decision.verdict = Verdict::Start(zones.iter().map(|zone| zone.id).collect());
        }
        Ok(Activity { decision: Some(decision), ..Activity::default() })
    }
}

impl Compactor for Merged {
    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    fn handle_timeout(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError> {
        if self.next.is_none_or(|due| now < due) {
            return Ok(Activity::default());
        }
        let Some((mut run, score_before)) = self.run.take() else { return self.check(now, host) };
        self.next = Some(after(now, CHECK_INTERVAL));
        let (step, report) = run.step(now, host)?;
        if !run.is_over() {
            self.run = Some((run, score_before));
            self.next = Some(now);
        } else if self.config.proactiveness.is_off() {
            self.next = None;
        } else if self.score(host)?.0 >= score_before {
            self.next = Some(after(now, BACKOFF_INTERVAL));
        }
        Ok(Activity { spent: step.cpu, report, ..Activity::default() })
    }
}
