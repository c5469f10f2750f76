//! Measurements that any user may make: which there are, and how the quietest of their samples become figures.

use crate::faults::{self, Anonymous};
use crate::pin::Pinned;
use crate::{Measured, memory, switch};
use isotherm_linux::thread_cpu_time;
use std::collections::BTreeMap;
use std::ffi::OsString;

pub(crate) const PAGE: usize = 4096;
/// Memory of a measurement: more than caches hold.
pub(crate) const BYTES: usize = 64 << 20;
pub(crate) const PAGES: usize = BYTES / PAGE;
/// Samples of each figure in a pass.
const SAMPLES: usize = 11;
/// Passes over all measurements, some seconds apart. Other programs of this machine, or of its host, disturb one more than another.
const PASSES: u32 = 9;

/// What is timed, of which one or two give a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Series {
    Call,
    Zero,
    Copy,
    /// With its zeroing.
    FirstWrite,
    FirstRead,
    /// A fault that maps one page of a file.
    FileAlone,
    /// A fault that maps the pages around too.
    FileAround,
    /// Number of pages that such a fault maps.
    PagesAround,
    /// A read(2) of a page in the page cache, with its call.
    Read,
    /// A write to a pipe and a read of it, without a switch.
    PipeCalls,
    /// The same with a switch.
    PipeSwitch,
}

/// Samples of each series, from the pass in which their median was least.
#[derive(Default)]
pub(crate) struct Quietest(BTreeMap<Series, Vec<f64>>);

impl Quietest {
    pub(crate) fn add(&mut self, series: Series, samples: Vec<f64>) {
        let Some(new) = median(&samples) else { return };
        if self.median(series).is_none_or(|old| new < old) {
            self.0.insert(series, samples);
        }
    }

    fn median(&self, series: Series) -> Option<f64> {
        median(self.0.get(&series)?)
    }

    /// A figure from the samples of a series, each changed; `None` without samples.
    fn figure(&self, name: &str, how: &str, series: Series, change: impl Fn(f64) -> f64) -> Option<Measured> {
        // `max` would make a price of what is not known (NaN).
        let changed = self.0.get(&series)?.iter().map(|&ns| change(ns)).filter(|ns| ns.is_finite());
        let samples: Vec<f64> = changed.map(|ns| ns.max(0.0)).collect();
        Measured::of(name, how, &samples)
    }

