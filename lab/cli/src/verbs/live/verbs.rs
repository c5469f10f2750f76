//! Each live verb once.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_verbs::{CASES, VerbRun, run_verb};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};

use super::Args;

tidy!(VerbRun);

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let runs = args.place.each("running", CASES, |case| case.name.to_owned(), run_verb, ui)?;
    let done = runs.put_out(&table(&runs.done), args.format.format, ui)?;
    match runs.done.iter().find(|run| !run.is_right) {
        Some(run) => Err(CliError::failed(format!(
            "`{}` on {} ended with {:?}: {}",
            run.case,
            run.kernel,
            run.exit_code,
            run.said.trim()
        ))),
        None => Ok(done),
    }
}

fn table(runs: &[VerbRun]) -> Table {
    let columns = vec![
        Column::text("verb"),
        Column::text("kernel"),
        Column::number("exit code", Unit::Count),
        Column::text("as it must"),
        Column::number("knobs read", Unit::Count),
        Column::number("left changed", Unit::Count),
    ];
    let mut table = Table::new("live verbs in real kernels", columns);
    for run in runs {
        table.push(vec![
            Cell::from(run.case.as_str()),
            Cell::from(run.kernel.as_str()),
            Cell::from(run.exit_code.map(f64::from)),
            Cell::from(if run.is_right { "yes" } else { "no" }),
            Cell::Int(run.knobs_read),
            Cell::Int(run.knobs_changed.len() as u64),
        ]);
    }
    table
}
