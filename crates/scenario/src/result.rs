//! Results of a scenario, in the shape of its JSON.

use crate::monitoring::ExplainedRun;
use crate::stats::Summary;
use serde::Serialize;

/// Everything a scenario gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioResult {
    /// Its name.
    pub scenario: String,
    /// One row for each workload, variant and metric.
    pub rows: Vec<Row>,
    /// One row for each workload, variant and metric against the named variant, if one is named.
    pub ratios: Vec<RatioRow>,
    /// What schemes did and what stopped them: an entry for each variant and workload with monitors that have schemes, of the
    /// first seed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<ExplainedRun>,
}

/// A metric of a workload under a variant, over all repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Workload, or `system`.
    pub workload: String,
    /// Variant.
    pub variant: String,
    /// Metric, unit in its name.
    pub metric: String,
    /// Repeats.
    pub n: u64,
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation.
    pub stddev: f64,
    /// 95 % confidence interval of the mean; absent for one repeat.
    pub ci95_low: Option<f64>,
    /// Its upper end.
    pub ci95_high: Option<f64>,
    /// Published value.
    pub reference: Option<f64>,
}

/// A metric as a ratio to another variant, paired by seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatioRow {
    /// Workload, or `system`.
    pub workload: String,
    /// Variant.
    pub variant: String,
    /// Metric.
    pub metric: String,
    /// The variant it is divided by.
    pub against: String,
    /// Pairs with a base other than 0.
    pub n: u64,
    /// Mean ratio.
    pub mean: f64,
    /// Its sample standard deviation.
    pub stddev: f64,
    /// 95 % confidence interval; absent for one pair.
    pub ci95_low: Option<f64>,
    /// Its upper end.
    pub ci95_high: Option<f64>,
    /// Published ratio.
    pub reference: Option<f64>,
}

impl Row {
    pub(crate) fn new(key: (&str, &str, &str), summary: Summary, reference: Option<f64>) -> Self {
        let Summary { n, mean, stddev, ci95_low, ci95_high } = summary;
        let (workload, variant, metric) = (key.0.to_owned(), key.1.to_owned(), key.2.to_owned());
        Self { workload, variant, metric, n, mean, stddev, ci95_low, ci95_high, reference }
    }
}

impl RatioRow {
    pub(crate) fn new(key: (&str, &str, &str), against: &str, summary: Summary, reference: Option<f64>) -> Self {
        let Row { workload, variant, metric, n, mean, stddev, ci95_low, ci95_high, reference } =
            Row::new(key, summary, reference);
        let against = against.to_owned();
        Self { workload, variant, metric, against, n, mean, stddev, ci95_low, ci95_high, reference }
    }
}

impl ScenarioResult {
    /// The row of this key.
    pub fn row(&self, workload: &str, variant: &str, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.workload == workload && row.variant == variant && row.metric == metric)
    }
}
