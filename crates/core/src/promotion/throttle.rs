//! Period and size of a space's scans: four cases of the findings of the last two scans.
//!
//! Source: the original `kmmscand_update_mmslot_info`; docs/spec/promotion.md#s1-7, later versions 2.1 and 2.3. The comment of the patch
//! writes the factors of the period as `2 << 3`; its code shifts by 3, as does this code.

use super::mode::Limits;
use serde::{Deserialize, Serialize};

/// Percent by which the period changes while results stay the same.
const TUNE_PERCENT: u64 = 15;
/// The period changes by this shift when useful pages begin or end.
const PERIOD_SHIFT: u32 = 3;
/// The size changes by this shift.
const SIZE_SHIFT: u32 = 1;
/// Largest scale of a space.
pub const SCALE_MAX: u32 = 10;

/// Whether the scan period, the scan size or both are adapted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Throttling {
    #[default]
    Both,
    /// Only the period is adapted; the size stays at its default.
    PeriodOnly,
    /// Only the size is adapted; the period stays at its default.
    SizeOnly,
    /// Neither the period nor the size is adapted.
    None,
}

/// Findings of the previous scan and this one, and the change of period and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Both scans found nothing: the period grows, the size shrinks.
    StillNothing,
    /// Only this scan found useful pages: scans become frequent and as large as allowed at once.
    Found,
    /// Only the previous scan found useful pages: scans become rare; the size stays.
    Lost,
    /// Both scans found useful pages: the period shrinks, the size grows.
    StillFound,
}

/// Factors that stretch a period after it was found (patch version 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The space's scale, 1 to 10.
    pub scale: u32,
    /// Share of moves that failed, in percent.
    pub failed_percent: u64,
}

impl Stretch {
    /// A stretch that leaves periods as they are.
    pub const NONE: Self = Self { scale: 1, failed_percent: 0 };
}

/// The throttle of one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Milliseconds from the end of a scan to the next.
    pub period_ms: u64,
    /// Bytes of address space that one scan covers.
    pub size: u64,
    /// Useful pages of the last scan; 0 where they were too few.
    pub useful: u64,
}

impl Throttle {
    /// The throttle of a new space.
    pub fn new(limits: &Limits, period_ms: u64) -> Self {
        Self { period_ms, size: limits.size[1], useful: 0 }
    }

    /// Takes in the useful pages of a scan that has just ended.
    ///
    /// The period is held within its bounds before it is stretched, so a stretched one may lie above them: up to 110 s. The
    /// next call begins from there.
    pub fn adapt(&mut self, useful: u64, limits: &Limits, throttling: Throttling, stretch: Stretch) -> Case {
        let decayed = limits.decay_shift.map_or(0, |shift| self.useful >> shift);
        let useful = useful.saturating_add(decayed);
        let useful = if useful < limits.ignore_below { 0 } else { useful };
        let (period, size) = (self.period_ms, self.size);
        let (case, period, size) = match (self.useful > 0, useful > 0) {
            (false, false) => (Case::StillNothing, percent(period, 100 + TUNE_PERCENT), size >> SIZE_SHIFT),
            (false, true) => (Case::Found, period >> PERIOD_SHIFT, limits.size[2]),
            (true, false) => (Case::Lost, period.saturating_mul(1 << PERIOD_SHIFT), size),
            (true, true) => {
                (Case::StillFound, percent(period, 100 - TUNE_PERCENT), size.saturating_mul(1 << SIZE_SHIFT))
            }
        };
        if matches!(throttling, Throttling::Both | Throttling::PeriodOnly) {
            let [least, _, most] = limits.period_ms;
            self.period_ms = stretched(period.clamp(least, most), stretch);
        }
        if matches!(throttling, Throttling::Both | Throttling::SizeOnly) {
            self.size = size.clamp(limits.size[0], limits.size[2]);
        }
        self.useful = useful;
        case
    }
}

/// Multiplied first and then divided, as the kernel does: 2645 by 115 % is 3041.
fn percent(value: u64, percent: u64) -> u64 {
    value.saturating_mul(percent) / 100
}

