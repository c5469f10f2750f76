//! Answers of a rule: the recommended size for each program, kernel and allowed slow-down, and the most major faults predicted for it.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::FidelityError;
use isotherm_units::PAGE_BYTES;

/// Sizes at which a recommendation is judged, in percent of the recommended size.
pub const HOLD_PERCENT: [u64; 3] = [100, 103, 110];
/// Range of the scan below a recommendation, in percent of the recommended size.
pub const SCAN_PERCENT: u64 = 20;
/// Step of the scan in percent of the recommendation.
pub const SCAN_STEP_PERCENT: u64 = 2;

/// An answer of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Name of the program.
    pub program: String,
    /// Release of the kernel in two numbers.
    pub kernel: String,
    /// Slow-down that was allowed, in percent.
    pub slowdown_percent: u32,
    /// The recommendation; `None` if there was none.
    pub recommended: Option<Recommended>,
}

/// A recommendation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recommended {
    /// The configuration, for example `mglru + reclaim`.
    pub candidate: String,
    /// Policy of the recommendation, which real kernels play without schemes and tools.
    pub policy: String,
    pub memory_bytes: u64,
    /// Most major faults that were predicted at 100, 103 and 110 % of that memory ([`HOLD_PERCENT`]).
    pub upper_faults: [u64; 3],
    /// Most major faults within the allowed slow-down; `None` if the rule does not say.
    pub allowed_faults: Option<u64>,
}

impl Recommended {
    /// The size in pages at `percent` of the recommended one.
    pub fn pages_at(&self, percent: u64) -> u64 {
        let pages = u128::from(self.memory_bytes / PAGE_BYTES) * u128::from(percent) / 100;
        u64::try_from(pages).unwrap_or(u64::MAX)
    }

    /// Sizes of the scan in percent of the recommended one, ascending.
    pub fn scan_percents() -> impl DoubleEndedIterator<Item = u64> {
        let steps = SCAN_PERCENT / SCAN_STEP_PERCENT;
        (0..=steps).map(|step| 100 - SCAN_PERCENT + step * SCAN_STEP_PERCENT)
    }
}

/// All answers of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// Name of the rule in tables.
    pub rule: String,
    /// Origin of the answers, and notes on them.
    pub note: String,
    pub answers: Vec<Answer>,
}

impl Answers {
    /// Reads them.
    ///
    /// # Errors
    /// The file cannot be read or holds no answers.
    pub fn load(path: &Path) -> Result<Self, FidelityError> {
        let text = fs::read_to_string(path).map_err(FidelityError::io(path))?;
        serde_json::from_str(&text)
            .map_err(|source| FidelityError::Stored { place: path.display().to_string(), source })
    }

    /// These answers, and answers of `older` to questions that these do not cover.
    #[must_use]
    pub fn over(mut self, older: Self) -> Self {
        let is_same = |one: &Answer, other: &Answer| {
            (&one.program, &one.kernel, one.slowdown_percent) == (&other.program, &other.kernel, other.slowdown_percent)
        };
        let kept: Vec<Answer> =
            older.answers.into_iter().filter(|old| !self.answers.iter().any(|new| is_same(new, old))).collect();
        self.answers.extend(kept);
        self.answers.sort_by(|one, other| {
            let key = |answer: &Answer| (answer.program.clone(), answer.kernel.clone(), answer.slowdown_percent);
            key(one).cmp(&key(other))
        });
        self
    }

    /// A line for each answer.
    ///
    /// # Panics
    /// Never: answers are plain data.
    pub fn to_text(&self) -> String {
        let plain = |what: serde_json::Result<String>| what.expect("plain data");
        let head = plain(serde_json::to_string(&Self { answers: Vec::new(), ..self.clone() }));
        let lines: Vec<String> = self.answers.iter().map(|answer| plain(serde_json::to_string(answer))).collect();
        format!("{}\n{}\n]}}\n", head.trim_end_matches("]}"), lines.join(",\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_hand() {
        let recommended = Recommended {
            candidate: "mglru".to_owned(),
            policy: "mglru".to_owned(),
            memory_bytes: 24_691 * 4096 + 1,
            upper_faults: [1, 2, 3],
            allowed_faults: None,
        };
        // 24,691 × 1.03 = 25,431.7; × 1.1 = 27,160.1.
        assert_eq!(HOLD_PERCENT.map(|percent| recommended.pages_at(percent)), [24_691, 25_431, 27_160]);
        let percents: Vec<u64> = Recommended::scan_percents().collect();
        assert_eq!((percents.len(), percents[0], percents[10]), (11, 80, 100));
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        let none = Answer { program: "a".to_owned(), kernel: "7.2".to_owned(), slowdown_percent: 2, recommended: None };
        let answers = Answers { rule: "r".to_owned(), note: "n".to_owned(), answers: vec![none.clone(), none] };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, answers.to_text()).unwrap();
        assert_eq!(Answers::load(&path).unwrap(), answers);
        for text in ["", "garbage", "{\"rule\":\"r\""] {
            fs::write(&path, text).unwrap();
            let error = Answers::load(&path).unwrap_err().to_string();
            assert!(error.contains("a.json: ") && error.contains("line 1"), "{error}");
        }
    }
}
