//! The pace of a program: as a whole, in its work, by process, and in the bursts between two waits. The slowest of these decides.

use super::run::ppm;
use isotherm_sim::machine::{Bursts, Lengths, ProcessTime, ProgramOutcome};
use isotherm_units::{Duration, Ratio};
use serde::{Deserialize, Serialize};

/// A process is judged by itself if at least this share of all work is its, in percent.
const SHARE_MIN_PERCENT: u128 = 5;
/// Of fewer bursts no 99th percentile is taken: a program that computes is judged by its work alone.
const BURSTS_MIN: u64 = 20;

/// How long a program takes and how long it works. A program that sleeps most of the time can be slowed down a hundred times in what its
/// users wait for, and take no longer as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pace {
    /// From its start to its end.
    pub(super) runtime_ns: u64,
    /// CPU time of its threads, and their stalls on memory.
    pub(super) work_ns: u64,
    /// Processes with a real share of the work, by index.
    pub(super) processes: Vec<ProcessPace>,
}

/// The pace of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessPace {
    /// Index in the recording.
    pub(super) process: usize,
    pub(super) work_ns: u64,
    pub(super) nr_bursts: u64,
    /// CPU time and stalls of a burst.
    pub(super) length: Percentiles,
    /// What memory takes of it.
    pub(super) stall: Percentiles,
}

/// Times of bursts, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub worst_ns: u64,
}

/// What decides how much slower a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowdownOf {
    /// Its time from start to end.
    Runtime,
    /// CPU time and stalls of all its threads.
    Work,
    /// CPU time and stalls of one process, by index.
    Process(usize),
    /// 99 of 100 bursts of one process, by index.
    Bursts(usize),
}

/// The allowed stall of a burst at its 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BurstBound {
    /// The allowed share of a burst's length.
    Share,
    /// A time, which counts as a slow-down by this much.
    Latency(Duration, Ratio),
}

/// How much slower a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slowdown {
    /// Millionths of the time without limits: 1 050 000 is 5 % slower.
    pub(super) ratio_ppm: u64,
    pub(super) of: SlowdownOf,
}

impl Pace {
    /// Without limits: all processes with a share.
    pub(super) fn of(program: &ProgramOutcome) -> Self {
        let work = |process: &ProcessTime| u128::from(process.time.work_ns());
        let all: u128 = program.processes.iter().map(work).sum();
        let has_share = |index: &usize| work(&program.processes[*index]) * 100 > all * SHARE_MIN_PERCENT;
        Self::of_processes(program, (0..program.processes.len()).filter(has_share))
    }

    /// Of the processes that `free` has.
    pub(super) fn next_to(free: &Self, program: &ProgramOutcome) -> Self {
        Self::of_processes(program, free.processes.iter().map(|process| process.process))
    }

    fn of_processes(program: &ProgramOutcome, processes: impl Iterator<Item = usize>) -> Self {
        let pace = |process| ProcessPace::of(process, &program.processes[process]);
        Self {
            runtime_ns: program.runtime().ns(),
            work_ns: program.time.work_ns(),
            processes: processes.map(pace).collect(),
        }
    }

    /// How many times slower this is than `free`: by whatever is worst. `None` if that took no time.
    pub(super) fn slower_than(&self, free: &Self, bound: BurstBound) -> Option<Slowdown> {
        let whole = Slowdown { ratio_ppm: ppm(self.runtime_ns, free.runtime_ns)?, of: SlowdownOf::Runtime };
        let work = slowdown(self.work_ns, free.work_ns, SlowdownOf::Work);
        let both = self.processes.iter().zip(&free.processes);
        let of_processes = both.flat_map(|(process, free)| {
            let index = free.process;
            let work = slowdown(process.work_ns, free.work_ns, SlowdownOf::Process(index));
            let ratio = process.burst_ratio_ppm(free, bound);
            [work, ratio.map(|ratio_ppm| Slowdown { ratio_ppm, of: SlowdownOf::Bursts(index) })]
        });
        let others = work.into_iter().chain(of_processes.flatten());
        // Of equals the first: the whole before its parts.
        Some(others.fold(whole, |worst, other| if other.ratio_ppm > worst.ratio_ppm { other } else { worst }))
    }

