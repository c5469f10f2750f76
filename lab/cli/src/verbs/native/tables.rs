//! The figures as Markdown.

use std::fmt::Write as _;

use super::advice::{Compared, Stated};
use super::runs::{Run, median};
use super::{Results, Row};

const PPM: f64 = 1e6;

/// What was stated and what was measured, by program.
pub(super) fn services(results: &Results) -> String {
    let mut out =
        "| program | simulated peak [MiB] | recommended [MiB] | peak here [MiB] | stated: slower at most | measured | stated: stall p99 [ms] | \
                   measured | runs that hold | free runs that would |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for row in &results.rows {
        let _ = writeln!(out, "{}", line(row));
    }
    out + "\nWork is the time of all bursts, p99 that of 99 of 100. A run holds if both stay within what is stated, against the \
           median of the runs without a limit. The files that a program maps leave the page cache before each run, as far as nobody else has \
           them mapped. *Free runs that would*: how many of those do, which is what the machine's own noise leaves.\n"
}

fn line(row: &Row) -> String {
    let Row { program, stated, free, limited } = row;
    let peak = mib(median(free.iter().map(|run| run.peak_bytes)));
    let Some(recommended) = stated.memory_bytes else {
        return format!("| {program} | {:.1} | leave it as it is | {peak:.1} | | | | | | |", mib(stated.peak_bytes));
    };
    let base = Base::of(free);
    let work = median(limited.iter().map(Run::work_ns)) as f64 / base.work_ns.max(1) as f64;
    let added = median(limited.iter().map(Run::p99_ns)) as f64 - base.p99_ns as f64;
    let hold = |runs: &[Run]| runs.iter().filter(|run| base.holds(run, stated)).count();
    format!(
        "| {program} | {:.1} | {:.1} | {peak:.1} | {:.1} % | {:.1} % | {:.2} | {:.2} | {} of {} | {} of {} |",
        mib(stated.peak_bytes),
        mib(recommended),
        (stated.slower_at_most_ppm as f64 / PPM - 1.0) * 100.0,
        (work - 1.0) * 100.0,
        stated.stall_p99_ns as f64 / 1e6,
        added / 1e6,
        hold(limited),
        limited.len(),
        hold(free),
        free.len(),
    )
}

/// Medians of the runs without a limit.
struct Base {
    work_ns: u64,
    p99_ns: u64,
}

impl Base {
    fn of(free: &[Run]) -> Self {
        Self { work_ns: median(free.iter().map(Run::work_ns)), p99_ns: median(free.iter().map(Run::p99_ns)) }
    }

    /// Whether a run keeps both promises. The slow-down is one of bursts as well: what it allows of them counts where it is more.
    fn holds(&self, run: &Run, stated: &Stated) -> bool {
        let at_most = |ns: u64| u128::from(ns) * u128::from(stated.slower_at_most_ppm) / 1_000_000;
        let p99_at_most = at_most(self.p99_ns).max(u128::from(self.p99_ns + stated.stall_p99_ns));
        run.is_complete && u128::from(run.work_ns()) <= at_most(self.work_ns) && u128::from(run.p99_ns()) <= p99_at_most
    }
}

/// Recommendations from quiet and busy recordings.
pub(super) fn busy(rows: &[Compared]) -> String {
    let mut out = "| program | duration alone [s] | busy [s] | work alone [s] | busy [s] | recommended alone [MiB] | busy [MiB] |\n\
                   |---|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for Compared { program, alone, busy } in rows {
        let seconds = |ns: fn(&Stated) -> u64, runs: &[Stated]| spread(runs.iter().map(|run| ns(run) as f64 / 1e9));
        let sizes = |runs: &[Stated]| spread(runs.iter().map(|run| mib(run.memory_bytes.unwrap_or(run.peak_bytes))));
        let both = |ns| [seconds(ns, alone), seconds(ns, busy)];
        let cells = [both(|run| run.duration_ns), both(|run| run.work_ns), [sizes(alone), sizes(busy)]];
        let _ = writeln!(out, "| {program} | {} |", cells.concat().join(" | "));
    }
    out + "\nLeast to most of five recordings. Where the answer is to leave a program as it is, its peak stands for the size.\n"
}

fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match (values.first(), values.last()) {
        (Some(least), Some(most)) => format!("{least:.2} to {most:.2}"),
        _ => String::new(),
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bursts_ns: &[u64]) -> Run {
        Run { is_complete: true, bursts_ns: bursts_ns.to_vec(), ..Run::default() }
    }

    #[test]
    fn a_run_holds_within_both_figures() {
        let stated = Stated { slower_at_most_ppm: 1_100_000, stall_p99_ns: 50, ..Stated::default() };
        let base = Base::of(&[run(&[100, 100]), run(&[100, 100]), run(&[90, 300])]);
        assert!(base.holds(&run(&[100, 120]), &stated));
        assert!(!base.holds(&run(&[100, 121]), &stated), "more work than is stated");
        assert!(!base.holds(&run(&[10, 151]), &stated), "a longer burst than is stated");
        assert!(!base.holds(&Run { is_complete: false, ..Run::default() }, &stated), "a killed run");
    }

    #[test]
    fn a_program_to_be_left_alone_has_no_limit() {
        let row = Row { program: "timer", stated: Stated::default(), free: vec![run(&[1])], limited: Vec::new() };
        assert!(line(&row).contains("leave it as it is"));
    }
}
