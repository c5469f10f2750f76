//! How certain a recommendation is: the effect of a little less or more memory, and the price of safety.

use super::chance::LIMIT_MIN;
use super::expected::{Gamble, Interval};
use super::judge::Judge;
use super::run::ppm;
use isotherm_units::Bytes;
use serde::Serialize;

/// The recommended configuration with a little less or more memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbour {
    /// Memory against the recommended, in thousandths: 970, 1030 or 1100.
    pub of_recommended_permil: u64,
    /// `memory.max` of the program's group, bytes.
    pub memory_bytes: u64,
    /// Number of replays behind the figures.
    pub n: u64,
    /// Runtime against unlimited memory, in millionths. Absent when the program was killed in a replay.
    pub runtime_ratio_ppm: Option<Interval>,
    pub major_faults: Interval,
    /// Whether the upper end is within the slow-down asked for.
    pub is_fast_enough: bool,
}

/// The price of safety: how likely a size is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Odds {
    /// `memory.max` of the program's group, bytes.
    pub memory_bytes: u64,
    /// `memory_bytes` as a share of peak, in millionths.
    pub memory_share_ppm: u64,
    /// Number of replays behind the figures.
    pub n: u64,
    /// Share of replays that is slower than asked for, or was killed, in millionths: by chance only, without the model's error.
    pub too_slow_ppm: u64,
}

/// Sizes at which a configuration falls into two groups of outcomes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GambleBand {
    /// Configuration.
    pub(super) candidate: &'static str,
    /// Smallest such size.
    pub(super) from_bytes: u64,
    /// Largest such size, all tried in between being such.
    pub(super) to_bytes: u64,
    /// The groups, at the size where the bad one is worst.
    pub(super) worst: Gamble,
}

const PERMIL: [u64; 3] = [970, 1030, 1100];

/// The configuration with 3 % less, 3 % more and 10 % more memory. A neighbour without replays is left out.
pub(super) fn neighbours(judge: &Judge<'_>, index: usize, size: Bytes) -> Vec<Neighbour> {
    let neighbour = |&permil: &u64| {
        let memory = scaled(size, permil);
        let expected = judge.expected(index, memory)?;
        Some(Neighbour {
            of_recommended_permil: permil,
            memory_bytes: memory.get(),
            n: expected.n as u64,
            runtime_ratio_ppm: expected.ratio,
            major_faults: expected.faults,
            is_fast_enough: judge.is_fast_enough(&expected),
        })
    };
    PERMIL.iter().filter_map(neighbour).collect()
}

/// `permil` thousandths of a size, in whole pages.
pub(super) fn scaled(size: Bytes, permil: u64) -> Bytes {
    let bytes = u128::from(size.get()) * u128::from(permil) / 1000;
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)).pages_floor().bytes().max(LIMIT_MIN)
}

/// Steps below and above the recommended size for which odds are given.
const ODDS_STEPS: (u64, u64) = (4, 2);

/// The odds around the recommended size.
pub(super) fn odds(judge: &Judge<'_>, index: usize, size: Bytes) -> Vec<Odds> {
    let step = judge.player.step_at(size).get();
    let low = size.get().saturating_sub(ODDS_STEPS.0 * step);
    let high = size.get() + ODDS_STEPS.1 * step;
    let sizes = judge.player.pool.sizes(index).filter(|size| (low..=high).contains(&size.get()));
    sizes
        .map(|size| {
            let runs = judge.player.pool.around(index, size);
            let slow = runs.iter().filter(|run| run.ratio_ppm.is_none_or(|ratio| ratio > judge.allowed_ppm())).count();
            Odds {
                memory_bytes: size.get(),
                memory_share_ppm: ppm(size.get(), judge.player.peak.get()).unwrap_or(0),
                n: runs.len() as u64,
                too_slow_ppm: ppm(slow as u64, runs.len() as u64).unwrap_or(0),
            }
        })
        .collect()
}

/// Bands of sizes at which a configuration is a gamble.
pub(super) fn gambles(judge: &Judge<'_>, index: usize, candidate: &'static str) -> Vec<GambleBand> {
    let mut bands: Vec<GambleBand> = Vec::new();
    let mut is_open = false;
    for size in judge.player.pool.sizes(index) {
        let gamble = judge.expected(index, size).and_then(|expected| expected.gamble);
        match (gamble, bands.last_mut().filter(|_| is_open)) {
            (Some(gamble), Some(band)) => {
                band.to_bytes = size.get();
                if gamble.bad_faults > band.worst.bad_faults {
                    band.worst = gamble;
                }
            }
            (Some(worst), None) => {
                bands.push(GambleBand { candidate, from_bytes: size.get(), to_bytes: size.get(), worst });
            }
            (None, _) => {}
        }
        is_open = gamble.is_some();
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_whole_pages() {
        assert_eq!(scaled(Bytes::from_mib(100), 970), Bytes::from_mib(97));
        assert_eq!(scaled(Bytes::from_mib(100), 1030), Bytes::from_mib(103));
        assert_eq!(scaled(Bytes::new(LIMIT_MIN.get() + 4096), 970), LIMIT_MIN);
    }
}
