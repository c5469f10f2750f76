//! The loop itself.

use super::compaction::Compaction;
use super::generations::GenerationsSection;
use super::guard::Guard;
use super::limits::LimitsSection;
use super::line::{Line, Status};
use super::own::{self, Own};
use super::switch::{Spec, Switch};
use super::{Knobs, Log, SteerHost, World};
use crate::config::Config;
use crate::{Budget, Clock, Meter, Woken};
use isotherm_core::compaction::CompactionError;
use isotherm_core::generations::GenerationsError;
use isotherm_core::host::{Compacting, GenerationsHost};
use isotherm_core::limits::LimitsError;
use isotherm_core::monitor::context_seed;
use isotherm_core::presets::PresetError;
use isotherm_units::{Duration, Instant};
use std::collections::BTreeMap;

/// What is looked at beside the sections (pressure, the kill file, budgets) is looked at so often at most: engines of our own wake hundreds
/// of times a second.
const LOOK: Duration = Duration::from_ms(200);
/// The loop wakes at least so often, for signals, the guard and the budget.
const TURN: Duration = Duration::from_secs(1);
/// Time between two looks at which groups there are.
const FOLLOW: Duration = Duration::from_secs(10);
/// Time between two reports of the state.
const STATUS: Duration = Duration::from_secs(5);

/// Why the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody asked for it.
    Stopped,
    /// The time is over.
    TimeOver,
    /// It holds more memory than it may.
    TooLarge(String),
}

/// Values of a section that make no sense, which [`Config::check`] tells beforehand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteerError {
    #[error(transparent)]
    Generations(#[from] GenerationsError),
    #[error(transparent)]
    Compaction(#[from] CompactionError),
    #[error(transparent)]
    Limits(#[from] LimitsError),
    #[error(transparent)]
    Preset(#[from] PresetError),
}

/// What the loop came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steered {
    pub end: Ended,
    pub status: Status,
    /// What could not be put back, in words: it stays in the journal.
    pub left: Vec<String>,
}

/// All that the loop needs beside the host.
pub struct Outside<'a> {
    pub world: &'a mut dyn World,
    pub knobs: &'a mut dyn Knobs,
    pub clock: &'a mut dyn Clock,
    pub meter: &'a mut dyn Meter,
    pub log: &'a mut dyn Log,
}

struct Steering<'a> {
    config: Config,
    sections: Vec<GenerationsSection>,
    switches: Vec<Switch>,
    limits: Vec<LimitsSection>,
    compactions: Vec<Compaction>,
    own: Vec<Own>,
    /// The number of the next target of an engine of our own.
    next_target: u32,
    /// Engines so far, which makes their seeds.
    nr_engines: u32,
    guard: Guard,
    log: &'a mut dyn Log,
    /// Why lines cannot be written, if so.
    mute: Option<String>,
    paused: Option<String>,
    longest_turn: Duration,
}

