//! How far what was said is from what was measured.

use isotherm_scenario::Share;

use super::said::{Range, Said};
use super::{AtSize, Brief, Measured};

/// Slow-down that is asked for, in millionths of the time without a limit: the default of `isotherm advise`.
const ALLOWED_PPM: u64 = 1_050_000;
/// Sizes with fewer major faults say nothing about how well they are predicted.
const FAULTS_AT_LEAST: u64 = 100;
/// Slow-downs that are compared, in millionths: smaller ones drown in the machine's noise.
const COMPARED_PPM: std::ops::RangeInclusive<u64> = 1_050_000..=2_000_000;

/// Which answer is judged.
pub(super) type Of = fn(&AtSize) -> Option<&Said>;

/// One answer, over all programs.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Sizes that were said to be enough, and were.
    pub(super) safe: Count,
    /// The same by the clock.
    pub(super) safe_by_clock: Count,
    /// The same by the clock, against the slowest of the runs without a limit.
    pub(super) safe_within_noise: Count,
    /// Programs that hold at the recommended size.
    pub(super) hold: Count,
    pub(super) hold_by_clock: Count,
    pub(super) hold_within_noise: Count,
    /// Measured slow-downs that lie at or below the said upper end, of sizes without kills.
    pub(super) below_high: Count,
    /// Errors of the added time where the program took 5 to 100 % longer.
    pub(super) added: Errors,
    /// Errors of major faults.
    pub(super) faults: Errors,
    /// Sizes whose said share of kills lies within the interval of the measured one.
    pub(super) kills: Count,
    /// Pairs of sizes of a program, in the said order.
    pub(super) order_by_faults: Count,
    pub(super) order_by_time: Count,
}

/// How many of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) of: usize,
    pub(super) n: usize,
}

impl Count {
    pub(super) fn add(&mut self, is_one: bool) {
        self.n += 1;
        self.of += usize::from(is_one);
    }
}

/// Relative errors, said over measured less one.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<f64>);

impl Errors {
    fn add(&mut self, said: u64, measured: u64) {
        self.0.push(said as f64 / measured as f64 - 1.0);
    }

    pub(super) fn n(&self) -> usize {
        self.0.len()
    }

    /// The size of the error that a share of all does not exceed.
    pub(super) fn absolute(&self, percent: usize) -> f64 {
        quantile(self.0.iter().map(|error| error.abs()), percent)
    }

    /// The middle one, with its sign.
    pub(super) fn median(&self) -> f64 {
        quantile(self.0.iter().copied(), 50)
    }
}

fn quantile(values: impl Iterator<Item = f64>, percent: usize) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let index = (values.len() * percent).div_ceil(100).saturating_sub(1);
    values.get(index).copied().unwrap_or(f64::NAN)
}

/// The one in the middle, or the mean of the two there; 0 of none.
fn middle<T: Into<i128>>(values: impl Iterator<Item = T>) -> i128 {
    let mut values: Vec<i128> = values.map(Into::into).collect();
    values.sort_unstable();
    match (values.len().checked_sub(1), values.len() / 2) {
        (None, _) => 0,
        (Some(last), upper) => (values[last / 2] + values[upper]).div_euclid(2),
    }
}

/// The same of what is never negative.
fn middle_of(values: impl Iterator<Item = u64>) -> u64 {
    u64::try_from(middle(values)).unwrap_or(0)
}

/// Runs at one size next to those without a limit.
pub(super) struct Seen {
    /// Time over that without a limit, of cold runs that came to their end, in millionths; `None` of none. The difference is that in the
    /// kernel and of waits: how long a program computes varies by more than what is asked. By the clock where the program waits.
    pub(super) slower_ppm: Option<u64>,
    /// The same by the clock. The worse of work and 99th percentile of bursts.
    pub(super) clock_ppm: Option<u64>,
    /// By the clock, over the slowest run without a limit and that with the longest bursts.
    pub(super) clock_over_slowest_ppm: Option<u64>,
    /// Of cold runs that came to their end.
    pub(super) major_faults: Option<Range>,
    pub(super) killed: Share,
    /// Runs that were ended because they took too long.
    pub(super) too_long: usize,
}

