//! Results of a scenario, in the form of its JSON.

use crate::config::Reference;
use crate::expectations::ExpectationRow;
use crate::monitoring::ExplainedRun;
use crate::stats::Summary;
use isotherm_kernel::memory::KernelRelease;
use serde::Serialize;

/// The results of all variants and repeats of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioResult {
    pub scenario: String,
    /// One row for each workload, variant and metric.
    pub rows: Vec<ResultRow>,
    /// One row for each workload, variant and metric against the named variant, if one is named.
    pub ratios: Vec<RatioRow>,
    /// Effects of schemes and what limited them: an entry for each variant and workload with monitors that have schemes, of
    /// the first seed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<ExplainedRun>,
    /// Workloads with processes killed for lack of memory: their figures are of the time before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub killed: Vec<KilledRow>,
    /// Expectations, and whether they are met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<ExpectationRow>,
}

/// A workload with killed processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KilledRow {
    /// Name of the workload; `system` for the whole machine.
    pub workload: String,
    pub variant: String,
    /// The release whose rules the simulated kernel followed.
    pub kernel: KernelRelease,
    /// Runs in which some process was killed.
    pub runs: u64,
    /// All runs.
    pub of: u64,
}

/// A metric of a workload under a variant, over all repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultRow {
    /// Name of the workload, or of an average; `system` for the whole machine.
    pub workload: String,
    pub variant: String,
    /// The release whose rules the simulated kernel followed.
    pub kernel: KernelRelease,
    /// Name of the metric; it contains the unit unless it is a plain count.
    pub metric: String,
    /// Number of repeats that have a value.
    pub n: u64,
    pub mean: f64,
    /// Sample standard deviation over repeats; 0 for one repeat.
    pub stddev: f64,
    /// Lower end of the 95 % confidence interval of the mean (Student's t); absent for one repeat.
    pub ci95_low: Option<f64>,
    /// Upper end of that interval; absent for one value.
    pub ci95_high: Option<f64>,
    /// How values lie over the worlds of the scenario; absent without any.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Published value, or the middle of the published interval.
    pub reference: Option<f64>,
    /// Lower end of the published interval; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_low: Option<f64>,
    /// Upper end of the published interval; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_high: Option<f64>,
}

/// How the values of repeats lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The value in the middle, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Spread {
    pub(crate) fn of(summary: &Summary) -> Self {
        let Summary { median, least, most, .. } = *summary;
        Self { median, least, most }
    }
}

/// Ratio of a metric to another variant, paired by seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatioRow {
    /// Name of the workload, or of an average; `system` for the whole machine.
    pub workload: String,
    pub variant: String,
    /// The release whose rules the simulated kernel followed in this variant.
    pub kernel: KernelRelease,
    pub metric: String,
    /// The variant whose value is the base of the ratio.
    pub against: String,
    /// Number of pairs of equal seed whose base is not 0.
    pub n: u64,
    /// Mean of the ratios of all pairs.
    pub mean: f64,
    /// Sample standard deviation of the ratios; 0 for one pair.
    pub stddev: f64,
    /// Lower end of the 95 % confidence interval of the mean ratio (Student's t); absent for one pair.
    pub ci95_low: Option<f64>,
    /// Upper end of that interval; absent for one value.
    pub ci95_high: Option<f64>,
    /// How ratios lie over the worlds of the scenario; absent without any.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Published ratio, or the middle of the published interval.
    pub reference: Option<f64>,
    /// Lower end of the published interval; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_low: Option<f64>,
    /// Upper end of the published interval; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_high: Option<f64>,
    /// Whether our mean and the published ratio lie on the same side of 1; absent without a reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign_agrees: Option<bool>,
    /// Whether our interval and the published one have a point in common; absent without either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlaps: Option<bool>,
}

/// A workload, a variant and a metric, and the release that the variant was played by.
pub(crate) type RowKey<'a> = ((&'a str, &'a str, &'a str), KernelRelease);

impl ResultRow {
    pub(crate) fn new((key, kernel): RowKey<'_>, summary: Summary, reference: Option<&Reference>) -> Self {
        let Summary { n, mean, stddev, ci95_low, ci95_high, .. } = summary;
        let interval = reference.and_then(Reference::interval);
        Self {
            workload: key.0.to_owned(),
            variant: key.1.to_owned(),
            kernel,
            metric: key.2.to_owned(),
            n,
            mean,
            stddev,
            ci95_low,
            ci95_high,
            spread: None,
            reference: reference.and_then(Reference::number),
            reference_low: interval.map(|(low, _)| low),
            reference_high: interval.map(|(_, high)| high),
        }
    }
}

