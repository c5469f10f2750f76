//! Whether the command holds at a size.

use crate::stated::Predicted;
use crate::{Design, Run, Size, Stated};
use isotherm_scenario::{Share, Summary};
use isotherm_units::Duration;
use serde::Serialize;

/// What is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Time relative to runs without a limit, in millionths: 1,050,000 for 5 % slower.
    #[serde(rename = "runtime_ratio_allowed_ppm")]
    pub ratio_ppm: u64,
    /// Time that may be added to 99 of 100 bursts.
    #[serde(rename = "p99_added_allowed_ns", serialize_with = "ns_of")]
    pub latency: Option<Duration>,
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn ns_of<S: serde::Serializer>(latency: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    latency.map(Duration::ns).serialize(serializer)
}

/// A mean with its 95 % interval (Student's t over pairs). Of ratios it is the geometric mean, and the interval that of their logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub mean: f64,
    /// `None` for one pair.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Interval {
    fn exp(self) -> Self {
        Self { mean: self.mean.exp(), low: self.low.map(f64::exp), high: self.high.map(f64::exp) }
    }
}

/// What a result stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The clock, or the end of a run.
    Clock,
    /// The clock's interval reaches across what is allowed, that of [`Judged::overhead_ratio`] does not.
    Overhead,
}

/// Result for a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval of the clock, or else that of the overhead, lies within what is allowed, and no run failed.
    Holds,
    /// The whole interval lies beyond what is allowed, or a run was killed, failed or took too long.
    Fails,
    /// Both intervals reach across what is allowed.
    Undecided,
}

impl Verdict {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "does not hold",
            Self::Undecided => "undecided",
        }
    }
}

/// What was measured at a size, next to what was predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    pub memory_bytes: u64,
    pub is_asked: bool,
    /// Pairs of a run without a limit and one at this size, both of which ended well.
    pub pairs: u64,
    /// Time relative to runs without a limit; 1 is as fast. `None` without such a pair.
    pub runtime_ratio: Option<Interval>,
    /// Likewise, but only what is added in the kernel and by waits: how long the command computes by itself varies from run to run by more than
    /// a limit changes it. Arithmetic means. `None` of a command that prints bursts.
    pub overhead_ratio: Option<Interval>,
    /// What is added to 99 of 100 bursts, in nanoseconds; `None` if the command prints none.
    pub p99_added_ns: Option<Interval>,
    pub major_faults_median: Option<u64>,
    /// The same without a limit.
    pub free_major_faults_median: Option<u64>,
    /// Share of the time in which all its tasks waited for memory, in millionths; `None` in version 1 of control groups.
    pub stalled_ppm: Option<u64>,
    /// Runs at this size.
    pub runs: u64,
    /// Of these, runs in which the kernel killed at the limit.
    pub killed: u64,
    /// Runs that failed or took too long, those that were killed included.
    pub failed: u64,
    /// Upper bound of the chance that a run is killed, with a confidence of 95 % (Clopper and Pearson, Biometrika 26, 1934), in millionths.
    pub kill_chance_at_most_ppm: u64,
    pub predicted: Option<Predicted>,
    pub verdict: Verdict,
    pub basis: Basis,
}

/// Judges each size of a design by its runs. `turns` holds the runs of each turn that was completed.
pub fn judge(design: &Design, turns: &[Vec<Run>], stated: Option<&Stated>, asked: Asked) -> Vec<Judged> {
    let predicted = |size: &Size| stated.and_then(|stated| stated.at(size.bytes)).copied();
    design.sizes.iter().map(|size| Judged { predicted: predicted(size), ..measured(*size, turns, asked) }).collect()
}