    fn figures(&self) -> Vec<Measured> {
        let of = |series| self.median(series);
        let less = |from: f64, less: Option<f64>| from - less.unwrap_or(f64::NAN);
        let same = |ns| ns;
        let others = of(Series::PagesAround).map_or(f64::NAN, |pages| pages - 1.0);
        let around = |fault: f64| less(fault, of(Series::FileAlone)) / others;
        let around_ns = of(Series::FileAround).map(around).filter(|ns| ns.is_finite()).map(|ns| ns.max(0.0));
        [
            self.figure("syscall_ns", "getppid() 100,000 times", Series::Call, same),
            self.figure("page_zero_ns", "writing zeros to 64 MiB, page by page", Series::Zero, same),
            self.figure("page_copy_ns", "copying 32 MiB, page by page", Series::Copy, same),
            self.figure(
                "minor_fault_anon_ns",
                "first writes to 64 MiB of new memory, less `page_zero_ns`",
                Series::FirstWrite,
                |ns| less(ns, of(Series::Zero)),
            ),
            self.figure(
                "minor_fault_zero_page_ns",
                "first reads of 64 MiB of new memory",
                Series::FirstRead,
                same,
            ),
            self.figure(
                "minor_fault_file_ns",
                "reads of each sixteenth page of a mapped file in memory, which has no others, less `fault_around_page_ns`",
                Series::FileAlone,
                |ns| less(ns, around_ns),
            ),
            self.figure(
                "fault_around_page_ns",
                "the same of a file with all pages, by page that a fault maps in addition",
                Series::FileAround,
                around,
            ),
            self.figure(
                "fd_copy_page_ns",
                "pread() of each page of 32 MiB of a file in memory, less `syscall_ns`",
                Series::Read,
                |ns| less(ns, of(Series::Call)),
            ),
            self.figure(
                "context_switch_ns",
                "two processes on one processor that wake each other through pipes, less the same calls of one process",
                Series::PipeSwitch,
                |ns| less(ns, of(Series::PipeCalls)),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// What any user may measure, and what could not be measured, in words.
#[derive(Debug, Default)]
pub struct Unprivileged {
    pub measured: Vec<Measured>,
    pub without: Vec<String>,
}

/// Measures in some twenty seconds, with 128 MiB of memory at most. `echo`: a command that calls [`crate::echo`].
pub fn unprivileged(echo: &[OsString]) -> Unprivileged {
    let mut quietest = Quietest::default();
    let mut without = BTreeMap::new();
    for _ in 0..PASSES {
        // Without moves between processors. Where that is refused, moves are rare all the same.
        let _pinned = Pinned::to(rustix::thread::sched_getcpu());
        quietest.add(Series::Call, samples(|| Some(memory::call())));
        let [zero, copy] = memory::zero_and_copy();
        quietest.add(Series::Zero, zero);
        quietest.add(Series::Copy, copy);
        let Anonymous { writes, reads } = faults::anonymous();
        quietest.add(Series::FirstWrite, writes);
        quietest.add(Series::FirstRead, reads);
        let mut part = |what: &'static str, result: Result<(), String>| {
            if let Err(why) = result {
                without.insert(what, why);
            }
        };
        part("faults of files", faults::of_file(&mut quietest).map_err(|error| error.to_string()));
        part("switches", switch::measure(echo, &mut quietest).map_err(|error| error.to_string()));
    }
    let without = without.into_iter().map(|(what, why)| format!("{what} are not measured: {why}")).collect();
    Unprivileged { measured: quietest.figures(), without }
}

/// Samples of a measurement, without those that failed.
pub(crate) fn samples(mut measure: impl FnMut() -> Option<f64>) -> Vec<f64> {
    (0..SAMPLES).filter_map(|_| measure()).collect()
}

/// CPU time of `work` by `nr`, in ns: what other programs disturb least.
pub(crate) fn each(nr: usize, work: impl FnOnce()) -> f64 {
    let began = thread_cpu_time();
    work();
    (thread_cpu_time().saturating_sub(began)).ns() as f64 / nr as f64
}

pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_kernel::costs::Costs;

    #[test]
    fn the_quietest_pass_counts_and_parts_are_taken_off() {
        let mut quietest = Quietest::default();
        for (series, samples) in [
            (Series::Zero, vec![300.0]),
            (Series::Zero, vec![200.0, 210.0, 190.0]),
            (Series::Zero, vec![250.0]),
            (Series::FirstWrite, vec![900.0]),
            (Series::Call, Vec::new()),
            // 460 ns for a fault, and 40 for each of its pages: one, or sixteen.
            (Series::FileAlone, vec![500.0]),
            (Series::FileAround, vec![1100.0]),
            (Series::PagesAround, vec![16.0]),
            // Nothing to take off: no figure.
            (Series::Read, vec![600.0]),
            (Series::PipeCalls, vec![900.0]),
            (Series::PipeSwitch, vec![800.0]),
        ] {
            quietest.add(series, samples);
        }
        let figures: Vec<(String, u64, u64)> =
            quietest.figures().into_iter().map(|one| (one.name, one.ns, one.samples)).collect();
        let expected = [
            ("page_zero_ns", 200, 3),
            ("minor_fault_anon_ns", 700, 1),
            ("minor_fault_file_ns", 460, 1),
            ("fault_around_page_ns", 40, 1),
            // Less than nothing is no price.
            ("context_switch_ns", 1, 1),
        ];
        assert_eq!(figures, expected.map(|(name, ns, samples)| (name.to_owned(), ns, samples)));
    }

    #[test]
    fn figures_are_of_the_order_of_such_machines() {
        let Unprivileged { measured, without } = unprivileged(&["cat".into()]);
        let ns = |name: &str| measured.iter().find(|one| one.name == name).map(|one| one.ns);
        // Wide: a debug build on a busy machine counts as well.
        for (name, least, most) in [
            ("syscall_ns", 20, 20_000),
            ("page_zero_ns", 20, 50_000),
            ("page_copy_ns", 40, 50_000),
            ("minor_fault_file_ns", 20, 100_000),
            ("fault_around_page_ns", 1, 10_000),
            ("fd_copy_page_ns", 20, 100_000),
            ("context_switch_ns", 50, 1_000_000),
        ] {
            let ns = ns(name).unwrap_or_else(|| panic!("no {name}: {without:?}"));
            assert!((least..=most).contains(&ns), "{name}: {ns}");
        }
        // Where huge pages cannot be turned off for a process there are none.
        assert!(ns("minor_fault_anon_ns").is_none_or(|ns| (50..100_000).contains(&ns)), "{measured:?}");
        assert!(ns("minor_fault_zero_page_ns").is_none_or(|ns| (20..100_000).contains(&ns)), "{measured:?}");
        assert!(without.is_empty(), "{without:?}");
        for one in &measured {
            assert!(Costs::default().entry(&one.name).is_some(), "{}: a price that nothing reads", one.name);
        }
    }
}
