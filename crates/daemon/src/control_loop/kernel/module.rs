//! A module of the kernel: DAMON_RECLAIM, DAMON_LRU_SORT.

use super::{Counts, EngineError, Kernel, Line, Standing, System, SystemError, Trouble, Write, stat_write};
use crate::config::{Config, MonitorsConfig};
use isotherm_core::presets::{KernelModule, Preset};

/// A kernel module, configured by a preset.
#[derive(Debug)]
pub(in super::super) struct Module {
    preset: Preset,
    module: KernelModule,
    takes_damon_stat: bool,
}

impl Module {
    /// `None` if no kernel module can do the section's work.
    pub(in super::super) fn new(spec: &MonitorsConfig) -> Option<Self> {
        let module = spec.kernel_module()?;
        Some(Self { preset: spec.preset.clone()?, module, takes_damon_stat: spec.take_damon_stat })
    }

    fn path(&self, parameter: &str) -> String {
        format!("/sys/module/{}/parameters/{parameter}", self.module.name)
    }

    /// Default bounds of the monitored memory. The module would find them itself, and leave them in its parameters permanently,
    /// without a line in the journal.
    fn region(&self, world: &mut dyn System) -> Result<Vec<(&'static str, String)>, EngineError> {
        const BOUNDS: [&str; 2] = ["monitor_region_start", "monitor_region_end"];
        let given = self.module.parameters.iter().filter(|(name, _)| BOUNDS.contains(name));
        if given.clone().count() < 2 || given.clone().any(|(_, address)| address != "0") {
            return Ok(Vec::new());
        }
        let unit = self.module.parameters.iter().find(|(name, _)| *name == "addr_unit");
        let unit = unit.and_then(|(_, unit)| unit.parse::<u64>().ok()).unwrap_or(1).max(1);
        let memory = world.physical_memory()?;
        let first = memory.iter().map(|range| range.start).min().ok_or(EngineError::NoMemory)?;
        let last = memory.iter().map(|range| range.end).max().unwrap_or(first);
        Ok(BOUNDS.into_iter().zip([(first / unit).to_string(), (last / unit).to_string()]).collect())
    }

    /// Whether the module is on with the configured values. Default bounds of memory do not count: they are computed again.
    pub(super) fn runs_as_asked(&self, world: &mut dyn System) -> Result<bool, SystemError> {
        if !self.is("Y", world)? {
            return Ok(false);
        }
        for (name, asked) in &self.module.parameters {
            if name.starts_with("monitor_region_") && asked == "0" {
                continue;
            }
            if world.value(&self.path(name))?.is_some_and(|now| now != *asked) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is(&self, word: &str, world: &mut dyn System) -> Result<bool, SystemError> {
        Ok(world.value(&self.path("enabled"))?.as_deref() == Some(word))
    }
}

impl Kernel for Module {
    fn engine(&self) -> &'static str {
        "kernel: DAMON module"
    }

    fn why(&self) -> String {
        format!("{} does all that the preset `{}` says", self.module.name, self.preset.name())
    }

    fn targets(&self) -> Vec<String> {
        vec!["physical memory".to_owned()]
    }

    fn follow(&mut self, _: &Config, _: &mut dyn System) -> Vec<Line> {
        Vec::new()
    }

    /// Parameters that hold their value already are left out, except the switch.
    fn writes(&mut self, world: &mut dyn System) -> Result<Vec<Write>, EngineError> {
        match world.value(&self.path("enabled"))?.as_deref() {
            None => return Err(EngineError::NoModule(self.module.name)),
            Some("Y") => return Err(EngineError::ModuleOn(self.module.name)),
            Some(_) => {}
        }
        let mut writes: Vec<Write> = stat_write(self.takes_damon_stat, world)?.into_iter().collect();
        let usual = self.preset.name().parse::<Preset>().ok();
        let usual = usual.and_then(|usual| usual.kernel_module()).map(|usual| usual.parameters).unwrap_or_default();
        let region = self.region(world)?;
        for (name, asked) in &self.module.parameters {
            let path = self.path(name);
            let value = region.iter().find(|(bound, _)| bound == name).map_or(asked, |(_, address)| address);
            match world.value(&path)? {
                Some(now) if now == *value => {}
                Some(_) => writes.push(Write::knob(path, value.clone())),
                // A parameter of later kernels, left at its default.
                None if usual.contains(&(name, asked.clone())) => {}
                None => return Err(EngineError::NoParameter { module: self.module.name, name }),
            }
        }
        writes.push(Write::knob(self.path("enabled"), "Y"));
        Ok(writes)
    }

    /// The kernel may accept the switch without starting, because DAMON was busy.
    fn begins(&mut self, world: &mut dyn System) -> Result<(), EngineError> {
        let pid = world.value(&self.path("kdamond_pid")).ok().flatten();
        if pid.is_none_or(|pid| pid.trim() != "-1") {
            return Ok(());
        }
        Err(EngineError::ModuleOff(self.module.name))
    }

    fn thread_file(&self) -> Option<String> {
        Some(self.path("kdamond_pid"))
    }

    fn standing(&mut self, world: &mut dyn System) -> Result<Standing, SystemError> {
        Ok(if self.is("N", world)? { Standing::SwitchedOff } else { Standing::Runs })
    }

    fn counts(&self, _: bool, world: &mut dyn System) -> Counts {
        let mut counter = |name: &str| -> Option<u64> { world.value(&self.path(name)).ok()??.trim().parse().ok() };
        let mut sum = |is_tried: bool| {
            let bytes = self.module.counters.iter().filter(|name| name.starts_with("bytes_"));
            let of_kind = bytes.filter(|name| name.contains("_tried_") == is_tried);
            of_kind.filter_map(|name| counter(name)).fold(0, u64::saturating_add)
        };
        let (asked_bytes, verified_bytes) = (sum(true), sum(false));
        let words = self.module.counters.iter().filter_map(|name| Some(format!("{name} {}", counter(name)?))).collect();
        Counts { asked_bytes, verified_bytes, words }
    }

    fn shortcoming(&self, _: &mut dyn System) -> Option<Trouble> {
        None
    }
}
