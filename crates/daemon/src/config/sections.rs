//! Sections that watch and act, a type each. Their keys are those of scenarios, together with `enable`.

use super::Engine;
use isotherm_core::generations::ToolConfig;
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::presets::{KernelModule, Preset, PresetError, Setup, name_or_table};
use isotherm_core::vocabulary::Action;
use isotherm_units::Duration;
use serde::{Deserialize, Deserializer, Serialize};

/// A `[[generations]]` table: estimates the working set of groups, or evicts old generations
/// (docs/mechanism/mglru.md#generations-in-user-space).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationsConfig {
    /// Name of the section in reports.
    pub name: String,
    /// Whether it may act. Default no: it decides, reports what it would do, and changes only what watching needs.
    #[serde(default)]
    pub enable: bool,
    /// Thrashing prevention of the whole machine: `min_ttl_ms`, whole milliseconds up to 4294967295; 0 is off. If all that may be evicted is
    /// younger than this, the kernel has a process killed. Default: left as it is. All sections that say it say the same.
    #[serde(default, rename = "min-ttl", skip_serializing_if = "Option::is_none")]
    pub min_ttl: Option<Duration>,
    /// The tool, as in a scenario. An entry of `targets` is a path or the name of a `[[targets]]` table.
    #[serde(flatten)]
    pub tool: ToolConfig,
}

/// `min-ttl` of the sections that say it: one value for the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// Name of the `[[generations]]` table that it is taken from: one that may act, if there is one.
    pub section: String,
    /// Whether it may be written.
    pub enable: bool,
    pub min_ttl: Duration,
}

impl TimeToLive {
    /// That of these sections.
    pub fn of(sections: &[GenerationsConfig]) -> Option<Self> {
        let says = || sections.iter().filter(|section| section.min_ttl.is_some());
        let section = says().find(|section| section.enable).or_else(|| says().next())?;
        Some(Self { section: section.name.clone(), enable: section.enable, min_ttl: section.min_ttl? })
    }
}

impl GenerationsConfig {
    /// Whether the tool ever evicts.
    pub fn acts(&self) -> bool {
        matches!(self.tool, ToolConfig::Reclaim(_))
    }
}

/// A `[[limits]]` table: finds the least `memory.high` of each of its groups that keeps harm below the goal (docs/use/right-sizing.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LimitsConfig {
    /// Name of the section in reports.
    pub name: String,
    /// Whether it may act. Default no: the first limits are reported, and not set.
    #[serde(default)]
    pub enable: bool,
    /// The limits, as in a scenario. `target` is a path, in which `*` and `?` stand for parts of a name, or the name of a `[[targets]]`
    /// table; each group is sized by itself.
    #[serde(flatten)]
    pub limits: isotherm_core::limits::LimitsConfig,
}

impl LimitsConfig {
    /// The configuration for one group.
    pub fn of(&self, group: &str) -> isotherm_core::limits::LimitsConfig {
        isotherm_core::limits::LimitsConfig { target: group.to_owned(), ..self.limits.clone() }
    }
}

/// A `[[monitors]]` table: memory that the kernel's DAMON watches, and the schemes for its findings. With a preset of a module of the
/// kernel (DAMON_RECLAIM, DAMON_LRU_SORT) and without targets that module does it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MonitorsConfig {
    /// Name of the section in reports.
    pub name: String,
    /// Whether it may act. Default no: the writes are reported, and not made.
    #[serde(default)]
    pub enable: bool,
    /// Paths of groups or names of `[[targets]]` tables. With `vaddr` all their processes are watched; with `paddr` physical memory is, and
    /// schemes treat only pages of these groups. If left out: physical memory, all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// As in a scenario: a name, or a table of the name and the keys that differ. Replaces `config`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_name_or_table")]
    pub preset: Option<Preset>,
    /// As in a scenario: attributes and schemes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<MonitorConfig>,
    /// The engine that watches and acts. Default `auto`: the kernel's DAMON if it can do all the work of the section, else isotherm.
    #[serde(default, skip_serializing_if = "is_auto")]
    pub engine: Engine,
    /// DAMON has one user at a time. Switches DAMON_STAT off during the run, if it uses DAMON. Default no.
    #[serde(default)]
    pub take_damon_stat: bool,
}

impl MonitorsConfig {
    /// The module of the kernel that does all the work of the section, if there is one.
    pub fn kernel_module(&self) -> Option<KernelModule> {
        let preset = self.preset.as_ref().filter(|_| self.targets.is_empty())?;
        preset.kernel_module()
    }

    /// A setting of the section that the kernel's DAMON lacks: the key of `config`, and the values that are allowed there.
    pub(crate) fn beyond_kernel(&self) -> Option<(String, &'static str)> {
        let config = self.config.as_ref()?;
        let usual = MonitorConfig::default();
        let ours = [
            ("strategy", config.strategy != usual.strategy, "leaf"),
            ("sampling", config.sampling != usual.sampling, "spread"),
            ("flush", config.flush != usual.flush, "none"),
            ("min-region-size", config.min_region_size.is_some(), "left out"),
            ("leaks", config.leaks != usual.leaks, "left out"),
            ("descend", config.descend != usual.descend, "left out"),
            ("probes", !config.probes.is_empty(), "none"),
            ("paused", config.paused, "false"),
        ];
        if let Some((name, _, allowed)) = ours.into_iter().find(|(_, is_own, _)| *is_own) {
            return Some((name.to_owned(), allowed));
        }
        if let Some(at) = config.schemes.iter().position(|scheme| scheme.marks_accessed) {
            return Some((format!("schemes[{at}].marks-accessed"), "false"));
        }
        let sorts = |action| matches!(action, Action::LruPrio | Action::LruDeprio);
        let sorting = config.schemes.iter().position(|scheme| sorts(scheme.action));
        let at = sorting.filter(|_| config.operations == Operations::Vaddr)?;
        Some((format!("schemes[{at}].action"), "lru-prio and lru-deprio with `paddr`"))
    }

    /// Whether isotherm watches and acts, and not the kernel's DAMON.
    pub fn is_own(&self) -> bool {
        match self.engine {
            Engine::Kernel => false,
            Engine::Isotherm => true,
            Engine::Auto => self.beyond_kernel().is_some(),
        }
    }

    /// Why isotherm's own engine does it.
    pub(crate) const fn why_own(&self) -> &'static str {
        match self.engine {
            Engine::Isotherm => "engine = \"isotherm\" says so",
            _ => "the section says what the kernel's DAMON has not",
        }
    }

    /// Monitor and schemes of the section, for any engine.
    ///
    /// # Errors
    /// A preset whose values make no sense.
    pub fn setup(&self) -> Result<Setup, PresetError> {
        match (&self.preset, &self.config) {
            (Some(preset), _) => preset.setup(),
            (None, config) => Ok(Setup { config: config.clone().unwrap_or_default(), range: None }),
        }
    }
}

fn some_name_or_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Preset>, D::Error> {
    name_or_table(deserializer).map(Some)
}

pub(super) fn is_auto(engine: &Engine) -> bool {
    *engine == Engine::Auto
}
