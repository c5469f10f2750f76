//! Factors by which predictions are widened so that they contain the counts of real kernels: split conformal prediction.
//!
//! A prediction is an interval of a counter. The scores of a prediction for a real count are the factors by which its upper and its lower
//! end must be moved to contain the count, as logarithms. [`OFFSET`] events are added on both sides so that small counts do not decide. The
//! factor of an end is a high quantile of the scores of the fitting programs. If a release has too few plays for that quantile, the plays
//! of all releases count; if these are too few as well, the largest score does. Plays of one program are similar. So the result also has
//! the number of plays of each program that the factors of all other programs contain.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::advice::{Boot, StoredPlay};
use crate::matrix::METRICS;

/// Events added to counts before they are divided.
pub const OFFSET: u64 = 100;
/// Share of real counts that are to lie below a widened upper end, and above a widened lower end, in thousandths.
pub const NOMINAL_PERMILLE: u64 = 975;
/// Share of counts that should lie below the upper end, by which speed is judged: only this side matters.
pub const ONE_SIDED_PERMILLE: u64 = 950;

/// The predicted interval of a counter, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Least.
    pub low: u64,
    pub high: u64,
}

/// Predicts a counter of a play: kernel, play, name of the metric. `None`: there is no prediction for the play.
pub type Predict<'a> = &'a dyn Fn(&str, &StoredPlay, &str) -> Option<Interval>;

/// Factors by which predictions of a counter are widened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// `classic` or `mglru`.
    pub policy: String,
    /// Release of the kernel in two numbers.
    pub release: String,
    /// Name of the counter, as in [`METRICS`].
    pub counter: String,
    /// Plays that were scored: of the release, or of all releases where it has too few.
    pub n: u64,
    /// Programs that they are of.
    pub programs: u64,
    /// The factor of the upper end in millionths, at least one. `None`: a program that was predicted to come to its end did not.
    pub above_ppm: Option<u64>,
    /// The same with [`ONE_SIDED_PERMILLE`].
    pub above_95_ppm: Option<u64>,
    /// The factor of the lower end, with the same meaning.
    pub below_ppm: Option<u64>,
    /// Plays that the factors of the other programs hold, over all programs.
    pub left_out_inside: u64,
    /// Programs with every play contained by these.
    pub left_out_programs: u64,
}

/// Factors by which the ends of a prediction must be moved to contain a count, as logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Score of the upper end, upwards.
    pub above: f64,
    /// Score of the lower end, downwards.
    pub below: f64,
}

impl Interval {
    /// Scores for the count `real`; 0 for an end that need not move.
    pub fn score(self, real: u64) -> Score {
        let ratio = |over: u64, under: u64| ((over + OFFSET) as f64 / (under + OFFSET) as f64).ln().max(0.0);
        Score { above: ratio(real, self.high), below: ratio(self.low, real) }
    }

    /// Whether the range contains a count.
    pub fn holds(self, real: u64) -> bool {
        (self.low..=self.high).contains(&real)
    }
}

/// The largest scores of the boots of a play: infinite above if one did not finish.
fn score(interval: Interval, play: &StoredPlay, at: usize) -> Score {
    let killed = Score { above: f64::INFINITY, below: 0.0 };
    let of = |boot: &Boot| match boot {
        Boot::Counted(row) => row.get(at).map_or(killed, |&real| interval.score(real)),
        Boot::Failed(_) => killed,
    };
    let worse =
        |one: Score, other: Score| Score { above: one.above.max(other.above), below: one.below.max(other.below) };
    play.boots.iter().map(of).fold(Score { above: 0.0, below: 0.0 }, worse)
}

/// The fewest scores that have the quantile.
const ENOUGH: usize = 39;

