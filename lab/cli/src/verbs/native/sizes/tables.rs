//! The figures as Markdown.

use std::fmt::Write as _;

use isotherm_advise::NativeError;

use super::judged::{Count, Errors, Of, Seen, Verdict, judge};
use super::native_error::{self, OfOthers};
use super::said::{Range, Said};
use super::{AtSize, Measured, Results};

pub(super) const ANSWERS: [(&str, Of); 2] = [
    ("prices of the table", |size: &AtSize| size.table.as_ref()),
    ("prices of this machine", |size: &AtSize| size.calibrated.as_ref()),
];

const NOTE: &str = "
Said: medians, with their intervals. **Bold**: said to be enough; R: recommended. Measured: medians of cold runs, of major faults with the
least and the most. Killed: of all runs.

";

/// All rows, then the errors of both answers.
pub(super) fn all(results: &Results) -> String {
    let heads = "| program | limit, of the peak | said, by the table: slower | faults | killed | said, calibrated: slower | faults | killed \
                 | measured: slower | by the clock | faults | killed |";
    let mut out = format!("{heads}\n|---|{}\n", "--:|".repeat(11));
    for program in &results.programs {
        for size in program.sizes.iter().rev() {
            let _ = writeln!(out, "| {} |", cells(program, size).join(" | "));
        }
    }
    out + NOTE + &verdicts(results) + "\n" + &of_others(results)
}

fn cells(program: &Measured, size: &AtSize) -> Vec<String> {
    let share = size.memory_bytes as f64 / program.peak_bytes.max(1) as f64 * 100.0;
    let mut cells = vec![program.program.clone(), format!("{share:.1} %")];
    for (_, of) in ANSWERS {
        cells.extend(of(size).map_or_else(|| vec![String::new(); 3], said));
    }
    let seen = Seen::new(program, &size.runs);
    cells.extend([seen.slower_ppm, seen.clock_ppm].map(|ppm| ppm.map_or_else(String::new, percent)));
    cells.push(seen.major_faults.map_or_else(String::new, range));
    let too_long = if seen.too_long > 0 { format!(", {} too long", seen.too_long) } else { String::new() };
    cells.push(format!("{} of {}{too_long}", seen.killed.of, seen.killed.n));
    cells
}

fn said(said: &Said) -> Vec<String> {
    let Said { slower_ppm: Range { low, median, high }, .. } = *said;
    let slower = match median {
        0 => String::new(),
        _ => format!("{} ({} to {})", percent(median), percent(low), percent(high)),
    };
    let slower = if said.is_enough { format!("**{slower}**") } else { slower };
    let slower = if said.is_recommended { format!("R {slower}") } else { slower };
    vec![slower, range(said.major_faults), format!("{} of {}", said.kills, said.nr_of_kills())]
}

fn percent(ppm: u64) -> String {
    format!("{:.1} %", ppm as f64 / 1e4 - 100.0)
}

fn range(Range { low, median, high }: Range) -> String {
    if low == high { median.to_string() } else { format!("{median} ({low} to {high})") }
}

fn verdicts(results: &Results) -> String {
    let kinds = [("computing", false), ("waiting", true)];
    let heads: Vec<String> =
        kinds.iter().flat_map(|(kind, _)| ANSWERS.map(|(prices, _)| format!("{kind}, {prices}"))).collect();
    let verdicts: Vec<Verdict> = kinds
        .iter()
        .flat_map(|(_, waits)| {
            ANSWERS.map(|(_, of)| judge(results.programs.iter().filter(|program| program.waits == *waits), of))
        })
        .collect();
    let mut out = format!("| | {} | bar |\n|---|{}\n", heads.join(" | "), "--:|".repeat(heads.len() + 1));
    let mut line = |what: &str, cell: &dyn Fn(&Verdict) -> String, bar: &str| {
        let cells: Vec<String> = verdicts.iter().map(cell).collect();
        let _ = writeln!(out, "| {what} | {} | {bar} |", cells.join(" | "));
    };
    line("said to be enough, and at most 5 % slower without a kill", &|of| count(of.safe), "95 %");
    line("the same by the clock", &|of| count(of.safe_by_clock), "");
    line("by the clock, against the slowest run without a limit", &|of| count(of.safe_within_noise), "");
    line("programs that hold at the recommended size", &|of| count(of.hold), "15 of 16");
    line("the same by the clock", &|of| count(of.hold_by_clock), "");
    line("by the clock, against the slowest run without a limit", &|of| count(of.hold_within_noise), "");
    line("added time, where 5 to 100 % are added: error, median", &|of| error(&of.added, 50), "20 %");
    line("90 of 100 within", &|of| error(&of.added, 90), "40 %");
    line("with its sign, median", &|of| signed(&of.added), "");
    line("measured slow-downs at or below the upper end", &|of| count(of.below_high), "95 to 98 %");
    line("major faults: error, median", &|of| error(&of.faults, 50), "10 %");
    line("90 of 100 within", &|of| error(&of.faults, 90), "30 %");
    line("with its sign, median", &|of| signed(&of.faults), "");
    line("said share of kills within the interval of the measured one", &|of| count(of.kills), "");
    line("pairs of sizes in order, by faults", &|of| count(of.order_by_faults), "97 %");
    line("by time", &|of| count(of.order_by_time), "97 %");
    out
}

