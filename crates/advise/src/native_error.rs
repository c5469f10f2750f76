//! How much more time limits added in native runs of other programs than was said. Shown next to the interval of a slow-down; nothing
//! is decided by it.
//!
//! From the stored runs of `docs/evidence/native.md`: of its programs that compute, every second by name is fitted to, and the others are
//! judged. A program counts once, by its worst size, since sizes of one program are much alike. The largest of n programs is not exceeded
//! by another one in n of n + 1 cases, if that is of their kind (split conformal prediction; Papadopoulos and others, ECML 2002).

use super::Advice;
use super::advice::bursts::waits_mostly;
use isotherm_units::Ratio;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Native runs at sizes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeError {
    /// Whether the prices were measured on the machine of these runs; otherwise those of the table.
    pub is_calibrated: bool,
    /// Whether at most [`Self::SMALL`] were said to be added, at the upper end.
    pub is_small: bool,
    /// Programs that were fitted to.
    pub programs: u64,
    /// Their sizes of this kind.
    pub sizes: u64,
    /// Added time over what was said at the upper end, [`Self::SMALL`] at least: the largest of these sizes, in millionths.
    pub times_ppm: u64,
}

impl NativeError {
    /// Smaller slow-downs than this drown in the noise of native runs, in which equal limits differ by more than 2 % of the time.
    pub const SMALL: Ratio = Ratio::from_percent(5);

    /// What was said to be added at the upper end, for comparison with what was. Both in millionths of the time without a limit.
    pub fn said(high_ppm: u64) -> u64 {
        high_ppm.saturating_sub(Ratio::ONE.ppm()).max(Self::SMALL.ppm())
    }

    /// The runs for an upper end, in millionths of the time without a limit.
    pub fn of(is_calibrated: bool, high_ppm: u64) -> Option<&'static Self> {
        let is_small = Self::said(high_ppm) <= Self::SMALL.ppm();
        all().iter().find(|one| (one.is_calibrated, one.is_small) == (is_calibrated, is_small))
    }

    /// The time that another program takes with this upper end, as far as these runs say, in millionths of that without a limit.
    pub fn at_most_ppm(&self, high_ppm: u64) -> u64 {
        let added = u128::from(Self::said(high_ppm)) * u128::from(self.times_ppm) / 1_000_000;
        u64::try_from(added).unwrap_or(u64::MAX).saturating_add(Ratio::ONE.ppm())
    }
}

/// All that was measured.
fn all() -> &'static [NativeError] {
    static ERRORS: OnceLock<Vec<NativeError>> = OnceLock::new();
    ERRORS.get_or_init(|| serde_json::from_str(include_str!("../data/native-error.json")).expect("a test reads it"))
}

/// Writes these ends next to the intervals of configurations whose predictions were compared with real kernels. There are none for programs
/// that wait: their bursts differ by more without a limit.
pub(super) fn fill(advice: &mut Advice) {
    if waits_mostly(advice) {
        return;
    }
    let is_calibrated = !advice.prices.is_empty();
    let end = |high_ppm: u64| Some(NativeError::of(is_calibrated, high_ppm)?.at_most_ppm(high_ppm));
    for row in advice.rows.iter_mut().filter(|row| row.is_calibrated) {
        row.native_at_most_ppm = row.runtime_ratio_ppm.and_then(|ratio| end(ratio.high));
    }
    if let Some(best) = &mut advice.recommendation {
        best.native_at_most_ppm = end(best.runtime_ratio_ppm.high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four_kinds_of_sizes_were_run() {
        for (is_calibrated, high_ppm) in [(false, 1_000_000), (false, 1_050_001), (true, 1_050_000), (true, 2_000_000)]
        {
            let error = NativeError::of(is_calibrated, high_ppm).expect("stored");
            assert!(error.programs >= 3 && error.sizes >= error.programs && error.times_ppm > 0, "{error:?}");
        }
    }

    #[test]
    fn ends_by_hand() {
        let error = NativeError { is_calibrated: true, is_small: true, programs: 1, sizes: 1, times_ppm: 1_200_000 };
        assert_eq!(error.at_most_ppm(1_010_000), 1_060_000, "1.2 × 5 %");
        assert_eq!(error.at_most_ppm(1_100_000), 1_120_000);
        assert_eq!((error.at_most_ppm(0), error.at_most_ppm(u64::MAX)), (1_060_000, u64::MAX));
    }
}
