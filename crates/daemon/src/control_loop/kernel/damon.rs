//! Our own kdamond, through DAMON's sysfs directory: any monitor with any schemes, over processes of groups or physical memory.

use super::files::{Watched, writes};
use super::{Counts, EngineError, Kernel, Line, Standing, System, SystemError, Trouble, Write, stat_write};
use crate::config::{Config, MonitorsConfig, Target};
use crate::control_loop::gate::Skipped;
use crate::control_loop::guard::{Reach, takes_from_all};
use crate::control_loop::targets::{Crowd, ResolvedTarget, meant, resolve};
use crate::control_loop::trouble::{TargetError, joined};
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::presets::{PresetError, Setup};
use isotherm_core::vocabulary::Action;
use isotherm_texts::damon::{ADMIN, CONTEXT, NR_KDAMONDS, STATE};
use isotherm_units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Modules that occupy DAMON while they are on; DAMON_STAT can be made to release it.
const MODULES: [&str; 2] = ["damon_reclaim", "damon_lru_sort"];
/// Most groups of one kdamond: each is a filter on every page.
const GROUPS_MAX: usize = 64;

/// A kdamond that a section wants.
#[derive(Debug)]
pub(in super::super) struct Kdamond {
    label: String,
    targets: Vec<String>,
    /// `targets`, resolved.
    meant: Vec<Target>,
    setup: Setup,
    takes_damon_stat: bool,
    spared: Skipped,
    /// Its current groups, with their processes.
    members: BTreeMap<String, ResolvedTarget>,
    /// Processes that it should monitor.
    crowd: Crowd,
    /// Why they could not be found.
    trouble: Option<SystemError>,
    /// The memory that it monitors, while it runs.
    watched: Option<Watched>,
}

impl Kdamond {
    /// # Errors
    /// A preset with invalid values.
    pub(in super::super) fn new(label: &str, spec: &MonitorsConfig) -> Result<Self, PresetError> {
        let setup = spec.setup()?;
        let acts = setup.config.schemes.iter().any(|scheme| scheme.action != Action::Stat);
        Ok(Self {
            label: label.to_owned(),
            targets: spec.targets.clone(),
            meant: Vec::new(),
            setup,
            takes_damon_stat: spec.take_damon_stat,
            spared: Skipped::new(acts),
            members: BTreeMap::new(),
            crowd: Crowd::default(),
            trouble: None,
            watched: None,
        })
    }

    /// Whether its target is all of physical memory.
    fn is_for_all(&self) -> bool {
        self.targets.is_empty() || self.meant.contains(&Target::Physical)
    }

    fn config(&self) -> &MonitorConfig {
        &self.setup.config
    }

    /// The memory that it should monitor now.
    fn wanted(&self, world: &mut dyn System) -> Result<Watched, EngineError> {
        if let Some(why) = &self.trouble {
            return Err(why.clone().into());
        }
        let is_physical = self.config().operations == Operations::Paddr;
        if !self.is_for_all() && self.members.is_empty() {
            return Err(TargetError::none_there("targets", &self.targets).into());
        }
        if !is_physical {
            let mut pids = self.crowd.watched.clone();
            pids.sort_unstable();
            return match pids.len() {
                0 => Err(TargetError::NoneRuns(joined(&self.targets)).into()),
                _ => Ok(Watched::Processes(pids)),
            };
        }
        if self.members.len() > GROUPS_MAX {
            return Err(TargetError::TooManyGroups { nr: self.members.len(), max: GROUPS_MAX }.into());
        }
        let ranges = match self.setup.range {
            Some(range) => vec![range.in_bytes(self.config().addr_unit)],
            None => world.physical_memory()?,
        };
        let groups = (!self.is_for_all()).then(|| self.members.keys().cloned().collect());
        Ok(Watched::Physical(ranges, groups))
    }

    /// Whether all wanted targets are monitored. The kernel drops ended processes itself.
    fn is_covered(&self, now: &Watched, wanted: &Watched) -> bool {
        match (now, wanted) {
            (Watched::Processes(now), Watched::Processes(_)) => self.crowd.needed().iter().all(|pid| now.contains(pid)),
            _ => now == wanted,
        }
    }

    fn file(&self, file: &str, world: &mut dyn System) -> Option<String> {
        world.value(&format!("{ADMIN}/0/{file}")).ok().flatten()
    }
}

