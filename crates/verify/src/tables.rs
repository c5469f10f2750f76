//! The result as a table, and in a sentence.

use crate::judge::Interval;
use crate::{Asked, Basis, Judged, Verdict};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_units::{Bytes, Duration};

/// A row for each size: predicted next to measured.
pub fn table(judged: &[Judged]) -> Table {
    let has_bursts = judged.iter().any(|row| row.p99_added_ns.is_some());
    let is_predicted = judged.iter().any(|row| row.predicted.is_some());
    let mut columns = vec![Column::number("memory", Unit::Bytes), Column::number("pairs", Unit::Count)];
    columns.extend(["slower by", "at least", "at most"].map(|name| Column::number(name, Unit::Ppm)));
    let has_overhead = judged.iter().any(|row| row.overhead_ratio.is_some());
    if has_overhead {
        columns.extend(["overhead", "overhead at most"].map(|name| Column::number(name, Unit::Ppm)));
    }
    if is_predicted {
        columns.extend(["predicted", "predicted at most"].map(|name| Column::number(name, Unit::Ppm)));
    }
    if has_bursts {
        columns.extend(["p99 longer by", "p99 at most"].map(|name| Column::number(name, Unit::Ns)));
    }
    columns.extend(["major faults", "without limit"].map(|name| Column::number(name, Unit::Count)));
    if is_predicted {
        columns.push(Column::number("faults predicted", Unit::Count));
    }
    columns.extend([Column::number("killed", Unit::Count), Column::number("failed", Unit::Count)]);
    columns.push(Column::text("result"));
    let mut table = Table::new("Measured on this machine", columns);
    for row in judged {
        let mut cells = vec![Cell::from(row.memory_bytes), row.pairs.into()];
        let slower = |of: fn(&Interval) -> Option<f64>| Cell::from(row.runtime_ratio.as_ref().and_then(of).map(ppm));
        cells.extend([slower(|all| Some(all.mean)), slower(|all| all.low), slower(|all| all.high)]);
        if has_overhead {
            let overhead =
                |of: fn(&Interval) -> Option<f64>| Cell::from(row.overhead_ratio.as_ref().and_then(of).map(ppm));
            cells.extend([overhead(|all| Some(all.mean)), overhead(|all| all.high)]);
        }
        if is_predicted {
            let predicted =
                |nr: usize| Cell::from(row.predicted.map(|predicted| less_one(predicted.runtime_ratio_ppm[nr])));
            cells.extend([predicted(0), predicted(2)]);
        }
        if has_bursts {
            let longer = |of: fn(&Interval) -> Option<f64>| Cell::from(row.p99_added_ns.as_ref().and_then(of));
            cells.extend([longer(|all| Some(all.mean)), longer(|all| all.high)]);
        }
        cells.extend([row.major_faults_median.into(), row.free_major_faults_median.into()]);
        if is_predicted {
            cells.push(row.predicted.map(|predicted| predicted.major_faults[0]).into());
        }
        cells.extend([row.killed.into(), row.failed.into(), Cell::from(row.verdict.name())]);
        table.push(cells);
    }
    table
}

/// The result at the size that is to hold.
pub fn sentence(program: &str, row: &Judged, asked: Asked) -> String {
    let memory = Bytes::new(row.memory_bytes).approx();
    let verdict = match row.verdict {
        Verdict::Holds => format!("{program} holds at {memory}"),
        Verdict::Fails => format!("{program} does not hold at {memory}"),
        Verdict::Undecided => format!("whether {program} holds at {memory} is undecided"),
    };
    let allowed = percent(less_one(asked.ratio_ppm) / 1e4);
    let by_clock = match row.runtime_ratio {
        None => "no pair of runs ended well".to_owned(),
        Some(Interval { mean, low: Some(low), high: Some(high) }) => format!(
            "{} slower ({} to {} with a confidence of 95 %, {} pairs); {allowed} is allowed",
            percent(slower(mean)),
            percent(slower(low)),
            percent(slower(high)),
            row.pairs
        ),
        Some(Interval { mean, .. }) => format!("{} slower in one pair; {allowed} is allowed", percent(slower(mean))),
    };
    let counts = row.basis == Basis::Overhead || row.verdict == Verdict::Undecided;
    let overhead = match row.overhead_ratio.filter(|_| counts) {
        Some(Interval { mean, low: Some(low), high: Some(high) }) => format!(
            "; without the noise of its own computing, by time in the kernel and waits, {} ({} to {})",
            percent(slower(mean)),
            percent(slower(low)),
            percent(slower(high))
        ),
        _ => String::new(),
    };
    let p99 = match (row.p99_added_ns, asked.latency) {
        (Some(Interval { mean, high, .. }), allowed) => format!(
            "; 99 of 100 bursts are longer by {}{}{}",
            time(mean),
            high.map_or_else(String::new, |high| format!(" (at most {})", time(high))),
            allowed.map_or_else(String::new, |allowed| format!(", {} is allowed", allowed.approx()))
        ),
        (None, _) => String::new(),
    };
    let others = row.failed - row.killed;
    let failed = if others > 0 { format!("; {others} of {} runs failed otherwise", row.runs) } else { String::new() };
    let chance = row.kill_chance_at_most_ppm.div_ceil(10_000);
    let killed = match row.killed {
        0 => format!("no run of {} was killed, so that at most {chance} of 100 would be", row.runs),
        killed => format!("the kernel killed in {killed} of {} runs", row.runs),
    };
    format!("{verdict}: {by_clock}{overhead}{p99}; {killed}{failed}.")
}

