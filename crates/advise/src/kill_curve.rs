//! The chance of a kill by memory, from replays of one configuration and one kind of start at many limits.
//!
//! The share of replays that are killed falls with memory, as that of survivors does with a dose. The odds of a kill are taken to fall with
//! a power of the limit (a log-logistic curve). Neither the power nor the level is known: of all curves those count under which what was
//! seen is likely enough, by the ratio of likelihoods, and the worst of them is the bound.
//!
//! Recommendations hang on it, so it takes sums, products and quotients alone, in one order: these have the same bits on every machine.

/// Parts of the size in which limits are counted.
const PARTS: u64 = 256;
/// Powers that are tried, about a quarter apart: with 1 % less memory the odds of a kill grow by 1 % to a factor of 10^9.
const POWERS: [u32; 31] = [
    1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 51, 64, 81, 102, 128, 161, 203, 256, 323, 406, 512, 645, 813,
    1024, 1290, 1625, 2048,
];
/// Levels that are tried: odds of a kill at the size itself, from these
const ODDS_MAX: f64 = 16.0;
/// in steps of the fourth root of a half
const ODDS_STEP: f64 = 0.840_896_415_253_714_5;
/// down to 2^-26.
const LEVELS: usize = 120;
/// Of the largest likelihood those count that are this share of it and more: exp(-5.991 / 2), where 5 of 100 sums of two squared normal
/// variables exceed 5.991 (Wilks, Ann. Math. Stat. 9, 1938): power and level are both unknown. For the level alone it would be 0.2585 on
/// the side that matters; with as few replays as there are that bound held in about 70 to 95 of 100 made-up cases.
const LIKELY: f64 = 0.05;

/// Replays with about the same limit.
struct Dose {
    /// The limit in [`PARTS`] of the size, at least 1.
    parts: u64,
    killed: u32,
    alive: u32,
}

impl Dose {
    fn all(seen: impl Iterator<Item = (u64, bool)>, size: u64) -> Vec<Self> {
        let mut seen: Vec<(u64, bool)> = seen.map(|(limit, is_killed)| (parts(limit, size), is_killed)).collect();
        seen.sort_unstable();
        let of = |same: &[(u64, bool)]| {
            let killed = same.iter().filter(|(_, is_killed)| *is_killed).count();
            let count = |n| u32::try_from(n).unwrap_or(u32::MAX);
            Self { parts: same[0].0, killed: count(killed), alive: count(same.len() - killed) }
        };
        seen.chunk_by(|one, next| one.0 == next.0).map(of).collect()
    }
}

fn parts(limit: u64, size: u64) -> u64 {
    let size = u128::from(size.max(1));
    let nearest = (u128::from(limit) * u128::from(PARTS) + size / 2) / size;
    u64::try_from(nearest).unwrap_or(u64::MAX).max(1)
}

/// A product of chances, however small.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Likelihood {
    /// Powers of [`Self::UNIT`], from 0 down.
    units: i32,
    /// Above [`Self::UNIT`], up to 1; or 0.
    value: f64,
}

impl Likelihood {
    const UNIT: f64 = 1.0 / (1_u128 << 100) as f64;
    const CERTAIN: Self = Self { units: 0, value: 1.0 };
    const IMPOSSIBLE: Self = Self { units: i32::MIN, value: 0.0 };

    fn times(mut self, chance: f64) -> Self {
        self.value *= chance;
        if self.value <= 0.0 {
            return Self::IMPOSSIBLE;
        }
        while self.value <= Self::UNIT {
            self = Self { units: self.units.saturating_sub(1), value: self.value / Self::UNIT };
        }
        self
    }
}