impl Kernel for Kdamond {
    fn engine(&self) -> &'static str {
        "kernel: DAMON"
    }

    fn why(&self) -> String {
        "the kernel's DAMON watches, and carries out the schemes".to_owned()
    }

    fn targets(&self) -> Vec<String> {
        if self.is_for_all() { vec!["physical memory".to_owned()] } else { self.members.keys().cloned().collect() }
    }

    fn reach(&self) -> Reach {
        if self.is_for_all() {
            return Reach::machine();
        }
        let takes = self.config().schemes.iter().any(|scheme| takes_from_all(scheme.action));
        Reach::groups(self.members.values().map(ResolvedTarget::domain)).and_machine(takes)
    }

    fn follow(&mut self, config: &Config, world: &mut dyn System) -> Vec<Line> {
        self.trouble = None;
        self.spared.begin(&config.daemon.protect);
        let mut found = BTreeMap::new();
        self.meant = self.targets.iter().filter_map(|entry| config.target_of(entry, "").ok()).collect();
        for target in &self.meant {
            match resolve(target, world) {
                Ok(all) => found.extend(all.into_iter().map(|one| (one.name().to_owned(), one))),
                Err(why) => self.trouble = Some(why),
            }
        }
        let is_meant =
            |(_, one): &(String, ResolvedTarget), world: &mut dyn System| !one.is_spared(&mut self.spared, world);
        let Some(found) = meant::<_, BTreeMap<_, _>>(found, world, is_meant) else {
            // What it knows stays as it is.
            self.trouble = None;
            return Vec::new();
        };
        let came = found.keys().filter(|path| !self.members.contains_key(*path));
        let went = self.members.keys().filter(|path| !found.contains_key(*path));
        let mut lines = Line::moves(&self.label, came.cloned(), went.cloned());
        lines.extend(self.spared.news(&self.label));
        self.members = found;
        if self.config().operations != Operations::Paddr {
            let all: BTreeSet<u32> = self.members.values().flat_map(|one| &one.processes).copied().collect();
            self.crowd = Crowd::of(all.into_iter().collect(), world);
        }
        lines
    }

    fn writes(&mut self, world: &mut dyn System) -> Result<Vec<Write>, EngineError> {
        match world.value(NR_KDAMONDS)?.as_deref() {
            None => return Err(EngineError::NoDamon),
            Some("0") => {}
            Some(nr) => return Err(EngineError::Kdamonds(nr.to_owned())),
        }
        for module in MODULES {
            if world.value(&format!("/sys/module/{module}/parameters/enabled"))?.as_deref() == Some("Y") {
                return Err(EngineError::ModuleHasDamon(module));
            }
        }
        let watched = self.wanted(world)?;
        let mut list: Vec<Write> = stat_write(self.takes_damon_stat, world)?.into_iter().collect();
        list.extend(writes(self.config(), &watched)?);
        self.watched = Some(watched);
        Ok(list)
    }

    /// Checks that its processes still belong to the groups, so that no process with a reused id is monitored.
    fn begins(&mut self, world: &mut dyn System) -> Result<(), EngineError> {
        if self.file("state", world).as_deref() != Some("on") {
            return Err(EngineError::KdamondOff);
        }
        let Some(Watched::Processes(pids)) = &self.watched else { return Ok(()) };
        let mut now = BTreeSet::new();
        for target in &self.meant {
            // A removed group has no processes.
            now.extend(resolve(target, world).unwrap_or_default().into_iter().flat_map(|one| one.processes));
        }
        match pids.iter().find(|pid| !now.contains(pid)) {
            Some(pid) => Err(EngineError::ProcessLeft(*pid)),
            None => Ok(()),
        }
    }

    fn thread_file(&self) -> Option<String> {
        Some("/sys/kernel/mm/damon/admin/kdamonds/0/pid".to_owned())
    }

    fn standing(&mut self, world: &mut dyn System) -> Result<Standing, SystemError> {
        let state = world.value(STATE)?;
        let wanted = self.wanted(world);
        if state.as_deref() == Some("on") {
            return Ok(match (&self.watched, wanted) {
                (Some(now), Ok(wanted)) if self.is_covered(now, &wanted) => Standing::Runs,
                (_, Ok(_)) => Standing::Outdated,
                (_, Err(why)) => Standing::Ended(why),
            });
        }
        Ok(match (&self.watched, wanted) {
            // It ends when its processes end.
            (Some(Watched::Processes(pids)), Ok(Watched::Processes(now)))
                if !pids.iter().any(|pid| now.contains(pid)) =>
            {
                Standing::Ended(EngineError::ProcessesEnded)
            }
            (_, Err(why)) => Standing::Ended(why),
            _ => Standing::SwitchedOff,
        })
    }

    fn counts(&self, is_on: bool, world: &mut dyn System) -> Counts {
        // If the counters cannot be updated, old values are used.
        if !is_on || world.command(STATE, "update_schemes_stats").is_err() {
            return Counts::default();
        }
        let mut counts = Counts::default();
        for (nth, scheme) in self.config().schemes.iter().enumerate() {
            let mut counter = |name: &str| -> u64 {
                let value = world.value(&format!("{CONTEXT}/schemes/{nth}/stats/{name}")).ok().flatten();
                value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
            };
            let (tried, applied, exceeds) = (counter("sz_tried"), counter("sz_applied"), counter("qt_exceeds"));
            if scheme.action != Action::Stat {
                counts.asked_bytes = counts.asked_bytes.saturating_add(tried);
                counts.verified_bytes = counts.verified_bytes.saturating_add(applied);
            }
            counts.words.push(format!(
                "{}: tried {}, applied {}, at its quota {exceeds} times",
                scheme.action,
                Bytes::new(tried).approx(),
                Bytes::new(applied).approx()
            ));
        }
        counts
    }

    fn shortcoming(&self, world: &mut dyn System) -> Option<Trouble> {
        let pages_out = self.config().schemes.iter().any(|scheme| scheme.action == Action::Pageout);
        let has_no_swap = pages_out && world.swap_free() == Some(Bytes::new(0));
        let no_swap = || has_no_swap.then_some(Trouble::NoSwap("filter anonymous pages out"));
        self.crowd.trouble().map(Trouble::Target).or_else(no_swap)
    }
}
