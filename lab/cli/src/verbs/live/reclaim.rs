//! Cold memory taken by the daemon.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_reclaim::{ReclaimRun, WAYS, reclaim};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};

use super::Args;

tidy!(ReclaimRun);

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let ways = WAYS.iter().filter(|way| args.way.is_empty() || args.way.iter().any(|name| name == way.name));
    let cases: Vec<_> = ways.flat_map(|way| (0..args.boots).map(move |_| way)).collect();
    if cases.is_empty() {
        let known: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        return Err(CliError::usage(format!("no such way; allowed: {}", known.join(", "))));
    }
    let runs = args.place.each(
        "reclaiming",
        &cases,
        |way| way.name.to_owned(),
        |rig, product, way| reclaim(rig, product, way, args.seconds).map(Some),
        ui,
    )?;
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[ReclaimRun]) -> Table {
    let mut columns = ["way", "kernel"].map(Column::text).to_vec();
    columns.extend(["memory", "asked", "went"].map(|name| Column::number(name, Unit::Bytes)));
    columns.push(Column::number("cold gone", Unit::Ppm));
    columns.push(Column::number("refaults", Unit::Count));
    columns.extend(["of what is used", "pressure", "CPU"].map(|name| Column::number(name, Unit::Ppm)));
    columns.push(Column::number("resident", Unit::Bytes));
    columns.push(Column::text("replay"));
    let mut table = Table::new("a service of which three fifths are cold", columns);
    let percent = |value: f64| Cell::from((value * 1e4).round());
    for run in runs {
        table.push(vec![
            Cell::from(run.way.as_str()),
            Cell::from(run.kernel.as_str()),
            run.memory_bytes.into(),
            run.asked_bytes.into(),
            run.verified_bytes.into(),
            percent(run.cold_gone_percent),
            run.refaults.into(),
            percent(run.refaulted_percent),
            percent(run.pressure_some_percent),
            percent(run.cpu_percent),
            run.resident_bytes.into(),
            Cell::from(if run.replay.is_same && run.replay.left == 0 { "same" } else { "differs" }),
        ]);
    }
    table
}
