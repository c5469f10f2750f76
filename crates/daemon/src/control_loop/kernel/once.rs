//! A kernel module that a command configures once and leaves running.

use super::{EngineError, Kernel as _, Module, System};
use crate::config::{Engine, MonitorsConfig};
use isotherm_core::presets::Preset;

/// A kernel module (DAMON_RECLAIM, DAMON_LRU_SORT), configured by a preset, that runs without our daemon.
#[derive(Debug)]
pub struct ModuleOnce {
    module: Module,
    name: &'static str,
}

impl ModuleOnce {
    /// `None` if no kernel module can do the preset's work.
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

    /// The kernel's name for it: `damon_reclaim`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Files and the values written into them, the switch last; empty if the module runs with these values already.
    ///
    /// # Errors
    /// [`EngineError`]: it cannot be switched on here or now.
    pub fn writes(&mut self, world: &mut dyn System) -> Result<Vec<(String, String)>, EngineError> {
        if self.module.runs_as_asked(world)? {
            return Ok(Vec::new());
        }
        Ok(self.module.writes(world)?.into_iter().map(|write| (write.path, write.value)).collect())
    }

    /// Checks, right after the writes, that the kernel has really started.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn begins(&mut self, world: &mut dyn System) -> Result<(), EngineError> {
        self.module.begins(world)
    }
}