    /// The same at another scale of time: `of` relates to `to` as this does to the result.
    pub(super) fn scaled(&self, of: &Self, to: &Self) -> Self {
        let processes = self.processes.iter().filter_map(|process| {
            let same = |pace: &Self| pace.processes.iter().find(|one| one.process == process.process).cloned();
            Some(process.scaled(&same(of)?, &same(to)?))
        });
        Self {
            runtime_ns: scaled(self.runtime_ns, of.runtime_ns, to.runtime_ns),
            work_ns: scaled(self.work_ns, of.work_ns, to.work_ns),
            processes: processes.collect(),
        }
    }
}

impl ProcessPace {
    fn of(process: usize, time: &ProcessTime) -> Self {
        let ProcessTime { time, bursts: Bursts { lengths, stalls } } = time;
        Self {
            process,
            work_ns: time.work_ns(),
            nr_bursts: lengths.nr(),
            length: Percentiles::of(lengths),
            stall: Percentiles::of(stalls),
        }
    }

    /// Whether its bursts are judged.
    pub(super) fn has_bursts(&self) -> bool {
        self.nr_bursts >= BURSTS_MIN
    }

    /// What the limit adds to the stall of a burst.
    pub(super) fn added_stall(&self, free: &Self) -> Percentiles {
        self.stall.less(free.stall)
    }

    fn burst_ratio_ppm(&self, free: &Self, bound: BurstBound) -> Option<u64> {
        let added = self.added_stall(free).p99_ns;
        let (length_ns, allowed) = match bound {
            BurstBound::Share => (free.length.p99_ns, Ratio::ONE),
            BurstBound::Latency(latency, slowdown) => (latency.ns(), slowdown),
        };
        let excess = u128::from(ppm(added, length_ns)?) * u128::from(allowed.ppm()) / u128::from(Ratio::ONE.ppm());
        let ratio = Ratio::ONE.ppm().saturating_add(u64::try_from(excess).unwrap_or(u64::MAX));
        free.has_bursts().then_some(ratio)
    }

    fn scaled(&self, of: &Self, to: &Self) -> Self {
        Self {
            process: self.process,
            work_ns: scaled(self.work_ns, of.work_ns, to.work_ns),
            nr_bursts: to.nr_bursts,
            length: self.length.scaled(of.length, to.length),
            stall: self.stall.scaled(of.stall, to.stall),
        }
    }
}

impl Percentiles {
    fn of(lengths: &Lengths) -> Self {
        let [p50_ns, p99_ns] = [50, 99].map(|percent| lengths.percentile_ns(percent));
        Self { p50_ns, p99_ns, worst_ns: lengths.longest_ns() }
    }

    fn with(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            p50_ns: both(self.p50_ns, other.p50_ns),
            p99_ns: both(self.p99_ns, other.p99_ns),
            worst_ns: both(self.worst_ns, other.worst_ns),
        }
    }

    fn less(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// The larger one of each.
    pub(super) fn max(self, other: Self) -> Self {
        self.with(other, u64::max)
    }

    fn scaled(self, of: Self, to: Self) -> Self {
        Self {
            p50_ns: scaled(self.p50_ns, of.p50_ns, to.p50_ns),
            p99_ns: scaled(self.p99_ns, of.p99_ns, to.p99_ns),
            worst_ns: scaled(self.worst_ns, of.worst_ns, to.worst_ns),
        }
    }
}

fn slowdown(ns: u64, free_ns: u64, of: SlowdownOf) -> Option<Slowdown> {
    Some(Slowdown { ratio_ppm: ppm(ns, free_ns)?, of })
}

