//! The loop itself.

use super::errand::Errand;
use super::guard::Guard;
use super::kinds::KINDS;
use super::line::{Line, Status};
use super::pace::Division;
use super::section::{Context, Phase, Section, Taking, Watched};
use super::trouble::{AuditError, Trouble};
use super::{Knobs, Log, LoopHost, System};
use crate::config::Config;
use isotherm_core::OutOfRange;
use isotherm_core::generations::GenerationsError;
use isotherm_core::limits::LimitsError;
use isotherm_core::presets::PresetError;
use isotherm_units::{Clock, Duration, Instant, Meter, Ratio, Woken};
use std::collections::BTreeSet;

/// Shortest time between two checks of pressure, the kill file and budgets: our own engines wake hundreds of times a second.
const LOOK: Duration = Duration::from_ms(200);
/// Longest time between two wakeups of the loop, for signals, the guard and the budget.
const TURN: Duration = Duration::from_secs(1);
/// Time between two searches for groups, and the longest, whatever they cost.
const SEARCH: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(120)];
/// Part of `max-cpu` for searches: one of four.
const SEARCH_PART: u64 = 4;
/// Time between two reports of the state, and the longest.
const STATUS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];
/// Part of `max-cpu` for reports: one of eight.
const STATUS_PART: u64 = 8;
/// Most stalled groups that the state names.
const STALLED_MAX: usize = 64;

/// Why the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to stop.
    Stopped,
    /// The time is over.
    TimeOver,
    /// It uses more memory than allowed.
    TooLarge(String),
}

/// Invalid values of a section, which [`Config::check`] reports beforehand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoopError {
    #[error(transparent)]
    Generations(#[from] GenerationsError),
    #[error(transparent)]
    Compaction(#[from] OutOfRange),
    #[error(transparent)]
    Limits(#[from] LimitsError),
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// A defect: a table of the configuration has no row in `control_loop/kinds/mod.rs`.
    #[error("no kind of section carries out the table {0}; please report it")]
    NoKind(String),
}

/// Result of the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopEnd {
    pub end: Ended,
    pub status: Status,
    /// Knobs that could not be restored, as text; they stay in the journal.
    pub left: Vec<String>,
}

/// All that the loop needs in addition to the host.
pub struct Environment<'a> {
    pub world: &'a mut dyn System,
    pub knobs: &'a mut dyn Knobs,
    pub clock: &'a mut dyn Clock,
    pub meter: &'a mut dyn Meter,
    pub log: &'a mut dyn Log,
}

/// The audit, and why its last line could not be written, if so.
struct Audit<'a> {
    log: &'a mut dyn Log,
    mute: Option<Trouble>,
}

impl Audit<'_> {
    /// Records why a section could not read or write.
    fn heed<T>(&mut self, done: Result<T, impl Into<Trouble>>) -> Option<T> {
        done.map_err(|why| self.mute = Some(why.into())).ok()
    }
}

impl Log for Audit<'_> {
    fn line(&mut self, line: &Line) -> Result<(), AuditError> {
        let written = self.log.line(line);
        self.mute = written.clone().err().map(Trouble::Audit);
        written
    }

    fn status(&mut self, status: &Status) {
        self.log.status(status);
    }
}

/// Parts of the loop that it lends to sections.
struct Lent<'a> {
    host: &'a mut dyn LoopHost,
    world: &'a mut dyn System,
    knobs: &'a mut dyn Knobs,
    audit: Audit<'a>,
    watched: Watched,
}

impl Lent<'_> {
    fn context<'b>(&'b mut self, config: &'b Config, guard: &'b Guard, now: Instant) -> Context<'b> {
        Context {
            now,
            config,
            guard,
            host: &mut *self.host,
            world: &mut *self.world,
            knobs: &mut *self.knobs,
            log: &mut self.audit,
            watched: &mut self.watched,
        }
    }
}

/// CPU time, booked piece by piece.
struct Cpu<'a> {
    meter: &'a mut dyn Meter,
    booked: Duration,
}

impl Cpu<'_> {
    /// CPU time since the last call.
    fn book(&mut self) -> Duration {
        let spent = self.meter.spent();
        spent.saturating_sub(std::mem::replace(&mut self.booked, spent))
    }
}

struct ControlLoop<'a> {
    config: Config,
    sections: Vec<Box<dyn Section>>,
    lent: Lent<'a>,
    guard: Guard,
    /// Why no section acts, as reported.
    paused: Option<String>,
    cpu: Cpu<'a>,
    division: Division,
    search: Errand,
    reports: Errand,
    longest_turn: Duration,
}

