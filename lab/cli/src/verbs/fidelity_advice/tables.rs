//! Output of `isotherm-lab fidelity-advice`.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_fidelity::Set;
use isotherm_fidelity::advice::judge::{Case, Real};
use isotherm_fidelity::advice::{Calibration, Coverage, Judged, StoredPlay};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Format, Ui, render};
use serde::Serialize;

/// Everything that is shown.
#[derive(Serialize)]
pub(super) struct Shown {
    /// For each kernel: its release and the plays of the present recordings.
    pub(super) stored: Vec<(String, String, Vec<StoredPlay>)>,
    /// Judgements by rule.
    pub(super) judged: Vec<Judged>,
    pub(super) coverages: Vec<Coverage>,
    pub(super) calibrations: Vec<Calibration>,
}

pub(super) fn print(shown: &Shown, format: Format, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Json => {
            let json = serde_json::to_string_pretty(shown).map_err(CliError::failed)?;
            ui.print_data(format_args!("{json}\n"))
        }
        Format::Csv => ui.print_data(hold(&shown.judged, false).to_csv()),
        Format::Table => {
            let mut tables = vec![stored(shown)];
            if !shown.judged.is_empty() {
                tables.extend([hold_rates(&shown.judged), hold(&shown.judged, true)]);
                tables.extend([prices(&shown.judged), price(&shown.judged)]);
            }
            if !shown.coverages.is_empty() {
                tables.extend([coverages(&shown.coverages), calibrations(&shown.calibrations)]);
            }
            for table in tables {
                ui.print_styled(&render(&table, Format::Table, ui).before_line())?;
            }
            Ok(())
        }
    }
}

fn stored(shown: &Shown) -> Table {
    let numbers = ["plays", "boots", "unfinished"].map(|name| Column::number(name, Unit::Count));
    let columns = ["kernel", "release", "program"].map(Column::text).into_iter().chain(numbers);
    let mut table = Table::new("stored plays of real kernels", columns.collect());
    for (kernel, release, plays) in &shown.stored {
        let mut by_program: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        for play in plays {
            let counts = by_program.entry(&play.key.program).or_default();
            counts[0] += 1;
            counts[1] += play.boots.len() as u64;
            counts[2] += u64::from(play.counter("major_faults").is_none());
        }
        for (program, counts) in by_program {
            let mut cells = vec![Cell::from(kernel.as_str()), Cell::from(release.as_str()), Cell::from(program)];
            cells.extend(counts.map(Cell::from));
            table.push(cells);
        }
    }
    table
}

fn hold_rates(judged: &[Judged]) -> Table {
    let numbers = [("cases", Unit::Count), ("hold", Unit::Count), ("share", Unit::Ppm)];
    let more = [("not played", Unit::Count), ("nothing recommended", Unit::Count)];
    let numbers = numbers.into_iter().chain(more).map(|(name, unit)| Column::number(name, unit));
    let title =
        "hold rate: real major faults at the recommended size, at 3 % and at 10 % more within what was predicted";
    let mut table = Table::new(title, ["rule", "set"].map(Column::text).into_iter().chain(numbers).collect());
    for judged in judged {
        for (set, rate) in [Set::Fitting, Set::HeldOut].into_iter().zip(&judged.hold_rates) {
            table.push(vec![
                Cell::from(judged.rule.as_str()),
                Cell::from(set.name()),
                Cell::from(rate.cases),
                Cell::from(rate.hold),
                Cell::from(rate.share_ppm()),
                Cell::from(rate.missing),
                Cell::from(rate.unanswered),
            ]);
        }
    }
    table
}

fn case_columns() -> impl Iterator<Item = Column> {
    let texts = ["rule", "program", "set", "kernel", "recommended"].map(Column::text);
    let numbers = [("allowed", Unit::Ppm), ("memory", Unit::Bytes)];
    texts.into_iter().chain(numbers.map(|(name, unit)| Column::number(name, unit)))
}

fn case_cells(rule: &str, case: &Case) -> Vec<Cell> {
    vec![
        Cell::from(rule),
        Cell::from(case.program.as_str()),
        Cell::from(case.set.name()),
        Cell::from(case.kernel.as_str()),
        Cell::from(case.candidate.as_str()),
        Cell::from(u64::from(case.slowdown_percent) * 10_000),
        Cell::from(case.memory_bytes),
    ]
}