/// Of nothing there is no scale.
fn scaled(ns: u64, of: u64, to: u64) -> u64 {
    if of == 0 {
        return ns;
    }
    u64::try_from(u128::from(ns) * u128::from(to) / u128::from(of)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(runtime_ns: u64, work_ns: u64) -> Pace {
        Pace { runtime_ns, work_ns, processes: Vec::new() }
    }

    fn slower(limited: &Pace, free: &Pace) -> Option<(u64, SlowdownOf)> {
        limited.slower_than(free, BurstBound::Share).map(|slowdown| (slowdown.ratio_ppm, slowdown.of))
    }

    /// A service that answers for 0.24 ms each half a second, and takes 35 ms for it with too little memory.
    #[test]
    fn waiting_is_no_work() {
        let (free, limited) = (pace(5_000_000_000, 2_400_000), pace(5_035_000_000, 350_000_000));
        assert_eq!(slower(&limited, &free), Some((145_833_333, SlowdownOf::Work)));
        assert_eq!(slower(&free, &free), Some((1_000_000, SlowdownOf::Runtime)));
        // Of four threads one is slower, and the others wait for it.
        let free = pace(1000, 4000);
        assert_eq!(slower(&pace(1400, 4400), &free), Some((1_400_000, SlowdownOf::Runtime)));
        assert_eq!(free.scaled(&free, &pace(2000, 12_000)), pace(2000, 12_000));
        // It never worked: the whole counts.
        assert_eq!(slower(&pace(1000, 0), &pace(1000, 0)), Some((1_000_000, SlowdownOf::Runtime)));
        assert_eq!(slower(&pace(1000, 0), &pace(0, 0)), None);
    }

    fn process(process: usize, work_ns: u64, nr_bursts: u64, stall_p99_ns: u64) -> ProcessPace {
        let times = |p99_ns| Percentiles { p50_ns: p99_ns / 2, p99_ns, worst_ns: p99_ns * 2 };
        ProcessPace { process, work_ns, nr_bursts, length: times(1000), stall: times(stall_p99_ns) }
    }

    /// A small process next to a large one is slowed down ten times: 10 % of the work of both.
    #[test]
    fn the_slowest_process_decides() {
        let of =
            |small: ProcessPace| Pace { processes: vec![process(3, 99_000, 1, 0), small], ..pace(100_000, 100_000) };
        let limited = Pace { work_ns: 109_000, ..of(process(7, 10_000, 1, 0)) };
        assert_eq!(slower(&limited, &of(process(7, 1000, 1, 0))), Some((10_000_000, SlowdownOf::Process(7))));
    }

    #[test]
    fn ninety_nine_of_a_hundred_bursts_hold_the_bound() {
        let of = |nr_bursts, stall| Pace { processes: vec![process(0, 1000, nr_bursts, stall)], ..pace(1000, 1000) };
        assert_eq!(slower(&of(20, 300), &of(20, 100)), Some((1_200_000, SlowdownOf::Bursts(0))), "200 of 1000 ns more");
        assert_eq!(slower(&of(20, 100), &of(20, 300)), Some((1_000_000, SlowdownOf::Runtime)), "never faster");
        assert_eq!(slower(&of(19, 300), &of(19, 100)), Some((1_000_000, SlowdownOf::Runtime)), "too few to judge");
        let bound = BurstBound::Latency(Duration::from_ns(400), Ratio::from_percent(5));
        let found = of(20, 300).slower_than(&of(20, 100), bound).unwrap();
        assert_eq!((found.ratio_ppm, found.of), (1_025_000, SlowdownOf::Bursts(0)), "half of what is allowed");
        let added = of(20, 300).processes[0].added_stall(&of(20, 100).processes[0]);
        assert_eq!(added, Percentiles { p50_ns: 100, p99_ns: 200, worst_ns: 400 });
    }
}
