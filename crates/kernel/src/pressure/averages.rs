//! Running averages in fixed point (docs/spec/pressure.md#s3).

use super::states::NR_REPORTED;
use crate::tick::TickRate;
use isotherm_units::{Duration, Instant};

/// Bits of the fixed point.
const SHIFT: u32 = 11;
/// 1.0
const ONE: u64 = 1 << SHIFT;
/// exp(-2 s / 10 s), exp(-2/60), exp(-2/300).
const DECAY: [u64; 3] = [1677, 1981, 2034];

/// Averages over 10, 60 and 300 s of one state, in percent times 2048.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Average(pub(super) [u64; 3]);

impl Average {
    /// Folds in a sample of `percent` after `missed` periods of nothing.
    pub fn fold(&mut self, missed: u64, percent: u64) {
        for (average, decay) in self.0.iter_mut().zip(DECAY) {
            if missed > 0 {
                *average = step(*average, power(decay, missed), 0);
            }
            *average = step(*average, decay, percent * ONE);
        }
    }

    /// The averages over 10, 60 and 300 s in hundredths of a percent, cut off as they are printed.
    pub fn hundredths(self) -> [u64; 3] {
        self.0.map(|average| (average >> SHIFT) * 100 + (((average & (ONE - 1)) * 100) >> SHIFT))
    }
}

impl std::fmt::Display for Average {
    /// `avg10=0.00 avg60=0.00 avg300=0.00`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [avg10, avg60, avg300] = self.hundredths().map(|n| format!("{}.{:02}", n / 100, n % 100));
        write!(f, "avg10={avg10} avg60={avg60} avg300={avg300}")
    }
}

/// One exponential step from `load` to `active`, rounded towards `active`.
const fn step(load: u64, decay: u64, active: u64) -> u64 {
    let sum = load * decay + active * (ONE - decay);
    (if active >= load { sum + ONE - 1 } else { sum }) / ONE
}

/// `base` to the power `n` in fixed point, rounded at each multiplication.
const fn power(mut base: u64, mut n: u64) -> u64 {
    let mut result = ONE;
    while n > 0 {
        if n & 1 == 1 {
            result = (result * base + ONE / 2) >> SHIFT;
        }
        base = (base * base + ONE / 2) >> SHIFT;
        n >>= 1;
    }
    result
}

/// Length of a sample period: 2 s and a tick.
pub const fn period(rate: TickRate) -> Duration {
    rate.span(2 * rate.hz() + 1)
}

/// The averages of one group.
#[derive(Clone, Debug)]
pub struct Averages {
    averages: [Average; NR_REPORTED],
    /// Part of the totals that is in the averages.
    accounted: [u64; NR_REPORTED],
    last: Instant,
    next: Instant,
    period: Duration,
}

impl Averages {
    /// All zero at `now`, when the group is made; the first sample is due a period later.
    pub fn new(now: Instant, rate: TickRate) -> Self {
        let period = period(rate);
        let (averages, accounted) = ([Average::default(); NR_REPORTED], [0; NR_REPORTED]);
        Self { averages, accounted, last: now, next: now + period, period }
    }

    /// When the next sample is due.
    pub const fn next(&self) -> Instant {
        self.next
    }

    /// Takes a sample of `totals` (ns per state) if one is due.
    pub fn update(&mut self, now: Instant, totals: &[u64; NR_REPORTED]) {
        if now < self.next {
            return;
        }
        let missed = now.since(self.next).ns() / self.period.ns();
        let length = now.since(self.last + self.period.saturating_mul(missed));
        self.last = now;
        self.next += self.period.saturating_mul(missed + 1);
        self.take(missed, length, totals);
    }

    fn take(&mut self, missed: u64, length: Duration, totals: &[u64; NR_REPORTED]) {
        for ((average, accounted), total) in self.averages.iter_mut().zip(&mut self.accounted).zip(totals) {
            // Time beyond the period is carried to the next one: CPUs report late.
            let sample = (total - *accounted).min(length.ns());
            *accounted += sample;
            let percent = u128::from(sample) * 100 / u128::from(length.ns().max(1));
            average.fold(missed, u64::try_from(percent).expect("at most 100"));
        }
    }

