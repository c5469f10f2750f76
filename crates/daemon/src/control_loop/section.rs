//! A section as the loop sees it: its contract, and the counts and reports that all kinds of sections share.

use super::gate::Permit;
use super::guard::{Guard, Reach};
use super::line::{Act, Effect, Line, SectionStatus};
use super::pace::{Pace, Paced};
use super::run::LoopError;
use super::trouble::{AuditError, NotNoted, Trouble};
use super::{Knobs, Log, LoopHost, System};
use crate::config::Config;
use isotherm_core::host::TargetId;
use isotherm_units::Instant;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

/// When a section wants to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A time in the past means now.
    At(Instant),
    /// In each turn of the loop; the loop is not woken for it.
    EachTurn,
    /// Not due before its groups change.
    Never,
}

impl Due {
    pub(super) fn time(self) -> Option<Instant> {
        if let Self::At(time) = self { Some(time) } else { None }
    }

    pub(super) fn is_now(self, now: Instant) -> bool {
        self == Self::EachTurn || self.time().is_some_and(|due| due <= now)
    }
}

impl From<Option<Instant>> for Due {
    fn from(time: Option<Instant>) -> Self {
        time.map_or(Self::Never, Self::At)
    }
}

/// The part of a turn in which a section runs, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Engines that sample wake the loop hundreds of times a second: they run first, and the other phases are skipped in between.
    Sampling,
    /// Decides and acts in one call.
    Deciding,
    /// Sets up an engine of the kernel and checks on it.
    Kernel,
    /// Starts work that continues after the turn.
    Background,
}

impl Phase {
    pub(super) const ALL: [Self; 4] = [Self::Sampling, Self::Deciding, Self::Kernel, Self::Background];
}

/// Parts of the loop that it lends to a section.
pub(super) struct Context<'a> {
    pub(super) now: Instant,
    pub(super) config: &'a Config,
    /// What sections may not act on now.
    pub(super) guard: &'a Guard,
    pub(super) host: &'a mut dyn LoopHost,
    pub(super) world: &'a mut dyn System,
    pub(super) knobs: &'a mut dyn Knobs,
    pub(super) log: &'a mut dyn Log,
    pub(super) watched: &'a mut Watched,
}

/// Processes that sections sample: two that clear accessed bits of the same process hide accesses from each other.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The section that samples a process, by process id.
    pub(super) taken: BTreeMap<u32, String>,
    next_target: u32,
    nr_engines: u32,
}

impl Watched {
    /// A unique number for a target.
    pub(super) fn target(&mut self) -> TargetId {
        self.next_target += 1;
        TargetId(self.next_target - 1)
    }

    /// A unique number for an engine; its seed is derived from it.
    pub(super) fn engine(&mut self) -> u32 {
        self.nr_engines += 1;
        self.nr_engines - 1
    }
}

/// A section that runs.
pub(super) trait Section: Any + std::fmt::Debug {
    /// Phase of the turn in which it runs. Never changes.
    fn phase(&self) -> Phase {
        Phase::Deciding
    }

    /// The line that reports its start.
    fn began(&self) -> Line;

    /// Finds out which groups and processes there are. Returns lines about targets that appeared, ended, or are left alone.
    fn follow(&mut self, context: &mut Context<'_>) -> Vec<Line>;

    fn head(&self) -> &Head;

    fn head_mut(&mut self) -> &mut Head;

    /// What its writes can stall, by its groups and processes of now.
    fn reach(&self) -> Reach;

    /// Adds groups that have a limit of its own.
    fn limited(&self, _groups: &mut BTreeSet<String>) {}

    /// When it wants to run, at the pace of its head.
    fn due(&self) -> Due;

    /// Runs once.
    ///
    /// # Errors
    /// Why the audit cannot be written, or an engine's state cannot be read.
    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Trouble>;

    /// Stops work between turns. It starts again when due.
    fn cease(&mut self, _host: &mut dyn LoopHost) {}

    /// Writes lines about actions that are not reported yet.
    ///
    /// # Errors
    /// Why the audit cannot be written.
    fn report_rest(&mut self, _now: Instant, _log: &mut dyn Log) -> Result<(), AuditError> {
        Ok(())
    }

    /// Restores every knob that it wrote. Returns the knobs that could not be restored, as text.
    ///
    /// # Errors
    /// Why the audit cannot be written.
    fn put_back(&mut self, _context: &mut Context<'_>) -> Result<Vec<String>, AuditError> {
        Ok(Vec::new())
    }

    /// It is no longer configured: the host drops its state for it.
    fn release(&mut self, _host: &mut dyn LoopHost) {}

    fn status(&self, now: Instant, world: &mut dyn System) -> SectionStatus;
}

impl Paced for Box<dyn Section> {
    fn pace(&mut self) -> &mut Pace {
        &mut self.head_mut().pace
    }