/// Rows of all cases, or only of cases that fail at one size at least.
fn hold(judged: &[Judged], is_failing: bool) -> Table {
    let numbers = [("size", Unit::Ppm), ("predicted", Unit::Count), ("real", Unit::Count), ("boots", Unit::Count)];
    let numbers = numbers.map(|(name, unit)| Column::number(name, unit));
    let columns = case_columns().chain(numbers).chain([Column::text("holds")]);
    let title = if is_failing { "cases that do not hold: major faults" } else { "cases: major faults" };
    let mut table = Table::new(title, columns.collect());
    for judged in judged {
        let id = |case: &Case| (case.program.clone(), case.kernel.clone(), case.slowdown_percent);
        let failing: BTreeSet<_> =
            judged.hold.iter().filter(|row| row.holds == Some(false)).map(|row| id(&row.case)).collect();
        for row in judged.hold.iter().filter(|row| !is_failing || failing.contains(&id(&row.case))) {
            let mut cells = case_cells(&judged.rule, &row.case);
            cells.push(Cell::from(row.size_percent * 10_000));
            cells.push(Cell::from(row.predicted));
            cells.push(match row.real {
                Real::Faults(faults) => Cell::from(faults),
                Real::Missing | Real::Unfinished => Cell::from(None::<u64>),
            });
            cells.push(Cell::from(row.boots as u64));
            cells.push(Cell::from(match (row.holds, row.real) {
                (Some(true), _) => "yes",
                (_, Real::Unfinished) => "no: it did not come to its end",
                (Some(false), _) => "no",
                (None, _) => "not played",
            }));
            table.push(cells);
        }
    }
    table
}

fn prices(judged: &[Judged]) -> Table {
    let numbers = [("cases", Unit::Count), ("median", Unit::Factor), ("90th percentile", Unit::Factor)];
    let more = [("none safe", Unit::Count), ("not scanned", Unit::Count)];
    let numbers = numbers.into_iter().chain(more).map(|(name, unit)| Column::number(name, unit));
    let title = "price of safety: recommended memory over the smallest size that is safe in the real kernel";
    let mut table = Table::new(title, ["rule", "set"].map(Column::text).into_iter().chain(numbers).collect());
    for judged in judged {
        for (set, price) in [Set::Fitting, Set::HeldOut].into_iter().zip(&judged.prices) {
            table.push(vec![
                Cell::from(judged.rule.as_str()),
                Cell::from(set.name()),
                Cell::from(price.cases),
                Cell::from(price.median),
                Cell::from(price.p90),
                Cell::from(price.unsafe_cases),
                Cell::from(price.missing),
            ]);
        }
    }
    table
}

fn price(judged: &[Judged]) -> Table {
    let numbers = [("faults allowed", Unit::Count), ("safe from", Unit::Ppm), ("price", Unit::Factor)];
    let numbers = numbers.map(|(name, unit)| Column::number(name, unit));
    let columns = case_columns().chain(numbers).chain([Column::text("")]);
    let mut table = Table::new("price of safety by case", columns.collect());
    for judged in judged {
        for row in &judged.price {
            let mut cells = case_cells(&judged.rule, &row.case);
            cells.push(Cell::from(row.allowed));
            cells.push(Cell::from(row.safe_percent.map(|percent| percent * 10_000)));
            cells.push(Cell::from(row.price));
            cells.push(Cell::from(match row.safe_percent {
                None => "no size of the scan is safe",
                Some(_) if row.is_at_end => "or more: the scan ends there",
                Some(_) => "",
            }));
            table.push(cells);
        }
    }
    table
}

fn coverages(coverages: &[Coverage]) -> Table {
    let numbers = [("plays", Unit::Count), ("inside", Unit::Ppm), ("median width", Unit::Factor)];
    let numbers = numbers.map(|(name, unit)| Column::number(name, unit));
    let columns = ["set", "kernel", "policy", "counter"].map(Column::text).into_iter().chain(numbers);
    let mut table = Table::new("what predicted intervals hold of stored plays", columns.collect());
    for of in coverages {
        table.push(vec![
            Cell::from(of.set.name()),
            Cell::from(of.kernel.as_str()),
            Cell::from(of.policy.as_str()),
            Cell::from(of.counter),
            Cell::from(of.plays),
            Cell::from(of.share_ppm()),
            Cell::from(of.median_width),
        ]);
    }
    table
}

fn calibrations(calibrations: &[Calibration]) -> Table {
    let numbers =
        [("plays", Unit::Count), ("programs", Unit::Count), ("above", Unit::Factor), ("above 95", Unit::Factor)];
    let more = [("below", Unit::Factor), ("left out inside", Unit::Ppm), ("programs left out inside", Unit::Count)];
    let numbers = numbers.into_iter().chain(more).map(|(name, unit)| Column::number(name, unit));
    let columns = ["kernel", "policy", "counter"].map(Column::text).into_iter().chain(numbers);
    let title = "by how much the ends of intervals must be moved (fitting programs)";
    let mut table = Table::new(title, columns.collect());
    for of in calibrations {
        table.push(vec![
            Cell::from(of.release.as_str()),
            Cell::from(of.policy.as_str()),
            Cell::from(of.counter.as_str()),
            Cell::from(of.n),
            Cell::from(of.programs),
            Cell::from(of.above_ppm.map(|factor| factor as f64 / 1e6)),
            Cell::from(of.above_95_ppm.map(|factor| factor as f64 / 1e6)),
            Cell::from(of.below_ppm.map(|factor| factor as f64 / 1e6)),
            Cell::from((of.left_out_inside * 1_000_000).checked_div(of.n)),
            Cell::from(of.left_out_programs),
        ]);
    }
    table
}
