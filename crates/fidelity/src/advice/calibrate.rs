//! By how much predictions must be widened so that they hold what real kernels did: split conformal prediction.
//!
//! A prediction is an interval of a counter. Its score at a real count is by what factor it must be widened to hold the count, as a
//! logarithm, [`OFFSET`] events added on both sides so that small counts do not decide. The factor of a policy, release and counter is
//! a high quantile of the scores of the fitting programs. Plays of one program are alike, and so it is told beside it how many plays of
//! each program the factor found on all the other programs holds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::advice::{Boot, StoredPlay};
use crate::matrix::METRICS;

/// Events added to counts before they are divided.
pub const OFFSET: u64 = 100;
/// Share of real counts that widened predictions are to hold, in thousandths.
pub const NOMINAL_PERMILLE: u64 = 950;

/// What is predicted of a counter: both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Least.
    pub low: u64,
    /// Most.
    pub high: u64,
}

/// Predicts a counter of a play: kernel, play, name of the metric. `None`: nothing is predicted of it.
pub type Predict<'a> = &'a dyn Fn(&str, &StoredPlay, &str) -> Option<Interval>;

/// By how much predictions of a counter are to be widened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// `classic` or `mglru`.
    pub policy: String,
    /// Release of the kernel in two numbers.
    pub release: String,
    /// Name of the counter, as in [`METRICS`].
    pub counter: String,
    /// Plays that were scored.
    pub n: u64,
    /// Programs that they are of.
    pub programs: u64,
    /// The factor in millionths, at least one. `None`: there are too few plays (19 are the fewest), or a program that was predicted
    /// to come to its end did not, too often.
    pub factor_ppm: Option<u64>,
    /// Plays that the factor of the other programs holds, over all programs.
    pub left_out_inside: u64,
    /// Programs of which that factor holds every play.
    pub left_out_programs: u64,
}

impl Interval {
    /// By how much the interval must be widened to hold `real`, as a natural logarithm; 0 if it does.
    pub fn score(self, real: u64) -> f64 {
        let ratio = |over: u64, under: u64| ((over + OFFSET) as f64 / (under + OFFSET) as f64).ln();
        ratio(self.low, real).max(ratio(real, self.high)).max(0.0)
    }

    /// The interval widened by a factor of at least one, in millionths. Rounded outwards.
    pub fn widened(self, factor_ppm: u64) -> Self {
        const ONE: u128 = 1_000_000;
        let factor = u128::from(factor_ppm).max(ONE);
        let narrow = |count: u128| u64::try_from(count).unwrap_or(u64::MAX).saturating_sub(OFFSET);
        Self {
            low: narrow(u128::from(self.low + OFFSET) * ONE / factor),
            high: narrow((u128::from(self.high.saturating_add(OFFSET)) * factor).div_ceil(ONE)),
        }
    }

    /// Whether it holds a count.
    pub fn holds(self, real: u64) -> bool {
        (self.low..=self.high).contains(&real)
    }
}

/// The largest score of the boots of a play: infinite where one did not come to its end.
fn score(interval: Interval, play: &StoredPlay, at: usize) -> f64 {
    let of = |boot: &Boot| match boot {
        Boot::Counted(row) => row.get(at).map_or(f64::INFINITY, |&real| interval.score(real)),
        Boot::Failed(_) => f64::INFINITY,
    };
    play.boots.iter().map(of).fold(0.0, f64::max)
}

/// The `ceil((n + 1) 0.95)`-th smallest score, which holds a further one with a probability of 95 % if it is as good as any of these.
/// `None`: there is none, as of fewer than 19.
fn quantile(scores: &mut [f64]) -> Option<f64> {
    scores.sort_by(f64::total_cmp);
    let rank = ((scores.len() as u64 + 1) * NOMINAL_PERMILLE).div_ceil(1000);
    scores.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied().filter(|score| score.is_finite())
}

/// Fits a factor for each policy, kernel and counter of which something is predicted. `plays` are those of the fitting set by kernel.
pub fn calibrate(plays: &BTreeMap<String, Vec<StoredPlay>>, predict: Predict<'_>) -> Vec<Calibration> {
    let mut calibrations = Vec::new();
    for (release, plays) in plays {
        let policies: BTreeSet<&str> = plays.iter().map(|play| play.key.policy.as_str()).collect();
        for policy in policies {
            for (at, metric) in METRICS.iter().enumerate() {
                let mut scores: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
                for play in plays.iter().filter(|play| play.key.policy == policy) {
                    if let Some(interval) = predict(release, play, metric.name) {
                        scores.entry(&play.key.program).or_default().push(score(interval, play, at));
                    }
                }
                if !scores.is_empty() {
                    calibrations.push(fit(policy, release, metric.name, &scores));
                }
            }
        }
    }
    calibrations
}

