//! LRU sorting tuned radically, as in the evaluation of its first series (docs/spec/schemes.md#s13). Hot memory is used in a
//! fifth of the samples, cold memory was unused for five seconds; each scheme has up to 2 % of a CPU and no watermarks. The
//! numbers were given in prose; weights for hot memory ("frequency, then how long it was kept") are ours.

use super::physical::{Physical, cold, hot};
use super::{PresetError, Setup};
use crate::schemes::{Action, Quotas, Scheme, Weights};
use isotherm_units::{Bytes, Duration, Ratio};
use serde::{Deserialize, Serialize};

/// Two schemes on all physical memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlrusRadical {
    /// A region is hot if it was found used in at least this share of the samples of an aggregation.
    #[serde(alias = "hot_thres_access_freq")]
    pub hot_thres_access_freq: Ratio,
    /// A region is cold if it was not used for at least this time.
    #[serde(alias = "cold_min_age")]
    pub cold_min_age: Duration,
    /// CPU time a window of each of the two schemes, whole milliseconds.
    #[serde(alias = "quota_ms", alias = "quota-ms")]
    pub quota_time: Duration,
    /// Length of a quota window; at its start the quota is full again.
    #[serde(alias = "quota_reset_interval_ms", alias = "quota-reset-interval-ms")]
    pub quota_reset_interval: Duration,
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
}

impl Default for PlrusRadical {
    /// The values of the evaluation.
    fn default() -> Self {
        Self {
            hot_thres_access_freq: Ratio::from_percent(20),
            cold_min_age: Duration::from_secs(5),
            quota_time: Duration::from_ms(20),
            quota_reset_interval: Duration::from_secs(1),
            sample_interval: Duration::from_ms(5),
            aggr_interval: Duration::from_ms(100),
            min_nr_regions: 10,
            max_nr_regions: 1000,
        }
    }
}

impl PlrusRadical {
    pub(super) fn setup(&self) -> Result<Setup, PresetError> {
        let physical = Physical {
            preset: "plrus-radical",
            sample_interval: self.sample_interval,
            aggr_interval: self.aggr_interval,
            min_nr_regions: self.min_nr_regions,
            max_nr_regions: self.max_nr_regions,
            monitor_region_start: 0,
            monitor_region_end: 0,
            addr_unit: Bytes::new(1),
            tuned_to: None,
        };
        let quotas = |weights| Quotas {
            time: Some(self.quota_time),
            reset_interval: self.quota_reset_interval,
            weights,
            ..Quotas::default()
        };
        let hot_scheme = Scheme {
            action: Action::LruPrio,
            access_pattern: hot(self.hot_thres_access_freq),
            quotas: quotas(Weights { sz: 0, nr_accesses: 1, age: 1 }),
            ..Scheme::default()
        };
        let cold_scheme = Scheme {
            action: Action::LruDeprio,
            access_pattern: cold(self.cold_min_age),
            quotas: quotas(Weights { sz: 0, nr_accesses: 0, age: 1 }),
            ..Scheme::default()
        };
        physical.setup(vec![hot_scheme, cold_scheme])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_those_of_the_evaluation() {
        let config = PlrusRadical::default().setup().expect("defaults").config;
        let [hot, cold] = &config.schemes[..] else { panic!("two schemes") };
        assert_eq!(hot.access_pattern.nr_accesses.min.samples(&config.attributes), 4);
        assert_eq!(cold.access_pattern.age.min.aggregations(&config.attributes), 50);
        // 2 % of a CPU each.
        let quota =
            |scheme: &Scheme| scheme.quotas.time.expect("limited").ns() * 50 == scheme.quotas.reset_interval.ns();
        assert!(quota(hot) && quota(cold));
    }
}