/// Runs the sections of a configuration over a host until the time is over or it is stopped, and restores the knobs that it wrote.
///
/// # Errors
/// [`LoopError`].
pub fn steer(
    config: &Config,
    length: Option<Duration>,
    host: &mut dyn LoopHost,
    outside: Environment<'_>,
) -> Result<LoopEnd, LoopError> {
    let Environment { world, knobs, clock, meter, log } = outside;
    let start = clock.now();
    let end = length.map(|length| start + length);
    let max_cpu = config.daemon.max_cpu;
    let part = |parts: u64| Ratio::from_ppm(max_cpu.ppm() / parts);
    let booked = meter.spent();
    let mut steering = ControlLoop {
        config: Config::default(),
        sections: Vec::new(),
        lent: Lent { host, world, knobs, audit: Audit { log, mute: None }, watched: Watched::default() },
        guard: Guard::default(),
        paused: None,
        cpu: Cpu { meter, booked },
        division: Division::new(max_cpu, start),
        search: Errand::new(SEARCH[0], SEARCH[1], part(SEARCH_PART)),
        reports: Errand::new(STATUS[0], STATUS[1], part(STATUS_PART)),
        longest_turn: Duration::ZERO,
    };
    steering.take(config.clone(), start)?;
    steering.search(start);
    let mut looked = None;
    let ended = loop {
        let now = clock.now();
        // Sampling has its own times; everything else waits for the next whole turn.
        let others = steering.due(|phase| phase != Phase::Sampling).unwrap_or(now + TURN).min(now + TURN);
        let next = steering.due(|phase| phase == Phase::Sampling).map_or(others, |due| due.min(others));
        let woken = clock.sleep_until(end.map_or(next, |end| next.min(end)));
        let now = clock.now();
        match woken {
            Woken::Stopped => break Ended::Stopped,
            Woken::Reload => {
                steering.cease();
                steering.reload(now);
            }
            Woken::Asked => steering.report(now),
            Woken::Due => {}
        }
        if end.is_some_and(|end| now >= end) {
            break Ended::TimeOver;
        }
        if steering.search.is_due(now) || woken == Woken::Reload {
            steering.search(now);
        }
        let is_quick = now < others && looked.is_some_and(|looked| now.since(looked) < LOOK);
        if !is_quick {
            looked = Some(now);
            steering.guard(now);
        }
        let nr_phases = if is_quick { 1 } else { Phase::ALL.len() };
        Phase::ALL[..nr_phases].iter().for_each(|&phase| steering.run(phase, now));
        steering.longest_turn = steering.longest_turn.max(clock.now().since(now));
        if is_quick {
            continue;
        }
        steering.divide(now);
        let resident = steering.lent.world.resident();
        if let Some(resident) = resident.filter(|&resident| resident > steering.config.daemon.max_memory) {
            break Ended::TooLarge(format!(
                "it holds {} of memory, more than [daemon] max-memory, {}",
                resident.approx(),
                steering.config.daemon.max_memory
            ));
        }
        if steering.reports.is_due(now) {
            steering.report(now);
        }
    };
    steering.cease();
    let left = steering.put_back(clock.now());
    let why = match &ended {
        Ended::Stopped => "somebody ended it".to_owned(),
        Ended::TimeOver => "the time is over".to_owned(),
        Ended::TooLarge(why) => why.clone(),
    };
    let status = steering.status(clock.now());
    let Status { since_start_ns, cpu_ns, resident_bytes, longest_turn_ns, .. } = status;
    steering.tell(Line::Ended { why, since_start_ns, cpu_ns, resident_bytes, longest_turn_ns });
    steering.lent.audit.status(&status);
    Ok(LoopEnd { end: ended, status, left })
}

