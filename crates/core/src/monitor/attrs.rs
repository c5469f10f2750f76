//! The attributes of monitoring: how often, how long, how many regions.

use super::error::MonitorError;
use crate::OutOfRange;
use isotherm_units::{Duration, Ratio};
use serde::{Deserialize, Serialize};

/// Most samples of an aggregation: above, the kernel's 32-bit sums (10,000 a sample) wrap.
const SAMPLES_MAX: u64 = (u32::MAX / super::region::HIT_BP) as u64;

/// A process is monitored as three ranges.
const NR_REGIONS_MIN: u32 = 3;

/// Kernel whose behaviour to follow where kernels differ: docs/spec/page-table-profiling.md#s6-1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Baseline {
    /// Linux 6.6, which the page-table-profiling patches were written for: merges once however many regions are left, lets
    /// age grow through steps between zero and not zero, cuts large regions at the start only.
    #[serde(rename = "v6_6", alias = "6.6", alias = "v6.6")]
    V6_6,
    /// The behaviour of Linux 7.2.
    #[default]
    #[serde(rename = "v7_2", alias = "7.2", alias = "v7.2")]
    V7_2,
}

/// How a context watches. Times are whole microseconds, as in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Attributes {
    /// Time from clearing an accessed bit to testing it. Longer sees rarer accesses, and costs less. Not zero.
    #[serde(alias = "sample_interval", alias = "sample-us", alias = "sample_us", alias = "sample")]
    pub sample_interval: Duration,
    /// Time over which positive samples are counted, before regions are merged, reported and split. At least one sample;
    /// at most 429,496. A remainder of a sample is cut off.
    #[serde(alias = "aggr_interval", alias = "aggr-us", alias = "aggr_us", alias = "aggr")]
    pub aggr_interval: Duration,
    /// Time between two reads of the mappings of a process. Zero: every tick.
    #[serde(
        alias = "ops_update_interval",
        alias = "ops-update-us",
        alias = "ops_update_us",
        alias = "update-interval",
        alias = "update-us",
        alias = "update_us",
        alias = "updr"
    )]
    pub ops_update_interval: Duration,
    /// Fewest regions of all targets together, at least 3. Large regions are cut to get there. Bounds how far merges go:
    /// no region grows past the total size divided by it.
    #[serde(alias = "min_nr_regions", alias = "minr")]
    pub min_nr_regions: u32,
    /// Most regions. Bounds the cost: one clear and one test for each region and sample.
    #[serde(alias = "max_nr_regions", alias = "maxr")]
    pub max_nr_regions: u32,
    /// Lets the intervals follow the workload; the ratio of the two above is kept.
    #[serde(alias = "intervals_goal", skip_serializing_if = "Option::is_none")]
    pub intervals_goal: Option<IntervalsGoal>,
}

/// Share of all samples that should be positive, and the range in which intervals may move to get there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct IntervalsGoal {
    /// The wanted share of positive samples, by bytes; basis points count, finer is cut off. Up to 100 %.
    #[serde(alias = "access-bp", alias = "access_bp")]
    pub access: Ratio,
    /// Aggregations from one adjustment to the next, at least 1.
    pub aggrs: u32,
    /// Lower bound of the sampling interval.
    #[serde(alias = "min_sample_interval", alias = "min-sample-us", alias = "min_sample_us")]
    pub min_sample_interval: Duration,
    /// Upper bound of the sampling interval.
    #[serde(alias = "max_sample_interval", alias = "max-sample-us", alias = "max_sample_us")]
    pub max_sample_interval: Duration,
}

impl Default for Attributes {
    /// The kernel's: 5 ms, 100 ms, 60 s, 10 to 1000 regions, no tuning.
    fn default() -> Self {
        Self {
            sample_interval: Duration::from_ms(5),
            aggr_interval: Duration::from_ms(100),
            ops_update_interval: Duration::from_secs(60),
            min_nr_regions: 10,
            max_nr_regions: 1000,
            intervals_goal: None,
        }
    }
}