/// The upper ends by native runs of half of the programs, judged on the other half.
fn of_others(results: &Results) -> String {
    let fitted = native_error::fit(results);
    let mut out = format!("| | {} |\n|---|--:|--:|\n", ANSWERS.map(|(prices, _)| prices).join(" | "));
    let others = [0, 1].map(|answer| native_error::judge(results, &fitted, answer));
    let mut line = |what: &str, cells: [String; 2]| {
        let _ = writeln!(out, "| {what} | {} |", cells.join(" | "));
    };
    for (is_small, kind) in [(true, "at most 5 % said"), (false, "more said")] {
        let times = [false, true].map(|is_calibrated| {
            let of = |one: &&NativeError| (one.is_calibrated, one.is_small) == (is_calibrated, is_small);
            fitted.iter().find(of).map_or_else(String::new, |one| {
                format!("{:.2} of {} sizes of {} programs", one.times_ppm as f64 / 1e6, one.sizes, one.programs)
            })
        });
        line(&format!("{kind}: largest added time over the said end or 5 %, fitted half"), times);
        line("that is not exceeded, judged half", others.each_ref().map(|of| count(of.within[usize::from(!is_small)])));
    }
    line("at or below the said end itself, judged half", others.each_ref().map(|of| count(of.below_high)));
    let price = |of: &OfOthers| match of.prices.len() {
        0 => String::new(),
        n => format!("{:.2} of {n}", of.prices.iter().sum::<f64>() / n as f64),
    };
    line(
        "recommended memory over the smallest that was run and holds, mean, judged half",
        others.each_ref().map(price),
    );
    out
}

fn count(Count { of, n }: Count) -> String {
    if n == 0 { String::new() } else { format!("{of} of {n}, {:.0} %", of as f64 / n as f64 * 100.0) }
}

fn error(errors: &Errors, percent: usize) -> String {
    if errors.n() == 0 { String::new() } else { format!("{:.0} % of {}", errors.absolute(percent) * 100.0, errors.n()) }
}

fn signed(errors: &Errors) -> String {
    if errors.n() == 0 { String::new() } else { format!("{:+.0} %", errors.median() * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::super::Brief;
    use super::*;

    #[test]
    fn a_row_has_both_answers_and_the_runs() {
        let run = |work_ns: u32, kills| Brief {
            is_complete: kills == 0,
            kills,
            work_ns: work_ns.into(),
            kernel_ns: i64::from(work_ns) / 2,
            major_faults: 7,
            ..Brief::default()
        };
        let slower_ppm = Range { low: 1_000_000, median: 1_010_000, high: 1_020_000 };
        let said = Said { is_enough: true, is_recommended: true, n: 4, slower_ppm, ..Said::default() };
        let size = AtSize { memory_bytes: 90, table: Some(said), calibrated: None, runs: vec![run(103, 0), run(0, 1)] };
        let program = Measured {
            program: "awk".to_owned(),
            waits: false,
            peak_bytes: 100,
            free: vec![run(100, 0)],
            sizes: vec![size],
        };
        let text = all(&Results { programs: vec![program] });
        let row = "| awk | 90.0 % | R **1.0 % (0.0 % to 2.0 %)** | 0 | 0 of 4 |  |  |  | 1.0 % | 3.0 % | 7 | 1 of 2 |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| said to be enough, and at most 5 % slower without a kill | 0 of 1, 0 % |  |  |  | 95 % |"),
            "{text}"
        );
    }

    #[test]
    fn the_page_shows_the_stored_runs() {
        let results: Results = serde_json::from_str(include_str!("../../../../../native/sizes.json")).unwrap();
        let page = include_str!("../../../../../../docs/evidence/native.md");
        let missing = |line: &&str| line.starts_with('|') && !page.contains(*line);
        assert_eq!(all(&results).lines().find(missing), None);
    }
}
