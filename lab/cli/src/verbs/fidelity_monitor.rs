//! `isotherm-lab fidelity-monitor`: our monitor versus the kernel's.

use std::process::ExitCode;

use isotherm_fidelity::versus::monitor::{ADDRESSES, BAR, MonitorRow, PATTERNS, SECONDS, SEEDS, compare, real, stored};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Format, Ui, render};

pub(crate) use super::versus::Args;
use super::versus::with_data;

pub(super) const AFTER_HELP: &str = "\
Examples:
  isotherm-lab fidelity-monitor
  isotherm-lab fidelity-monitor --refresh --boots 3 --data monitor.json";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let format = args.format.format;
    let data = with_data(&args, stored, &|rig| real(rig, PATTERNS, SECONDS), "fidelity-monitor", ui)?;
    let kernels: std::collections::BTreeSet<&str> = data.boots.iter().map(|boot| boot.release.as_str()).collect();
    let runs = kernels.len() * PATTERNS.len() * ADDRESSES.len() * SEEDS.count();
    let bar = ui.progress("simulating", runs as u64);
    let rows = compare(&data, PATTERNS, SEEDS, &mut || bar.inc(1));
    bar.finish_and_clear();
    let rows = rows.map_err(super::fidelity::error)?;
    match format {
        Format::Json => {
            let json = serde_json::json!({ "command": data.command, "bar": BAR, "rows": rows });
            let json = serde_json::to_string_pretty(&json).map_err(CliError::failed)?;
            ui.print_data(format_args!("{json}\n"))
        }
        Format::Csv => ui.print_data(long(&rows).to_csv()),
        Format::Table => {
            for (title, first, second) in [
                ("used in at least half of the samples", "often_precision", "often_recall"),
                ("used at all", "seen_precision", "seen_recall"),
                ("regions, and error of nr_accesses", "regions", "nr_accesses_error"),
            ] {
                ui.print_styled(&render(&wide(title, first, second, &rows), format, ui).before_line())?;
            }
            let (met, judged) =
                (rows.iter().filter(|row| row.met == Some(true)), rows.iter().filter(|row| row.met.is_some()));
            let (met, judged) = (met.count(), judged.count());
            ui.print(format_args!(
                "Bar: precision and recall at most {BAR} below the kernel's: {met} of {judged} {}.\n",
                if met == judged { "(met)" } else { "(missed)" }
            ))
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

/// A line for each pattern, kind of addresses and kernel, with two figures in both worlds; shares in percent.
fn wide(title: &str, first: &str, second: &str, rows: &[MonitorRow]) -> Table {
    let mut columns = ["pattern", "addresses", "kernel"].map(Column::text).to_vec();
    for metric in [first, second] {
        let name = metric.trim_start_matches("often_").trim_start_matches("seen_").replace("nr_accesses_", "");
        let (unit, _) = shown(metric);
        columns.push(Column::number(format!("{name}, ours"), unit));
        columns.push(Column::number(format!("{name}, kernel's"), unit));
    }
    let is_judged = rows.iter().any(|row| row.metric == first && row.met.is_some());
    columns.extend(is_judged.then(|| Column::text("bar")));
    let mut table = Table::new(title, columns);
    for row in rows.iter().filter(|row| row.metric == first) {
        let place = |row: &MonitorRow| (row.pattern, row.addresses, row.kernel.clone());
        let Some(other) = rows.iter().find(|other| other.metric == second && place(other) == place(row)) else {
            continue;
        };
        let mut cells =
            vec![Cell::from(row.pattern), Cell::from(row.addresses.name()), Cell::from(row.kernel.as_str())];
        for row in [row, other] {
            let (_, scale) = shown(row.metric);
            cells.extend([Cell::from(row.simulated.mean * scale), Cell::from(row.real.mean * scale)]);
        }
        let met = row.met.zip(other.met).map(|(one, other)| one && other);
        cells.extend(met.map(|met| Cell::from(if met { "met" } else { "missed" })));
        table.push(cells);
    }
    table
}

/// Unit of a figure, and the factor to that unit.
fn shown(metric: &str) -> (Unit, f64) {
    if metric == "regions" { (Unit::Count, 1.0) } else { (Unit::Ppm, 1e6) }
}

fn long(rows: &[MonitorRow]) -> Table {
    let columns = ["pattern", "addresses", "kernel", "metric"].map(Column::text).into_iter();
    let numbers = ["simulated", "simulated_low", "simulated_high", "real", "real_low", "real_high"]
        .map(|name| Column::number(name, Unit::Count));
    let mut table = Table::new("", columns.chain(numbers).chain([Column::text("met")]).collect());
    for row in rows {
        table.push(vec![
            Cell::from(row.pattern),
            Cell::from(row.addresses.name()),
            Cell::from(row.kernel.as_str()),
            Cell::from(row.metric),
            Cell::from(row.simulated.mean),
            Cell::from(row.simulated.low),
            Cell::from(row.simulated.high),
            Cell::from(row.real.mean),
            Cell::from(row.real.low),
            Cell::from(row.real.high),
            Cell::from(row.met.map_or("", |met| if met { "met" } else { "missed" })),
        ]);
    }
    table
}
