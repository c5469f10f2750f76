//! A `[[compaction]]` section decided by isotherm: a design of `core`, behind a filter that lets it compact only where
//! allowed.

use crate::config::{CompactionConfig, Config};
use crate::control_loop::gate::{Held, Permit};
use crate::control_loop::guard::Reach;
use crate::control_loop::line::{Act, Effect, Line, SectionStatus};
use crate::control_loop::run::LoopError;
use crate::control_loop::section::{Context, Due, Head, Kind, Phase, Section, Totals, Watched};
use crate::control_loop::trouble::{AuditError, Trouble};
use crate::control_loop::{Log, LoopHost, NodeFree, System};
use isotherm_core::compaction::{Compactor, Design, HUGE_ORDER, Tally, Verdict, ZoneReport};
use isotherm_core::host::{
    CompactStep, Compacted, Compacting, CompactionSignals, Granularity, HostError, NodeId, ZoneState,
};
use isotherm_units::{Duration, Instant, PAGE_BYTES};

/// Time between two checks of a compaction that is under way.
const POLL: Duration = Duration::from_ms(50);
/// Shortest time between two reports of an action that would be done, or is not allowed now, while that does not change.
const REMIND: Duration = Duration::from_secs(60);
const HUGE_BYTES: u64 = PAGE_BYTES << HUGE_ORDER;

/// The file by which a node is compacted.
pub(super) fn file_of(node: u32) -> String {
    format!("/sys/devices/system/node/node{node}/compact")
}

const ENGINE: &str = "isotherm: compaction";

/// A node, and the design that decides about it.
#[derive(Debug)]
pub(super) struct CompactionSection {
    head: Head,
    totals: Totals,
    spec: CompactionConfig,
    running: Box<dyn Compactor + Send>,
    tally: Tally,
    /// Time of the last run.
    ran: Instant,
    /// It has begun to compact, and is not done.
    is_under_way: bool,
    reminded: Option<Instant>,
    last: Option<NodeFree>,
}

/// The section's host: requests are logged before the first step, and steps are refused where it may not act.
struct Gate<'a> {
    host: &'a mut dyn LoopHost,
    log: &'a mut dyn Log,
    permit: &'a Permit,
    label: &'a str,
    node: u32,
    is_under_way: &'a mut bool,
    /// A step was requested and refused.
    was_held: bool,
    /// Last reading of the node.
    last: &'a mut Option<NodeFree>,
    /// The audit cannot be written.
    mute: Option<AuditError>,
}

impl Compacting for Gate<'_> {
    fn compaction_granularity(&self) -> Option<Granularity> {
        self.host.compaction_granularity()
    }

    fn zones(&mut self, out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        let mut zones = Vec::new();
        self.host.zones(&mut zones)?;
        *self.last = NodeFree::of_zones(&zones).into_iter().find(|free| free.node == self.node);
        out.append(&mut zones);
        Ok(())
    }

    fn compaction_signals(&mut self, node: NodeId) -> Result<CompactionSignals, HostError> {
        self.host.compaction_signals(node)
    }

    fn compact(&mut self, step: &CompactStep) -> Result<Compacted, HostError> {
        if let Err(held) = self.permit.check() {
            self.was_held = true;
            return Err(held.into());
        }
        if step.is_first {
            let (section, target) = (self.label.to_owned(), step.zone.to_string());
            let write = written(self.node);
            if let Err(why) = self.log.line(&Line::Asks { section, target, write }) {
                self.mute = Some(why.clone());
                return Err(Held::NotLogged(why).into());
            }
            *self.is_under_way = true;
        }
        self.host.compact(step)
    }

    fn cease(&mut self, node: NodeId) {
        self.host.cease(node);
    }
}

/// The write that carries it out.
fn written(node: u32) -> String {
    format!("{} = 1", file_of(node))
}

impl Kind for CompactionSection {
    type Spec = CompactionConfig;

    fn specs(config: &Config) -> Vec<CompactionConfig> {
        config.compaction.iter().filter(|section| !section.is_kernels()).cloned().collect()
    }

    fn begin(spec: &CompactionConfig, now: Instant, _: &mut Watched) -> Result<Self, LoopError> {
        Ok(Self {
            head: Head::new(format!("compaction.{}", spec.name), ENGINE, spec.enable),
            totals: Totals::default(),
            spec: spec.clone(),
            running: spec.design.start(NodeId(spec.node), now)?,
            tally: Tally::default(),
            ran: now,
            is_under_way: false,
            reminded: None,
            last: None,
        })
    }

    fn becomes(&mut self, spec: &CompactionConfig, _: Instant) -> bool {
        self.spec == *spec
    }
}

impl Section for CompactionSection {
    fn phase(&self) -> Phase {
        Phase::Background
    }

    fn began(&self) -> Line {
        self.head.began(format!(
            "when and how far is decided here by `{}`; the kernel has no file for that, and compacts a whole node until it is stopped",
            self.spec.design.name()
        ))
    }

