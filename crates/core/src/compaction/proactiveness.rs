//! `vm.compaction_proactiveness`: one number in place of thresholds (docs/spec/compaction.md#s3).

use crate::OutOfRange;
use serde::{Deserialize, Serialize};

/// `vm.compaction_proactiveness`: 0 (off) to 100. Larger values compact earlier and further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Proactiveness(u32);

impl Default for Proactiveness {
    /// 20, the kernel's.
    fn default() -> Self {
        Self(20)
    }
}

impl TryFrom<u32> for Proactiveness {
    type Error = OutOfRange;

    fn try_from(value: u32) -> Result<Self, OutOfRange> {
        if value <= 100 { Ok(Self(value)) } else { Err(OutOfRange::new("proactiveness", value, "0 (off) to 100")) }
    }
}

impl From<Proactiveness> for u32 {
    fn from(value: Proactiveness) -> Self {
        value.0
    }
}

/// How far the high mark lies above the low mark, which differs between kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leeway {
    /// The distance of the marks shrinks towards 100: more often, and less each time.
    #[default]
    Shrinking,
    /// As in 5.9: the leeway is always 10, and the low mark not below 5.
    Fixed,
}

/// Scores between which compaction works: it starts above `high` and stops at `low`. Percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreMarks {
    /// It goes on while a zone's score is above.
    pub low: u32,
    /// It starts when the node's score is above.
    pub high: u32,
}

impl Proactiveness {
    /// Whether compaction never starts, and a running one stops.
    pub const fn is_off(self) -> bool {
        self.0 == 0
    }

    /// Marks of the score at this proactiveness. From 1 to 10 `high` is 100, which no score exceeds: it never starts. Source: Linux 7.2
    /// `mm/compaction.c`, `fragmentation_score_wmark`.
    pub fn marks(self, leeway: Leeway) -> ScoreMarks {
        let low = 100 - self.0;
        match leeway {
            Leeway::Shrinking => ScoreMarks { low, high: (low + 10.min(low / 2)).min(100) },
            Leeway::Fixed => ScoreMarks { low: low.max(5), high: (low.max(5) + 10).min(100) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(value: u32, leeway: Leeway) -> (u32, u32) {
        let ScoreMarks { low, high } = Proactiveness::try_from(value).unwrap().marks(leeway);
        (low, high)
    }

    /// docs/spec/compaction.md#s11, E10.
    #[test]
    fn e10_marks_of_each_proactiveness() {
        let table = [
            (0, (100, 100)),
            (1, (99, 100)),
            (5, (95, 100)),
            (10, (90, 100)),
            (20, (80, 90)),
            (50, (50, 60)),
            (80, (20, 30)),
            (81, (19, 28)),
            (85, (15, 22)),
            (90, (10, 15)),
            (95, (5, 7)),
            (98, (2, 3)),
            (99, (1, 1)),
            (100, (0, 0)),
        ];
        for (value, expected) in table {
            assert_eq!(marks(value, Leeway::Shrinking), expected, "p={value}");
        }
        for (value, expected) in [(20, (80, 90)), (95, (5, 15)), (100, (5, 15))] {
            assert_eq!(marks(value, Leeway::Fixed), expected, "5.9, p={value}");
        }
    }

    /// E31: 25 and 30 cannot be had by one value.
    #[test]
    fn e31_a_low_mark_of_25_brings_a_high_mark_of_35() {
        assert_eq!(marks(75, Leeway::Shrinking), (25, 35));
        assert_eq!(marks(100, Leeway::Shrinking), (0, 0), "written first, it starts at any score");
    }

    #[test]
    fn above_100_is_refused() {
        let error = Proactiveness::try_from(101).unwrap_err().to_string();
        assert_eq!(error, "`proactiveness` is 101; allowed: 0 (off) to 100");
    }
}
