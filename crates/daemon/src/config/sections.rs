//! Sections that watch and act, a type each. Their keys are those of scenarios, and `enable`.

use isotherm_core::generations::ToolConfig;
use isotherm_core::presets::{Preset, name_or_table};
use serde::{Deserialize, Serialize};

/// A `[[generations]]` table: estimates the working set of groups, or evicts what is old (docs/generations.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationsConfig {
    /// In what is told.
    pub name: String,
    /// Whether it may act. Default no: it decides, tells what it would do, and changes nothing but what watching needs.
    #[serde(default)]
    pub enable: bool,
    /// As in a scenario. An entry of `targets` is a path or the name of a `[[targets]]` table.
    #[serde(flatten)]
    pub tool: ToolConfig,
}

impl GenerationsConfig {
    /// Whether it ever evicts.
    pub fn acts(&self) -> bool {
        matches!(self.tool, ToolConfig::Reclaim(_))
    }
}

/// A `[[monitors]]` table: what a module of the kernel watches and does, DAMON_RECLAIM or DAMON_LRU_SORT, on all of physical memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MonitorsConfig {
    /// In what is told.
    pub name: String,
    /// Whether it may act. Default no: the writes are told, and not made.
    #[serde(default)]
    pub enable: bool,
    /// As in a scenario: `"reclaim"` or `"lru-sort"`, or a table of the name and what differs.
    #[serde(deserialize_with = "name_or_table")]
    pub preset: Preset,
    /// DAMON has one user at a time. Switches DAMON_STAT off meanwhile, where it has it. Default no.
    #[serde(default)]
    pub take_damon_stat: bool,
}
