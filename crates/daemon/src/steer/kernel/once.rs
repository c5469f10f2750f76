//! A module of the kernel that is set up once, by a command that ends and leaves it running.

use super::{Kernel as _, Module, World};
use crate::config::{Engine, MonitorsConfig};
use isotherm_core::presets::Preset;

/// A module of the kernel (DAMON_RECLAIM, DAMON_LRU_SORT) that is to run as a preset says, without a daemon that watches over it.
#[derive(Debug)]
pub struct ModuleOnce {
    module: Module,
    name: &'static str,
}

impl ModuleOnce {
    /// `None`: no module of the kernel does what the preset says.
    pub fn new(preset: &Preset, take_damon_stat: bool) -> Option<Self> {
        let name = preset.kernel_module()?.name;
        let spec = MonitorsConfig {
            name: name.to_owned(),
            enable: true,
            targets: Vec::new(),
            preset: Some(preset.clone()),
            config: None,
            engine: Engine::Kernel,
            take_damon_stat,
        };
        Some(Self { module: Module::new(&spec)?, name })
    }

    /// As the kernel calls it: `damon_reclaim`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Files and what is written into them, the switch last; none where the module runs with these values already.
    ///
    /// # Errors
    /// Why it cannot be switched on here or now, in words.
    pub fn writes(&mut self, world: &mut dyn World) -> Result<Vec<(String, String)>, String> {
        if self.module.runs_as_asked(world)? {
            return Ok(Vec::new());
        }
        Ok(self.module.writes(world)?.into_iter().map(|write| (write.path, write.value)).collect())
    }

    /// Looks whether the kernel has really begun, right after the writes.
    ///
    /// # Errors
    /// Why not.
    pub fn begins(&mut self, world: &mut dyn World) -> Result<(), String> {
        self.module.begins(world)
    }
}