/// Runs the sections of a configuration over a host, until the time is over or somebody ends it, and puts back the knobs that it wrote.
///
/// # Errors
/// [`SteerError`].
pub fn steer<H: SteerHost>(
    config: &Config,
    length: Option<Duration>,
    host: &mut H,
    outside: Outside<'_>,
) -> Result<Steered, SteerError> {
    let Outside { world, knobs, clock, meter, log } = outside;
    let start = clock.now();
    let end = length.map(|length| start + length);
    let mut budget = Budget::new(config.daemon.max_cpu, start, meter.spent());
    let mut steering = Steering {
        config: Config::default(),
        sections: Vec::new(),
        switches: Vec::new(),
        limits: Vec::new(),
        compactions: Vec::new(),
        own: Vec::new(),
        next_target: 0,
        nr_engines: 0,
        guard: Guard::default(),
        log,
        mute: None,
        paused: None,
        longest_turn: Duration::ZERO,
    };
    steering.take(config.clone(), start, host, world, knobs)?;
    steering.follow(start, host, world, knobs);
    let (mut followed, mut reported, mut looked) = (start, None, None);
    let ended = loop {
        let now = clock.now();
        let sections = steering.sections.iter().filter_map(|section| section.due::<H>(budget.stretch()));
        let limits = steering.limits.iter().filter_map(|section| section.due::<H>(budget.stretch()));
        let compactions = steering.compactions.iter().filter_map(|section| section.due(budget.stretch()));
        let due = sections.chain(limits).chain(compactions).min();
        let own = steering.own.iter().filter_map(|section| section.due(budget.stretch())).min();
        let others = due.unwrap_or(now + TURN).min(now + TURN);
        let next = own.map_or(others, |own| own.min(others));
        let woken = clock.sleep_until(end.map_or(next, |end| next.min(end)));
        let now = clock.now();
        match woken {
            Woken::Stopped => break Ended::Stopped,
            Woken::Reload => {
                steering.stop(host);
                steering.reload(now, host, world, knobs);
            }
            Woken::Due => {}
        }
        if end.is_some_and(|end| now >= end) {
            break Ended::TimeOver;
        }
        if now.since(followed) >= FOLLOW || woken == Woken::Reload {
            followed = now;
            steering.follow(now, host, world, knobs);
        }
        let is_quick = now < others && looked.is_some_and(|looked| now.since(looked) < LOOK);
        if !is_quick {
            looked = Some(now);
            steering.guard(now, world);
        }
        steering.run_own(now, budget.stretch(), host, world);
        if is_quick {
            steering.longest_turn = steering.longest_turn.max(clock.now().since(now));
            continue;
        }
        for index in 0..steering.sections.len() {
            if steering.sections[index].due::<H>(budget.stretch()).is_some_and(|due| due <= now) {
                steering.run(index, now, host, world);
            }
        }
        for index in 0..steering.limits.len() {
            if steering.limits[index].due::<H>(budget.stretch()).is_some_and(|due| due <= now) {
                steering.size(index, now, host, world, knobs);
            }
        }
        steering.switch(now, world, knobs);
        steering.compact(now, host, budget.stretch());
        steering.longest_turn = steering.longest_turn.max(clock.now().since(now));
        if let Some(stretch) = budget.look(now, meter.spent()) {
            steering.tell(Line::Paced { stretch });
        }
        let resident = world.resident();
        if let Some(resident) = resident.filter(|&resident| resident > steering.config.daemon.max_memory) {
            break Ended::TooLarge(format!(
                "it holds {} of memory, more than [daemon] max-memory, {}",
                resident.approx(),
                steering.config.daemon.max_memory
            ));
        }
        if reported.is_none_or(|reported| now.since(reported) >= STATUS) {
            reported = Some(now);
            let status = steering.status::<H>(now, budget.stretch(), meter, world);
            steering.log.status(&status);
        }
    };
    steering.stop(host);
    steering.tell_own(clock.now());
    let left = steering.put_back(world, knobs);
    let why = match &ended {
        Ended::Stopped => "somebody ended it".to_owned(),
        Ended::TimeOver => "the time is over".to_owned(),
        Ended::TooLarge(why) => why.clone(),
    };
    let status = steering.status::<H>(clock.now(), budget.stretch(), meter, world);
    let Status { since_start_ns, cpu_ns, resident_bytes, longest_turn_ns, .. } = status;
    steering.tell(Line::Ended { why, since_start_ns, cpu_ns, resident_bytes, longest_turn_ns });
    steering.log.status(&status);
    Ok(Steered { end: ended, status, left })
}