impl Default for IntervalsGoal {
    /// The recommendation of the kernel's documentation: 4 % each 3 aggregations, 5 ms to 10 s.
    fn default() -> Self {
        Self {
            access: Ratio::from_percent(4),
            aggrs: 3,
            min_sample_interval: Duration::from_ms(5),
            max_sample_interval: Duration::from_secs(10),
        }
    }
}

impl IntervalsGoal {
    pub(crate) fn access_bp(&self) -> u64 {
        self.access.ppm() / 100
    }
}

impl Attributes {
    /// Checks all limits.
    ///
    /// # Errors
    /// [`MonitorError::OutOfRange`] with the attribute, its value and the allowed values. The kernel takes a sampling interval of zero and
    /// lets sums wrap (docs/spec/monitoring.md#s4); we refuse both.
    pub fn validate(&self) -> Result<(), MonitorError> {
        let refuse = |what, got: String, allowed: String| Err(OutOfRange::new(what, got, allowed).into());
        let (sample, aggr) = (self.sample_interval, self.aggr_interval);
        let bound = |bound: fn(&IntervalsGoal) -> Duration| self.intervals_goal.as_ref().map_or(Duration::ZERO, bound);
        let intervals = [
            ("sample-interval", sample),
            ("aggr-interval", aggr),
            ("ops-update-interval", self.ops_update_interval),
            ("intervals-goal.min-sample-interval", bound(|goal| goal.min_sample_interval)),
            ("intervals-goal.max-sample-interval", bound(|goal| goal.max_sample_interval)),
        ];
        for (what, interval) in intervals {
            if !interval.ns().is_multiple_of(1000) {
                return refuse(what, interval.to_string(), "whole microseconds".to_owned());
            }
        }
        if sample == Duration::ZERO {
            return refuse("sample-interval", sample.to_string(), "1us and more".to_owned());
        }
        if sample > aggr {
            return refuse("aggr-interval", aggr.to_string(), format!("the sample-interval ({sample}) and more"));
        }
        if aggr.ns() / sample.ns() > SAMPLES_MAX {
            let most = sample.saturating_mul(SAMPLES_MAX);
            return refuse(
                "aggr-interval",
                aggr.to_string(),
                format!("up to {SAMPLES_MAX} samples of {sample} ({most})"),
            );
        }
        if self.min_nr_regions < NR_REGIONS_MIN {
            let got = self.min_nr_regions.to_string();
            return refuse("min-nr-regions", got, format!("{NR_REGIONS_MIN} and more"));
        }
        if self.max_nr_regions < self.min_nr_regions {
            let allowed = format!("min-nr-regions ({}) and more", self.min_nr_regions);
            return refuse("max-nr-regions", self.max_nr_regions.to_string(), allowed);
        }
        let Some(goal) = &self.intervals_goal else { return Ok(()) };
        if goal.aggrs == 0 {
            return refuse(
                "intervals-goal.aggrs",
                "0".to_owned(),
                "1 and more; leave the goal out for none".to_owned(),
            );
        }
        if goal.access > Ratio::ONE {
            return refuse("intervals-goal.access", goal.access.to_string(), "up to 100%".to_owned());
        }
        let (low, high) = (goal.min_sample_interval, goal.max_sample_interval);
        if low > high || low < Duration::from_us(1) {
            let allowed = format!("1us up to max-sample-interval ({high})");
            return refuse("intervals-goal.min-sample-interval", low.to_string(), allowed);
        }
        // Tuning multiplies the interval by the samples of an aggregation.
        if high.ns().checked_mul(aggr.ns() / sample.ns()).is_none() {
            let allowed = format!("aggregations of up to {}", Duration::MAX);
            return refuse("intervals-goal.max-sample-interval", high.to_string(), allowed);
        }
        if sample < low || sample > high {
            let allowed = format!("{low} to {high}, as intervals-goal says");
            return refuse("sample-interval", sample.to_string(), allowed);
        }
        Ok(())
    }

