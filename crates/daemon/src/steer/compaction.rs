//! A `[[compaction]]` section that is decided here: a design of `core`, behind a gate that lets it compact where it may.

use super::line::{Act, Effect, Line, SectionStatus};
use super::{Log, NodeFree};
use crate::config::CompactionConfig;
use isotherm_core::compaction::{CompactionError, Compactor, Design, HUGE_ORDER, Tally, Verdict, ZoneReport};
use isotherm_core::host::{
    CompactStep, Compacted, Compacting, CompactionSignals, Granularity, HostError, NodeId, ZoneState,
};
use isotherm_units::{Duration, Instant, PAGE_BYTES};

/// Time between two looks at a compaction that is under way.
const POLL: Duration = Duration::from_ms(50);
/// What would be done, or may not be done now, is told so often at most while it stays so.
const REMIND: Duration = Duration::from_secs(60);
const HUGE_BYTES: u64 = PAGE_BYTES << HUGE_ORDER;

/// The file by which a node is compacted.
pub(super) fn file_of(node: u32) -> String {
    format!("/sys/devices/system/node/node{node}/compact")
}

/// A node, and the design that decides about it.
#[derive(Debug)]
pub(super) struct Compaction {
    label: String,
    pub(super) spec: CompactionConfig,
    running: Box<dyn Compactor + Send>,
    tally: Tally,
    /// When it ran last.
    ran: Instant,
    /// It has begun to compact, and is not done.
    is_under_way: bool,
    reminded: Option<Instant>,
    trouble: Option<String>,
    state: String,
    runs: u64,
    asked_bytes: u64,
    verified_bytes: u64,
    refused: u64,
    last: Option<NodeFree>,
}

/// Whether it may compact.
enum Permit<'a> {
    Act,
    /// Why not; `None`: it is not enabled.
    Not(Option<&'a str>),
}

