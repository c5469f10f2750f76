//! A section that a module of the kernel carries out: its parameters are written, it is switched on, and both are taken back.

use super::line::{Line, SectionStatus};
use super::{Knobs, Log, World};
use crate::config::MonitorsConfig;
use isotherm_core::presets::KernelModule;

const STAT: &str = "/sys/module/damon_stat/parameters/enabled";

/// A module of the kernel that is to run as a preset says.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) label: String,
    pub(super) spec: MonitorsConfig,
    module: KernelModule,
    is_on: bool,
    /// The list of writes was told.
    is_told: bool,
    trouble: Option<String>,
    state: String,
    runs: u64,
    refused: u64,
}

impl Switch {
    /// `None`: no module of the kernel does what the preset says.
    pub(super) fn new(spec: &MonitorsConfig) -> Option<Self> {
        Some(Self {
            label: format!("monitors.{}", spec.name),
            spec: spec.clone(),
            module: spec.preset.kernel_module()?,
            is_on: false,
            is_told: false,
            trouble: None,
            state: "has not run yet".to_owned(),
            runs: 0,
            refused: 0,
        })
    }

    fn path(&self, parameter: &str) -> String {
        format!("/sys/module/{}/parameters/{parameter}", self.module.name)
    }

    pub(super) fn began(&self) -> Line {
        Line::Section {
            section: self.label.clone(),
            engine: "kernel: DAMON module",
            enabled: self.spec.enable,
            why: format!("{} does all that the preset `{}` says", self.module.name, self.spec.preset.name()),
        }
    }

    /// All that is to be written, in this order. What holds it already is left out, but for the switch, which comes last.
    fn writes(&self, world: &mut dyn World) -> Result<Vec<(String, String)>, String> {
        let enabled = self.path("enabled");
        if world.value(&enabled)?.is_none() {
            return Err(format!(
                "this kernel has no {}: it needs DAMON with that module built in (CONFIG_DAMON_RECLAIM, CONFIG_DAMON_LRU_SORT)",
                self.module.name
            ));
        }
        let mut writes = Vec::new();
        if self.spec.take_damon_stat && world.value(STAT)?.as_deref() == Some("Y") {
            writes.push((STAT.to_owned(), "N".to_owned()));
        }
        let usual = self.spec.preset.name().parse::<isotherm_core::presets::Preset>().ok();
        let usual = usual.and_then(|usual| usual.kernel_module()).map(|usual| usual.parameters).unwrap_or_default();
        for (name, value) in &self.module.parameters {
            let path = self.path(name);
            match world.value(&path)? {
                Some(now) if now == *value => {}
                Some(_) => writes.push((path, value.clone())),
                // A parameter of later kernels, which nobody asked for.
                None if usual.contains(&(name, value.clone())) => {}
                None => return Err(format!("this kernel's {} has no parameter {name}", self.module.name)),
            }
        }
        writes.push((enabled, "Y".to_owned()));
        Ok(writes)
    }

    /// Looks whether it is to be on, and makes it so. `withheld`: why nothing may act now.
    pub(super) fn turn(
        &mut self,
        world: &mut dyn World,
        knobs: &mut dyn Knobs,
        withheld: Option<&str>,
        log: &mut dyn Log,
    ) -> Result<(), String> {
        let trouble = match (self.spec.enable, withheld) {
            (false, _) => {
                self.state = "observing".to_owned();
                if self.is_told { return Ok(()) } else { self.tell_writes(world, log)? }
            }
            (true, Some(why)) => {
                self.state = why.to_owned();
                if self.is_on { self.put_back(knobs, log)? } else { None }
            }
            (true, None) if self.is_on => self.watch(world, knobs, log)?,
            // What failed is tried again when something is written about it, or a minute later.
            (true, None) if self.trouble.is_some() && !self.runs.is_multiple_of(60) => self.trouble.clone(),
            (true, None) => self.switch_on(world, knobs, log)?,
        };
        self.runs += 1;
        self.told(trouble, log)
    }

    fn told(&mut self, trouble: Option<String>, log: &mut dyn Log) -> Result<(), String> {
        if trouble == self.trouble {
            return Ok(());
        }
        self.trouble.clone_from(&trouble);
        match trouble {
            Some(why) => {
                self.refused += 1;
                log.line(&Line::Trouble { section: self.label.clone(), why })
            }
            None => Ok(()),
        }
    }

