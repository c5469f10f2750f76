//! The figures as Markdown.

use std::fmt::Write as _;

use isotherm_units::PAGE_BYTES;

use super::roots::Spent;
use super::{Results, Row};

/// The table.
pub(super) fn markdown(results: &Results) -> String {
    let mut out = String::new();
    if results.small {
        out += "Short runs: these figures are mostly those of starting a program.\n\n";
    }
    out += "| release | program | native CPU [s] | slow-down, CPU | slow-down, wall | rows | touched [MiB] | complete | clock error |\n\
            |---|---|--:|--:|--:|--:|--:|---|--:|\n";
    for row in &results.rows {
        if let Some(native) = native_of(row, results).filter(|_| row.is_recorded) {
            let _ = writeln!(out, "{}", line(row, native));
        }
    }
    out
}

/// The native runs of the same program in the same release.
fn native_of<'a>(row: &Row, results: &'a Results) -> Option<&'a Row> {
    results.rows.iter().find(|other| {
        !other.is_recorded && (other.release, other.program) == (row.release, row.program) && !other.runs.is_empty()
    })
}

fn line(row: &Row, native: &Row) -> String {
    let native_ns = median(native, |run| run.cpu_ns);
    let ratio = |of: fn(&Spent) -> u64| median(row, of) / median(native, of).max(1.0);
    let (cpu, wall) = (ratio(|run| run.cpu_ns), ratio(|run| run.wall_ns));
    let error = |ns: Option<u64>| {
        ns.map_or(String::new(), |ns| format!("{:+.0} %", (ns as f64 / native_ns.max(1.0) - 1.0) * 100.0))
    };
    let recorded = row.recorded.as_ref();
    let mib = |pages: u64| (pages * PAGE_BYTES) as f64 / f64::from(1 << 20);
    format!(
        "| {} | {} | {:.2} | {cpu:.1}× | {wall:.1}× | {} | {:.1} | {} | {} |",
        row.release,
        row.program,
        native_ns / 1e9,
        recorded.map_or(0, |recorded| recorded.rows),
        recorded.map_or(0.0, |recorded| mib(recorded.pages)),
        if recorded.is_some_and(|recorded| recorded.complete) { "yes" } else { "**no**" },
        error(recorded.map(|recorded| recorded.cpu_ns)),
    )
}

/// Median over all runs.
fn median(row: &Row, of: impl Fn(&Spent) -> u64) -> f64 {
    let mut values: Vec<u64> = row.runs.iter().map(of).collect();
    values.sort_unstable();
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[middle] as f64,
        _ => (values[middle - 1] + values[middle]) as f64 / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use isotherm_trace::Clock;

    use super::super::Recorded;
    use super::*;

    #[test]
    fn slow_downs_are_ratios_of_medians_and_errors_have_signs() {
        let spent = |cpu_ns: u64| -> Spent {
            serde_json::from_value(serde_json::json!({"cpu_ns": cpu_ns, "wall_ns": cpu_ns, "exit_code": 0})).unwrap()
        };
        let runs = |seconds: &[u64]| seconds.iter().map(|second| spent(second * 1_000_000_000)).collect();
        let row = |is_recorded, seconds: &[u64]| Row {
            release: "bookworm",
            program: "x",
            is_recorded,
            runs: runs(seconds),
            recorded: None,
        };
        let recorded = Recorded {
            rows: 7,
            accesses: 9,
            pages: 256,
            complete: true,
            cpu_ns: 3_000_000_000,
            clock: Clock::default(),
        };
        let under = Row { recorded: Some(recorded), ..row(true, &[20, 90, 10]) };
        let results = Results { small: false, rows: vec![row(false, &[1, 3]), under] };
        let text = markdown(&results);
        let last = text.lines().last().unwrap();
        assert_eq!(last, "| bookworm | x | 2.00 | 10.0× | 10.0× | 7 | 1.0 | yes | +50 % |");
        assert_eq!(text.lines().count(), 3);
    }
}