    /// Nodes do not come and go.
    fn follow(&mut self, _: &mut Context<'_>) -> Vec<Line> {
        Vec::new()
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    /// Compaction moves pages of everyone.
    fn reach(&self) -> Reach {
        Reach::machine()
    }

    /// A compaction that is under way keeps its own pace.
    fn due(&self) -> Due {
        let Some(due) = self.running.poll_timeout() else { return Due::Never };
        let wait = due.since(self.ran);
        if self.is_under_way || wait == Duration::ZERO {
            return Due::At(due.max(self.ran + POLL));
        }
        Due::At(self.ran + wait.saturating_mul(u64::from(self.head.pace.stretch())))
    }

    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Trouble> {
        let (now, permit) = (context.now, self.head.permit(context.guard));
        self.head.runs += 1;
        self.ran = now;
        if permit != Permit::Act {
            self.cease(context.host);
        }
        let mut gate = Gate {
            host: &mut *context.host,
            log: &mut *context.log,
            permit: &permit,
            label: &self.head.label,
            node: self.spec.node,
            is_under_way: &mut self.is_under_way,
            was_held: false,
            last: &mut self.last,
            mute: None,
        };
        let ran = self.running.handle_timeout(now, &mut gate);
        let (was_held, mute) = (gate.was_held, gate.mute.take());
        let compacts = permit == Permit::Act && self.is_under_way;
        self.head.state = if compacts { "compacting".to_owned() } else { permit.state() };
        let mut lines = Vec::new();
        let trouble = match ran {
            Ok(activity) => {
                self.tally.note(&activity);
                if let Some(report) = &activity.report {
                    lines.push(self.compacted(report, now));
                }
                let starts = activity.decision.is_some_and(|it| matches!(it.verdict, Verdict::Start(_)));
                if !starts && activity.report.is_none() && !self.is_under_way {
                    self.reminded = None;
                }
                None
            }
            Err(_) if was_held => {
                lines.extend(self.held(&permit, now));
                None
            }
            Err(refusal) => {
                self.totals.refused += 1;
                self.tally.note_refusal(&refusal);
                Some(Trouble::Host(refusal))
            }
        };
        // An exhausted budget ends the design's work, but not the kernel's.
        if self.running.poll_timeout().is_none_or(|due| due > now) {
            self.cease(context.host);
        }
        lines.extend(self.head.troubled(trouble));
        lines.iter().try_for_each(|line| context.log.line(line))?;
        mute.map_or(Ok(()), |why| Err(why.into()))
    }

    fn cease(&mut self, host: &mut dyn LoopHost) {
        if std::mem::take(&mut self.is_under_way) {
            host.cease(NodeId(self.spec.node));
        }
    }

    fn status(&self, now: Instant, _: &mut dyn System) -> SectionStatus {
        let mut words = self.tally.words(&self.spec.design);
        words.extend(self.last.map(|NodeFree { score, huge_free, .. }| {
            format!("score {score}, {huge_free} huge pages free, when it looked last")
        }));
        self.head.status(now, &self.totals, vec![format!("node {}", self.spec.node)], words)
    }
}

impl CompactionSection {
    /// Reports the result for a zone.
    fn compacted(&mut self, report: &ZoneReport, now: Instant) -> Line {
        let order = match &self.spec.design {
            Design::Explicit(config) => config.order,
            _ => HUGE_ORDER,
        };
        let asked_bytes = report.work.pages_moved.saturating_mul(PAGE_BYTES);
        self.totals.add(asked_bytes, report.work.blocks_freed.saturating_mul(HUGE_BYTES));
        if report.work.pages_moved > 0 {
            self.totals.acted_at = Some(now);
        }
        let NodeFree { score, huge_free, .. } =
            self.last.unwrap_or(NodeFree { node: self.spec.node, score: 0, huge_free: 0 });
        Line::Compacted {
            section: self.head.label.clone(),
            at_ns: now.since(Instant::START).ns(),
            node: report.zone.node.0,
            zone: report.zone.zone,
            order,
            why: report.why,
            extfrag_before: report.extfrag_before,
            extfrag_after: report.extfrag_after,
            node_score_after: score,
            huge_free_after: huge_free,
            pages_moved: report.work.pages_moved,
            blocks_freed: report.work.blocks_freed,
            cpu_ns: report.work.cpu.ns(),
        }
    }

    /// Report of the work that would have been done.
    fn held(&mut self, permit: &Permit, now: Instant) -> Option<Line> {
        self.totals.refused += u64::from(matches!(permit, Permit::Withheld(_)));
        if self.reminded.is_some_and(|reminded| now.since(reminded) < REMIND) {
            return None;
        }
        self.reminded = Some(now);
        let effect = match permit {
            Permit::Withheld(why) => Effect::Refused { why: why.clone() },
            _ => Effect::Would,
        };
        let act = Act {
            action: "compact".into(),
            target: format!("node {}", self.spec.node),
            node: self.spec.node,
            write: written(self.spec.node),
            asked_bytes: 0,
            verified_bytes: 0,
            effect,
        };
        Some(Line::Acted { section: self.head.label.clone(), at_ns: now.since(Instant::START).ns(), act })
    }
}