impl Steering<'_> {
    /// Takes a configuration. Sections that stay as they are go on with what they know.
    fn take<H: SteerHost>(
        &mut self,
        config: Config,
        now: Instant,
        host: &mut H,
        world: &mut dyn World,
        knobs: &mut dyn Knobs,
    ) -> Result<(), SteerError> {
        let mut before = std::mem::take(&mut self.sections);
        let mut lines = Vec::new();
        for spec in &config.generations {
            let kept = before.iter().position(|section| section.spec == *spec);
            let section = match kept {
                Some(at) => before.remove(at),
                None => {
                    let section = GenerationsSection::new(spec, now)?;
                    lines.push(section.began());
                    section
                }
            };
            self.sections.push(section);
        }
        let mut before = std::mem::take(&mut self.switches);
        for spec in Spec::all(&config) {
            let kept = before.iter().position(|switch| switch.spec == spec);
            let switch = match kept {
                Some(at) => before.remove(at),
                None => {
                    let switch = Switch::new(&spec, now)?;
                    lines.push(switch.began());
                    switch
                }
            };
            self.switches.push(switch);
        }
        let mut sized = std::mem::take(&mut self.limits);
        for spec in &config.limits {
            let kept = sized.iter().position(|section| section.spec == *spec);
            let section = match kept {
                Some(at) => sized.remove(at),
                None => {
                    let section = LimitsSection::new(spec)?;
                    lines.push(section.began());
                    section
                }
            };
            self.limits.push(section);
        }
        for mut section in sized {
            self.mute = section.put_back(knobs, self.log).err();
        }
        let mut earlier = std::mem::take(&mut self.compactions);
        for spec in config.compaction.iter().filter(|section| !section.is_kernels()) {
            let kept = earlier.iter().position(|section| section.spec == *spec);
            let section = match kept {
                Some(at) => earlier.remove(at),
                None => {
                    let section = Compaction::new(spec, now)?;
                    lines.push(section.began());
                    section
                }
            };
            self.compactions.push(section);
        }
        let mut own = std::mem::take(&mut self.own);
        for spec in own::Spec::all(&config) {
            let kept = own.iter_mut().position(|section| section.spec == spec || section.adjust(&spec, now));
            let section = match kept {
                Some(at) => own.remove(at),
                None => {
                    let seed = context_seed(1, self.nr_engines);
                    self.nr_engines += 1;
                    let section = Own::new(&spec, seed, now);
                    lines.push(section.began());
                    section
                }
            };
            self.own.push(section);
        }
        for mut section in own {
            self.mute = section.tell_rest(now, self.log).err();
            section.stop(host);
        }
        // Those that are gone leave their knobs before others take them.
        for mut switch in before {
            self.mute = switch.put_back(world, knobs, self.log).err();
        }
        self.tell(Line::Began { sections: config.nr_sections(), acting: config.nr_acting() });
        lines.into_iter().for_each(|line| self.tell(line));
        self.config = config;
        Ok(())
    }

    fn reload<H: SteerHost>(&mut self, now: Instant, host: &mut H, world: &mut dyn World, knobs: &mut dyn Knobs) {
        let taken = match world.configuration() {
            Ok(config) => self.take(config, now, host, world, knobs).map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        if let Err(why) = taken {
            self.tell(Line::NotReloaded { why });
        }
    }

    fn follow<H: SteerHost>(&mut self, now: Instant, host: &mut H, world: &mut dyn World, knobs: &mut dyn Knobs) {
        let mut lines = Vec::new();
        for section in &mut self.sections {
            lines.extend(section.follow(&self.config, world));
        }
        for switch in &mut self.switches {
            lines.extend(switch.follow(&self.config, world));
        }
        for section in &mut self.limits {
            lines.extend(section.follow(now, &self.config, world, knobs));
        }
        let mut taken = BTreeMap::new();
        for section in &mut self.own {
            lines.extend(section.follow(now, &self.config, host, world, &mut self.next_target, &taken));
            taken.extend(section.taken());
        }
        lines.into_iter().for_each(|line| self.tell(line));
    }

    fn tell(&mut self, line: Line) {
        self.mute = self.log.line(&line).err();
    }

    fn guard(&mut self, now: Instant, world: &mut dyn World) {
        let paused = self.guard.look(&self.config.guard, now, world);
        if paused.is_some() != self.paused.is_some() {
            self.tell(paused.clone().map_or(Line::Resumed, |why| Line::Paused { why }));
        }
        self.paused = paused;
    }

    fn run<H: GenerationsHost>(&mut self, index: usize, now: Instant, host: &mut H, world: &mut dyn World) {
        let ran = self.sections[index].run(now, host, world, self.paused.as_deref(), self.log);
        self.mute = ran.err();
    }

    fn size<H: GenerationsHost>(
        &mut self,
        index: usize,
        now: Instant,
        host: &mut H,
        world: &mut dyn World,
        knobs: &mut dyn Knobs,
    ) {
        let ran = self.limits[index].run(now, host, (world, knobs), self.paused.as_deref(), self.log);
        self.mute = ran.err();
    }

    fn run_own<H: SteerHost>(&mut self, now: Instant, stretch: u32, host: &mut H, world: &mut dyn World) {
        for section in &mut self.own {
            if section.due(stretch).is_some_and(|due| due <= now)
                && let Err(why) =
                    section.run(now, stretch, host, world, (self.paused.as_deref(), &self.config.guard.file), self.log)
            {
                self.mute = Some(why);
            }
        }
    }

    fn switch(&mut self, now: Instant, world: &mut dyn World, knobs: &mut dyn Knobs) {
        for switch in &mut self.switches {
            if let Err(why) = switch.turn(now, world, knobs, self.paused.as_deref(), self.log) {
                self.mute = Some(why);
            }
        }
    }

    fn compact(&mut self, now: Instant, host: &mut dyn Compacting, stretch: u32) {
        for section in &mut self.compactions {
            if section.due(stretch).is_some_and(|due| due <= now)
                && let Err(why) = section.run(now, host, self.paused.as_deref(), self.log)
            {
                self.mute = Some(why);
            }
        }
    }

    /// Compaction that is under way ends.
    fn stop(&mut self, host: &mut dyn Compacting) {
        self.compactions.iter_mut().for_each(|section| section.stop(host));
    }

    /// What engines of our own did, and did not tell yet.
    fn tell_own(&mut self, now: Instant) {
        for section in &mut self.own {
            self.mute = section.tell_rest(now, self.log).err();
        }
    }

    /// Everything holds again what it held before.
    fn put_back(&mut self, world: &mut dyn World, knobs: &mut dyn Knobs) -> Vec<String> {
        let mut left = Vec::new();
        for switch in &mut self.switches {
            match switch.put_back(world, knobs, self.log) {
                Ok(trouble) => left.extend(trouble),
                Err(why) => self.mute = Some(why),
            }
        }
        for section in &mut self.limits {
            match section.put_back(knobs, self.log) {
                Ok(trouble) => left.extend(trouble),
                Err(why) => self.mute = Some(why),
            }
        }
        left
    }

    fn status<H: GenerationsHost>(
        &self,
        now: Instant,
        stretch: u32,
        meter: &mut dyn Meter,
        world: &mut dyn World,
    ) -> Status {
        let resident = world.resident();
        let sections = self.sections.iter().map(GenerationsSection::status::<H>);
        let switches = self.switches.iter().map(|switch| switch.status(world));
        let limits = self.limits.iter().map(LimitsSection::status);
        let compactions = self.compactions.iter().map(Compaction::status);
        let own = self.own.iter().map(Own::status);
        Status {
            paused: self.mute.clone().or_else(|| self.paused.clone()),
            stretch,
            longest_turn_ns: self.longest_turn.ns(),
            sections: sections.chain(switches).chain(limits).chain(compactions).chain(own).collect(),
            ..Status::at(now, meter.spent(), resident)
        }
    }
}
