//! Whether a configuration is better on this machine, under its own load: a switchback experiment (docs/use/trial.md).
//!
//! Two configurations alternate in pairs of blocks, the order within a pair drawn at random. A pair gives one difference per metric.
//! Counting pairs has a reason: correlation within a block and slow drifts of the load cannot make an interval too narrow. One metric
//! decides. This module has no clock and no file: blocks run behind [`Field`].

mod analyse;
mod block;
mod boundary;
mod design;
mod forecast;
mod samples;
#[cfg(test)]
mod tests;

pub use analyse::{Comparison, Pair};
pub use block::{BlockSide, Sampler, run_block};
pub use design::{Arm, Block, Design, DesignError, Extent};
pub use forecast::{Forecast, POWER};
pub use samples::{Better, Kind, Metric, SampleError, Samples};

use serde::Serialize;

/// Fewest pairs of a trial; with fewer, Student's t is too wide to find anything.
pub const PAIRS_MIN: u32 = 4;
/// Pairs after which the noise is known well enough to announce an end.
pub const PILOT: u32 = 6;
/// Interim analyses at which a trial may end.
const LOOKS: u32 = 4;

/// How a block ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockEnd {
    /// It lasted its full length.
    Whole,
    /// The user ended the trial.
    Stopped,
    /// The guard tripped because memory was short; the text has the reason.
    Hurt(String),
    /// An error; the text describes it.
    Failed(String),
}

/// Result of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub end: BlockEnd,
    /// Value of each metric, in order, or why there is none.
    pub values: Vec<Result<f64, SampleError>>,
}

/// Where blocks run.
pub trait Field {
    /// Runs a block: configures, measures after the warm-up, restores everything.
    fn block(&mut self, block: Block) -> Measured;

    /// A pair is over.
    fn progress(&mut self, progress: &Progress<'_>);
}

/// State after a pair.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Number of pairs so far.
    pub pairs: u32,
    /// Mean difference, B minus A, of the metric that decides, as a share of the mean under A. `None` where that is 0.
    pub difference: Option<f64>,
    /// The announcement; `None` until the noise is known.
    pub forecast: Option<&'a Forecast>,
}

/// Result for the metric that decides, at 97 %.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The configuration of this arm is better.
    Better { arm: Arm },
    /// No difference was seen, and a difference that matters is ruled out.
    Alike,
    /// No difference was seen, but a difference that matters is not ruled out.
    Undecided,
    /// The guard tripped under this configuration.
    Hurt { arm: Arm, why: String },
}

/// Why a trial ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum TrialEnd {
    /// An interim analysis decided it before the last pair.
    Decided,
    /// All pairs have run.
    AllPairs,
    /// The user ended it.
    Stopped,
    /// The guard tripped.
    Hurt,
    /// A block failed; the text has the reason.
    Failed { why: String },
}

/// Report on one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricResult {
    #[serde(flatten)]
    pub metric: Metric,
    /// Absent if fewer than two pairs have a value.
    pub comparison: Option<Comparison>,
    pub pairs: Vec<Pair>,
    /// Blocks without a value, and why the last one had none.
    pub missing: u32,
    pub why_missing: Option<String>,
}

/// Result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trialled {
    #[serde(flatten)]
    pub end: TrialEnd,
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Whole pairs.
    pub pairs: u32,
    pub forecast: Option<Forecast>,
    /// Index of the metric that decides.
    pub deciding: usize,
    pub metrics: Vec<MetricResult>,
}

struct State<'a> {
    design: &'a Design,
    metrics: Vec<MetricResult>,
    deciding: usize,
    pairs: u32,
    forecast: Option<Forecast>,
    /// Numbers of pairs before each interim analysis, once announced.
    looks: Vec<u32>,
    looked: Vec<u32>,
}

/// Runs a trial over a field; `deciding` is the index of the metric that decides.
///
/// # Errors
/// [`DesignError`].
///
/// # Panics
/// If there is no metric with that index.
pub fn trial(
    design: &Design,
    metrics: &[Metric],
    deciding: usize,
    field: &mut dyn Field,
) -> Result<Trialled, DesignError> {
    design.check()?;
    assert!(deciding < metrics.len(), "there is a metric that decides");
    let result = |metric: &Metric| MetricResult {
        metric: metric.clone(),
        comparison: None,
        pairs: Vec::new(),
        missing: 0,
        why_missing: None,
    };
    let mut state = State {
        design,
        metrics: metrics.iter().map(result).collect(),
        deciding,
        pairs: 0,
        forecast: None,
        looks: Vec::new(),
        looked: Vec::new(),
    };
    if let Some(noise) = design.expected_noise {
        state.announce(noise);
    }
    let end = loop {
        match state.pair(field) {
            Ok(()) => {}
            Err((arm, BlockEnd::Hurt(why))) => return Ok(state.ended(TrialEnd::Hurt, Some(Verdict::Hurt { arm, why }))),
            Err((_, BlockEnd::Failed(why))) => break TrialEnd::Failed { why },
            Err((_, BlockEnd::Whole | BlockEnd::Stopped)) => break TrialEnd::Stopped,
        }
        if state.forecast.is_none()
            && state.pairs >= PILOT.min(state.pairs_max())
            && let Some(noise) = state.noise()
        {
            state.announce(noise);
        }
        let forecast = state.forecast;
        let difference = state.so_far().and_then(|so_far| so_far.share(so_far.difference));
        field.progress(&Progress { pairs: state.pairs, difference, forecast: forecast.as_ref() });
        let Some(Forecast { pairs, .. }) = state.forecast else {
            // A mean of 0 cannot be planned for, so the trial ends with the pilot.
            if state.pairs >= PILOT.min(state.pairs_max()) && state.design.expected_noise.is_none() {
                state.looked.push(state.pairs);
                break TrialEnd::AllPairs;
            }
            continue;
        };
        if state.pairs >= pairs {
            break TrialEnd::AllPairs;
        }
        if state.looks.contains(&state.pairs) {
            state.looked.push(state.pairs);
            if state.verdict() != Verdict::Undecided {
                break TrialEnd::Decided;
            }
        }
    };
    Ok(state.ended(end, None))
}

