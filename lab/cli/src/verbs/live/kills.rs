//! The daemon killed at moments of chance.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_kills::{KILL_WAYS, KillRun, kills};
use isotherm_report::{Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};

use super::Args;

tidy!(KillRun);

pub(super) fn run(args: &Args, rounds: u64, ui: &Ui) -> Result<ExitCode, CliError> {
    let ways = args.ways(KILL_WAYS, |way| way.name)?;
    let runs = args.place.each(
        "killing",
        &ways,
        |way| way.name.to_owned(),
        |rig, product, way| kills(rig, product, way, rounds, 1).map(Some),
        ui,
    )?;
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[KillRun]) -> Table {
    let mut columns = ["way", "kernel"].map(Column::text).to_vec();
    let counts = ["SIGKILL", "SIGTERM, SIGKILL", "SIGTERM", "knobs changed then", "files read", "not as before"];
    columns.extend(counts.map(|name| Column::number(name, Unit::Count)));
    columns.push(Column::number("SIGTERM to end [ms]", Unit::Count));
    let mut table = Table::new("a daemon that is killed, and what `isotherm restore` leaves", columns);
    for run in runs {
        let [kill, both, term] = run.killed.rounds;
        table.push(vec![
            run.way.as_str().into(),
            run.kernel.as_str().into(),
            kill.into(),
            both.into(),
            term.into(),
            run.killed.changed_when_killed.into(),
            run.killed.knobs_read.into(),
            (run.killed.left.len() as u64).into(),
            run.killed.term_longest_ms.into(),
        ]);
    }
    table
}