    /// The averages of the state with index `state`.
    pub const fn get(&self, state: usize) -> Average {
        self.averages[state]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn folded(samples: &[u64]) -> Average {
        let mut average = Average::default();
        samples.iter().for_each(|&percent| average.fold(0, percent));
        average
    }
    fn check(average: Average, raw: [u64; 3], printed: &str) {
        assert_eq!((average.0, average.to_string().as_str()), (raw, printed));
    }
    fn rate(hz: u64) -> TickRate {
        TickRate::new(hz).unwrap()
    }
    fn at_ms(ms: u64) -> Instant {
        Instant::START + Duration::from_ms(ms)
    }

    #[test]
    fn p1_one_full_sample() {
        check(folded(&[100]), [37_100, 6700, 1400], "avg10=18.11 avg60=3.27 avg300=0.68");
    }

    #[test]
    fn p2_further_full_samples() {
        check(folded(&[100; 2]), [67_480, 13_181, 2791], "avg10=32.94 avg60=6.43 avg300=1.36");
        check(folded(&[100; 5]), [129_406, 31_380, 6907], "avg10=63.18 avg60=15.32 avg300=3.37");
    }

    #[test]
    fn p3_then_an_empty_sample() {
        check(folded(&[100, 100, 100, 100, 100, 0]), [105_963, 30_353, 6859], "avg10=51.73 avg60=14.82 avg300=3.34");
    }

    #[test]
    fn p4_missed_periods() {
        assert_eq!(DECAY.map(|decay| power(decay, 5)), [753, 1734, 1978]);
        let mut average = folded(&[100; 5]);
        average.fold(5, 0);
        check(average, [38_959, 25_698, 6624], "avg10=19.02 avg60=12.54 avg300=3.23");
        // The same through the clock of a group: five samples on time, then one six periods later.
        let (period, full) = (2001, 5 * 2_001_000_000);
        let mut group = Averages::new(at_ms(0), rate(1000));
        (1..=5).for_each(|n| group.update(at_ms(n * period), &[n * 2_001_000_000; 6]));
        assert_eq!(group.get(0), folded(&[100; 5]));
        group.update(at_ms(11 * period), &[full; 6]);
        assert_eq!((group.get(0), group.next()), (average, at_ms(12 * period)));
    }

    #[test]
    fn p5_small_samples() {
        check(folded(&[25]), [9275, 1675, 350], "avg10=4.52 avg60=0.81 avg300=0.17");
        check(folded(&[1]), [371, 67, 14], "avg10=0.18 avg60=0.03 avg300=0.00");
    }

    #[test]
    fn p6_whole_percents_only() {
        // 12 ms of 2.001 s are 0 %, 137.5 ms of 2.004 s are 6 %.
        for (hz, period_ms, stall_ns, percent) in [(1000, 2001, 12_000_000, 0), (250, 2004, 137_500_000, 6)] {
            let mut group = Averages::new(at_ms(0), rate(hz));
            assert_eq!(group.next(), at_ms(period_ms));
            group.update(at_ms(period_ms), &[stall_ns; 6]);
            assert_eq!(group.get(3), folded(&[percent]), "HZ {hz}");
        }
        assert_eq!(period(rate(100)), Duration::from_ms(2010));
    }

    #[test]
    fn p7_constant_half() {
        let average = folded(&[50; 400]);
        check(average, [102_400, 102_400, 95_881], "avg10=50.00 avg60=50.00 avg300=46.81");
    }

    #[test]
    fn p10_overage() {
        let mut group = Averages::new(at_ms(0), rate(1000));
        group.take(0, Duration::from_ms(2000), &[2_500_000_000; 6]);
        assert_eq!((group.get(2), group.accounted[2]), (folded(&[100]), 2_000_000_000));
        // The half second that was carried is a quarter of the next two.
        group.take(0, Duration::from_ms(2000), &[2_500_000_000; 6]);
        assert_eq!(group.get(2), folded(&[100, 25]));
    }

    #[test]
    fn samples_before_their_time_change_nothing() {
        let mut group = Averages::new(at_ms(0), rate(1000));
        group.update(at_ms(2000), &[1_000_000_000; 6]);
        assert_eq!((group.get(0), group.next()), (Average::default(), at_ms(2001)));
        // A late sample is longer; the one after it shorter.
        group.update(at_ms(3000), &[1_500_000_000; 6]);
        assert_eq!((group.get(0), group.next()), (folded(&[50]), at_ms(4002)));
        group.update(at_ms(4002), &[2_001_000_000; 6]);
        assert_eq!(group.get(0), folded(&[50, 50]), "501 of 1002 ms");
    }

    proptest! {
        #[test]
        fn averages_stay_between_nothing_and_all(samples in prop::collection::vec((0u64..1 << 40, 0u64..=100), 1..50)) {
            let mut average = Average::default();
            for (missed, percent) in samples {
                let before = average.hundredths();
                average.fold(missed, percent);
                for (before, after) in before.into_iter().zip(average.hundredths()) {
                    prop_assert!(after <= before.max(percent * 100));
                }
            }
        }
    }
}