    fn next(&self, now: Instant) -> Option<Instant> {
        match self.due() {
            Due::At(due) => Some(due.max(now)),
            Due::EachTurn => None,
            Due::Never => Some(now),
        }
    }
}

/// How sections of one kind are made from a configuration.
pub(super) trait Kind: Section + Sized {
    /// Configuration of one section.
    type Spec;

    /// The specs in a configuration, in its order.
    fn specs(config: &Config) -> Vec<Self::Spec>;

    /// Makes a section that starts at `now`.
    ///
    /// # Errors
    /// An invalid value, which [`Config::check`] finds.
    fn begin(spec: &Self::Spec, now: Instant, watched: &mut Watched) -> Result<Self, LoopError>;

    /// Why a section of this configuration would do nothing on this machine now, if that is known without starting it.
    fn lacks(_spec: &Self::Spec, _config: &Config, _world: &mut dyn System) -> Option<String> {
        None
    }

    /// What a section of this configuration would do to the machine now, if that can be foretold.
    fn foretells(_spec: &Self::Spec, _world: &mut dyn System) -> Option<String> {
        None
    }

    /// Whether this section matches `spec`, or is changed to match without losing its state.
    fn becomes(&mut self, spec: &Self::Spec, now: Instant) -> bool;
}

/// Sections while a new configuration is loaded.
pub(super) struct Taking<'a> {
    pub(super) config: &'a Config,
    pub(super) now: Instant,
    pub(super) watched: &'a mut Watched,
    /// Sections of the previous configuration that no spec has claimed yet.
    pub(super) before: Vec<Box<dyn Section>>,
    pub(super) sections: Vec<Box<dyn Section>>,
    /// Lines that report started sections.
    pub(super) lines: Vec<Line>,
}

impl Taking<'_> {
    /// Checks that each configured section is carried out.
    ///
    /// # Errors
    /// [`LoopError::NoKind`].
    pub(super) fn is_whole(&self) -> Result<(), LoopError> {
        let table = |label: &str| label.split('.').next().unwrap_or_default().to_owned();
        let mut missing: Vec<String> = self.config.sections().iter().map(|(label, _)| table(label)).collect();
        for section in &self.sections {
            let table = table(&section.head().label);
            missing.iter().position(|missing| *missing == table).map(|at| missing.swap_remove(at));
        }
        missing.into_iter().next().map_or(Ok(()), |table| Err(LoopError::NoKind(table)))
    }

    /// Takes the sections of one kind: staying sections keep their state, others start.
    ///
    /// # Errors
    /// Errors of [`Kind::begin`].
    pub(super) fn take<K: Kind>(&mut self) -> Result<(), LoopError> {
        for spec in K::specs(self.config) {
            let goes_on = |section: &mut Box<dyn Section>| {
                let section: &mut dyn Any = section.as_mut();
                section.downcast_mut::<K>().is_some_and(|section| section.becomes(&spec, self.now))
            };
            let section = match self.before.iter_mut().position(goes_on) {
                Some(at) => self.before.remove(at),
                None => {
                    let section = K::begin(&spec, self.now, self.watched)?;
                    self.lines.push(section.began());
                    Box::new(section)
                }
            };
            self.sections.push(section);
        }
        Ok(())
    }
}