/// The largest chance of a kill in a run with one of `limits`, in millionths, that fits with what was `seen` (limits, and whether the
/// replay was killed), with a confidence of 95 %. Limits of 0 bytes and a size of 0 count as the smallest ones.
pub(super) fn at_most_ppm(
    seen: impl Iterator<Item = (u64, bool)>,
    limits: impl Iterator<Item = u64>,
    size: u64,
) -> u64 {
    let doses = Dose::all(seen, size);
    let limits: Vec<u64> = limits.map(|limit| parts(limit, size)).collect();
    let mut most = Likelihood::IMPOSSIBLE;
    let mut likely: Vec<(Likelihood, f64)> = Vec::new();
    for power in POWERS {
        let steepness = |parts: u64| to_the(PARTS as f64 / parts as f64, power);
        let at_doses: Vec<f64> = doses.iter().map(|dose| steepness(dose.parts)).collect();
        let at_limits: Vec<f64> = limits.iter().map(|&parts| steepness(parts)).collect();
        let mut odds = ODDS_MAX;
        for _ in 0..LEVELS {
            let least = most.times(LIKELY);
            let by_dose = doses.iter().zip(&at_doses);
            let likelihood = by_dose.fold(Likelihood::CERTAIN, |likelihood, (dose, times)| {
                // It only falls: what is too unlikely already stays so.
                if likelihood < least {
                    return likelihood;
                }
                let (killed, alive) = chances(odds * times);
                likelihood.times(to_the(killed, dose.killed)).times(to_the(alive, dose.alive))
            });
            if likelihood >= least {
                // Rounded up to the next level.
                let sum: f64 = at_limits.iter().map(|times| chances(odds / ODDS_STEP * times).0).sum();
                likely.push((likelihood, sum / limits.len().max(1) as f64));
                most = if likelihood > most { likelihood } else { most };
            }
            odds *= ODDS_STEP;
        }
    }
    let least = most.times(LIKELY);
    let worst = likely.into_iter().filter(|(likelihood, _)| *likelihood >= least).map(|(_, chance)| chance);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
    let ppm = (worst.fold(0.0, f64::max) * 1e6).ceil() as u64;
    ppm
}

/// The chance of a kill with these odds, and that of no kill.
fn chances(odds: f64) -> (f64, f64) {
    let alive = 1.0 / (1.0 + odds);
    (if odds > 1.0 { 1.0 - alive } else { odds * alive }, alive)
}

/// The same on every machine, which the library's function need not be.
fn to_the(base: f64, power: u32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, power);
    while left > 0 {
        if left % 2 == 1 {
            result *= square;
        }
        square *= square;
        left /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_most(seen: &[(u64, bool, usize)], size: u64) -> u64 {
        let each = seen.iter().flat_map(|&(limit, is_killed, n)| std::iter::repeat_n((limit, is_killed), n));
        at_most_ppm(each, std::iter::once(size), size)
    }

    /// With replays at the size alone only the level counts: (1 - p)^30 is 0.05 at p = 0.095.
    #[test]
    fn without_other_limits_it_is_the_likelihood_ratio_of_a_share() {
        let ppm = at_most(&[(1000, false, 30)], 1000);
        assert!((95_000..=113_000).contains(&ppm), "a level more at most: {ppm}");
    }

    /// Half of the runs are killed at 900, none of 40 at 950 and of 40 at 1000: a steep curve. 1 in 20 there, and none of 20: it may be flat.
    #[test]
    fn the_steeper_the_curve_the_smaller_the_chance_above() {
        let steep = [(900, true, 20), (900, false, 20), (950, false, 40), (1000, false, 40)];
        let flat = [(900, true, 2), (900, false, 38), (1000, false, 20)];
        assert!(at_most(&steep, 1000) <= 10_000, "{}", at_most(&steep, 1000));
        assert!(at_most(&flat, 1000) > 10_000, "{}", at_most(&flat, 1000));
        assert!(at_most(&flat, 1100) < at_most(&flat, 1000), "more memory, fewer kills");
        assert!(at_most(&steep, 900) > 400_000);
    }

    #[test]
    fn nothing_seen_means_nothing_known() {
        assert!(at_most(&[], 1000) > 900_000);
        assert!(at_most(&[(0, true, 1)], 0) > 900_000);
        assert_eq!(at_most(&[(1000, true, 5000)], 1000) / 10_000, 95, "odds of 19 are the largest there are");
    }

    /// Of runs whose kills follow such a curve, the bound lies above the true chance in 95 of 100 cases and more.
    #[test]
    fn the_bound_holds_where_the_assumption_does() {
        let mut holds = 0;
        let (power, one_percent_at) = (120, 1000_u64);
        for study in 0..200_u32 {
            let chance = |limit: u64| chances(to_the(one_percent_at as f64 / limit as f64, power) / 99.0).0;
            let seen = (0..60_u32).map(|nth| {
                let limit = 940 + u64::from(nth % 12) * 10;
                let random = isotherm_core::monitor::context_seed(u64::from(study), nth) % 1_000_000;
                (limit, (random as f64) < chance(limit) * 1e6)
            });
            holds += u32::from(at_most_ppm(seen, std::iter::once(1000), 1000) >= 10_000);
        }
        assert!(holds >= 190, "{holds} of 200");
    }
}
