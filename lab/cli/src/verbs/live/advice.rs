//! Predicted and counted refaults of recommended limits.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_advice::{AdvisedRun, WORKLOADS, advise};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};

use super::Args;

tidy!(AdvisedRun);

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let cases: Vec<_> = WORKLOADS.iter().filter(|workload| args.wants(workload.name)).collect();
    if cases.is_empty() {
        let known: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        return Err(CliError::usage(format!("no such workload; allowed: {}", known.join(", "))));
    }
    let runs = args.place.each(
        "advising",
        &cases,
        |workload| workload.name.to_owned(),
        |rig, product, workload| advise(rig, product, workload, args.seconds).map(Some),
        ui,
    )?;
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[AdvisedRun]) -> Table {
    let mut columns = ["workload", "kernel"].map(Column::text).to_vec();
    columns.extend([Column::number("peak", Unit::Bytes), Column::number("memory.high", Unit::Bytes)]);
    for name in ["predicted", "at least", "at most", "counted"] {
        columns.push(Column::number(name, Unit::PerSecond));
    }
    columns.push(Column::number("pressure", Unit::Ppm));
    let mut table = Table::new("refaults a second under the recommended memory.high", columns);
    for run in runs {
        let predicted = |pick: fn((f64, f64, f64)) -> f64| Cell::from(run.predicted_per_s.map(pick));
        table.push(vec![
            Cell::from(run.workload.as_str()),
            Cell::from(run.kernel.as_str()),
            run.peak_bytes.into(),
            run.high_bytes.map_or(Cell::from(None::<f64>), Cell::from),
            predicted(|rate| rate.1),
            predicted(|rate| rate.0),
            predicted(|rate| rate.2),
            Cell::from(run.measured_per_s),
            Cell::from(run.pressure_some_percent.map(|percent| (percent * 1e4).round())),
        ]);
    }
    table
}