/// Common parts of every section: its name, its engine, and its current trouble.
#[derive(Debug)]
pub(super) struct Head {
    /// Table and name.
    pub(super) label: String,
    engine: &'static str,
    /// `enable`.
    pub(super) enabled: bool,
    /// `acting`, `observing`, or why not.
    pub(super) state: String,
    pub(super) trouble: Option<Trouble>,
    /// Number of runs.
    pub(super) runs: u64,
    pub(super) pace: Pace,
}

impl Head {
    pub(super) fn new(label: String, engine: &'static str, enabled: bool) -> Self {
        Self {
            label,
            engine,
            enabled,
            state: "has not run yet".to_owned(),
            trouble: None,
            runs: 0,
            pace: Pace::default(),
        }
    }

    /// The line that reports its start, and why this engine carries it out.
    pub(super) fn began(&self, why: impl Into<String>) -> Line {
        let section = self.label.clone();
        Line::Section { section, engine: self.engine.into(), enabled: self.enabled, why: why.into() }
    }

    /// Whether it may act on anything now.
    pub(super) fn permit(&self, guard: &Guard) -> Permit {
        if !self.enabled {
            return Permit::Observe;
        }
        guard.whole(&self.label).map_or(Permit::Act, Permit::Withheld)
    }

    /// A line, if its trouble has changed.
    pub(super) fn troubled(&mut self, trouble: Option<Trouble>) -> Option<Line> {
        if trouble == self.trouble {
            return None;
        }
        self.trouble.clone_from(&trouble);
        trouble.map(|why| Line::Trouble { section: self.label.clone(), why: why.to_string() })
    }

    /// The line that knobs are restored, and that the journal could not note it.
    pub(super) fn not_noted(&self, why: String) -> Line {
        Line::Trouble { section: self.label.clone(), why: NotNoted(why).to_string() }
    }

    /// Lines about groups that appeared and ended.
    pub(super) fn moves(&self, before: &BTreeSet<String>, found: &BTreeSet<String>) -> Vec<Line> {
        Line::moves(&self.label, found.difference(before).cloned(), before.difference(found).cloned())
    }

    pub(super) fn status(
        &self,
        now: Instant,
        totals: &Totals,
        targets: Vec<String>,
        words: Vec<String>,
    ) -> SectionStatus {
        SectionStatus {
            section: self.label.clone(),
            engine: self.engine.into(),
            enabled: self.enabled,
            state: self.trouble.as_ref().map_or_else(|| self.state.clone(), ToString::to_string),
            targets,
            runs: self.runs,
            stretch: self.pace.stretch(),
            asked_bytes: totals.asked_bytes,
            verified_bytes: totals.verified_bytes,
            refused: totals.refused,
            since_acted_ns: totals.acted_at.map(|acted_at| now.since(acted_at).ns()),
            words,
        }
    }
}

/// Totals of a section since it started.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) asked_bytes: u64,
    pub(super) verified_bytes: u64,
    /// Number of actions that were withheld or failed.
    pub(super) refused: u64,
    /// Time of the last action, as [`SectionStatus::since_acted_ns`] defines it.
    pub(super) acted_at: Option<Instant>,
}

impl Totals {
    pub(super) fn add(&mut self, asked_bytes: u64, verified_bytes: u64) {
        self.asked_bytes = self.asked_bytes.saturating_add(asked_bytes);
        self.verified_bytes = self.verified_bytes.saturating_add(verified_bytes);
    }

    /// Notes the time of an action, if it was carried out.
    pub(super) fn note_time(&mut self, effect: &Effect, now: Instant) {
        if matches!(effect, Effect::Done | Effect::Partly) {
            self.acted_at = Some(now);
        }
    }

    /// Counts an action, and returns its line.
    pub(super) fn acted(&mut self, act: Act, head: &Head, now: Instant) -> Line {
        self.add(act.asked_bytes, act.verified_bytes);
        self.refused += u64::from(matches!(act.effect, Effect::Refused { .. }));
        self.note_time(&act.effect, now);
        Line::Acted { section: head.label.clone(), at_ns: now.since(Instant::START).ns(), act }
    }
}
