//! Sections that an engine of our own carries out: `core` decides, and looks at processes by the accessed-bit module; the kernel moves
//! pages when it is told to.

mod engine;
mod gate;
mod sums;

use super::gate::{Permit, Spared};
use super::line::{Line, SectionStatus};
use super::whom::whom_of;
use super::{Log, SteerHost, World};
use crate::config::{Config, MonitorsConfig, TieringConfig};
use engine::Engine;
use gate::Gate;
use isotherm_core::host::TargetId;
use isotherm_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use sums::Sums;

/// Processes that one section watches at most.
const PROCESSES_MAX: usize = 256;
/// What failed is tried again after so long.
const RETRY: Duration = Duration::from_secs(60);
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spec {
    Monitors(MonitorsConfig),
    Tiering(TieringConfig),
}

impl Spec {
    /// Those of a configuration that are ours.
    pub(super) fn all(config: &Config) -> Vec<Self> {
        let monitors = config.monitors.iter().filter(|section| section.is_own()).cloned().map(Self::Monitors);
        let tiering = config.tiering.iter().filter(|section| section.is_own()).cloned().map(Self::Tiering);
        monitors.chain(tiering).collect()
    }

    fn enable(&self) -> bool {
        match self {
            Self::Monitors(spec) => spec.enable,
            Self::Tiering(spec) => spec.enable,
        }
    }

    fn targets(&self) -> &[String] {
        match self {
            Self::Monitors(spec) => &spec.targets,
            Self::Tiering(spec) => &spec.targets,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Monitors(spec) => format!("monitors.{}", spec.name),
            Self::Tiering(_) => "tiering.isotherm".to_owned(),
        }
    }

    const fn engine(&self) -> &'static str {
        match self {
            Self::Monitors(_) => "isotherm: monitor and schemes",
            Self::Tiering(_) => "isotherm: promotion",
        }
    }

    fn why(&self) -> String {
        match self {
            Self::Monitors(spec) => spec.why_own().to_owned(),
            Self::Tiering(_) => "the policy is a scan daemon, which no kernel has".to_owned(),
        }
    }
}

/// A section that runs.
#[derive(Debug)]
pub(super) struct Own {
    label: String,
    pub(super) spec: Spec,
    engine: Engine,
    seed: u64,
    /// When it ran last, and when it may again at the earliest.
    ran: Instant,
    rests_until: Instant,
    stretch: u32,
    groups: Vec<String>,
    spared: Spared,
    told_spared: BTreeSet<String>,
    /// By number of the process.
    processes: BTreeMap<u32, TargetId>,
    names: BTreeMap<TargetId, String>,
    /// The entry of `targets` that a process belongs to, by number of the process.
    entries: BTreeMap<u32, String>,
    /// Processes that could not be watched, so that it is not tried each time.
    unwatched: BTreeSet<u32>,
    sums: Sums,
    tried: Option<Instant>,
    trouble: Option<String>,
    state: String,
    runs: u64,
}

impl Own {
    /// `seed` decides where samples fall; sections of one daemon get different ones.
    pub(super) fn new(spec: &Spec, seed: u64, now: Instant) -> Self {
        Self {
            label: spec.label(),
            spec: spec.clone(),
            engine: Engine::None,
            seed,
            ran: now,
            rests_until: now,
            stretch: 1,
            groups: Vec::new(),
            spared: Spared { acts: spec.enable(), ..Spared::default() },
            told_spared: BTreeSet::new(),
            processes: BTreeMap::new(),
            names: BTreeMap::new(),
            entries: BTreeMap::new(),
            unwatched: BTreeSet::new(),
            sums: Sums::default(),
            tried: None,
            trouble: None,
            state: "has not run yet".to_owned(),
            runs: 0,
        }
    }

    pub(super) fn began(&self) -> Line {
        let (section, engine) = (self.label.clone(), self.spec.engine());
        Line::Section { section, engine, enabled: self.spec.enable(), why: self.spec.why() }
    }

    /// Takes another section in place of its own, if its daemon can be brought there by its controls. Whether it could.
    pub(super) fn adjust(&mut self, spec: &Spec, now: Instant) -> bool {
        let (Spec::Tiering(new), Spec::Tiering(old)) = (spec, &self.spec) else { return false };
        let Some(controls) = new.controls_from(old) else { return false };
        let scales: Vec<(TargetId, u32)> = self
            .processes
            .iter()
            .filter_map(|(process, target)| {
                let entry = self.entries.get(process)?;
                Some((*target, new.scales.get(entry).copied().unwrap_or(1)))
            })
            .collect();
        let is_done = self.engine.control(&controls, &scales, now);
        if is_done {
            self.spec = spec.clone();
        }
        is_done
    }

