//! The error of a recording's clock, and what it does to a slow-down.

use serde::Serialize;

/// How far the clock of a recording may be from native CPU time, and what the recommendation then is at worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockError {
    /// Largest difference that was measured on whole programs, in percent of native CPU time (`docs/use/recording.md#time`).
    pub error_percent: u32,
    /// The upper end of the recommendation's `runtime_ratio_ppm` with that error, in millionths.
    pub runtime_ratio_at_most_ppm: u64,
}

impl ClockError {
    /// Stalls are real time. Next to a CPU time that is too long they look shorter than they are, by the same factor.
    pub(super) fn of(error_percent: u32, ratio_high_ppm: u64) -> Self {
        let slower_ppm = u128::from(ratio_high_ppm.saturating_sub(1_000_000));
        let more_ppm = u64::try_from(slower_ppm * u128::from(error_percent) / 100).unwrap_or(u64::MAX);
        Self { error_percent, runtime_ratio_at_most_ppm: ratio_high_ppm.saturating_add(more_ppm) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_shows_twice_the_time_hides_half_of_the_slow_down() {
        let at_most = |percent, high| ClockError::of(percent, high).runtime_ratio_at_most_ppm;
        assert_eq!(at_most(100, 1_017_000), 1_034_000);
        assert_eq!(at_most(162, 1_010_000), 1_026_200);
        assert_eq!(at_most(0, 1_017_000), 1_017_000);
        assert_eq!(at_most(50, 999_000), 999_000, "faster than without limits, whatever the clock");
        assert_eq!(at_most(u32::MAX, u64::MAX), u64::MAX);
    }
}