/// The formula of patch version 3, which its text wrongly calls "approximately 10 %": 100 % of failures stretch the period eleven
/// times.
fn stretched(period_ms: u64, stretch: Stretch) -> u64 {
    let scale = u64::from(stretch.scale.clamp(1, SCALE_MAX));
    let scaled = period_ms + period_ms * (scale - 1) / 9;
    scaled * (1 + stretch.failed_percent / 10)
}

#[cfg(test)]
mod tests {
    use super::super::mode::Mode;
    use super::*;

    const MIB: u64 = 1 << 20;

    fn fresh(limits: &Limits) -> Throttle {
        Throttle::new(limits, limits.period_ms[1])
    }

    /// (period ms, size MiB, X) after each scan.
    fn trajectory(limits: &Limits, mut throttle: Throttle, found: &[u64]) -> Vec<(u64, u64, u64)> {
        let step = |&useful| {
            throttle.adapt(useful, limits, Throttling::Both, Stretch::NONE);
            (throttle.period_ms, throttle.size / MIB, throttle.useful)
        };
        found.iter().map(step).collect()
    }

    fn of_the_seed(found: &[u64]) -> Vec<(u64, u64)> {
        let limits = Mode::V0.limits();
        trajectory(&limits, fresh(&limits), found).iter().map(|&(period, size, _)| (period, size)).collect()
    }

    const IDLE: [(u64, u64); 7] =
        [(2300, 2048), (2645, 1024), (3041, 512), (3497, 512), (4021, 512), (4624, 512), (5000, 512)];

    /// docs/spec/promotion.md#s7, examples 1 and 5.
    #[test]
    fn an_idle_space_and_noise_slow_down_alike() {
        assert_eq!(of_the_seed(&[0; 7]), IDLE, "example 1");
        let ends: Vec<u64> = IDLE
            .iter()
            .scan(0, |at, (period, _)| {
                *at += period;
                Some(*at)
            })
            .collect();
        assert_eq!(ends, [2300, 4945, 7986, 11483, 15504, 20128, 25128], "example 1: times of scans");
        assert_eq!(of_the_seed(&[99; 4]), IDLE[..4], "example 5");
        let limits = Mode::V0.limits();
        assert!(trajectory(&limits, fresh(&limits), &[99; 4]).iter().all(|row| row.2 == 0), "example 5: X");
    }

