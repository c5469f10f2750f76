//! Reduces samples within a block to one value.

use isotherm_units::{Duration, Instant};
use serde::Serialize;

/// Direction in which a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    Higher,
    Lower,
}

/// How samples become the value of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Mean of the samples.
    Level,
    /// The last minus the first, per second: a counter that only grows.
    Rate,
}

/// A value that is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metric {
    pub name: String,
    /// Unit, per second where it is a rate: `bytes`, `pages/s`. Empty if not given.
    pub unit: String,
    pub kind: Kind,
    pub better: Better,
}

/// Samples of one metric in one block.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    count: u64,
    sum: f64,
    first: Option<(Instant, f64)>,
    last: Option<(Instant, f64)>,
    trouble: Option<SampleError>,
}

/// Why there is no sample, or no value of a block.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// The metric's source could not be read, in its own words.
    #[error("{0}")]
    Source(String),
    #[error("{0} is no number that can be compared")]
    NotFinite(f64),
    /// A counter that should only grow went down.
    #[error("it went down from {before} to {now}")]
    WentDown { before: f64, now: f64 },
    #[error("there was no sample after the warm-up")]
    NoSample,
    #[error("a rate needs two samples after the warm-up")]
    OneSample,
}

impl From<String> for SampleError {
    fn from(why: String) -> Self {
        Self::Source(why)
    }
}

impl Samples {
    /// Takes a sample, or the reason why there is none. Samples within the warm-up are not passed
    /// in.
    pub fn take(&mut self, at: Instant, sample: Result<f64, SampleError>) {
        match sample {
            Ok(value) if value.is_finite() => {
                self.count += 1;
                self.sum += value;
                if let Some((_, before)) = self.last
                    && value < before
                    && self.trouble.is_none()
                {
                    self.trouble = Some(SampleError::WentDown { before, now: value });
                }
                self.first.get_or_insert((at, value));
                self.last = Some((at, value));
            }
            Ok(value) => self.trouble = Some(SampleError::NotFinite(value)),
            Err(why) => self.trouble = Some(why),
        }
    }

    /// The value of the block.
    ///
    /// # Errors
    /// Why the block has no value.
    pub fn value(&self, kind: Kind) -> Result<f64, SampleError> {
        let none = || self.trouble.clone().unwrap_or(SampleError::NoSample);
        match kind {
            // An occasional missing sample does not discard the others.
            Kind::Level if self.count > 0 => Ok(self.sum / self.count as f64),
            Kind::Level => Err(none()),
            Kind::Rate => {
                let (Some((start, first)), Some((end, last))) = (self.first, self.last) else { return Err(none()) };
                match end.since(start) {
                    Duration::ZERO => Err(SampleError::OneSample),
                    _ if self.trouble.is_some() => Err(none()),
                    elapsed => Ok((last - first) / (elapsed.ns() as f64 / 1e9)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_means_and_rates_are_per_second() {
        let at = |seconds| Instant::START + Duration::from_secs(seconds);
        let mut samples = Samples::default();
        assert!(samples.value(Kind::Level).is_err());
        samples.take(at(10), Ok(100.0));
        assert!(samples.value(Kind::Rate).is_err());
        samples.take(at(12), Ok(140.0));
        assert_eq!((samples.value(Kind::Level), samples.value(Kind::Rate)), (Ok(120.0), Ok(20.0)));
        samples.take(at(13), Ok(90.0));
        assert_eq!(samples.value(Kind::Level), Ok(110.0));
        assert!(samples.value(Kind::Rate).unwrap_err().to_string().contains("went down"));
        let mut missing = Samples::default();
        missing.take(at(1), Err("no such file".to_owned().into()));
        missing.take(at(2), Ok(f64::NAN));
        assert!(missing.value(Kind::Level).is_err());
    }

    #[test]
    fn each_error_has_its_words() {
        for (error, words) in [
            (SampleError::from("no such file".to_owned()), "no such file"),
            (SampleError::NotFinite(f64::NAN), "NaN is no number that can be compared"),
            (SampleError::WentDown { before: 140.0, now: 90.5 }, "it went down from 140 to 90.5"),
            (SampleError::NoSample, "there was no sample after the warm-up"),
            (SampleError::OneSample, "a rate needs two samples after the warm-up"),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }
}
