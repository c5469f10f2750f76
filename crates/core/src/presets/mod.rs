//! Ready configurations with few knobs: Linux's own modules, and settings from the literature (docs/spec/schemes.md#s12 and #s13).
//!
//! A preset is one file and one line below. A preset is written as its name with the values that differ: `{ preset = "lru-sort", quota-time
//! = "20ms" }`.

mod lru_sort;
mod module;
mod physical;
mod plrus_radical;
mod reclaim;
mod stat;
mod written;

pub use lru_sort::LruSort;
pub use module::KernelModule;
pub use plrus_radical::PlrusRadical;
pub use reclaim::Reclaim;
pub use stat::{Stat, StatOutput, StatTracker};
pub use written::name_or_table;

use crate::OutOfRange;
use crate::host::UnitRange;
use crate::monitor::{MonitorConfig, MonitorError};
use serde::{Deserialize, Serialize};

/// The monitor of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The configuration of the monitor, with its schemes.
    pub config: MonitorConfig,
    /// The physical memory to monitor, in address units; `None`: all there is.
    pub range: Option<UnitRange>,
}

/// Why a preset cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PresetError {
    /// An invalid value.
    #[error("preset `{preset}`: {source}")]
    OutOfRange { preset: &'static str, source: OutOfRange },
    /// The resulting configuration of the monitor is invalid.
    #[error("preset `{preset}`: {source}")]
    Monitor { preset: &'static str, source: MonitorError },
    /// There is no preset of this name.
    #[error("unknown preset `{name}`; allowed: {allowed}")]
    Unknown {
        name: String,
        /// The known names, separated by commas.
        allowed: String,
    },
}

/// A preset with its name; an entry of [`PRESETS`].
#[derive(Clone, Copy, Debug)]
pub struct PresetEntry {
    /// Name of the preset in files; underscores are taken as well.
    pub name: &'static str,
    pub summary: &'static str,
    /// Makes the preset with its default values.
    pub make: fn() -> Preset,
}

macro_rules! presets {
    ($($type:ident, $name:literal, $alias:literal, $summary:literal;)*) => {
        /// A preset with the values of its parameters.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "preset")]
        pub enum Preset {
            $(
                #[doc = $summary]
                #[serde(rename = $name, alias = $alias)]
                $type($type),
            )*
        }

        pub const PRESETS: &[PresetEntry] = &[
            $(PresetEntry { name: $name, summary: $summary, make: || Preset::$type($type::default()) },)*
        ];

        impl Preset {
            /// The preset's name in files, in kebab-case.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$type(_) => $name,)*
                }
            }

            /// Monitor and schemes of the preset.
            ///
            /// # Errors
            /// The first invalid value, and the allowed values.
            pub fn setup(&self) -> Result<Setup, PresetError> {
                let setup = match self {
                    $(Self::$type(preset) => preset.setup()?,)*
                };
                let preset = self.name();
                setup.config.validate().map_err(|source| PresetError::Monitor { preset, source })?;
                Ok(setup)
            }
        }
    };
}

presets! {
    LruSort, "lru-sort", "lru_sort", "Linux's LRU_SORT: hot memory to the head of the LRU lists, cold to the tail, carefully";
    Reclaim, "reclaim", "reclaim", "Linux's RECLAIM: pages out what was not used for two minutes, while memory is short";
    Stat, "stat", "stat", "Linux's STAT: monitors only, for bandwidth and idle times";
    PlrusRadical, "plrus-radical", "plrus_radical", "LRU sorting tuned radically, as its authors evaluated it";
}

impl std::str::FromStr for Preset {
    type Err = PresetError;

    /// Finds a preset by its name, with `-` or `_`, and gives it its defaults.
    fn from_str(name: &str) -> Result<Self, PresetError> {
        let entry = PRESETS.iter().find(|entry| entry.name == name.replace('_', "-"));
        entry.map(|entry| (entry.make)()).ok_or_else(|| PresetError::Unknown {
            name: name.to_owned(),
            allowed: PRESETS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_read_written_and_configured() {
        for entry in PRESETS {
            let preset: Preset = entry.name.parse().expect("a name of the table");
            assert_eq!(preset, (entry.make)());
            assert_eq!(preset.name(), entry.name);
            let setup = preset.setup().expect("defaults make sense");
            assert_eq!(setup.range, None);
            assert_eq!(
                toml::from_str::<Preset>(&toml::to_string(&preset).expect("plain")).expect("as written"),
                preset
            );
            let bare = format!("preset = \"{}\"", entry.name.replace('-', "_"));
            assert_eq!(toml::from_str::<Preset>(&bare).expect("a name of the table"), preset);
            assert!(toml::from_str::<Preset>(&format!("{bare}\nno-such-key = 1")).is_err());
        }
        let unknown = "lru".parse::<Preset>().unwrap_err().to_string();
        assert_eq!(unknown, "unknown preset `lru`; allowed: lru-sort, reclaim, stat, plrus-radical");
    }
}