    /// docs/spec/promotion.md#s7, examples 2, 3, 4, 7 and 9.
    #[test]
    fn useful_pages_come_and_go() {
        let long_idle: Vec<u64> = [0; 8].into_iter().chain([2000, 0, 0, 0]).collect();
        type Row = (&'static str, &'static [u64], &'static [(u64, u64)]);
        let table: [Row; 4] = [
            ("2", &[5000, 5000, 5000], &[(400, 16384), (400, 16384), (400, 16384)]),
            ("3", &[5000, 5000, 0, 0, 0], &[(400, 16384), (400, 16384), (3200, 16384), (3680, 8192), (4232, 4096)]),
            ("4", &[500, 0, 500, 0], &[(400, 16384), (3200, 16384), (400, 16384), (3200, 16384)]),
            (
                "9",
                &[0, 0, 300, 300, 300, 0, 0],
                &[(2300, 2048), (2645, 1024), (400, 16384), (400, 16384), (400, 16384), (3200, 16384), (3680, 8192)],
            ),
        ];
        for (example, found, expected) in table {
            assert_eq!(of_the_seed(found), expected, "example {example}");
        }
        let after_the_hit = [(625, 16384), (5000, 16384), (5000, 8192), (5000, 4096)];
        let long = of_the_seed(&long_idle);
        assert_eq!((long[7], &long[8..]), ((5000, 512), &after_the_hit[..]), "example 7");
    }

    /// docs/spec/promotion.md#s7, examples 3, 4 and 6: which case.
    #[test]
    fn cases_are_those_of_the_seed() {
        use Case::{Found, Lost, StillFound, StillNothing};
        let table: [(&str, &[u64], &[Case]); 4] = [
            ("2", &[5000, 5000], &[Found, StillFound]),
            ("3", &[5000, 5000, 0, 0], &[Found, StillFound, Lost, StillNothing]),
            ("4", &[500, 0, 500, 0], &[Found, Lost, Found, Lost]),
            ("6", &[100, 100, 101, 99], &[Found, StillFound, StillFound, Lost]),
        ];
        for (example, found, expected) in table {
            let limits = Mode::V0.limits();
            let mut throttle = fresh(&limits);
            let cases: Vec<Case> =
                found.iter().map(|&useful| throttle.adapt(useful, &limits, Throttling::Both, Stretch::NONE)).collect();
            assert_eq!(cases, expected, "example {example}");
        }
    }

    /// docs/spec/promotion.md#s7, example 6.
    #[test]
    fn a_hundred_pages_are_useful_and_99_are_not() {
        let limits = Mode::V0.limits();
        let rows = trajectory(&limits, fresh(&limits), &[100, 100, 101, 99]);
        assert_eq!(rows, [(400, 16384, 100), (400, 16384, 100), (400, 16384, 101), (3200, 16384, 0)], "example 6");
    }

    /// docs/spec/promotion.md#s7, example 8.
    #[test]
    fn a_slow_space_gets_fast_at_once() {
        let limits = Mode::V0.limits();
        let slow = Throttle { period_ms: 5000, size: 512 * MIB, useful: 0 };
        let rows = trajectory(&limits, slow, &[5000; 5]);
        let periods: Vec<u64> = rows.iter().map(|row| row.0).collect();
        assert_eq!(periods, [625, 531, 451, 400, 400], "example 8");
        assert!(rows.iter().all(|row| row.1 == 16384), "example 8: size");
    }

    /// docs/spec/promotion.md#s7, examples 13 and 14.
    #[test]
    fn later_postings_have_other_bounds_and_counts_that_decay() {
        let v1 = Mode::V1.limits();
        let rows = trajectory(&v1, fresh(&v1), &[0, 0, 5000]);
        assert_eq!(rows, [(2300, 512, 0), (2645, 256, 0), (500, 4096, 5000)], "example 13");
        let v2 = Mode::V2.limits();
        let rows = trajectory(&v2, fresh(&v2), &[40_000, 0, 0, 0]);
        let expected = [(600, 4096, 40_000), (600, 4096, 2500), (4800, 4096, 0), (5000, 2048, 0)];
        assert_eq!(rows, expected, "example 14");
    }

    /// docs/spec/promotion.md#s7, example 15.
    #[test]
    fn scale_and_failures_stretch_the_period_beyond_its_bounds() {
        let limits = Mode::V3.limits();
        let mut throttle = Throttle { period_ms: 2000, size: 4096 * MIB, useful: 300 };
        let case = throttle.adapt(300, &limits, Throttling::Both, Stretch { scale: 5, failed_percent: 35 });
        assert_eq!((case, throttle.useful, throttle.period_ms), (Case::StillFound, 318, 9820), "example 15");
        assert_eq!(stretched(5000, Stretch { scale: 10, failed_percent: 100 }), 110_000, "example 15: the most");
        assert_eq!(stretched(5000, Stretch { scale: 99, failed_percent: 0 }), 10_000, "a scale ends at 10");
    }

    #[test]
    fn either_throttle_can_stand_still() {
        let limits = Mode::V0.limits();
        let table = [
            (Throttling::Both, (2300, 2048)),
            (Throttling::PeriodOnly, (2300, 4096)),
            (Throttling::SizeOnly, (2000, 2048)),
            (Throttling::None, (2000, 4096)),
        ];
        for (throttling, expected) in table {
            let mut throttle = fresh(&limits);
            throttle.adapt(0, &limits, throttling, Stretch::NONE);
            assert_eq!((throttle.period_ms, throttle.size / MIB), expected, "{throttling:?}");
        }
    }
}
