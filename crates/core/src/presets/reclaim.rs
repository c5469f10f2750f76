//! RECLAIM: pages out cold memory before it is missed (docs/spec/schemes.md#s12-2).

use super::physical::{Physical, cold, limit};
use super::{PresetError, Setup};
use crate::schemes::{Action, Filter, FilterType, Goal, Metric, Quotas, Scheme, Watermarks, Weights};
use isotherm_units::{Bytes, Duration, Ratio};
use serde::{Deserialize, Serialize};

/// One scheme on physical memory: regions that were not used for long are paged out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Reclaim {
    /// A region is paged out if it was not used for at least this time. Unlike in the kernel also where intervals are tuned: there the
    /// threshold is a number of aggregations, which get longer.
    #[serde(alias = "min_age")]
    pub min_age: Duration,
    /// CPU time a window, whole milliseconds. 0: no limit.
    #[serde(alias = "quota_ms", alias = "quota-ms")]
    pub quota_time: Duration,
    /// Bytes that may be tried in a window. 0: no limit.
    #[serde(alias = "quota_sz", alias = "quota-sz")]
    pub quota_size: Bytes,
    /// Length of a quota window; at its start the quota is full again.
    #[serde(alias = "quota_reset_interval_ms", alias = "quota-reset-interval-ms")]
    pub quota_reset_interval: Duration,
    /// The quota is tuned until memory stalls tasks for this many microseconds a window. 0: not.
    #[serde(alias = "quota_mem_pressure_us")]
    pub quota_mem_pressure_us: u64,
    /// The quota is tuned by a value that the user reports, 10,000 being just right; this is the first. 0: not.
    #[serde(alias = "quota_autotune_feedback")]
    pub quota_autotune_feedback: u64,
    /// Intervals are tuned to 0.4 % positive samples, from 5 ms / 100 ms on; configured intervals have no effect.
    #[serde(alias = "autotune_monitoring_intervals")]
    pub autotune_monitoring_intervals: bool,
    /// Pages out only pages of files and leaves anonymous memory alone.
    #[serde(alias = "skip_anon")]
    pub skip_anon: bool,
    /// Time between two checks of free memory while the scheme is switched off.
    #[serde(alias = "wmarks_interval")]
    pub wmarks_interval: Duration,
    /// The scheme switches off above this share of free memory.
    #[serde(alias = "wmarks_high")]
    pub wmarks_high: Ratio,
    /// The scheme switches on below this share of free memory.
    #[serde(alias = "wmarks_mid")]
    pub wmarks_mid: Ratio,
    /// The scheme switches off below this share of free memory.
    #[serde(alias = "wmarks_low")]
    pub wmarks_low: Ratio,
    /// Time from one sample to the next. See [`Attributes`](crate::monitor::Attributes).
    #[serde(alias = "sample_interval")]
    pub sample_interval: Duration,
    /// Time from one snapshot to the next. See [`Attributes`](crate::monitor::Attributes).
    #[serde(alias = "aggr_interval")]
    pub aggr_interval: Duration,
    /// Fewest regions, at least 3. See [`Attributes`](crate::monitor::Attributes).
    #[serde(alias = "min_nr_regions")]
    pub min_nr_regions: u32,
    /// Most regions. See [`Attributes`](crate::monitor::Attributes).
    #[serde(alias = "max_nr_regions")]
    pub max_nr_regions: u32,
    /// First address to monitor, in units of `addr_unit`.
    #[serde(alias = "monitor_region_start")]
    pub monitor_region_start: u64,
    /// First address unit behind; with a start of 0 as well: all memory.
    #[serde(alias = "monitor_region_end")]
    pub monitor_region_end: u64,
    /// Bytes of an address unit, in which the two bounds above are given.
    #[serde(alias = "addr_unit")]
    pub addr_unit: Bytes,
}

