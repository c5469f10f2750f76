//! Sections that our own engines carry out: `core` decides, and samples processes through the accessed-bit module; the kernel moves
//! pages on request.

mod engine;
mod gate;
mod sums;

use crate::config::{Config, MonitorsConfig, TieringConfig};
use crate::control_loop::gate::Skipped;
use crate::control_loop::guard::{Reach, takes_from_all};
use crate::control_loop::line::{Line, SectionStatus};
use crate::control_loop::run::LoopError;
use crate::control_loop::section::{Context, Due, Head, Kind, Phase, Section, Watched};
use crate::control_loop::targets::{Crowd, whom_of};
use crate::control_loop::trouble::{AuditError, TargetError, Trouble};
use crate::control_loop::{Log, LoopHost, System, SystemError};
use engine::Engine;
use gate::Gate;
use isotherm_core::host::TargetId;
use isotherm_core::monitor::context_seed;
use isotherm_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use sums::Sums;

/// Time until a failed attempt is repeated.
const RETRY: Duration = Duration::from_secs(60);
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spec {
    Monitors(MonitorsConfig),
    Tiering(TieringConfig),
}

impl Spec {
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

    /// What it can stall, if it acts on these groups.
    fn reach<'a>(&self, groups: impl Iterator<Item = &'a str>) -> Reach {
        match self {
            Self::Monitors(spec) => {
                let schemes = spec.config.iter().flat_map(|config| &config.schemes);
                Reach::groups(groups).and_machine(schemes.map(|scheme| scheme.action).any(takes_from_all))
            }
            // It fills the fast node, which everyone uses.
            Self::Tiering(_) => Reach::machine(),
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
pub(super) struct OwnSection {
    head: Head,
    spec: Spec,
    engine: Engine,
    seed: u64,
    /// Time of its last run, and earliest time of the next.
    ran: Instant,
    rests_until: Instant,
    stretch: u32,
    groups: Vec<String>,
    spared: Skipped,
    /// Targets by process id.
    processes: BTreeMap<u32, TargetId>,
    names: BTreeMap<TargetId, String>,
    /// Groups of targets.
    paths: BTreeMap<TargetId, String>,
    reach: Reach,
    /// The entry of `targets` that a process belongs to, by process id.
    entries: BTreeMap<u32, String>,
    /// Processes that could not be monitored, so that they are not tried again each time.
    unwatched: BTreeSet<u32>,
    sums: Sums,
    tried: Option<Instant>,
}

impl Kind for OwnSection {
    type Spec = Spec;

    fn specs(config: &Config) -> Vec<Spec> {
        let monitors = config.monitors.iter().filter(|section| section.is_own()).cloned().map(Spec::Monitors);
        let tiering = config.tiering.iter().filter(|section| section.is_own()).cloned().map(Spec::Tiering);
        monitors.chain(tiering).collect()
    }

    /// The seed decides where samples fall; each section of a daemon gets its own.
    fn begin(spec: &Spec, now: Instant, watched: &mut Watched) -> Result<Self, LoopError> {
        Ok(Self {
            head: Head::new(spec.label(), spec.engine(), spec.enable()),
            spec: spec.clone(),
            engine: Engine::None,
            seed: context_seed(1, watched.engine()),
            ran: now,
            rests_until: now,
            stretch: 1,
            groups: Vec::new(),
            spared: Skipped::new(spec.enable()),
            processes: BTreeMap::new(),
            names: BTreeMap::new(),
            paths: BTreeMap::new(),
            reach: Reach::default(),
            entries: BTreeMap::new(),
            unwatched: BTreeSet::new(),
            sums: Sums::default(),
            tried: None,
        })
    }

    fn becomes(&mut self, spec: &Spec, now: Instant) -> bool {
        self.spec == *spec || self.adjust(spec, now)
    }
}

impl Section for OwnSection {
    fn phase(&self) -> Phase {
        Phase::Sampling
    }

    fn began(&self) -> Line {
        self.head.began(self.spec.why())
    }

    fn follow(&mut self, context: &mut Context<'_>) -> Vec<Line> {
        let lines = self.watch(context);
        let taken = self.processes.keys().map(|&process| (process, self.head.label.clone()));
        context.watched.taken.extend(taken);
        lines
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    fn reach(&self) -> Reach {
        self.reach.clone()
    }

    fn due(&self) -> Due {
        let Some(due) = self.engine.poll_timeout() else { return Due::Never };
        let due = if self.engine.is_stretched_inside() {
            due
        } else {
            self.ran + due.since(self.ran).saturating_mul(u64::from(self.head.pace.stretch()))
        };
        Due::At(due.max(self.rests_until))
    }

    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Trouble> {
        let (now, stretch, permit) = (context.now, self.head.pace.stretch(), self.head.permit(context.guard));
        if stretch != self.stretch {
            self.stretch = stretch;
            self.engine.stretch(&self.spec, stretch, context.host);
        }
        self.head.runs += 1;
        self.ran = now;
        let mut gate = Gate {
            host: &mut *context.host,
            world: &mut *context.world,
            log: &mut *context.log,
            permit: &permit,
            guard: context.guard,
            kill_file: &context.config.guard.file,
            label: &self.head.label,
            targets: &self.names,
            paths: &self.paths,
            sums: &mut self.sums,
            spent: Duration::ZERO,
            mute: None,
        };
        let trouble = self.engine.run(now, &mut gate);
        let (spent, mute) = (gate.spent, gate.mute.take());
        // Work that is under way is spread out, like intervals.
        self.rests_until = now + spent.saturating_mul(u64::from(stretch));
        self.head.state = permit.state();
        let mut lines = self.sums.lines(&self.head.label, now, &self.names, false);
        if let Some(why) = trouble {
            lines.extend(self.head.troubled(Some(why)));
        }
        lines.iter().try_for_each(|line| context.log.line(line))?;
        mute.map_or(Ok(()), |why| Err(why.into()))
    }

    fn report_rest(&mut self, now: Instant, log: &mut dyn Log) -> Result<(), AuditError> {
        let lines = self.sums.lines(&self.head.label, now, &self.names, true);
        lines.iter().try_for_each(|line| log.line(line))
    }

    /// Stops all monitoring. The section can start again.
    fn release(&mut self, host: &mut dyn LoopHost) {
        for target in std::mem::take(&mut self.processes).into_values() {
            host.dismiss(target);
        }
        self.names.clear();
        self.paths.clear();
        self.unwatched.clear();
        self.engine = Engine::None;
    }

    fn status(&self, now: Instant, _: &mut dyn System) -> SectionStatus {
        self.head.status(now, &self.sums.totals, self.groups.clone(), self.engine.words(self.processes.len()))
    }
}

impl OwnSection {
    /// Takes over another spec, if the controls of its daemon allow it. Returns whether they do.
    fn adjust(&mut self, spec: &Spec, now: Instant) -> bool {
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

    /// Samples the current processes, except processes that other sections have taken.
    fn watch(&mut self, context: &mut Context<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        self.spared.begin(&context.config.daemon.protect);
        let mut there = match self.there(context, &mut lines) {
            Ok(there) => there,
            // What it knows stays as it is.
            Err(_) if context.world.has_to_end() => return lines,
            Err(why) => {
                lines.extend(self.head.troubled(Some(why.into())));
                return lines;
            }
        };
        if let Err(why) = self.may_look(context) {
            self.release(context.host);
            self.head.state = why.to_string();
            lines.extend(self.head.troubled(Some(why)));
            return lines;
        }
        let others = there.keys().find_map(|process| Some((*process, context.watched.taken.get(process)?.clone())));
        there.retain(|process, _| !context.watched.taken.contains_key(process));
        let crowd = Crowd::of(there.keys().copied().collect(), context.world);
        let now = self.processes.keys().copied().filter(|process| there.contains_key(process));
        let kept = crowd.with_those_of(now);
        there.retain(|process, _| kept.contains(process));
        let gone: Vec<u32> = self
            .processes
            .iter()
            .filter(|(process, target)| !there.contains_key(process) || !context.host.is_as_adopted(**target))
            .map(|(process, _)| *process)
            .collect();
        for process in gone {
            self.let_go(process, context.host);
        }
        self.unwatched.retain(|process| there.contains_key(process));
        // Two sections that clear accessed bits of the same process hide accesses from each other.
        let taken = others.map(|(process, section)| TargetError::Taken { process, section });
        let mut trouble = taken.or_else(|| crowd.trouble()).map(Trouble::Target);
        for (process, group) in there {
            if self.processes.contains_key(&process) || self.unwatched.contains(&process) {
                continue;
            }
            if context.world.has_to_end() {
                break;
            }
            let target = context.watched.target();
            // The process has ended again.
            if context.host.adopt(target, process).is_err() {
                continue;
            }
            match self.engine.enter(&self.spec, self.seed, target, context.now, self.stretch, context.host) {
                Ok(()) => {
                    if let Spec::Tiering(spec) = &self.spec
                        && let Some(scale) = self.entries.get(&process).and_then(|entry| spec.scales.get(entry))
                    {
                        self.engine.control(&[], &[(target, *scale)], context.now);
                    }
                    self.processes.insert(process, target);
                    self.paths.insert(target, group.clone());
                    self.names.insert(target, format!("{group} (process {process})"));
                }
                Err(why) => {
                    context.host.dismiss(target);
                    self.unwatched.insert(process);
                    trouble = Some(why);
                }
            }
        }
        if self.processes.is_empty() && trouble.is_none() {
            trouble = Some(TargetError::none_there("processes", self.spec.targets()).into());
        }
        lines.extend(self.head.troubled(trouble));
        lines
    }

    /// Processes of its groups, except groups that are left alone, with the paths of the groups.
    fn there(
        &mut self,
        context: &mut Context<'_>,
        lines: &mut Vec<Line>,
    ) -> Result<BTreeMap<u32, String>, SystemError> {
        let (mut groups, mut there, mut entries) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let mut domains = BTreeSet::new();
        for (one, entry) in whom_of(self.spec.targets(), context.config, context.world)? {
            if context.world.has_to_end() {
                return Err(SystemError::new("the daemon has to end"));
            }
            groups.insert(one.top.clone());
            if !one.is_spared(&mut self.spared, context.world) {
                domains.insert(one.domain().to_owned());
                there.extend(one.processes.iter().map(|&process| (process, one.group.clone())));
                entries.extend(one.processes.iter().map(|&process| (process, entry.to_owned())));
            }
        }
        self.entries = entries;
        self.reach = self.spec.reach(domains.iter().map(String::as_str));
        let before: BTreeSet<String> = self.groups.iter().cloned().collect();
        lines.extend(self.head.moves(&before, &groups));
        lines.extend(self.spared.news(&self.head.label));
        self.groups = groups.into_iter().collect();
        Ok(there)
    }

    /// Checks that the module is loaded, and that no other engine does the same work.
    fn may_look(&mut self, context: &mut Context<'_>) -> Result<(), Trouble> {
        if let Spec::Tiering(_) = self.spec
            && context.world.value(BALANCING)?.is_some_and(|mode| mode.trim() != "0")
        {
            return Err(Trouble::Balancing);
        }
        if self.tried.is_some_and(|tried| context.now.since(tried) < RETRY) {
            return self.head.trouble.clone().map_or(Ok(()), Err);
        }
        match context.host.can_look() {
            Ok(()) => {
                self.tried = None;
                Ok(())
            }
            Err(error) => {
                self.tried = Some(context.now);
                Err(error.into())
            }
        }
    }

    fn let_go(&mut self, process: u32, host: &mut dyn LoopHost) {
        let Some(target) = self.processes.remove(&process) else { return };
        host.dismiss(target);
        self.engine.exit(target);
        self.names.remove(&target);
        self.paths.remove(&target);
    }
}
