//! LRU_SORT: proactive sorting of LRU lists with careful defaults (docs/spec/schemes.md#s12-1).

use super::physical::{Physical, cold, hot, limit};
use super::{PresetError, Setup};
use crate::schemes::{Action, Filter, FilterType, Goal, Metric, Quotas, Scheme, Watermarks, Weights};
use isotherm_units::{Bytes, Duration, Ratio};
use serde::{Deserialize, Serialize};

/// Basis points by which the two goals overlap, so that both schemes keep working a little.
const GOALS_OVERLAP_BP: u64 = 2;

/// Two schemes on physical memory: hot pages are prioritised on their LRU lists, cold ones deprioritised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct LruSort {
    /// The share of memory on active lists to reach, in basis points up to 10,000; quotas are tuned towards it. 0: not.
    #[serde(alias = "active_mem_bp")]
    pub active_mem_bp: u64,
    /// Intervals are tuned to 0.4 % positive samples, from 5 ms / 100 ms on; configured intervals have no effect.
    #[serde(alias = "autotune_monitoring_intervals")]
    pub autotune_monitoring_intervals: bool,
    /// The accessed bit of each page is tested: in hot regions only young pages are moved, in cold regions only pages that are not young.
    #[serde(alias = "filter_young_pages")]
    pub filter_young_pages: bool,
    /// A region is hot if it was found used in at least this share of the samples of an aggregation.
    #[serde(alias = "hot_thres_access_freq")]
    pub hot_thres_access_freq: Ratio,
    /// A region is cold if it was not used for at least this time. Unlike in the kernel also where intervals are tuned: there the threshold
    /// is a number of aggregations, which get longer.
    #[serde(alias = "cold_min_age")]
    pub cold_min_age: Duration,
    /// CPU time a window, half for each scheme, whole milliseconds. 0: no limit.
    #[serde(alias = "quota_ms", alias = "quota-ms")]
    pub quota_time: Duration,
    /// Length of a quota window; at its start the quota is full again.
    #[serde(alias = "quota_reset_interval_ms", alias = "quota-reset-interval-ms")]
    pub quota_reset_interval: Duration,
    /// Time between two checks of free memory while the schemes are switched off.
    #[serde(alias = "wmarks_interval")]
    pub wmarks_interval: Duration,
    /// The schemes switch off above this share of free memory.
    #[serde(alias = "wmarks_high")]
    pub wmarks_high: Ratio,
    /// The schemes switch on below this share of free memory.
    #[serde(alias = "wmarks_mid")]
    pub wmarks_mid: Ratio,
    /// The schemes switch off below this share of free memory.
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

