//! A `[[generations]]` section: its tool, its groups, what it has done.

use super::gate::{Gate, Permit, Spared};
use super::line::{Effect, Line, SectionStatus};
use super::{Log, World};
use crate::config::{Config, GenerationsConfig};
use isotherm_core::daemon::{Daemon, DaemonError};
use isotherm_core::generations::{GenerationsError, Tool, ToolConfig};
use isotherm_core::host::{GenerationsHost, Listing, Lruvec};
use isotherm_units::{Bytes, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// `engine` of what the kernel does through its own files.
const KERNEL: &str = "kernel: lru_gen";

/// A `[[generations]]` section.
#[derive(Debug)]
pub(super) struct GenerationsSection {
    /// Table and name.
    pub(super) label: String,
    pub(super) spec: GenerationsConfig,
    tool: Tool,
    /// When it ran last.
    ran: Instant,
    groups: Vec<String>,
    spared: Spared,
    told_spared: BTreeSet<String>,
    seen: BTreeMap<Lruvec, Listing>,
    trouble: Option<String>,
    /// Why its groups could not be looked for the last time.
    not_followed: Option<String>,
    runs: u64,
    asked_bytes: u64,
    verified_bytes: u64,
    refused: u64,
    state: String,
}

impl GenerationsSection {
    /// Begins at `now`. What it sees is cut to its groups, so that its tool takes all that it sees.
    pub(super) fn new(spec: &GenerationsConfig, now: Instant) -> Result<Self, GenerationsError> {
        let tool = Tool::start(spec.tool.clone().with_targets(vec!["/".to_owned()]), now)?;
        Ok(Self {
            label: format!("generations.{}", spec.name),
            spec: spec.clone(),
            tool,
            ran: now,
            groups: Vec::new(),
            spared: Spared { acts: spec.acts(), ..Spared::default() },
            told_spared: BTreeSet::new(),
            seen: BTreeMap::new(),
            trouble: None,
            not_followed: None,
            runs: 0,
            asked_bytes: 0,
            verified_bytes: 0,
            refused: 0,
            state: "has not run yet".to_owned(),
        })
    }

    /// What is told when it begins.
    pub(super) fn began(&self) -> Line {
        Line::Section {
            section: self.label.clone(),
            engine: KERNEL,
            enabled: self.spec.enable,
            why: "the kernel ages and evicts by its own files; when and how much is decided here".to_owned(),
        }
    }

    /// Looks which groups there are. Tells who came and who went.
    pub(super) fn follow(&mut self, config: &Config, world: &mut dyn World) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut found = BTreeSet::new();
        let mut trouble = None;
        for target in self.spec.tool.targets() {
            let Ok(pattern) = config.cgroup_of(target, "") else { continue };
            match world.groups(&pattern) {
                Ok(groups) => found.extend(groups),
                Err(why) => trouble = Some(why),
            }
        }
        let before: BTreeSet<String> = self.groups.drain(..).collect();
        let section = || self.label.clone();
        lines.extend(found.difference(&before).map(|target| Line::Came { section: section(), target: target.clone() }));
        lines.extend(before.difference(&found).map(|target| Line::Went { section: section(), target: target.clone() }));
        self.groups = found.into_iter().collect();
        self.spared.protected.clone_from(&config.daemon.protect);
        if trouble != self.not_followed {
            self.not_followed.clone_from(&trouble);
            lines.extend(trouble.map(|why| Line::Trouble { section: self.label.clone(), why }));
        }
        lines
    }

    /// A line, if what is in its way has changed.
    fn troubled(&mut self, trouble: Option<String>) -> Option<Line> {
        if trouble == self.trouble {
            return None;
        }
        self.trouble.clone_from(&trouble);
        trouble.map(|why| Line::Trouble { section: self.label.clone(), why })
    }

    /// When it wants to run, at a pace so many times slower than it was asked for.
    pub(super) fn due<H: GenerationsHost + ?Sized>(&self, stretch: u32) -> Option<Instant> {
        let due = Daemon::<Gate<'_, H>>::poll_timeout(&self.tool, 0)?;
        Some(self.ran + due.since(self.ran).saturating_mul(u64::from(stretch)))
    }

    /// Runs once. `withheld`: why nothing may act now.
    pub(super) fn run<H: GenerationsHost + ?Sized>(
        &mut self,
        now: Instant,
        host: &mut H,
        world: &mut dyn World,
        withheld: Option<&str>,
        log: &mut dyn Log,
    ) -> Result<(), String> {
        let permit = match withheld {
            _ if !self.spec.enable => Permit::Observe,
            Some(why) => Permit::Withheld(why.to_owned()),
            None => Permit::Act,
        };
        self.runs += 1;
        self.ran = now;
        let no_swap = self.lacks_swap(world);
        let mut acts = Vec::new();
        let mut gate = Gate {
            host,
            world,
            groups: &self.groups,
            spared: &mut self.spared,
            permit: &permit,
            label: &self.label,
            log: &mut *log,
            seen: &mut self.seen,
            acts: &mut acts,
        };
        let ran = self.tool.handle_timeout(0, now, &mut gate);
        self.state = match &permit {
            Permit::Act if self.spec.acts() => "acting".to_owned(),
            Permit::Act | Permit::Observe => "observing".to_owned(),
            Permit::Withheld(why) => why.clone(),
        };
        let mut lines = Vec::new();
        for (target, why) in &self.spared.met {
            if self.told_spared.insert(target.clone()) {
                let (section, target) = (self.label.clone(), target.clone());
                lines.push(Line::LeftAlone { section, target, why: why.clone() });
            }
        }
        for act in acts {
            self.asked_bytes = self.asked_bytes.saturating_add(act.asked_bytes);
            self.verified_bytes = self.verified_bytes.saturating_add(act.verified_bytes);
            self.refused += u64::from(matches!(act.effect, Effect::Refused { .. }));
            lines.push(Line::Acted { section: self.label.clone(), at_ns: now.since(Instant::START).ns(), act });
        }
        let trouble = match ran {
            Ok(_) => self.nothing_to_read().or(no_swap),
            Err(DaemonError::Refused(error)) => Some(error.to_string()),
            Err(DaemonError::Failed(error)) => Some(error.to_string()),
        };
        lines.extend(self.troubled(trouble));
        lines.iter().try_for_each(|line| log.line(line))
    }

    fn lacks_swap(&self, world: &mut dyn World) -> Option<String> {
        let ToolConfig::Reclaim(config) = &self.spec.tool else { return None };
        let takes_anon = config.swappiness.takes_anon();
        (takes_anon && world.swap_free() == Some(Bytes::new(0))).then(|| {
            "no swap is free: anonymous memory stays, only pages of files go; add swap, or say swappiness = 0"
                .to_owned()
        })
    }

    fn nothing_to_read(&self) -> Option<String> {
        let names = || self.spec.tool.targets().join(", ");
        if self.groups.is_empty() {
            return Some(format!("none of its groups is there now: {}", names()));
        }
        self.seen.is_empty().then(|| {
            format!(
                "no generations of its groups can be read ({}): the Multi-Gen LRU is off, or debugfs is not mounted",
                names()
            )
        })
    }

    pub(super) fn status<H: GenerationsHost + ?Sized>(&self) -> SectionStatus {
        SectionStatus {
            section: self.label.clone(),
            engine: KERNEL,
            enabled: self.spec.enable,
            state: self.trouble.clone().unwrap_or_else(|| self.state.clone()),
            targets: self.groups.clone(),
            runs: self.runs,
            asked_bytes: self.asked_bytes,
            verified_bytes: self.verified_bytes,
            refused: self.refused,
            words: Daemon::<Gate<'_, H>>::words(&self.tool),
        }
    }
}