    fn tell_writes(&mut self, world: &mut dyn World, log: &mut dyn Log) -> Result<Option<String>, String> {
        self.is_told = true;
        let writes = match self.writes(world) {
            Ok(writes) => writes,
            Err(why) => return Ok(Some(why)),
        };
        for (path, value) in writes {
            log.line(&Line::WouldWrite { section: self.label.clone(), path, value })?;
        }
        Ok(None)
    }

    fn switch_on(
        &mut self,
        world: &mut dyn World,
        knobs: &mut dyn Knobs,
        log: &mut dyn Log,
    ) -> Result<Option<String>, String> {
        if world.value(&self.path("enabled")).is_ok_and(|now| now.as_deref() == Some("Y")) {
            return Ok(Some(format!("{} is on already: it is somebody else's, and is left alone", self.module.name)));
        }
        let writes = match self.writes(world) {
            Ok(writes) => writes,
            Err(why) => return Ok(Some(why)),
        };
        for (path, value) in writes {
            let line = Line::Writes { section: self.label.clone(), path: path.clone(), value: value.clone() };
            if let Err(why) = log.line(&line) {
                // What is left of it stays in the journal, and is told when it can be.
                let _ = knobs.put_back(&self.label);
                return Err(why);
            }
            if let Err(why) = knobs.set(&self.label, &path, &value) {
                let back = knobs.put_back(&self.label).err().map_or_else(String::new, |error| format!("; {error}"));
                return Ok(Some(format!("{why}; what was written before it is put back{back}")));
            }
        }
        // The kernel may take the switch and start nothing: DAMON was busy.
        let pid = world.value(&self.path("kdamond_pid")).ok().flatten();
        if pid.is_some_and(|pid| pid.trim() == "-1") {
            let back = knobs.put_back(&self.label).err().map_or_else(String::new, |error| format!("; {error}"));
            return Ok(Some(format!(
                "{} was switched on and does not run: somebody else may have DAMON (DAMON_STAT: take-damon-stat = true); put back{back}",
                self.module.name
            )));
        }
        self.is_on = true;
        self.state = "acting".to_owned();
        Ok(None)
    }

    /// Somebody may switch it off, or it may end by itself.
    fn watch(
        &mut self,
        world: &mut dyn World,
        knobs: &mut dyn Knobs,
        log: &mut dyn Log,
    ) -> Result<Option<String>, String> {
        if world.value(&self.path("enabled"))?.as_deref() != Some("N") {
            return Ok(None);
        }
        self.put_back(knobs, log)?;
        self.spec.enable = false;
        self.is_told = true;
        Ok(Some("somebody switched it off; it stays off until the configuration is read anew".to_owned()))
    }

    /// Puts back what it wrote, if it is on.
    pub(super) fn put_back(&mut self, knobs: &mut dyn Knobs, log: &mut dyn Log) -> Result<Option<String>, String> {
        if !std::mem::take(&mut self.is_on) {
            return Ok(None);
        }
        let trouble = knobs.put_back(&self.label).err();
        log.line(&Line::PutBack { section: self.label.clone() })?;
        Ok(trouble)
    }

    pub(super) fn status(&self, world: &mut dyn World) -> SectionStatus {
        let mut counter = |name: &str| -> Option<u64> { world.value(&self.path(name)).ok()??.trim().parse().ok() };
        let mut sum = |is_tried: bool| {
            let bytes = self.module.counters.iter().filter(|name| name.starts_with("bytes_"));
            let of_kind = bytes.filter(|name| name.contains("_tried_") == is_tried);
            of_kind.filter_map(|name| counter(name)).fold(0, u64::saturating_add)
        };
        let (asked_bytes, verified_bytes) = (sum(true), sum(false));
        let words = self.module.counters.iter().filter_map(|name| Some(format!("{name} {}", counter(name)?))).collect();
        SectionStatus {
            section: self.label.clone(),
            engine: "kernel: DAMON module",
            enabled: self.spec.enable,
            state: self.trouble.clone().unwrap_or_else(|| self.state.clone()),
            targets: vec!["physical memory".to_owned()],
            runs: self.runs,
            asked_bytes,
            verified_bytes,
            refused: self.refused,
            words,
        }
    }
}