impl Seen {
    pub(super) fn new(program: &Measured, runs: &[Brief]) -> Self {
        let cold =
            |runs: &[Brief]| runs.iter().filter(|run| !run.is_warm && run.is_complete).cloned().collect::<Vec<_>>();
        let (free, ended) = (cold(&program.free), cold(runs));
        let ratio = |over: u64, of: fn(&Brief) -> u64| {
            let ns = middle_of(ended.iter().map(of));
            (!ended.is_empty() && over > 0)
                .then(|| u64::try_from(u128::from(ns) * 1_000_000 / u128::from(over)).unwrap_or(u64::MAX))
        };
        let work = |run: &Brief| run.work_ns;
        let p99 = |run: &Brief| run.p99_ns;
        let worse = |work: Option<u64>, p99: Option<u64>| if program.waits { work.max(p99) } else { work };
        let over_middle = |of: fn(&Brief) -> u64| ratio(middle_of(free.iter().map(of)), of);
        let over_most = |of: fn(&Brief) -> u64| ratio(free.iter().map(of).max().unwrap_or(0), of);
        let clock_ppm = worse(over_middle(work), over_middle(p99));
        let base_ns = middle_of(free.iter().map(work));
        let kernel = |runs: &[Brief]| middle(runs.iter().map(|run| run.kernel_ns));
        let added = u64::try_from(kernel(&ended) - kernel(&free)).unwrap_or(0);
        let slower = |added: u64| {
            1_000_000 + u64::try_from(u128::from(added) * 1_000_000 / u128::from(base_ns)).unwrap_or(u64::MAX / 2)
        };
        let faults = || ended.iter().map(|run| run.major_faults);
        let killed = runs.iter().filter(|run| run.kills > 0).count();
        Self {
            slower_ppm: if program.waits {
                clock_ppm
            } else {
                (!ended.is_empty() && base_ns > 0).then(|| slower(added))
            },
            clock_ppm,
            clock_over_slowest_ppm: worse(over_most(work), over_most(p99)),
            major_faults: (!ended.is_empty()).then(|| Range {
                low: faults().min().unwrap_or(0),
                median: middle_of(faults()),
                high: faults().max().unwrap_or(0),
            }),
            killed: Share::new(killed as u64, runs.len() as u64),
            too_long: runs.iter().filter(|run| !run.is_complete && run.kills == 0).count(),
        }
    }

    /// All runs came to their end, and the program took no longer than is allowed.
    pub(super) fn holds(&self, slower_ppm: Option<u64>) -> bool {
        self.killed.of == 0 && self.too_long == 0 && slower_ppm.is_some_and(|ppm| ppm <= ALLOWED_PPM)
    }
}

/// Judges one answer.
pub(super) fn judge<'a>(programs: impl Iterator<Item = &'a Measured>, of: Of) -> Verdict {
    let mut verdict = Verdict::default();
    for program in programs {
        let rows = program.sizes.iter().filter_map(|size| Some((of(size)?, Seen::new(program, &size.runs))));
        let rows: Vec<(&Said, Seen)> = rows.collect();
        for (said, seen) in &rows {
            verdict.add(said, seen);
        }
        let ended: Vec<&(&Said, Seen)> = rows.iter().filter(|(said, _)| said.slower_ppm.median > 0).collect();
        for (nr, (first, first_seen)) in ended.iter().enumerate() {
            for (second, second_seen) in ended.iter().skip(nr + 1).map(|row| (row.0, &row.1)) {
                let of_faults = |seen: &Seen| seen.major_faults.map(|faults| faults.median);
                let said = (first.major_faults.median, second.major_faults.median);
                add_pair(&mut verdict.order_by_faults, said, (of_faults(first_seen), of_faults(second_seen)));
                let said = (first.slower_ppm.median, second.slower_ppm.median);
                add_pair(&mut verdict.order_by_time, said, (first_seen.slower_ppm, second_seen.slower_ppm));
            }
        }
    }
    verdict
}

