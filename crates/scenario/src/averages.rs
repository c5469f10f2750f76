//! Result rows over several workloads.

use crate::stats::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An `[[averages]]` table: a row of results over several workloads.
///
/// Averages are taken seed by seed, over the workloads' values of that seed; intervals are over seeds, as for any row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AverageSpec {
    /// Name of the average; it takes the place of the workload in results.
    pub name: String,
    /// Workloads, each counted once and alike. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// Quantity that is averaged. Default `values`.
    #[serde(default)]
    pub of: AverageOf,
}

/// Whether values or ratios are averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AverageOf {
    /// Mean of the metric itself. Ratios are ratios of these means, so that the largest workloads decide.
    #[default]
    Values,
    /// Mean of the workloads' ratios, so that all workloads count alike. It has no rows, for ratios have no unit. If a workload's base is 0
    /// in a repeat, that repeat's mean is over the other workloads.
    Ratios,
}

/// A metric of a workload under a variant, by seed.
pub(crate) type Values = BTreeMap<u64, f64>;

/// Means over workloads, for the seeds that all workloads have.
pub(crate) fn mean_values(workloads: &[&Values]) -> Values {
    let Some((first, others)) = workloads.split_first() else { return Values::new() };
    let mean = |(&seed, &value): (&u64, &f64)| {
        let sum = others.iter().try_fold(value, |sum, values| Some(sum + values.get(&seed)?))?;
        Some((seed, sum / workloads.len() as f64))
    };
    first.iter().filter_map(mean).collect()
}

/// Ratios of pairs (same seed on both sides), summed up; pairs whose base is 0 are left out.
pub(crate) fn ratios(values: &Values, bases: &Values) -> Option<Summary> {
    let (values, bases): (Vec<f64>, Vec<f64>) =
        values.iter().filter_map(|(seed, &value)| Some((value, *bases.get(seed)?))).unzip();
    Summary::of_ratios(&values, &bases)
}

/// Means of the workloads' ratios, seed by seed, summed up. `workloads` are values and bases of each.
pub(crate) fn mean_of_ratios(workloads: &[(&Values, &Values)]) -> Option<Summary> {
    let mut of_seed: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for (values, bases) in workloads {
        for (seed, value) in *values {
            if let Some(base) = bases.get(seed).filter(|base| **base != 0.0) {
                let (sum, count) = of_seed.entry(*seed).or_default();
                *sum += value / base;
                *count += 1.0;
            }
        }
    }
    Summary::of(&of_seed.values().map(|(sum, count)| sum / count).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(list: [f64; 3]) -> Values {
        (1..).zip(list).collect()
    }

    #[test]
    fn two_kinds_of_averages_by_hand() {
        // A large workload that halves and a small one that doubles: the first decides the ratio of means, both the mean of ratios.
        let (large, large_base) = (values([50.0, 60.0, 55.0]), values([100.0, 120.0, 110.0]));
        let (small, small_base) = (values([2.0, 2.0, 4.0]), values([1.0, 1.0, 2.0]));
        let (mean, base) = (mean_values(&[&large, &small]), mean_values(&[&large_base, &small_base]));
        assert_eq!((mean.clone(), base.clone()), (values([26.0, 31.0, 29.5]), values([50.5, 60.5, 56.0])));
        let of_means = ratios(&mean, &base).unwrap();
        assert!((of_means.mean - (26.0 / 50.5 + 31.0 / 60.5 + 29.5 / 56.0) / 3.0).abs() < 1e-12);
        let of_ratios = mean_of_ratios(&[(&large, &large_base), (&small, &small_base)]).unwrap();
        assert_eq!((of_ratios.n, of_ratios.mean, of_ratios.stddev), (3, 1.25, 0.0));
    }

    #[test]
    fn seeds_that_a_workload_lacks_have_no_mean_and_bases_of_zero_no_ratio() {
        let (whole, part) = (values([4.0, 6.0, 8.0]), BTreeMap::from([(2, 2.0)]));
        assert_eq!(mean_values(&[&whole, &part]), BTreeMap::from([(2, 4.0)]));
        assert_eq!(mean_values(&[]), Values::new());
        let zero = values([0.0, 3.0, 0.0]);
        // Seed 2: (6/3 + 8/6) / 2 of both; seeds 1 and 3: 8/4 and 8/8 of the second workload alone.
        let eights = values([8.0, 8.0, 8.0]);
        let summary = mean_of_ratios(&[(&whole, &zero), (&eights, &whole)]).unwrap();
        assert!((summary.mean - (2.0 + (2.0 + 8.0 / 6.0) / 2.0 + 1.0) / 3.0).abs() < 1e-12);
        assert_eq!(mean_of_ratios(&[(&whole, &values([0.0; 3]))]), None);
    }
}
