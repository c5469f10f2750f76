//! Trials of configurations that act.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_trial::{TRIAL_WAYS, TrialRun, trial};
use isotherm_report::{Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};

use super::Args;

tidy!(TrialRun);

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let ways = args.ways(TRIAL_WAYS, |way| way.name)?;
    let cases: Vec<_> = (0..args.boots).flat_map(|boot| ways.iter().map(move |way| (boot, *way))).collect();
    let runs = args.place.each(
        "trying",
        &cases,
        |(boot, way)| format!("{}, boot {}", way.name, boot + 1),
        |rig, product, (_, way)| trial(rig, product, way).map(Some),
        ui,
    )?;
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[TrialRun]) -> Table {
    let mut columns = ["trial", "kernel", "verdict", "end"].map(Column::text).to_vec();
    columns.push(Column::number("pairs", Unit::Count));
    columns.extend(["mean under A", "difference (95 %)"].map(Column::text));
    let mut table = Table::new("two configurations in turn", columns);
    for run in runs {
        let verdict = match &run.arm {
            Some(arm) => format!("{arm} {}", run.verdict),
            None => run.verdict.clone(),
        };
        let difference = run.difference.map(|[it, low, high]| format!("{it:+.1} ({low:+.1} to {high:+.1})"));
        table.push(vec![
            run.way.as_str().into(),
            run.kernel.as_str().into(),
            verdict.as_str().into(),
            run.end.as_str().into(),
            run.pairs.into(),
            run.mean_a.map_or_else(String::new, |mean| format!("{mean:.1}")).as_str().into(),
            difference.unwrap_or_default().as_str().into(),
        ]);
    }
    table
}