impl Default for Reclaim {
    /// The defaults of the kernel's module.
    fn default() -> Self {
        Self {
            min_age: Duration::from_secs(120),
            quota_time: Duration::from_ms(10),
            quota_size: Bytes::from_mib(128),
            quota_reset_interval: Duration::from_secs(1),
            quota_mem_pressure_us: 0,
            quota_autotune_feedback: 0,
            autotune_monitoring_intervals: false,
            skip_anon: false,
            wmarks_interval: Duration::from_secs(5),
            wmarks_high: Ratio::from_percent(50),
            wmarks_mid: Ratio::from_percent(40),
            wmarks_low: Ratio::from_percent(20),
            sample_interval: Duration::from_ms(5),
            aggr_interval: Duration::from_ms(100),
            min_nr_regions: 10,
            max_nr_regions: 1000,
            monitor_region_start: 0,
            monitor_region_end: 0,
            addr_unit: Bytes::new(1),
        }
    }
}

impl Reclaim {
    pub(super) fn setup(&self) -> Result<Setup, PresetError> {
        let physical = Physical {
            preset: "reclaim",
            sample_interval: self.sample_interval,
            aggr_interval: self.aggr_interval,
            min_nr_regions: self.min_nr_regions,
            max_nr_regions: self.max_nr_regions,
            monitor_region_start: self.monitor_region_start,
            monitor_region_end: self.monitor_region_end,
            addr_unit: self.addr_unit,
            tuned_to: self.autotune_monitoring_intervals.then_some(Ratio::from_ppm(4000)),
        };
        let goal =
            |metric, target_value, current_value| Goal { metric, target_value, current_value, ..Goal::default() };
        let mut goals = Vec::new();
        if self.quota_mem_pressure_us > 0 {
            goals.push(goal(Metric::SomeMemPsiUs, self.quota_mem_pressure_us, 0));
        }
        if self.quota_autotune_feedback > 0 {
            goals.push(goal(Metric::UserInput, 10_000, self.quota_autotune_feedback));
        }
        let quotas = Quotas {
            time: limit(self.quota_time),
            size: Some(self.quota_size).filter(|size| *size != Bytes::ZERO),
            reset_interval: self.quota_reset_interval,
            weights: Weights { sz: 0, nr_accesses: 0, age: 1 },
            goals,
            ..Quotas::default()
        };
        let watermarks = Watermarks {
            interval: self.wmarks_interval,
            high: self.wmarks_high,
            mid: self.wmarks_mid,
            low: self.wmarks_low,
            ..Watermarks::free_mem_rate(Duration::ZERO, 0, 0, 0)
        };
        let scheme = Scheme {
            action: Action::Pageout,
            access_pattern: cold(self.min_age),
            quotas,
            watermarks,
            ops_filters: if self.skip_anon { vec![Filter::new(FilterType::Anon, true, false)] } else { Vec::new() },
            ..Scheme::default()
        };
        physical.setup(vec![scheme])
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    #[test]
    fn the_scheme_is_as_in_the_kernel() {
        let text =
            "preset = \"reclaim\"\nquota_mem_pressure_us = 500\nquota-autotune-feedback = 9000\nskip_anon = true";
        let preset: Preset = toml::from_str(text).expect("names as in the kernel");
        let config = preset.setup().expect("allowed").config;
        let [scheme] = &config.schemes[..] else { panic!("one scheme") };
        assert_eq!(scheme.action, Action::Pageout);
        let goals: Vec<(Metric, u64, u64)> =
            scheme.quotas.goals.iter().map(|goal| (goal.metric, goal.target_value, goal.current_value)).collect();
        assert_eq!(goals, [(Metric::SomeMemPsiUs, 500, 0), (Metric::UserInput, 10_000, 9000)]);
        assert_eq!(scheme.ops_filters, [Filter::new(FilterType::Anon, true, false)]);
        assert_eq!(scheme.quotas.weights, Weights { sz: 0, nr_accesses: 0, age: 1 });
        assert_eq!((scheme.quotas.time, scheme.quotas.size), (Some(Duration::from_ms(10)), Some(Bytes::from_mib(128))));
        assert_eq!(scheme.access_pattern.age.min.aggregations(&config.attributes), 1200);
        assert_eq!(scheme.watermarks, Watermarks::free_mem_rate(Duration::from_secs(5), 500, 400, 200));
    }
}