/// `scores` by program.
fn fit(policy: &str, release: &str, counter: &str, scores: &BTreeMap<&str, Vec<f64>>) -> Calibration {
    let without = |left_out: Option<&str>| -> Vec<f64> {
        let kept = scores.iter().filter(|(program, _)| Some(**program) != left_out);
        kept.flat_map(|(_, scores)| scores.iter().copied()).collect()
    };
    let (mut inside, mut whole) = (0, 0);
    for (program, own) in scores {
        // Too few others: their factor holds nothing.
        let bound = quantile(&mut without(Some(program))).unwrap_or(-1.0);
        let held = own.iter().filter(|score| **score <= bound).count();
        inside += held as u64;
        whole += u64::from(held == own.len());
    }
    let mut all = without(None);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "finite and at least one; saturates")]
    let factor_ppm = quantile(&mut all).map(|score| (score.exp() * 1e6).ceil() as u64);
    Calibration {
        policy: policy.to_owned(),
        release: release.to_owned(),
        counter: counter.to_owned(),
        n: all.len() as u64,
        programs: scores.len() as u64,
        factor_ppm,
        left_out_inside: inside,
        left_out_programs: whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Key;

    fn play(program: &str, boots: Vec<Boot>) -> StoredPlay {
        let key = Key {
            program: program.to_owned(),
            digest: "d".to_owned(),
            policy: "mglru".to_owned(),
            limit_pages: boots.len() as u64,
        };
        StoredPlay { key, boots }
    }

    fn counted(faults: u64) -> Boot {
        let mut row = vec![0; METRICS.len()];
        row[0] = faults;
        Boot::Counted(row)
    }

    #[test]
    fn scores_by_hand() {
        let interval = Interval { low: 300, high: 700 };
        let table = [(300, 1.0), (500, 1.0), (700, 1.0), (1500, 2.0), (100, 2.0), (0, 4.0)];
        for (real, factor) in table {
            assert!((interval.score(real) - f64::ln(factor)).abs() < 1e-12, "{real}");
        }
    }

    /// What is widened by the score's factor just holds the count.
    #[test]
    fn widening_by_hand() {
        let interval = Interval { low: 300, high: 700 };
        assert_eq!(interval.widened(1_000_000), interval);
        assert_eq!(interval.widened(2_000_000), Interval { low: 100, high: 1500 });
        assert_eq!(interval.widened(4_000_000), Interval { low: 0, high: 3100 });
        // 400 / 1.5 = 266.7 and 800 × 1.500001 = 1200.0008: outwards.
        assert_eq!(interval.widened(1_500_001), Interval { low: 166, high: 1101 });
        assert_eq!(interval.widened(0), interval, "never narrower");
        assert!(Interval { low: 0, high: u64::MAX }.widened(u64::MAX).high > u64::MAX / 2, "saturates");
    }

    #[test]
    fn quantiles_by_hand() {
        let of = |n: u32| quantile(&mut (1..=n).rev().map(f64::from).collect::<Vec<_>>());
        // 0.95 × 19 = 18.05, the 19th of 18; × 20 = 19; × 21 = 19.95; × 40 = 38; × 41 = 38.95.
        let table = [(0, None), (18, None), (19, Some(19.0)), (20, Some(20.0)), (39, Some(38.0)), (40, Some(39.0))];
        for (n, expected) in table {
            assert_eq!(of(n), expected, "{n}");
        }
        let mut one_killed: Vec<f64> = (1..=19).map(f64::from).collect();
        one_killed[3] = f64::INFINITY;
        assert_eq!(quantile(&mut one_killed), None);
        one_killed.extend((1..=20).map(f64::from));
        assert_eq!(quantile(&mut one_killed), Some(20.0), "the 38th of 39");
    }

    /// Predicted 0 to 900 of each play; `a` counts 900 in 19 plays, `b` 1,900 in one of 20 (factor 2).
    #[test]
    fn a_factor_by_hand_and_what_it_holds_of_programs_left_out() {
        let mut plays: Vec<StoredPlay> = (0..19).map(|_| play("a", vec![counted(900)])).collect();
        plays.extend((0..19).map(|_| play("b", vec![counted(5)])));
        plays.push(play("b", vec![counted(900), counted(1900)]));
        let plays = BTreeMap::from([("6.12".to_owned(), plays)]);
        let predict = |_: &str, _: &StoredPlay, metric: &str| {
            (metric == "major_faults").then_some(Interval { low: 0, high: 900 })
        };
        let found = calibrate(&plays, &predict);
        assert_eq!(found.len(), 1, "of other counters nothing is predicted");
        // Of 39 scores 38 are 0, and the 38th counts. Without `a` the 20th of 20 counts, which is ln 2; without `b` the 19th of 19, 0,
        // which holds 19 of the 20 plays of `b`.
        let expected = Calibration {
            policy: "mglru".to_owned(),
            release: "6.12".to_owned(),
            counter: "major_faults".to_owned(),
            n: 39,
            programs: 2,
            factor_ppm: Some(1_000_000),
            left_out_inside: 19 + 19,
            left_out_programs: 1,
        };
        assert_eq!(found[0], expected);
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Calibration>>(&json).unwrap(), found);
    }

    #[test]
    fn the_worst_boot_of_a_play_counts_and_a_kill_is_beyond_any_factor() {
        let interval = Interval { low: 0, high: 900 };
        assert!((score(interval, &play("a", vec![counted(10), counted(1900)]), 0) - 2f64.ln()).abs() < 1e-12);
        let killed = Boot::Failed("process 0 was killed at operation 1".to_owned());
        assert!(score(interval, &play("a", vec![counted(10), killed]), 0).is_infinite());
    }
}
