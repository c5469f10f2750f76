//! The guard: sections do not act where memory is short, or while an operator asks for it.
//!
//! What holds a section back is pressure that its own writes can cause: that of the groups that it acts on, and of the machine for one that
//! acts on memory of everyone. A group that no section acts on holds back none.

mod groups;
mod machine;
mod meter;
mod reach;

pub(super) use reach::{Reach, takes_from_all};

use super::System;
use super::line::{Line, Stalled};
use crate::config::GuardConfig;
use groups::{Groups, Watched};
use isotherm_units::{Duration, Instant, Ratio};
use machine::Machine;
use meter::Meter;
use std::collections::{BTreeMap, BTreeSet};

/// Shortest time over which a share is computed.
const WINDOW: Duration = Duration::from_secs(1);
/// Name of the machine in lines and in the state.
const MACHINE: &str = "machine";
const NOT_KNOWN: &str = "pressure is not known yet: it takes a second";
const NO_PSI: &str = "this kernel does not tell memory pressure (PSI), so that nobody would see harm: boot with psi=1, or switch the guard \
                      off by [guard] pressure-full = \"100%\"";
const GOES_ON: &str = "it goes on after a minute below half of it";

/// Whether sections may act.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    limit: Ratio,
    /// Time and total of the last reading of the machine's pressure.
    before: Option<(Instant, Duration)>,
    /// There were two readings in a row.
    is_known: bool,
    /// Why no section may act.
    all: Option<String>,
    machine: Machine,
    groups: Groups,
    /// What sections that may act can stall, by table and name.
    reaches: BTreeMap<String, Reach>,
    /// What was reported to wait for memory.
    told: BTreeSet<String>,
}

impl Guard {
    /// A guard of the machine alone.
    pub(crate) fn of_machine() -> Self {
        Self { reaches: BTreeMap::from([(MACHINE.to_owned(), Reach::machine())]), ..Self::default() }
    }

    /// Why nothing may act on memory of everyone, if that is pressure.
    pub(crate) fn machine_tripped(&self) -> Option<String> {
        self.machine.meter.has_tripped().then(|| self.words_of_machine())
    }

    /// Takes what sections that may act can stall, by table and name.
    pub(super) fn watch(&mut self, reaches: BTreeMap<String, Reach>) {
        self.reaches = reaches;
        self.groups.watch(self.reaches.values().flat_map(|reach| &reach.groups).collect());
        if !self.acts_on_machine() {
            self.machine = Machine::default();
        }
    }

    /// Reads what is due. `limited`: groups with a limit of ours.
    pub(crate) fn look(
        &mut self,
        config: &GuardConfig,
        now: Instant,
        world: &mut dyn System,
        limited: impl Fn() -> BTreeSet<String>,
    ) {
        self.limit = config.pressure_full;
        let measured = self.measure(now, world, limited);
        let file = || format!("the file {} is there; remove it to go on", config.file);
        self.all = if world.is_there(&config.file) { Some(file()) } else { measured.err().map(str::to_owned) };
    }