    /// Looks which processes there are. `numbers` gives targets their numbers; other sections have taken some, by number.
    pub(super) fn follow<H: SteerHost>(
        &mut self,
        now: Instant,
        config: &Config,
        host: &mut H,
        world: &mut dyn World,
        numbers: &mut u32,
        taken: &BTreeMap<u32, String>,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        self.spared.protected.clone_from(&config.daemon.protect);
        let mut there = match self.there(config, world, &mut lines) {
            Ok(there) => there,
            Err(why) => {
                lines.extend(self.troubled(Some(why)));
                return lines;
            }
        };
        if let Err(why) = self.may_look(now, host, world) {
            self.stop(host);
            self.state.clone_from(&why);
            lines.extend(self.troubled(Some(why)));
            return lines;
        }
        let others = there.keys().find_map(|process| Some((*process, taken.get(process)?.clone())));
        there.retain(|process, _| !taken.contains_key(process));
        let gone: Vec<u32> = self
            .processes
            .iter()
            .filter(|(process, target)| !there.contains_key(process) || !host.is_as_adopted(**target))
            .map(|(process, _)| *process)
            .collect();
        for process in gone {
            self.let_go(process, host);
        }
        self.unwatched.retain(|process| there.contains_key(process));
        // Two that clear accessed bits of one process take each other's away.
        let mut trouble = others.map(|(process, section)| {
            format!("process {process} is looked at by {section} already, and is left to it; give each its own targets")
        });
        for (process, group) in there {
            if self.processes.contains_key(&process) || self.unwatched.contains(&process) {
                continue;
            }
            if self.processes.len() >= PROCESSES_MAX {
                trouble = Some(format!("more than {PROCESSES_MAX} processes: the others are not watched"));
                break;
            }
            let target = TargetId(*numbers);
            *numbers += 1;
            // Gone again.
            if host.adopt(target, process).is_err() {
                continue;
            }
            match self.engine.enter(&self.spec, self.seed, target, now, self.stretch, host) {
                Ok(()) => {
                    if let Spec::Tiering(spec) = &self.spec
                        && let Some(scale) = self.entries.get(&process).and_then(|entry| spec.scales.get(entry))
                    {
                        self.engine.control(&[], &[(target, *scale)], now);
                    }
                    self.processes.insert(process, target);
                    self.names.insert(target, format!("{group} (process {process})"));
                }
                Err(why) => {
                    host.dismiss(target);
                    self.unwatched.insert(process);
                    trouble = Some(why);
                }
            }
        }
        if self.processes.is_empty() && trouble.is_none() {
            trouble = Some(format!("none of its processes is there now: {}", self.spec.targets().join(", ")));
        }
        lines.extend(self.troubled(trouble));
        lines
    }

    /// Processes of its groups, but for groups that are left alone, with the paths of the groups.
    fn there(
        &mut self,
        config: &Config,
        world: &mut dyn World,
        lines: &mut Vec<Line>,
    ) -> Result<BTreeMap<u32, String>, String> {
        let (mut groups, mut there, mut entries) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        for (one, entry) in whom_of(self.spec.targets(), config, world)? {
            groups.insert(one.top.clone());
            if !one.is_spared(&mut self.spared, world) {
                there.extend(one.processes.iter().map(|&process| (process, one.group.clone())));
                entries.extend(one.processes.iter().map(|&process| (process, entry.to_owned())));
            }
        }
        self.entries = entries;
        let section = || self.label.clone();
        let before: BTreeSet<String> = self.groups.iter().cloned().collect();
        lines
            .extend(groups.difference(&before).map(|target| Line::Came { section: section(), target: target.clone() }));
        lines
            .extend(before.difference(&groups).map(|target| Line::Went { section: section(), target: target.clone() }));
        for (target, why) in &self.spared.met {
            if self.told_spared.insert(target.clone()) {
                lines.push(Line::LeftAlone { section: section(), target: target.clone(), why: why.clone() });
            }
        }
        self.groups = groups.into_iter().collect();
        Ok(there)
    }

    /// Whether the module is there, and nobody else does the same work.
    fn may_look<H: SteerHost>(&mut self, now: Instant, host: &mut H, world: &mut dyn World) -> Result<(), String> {
        if let Spec::Tiering(_) = self.spec
            && world.value(BALANCING)?.is_some_and(|mode| mode.trim() != "0")
        {
            return Err("kernel.numa_balancing is on: the kernel moves pages between nodes too, and two would undo \
                        each other's work; switch it off, or leave it to the kernel with policy = \"numa-mode-2\""
                .to_owned());
        }
        if self.tried.is_some_and(|tried| now.since(tried) < RETRY) {
            return self.trouble.clone().map_or(Ok(()), Err);
        }
        match host.can_look() {
            Ok(()) => {
                self.tried = None;
                Ok(())
            }
            Err(error) => {
                self.tried = Some(now);
                Err(error.to_string())
            }
        }
    }

