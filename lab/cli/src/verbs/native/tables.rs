//! The figures as Markdown.

use std::fmt::Write as _;

use super::advice::{Compared, Stated};
use super::programs::Timed;
use super::runs::{Run, median};
use super::{Results, Row};

const PPM: f64 = 1e6;

/// What was stated and what was measured: a table of the programs that wait, and one of those that compute.
pub(super) fn all(results: &Results) -> String {
    let mut out = String::new();
    for timed in [Timed::Bursts, Timed::Whole] {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.timed == timed).collect();
        if !rows.is_empty() {
            out += &table(timed, &rows);
        }
    }
    out + "Measured: medians. A run holds if its work and its p99 stay within what is stated, against the slowest of the runs without a \
           limit: how far these differ is the machine's own noise. The files that a program maps leave the page cache before each run, \
           as far as no other program has them mapped.\n"
}

fn table(timed: Timed, rows: &[&Row]) -> String {
    let bursts = timed == Timed::Bursts;
    let has_before = rows.iter().any(|row| row.before.is_some());
    let mut heads = vec![
        "program",
        "simulated peak [MiB]",
        "peak here [MiB]",
        "recommended [MiB]",
        "stated: slower at most",
        "measured",
    ];
    heads.extend(bursts.then_some(["stated: stall p99 [ms]", "measured"]).into_iter().flatten());
    heads.extend(["slowest free run", "runs that hold"]);
    heads.extend(has_before.then_some(["before: recommended [MiB]", "slower"]).into_iter().flatten());
    heads.extend((has_before && bursts).then_some("p99 longer by [ms]"));
    heads.extend(has_before.then_some("runs that hold"));
    let mut out = format!("| {} |\n|---|{}\n", heads.join(" | "), "--:|".repeat(heads.len() - 1));
    for row in rows {
        let mut cells = stated(row, bursts);
        if has_before {
            cells.extend(before(row, bursts));
        }
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    let work =
        if bursts { "Work is the time of all bursts, p99 that of 99 of 100." } else { "Work is the run's time." };
    format!("{out}\n{work}\n\n")
}

/// The cells of this build's answer.
fn stated(row: &Row, bursts: bool) -> Vec<String> {
    let Row { program, stated, free, limited, .. } = row;
    let peak = mib(median(free.iter().map(|run| run.peak_bytes)));
    let mut cells = vec![program.clone(), format!("{:.1}", mib(stated.peak_bytes)), format!("{peak:.1}")];
    let Some(recommended) = stated.memory_bytes else {
        cells.push("leave it as it is".to_owned());
        cells.resize(if bursts { 10 } else { 8 }, String::new());
        return cells;
    };
    let base = Base::of(free);
    let at_most = (stated.slower_at_most_ppm as f64 / PPM - 1.0) * 100.0;
    cells.extend([format!("{:.1}", mib(recommended)), format!("{at_most:.1} %"), base.slower(limited)]);
    if bursts {
        cells.extend([format!("{:.2}", stated.stall_p99_ns as f64 / 1e6), base.longer(limited)]);
    }
    let spread = (base.slowest_ns as f64 / base.work_ns.max(1) as f64 - 1.0) * 100.0;
    cells.extend([format!("{spread:.1} %"), base.hold(limited, stated)]);
    cells
}

/// The cells of another build's answer.
fn before(row: &Row, bursts: bool) -> Vec<String> {
    let mut cells = match &row.before {
        Some((stated @ Stated { memory_bytes: Some(bytes), .. }, runs)) => {
            let base = Base::of(&row.free);
            let longer = bursts.then(|| base.longer(runs));
            let hold = base.hold(runs, stated);
            [format!("{:.1}", mib(*bytes)), base.slower(runs)].into_iter().chain(longer).chain([hold]).collect()
        }
        Some(_) => vec!["leave it as it is".to_owned()],
        None => Vec::new(),
    };
    cells.resize(if bursts { 4 } else { 3 }, String::new());
    cells
}

/// The runs without a limit.
struct Base {
    /// Medians.
    work_ns: u64,
    p99_ns: u64,
    /// Of the slowest.
    slowest_ns: u64,
    longest_p99_ns: u64,
}

impl Base {
    fn of(free: &[Run]) -> Self {
        let most = |ns: fn(&Run) -> u64| free.iter().map(ns).max().unwrap_or(0);
        Self {
            work_ns: median(free.iter().map(Run::work_ns)),
            p99_ns: median(free.iter().map(Run::p99_ns)),
            slowest_ns: most(Run::work_ns),
            longest_p99_ns: most(Run::p99_ns),
        }
    }

    /// How much slower the work of runs is, as a cell. Runs that did not end count for nothing.
    fn slower(&self, runs: &[Run]) -> String {
        let work = median(runs.iter().filter(|run| run.is_complete).map(Run::work_ns));
        if work == 0 {
            String::new()
        } else {
            format!("{:.1} %", (work as f64 / self.work_ns.max(1) as f64 - 1.0) * 100.0)
        }
    }

    /// How much longer the 99th percentile of bursts is [ms], as a cell.
    fn longer(&self, runs: &[Run]) -> String {
        let p99 = median(runs.iter().filter(|run| run.is_complete).map(Run::p99_ns));
        if p99 == 0 { String::new() } else { format!("{:.2}", (p99 as f64 - self.p99_ns as f64) / 1e6) }
    }

    /// How many runs hold, as a cell.
    fn hold(&self, runs: &[Run], stated: &Stated) -> String {
        format!("{} of {}", runs.iter().filter(|run| self.holds(run, stated)).count(), runs.len())
    }

    /// Whether a run keeps both promises. The slow-down is one of bursts as well: what it allows of them counts where it is more.
    fn holds(&self, run: &Run, stated: &Stated) -> bool {
        let at_most = |ns: u64| u128::from(ns) * u128::from(stated.slower_at_most_ppm) / 1_000_000;
        let p99_at_most = at_most(self.longest_p99_ns).max(u128::from(self.longest_p99_ns + stated.stall_p99_ns));
        run.is_complete
            && u128::from(run.work_ns()) <= at_most(self.slowest_ns)
            && u128::from(run.p99_ns()) <= p99_at_most
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
        let base = Base::of(&[run(&[100, 100]), run(&[100, 100]), run(&[90, 100])]);
        assert!(base.holds(&run(&[100, 120]), &stated));
        assert!(!base.holds(&run(&[100, 121]), &stated), "more work than is stated");
        assert!(!base.holds(&run(&[10, 151]), &stated), "a longer burst than is stated");
        assert!(!base.holds(&Run { is_complete: false, ..Run::default() }, &stated), "a killed run");
    }

    #[test]
    fn a_program_to_be_left_alone_has_no_limit() {
        let (free, limited) = (vec![run(&[1])], Vec::new());
        let row = Row {
            program: "timer".to_owned(),
            timed: Timed::Bursts,
            stated: Stated::default(),
            free,
            limited,
            before: None,
        };
        let text = all(&Results { rows: vec![row] });
        assert!(text.contains("leave it as it is"), "{text}");
        assert!(!text.contains("before:"), "{text}");
    }

    #[test]
    fn another_builds_answer_has_its_cells_in_each_table() {
        let row = |timed| {
            let stated = Stated { memory_bytes: Some(2 << 20), slower_at_most_ppm: 1_050_000, ..Stated::default() };
            let before = Stated { memory_bytes: Some(1 << 20), ..Stated::default() };
            let killed = Run { is_complete: false, ..Run::default() };
            let (free, limited) = (vec![run(&[100_000_000])], vec![run(&[102_000_000])]);
            Row {
                program: "p".to_owned(),
                timed,
                stated,
                free,
                limited,
                before: Some((before, vec![run(&[150_000_000]), killed])),
            }
        };
        let text = all(&Results { rows: vec![row(Timed::Bursts), row(Timed::Whole)] });
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| p")).collect();
        assert_eq!(
            lines[1],
            "| p | 0.0 | 0.0 | 2.0 | 5.0 % | 2.0 % | 0.00 | 2.00 | 0.0 % | 1 of 1 | 1.0 | 50.0 % | 50.00 | 0 of 2 |"
        );
        assert_eq!(lines[3], "| p | 0.0 | 0.0 | 2.0 | 5.0 % | 2.0 % | 0.0 % | 1 of 1 | 1.0 | 50.0 % | 0 of 2 |");
    }

    #[test]
    fn the_page_shows_the_stored_runs() {
        let results: Results = serde_json::from_str(include_str!("../../../../native/runs.json")).unwrap();
        let page = include_str!("../../../../../docs/evidence/live.md");
        let missing = |line: &&str| line.starts_with('|') && !page.contains(*line);
        assert_eq!(all(&results).lines().find(missing), None);
    }
}