    fn measure(
        &mut self,
        now: Instant,
        world: &mut dyn System,
        limited: impl Fn() -> BTreeSet<String>,
    ) -> Result<(), &'static str> {
        if self.is_off() {
            (self.before, self.machine) = (None, Machine::default());
            self.groups.forget();
            return Ok(());
        }
        if self.before.is_some_and(|(since, _)| now.since(since) < WINDOW) {
            return if self.is_known { Ok(()) } else { Err(NOT_KNOWN) };
        }
        let Some(total) = world.full_stall() else {
            (self.before, self.is_known) = (None, false);
            return Err(NO_PSI);
        };
        let before = self.before.replace((now, total));
        // The first reading is compared with the second.
        self.is_known = before.is_some();
        self.groups.look(self.limit, now, total, world);
        if let Some((since, before)) = before.filter(|_| self.acts_on_machine()) {
            let share = meter::share(before, total, now.since(since));
            self.machine.look(self.limit, share, now, world, limited);
        }
        if self.is_known { Ok(()) } else { Err(NOT_KNOWN) }
    }

    fn is_off(&self) -> bool {
        self.limit >= Ratio::ONE
    }

    fn acts_on_machine(&self) -> bool {
        self.reaches.values().any(|reach| reach.machine)
    }

    /// Why no section may act; `None` if some may.
    pub(super) fn all(&self) -> Option<&str> {
        self.all.as_deref()
    }

    /// Why a section may act on nothing, by its table and name; `None` if it may act on something.
    pub(super) fn whole(&self, section: &str) -> Option<String> {
        let reach = match self.reach(section) {
            Ok(reach) => reach?,
            Err(why) => return Some(why),
        };
        let mut groups = reach.groups.iter().map(|path| self.group(path));
        let first = groups.next()??;
        groups.all(|why| why.is_some()).then_some(first)
    }

    /// Why a section may not act on all that it is for, by its table and name. A group whose pressure is not known yet does not count.
    pub(super) fn any(&self, section: &str) -> Option<String> {
        let reach = match self.reach(section) {
            Ok(reach) => reach?,
            Err(why) => return Some(why),
        };
        let meters = || reach.groups.iter().filter_map(|path| self.groups.of(path));
        let stalled = meters().find(|(_, watched)| watched.meter.has_tripped());
        let is_known = reach.groups.is_empty() || meters().any(|(_, watched)| watched.meter.share.is_some());
        stalled.map(|(path, _)| self.words_of_group(path)).or_else(|| (!is_known).then(|| NOT_KNOWN.to_owned()))
    }

    /// Why nothing may act on a group; `None` if it may.
    pub(super) fn group(&self, path: &str) -> Option<String> {
        if self.all.is_some() || self.is_off() {
            return self.all.clone();
        }
        match self.groups.of(path) {
            Some((path, Watched { meter, .. })) => verdict(meter, || self.words_of_group(path)),
            None if self.acts_on_machine() => verdict(&self.machine.meter, || self.words_of_machine()),
            None => Some(NOT_KNOWN.to_owned()),
        }
    }

    /// What a section can stall; `None` while the guard is off.
    ///
    /// # Errors
    /// Why nothing of it may act, whatever its groups are.
    fn reach(&self, section: &str) -> Result<Option<&Reach>, String> {
        if let Some(why) = &self.all {
            return Err(why.clone());
        }
        if self.is_off() {
            return Ok(None);
        }
        let reach = self.reaches.get(section).ok_or(NOT_KNOWN)?;
        let machine = reach.machine.then(|| verdict(&self.machine.meter, || self.words_of_machine()));
        machine.flatten().map_or(Ok(Some(reach)), Err)
    }

    /// Why each section that may act acts on nothing now; `None` if one of them may.
    pub(super) fn everything(&self) -> Option<String> {
        let mut whys = self.reaches.keys().map(|section| self.whole(section));
        let first = whys.next()??;
        whys.all(|why| why.is_some()).then_some(first)
    }

    /// What waits for memory, and which sections do not act on it.
    pub(super) fn stalled(&self) -> Vec<Stalled> {
        let machine = Some((MACHINE, &self.machine.meter)).filter(|_| self.acts_on_machine());
        let groups = self.groups.all().map(|(path, watched)| (path.as_str(), &watched.meter));
        let tripped = machine.into_iter().chain(groups).filter(|(_, meter)| meter.has_tripped());
        let stalled = |(target, meter): (&str, &Meter)| Stalled {
            target: target.to_owned(),
            sections: self.sections_on(target),
            share_ppm: meter.share.map_or(0, Ratio::ppm),
        };
        tripped.map(stalled).collect()
    }

    fn sections_on(&self, target: &str) -> Vec<String> {
        let is_meant = |reach: &Reach| if target == MACHINE { reach.machine } else { reach.groups.contains(target) };
        self.reaches.iter().filter(|(_, reach)| is_meant(reach)).map(|(section, _)| section.clone()).collect()
    }

    /// Lines about what waits for memory, or does not any more, since the last call.
    pub(super) fn news(&mut self) -> Vec<Line> {
        let stalled = self.stalled();
        let now: BTreeSet<String> = stalled.iter().map(|one| one.target.clone()).collect();
        let began = stalled.into_iter().filter(|one| !self.told.contains(&one.target)).map(Line::Stalled);
        let ended = self.told.difference(&now).map(|target| Line::Calmed { target: target.clone() });
        let lines = began.chain(ended).collect();
        self.told = now;
        lines
    }

    fn words_of_machine(&self) -> String {
        format!(
            "all tasks waited for memory for more than {} of the time, those of groups at a limit of their own left out; {GOES_ON}",
            self.limit
        )
    }

    fn words_of_group(&self, path: &str) -> String {
        format!("all tasks of {path} waited for memory for more than {} of the time; {GOES_ON}", self.limit)
    }
}

/// Why nothing may act on what this meter is of.
fn verdict(meter: &Meter, words: impl FnOnce() -> String) -> Option<String> {
    match meter.share {
        None => Some(NOT_KNOWN.to_owned()),
        Some(_) => meter.has_tripped().then(words),
    }
}