/// The `ceil((n + 1) permille / 1000)`-th smallest score, which bounds a further exchangeable one with that probability; the largest of
/// too few. `None` without scores, and if it is infinite.
fn quantile(scores: &mut [f64], permille: u64) -> Option<f64> {
    scores.sort_by(f64::total_cmp);
    let rank = ((scores.len() as u64 + 1) * permille).div_ceil(1000);
    let rank = usize::try_from(rank).ok()?.min(scores.len());
    scores.get(rank.checked_sub(1)?).copied().filter(|score| score.is_finite())
}

/// Both quantiles.
fn quantiles(scores: &[Score]) -> (Option<f64>, Option<f64>) {
    let of = |take: fn(&Score) -> f64| quantile(&mut scores.iter().map(take).collect::<Vec<_>>(), NOMINAL_PERMILLE);
    (of(|score| score.above), of(|score| score.below))
}

/// Scores by program.
type Scores<'a> = BTreeMap<&'a str, Vec<Score>>;

/// Fits factors for each policy, kernel and counter with a prediction. `plays` are the plays of the fitting set by kernel.
pub fn calibrate(plays: &BTreeMap<String, Vec<StoredPlay>>, predict: Predict<'_>) -> Vec<Calibration> {
    let mut calibrations = Vec::new();
    let policies: BTreeSet<&str> = plays.values().flatten().map(|play| play.key.policy.as_str()).collect();
    for policy in policies {
        for (at, metric) in METRICS.iter().enumerate() {
            let scores_of = |release: &str, plays: &'_ [StoredPlay]| -> Vec<(String, Score)> {
                let own = plays.iter().filter(|play| play.key.policy == policy);
                own.filter_map(|play| {
                    let interval = predict(release, play, metric.name)?;
                    Some((play.key.program.clone(), score(interval, play, at)))
                })
                .collect()
            };
            let by_release: BTreeMap<&str, Vec<(String, Score)>> =
                plays.iter().map(|(release, plays)| (release.as_str(), scores_of(release, plays))).collect();
            let all: Vec<(String, Score)> = by_release.values().flatten().cloned().collect();
            for (release, own) in &by_release {
                let used = if own.len() >= ENOUGH { own } else { &all };
                let mut scores = Scores::new();
                used.iter().for_each(|(program, score)| scores.entry(program).or_default().push(*score));
                if !own.is_empty() {
                    calibrations.push(fit(policy, release, metric.name, &scores));
                }
            }
        }
    }
    calibrations
}