fn ppm(ratio: f64) -> f64 {
    ((ratio - 1.0) * 1e6).round()
}

fn less_one(ratio_ppm: u64) -> f64 {
    ratio_ppm as f64 - 1e6
}

fn slower(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn percent(value: f64) -> String {
    let value = format!("{value:.1} %");
    if value == "-0.0 %" { "0.0 %".to_owned() } else { value }
}

fn time(ns: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "its sign is taken off")]
    let length = Duration::from_ns(ns.abs().round() as u64).approx();
    format!("{}{length}", if ns < 0.0 { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stated::Predicted;

    fn row() -> Judged {
        Judged {
            memory_bytes: 48 << 20,
            is_asked: true,
            pairs: 6,
            runtime_ratio: Some(Interval { mean: 1.012, low: Some(0.9999), high: Some(1.024) }),
            overhead_ratio: None,
            p99_added_ns: None,
            major_faults_median: Some(12),
            free_major_faults_median: Some(3),
            stalled_ppm: None,
            runs: 6,
            killed: 0,
            failed: 0,
            kill_chance_at_most_ppm: 393_038,
            predicted: None,
            verdict: Verdict::Holds,
            basis: Basis::Clock,
        }
    }

    #[test]
    fn a_sentence_says_how_sure_it_is() {
        let asked = Asked { ratio_ppm: 1_050_000, latency: Some(Duration::from_ms(2)) };
        assert_eq!(
            sentence("sort", &row(), asked),
            "sort holds at 48.0 MiB: 1.2 % slower (0.0 % to 2.4 % with a confidence of 95 %, 6 pairs); 5.0 % is allowed; no run of 6 was \
             killed, so that at most 40 of 100 would be."
        );
        let noisy = Judged {
            runtime_ratio: Some(Interval { mean: 0.99, low: Some(0.91), high: Some(1.08) }),
            overhead_ratio: Some(Interval { mean: 1.006, low: Some(1.002), high: Some(1.01) }),
            basis: Basis::Overhead,
            ..row()
        };
        assert_eq!(
            sentence("sort", &noisy, asked),
            "sort holds at 48.0 MiB: -1.0 % slower (-9.0 % to 8.0 % with a confidence of 95 %, 6 pairs); 5.0 % is allowed; without the noise \
             of its own computing, by time in the kernel and waits, 0.6 % (0.2 % to 1.0 %); no run of 6 was killed, so that at most 40 of \
             100 would be."
        );
        let killed = Judged {
            verdict: Verdict::Fails,
            killed: 2,
            failed: 3,
            pairs: 1,
            runtime_ratio: Some(Interval { mean: 1.5, low: None, high: None }),
            p99_added_ns: Some(Interval { mean: -1e6, low: None, high: None }),
            ..row()
        };
        assert_eq!(
            sentence("sort", &killed, asked),
            "sort does not hold at 48.0 MiB: 50.0 % slower in one pair; 5.0 % is allowed; 99 of 100 bursts are longer by -1.00 ms, 2.00 ms \
             is allowed; the kernel killed in 2 of 6 runs; 1 of 6 runs failed otherwise."
        );
    }

    #[test]
    fn a_table_has_the_columns_that_there_are_figures_for() {
        let names = |row: Judged| table(&[row]).columns.iter().map(Column::key).collect::<Vec<_>>();
        let plain = names(row());
        assert!(!plain.iter().any(|name| name.contains("predicted") || name.contains("p99")), "{plain:?}");
        let predicted = Predicted { memory_bytes: 48 << 20, runtime_ratio_ppm: [1_000_000; 3], major_faults: [1; 3] };
        let all = names(Judged {
            predicted: Some(predicted),
            p99_added_ns: Some(Interval { mean: 1.0, low: None, high: None }),
            ..row()
        });
        assert!(
            all.contains(&"predicted_at_most_ppm".to_owned()) && all.contains(&"p99_longer_by_ns".to_owned()),
            "{all:?}"
        );
    }
}
