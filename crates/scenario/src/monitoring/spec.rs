//! Monitors in a scenario file.

use crate::damo::DamoSource;
use isotherm_core::host::UnitRange;
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::presets::{Preset, PresetError, name_or_table};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::Path;

/// A `[[monitors]]` table: a kernel thread that monitors workloads. The monitor is written as `config`, as `preset`, or as a file of
/// `damo`'s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct MonitorSpec {
    /// Name of the thread in results.
    pub name: String,
    /// Targets: `WORKLOAD` is the first process of a workload, `WORKLOAD/2` its process number 2, from 0. In runs without that workload the
    /// target is left out. Default: every workload; with `paddr`, physical memory.
    pub targets: Vec<String>,
    /// Ranges that are monitored, for one target. Default: `vaddr` follows the mappings; `fvaddr` takes the mappings at the process's
    /// start, `paddr` all memory.
    pub ranges: Vec<RangeSpec>,
    /// Monitor attributes, and schemes for the found regions.
    pub config: MonitorConfig,
    /// Preset from which `config` was made; printed in its place.
    pub(super) preset: Option<Preset>,
    /// The file that `config` comes from; printed in its place. Read when a run is prepared.
    pub(super) damo: Option<DamoSource>,
}

/// A `[[monitors]]` table as it stands in files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    targets: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ranges: Vec<RangeSpec>,
    /// A ready configuration of physical memory with schemes: its name, or a table of its name and the keys that differ.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_name_or_table",
        serialize_with = "what_differs"
    )]
    preset: Option<Preset>,
    /// A configuration of damo's with a context to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    damo: Option<DamoSource>,
    /// Keys also in damo's spellings. Left out: the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<MonitorConfig>,
}

impl TryFrom<Written> for MonitorSpec {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { name, targets, ranges, preset, damo, config } = written;
        let refuse = |message: &str| Err(format!("monitor `{name}`: {message}"));
        let given = [("preset", preset.is_some()), ("damo", damo.is_some()), ("config", config.is_some())];
        let given: Vec<&str> = given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect();
        if let [first, second, ..] = given[..] {
            return refuse(&format!("`{first}` and `{second}` both say how it watches; leave one of them out"));
        }
        let Some(preset) = preset else {
            return Ok(Self { name, targets, ranges, config: config.unwrap_or_default(), preset: None, damo });
        };
        match Self::of_preset(&name, preset) {
            Err(error) => refuse(&error.to_string()),
            Ok(spec) if !spec.ranges.is_empty() && !ranges.is_empty() => {
                refuse("`ranges` and `monitor-region-start` both say where it looks; leave one of them out")
            }
            Ok(spec) => Ok(Self { targets, ranges: [spec.ranges, ranges].concat(), ..spec }),
        }
    }
}

impl From<MonitorSpec> for Written {
    fn from(spec: MonitorSpec) -> Self {
        let MonitorSpec { name, targets, ranges, config, preset, damo } = spec;
        // Keys at their defaults are left out, so that patches of variants can write others.
        let config = (preset.is_none() && damo.is_none() && config != MonitorConfig::default()).then_some(config);
        let brings_range = preset.as_ref().and_then(|preset| preset.setup().ok()?.range).is_some();
        Self { name, targets, ranges: if brings_range { Vec::new() } else { ranges }, preset, damo, config }
    }
}

fn some_name_or_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Preset>, D::Error> {
    name_or_table(deserializer).map(Some)
}

fn what_differs<S: Serializer>(preset: &Option<Preset>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(preset) = preset else { return serializer.serialize_none() };
    let table = |preset: &Preset| isotherm_document::to_table(preset).map_err(serde::ser::Error::custom);
    let usual = table(&preset.name().parse().map_err(serde::ser::Error::custom)?)?;
    let mut table = table(preset)?;
    table.retain(|key, value| key == "preset" || usual.get(key) != Some(value));
    table.serialize(serializer)
}

/// Byte addresses from `start` up to, not including, `end`; with `addr-unit`, in these units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeSpec {
    /// First address of the range.
    pub start: u64,
    /// Address after the last; not part of the range.
    pub end: u64,
}

impl From<RangeSpec> for UnitRange {
    fn from(range: RangeSpec) -> Self {
        Self::new(range.start, range.end)
    }
}

impl From<UnitRange> for RangeSpec {
    fn from(range: UnitRange) -> Self {
        Self { start: range.start, end: range.end }
    }
}

impl MonitorSpec {
    /// A monitor of the first process of every workload, or with `paddr` of all memory.
    pub fn new(name: &str, config: MonitorConfig) -> Self {
        Self { name: name.to_owned(), targets: Vec::new(), ranges: Vec::new(), config, preset: None, damo: None }
    }

    /// Reads the file of damo's, if it has one. Ranges of the monitor's own override those of the file.
    ///
    /// # Errors
    /// A message: the file is invalid, or does not fit the targets.
    pub(crate) fn resolve(&mut self, folder: &Path) -> Result<(), String> {
        let Some(source) = &self.damo else { return Ok(()) };
        let found = source.read(folder)?;
        if found.nr_processes > 0 && found.nr_processes != self.targets.len() {
            return Err(format!(
                "{}: it watches {} processes by their `pid`; name as many workloads in `targets`, in its order ({} now)",
                source.file,
                found.nr_processes,
                self.targets.len()
            ));
        }
        self.config = found.config;
        if self.ranges.is_empty() {
            self.ranges = found.ranges;
        }
        Ok(())
    }

    /// A ready configuration.
    ///
    /// # Errors
    /// An invalid value of `preset`.
    pub fn of_preset(name: &str, preset: Preset) -> Result<Self, PresetError> {
        let setup = preset.setup()?;
        let ranges = setup.range.into_iter().map(RangeSpec::from).collect();
        Ok(Self { ranges, preset: Some(preset), ..Self::new(name, setup.config) })
    }

    /// The same thread with the monitor of `config`.
    #[must_use]
    pub fn with_config(self, config: MonitorConfig) -> Self {
        Self { config, preset: None, damo: None, ..self }
    }

    /// The preset that it was made of.
    pub fn preset(&self) -> Option<&Preset> {
        self.preset.as_ref()
    }

    /// Whether it monitors physical memory.
    pub(crate) fn is_physical(&self) -> bool {
        self.config.operations == Operations::Paddr
    }

    /// The processes it names, by workload and number of the process; `None` means the first process of each workload.
    ///
    /// # Errors
    /// The target that is not written as it must be.
    pub(crate) fn named_targets(&self) -> Result<Option<Vec<(&str, usize)>>, &str> {
        if self.targets.is_empty() {
            return Ok(None);
        }
        // Names may hold `/`, but no number behind one.
        let parse = |target: &'_ String| match target.rsplit_once('/').map(|(name, last)| (name, last.parse().ok())) {
            Some((_, None)) if target.ends_with('/') => None,
            None | Some((_, None)) => Some((target.len(), 0)),
            Some((workload, Some(process))) => Some((workload.len(), process)),
        };
        let mut named = Vec::new();
        for target in &self.targets {
            let (length, process) = parse(target).ok_or(target.as_str())?;
            named.push((&target[..length], process));
        }
        Ok(Some(named))
    }
}