fn fit(policy: &str, release: &str, counter: &str, scores: &Scores<'_>) -> Calibration {
    let without = |left_out: Option<&str>| -> Vec<Score> {
        let kept = scores.iter().filter(|(program, _)| Some(**program) != left_out);
        kept.flat_map(|(_, scores)| scores.iter().copied()).collect()
    };
    let (mut inside, mut whole) = (0, 0);
    for (program, own) in scores {
        let (above, below) = quantiles(&without(Some(program)));
        // Without other programs the factors contain nothing.
        let (above, below) = (above.unwrap_or(-1.0), below.unwrap_or(-1.0));
        let held = own.iter().filter(|score| score.above <= above && score.below <= below).count();
        inside += held as u64;
        whole += u64::from(held == own.len());
    }
    let all = without(None);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "finite and at least one; saturates")]
    let factor = |score: f64| (score.exp() * 1e6).ceil() as u64;
    let (above, below) = quantiles(&all);
    let above_95 = quantile(&mut all.iter().map(|score| score.above).collect::<Vec<_>>(), ONE_SIDED_PERMILLE);
    Calibration {
        policy: policy.to_owned(),
        release: release.to_owned(),
        counter: counter.to_owned(),
        n: all.len() as u64,
        programs: scores.len() as u64,
        above_ppm: above.map(factor),
        above_95_ppm: above_95.map(factor),
        below_ppm: below.map(factor),
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
        // (real, factor of the upper end, of the lower)
        let table =
            [(300, 1.0, 1.0), (500, 1.0, 1.0), (700, 1.0, 1.0), (1500, 2.0, 1.0), (100, 1.0, 2.0), (0, 1.0, 4.0)];
        for (real, above, below) in table {
            let score = interval.score(real);
            assert!(
                (score.above - f64::ln(above)).abs() < 1e-12 && (score.below - f64::ln(below)).abs() < 1e-12,
                "{real}"
            );
        }
    }

    #[test]
    fn quantiles_by_hand() {
        let of = |n: u32| quantile(&mut (1..=n).rev().map(f64::from).collect::<Vec<_>>(), NOMINAL_PERMILLE);
        // 0.975 × 39 = 38.03, the 39th of 38, so the largest; × 40 = 39; × 80 = 78; × 81 = 78.98.
        let table = [(0, None), (1, Some(1.0)), (38, Some(38.0)), (39, Some(39.0)), (79, Some(78.0)), (80, Some(79.0))];
        for (n, expected) in table {
            assert_eq!(of(n), expected, "{n}");
        }
        let mut one_killed: Vec<f64> = (1..=39).map(f64::from).collect();
        one_killed[3] = f64::INFINITY;
        assert_eq!(quantile(&mut one_killed, NOMINAL_PERMILLE), None);
        one_killed.extend((1..=40).map(f64::from));
        assert_eq!(quantile(&mut one_killed, NOMINAL_PERMILLE), Some(40.0), "the 78th of 79");
        // 0.95 × 20 = 19; × 21 = 19.95.
        let one_sided = |n: u32| quantile(&mut (1..=n).map(f64::from).collect::<Vec<_>>(), ONE_SIDED_PERMILLE);
        assert_eq!((one_sided(19), one_sided(20), one_sided(39)), (Some(19.0), Some(20.0), Some(38.0)));
    }

    /// Predicted 300 to 900 of each play. In 7.2 there are 40 plays of `a` with 900 and one of `b` with 1,900 (factor 2 of the upper
    /// end); in 6.12 one of `b` with 100 (factor 2 of the lower).
    #[test]
    fn factors_by_hand_and_what_they_hold_of_programs_left_out() {
        let mut new: Vec<StoredPlay> = (0..40).map(|_| play("a", vec![counted(900)])).collect();
        new.push(play("b", vec![counted(900), counted(1900)]));
        let old = vec![play("b", vec![counted(100)])];
        let plays = BTreeMap::from([("6.12".to_owned(), old), ("7.2".to_owned(), new)]);
        let predict = |_: &str, _: &StoredPlay, metric: &str| {
            (metric == "major_faults").then_some(Interval { low: 300, high: 900 })
        };
        let found = calibrate(&plays, &predict);
        assert_eq!(found.len(), 2, "of other counters nothing is predicted");
        let of = |n, above_ppm, above_95_ppm, below_ppm, release: &str| Calibration {
            policy: "mglru".to_owned(),
            release: release.to_owned(),
            counter: "major_faults".to_owned(),
            n,
            programs: 2,
            above_ppm: Some(above_ppm),
            above_95_ppm: Some(above_95_ppm),
            below_ppm: Some(below_ppm),
            // The factors of `b` contain `a`; those of `a` do not contain `b`.
            left_out_inside: 40,
            left_out_programs: 1,
        };
        // 6.12 has one play, so all 42 count: the 42nd decides, and the 41st for the one-sided end. 7.2 has 41: the 41st and the 40th
        // decide.
        assert_eq!(
            found,
            [of(42, 2_000_000, 1_000_000, 2_000_000, "6.12"), of(41, 2_000_000, 1_000_000, 1_000_000, "7.2")]
        );
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Calibration>>(&json).unwrap(), found);
    }

    #[test]
    fn the_worst_boot_of_a_play_counts_and_a_kill_is_beyond_any_factor() {
        let interval = Interval { low: 0, high: 900 };
        let above = |boots| score(interval, &play("a", boots), 0).above;
        assert!((above(vec![counted(10), counted(1900)]) - 2f64.ln()).abs() < 1e-12);
        let killed = Boot::Failed("process 0 was killed at operation 1".to_owned());
        assert!(above(vec![counted(10), killed]).is_infinite());
    }
}
