//! Sections that watch and act, a type each. Their keys are those of scenarios, and `enable`.

use isotherm_core::generations::ToolConfig;
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