    /// Processes that it watches, with its name.
    pub(super) fn taken(&self) -> impl Iterator<Item = (u32, String)> + '_ {
        self.processes.keys().map(|&process| (process, self.label.clone()))
    }

    fn let_go<H: SteerHost>(&mut self, process: u32, host: &mut H) {
        let Some(target) = self.processes.remove(&process) else { return };
        host.dismiss(target);
        self.engine.exit(target);
        self.names.remove(&target);
    }

    /// Ends: nothing is watched any more. It can begin anew.
    pub(super) fn stop<H: SteerHost>(&mut self, host: &mut H) {
        for target in std::mem::take(&mut self.processes).into_values() {
            host.dismiss(target);
        }
        self.names.clear();
        self.unwatched.clear();
        self.engine = Engine::None;
    }

    /// A line, if what is in its way has changed.
    fn troubled(&mut self, trouble: Option<String>) -> Option<Line> {
        if trouble == self.trouble {
            return None;
        }
        self.trouble.clone_from(&trouble);
        trouble.map(|why| Line::Trouble { section: self.label.clone(), why })
    }

    /// When it wants to run. `stretch`: so many times less often than it was asked for.
    pub(super) fn due(&self, stretch: u32) -> Option<Instant> {
        let due = self.engine.poll_timeout()?;
        let due = if self.engine.is_stretched_inside() {
            due
        } else {
            self.ran + due.since(self.ran).saturating_mul(u64::from(stretch))
        };
        Some(due.max(self.rests_until))
    }

    /// Runs once. `withheld`: why nothing may act now.
    ///
    /// # Errors
    /// The audit cannot be written, in words.
    pub(super) fn run<H: SteerHost>(
        &mut self,
        now: Instant,
        stretch: u32,
        host: &mut H,
        world: &mut dyn World,
        (withheld, kill_file): (Option<&str>, &str),
        log: &mut dyn Log,
    ) -> Result<(), String> {
        let permit = match withheld {
            _ if !self.spec.enable() => Permit::Observe,
            Some(why) => Permit::Withheld(why.to_owned()),
            None => Permit::Act,
        };
        if stretch != self.stretch {
            self.stretch = stretch;
            self.engine.stretch(&self.spec, stretch, host);
        }
        self.runs += 1;
        self.ran = now;
        let mut gate = Gate {
            host,
            world,
            log: &mut *log,
            permit: &permit,
            kill_file,
            label: &self.label,
            targets: &self.names,
            sums: &mut self.sums,
            spent: Duration::ZERO,
            mute: None,
        };
        let trouble = self.engine.run(now, &mut gate);
        let (spent, mute) = (gate.spent, gate.mute.take());
        // Work that is under way is spread, as intervals are.
        self.rests_until = now + spent.saturating_mul(u64::from(stretch));
        self.state = match &permit {
            Permit::Act => "acting".to_owned(),
            Permit::Observe => "observing".to_owned(),
            Permit::Withheld(why) => why.clone(),
        };
        let mut lines = self.sums.lines(&self.label, now, &self.names, false);
        if let Some(why) = trouble {
            lines.extend(self.troubled(Some(why)));
        }
        lines.iter().try_for_each(|line| log.line(line))?;
        mute.map_or(Ok(()), Err)
    }

    /// What was done and not told yet.
    ///
    /// # Errors
    /// The audit cannot be written, in words.
    pub(super) fn tell_rest(&mut self, now: Instant, log: &mut dyn Log) -> Result<(), String> {
        let lines = self.sums.lines(&self.label, now, &self.names, true);
        lines.iter().try_for_each(|line| log.line(line))
    }

    pub(super) fn status(&self) -> SectionStatus {
        SectionStatus {
            section: self.label.clone(),
            engine: self.spec.engine(),
            enabled: self.spec.enable(),
            state: self.trouble.clone().unwrap_or_else(|| self.state.clone()),
            targets: self.groups.clone(),
            runs: self.runs,
            asked_bytes: self.sums.asked_bytes,
            verified_bytes: self.sums.verified_bytes,
            refused: self.sums.refused,
            words: self.engine.words(self.processes.len()),
        }
    }
}