impl State<'_> {
    fn pairs_max(&self) -> u32 {
        let (Extent::Pairs(pairs) | Extent::ByNoise(pairs)) = self.design.extent;
        pairs
    }

    /// Runs a pair. A pair with an incomplete block does not count.
    fn pair(&mut self, field: &mut dyn Field) -> Result<(), (Arm, BlockEnd)> {
        let mut both = [Vec::new(), Vec::new()];
        for block in self.design.pair(self.pairs) {
            let measured = field.block(block);
            if measured.end != BlockEnd::Whole {
                return Err((block.arm, measured.end));
            }
            if let Some(Err(why)) = measured.values.get(self.deciding) {
                let name = &self.metrics[self.deciding].metric.name;
                return Err((block.arm, BlockEnd::Failed(format!("{name}, which decides, is not known: {why}"))));
            }
            both[usize::from(block.arm == Arm::B)] = measured.values;
        }
        self.pairs += 1;
        let [a, b] = both;
        for ((result, a), b) in self.metrics.iter_mut().zip(a).zip(b) {
            match (a, b) {
                (Ok(a), Ok(b)) => result.pairs.push(Pair { a, b }),
                (a, b) => {
                    for why in [a.err(), b.err()].into_iter().flatten() {
                        result.missing += 1;
                        result.why_missing = Some(why.to_string());
                    }
                }
            }
        }
        Ok(())
    }

    /// Noise of the metric that decides, as a share of the mean under A; `None` where that is 0.
    fn noise(&self) -> Option<f64> {
        let comparison = self.so_far()?;
        let noise = comparison.share(forecast::planned_noise(comparison.deviation, comparison.pairs))?;
        noise.is_finite().then_some(noise)
    }

    fn announce(&mut self, noise: f64) {
        let max = self.pairs_max();
        let pairs_needed = forecast::needed(noise, self.design.difference, max.max(10_000));
        let pairs = match self.design.extent {
            Extent::Pairs(pairs) => pairs,
            Extent::ByNoise(max) => pairs_needed.min(max).max(self.pairs),
        };
        let visible = forecast::visible(noise, pairs);
        self.forecast = Some(Forecast { noise, pairs_needed, pairs, visible });
        self.looks = forecast::looks(self.pairs.max(PAIRS_MIN), pairs);
    }

    /// The metric that decides, ignoring interim analyses, for its mean and its noise.
    fn so_far(&self) -> Option<Comparison> {
        Comparison::of(&self.metrics[self.deciding].pairs, 1.96)
    }

    /// Boundary of an interim analysis now. The error reserved for later pairs is spent only if there are none.
    fn boundary(&self) -> f64 {
        let total = self.forecast.map_or(self.pairs, |forecast| forecast.pairs.max(self.pairs));
        let mut at = self.looked.clone();
        if at.last() != Some(&self.pairs) {
            at.push(self.pairs);
        }
        let fractions: Vec<f64> = at.iter().map(|&pairs| f64::from(pairs) / f64::from(total)).collect();
        boundary::boundaries(&fractions, boundary::ALPHA).last().copied().unwrap_or(f64::INFINITY)
    }

    fn compare(&self, index: usize) -> Option<Comparison> {
        let pairs = &self.metrics[index].pairs;
        if pairs.len() < 2 { None } else { Comparison::of(pairs, self.boundary()) }
    }

    fn verdict(&self) -> Verdict {
        let Some(comparison) = self.compare(self.deciding) else { return Verdict::Undecided };
        if comparison.differs() {
            let is_b = (self.metrics[self.deciding].metric.better == Better::Higher) == (comparison.low > 0.0);
            return Verdict::Better { arm: if is_b { Arm::B } else { Arm::A } };
        }
        let within = comparison.share(comparison.largest());
        let is_alike = within.is_some_and(|within| within <= self.design.difference) || comparison.largest() == 0.0;
        if is_alike { Verdict::Alike } else { Verdict::Undecided }
    }

    fn ended(mut self, end: TrialEnd, verdict: Option<Verdict>) -> Trialled {
        let verdict = verdict.unwrap_or_else(|| self.verdict());
        if self.pairs >= 2 {
            let z = self.boundary();
            for result in &mut self.metrics {
                result.comparison = Comparison::of(&result.pairs, z);
            }
        }
        Trialled {
            end,
            verdict,
            pairs: self.pairs,
            forecast: self.forecast,
            deciding: self.deciding,
            metrics: self.metrics,
        }
    }
}