impl Verdict {
    fn add(&mut self, said: &Said, seen: &Seen) {
        let [holds, by_clock, within_noise] =
            [seen.slower_ppm, seen.clock_ppm, seen.clock_over_slowest_ppm].map(|slower| seen.holds(slower));
        if said.is_enough {
            self.safe.add(holds);
            self.safe_by_clock.add(by_clock);
            self.safe_within_noise.add(within_noise);
        }
        if said.is_recommended {
            self.hold.add(holds);
            self.hold_by_clock.add(by_clock);
            self.hold_within_noise.add(within_noise);
        }
        let share = Share::new(said.kills, said.nr_of_kills()).ppm();
        self.kills.add((seen.killed.low_ppm..=seen.killed.high_ppm).contains(&share));
        if said.slower_ppm.median == 0 {
            return; // no replay came to its end
        }
        if let Some(slower) = seen.slower_ppm {
            self.below_high.add(slower <= said.slower_ppm.high);
            if COMPARED_PPM.contains(&slower) {
                self.added.add(said.slower_ppm.median.saturating_sub(1_000_000), slower - 1_000_000);
            }
        }
        if let Some(faults) = seen.major_faults.filter(|faults| faults.median >= FAULTS_AT_LEAST) {
            self.faults.add(said.major_faults.median, faults.median);
        }
    }
}

/// A pair whose measured values differ by a tenth at least, and whose said ones differ.
fn add_pair(count: &mut Count, said: (u64, u64), (first, second): (Option<u64>, Option<u64>)) {
    let (Some(first), Some(second)) = (first, second) else { return };
    if said.0 != said.1 && first.abs_diff(second) * 10 >= first.max(second) && first.max(second) >= FAULTS_AT_LEAST {
        count.add((said.0 < said.1) == (first < second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(work_ns: u64, major_faults: u64) -> Brief {
        Brief {
            is_complete: true,
            work_ns,
            major_faults,
            cpu_ns: work_ns,
            kernel_ns: i64::try_from(work_ns).unwrap() - 100,
            ..Brief::default()
        }
    }

    fn program(free: Vec<Brief>, sizes: Vec<AtSize>) -> Measured {
        Measured { program: "p".to_owned(), waits: false, peak_bytes: 4, free, sizes }
    }

    fn killed() -> Brief {
        Brief { kills: 1, ..Brief::default() }
    }

    #[test]
    fn a_size_is_safe_if_no_run_is_killed_and_the_time_stays() {
        let free = [run(100, 1), run(100, 1), run(110, 1)];
        let holds = |runs: &[Brief]| {
            let seen = Seen::new(&program(free.to_vec(), Vec::new()), runs);
            [seen.holds(seen.slower_ppm), seen.holds(seen.clock_over_slowest_ppm)]
        };
        assert_eq!(holds(&[run(105, 9), run(105, 9)]), [true, true]);
        assert_eq!(holds(&[run(106, 9), run(106, 9)]), [false, true], "within the spread of free runs");
        assert_eq!(holds(&[run(100, 9), killed()]), [false, false]);
        let warm = Brief { is_warm: true, ..run(500, 9) };
        assert_eq!(holds(&[run(100, 9), warm]), [true, true], "times are of cold runs");
    }

    #[test]
    fn errors_and_order() {
        let said = |slower: u64, faults: u64, is_enough| Said {
            is_enough,
            n: 5,
            slower_ppm: Range { low: slower, median: slower, high: slower },
            major_faults: Range { low: faults, median: faults, high: faults },
            ..Said::default()
        };
        let size = |memory_bytes, table, runs| AtSize { memory_bytes, table: Some(table), calibrated: None, runs };
        let sizes = vec![
            size(1, said(1_300_000, 900, false), vec![run(1200, 1000)]),
            size(2, said(1_010_000, 100, true), vec![run(1080, 200)]),
            size(3, said(1_000_000, 1, true), vec![run(1000, 1)]),
        ];
        let verdict = judge([program(vec![run(1000, 1)], sizes)].iter(), |size| size.table.as_ref());
        assert_eq!(verdict.safe, Count { of: 1, n: 2 });
        assert_eq!(verdict.safe_by_clock, Count { of: 1, n: 2 });
        assert_eq!(verdict.added.n(), 2);
        assert!((verdict.added.absolute(90) - 0.875).abs() < 1e-9, "1 % in place of 8: {:?}", verdict.added);
        assert!((verdict.faults.median() + 0.5).abs() < 1e-9, "100 in place of 200: {:?}", verdict.faults);
        assert_eq!(verdict.order_by_faults, Count { of: 3, n: 3 });
        assert_eq!(verdict.order_by_time, Count { of: 2, n: 2 }, "1080 and 1000 differ by less than a tenth");
        assert_eq!(verdict.below_high, Count { of: 2, n: 3 });
        assert_eq!(verdict.kills, Count { of: 3, n: 3 });
    }
}
