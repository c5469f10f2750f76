//! Monitors in a scenario file.

use isotherm_core::host::AddressRange;
use isotherm_core::monitor::{MonitorConfig, Operations};
use serde::{Deserialize, Serialize};

/// A `[[monitors]]` table: a kernel thread that monitors workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorSpec {
    /// Name of the thread in results.
    pub name: String,
    /// What it watches: `WORKLOAD` is the first process of a workload, `WORKLOAD/2` its process number 2, from 0. In runs
    /// without that workload the target is left out. Default: every workload; with `paddr`, physical memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Where it looks, for one target. Default: `vaddr` follows the mappings; `fvaddr` takes those of the process's start,
    /// `paddr` all memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<RangeSpec>,
    /// How it watches. Keys also in damo's spellings.
    #[serde(default)]
    pub config: MonitorConfig,
}

/// Byte addresses from `start` up to, not including, `end`; with `addr-unit`, in these units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeSpec {
    /// First address.
    pub start: u64,
    /// The one behind the last.
    pub end: u64,
}

impl From<RangeSpec> for AddressRange {
    fn from(range: RangeSpec) -> Self {
        Self::new(range.start, range.end)
    }
}

impl MonitorSpec {
    /// Whether it watches physical memory.
    pub(crate) fn is_physical(&self) -> bool {
        self.config.operations == Operations::Paddr
    }

    /// The processes it names, by workload and number of the process; `None` stands for the first process of each workload.
    ///
    /// # Errors
    /// The target that is not written as it must be.
    pub(crate) fn named_targets(&self) -> Result<Option<Vec<(&str, usize)>>, &str> {
        if self.targets.is_empty() {
            return Ok(None);
        }
        let parse = |target: &'_ String| match target.split_once('/') {
            None => Some((target.len(), 0)),
            Some((workload, process)) => process.parse().ok().map(|process| (workload.len(), process)),
        };
        let mut named = Vec::new();
        for target in &self.targets {
            let (length, process) = parse(target).ok_or(target.as_str())?;
            named.push((&target[..length], process));
        }
        Ok(Some(named))
    }
}
