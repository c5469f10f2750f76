//! Is one of two settings better, here? A switchback experiment: two settings take turns in blocks of time on one machine, in pairs
//! whose order chance decides, and the difference within each pair is what counts. What drifts slowly falls out of it.
//!
//! A pair is one independent value: however much the seconds within a block hang together, they do not make it more certain. Where
//! differences of successive pairs hang together all the same, fewer of them are counted ([`Analysis::effective_pairs`]).
//!
//! Looks at the data before its end are paid for: the false alarms allowed are spent over the looks as by Lan and DeMets (1983, Biometrika
//! 70) with a spending function after O'Brien and Fleming (1979, Biometrics 35), and each look is tested at what it spends. That is a bit
//! stricter than need be, and holds however looks depend on each other. How it is used: `docs/trial.md`.

#[cfg(test)]
mod tests;

use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF as _, Normal, StudentsT};

/// False alarms allowed over all looks together.
pub const ALPHA: f64 = 0.05;
/// Chance to find the difference that was asked for, in the time announced.
pub const POWER: f64 = 0.8;
/// Pairs before anything is said: they tell the noise.
pub const PILOT_PAIRS: usize = 6;
/// Looks from the pilot to the end.
const LOOKS: usize = 4;
/// The noise is taken to be as large as the pilot's could be with this certainty.
const NOISE_CERTAINTY: f64 = 0.8;

/// One of the two settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Arm {
    A,
    B,
}

/// In which order the two take turns, pair by pair: always the same for a seed.
#[derive(Clone, Debug)]
pub struct Order {
    state: u64,
}

impl Order {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next pair.
    pub fn next_pair(&mut self) -> [Arm; 2] {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        if (mixed ^ (mixed >> 31)) & 1 == 0 { [Arm::A, Arm::B] } else { [Arm::B, Arm::A] }
    }
}

/// The difference of a pair as a share of the mean of both: positive where B has more. 0 if both are 0.
pub fn difference(a: f64, b: f64) -> f64 {
    let scale = (a.abs() + b.abs()) / 2.0;
    if scale > 0.0 { (b - a) / scale } else { 0.0 }
}

/// What differences say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Analysis {
    pub pairs: usize,
    /// Pairs that count where successive differences hang together.
    pub effective_pairs: f64,
    /// Mean difference, a share.
    pub mean: f64,
    /// Ends of its interval at the level of this look.
    pub low: f64,
    pub high: f64,
    /// Chance to see so much without a difference.
    pub p: f64,
}

/// A mean and its interval, with so much spent on being wrong.
pub fn analyse(differences: &[f64], alpha: f64) -> Option<Analysis> {
    let pairs = differences.len();
    if pairs < 2 {
        return None;
    }
    let (mean, deviation) = moments(differences);
    let effective_pairs = effective(differences, mean);
    let error = deviation / effective_pairs.sqrt();
    let student = StudentsT::new(0.0, 1.0, (effective_pairs - 1.0).max(1.0)).ok()?;
    let half = student.inverse_cdf(1.0 - alpha / 2.0) * error;
    let p = if error > 0.0 {
        2.0 * student.sf((mean / error).abs())
    } else if mean == 0.0 {
        1.0
    } else {
        0.0
    };
    Some(Analysis { pairs, effective_pairs, mean, low: mean - half, high: mean + half, p })
}

fn moments(values: &[f64]) -> (f64, f64) {
    let number = values.len() as f64;
    let mean = values.iter().sum::<f64>() / number;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (number - 1.0).max(1.0)).sqrt())
}

/// By the correlation of successive differences, as of a first-order autoregression. Negative correlation is taken for chance. Of few
/// pairs it is known badly, and what is below its own error counts as none.
fn effective(differences: &[f64], mean: f64) -> f64 {
    let number = differences.len() as f64;
    let squares: f64 = differences.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = differences.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let correlation = if squares > 0.0 { products / squares } else { 0.0 };
    if correlation <= 1.0 / number.sqrt() {
        return number;
    }
    (number * (1.0 - correlation) / (1.0 + correlation)).max(2.0)
}

/// When it is looked, and what each look may spend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Pairs in all.
    pub pairs: usize,
    /// Pairs at each look, the last with all of them, and the false alarms that it spends.
    pub looks: Vec<(usize, f64)>,
    /// Whether the difference that was asked for is found with [`POWER`] in so many pairs, as far as the pilot tells.
    pub is_enough: bool,
    /// Pairs that it would take.
    pub wanted: usize,
}

/// Spent up to a share of the data.
fn spent(share: f64) -> f64 {
    let Ok(normal) = Normal::new(0.0, 1.0) else { return 0.0 };
    let bound = normal.inverse_cdf(1.0 - ALPHA / 2.0) / share.sqrt();
    2.0 * normal.sf(bound)
}

fn looks(pairs: usize) -> Vec<(usize, f64)> {
    let mut looks: Vec<(usize, f64)> = Vec::new();
    let mut before = 0.0;
    for look in 1..=LOOKS {
        let at = (pairs * look).div_ceil(LOOKS).max(PILOT_PAIRS.min(pairs));
        let until = spent(at as f64 / pairs as f64);
        if looks.last().is_none_or(|last| last.0 < at) {
            looks.push((at, until - before));
            before = until;
        }
    }
    looks
}

/// How many pairs it takes to find a difference of such a share, by the pilot's differences; at most `most`.
pub fn plan(pilot: &[f64], share: f64, most: usize) -> Plan {
    let (_, deviation) = moments(pilot);
    let degrees = (pilot.len() as f64 - 1.0).max(1.0);
    let least = ChiSquared::new(degrees).map_or(1.0, |squares| squares.inverse_cdf(1.0 - NOISE_CERTAINTY));
    let noise = deviation * (degrees / least.max(1e-9)).sqrt();
    let needed = |pairs: usize| {
        let last = looks(pairs).last().map_or(ALPHA, |look| look.1);
        let Ok(student) = StudentsT::new(0.0, 1.0, (pairs as f64 - 1.0).max(1.0)) else { return f64::INFINITY };
        let reach = student.inverse_cdf(1.0 - last / 2.0) + student.inverse_cdf(POWER);
        (reach * noise / share).powi(2)
    };
    let limit = 100_000;
    let wanted = (PILOT_PAIRS + 2..limit).find(|&pairs| pairs as f64 >= needed(pairs)).unwrap_or(limit);
    let pairs = wanted.min(most.max(PILOT_PAIRS));
    Plan { pairs, looks: looks(pairs), is_enough: wanted <= pairs, wanted }
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// This one has more of what is measured.
    More { arm: Arm },
    /// They differ by less than was asked for, if at all.
    Same,
    /// The data do not tell.
    Undecided,
}

/// The verdict of a look. `share` is the difference that was asked for.
pub fn judge(analysis: &Analysis, share: f64, is_last: bool) -> Option<Verdict> {
    if analysis.low > 0.0 {
        return Some(Verdict::More { arm: Arm::B });
    }
    if analysis.high < 0.0 {
        return Some(Verdict::More { arm: Arm::A });
    }
    let is_within = analysis.low > -share && analysis.high < share;
    match (is_last, is_within) {
        (true, true) => Some(Verdict::Same),
        (true, false) => Some(Verdict::Undecided),
        (false, _) => None,
    }
}
