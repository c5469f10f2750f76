//! The huge-page dimension of advice: the share of a recording's memory that could be huge pages, and the memory that they would add.

use super::replay_cache::ReplayCache;
use super::{Fragmented, Question};
use isotherm_scenario::{Progress, ScenarioError};
use isotherm_trace::TraceReader;
use isotherm_trace::analysis::{HugeRanges, HugeStep, NotReported, huge_ranges};
use isotherm_units::{Bytes, Ratio};
use serde::Serialize;

/// A 2 MiB range is dense if at least this share is touched: as a huge page it adds no more memory than is in use.
pub const DENSE: Ratio = Ratio::from_percent(50);

/// How much of the program's memory could be huge pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// The share from which on a range is dense, in millionths.
    pub dense_share_ppm: u64,
    /// Ranges of the recording; `None` if it does not say.
    pub ranges: Option<HugeRanges>,
    /// Why the recording gives no answer; `None` if it does.
    pub not_reported: Option<NotReported>,
    /// Latencies of huge pages for the dense ranges on fragmented memory.
    pub fragmented: Option<Fragmented>,
}

impl HugePages {
    /// Result for the recording of a program whose peak is `peak`.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn of(
        question: &Question,
        peak: Bytes,
        cache: &ReplayCache,
        progress: &dyn Progress,
    ) -> Result<Self, ScenarioError> {
        let reported = TraceReader::open(&question.trace).and_then(|mut reader| huge_ranges(&mut reader));
        let reported = reported.map_err(|error| ScenarioError::Meaning {
            place: question.trace.display().to_string(),
            message: error.to_string(),
        })?;
        let (ranges, not_reported) = match reported {
            Ok(ranges) => (Some(ranges), None),
            Err(why) => (None, Some(why)),
        };
        let reported = Self { dense_share_ppm: DENSE.ppm(), ranges, not_reported, fragmented: None };
        let fragmented = Fragmented::of(&reported, peak, cache, progress)?;
        Ok(Self { fragmented, ..reported })
    }

    /// The dense ranges, if there are any.
    pub fn dense(&self) -> Option<&HugeStep> {
        let steps = &self.ranges.as_ref()?.steps;
        steps.iter().find(|step| step.least_share_ppm == self.dense_share_ppm && step.ranges > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(least_share_ppm: u64, ranges: u64) -> HugeStep {
        HugeStep { least_share_ppm, ranges, held_bytes: 0, held_share_ppm: 0, accesses_share_ppm: 0, overhead_bytes: 0 }
    }

    #[test]
    fn dense_is_what_is_used_by_half() {
        let of = |ranges| {
            let steps = vec![step(0, 9), step(500_000, ranges), step(1_000_000, 0)];
            let ranges = Some(HugeRanges { touched_bytes: 0, anonymous_bytes: 0, steps });
            HugePages { dense_share_ppm: DENSE.ppm(), ranges, not_reported: None, fragmented: None }
        };
        assert_eq!(of(7).dense().map(|dense| dense.ranges), Some(7));
        assert_eq!(of(0).dense(), None, "none is");
        let not_reported = HugePages { ranges: None, not_reported: Some(NotReported::NoMappings), ..of(7) };
        assert_eq!(not_reported.dense(), None);
    }
}