impl ControlLoop<'_> {
    /// Loads a configuration. Unchanged sections keep their state.
    fn take(&mut self, config: Config, now: Instant) -> Result<(), LoopError> {
        let (before, sections, lines) = (std::mem::take(&mut self.sections), Vec::new(), Vec::new());
        let watched = &mut self.lent.watched;
        let mut taking = Taking { config: &config, now, watched, before, sections, lines };
        let taken = KINDS.iter().try_for_each(|kind| (kind.take)(&mut taking)).and_then(|()| taking.is_whole());
        let Taking { mut before, sections, lines, .. } = taking;
        self.sections = sections;
        if taken.is_err() {
            self.sections.append(&mut before);
            return taken;
        }
        // Removed sections restore their knobs before others write them; engines of the kernel go last.
        before.sort_by_key(|section| section.phase() == Phase::Kernel);
        for mut section in before {
            let mut context = self.lent.context(&self.config, &self.guard, now);
            // What was not restored stays in the journal.
            let written = section.report_rest(now, context.log).and(section.put_back(&mut context));
            section.release(context.host);
            self.lent.audit.heed(written);
        }
        self.tell(Line::Began { sections: config.nr_sections(), acting: config.nr_acting() });
        lines.into_iter().for_each(|line| self.tell(line));
        self.config = config;
        Ok(())
    }

    fn reload(&mut self, now: Instant) {
        let taken = match self.lent.world.configuration() {
            Ok(config) => self.take(config, now).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = taken {
            self.tell(Line::NotReloaded { why });
        }
    }

    /// Searches for groups and processes of all sections.
    fn search(&mut self, now: Instant) {
        self.book_common();
        self.follow(now);
        self.search.done(now, self.cpu.book());
    }

    fn follow(&mut self, now: Instant) {
        self.lent.watched.taken.clear();
        let mut context = self.lent.context(&self.config, &self.guard, now);
        let mut lines = Vec::new();
        for section in &mut self.sections {
            if context.world.has_to_end() {
                break;
            }
            lines.extend(section.follow(&mut context));
        }
        lines.into_iter().for_each(|line| self.tell(line));
        let acting = self.sections.iter().filter(|section| section.head().enabled);
        self.guard.watch(acting.map(|section| (section.head().label.clone(), section.reach())).collect());
    }

    /// Writes a line; the audit records whether that worked.
    fn tell(&mut self, line: Line) {
        let _ = self.lent.audit.line(&line);
    }

    /// Books CPU time that is no section's.
    fn book_common(&mut self) {
        self.division.add_common(self.cpu.book());
    }

    fn guard(&mut self, now: Instant) {
        let limited = || {
            let mut groups = BTreeSet::new();
            self.sections.iter().for_each(|section| section.limited(&mut groups));
            groups
        };
        self.guard.look(&self.config.guard, now, self.lent.world, limited);
        let paused = self.guard.all().map(str::to_owned);
        if paused.is_some() != self.paused.is_some() {
            self.tell(paused.clone().map_or(Line::Resumed, |why| Line::Paused { why }));
        }
        self.paused = paused;
        self.guard.news().into_iter().for_each(|line| self.tell(line));
        self.book_common();
    }

    /// Earliest time at which a section of some phases wants to run.
    fn due(&self, is_meant: impl Fn(Phase) -> bool) -> Option<Instant> {
        let sections = self.sections.iter().filter(|section| is_meant(section.phase()));
        sections.filter_map(|section| section.due().time()).min()
    }

    /// Runs the sections of a phase that are due.
    fn run(&mut self, phase: Phase, now: Instant) {
        for section in self.sections.iter_mut().filter(|section| section.phase() == phase) {
            if section.due().is_now(now) {
                let mut context = self.lent.context(&self.config, &self.guard, now);
                let ran = section.run(&mut context);
                self.lent.audit.heed(ran);
                section.head_mut().pace.ran(now, self.cpu.book());
            }
        }
    }

    /// Divides `max-cpu` among sections, if it is time.
    fn divide(&mut self, now: Instant) {
        let errands = self.search.rate().saturating_add(self.reports.rate());
        let mut lines = Vec::new();
        self.division.divide(now, errands, &mut self.sections, |section, stretch| {
            lines.push(Line::Paced { section: Some(section.head().label.clone()), stretch });
        });
        lines.into_iter().for_each(|line| self.tell(line));
    }

    /// Stops work between turns.
    fn cease(&mut self) {
        self.sections.iter_mut().for_each(|section| section.cease(self.lent.host));
    }

    /// Restores everything. Returns the knobs that could not be restored.
    fn put_back(&mut self, now: Instant) -> Vec<String> {
        for section in &mut self.sections {
            let written = section.report_rest(now, &mut self.lent.audit);
            self.lent.audit.heed(written);
        }
        let mut left = Vec::new();
        for section in &mut self.sections {
            let put = section.put_back(&mut self.lent.context(&self.config, &self.guard, now));
            left.extend(self.lent.audit.heed(put).unwrap_or_default());
        }
        left
    }

    fn report(&mut self, now: Instant) {
        self.book_common();
        let status = self.status(now);
        self.lent.audit.status(&status);
        self.reports.done(now, self.cpu.book());
    }

    fn status(&mut self, now: Instant) -> Status {
        let Lent { world, audit, .. } = &mut self.lent;
        let resident = world.resident();
        Status {
            paused: audit
                .mute
                .as_ref()
                .map(ToString::to_string)
                .or_else(|| self.guard.all().map(str::to_owned))
                .or_else(|| self.guard.everything()),
            stalled: self.guard.stalled().into_iter().take(STALLED_MAX).collect(),
            stretch: self.sections.iter().map(|section| section.head().pace.stretch()).max().unwrap_or(1),
            longest_turn_ns: self.longest_turn.ns(),
            sections: self.sections.iter().map(|section| section.status(now, &mut **world)).collect(),
            ..Status::at(now, self.cpu.meter.total(), resident)
        }
    }
}