fn measured(size: Size, turns: &[Vec<Run>], asked: Asked) -> Judged {
    let at = |memory_bytes: Option<u64>| {
        move |turn: &Vec<Run>| turn.iter().find(|run| run.memory_bytes == memory_bytes).cloned()
    };
    let memory_bytes = size.bytes.get();
    let all: Vec<(Run, Run)> =
        turns.iter().filter_map(|turn| at(None)(turn).zip(at(Some(memory_bytes))(turn))).collect();
    let limited = || all.iter().map(|(_, limited)| limited);
    let good: Vec<&(Run, Run)> = all.iter().filter(|(free, limited)| free.is_good() && limited.is_good()).collect();
    let logs: Vec<f64> = good
        .iter()
        .map(|(free, limited)| (limited.work_ns().max(1) as f64 / free.work_ns().max(1) as f64).ln())
        .collect();
    let added: Vec<f64> =
        good.iter().filter_map(|(free, limited)| Some(limited.p99_ns()? as f64 - free.p99_ns()? as f64)).collect();
    let overhead = good.iter().filter_map(|(free, limited)| {
        let added = limited.overhead_ns()? - free.overhead_ns()?;
        Some(1.0 + added as f64 / free.work_ns().max(1) as f64)
    });
    let overhead: Vec<f64> = overhead.collect();
    let (runtime_ratio, p99_added_ns) = (interval(&logs).map(Interval::exp), interval(&added));
    let overhead_ratio = interval(&overhead);
    let runs = all.len() as u64;
    let failed = limited().filter(|run| !run.is_good()).count() as u64;
    let killed = limited().filter(|run| run.kills > 0).count() as u64;
    let stalled: Option<Vec<u64>> = limited().map(|run| run.stalled_ns).collect();
    let wall_ns: u64 = limited().map(|run| run.wall_ns).sum();
    let p99 = asked.latency.map(|latency| (p99_added_ns, latency.ns() as f64));
    let by = |ratio| verdict([Some((ratio, asked.ratio_ppm as f64 / 1e6)), p99].into_iter().flatten());
    let (verdict, basis) = match (failed, by(runtime_ratio), overhead_ratio.map(|ratio| by(Some(ratio)))) {
        (0, Verdict::Undecided, Some(decided @ (Verdict::Holds | Verdict::Fails))) => (decided, Basis::Overhead),
        (0, by_clock, _) => (by_clock, Basis::Clock),
        _ => (Verdict::Fails, Basis::Clock),
    };
    Judged {
        memory_bytes,
        is_asked: size.is_asked,
        pairs: good.len() as u64,
        runtime_ratio,
        overhead_ratio,
        p99_added_ns,
        major_faults_median: median(limited().map(|run| run.major_faults)),
        free_major_faults_median: median(all.iter().map(|(free, _)| free.major_faults)),
        stalled_ppm: stalled.map(|stalled| permillion(stalled.iter().sum(), wall_ns)),
        runs,
        killed,
        failed,
        kill_chance_at_most_ppm: Share::new(killed, runs).at_most_ppm(),
        predicted: None,
        verdict,
        basis,
    }
}

/// The worst of several.
fn verdict(limits: impl Iterator<Item = (Option<Interval>, f64)>) -> Verdict {
    let of_one = |(interval, allowed): (Option<Interval>, f64)| match interval {
        Some(Interval { high: Some(high), .. }) if high <= allowed => Verdict::Holds,
        Some(Interval { low: Some(low), .. }) if low > allowed => Verdict::Fails,
        _ => Verdict::Undecided,
    };
    let all: Vec<Verdict> = limits.map(of_one).collect();
    let worst = [Verdict::Fails, Verdict::Undecided].into_iter().find(|verdict| all.contains(verdict));
    worst.unwrap_or(Verdict::Holds)
}

fn interval(values: &[f64]) -> Option<Interval> {
    let Summary { mean, ci95_low: low, ci95_high: high, .. } = Summary::of(values)?;
    Some(Interval { mean, low, high })
}

/// The value in the middle, the lower of two.
fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