/// The section's host: asks are written down before the first step, and steps are refused where it may not act.
struct Gate<'a> {
    host: &'a mut dyn Compacting,
    log: &'a mut dyn Log,
    permit: &'a Permit<'a>,
    label: &'a str,
    node: u32,
    is_under_way: &'a mut bool,
    /// A step was wanted and not let through.
    was_held: bool,
    /// What was read last of the node.
    last: &'a mut Option<NodeFree>,
    /// The audit cannot be written.
    mute: Option<String>,
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
        if let Permit::Not(why) = self.permit {
            self.was_held = true;
            return Err(HostError::Failed(why.unwrap_or("it only observes: enable = true lets it act").to_owned()));
        }
        if step.is_first {
            let (section, target) = (self.label.to_owned(), step.zone.to_string());
            let write = written(self.node);
            if let Err(why) = self.log.line(&Line::Asks { section, target, write }) {
                let said = format!("it could not be written down before it was done: {why}");
                self.mute = Some(why);
                return Err(HostError::Failed(said));
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

impl Compaction {
    /// # Errors
    /// The first setting that makes no sense.
    pub(super) fn new(spec: &CompactionConfig, now: Instant) -> Result<Self, CompactionError> {
        Ok(Self {
            label: format!("compaction.{}", spec.name),
            spec: spec.clone(),
            running: spec.design.start(NodeId(spec.node), now)?,
            tally: Tally::default(),
            ran: now,
            is_under_way: false,
            reminded: None,
            trouble: None,
            state: "has not run yet".to_owned(),
            runs: 0,
            asked_bytes: 0,
            verified_bytes: 0,
            refused: 0,
            last: None,
        })
    }

    const ENGINE: &'static str = "isotherm: compaction";

    pub(super) fn began(&self) -> Line {
        let why = format!(
            "when and how far is decided here by `{}`; the kernel has no file for that, and compacts a whole node until it is stopped",
            self.spec.design.name()
        );
        Line::Section { section: self.label.clone(), engine: Self::ENGINE, enabled: self.spec.enable, why }
    }

    /// When it wants to run, at a pace so many times slower than it was asked for. What is under way keeps its own pace.
    pub(super) fn due(&self, stretch: u32) -> Option<Instant> {
        let due = self.running.poll_timeout()?;
        let wait = due.since(self.ran);
        if self.is_under_way || wait == Duration::ZERO {
            return Some(due.max(self.ran + POLL));
        }
        Some(self.ran + wait.saturating_mul(u64::from(stretch)))
    }

    /// Runs once. `withheld`: why nothing may act now.
    ///
    /// # Errors
    /// The audit cannot be written, in words.
    pub(super) fn run(
        &mut self,
        now: Instant,
        host: &mut dyn Compacting,
        withheld: Option<&str>,
        log: &mut dyn Log,
    ) -> Result<(), String> {
        let permit = match withheld {
            _ if !self.spec.enable => Permit::Not(None),
            Some(why) => Permit::Not(Some(why)),
            None => Permit::Act,
        };
        self.runs += 1;
        self.ran = now;
        if matches!(permit, Permit::Not(_)) {
            self.stop(host);
        }
        let mut gate = Gate {
            host,
            log: &mut *log,
            permit: &permit,
            label: &self.label,
            node: self.spec.node,
            is_under_way: &mut self.is_under_way,
            was_held: false,
            last: &mut self.last,
            mute: None,
        };
        let ran = self.running.handle_timeout(now, &mut gate);
        let (was_held, mute) = (gate.was_held, gate.mute.take());
        self.state = match &permit {
            Permit::Act if self.is_under_way => "compacting".to_owned(),
            Permit::Act => "acting".to_owned(),
            Permit::Not(None) => "observing".to_owned(),
            Permit::Not(Some(why)) => (*why).to_owned(),
        };
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
                self.refused += 1;
                self.tally.note_refusal(&refusal);
                Some(refusal.to_string())
            }
        };
        // A budget that is used up ends the design's work, not the kernel's.
        if self.running.poll_timeout().is_none_or(|due| due > now) {
            self.stop(host);
        }
        if trouble != self.trouble {
            self.trouble.clone_from(&trouble);
            lines.extend(trouble.map(|why| Line::Trouble { section: self.label.clone(), why }));
        }
        lines.iter().try_for_each(|line| log.line(line))?;
        mute.map_or(Ok(()), Err)
    }

    /// Ends what is under way.
    pub(super) fn stop(&mut self, host: &mut dyn Compacting) {
        if std::mem::take(&mut self.is_under_way) {
            host.cease(NodeId(self.spec.node));
        }
    }

    /// What came of a zone.
    fn compacted(&mut self, report: &ZoneReport, now: Instant) -> Line {
        let order = match &self.spec.design {
            Design::Explicit(config) => config.order,
            _ => HUGE_ORDER,
        };
        self.asked_bytes = self.asked_bytes.saturating_add(report.work.pages_moved.saturating_mul(PAGE_BYTES));
        self.verified_bytes = self.verified_bytes.saturating_add(report.work.blocks_freed.saturating_mul(HUGE_BYTES));
        let NodeFree { score, huge_free, .. } =
            self.last.unwrap_or(NodeFree { node: self.spec.node, score: 0, huge_free: 0 });
        Line::Compacted {
            section: self.label.clone(),
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

    /// What would have been done.
    fn held(&mut self, permit: &Permit<'_>, now: Instant) -> Option<Line> {
        self.refused += u64::from(matches!(permit, Permit::Not(Some(_))));
        if self.reminded.is_some_and(|reminded| now.since(reminded) < REMIND) {
            return None;
        }
        self.reminded = Some(now);
        let effect = match permit {
            Permit::Not(Some(why)) => Effect::Refused { why: (*why).to_owned() },
            _ => Effect::Would,
        };
        let act = Act {
            action: "compact",
            target: format!("node {}", self.spec.node),
            node: self.spec.node,
            write: written(self.spec.node),
            asked_bytes: 0,
            verified_bytes: 0,
            effect,
        };
        Some(Line::Acted { section: self.label.clone(), at_ns: now.since(Instant::START).ns(), act })
    }

    pub(super) fn status(&self) -> SectionStatus {
        let mut words = self.tally.words(&self.spec.design);
        words.extend(self.last.map(|NodeFree { score, huge_free, .. }| {
            format!("score {score}, {huge_free} huge pages free, when it looked last")
        }));
        SectionStatus {
            section: self.label.clone(),
            engine: Self::ENGINE,
            enabled: self.spec.enable,
            state: self.trouble.clone().unwrap_or_else(|| self.state.clone()),
            targets: vec![format!("node {}", self.spec.node)],
            runs: self.runs,
            asked_bytes: self.asked_bytes,
            verified_bytes: self.verified_bytes,
            refused: self.refused,
            words,
        }
    }
}