impl RatioRow {
    pub(crate) fn new(key: RowKey<'_>, against: &str, summary: Summary, reference: Option<&Reference>) -> Self {
        let row = ResultRow::new(key, summary, reference);
        let theirs = row.reference_low.zip(row.reference_high);
        let ours = row.ci95_low.zip(row.ci95_high);
        Self {
            workload: row.workload,
            variant: row.variant,
            kernel: row.kernel,
            metric: row.metric,
            against: against.to_owned(),
            n: row.n,
            mean: row.mean,
            stddev: row.stddev,
            ci95_low: row.ci95_low,
            ci95_high: row.ci95_high,
            spread: None,
            reference: row.reference,
            reference_low: row.reference_low,
            reference_high: row.reference_high,
            sign_agrees: row.reference.map(|reference| same_side_of_one(row.mean, reference)),
            overlaps: ours.zip(theirs).map(|(ours, theirs)| have_a_point_in_common(ours, theirs)),
        }
    }
}

/// Whether two ratios agree: more, less, or no change.
fn same_side_of_one(ours: f64, theirs: f64) -> bool {
    ours.partial_cmp(&1.0) == theirs.partial_cmp(&1.0)
}

/// Whether two closed intervals meet.
fn have_a_point_in_common(one: (f64, f64), other: (f64, f64)) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

impl ScenarioResult {
    /// The row of this workload, variant and metric; `None` if there is none.
    pub fn row(&self, workload: &str, variant: &str, metric: &str) -> Option<&ResultRow> {
        self.rows.iter().find(|row| row.workload == workload && row.variant == variant && row.metric == metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: RowKey<'_> = (("w", "v", "m"), KernelRelease::V7_2);

    fn reference(value: Option<f64>, interval: Option<(f64, f64)>) -> Reference {
        let name = |text: &str| text.to_owned();
        Reference {
            workload: name("w"),
            variant: name("v"),
            metric: name("m"),
            value,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            against: Some(name("base")),
            source: name("by hand"),
        }
    }

    /// Ratios 1.08, 1.10, 1.12: mean 1.1, standard deviation 0.02, t(2) = 4.303, half = 4.303 * 0.02 / sqrt 3 = 0.0497:
    /// the interval is 1.0503 to 1.1497.
    #[test]
    fn intervals_of_references_by_hand() {
        let summary = Summary::of(&[1.08, 1.10, 1.12]).unwrap();
        // (published interval, its middle, same side, meets)
        let table = [
            ((1.02, 1.06), 1.04, true, true),   // ends inside ours
            ((1.09, 1.11), 1.10, true, true),   // lies in ours
            ((1.00, 1.20), 1.10, true, true),   // holds ours
            ((1.02, 1.05), 1.035, true, false), // ends 0.0003 below
            ((1.15, 1.17), 1.16, true, false),  // begins 0.0003 above
            ((0.90, 0.98), 0.94, false, false), // the other side
            ((0.90, 1.06), 0.98, false, true),  // its middle is on the other side
        ];
        for (interval, middle, same_side, meets) in table {
            let row = RatioRow::new(KEY, "base", summary, Some(&reference(None, Some(interval))));
            assert!((row.reference.unwrap() - middle).abs() < 1e-12, "{interval:?}");
            assert_eq!((row.reference_low, row.reference_high), (Some(interval.0), Some(interval.1)));
            assert_eq!((row.sign_agrees, row.overlaps), (Some(same_side), Some(meets)), "{interval:?}");
        }
    }

    #[test]
    fn a_number_alone_has_a_sign_and_no_overlap() {
        let row = |values: &[f64], reference: Option<&Reference>| {
            RatioRow::new(KEY, "base", Summary::of(values).unwrap(), reference)
        };
        let number = reference(Some(0.6), None);
        let with_number = row(&[0.7, 0.9], Some(&number));
        assert_eq!(
            (with_number.sign_agrees, with_number.overlaps, with_number.reference),
            (Some(true), None, Some(0.6))
        );
        assert_eq!(row(&[1.5], Some(&number)).sign_agrees, Some(false));
        assert_eq!(row(&[1.0], Some(&number)).sign_agrees, Some(false), "no change is not less");
        let interval = reference(Some(0.6), Some((0.5, 0.8)));
        let alone = row(&[0.7], Some(&interval));
        assert_eq!((alone.reference, alone.overlaps), (Some(0.6), None), "one repeat has no interval");
        let without = row(&[0.7], None);
        assert_eq!((without.reference, without.sign_agrees, without.overlaps), (None, None, None));
    }
}
