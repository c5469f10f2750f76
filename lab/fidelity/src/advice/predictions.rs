//! Predicted intervals of stored plays, used for calibration and coverage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::FidelityError;
use crate::advice::{Interval, StoredPlay};

/// The predictions of one play.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Release of the kernel in two numbers.
    pub kernel: String,
    /// Name of the program.
    pub program: String,
    /// `classic` or `mglru`.
    pub policy: String,
    /// Limit in pages of the script.
    pub limit_pages: u64,
    /// Interval by name of the counter.
    pub counters: BTreeMap<String, Interval>,
}

/// Predictions by play.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Predictions(BTreeMap<(String, String, String, u64), BTreeMap<String, Interval>>);

impl Predictions {
    /// From a list.
    ///
    /// # Errors
    /// The ends of an interval are reversed, or a play is predicted twice.
    pub fn new(list: Vec<Prediction>) -> Result<Self, FidelityError> {
        let mut predictions = BTreeMap::new();
        for Prediction { kernel, program, policy, limit_pages, counters } in list {
            let of = format!("{program} {policy} at {limit_pages} pages in {kernel}");
            let wrong = |reason: String| Err(FidelityError::Store { place: "predictions".to_owned(), reason });
            if let Some((counter, interval)) = counters.iter().find(|(_, interval)| interval.low > interval.high) {
                return wrong(format!("{of}: {counter} goes from {} to {}", interval.low, interval.high));
            }
            if predictions.insert((kernel, program, policy, limit_pages), counters).is_some() {
                return wrong(format!("{of} is predicted twice"));
            }
        }
        Ok(Self(predictions))
    }

    /// The interval of a counter of a play, if it is predicted.
    pub fn of(&self, kernel: &str, play: &StoredPlay, counter: &str) -> Option<Interval> {
        let key = &play.key;
        let of = (kernel.to_owned(), key.program.clone(), key.policy.clone(), key.limit_pages);
        self.0.get(&of)?.get(counter).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Key;

    const TEXT: &str = r#"[{"kernel":"7.2","program":"a","policy":"mglru","limit_pages":5,
        "counters":{"major_faults":{"low":3,"high":9}}}]"#;

    #[test]
    fn an_interval_is_found_by_kernel_program_policy_limit_and_counter() {
        let predictions = Predictions::new(serde_json::from_str(TEXT).unwrap()).unwrap();
        let play = |program: &str, policy: &str, limit_pages| StoredPlay {
            key: Key { program: program.to_owned(), digest: String::new(), policy: policy.to_owned(), limit_pages },
            boots: Vec::new(),
        };
        let own = play("a", "mglru", 5);
        assert_eq!(predictions.of("7.2", &own, "major_faults"), Some(Interval { low: 3, high: 9 }));
        let others = [("6.12", own.clone(), "major_faults"), ("7.2", own, "activations")];
        let more = [play("b", "mglru", 5), play("a", "classic", 5), play("a", "mglru", 6)];
        let more = more.map(|play| ("7.2", play, "major_faults"));
        for (kernel, play, counter) in others.into_iter().chain(more) {
            assert_eq!(predictions.of(kernel, &play, counter), None, "{kernel} {play:?} {counter}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let error = |text: &str| Predictions::new(serde_json::from_str(text).unwrap()).unwrap_err().to_string();
        let turned = TEXT.replace("\"high\":9", "\"high\":2");
        assert_eq!(error(&turned), "predictions: a mglru at 5 pages in 7.2: major_faults goes from 3 to 2");
        let own = &TEXT[1..TEXT.len() - 1];
        let twice = format!("[{own},{own}]");
        assert!(error(&twice).ends_with("is predicted twice"), "{}", error(&twice));
    }
}