fn permillion(part: u64, of: u64) -> u64 {
    u64::try_from(u128::from(part) * 1_000_000 / u128::from(of).max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::good;
    use crate::{End, Starts};
    use isotherm_units::Bytes;

    const ASKED: Asked = Asked { ratio_ppm: 1_050_000, latency: None };

    fn judged(limited_ms: &[u64], change: impl Fn(usize, &mut Run), asked: Asked) -> Judged {
        let size = Size { bytes: Bytes::new(4096), is_asked: true };
        let design = Design { sizes: vec![size], pairs: 3, starts: Starts::Warm, seed: 1 };
        let turn = |(nr, &ms): (usize, &u64)| {
            let mut limited = good(Some(4096), ms);
            change(nr, &mut limited);
            vec![limited, good(None, 1000)]
        };
        let turns: Vec<Vec<Run>> = limited_ms.iter().enumerate().map(turn).collect();
        judge(&design, &turns, None, asked).remove(0)
    }

    #[test]
    fn an_interval_decides() {
        for (limited_ms, verdict) in [
            (&[1010, 1012, 1011][..], Verdict::Holds),
            (&[1100, 1102, 1101], Verdict::Fails),
            (&[1000, 1040, 1080], Verdict::Undecided),
            (&[1000], Verdict::Undecided),
            (&[], Verdict::Undecided),
            (&[990, 992, 991], Verdict::Holds),
        ] {
            let judged = judged(limited_ms, |_, _| {}, ASKED);
            assert_eq!(judged.verdict, verdict, "{limited_ms:?}: {judged:?}");
            assert_eq!((judged.runs, judged.pairs), (limited_ms.len() as u64, limited_ms.len() as u64));
        }
        // Geometric mean 1, deviation of the logarithms ln 2, t of 2 degrees 4.303: no ratio is below 0, however noisy.
        let Interval { mean, low, high } = judged(&[500, 1000, 2000], |_, _| {}, ASKED).runtime_ratio.unwrap();
        let factor = (4.303 * 2f64.ln() / 3f64.sqrt()).exp();
        assert!((mean - 1.0).abs() < 1e-9);
        assert!((high.unwrap() - factor).abs() < 1e-9 && (low.unwrap() - 1.0 / factor).abs() < 1e-9);
    }

    /// Runs that compute for 900 to 1200 ms by themselves, and lose 50 ms to the kernel without a limit.
    #[test]
    fn where_the_clock_is_noisy_the_overhead_decides() {
        let of = |system_ms: u64| {
            let size = Size { bytes: Bytes::new(4096), is_asked: true };
            let design = Design { sizes: vec![size], pairs: 3, starts: Starts::Warm, seed: 1 };
            let run = |memory, user_ms: u64, system_ms: u64| Run {
                cpu_ns: (user_ms + system_ms) * 1_000_000,
                system_ns: system_ms * 1_000_000,
                ..good(memory, user_ms + system_ms)
            };
            let noise = [(900, 1200), (1200, 900), (1000, 1100)];
            let turn = |(free, limited): (u64, u64)| vec![run(None, free, 50), run(Some(4096), limited, system_ms)];
            judge(&design, &noise.map(turn), None, ASKED).remove(0)
        };
        let held = of(60);
        assert_eq!((held.verdict, held.basis), (Verdict::Holds, Basis::Overhead), "{held:?}");
        assert!((held.overhead_ratio.unwrap().mean - 1.0095).abs() < 5e-4, "10 ms of 950 to 1250: {held:?}");
        assert_eq!((of(200).verdict, of(200).basis), (Verdict::Fails, Basis::Overhead));
        assert_eq!(of(100).verdict, Verdict::Undecided, "50 ms of 950 to 1250 are 4 to 5.3 %");
        assert_eq!(judged(&[1010; 3], |_, _| {}, ASKED).basis, Basis::Clock);
    }

    /// Two threads, each of which computes for a second, wait for swap for half of one: that is no time in the kernel, and it counts.
    #[test]
    fn waits_of_threads_that_compute_together_are_seen() {
        let size = Size { bytes: Bytes::new(4096), is_asked: true };
        let design = Design { sizes: vec![size], pairs: 3, starts: Starts::Warm, seed: 1 };
        let run = |memory, wall_ms| Run { cpu_ns: 2_000_000_000, ..good(memory, wall_ms) };
        let noise = [(1000, 1500), (1300, 1500), (1100, 1600)];
        let turns = noise.map(|(free, limited)| vec![run(None, free), run(Some(4096), limited)]);
        let judged = judge(&design, &turns, None, ASKED).remove(0);
        assert!(judged.overhead_ratio.unwrap().mean > 1.3, "{judged:?}");
        assert_ne!(judged.verdict, Verdict::Holds);
    }

    #[test]
    fn one_run_that_is_killed_or_fails_is_enough() {
        let killed = judged(&[1010, 1010, 1010], |nr, run| run.kills = u64::from(nr == 1), ASKED);
        assert_eq!((killed.verdict, killed.killed, killed.failed, killed.pairs), (Verdict::Fails, 1, 1, 2));
        for end in [End::Exit(1), End::Signal(9), End::TooLong] {
            let failed = judged(
                &[1010, 1010, 1010],
                |nr, run| {
                    if nr == 0 {
                        run.end = end
                    }
                },
                ASKED,
            );
            assert_eq!((failed.verdict, failed.killed, failed.failed), (Verdict::Fails, 0, 1), "{end:?}");
        }
    }

    #[test]
    fn bursts_are_held_against_what_is_allowed_to_them() {
        let asked = Asked { ratio_ppm: 2_000_000, latency: Some(Duration::from_ms(2)) };
        // Free bursts are of 10 ms each.
        let verdict = |limited_ms: &[u64]| {
            let size = Size { bytes: Bytes::new(4096), is_asked: true };
            let design = Design { sizes: vec![size], pairs: 3, starts: Starts::Warm, seed: 1 };
            let run = |memory, ms: u64| Run { bursts_ns: vec![ms * 1_000_000; 10], ..good(memory, 1000) };
            let turns: Vec<Vec<Run>> = limited_ms.iter().map(|&ms| vec![run(None, 10), run(Some(4096), ms)]).collect();
            judge(&design, &turns, None, asked).remove(0).verdict
        };
        assert_eq!(verdict(&[11, 11, 11]), Verdict::Holds, "1 ms more");
        assert_eq!(verdict(&[13, 13, 13]), Verdict::Fails, "3 ms more, and less than twice the work");
        assert_eq!(verdict(&[10, 12, 14]), Verdict::Undecided);
        let none = judged(&[1000; 3], |_, _| {}, asked);
        assert_eq!((none.verdict, none.p99_added_ns), (Verdict::Undecided, None), "it prints none");
    }

    #[test]
    fn few_runs_leave_room_for_kills() {
        // The rule of three, exactly: 1 - 0.05^(1/n).
        assert_eq!(Share::new(0, 6).at_most_ppm(), 393_038);
        assert_eq!(Share::new(0, 300).at_most_ppm(), 9_936);
        assert_eq!((Share::new(3, 3).at_most_ppm(), Share::new(0, 0).at_most_ppm()), (1_000_000, 1_000_000));
        assert!(Share::new(1, 6).at_most_ppm() > Share::new(0, 6).at_most_ppm());
    }
}