    /// Samples in an aggregation: the highest count a region can reach, 1 to 429,496. 20 by default.
    pub fn nr_accesses_max(&self) -> u32 {
        samples_in(self.aggr_interval, self.sample_interval)
    }

    /// Ticks of an aggregation.
    pub(crate) fn aggr_ticks(&self) -> u64 {
        ticks(self.aggr_interval, self.sample_interval)
    }

    /// Ticks from one update of the mappings to the next.
    pub(crate) fn update_ticks(&self) -> u64 {
        ticks(self.ops_update_interval, self.sample_interval)
    }
}

/// `interval` in whole samples.
pub(crate) fn ticks(interval: Duration, sample: Duration) -> u64 {
    interval.ns() / sample.ns().max(1)
}

fn samples_in(aggr: Duration, sample: Duration) -> u32 {
    u32::try_from(ticks(aggr, sample)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(change: impl FnOnce(&mut Attributes)) -> Attributes {
        let mut attributes = Attributes::default();
        change(&mut attributes);
        attributes
    }

    /// docs/spec/monitoring.md#s17, example 28.
    #[test]
    fn the_kernels_limits_hold() {
        assert_eq!(Attributes::default().validate(), Ok(()), "example 28");
        assert_eq!(Attributes::default().nr_accesses_max(), 20);
        for refused in [
            change(|attrs| attrs.min_nr_regions = 1),
            change(|attrs| attrs.max_nr_regions = 9),
            change(|attrs| attrs.aggr_interval = Duration::from_us(4999)),
        ] {
            assert!(refused.validate().is_err(), "example 28: {refused:?}");
        }
    }

    /// docs/spec/monitoring.md#s17, example 27: the maximum clamps.
    #[test]
    fn the_highest_count_fits_32_bits() {
        let attributes = change(|attrs| {
            attrs.sample_interval = Duration::from_us(10);
            attrs.aggr_interval = Duration::from_us((1 << 32) * 10);
        });
        assert_eq!(attributes.nr_accesses_max(), u32::MAX, "example 27");
        assert!(attributes.validate().unwrap_err().to_string().contains("429496 samples"));
    }

    #[test]
    fn refusals_say_what_where_and_what_is_allowed() {
        let goal = |low, high| {
            Some(IntervalsGoal { min_sample_interval: low, max_sample_interval: high, ..IntervalsGoal::default() })
        };
        let (ms, us) = (Duration::from_ms, Duration::from_us);
        let table = [
            (change(|a| a.sample_interval = us(0)), "`sample-interval` is 0ns; allowed: 1us and more"),
            (
                change(|a| a.aggr_interval = us(0)),
                "`aggr-interval` is 0ns; allowed: the sample-interval (5ms) and more",
            ),
            (
                change(|a| a.sample_interval = Duration::from_ns(1)),
                "`sample-interval` is 1ns; allowed: whole microseconds",
            ),
            (change(|a| a.min_nr_regions = 2), "`min-nr-regions` is 2; allowed: 3 and more"),
            (change(|a| a.max_nr_regions = 9), "`max-nr-regions` is 9; allowed: min-nr-regions (10) and more"),
            (
                change(|a| a.intervals_goal = goal(ms(10), ms(5))),
                "`intervals-goal.min-sample-interval` is 10ms; allowed: 1us up to max-sample-interval (5ms)",
            ),
            (
                change(|a| a.intervals_goal = goal(ms(10), ms(20))),
                "`sample-interval` is 5ms; allowed: 10ms to 20ms, as intervals-goal says",
            ),
            (
                change(|a| a.intervals_goal = Some(IntervalsGoal { aggrs: 0, ..IntervalsGoal::default() })),
                "`intervals-goal.aggrs` is 0; allowed: 1 and more; leave the goal out for none",
            ),
        ];
        for (attributes, expected) in table {
            assert_eq!(attributes.validate().unwrap_err().to_string(), expected);
        }
    }
}
