//! A `[[generations]]` section: its tool, its groups, its actions so far.

use super::without_groups;
use crate::config::{Config, GenerationsConfig};
use crate::control_loop::gate::{Gate, Permit, Skipped};
use crate::control_loop::guard::Reach;
use crate::control_loop::line::{Line, SectionStatus};
use crate::control_loop::run::LoopError;
use crate::control_loop::section::{Context, Due, Head, Kind, Section, Totals, Watched};
use crate::control_loop::trouble::{TargetError, Trouble, joined};
use crate::control_loop::{System, SystemError};
use isotherm_core::daemon::Daemon;
use isotherm_core::generations::{Tool, ToolConfig};
use isotherm_core::host::{Listing, Lruvec};
use isotherm_units::{Bytes, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the engine: the kernel, through its own files.
const KERNEL: &str = "kernel: lru_gen";
/// Switch of the Multi-Gen LRU (Documentation/admin-guide/mm/multigen_lru.rst).
const SWITCH: &str = "/sys/kernel/mm/lru_gen/enabled";

/// A `[[generations]]` section.
#[derive(Debug)]
pub(super) struct GenerationsSection {
    head: Head,
    totals: Totals,
    spec: GenerationsConfig,
    tool: Tool,
    /// Time of the last run.
    ran: Instant,
    groups: Vec<String>,
    spared: Skipped,
    seen: BTreeMap<Lruvec, Listing>,
    /// Why the last search for its groups failed.
    not_followed: Option<SystemError>,
}

impl Kind for GenerationsSection {
    type Spec = GenerationsConfig;

    fn specs(config: &Config) -> Vec<GenerationsConfig> {
        config.generations.clone()
    }

    /// The host shows it only its own groups, so the tool accepts every group.
    fn begin(spec: &GenerationsConfig, now: Instant, _: &mut Watched) -> Result<Self, LoopError> {
        let tool = Tool::start(spec.tool.clone().with_targets(vec!["/".to_owned()]), now)?;
        Ok(Self {
            head: Head::new(format!("generations.{}", spec.name), KERNEL, spec.enable),
            totals: Totals::default(),
            spec: spec.clone(),
            tool,
            ran: now,
            groups: Vec::new(),
            spared: Skipped::new(spec.acts()),
            seen: BTreeMap::new(),
            not_followed: None,
        })
    }

    fn lacks(spec: &GenerationsConfig, config: &Config, world: &mut dyn System) -> Option<String> {
        let label = format!("generations.{}", spec.name);
        if world.value(SWITCH).is_ok_and(|value| value.is_none()) {
            return Some(format!(
                "{label}: this kernel has no Multi-Gen LRU; it needs 6.1 or newer with CONFIG_LRU_GEN"
            ));
        }
        without_groups(&label, spec.tool.targets(), config, world)
    }

    fn becomes(&mut self, spec: &GenerationsConfig, _: Instant) -> bool {
        self.spec == *spec
    }
}

impl Section for GenerationsSection {
    fn began(&self) -> Line {
        self.head.began("the kernel ages and evicts by its own files; when and how much is decided here")
    }

    fn follow(&mut self, context: &mut Context<'_>) -> Vec<Line> {
        let (mut found, mut trouble) = (BTreeSet::new(), None);
        for target in self.spec.tool.targets() {
            let Ok(pattern) = context.config.cgroup_of(target, "") else { continue };
            match context.world.groups(&pattern) {
                Ok(groups) => found.extend(groups),
                Err(why) => trouble = Some(why),
            }
        }
        let before: BTreeSet<String> = self.groups.drain(..).collect();
        let mut lines = self.head.moves(&before, &found);
        self.groups = found.into_iter().collect();
        self.spared.begin(&context.config.daemon.protect);
        if trouble != self.not_followed {
            self.not_followed.clone_from(&trouble);
            lines.extend(trouble.map(|why| Line::Trouble { section: self.head.label.clone(), why: why.to_string() }));
        }
        lines
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    /// It evicts; a section that only estimates stalls nothing.
    fn reach(&self) -> Reach {
        let groups = self.groups.iter().filter(|path| self.spec.acts() && !self.spared.was_met(path));
        Reach::groups(groups.map(String::as_str))
    }

    fn due(&self) -> Due {
        let stretch = self.head.pace.stretch();
        let due = Daemon::<Gate<'_>>::poll_timeout(&self.tool, 0);
        due.map(|due| self.ran + due.since(self.ran).saturating_mul(u64::from(stretch))).into()
    }

    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Trouble> {
        let (now, permit) = (context.now, self.head.permit(context.guard));
        self.head.runs += 1;
        self.ran = now;
        let no_swap = self.lacks_swap(context.world);
        let mut acts = Vec::new();
        let mut gate = Gate {
            host: &mut *context.host,
            world: &mut *context.world,
            groups: &self.groups,
            spared: &mut self.spared,
            permit: &permit,
            guard: context.guard,
            label: &self.head.label,
            log: &mut *context.log,
            seen: &mut self.seen,
            acts: &mut acts,
        };
        let ran = self.tool.handle_timeout(0, now, &mut gate);
        let only_watches = permit == Permit::Act && !self.spec.acts();
        self.head.state = if only_watches { Permit::Observe.state() } else { permit.state() };
        let mut lines = self.spared.news(&self.head.label);
        lines.extend(acts.into_iter().map(|act| self.totals.acted(act, &self.head, now)));
        let trouble = match ran {
            Ok(_) => self.nothing_to_read().map(Trouble::Target).or(no_swap),
            Err(error) => Some(error.into()),
        };
        lines.extend(self.head.troubled(trouble));
        Ok(lines.iter().try_for_each(|line| context.log.line(line))?)
    }

    fn status(&self, now: Instant, _: &mut dyn System) -> SectionStatus {
        self.head.status(now, &self.totals, self.groups.clone(), Daemon::<Gate<'_>>::words(&self.tool))
    }
}

impl GenerationsSection {
    fn lacks_swap(&self, world: &mut dyn System) -> Option<Trouble> {
        let ToolConfig::Reclaim(config) = &self.spec.tool else { return None };
        let takes_anon = config.swappiness.takes_anon();
        (takes_anon && world.swap_free() == Some(Bytes::new(0))).then_some(Trouble::NoSwap("say swappiness = 0"))
    }

    fn nothing_to_read(&self) -> Option<TargetError> {
        let targets = self.spec.tool.targets();
        if self.groups.is_empty() {
            return Some(TargetError::none_there("groups", targets));
        }
        self.seen.is_empty().then(|| TargetError::NoGenerations(joined(targets)))
    }
}
