//! A context's configuration, as written in files.

use super::attrs::{Attributes, Baseline};
use super::error::MonitorError;
use super::flush::FlushPolicy;
use super::level::ptp_descend::DescendConfig;
use super::level::{Levels, Strategy};
use super::probes::AttributeProbe;
use super::region::PROBES_MAX;
use crate::OutOfRange;
use crate::schemes::Scheme;
use isotherm_units::{Bytes, Ratio};
use serde::{Deserialize, Serialize};

/// Names that damo and earlier releases have for keys of monitors, by our name: both are read.
pub const OTHER_NAMES: &[(&str, &[&str])] = &[
    ("operations", &["ops"]),
    ("attributes", &["attrs", "monitoring-attrs"]),
    ("sample-interval", &["sample-us", "sample"]),
    ("aggr-interval", &["aggr-us", "aggr"]),
    ("ops-update-interval", &["ops-update-us", "update-interval", "update-us", "updr"]),
    ("min-nr-regions", &["minr"]),
    ("max-nr-regions", &["maxr"]),
    ("access", &["access-bp"]),
    ("min-sample-interval", &["min-sample-us"]),
    ("max-sample-interval", &["max-sample-us"]),
    ("min-region-size", &["min-region-sz"]),
    ("apply-interval", &["apply-interval-us"]),
    ("dests", &["destinations"]),
    ("filter-type", &["type"]),
    ("target-value", &["target"]),
    ("current-value", &["current"]),
    ("size", &["sz-bytes", "sz"]),
    ("time", &["time-ms", "ms"]),
    ("reset-interval", &["reset-interval-ms"]),
    ("interval", &["interval-us"]),
    ("high", &["high-permil"]),
    ("mid", &["mid-permil"]),
    ("low", &["low-permil"]),
];

/// Kind of addresses that are monitored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operations {
    /// All of a process. Ranges follow its mappings; given ones last only until the first update.
    #[default]
    Vaddr,
    /// Given ranges of a process, which never change.
    Fvaddr,
    /// Given ranges of physical memory, one target. Pages are sampled through all their mappings.
    Paddr,
}

impl Operations {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Vaddr => "vaddr",
            Self::Fvaddr => "fvaddr",
            Self::Paddr => "paddr",
        }
    }
}

/// How the samples of an aggregation lie in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Each tick checks one address of each region.
    #[default]
    Spread,
    /// All at the beginning: as many addresses a region as ticks, tested once at the end. Each integrates the whole
    /// aggregation and so finds rare accesses, with one wake-up an aggregation; how often one address is used is lost.
    Batch,
}

/// One context: the memory it watches, how, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MonitorConfig {
    /// The kind of address space that is monitored.
    #[serde(alias = "ops")]
    pub operations: Operations,
    /// Intervals and numbers of regions.
    #[serde(alias = "monitoring-attrs", alias = "monitoring_attrs", alias = "attrs")]
    pub attributes: Attributes,
    /// Level of the page table at which regions are sampled.
    pub strategy: Strategy,
    /// How samples lie in time. Not `batch` with `ptp-descend`, an adaptive flush or attribute probes, which live by ticks.
    pub sampling: Sampling,
    /// Whether cached translations are dropped after bits were cleared. Without, upper bits may stay clear although there
    /// are accesses; with, each sample costs the target TLB misses.
    pub flush: FlushPolicy,
    /// Kernel whose behaviour to follow where kernels differ.
    pub baseline: Baseline,
    /// The smallest region, a power of two, in address units. By default an entry of the level that the strategy goes down to: a page, or 2
    /// MiB if cuts fall on borders of entries.
    #[serde(
        alias = "min-region-sz",
        alias = "min_region_sz",
        alias = "min_region_size",
        skip_serializing_if = "Option::is_none"
    )]
    pub min_region_size: Option<Bytes>,
    /// Bytes of one unit of `paddr` addresses, for machines whose physical addresses outgrow their words. 1 otherwise.
    #[serde(alias = "addr_unit")]
    pub addr_unit: Bytes,
    /// For `flex`: the tolerated share of an entry outside its region, for levels 1, 2, … ; the last holds for all above.
    pub leaks: Vec<Ratio>,
    /// For `ptp-descend`: limits of the cost of the walk down.
    pub descend: DescendConfig,
    /// Attribute probes, up to 4, for `paddr` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<AttributeProbe>,
    /// Actions on the found regions, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<Scheme>,
    /// Sleeps in the middle of the next tick until this is false.
    #[serde(alias = "pause")]
    pub paused: bool,
}

impl Default for MonitorConfig {
    /// Plain DAMON of 7.2 on a process. The tolerances of `flex` are our own choice: no published ones are known.
    fn default() -> Self {
        Self {
            operations: Operations::Vaddr,
            attributes: Attributes::default(),
            strategy: Strategy::default(),
            sampling: Sampling::Spread,
            flush: FlushPolicy::None,
            baseline: Baseline::V7_2,
            min_region_size: None,
            addr_unit: Bytes::new(1),
            leaks: vec![Ratio::from_percent(25), Ratio::from_percent(15), Ratio::from_percent(5)],
            descend: DescendConfig::default(),
            probes: Vec::new(),
            schemes: Vec::new(),
            paused: false,
        }
    }
}

