//! Traces of running processes versus ground truth.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_record::{RecordedRun, record};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};

use super::{Args, LARGE};

tidy!(RecordedRun);

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let cases: Vec<_> =
        args.patterns()?.into_iter().filter(|(name, _)| LARGE.iter().all(|large| large.0 != *name)).collect();
    let runs = args.place.each(
        "recording",
        &cases,
        |(name, _)| (*name).to_owned(),
        |rig, product, (name, pattern)| record(rig, product, name, pattern, args.seconds).map(Some),
        ui,
    )?;
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[RecordedRun]) -> Table {
    let mut columns = ["pattern", "kernel"].map(Column::text).to_vec();
    columns.extend(["epochs", "pages recorded", "pages used"].map(|name| Column::number(name, Unit::Count)));
    columns.extend(["precision", "recall", "written"].map(|name| Column::number(name, Unit::Ppm)));
    let mut table = Table::new("isotherm record in real kernels", columns);
    for run in runs {
        let share = |share: f64| Cell::from((share * 1e6).round());
        table.push(vec![
            Cell::from(run.pattern.as_str()),
            Cell::from(run.kernel.as_str()),
            Cell::Int(run.epochs),
            Cell::from(run.pages_recorded.round()),
            Cell::from(run.pages_true.round()),
            share(run.precision),
            share(run.recall),
            share(run.written),
        ]);
    }
    table
}