impl Default for LruSort {
    /// The defaults of the kernel's module.
    fn default() -> Self {
        Self {
            active_mem_bp: 0,
            autotune_monitoring_intervals: false,
            filter_young_pages: false,
            hot_thres_access_freq: Ratio::from_percent(50),
            cold_min_age: Duration::from_secs(120),
            quota_time: Duration::from_ms(10),
            quota_reset_interval: Duration::from_secs(1),
            wmarks_interval: Duration::from_secs(5),
            wmarks_high: Ratio::from_percent(20),
            wmarks_mid: Ratio::from_percent(15),
            wmarks_low: Ratio::from_percent(5),
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

impl LruSort {
    pub(super) fn setup(&self) -> Result<Setup, PresetError> {
        let physical = self.physical();
        let refuse = |key, got: String, allowed: &str| Err(physical.refuse(key, got, allowed));
        if self.active_mem_bp > 10_000 {
            return refuse("active-mem-bp", self.active_mem_bp.to_string(), "up to 10000");
        }
        let share = self.half_quota();
        if share == Duration::ZERO && self.quota_time != Duration::ZERO {
            let allowed = "2ms and more, half for each of two schemes; 0 for no limit";
            return refuse("quota-time", self.quota_time.to_string(), allowed);
        }
        let [hot_scheme, cold_scheme] = self.schemes(share);
        if hot_scheme.access_pattern.nr_accesses.min.samples(&physical.attributes()) == 0 {
            let allowed = "at least one sample of an aggregation; with less, all memory is hot";
            return refuse("hot-thres-access-freq", self.hot_thres_access_freq.to_string(), allowed);
        }
        physical.setup(vec![hot_scheme, cold_scheme])
    }

    fn physical(&self) -> Physical {
        Physical {
            preset: "lru-sort",
            sample_interval: self.sample_interval,
            aggr_interval: self.aggr_interval,
            min_nr_regions: self.min_nr_regions,
            max_nr_regions: self.max_nr_regions,
            monitor_region_start: self.monitor_region_start,
            monitor_region_end: self.monitor_region_end,
            addr_unit: self.addr_unit,
            tuned_to: self.autotune_monitoring_intervals.then_some(Ratio::from_ppm(4000)),
        }
    }

    /// Half the quota, in whole milliseconds, rounded down.
    fn half_quota(&self) -> Duration {
        Duration::from_ms(self.quota_time.ns() / 1_000_000 / 2)
    }

    fn schemes(&self, quota_time: Duration) -> [Scheme; 2] {
        let watermarks = Watermarks {
            interval: self.wmarks_interval,
            high: self.wmarks_high,
            mid: self.wmarks_mid,
            low: self.wmarks_low,
            ..Watermarks::free_mem_rate(Duration::ZERO, 0, 0, 0)
        };
        let quotas = |metric, target_value| {
            let goal = Goal { metric, target_value, ..Goal::default() };
            Quotas {
                time: limit(quota_time),
                reset_interval: self.quota_reset_interval,
                weights: Weights { sz: 0, nr_accesses: 1, age: 1 },
                goals: if self.active_mem_bp > 0 { vec![goal] } else { Vec::new() },
                ..Quotas::default()
            }
        };
        let young = |matching| {
            let filter = Filter::new(FilterType::Young, matching, false);
            if self.filter_young_pages { vec![filter] } else { Vec::new() }
        };
        let inactive_mem_bp = 10_000u64.saturating_sub(self.active_mem_bp) + GOALS_OVERLAP_BP;
        let hot_scheme = Scheme {
            action: Action::LruPrio,
            access_pattern: hot(self.hot_thres_access_freq),
            quotas: quotas(Metric::ActiveMemBp, self.active_mem_bp),
            watermarks,
            ops_filters: young(false),
            ..Scheme::default()
        };
        let cold_scheme = Scheme {
            action: Action::LruDeprio,
            access_pattern: cold(self.cold_min_age),
            quotas: quotas(Metric::InactiveMemBp, inactive_mem_bp),
            watermarks,
            ops_filters: young(true),
            ..Scheme::default()
        };
        [hot_scheme, cold_scheme]
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;
    use crate::monitor::Attributes;

    fn setup(change: impl FnOnce(&mut LruSort)) -> Result<Setup, PresetError> {
        let mut preset = LruSort::default();
        change(&mut preset);
        Preset::LruSort(preset).setup()
    }

    /// docs/spec/schemes.md#s15, examples 37 and 38.
    #[test]
    fn thresholds_are_in_samples_and_aggregations() {
        for (permil, samples) in [(500, 10), (200, 4), (333, 6), (1000, 20), (20, 0)] {
            let preset = LruSort { hot_thres_access_freq: Ratio::from_ppm(permil * 1000), ..LruSort::default() };
            let [hot, _] = preset.schemes(Duration::ZERO);
            let threshold = hot.access_pattern.nr_accesses.min.samples(&Attributes::default());
            assert_eq!(threshold, samples, "example 37: {permil}");
        }
        for (cold_min_age_s, aggr_ms, aggregations) in [(120, 100, 1200), (120, 2000, 60), (5, 100, 50)] {
            let preset = LruSort { cold_min_age: Duration::from_secs(cold_min_age_s), ..LruSort::default() };
            let [_, cold] = preset.schemes(Duration::ZERO);
            let attributes = Attributes { aggr_interval: Duration::from_ms(aggr_ms), ..Attributes::default() };
            let threshold = cold.access_pattern.age.min.aggregations(&attributes);
            assert_eq!(threshold, aggregations, "example 38: {cold_min_age_s} s at {aggr_ms} ms");
        }
    }

    /// docs/spec/schemes.md#s15, example 39.
    #[test]
    fn the_two_goals_overlap_a_little() {
        let setup = setup(|preset| preset.active_mem_bp = 5000).expect("allowed");
        let goals: Vec<&Goal> = setup.config.schemes.iter().flat_map(|scheme| &scheme.quotas.goals).collect();
        let targets: Vec<(Metric, u64)> = goals.iter().map(|goal| (goal.metric, goal.target_value)).collect();
        assert_eq!(targets, [(Metric::ActiveMemBp, 5000), (Metric::InactiveMemBp, 5002)], "example 39");
        let scores: Vec<u64> = goals.iter().map(|goal| goal.score(5000)).collect();
        assert_eq!(scores, [10_000, 9_996], "example 39");
    }

    /// docs/spec/schemes.md#s15, example 40: what rounds to nothing would be no limit, and is refused.
    #[test]
    fn the_quota_is_halved() {
        for (ms, half) in [(10, 5), (3, 1), (1, 0)] {
            let preset = LruSort { quota_time: Duration::from_ms(ms), ..LruSort::default() };
            assert_eq!(preset.half_quota(), Duration::from_ms(half), "example 40: {ms} ms");
        }
        let error = setup(|preset| preset.quota_time = Duration::from_ms(1)).unwrap_err().to_string();
        assert!(error.starts_with("preset `lru-sort`: `quota-time` is 1ms; allowed: 2ms and more"), "{error}");
        let unlimited = setup(|preset| preset.quota_time = Duration::ZERO).expect("said so");
        assert!(unlimited.config.schemes.iter().all(|scheme| scheme.quotas.time.is_none()));
    }

    #[test]
    fn schemes_are_as_in_the_kernel() {
        let setup = setup(|preset| {
            preset.filter_young_pages = true;
            preset.autotune_monitoring_intervals = true;
            preset.sample_interval = Duration::from_ms(7);
        });
        let config = setup.expect("allowed").config;
        let [hot, cold] = &config.schemes[..] else { panic!("two schemes") };
        assert_eq!((hot.action, cold.action), (Action::LruPrio, Action::LruDeprio));
        assert_eq!(hot.ops_filters, [Filter::new(FilterType::Young, false, false)]);
        assert_eq!(cold.ops_filters, [Filter::new(FilterType::Young, true, false)]);
        assert_eq!(hot.quotas, cold.quotas);
        assert_eq!(hot.quotas.time, Some(Duration::from_ms(5)));
        assert_eq!(hot.watermarks, Watermarks::free_mem_rate(Duration::from_secs(5), 200, 150, 50));
        assert_eq!(config.attributes.sample_interval, Duration::from_ms(5), "tuning starts from the defaults");
        assert_eq!(config.attributes.intervals_goal.expect("tuned").access, Ratio::from_ppm(4000));
    }

    #[test]
    fn what_would_be_silently_wrong_is_refused() {
        let error = |change: fn(&mut LruSort)| setup(change).unwrap_err().to_string();
        assert!(error(|p| p.hot_thres_access_freq = Ratio::from_percent(2)).contains("all memory is hot"));
        assert!(error(|p| p.active_mem_bp = 10_001).ends_with("is 10001; allowed: up to 10000"));
        assert!(error(|p| p.monitor_region_start = 5).contains("preset `lru-sort`: `monitor-region-end` is 0"));
        assert!(error(|p| p.wmarks_low = Ratio::from_percent(16)).contains("watermarks.low"));
        assert!(error(|p| p.sample_interval = Duration::ZERO).contains("sample-interval"));
        assert!(error(|p| p.addr_unit = Bytes::ZERO).contains("addr-unit"));
    }
}