impl MonitorConfig {
    /// Factor by which samples become rarer than requested, for less CPU time.
    pub fn stretch(&mut self, stretch: u32) {
        let attributes = &mut self.attributes;
        for interval in [&mut attributes.sample_interval, &mut attributes.aggr_interval] {
            *interval = interval.saturating_mul(u64::from(stretch));
        }
        // Mappings are read as often as before, but not more often than they are used.
        attributes.ops_update_interval = attributes.ops_update_interval.max(attributes.aggr_interval);
        if let Some(goal) = &mut attributes.intervals_goal {
            goal.min_sample_interval = goal.min_sample_interval.saturating_mul(u64::from(stretch));
            goal.max_sample_interval = goal.max_sample_interval.max(goal.min_sample_interval);
        }
    }

    /// Checks all that can be checked without a target.
    ///
    /// # Errors
    /// The first value outside its limits, with the allowed values.
    pub fn validate(&self) -> Result<(), MonitorError> {
        self.attributes.validate()?;
        let refuse = |what, got: String, allowed: &str| Err(OutOfRange::new(what, got, allowed).into());
        if let Some(size) = self.min_region_size.filter(|size| !size.get().is_power_of_two()) {
            return refuse("min-region-size", size.to_string(), "a power of two");
        }
        let is_scaled = self.addr_unit != Bytes::new(1);
        if is_scaled && self.operations != Operations::Paddr {
            return refuse("addr-unit", self.addr_unit.to_string(), "1B for virtual addresses");
        }
        if is_scaled && self.strategy.entry().probes_upper {
            return refuse("addr-unit", self.addr_unit.to_string(), "1B with strategies that probe upper entries");
        }
        if self.addr_unit == Bytes::ZERO {
            return refuse("addr-unit", self.addr_unit.to_string(), "1B and more");
        }
        if let Some(leak) = self.leaks.iter().find(|leak| **leak > Ratio::ONE) {
            return refuse("leaks", leak.to_string(), "up to 100%");
        }
        if self.descend.ticks == 0 || self.descend.words_per_tick < 2 {
            let got = format!("{} ticks, {} words-per-tick", self.descend.ticks, self.descend.words_per_tick);
            return refuse("descend", got, "1 tick and more, 2 words and more");
        }
        if self.probes.len() > PROBES_MAX {
            return refuse("probes", self.probes.len().to_string(), "up to 4");
        }
        if !self.probes.is_empty() && self.operations != Operations::Paddr {
            return refuse(
                "probes",
                format!("{} with `{}`", self.probes.len(), self.operations.name()),
                "none but with `paddr`",
            );
        }
        let needs_ticks = [
            (self.strategy.entry().walks_down, self.strategy.entry().name),
            (self.flush == FlushPolicy::Adaptive, "flush = adaptive"),
            (!self.probes.is_empty(), "probes"),
        ];
        if self.sampling == Sampling::Batch
            && let Some((_, what)) = needs_ticks.iter().find(|(is_used, _)| *is_used)
        {
            return refuse("sampling", format!("batch with `{what}`"), "spread");
        }
        let is_physical = self.operations == Operations::Paddr;
        for (index, scheme) in self.schemes.iter().enumerate() {
            scheme
                .validate(&self.attributes, is_physical)
                .map_err(|source| MonitorError::Scheme { index, source: source.into() })?;
        }
        Ok(())
    }

    /// The smallest region in address units on page tables such as `levels`.
    pub(crate) fn size_min(&self, levels: &Levels) -> u64 {
        debug_assert!(self.addr_unit > Bytes::ZERO, "lengths are divided by the unit");
        debug_assert!(
            self.min_region_size.is_none_or(|size| size.get().is_power_of_two()),
            "regions are aligned by masks"
        );
        self.min_region_size.map(Bytes::get).unwrap_or_else(|| {
            let smallest = self.strategy.entry().smallest;
            let span = if levels.has(smallest) { levels.span(smallest) } else { u128::from(levels.page()) };
            // A power of two also where the address unit is none.
            let units = u64::try_from(span).expect("below 2^64") / self.addr_unit.get();
            1 << units.max(1).ilog2()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_is_allowed() {
        let change = |change: fn(&mut MonitorConfig)| {
            let mut config = MonitorConfig::default();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        type Row = (fn(&mut MonitorConfig), &'static str);
        let table: [Row; 7] = [
            (
                |c| (c.sampling, c.flush) = (Sampling::Batch, FlushPolicy::Adaptive),
                "`sampling` is batch with `flush = adaptive`; allowed: spread",
            ),
            (|c| c.min_region_size = Some(Bytes::new(5000)), "`min-region-size` is 5000B; allowed: a power of two"),
            (|c| c.addr_unit = Bytes::new(4), "`addr-unit` is 4B; allowed: 1B for virtual addresses"),
            (
                |c| c.probes = vec![AttributeProbe::default()],
                "`probes` is 1 with `vaddr`; allowed: none but with `paddr`",
            ),
            (|c| c.leaks = vec![Ratio::from_percent(101)], "`leaks` is 101%; allowed: up to 100%"),
            (
                |c| c.descend.ticks = 0,
                "`descend` is 0 ticks, 8192 words-per-tick; allowed: 1 tick and more, 2 words and more",
            ),
            (|c| c.attributes.min_nr_regions = 1, "`min-nr-regions` is 1; allowed: 3 and more"),
        ];
        for (bad, expected) in table {
            assert_eq!(change(bad), expected);
        }
    }
}
