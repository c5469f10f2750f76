//! Scheduled events of a scenario.

use isotherm_kernel::reclaim::mglru::ControlFile;
use isotherm_units::{Amount, Duration};
use serde::{Deserialize, Serialize};

/// One event: when, and exactly one thing that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EventSpec {
    /// Simulated time of the first occurrence.
    pub at: Duration,
    /// Time from one occurrence to the next. Left out: it occurs once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// Writes limits of a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<SetSpec>,
    /// Starts the workload of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Kills the workload of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Writes `memory.reclaim` of a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<ReclaimSpec>,
    /// Writes a file of the Multi-Gen LRU; only where that is the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mglru: Option<MglruSpec>,
    /// Writes a control of the scan daemon that promotes; only under such a policy of `[tiering]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<PromotionWrite>,
    /// Reports the current value of a goal of `user-input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_value: Option<GoalValueSpec>,
}

/// The value of a metric that only a program knows, for a goal of `user-input`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GoalValueSpec {
    /// Name of the monitor.
    pub monitor: String,
    /// Place of the scheme in its list, from 0.
    #[serde(default)]
    pub scheme: usize,
    /// Place of the goal in the scheme's list, from 0.
    #[serde(default)]
    pub goal: usize,
    /// Value in the unit of the goal's target value.
    pub value: u64,
}

impl EventSpec {
    /// How many things it names; must be one.
    pub(crate) fn nr_actions(&self) -> usize {
        let named = [
            self.set.is_some(),
            self.start.is_some(),
            self.stop.is_some(),
            self.reclaim.is_some(),
            self.mglru.is_some(),
            self.promotion.is_some(),
            self.goal_value.is_some(),
        ];
        named.into_iter().filter(|&named| named).count()
    }
}

/// Limits to write; limits that are left out stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SetSpec {
    pub cgroup: String,
    /// `memory.max`. A lower value reclaims the excess at once, and kills if that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<LimitValue>,
    /// `memory.high`. A lower value reclaims the excess at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<LimitValue>,
    /// `memory.low`: memory up to this is protected from reclaim as far as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<LimitValue>,
    /// `memory.min`: memory up to this is never reclaimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<LimitValue>,
    /// `memory.swap.max`: the most that the group may have in swap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_max: Option<LimitValue>,
}

/// A request for proactive reclaim, as a write to `memory.reclaim`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ReclaimSpec {
    pub cgroup: String,
    /// How much; a share is of the group's peak memory.
    pub amount: Amount,
    /// 0..=200, or 201 for anonymous pages only; the machine's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swappiness: Option<u32>,
}

/// A write to one file of the Multi-Gen LRU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MglruSpec {
    /// `enabled`: `y`, `n`, or a number whose bits are the whole, walks over page tables, accessed bits above the leaf.
    Enabled(String),
    /// `min_ttl_ms`, written as `min-ttl-ms` like all keys.
    MinTtlMs(u64),
    /// `lru_gen`: commands to age and to evict. The root is group 0, the groups of the scenario follow in their order, then the workloads'
    /// own.
    LruGen(String),
}

impl MglruSpec {
    pub(crate) fn written(&self) -> (ControlFile, String) {
        match self {
            Self::Enabled(text) => (ControlFile::Enabled, text.clone()),
            Self::MinTtlMs(ms) => (ControlFile::MinTtlMs, ms.to_string()),
            Self::LruGen(text) => (ControlFile::LruGen, text.clone()),
        }
    }
}

/// A write to one control of the scan daemon, by the names of `/sys/kernel/mm/kmmscand`, or `prctl` of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromotionWrite {
    /// Whether the daemon scans at all.
    ScanEnabled(bool),
    ScanSleepMs(u32),
    /// Scan period of spaces that come later.
    MmScanPeriodMs(u32),
    MmsToScan(u32),
    TargetNode(u32),
    /// How much rarer the processes of a workload are scanned.
    Scale(ScaleSpec),
}

/// The scale of a workload's processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ScaleSpec {
    pub workload: String,
    /// 0 ends scans of the process, 1 is the usual rate, 2 to 10 make scans rarer.
    pub scale: u32,
}

impl PromotionWrite {
    /// Name of the file, and the text written; `None`: it is no file.
    pub(crate) fn written(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Self::ScanEnabled(is_on) => ("scan_enabled", u32::from(*is_on).to_string()),
            Self::ScanSleepMs(ms) => ("scan_sleep_ms", ms.to_string()),
            Self::MmScanPeriodMs(ms) => ("mm_scan_period_ms", ms.to_string()),
            Self::MmsToScan(number) => ("mms_to_scan", number.to_string()),
            Self::TargetNode(node) => ("target_node", node.to_string()),
            Self::Scale(_) => return None,
        })
    }
}

/// A limit: `max` (none), a size, or a share of peak memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitValue {
    /// No limit; written as `max`.
    Max,
    /// A size, or a share of peak memory.
    Amount(Amount),
}

impl std::fmt::Display for LimitValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Max => f.pad("max"),
            Self::Amount(amount) => amount.fmt(f),
        }
    }
}

impl Serialize for LimitValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LimitValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        match text.trim() {
            "max" => Ok(Self::Max),
            text => text.parse().map(Self::Amount).map_err(serde::de::Error::custom),
        }
    }
}
