//! Hot memory on a slow node, promoted by the kernel or by the daemon.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_promotion::{PROMOTE_WAYS, PromoteRun, promote, simulated};
use isotherm_report::{Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};

use super::{Args, Tidy};

/// The rig sets the knobs of this run itself, and reports none.
impl Tidy for PromoteRun {
    fn knobs_changed(&self) -> &[String] {
        &[]
    }
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let ways = args.ways(PROMOTE_WAYS, |way| way.name)?;
    let cases: Vec<_> = (0..args.boots).flat_map(|boot| ways.iter().map(move |way| (boot, *way))).collect();
    let runs = args.place.each(
        "promoting",
        &cases,
        |(boot, way)| format!("{}, boot {}", way.name, boot + 1),
        |rig, product, (_, way)| promote(rig, product, way).map(Some),
        ui,
    )?;
    let mut runs = runs;
    for way in &ways {
        runs.done.extend(simulated(way).map_err(crate::verbs::fidelity::error)?);
    }
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[PromoteRun]) -> Table {
    let mut columns = ["who", "kernel"].map(Column::text).to_vec();
    let shares = ["hot on fast after 30 s, %", "at the end, %", "95 % after, s", "in vain, %"];
    columns.extend(shares.map(|name| Column::number(name, Unit::Count)));
    columns.push(Column::number("pages on fast", Unit::Count));
    let mut table = Table::new("hot half of an arena, filled on the slow node", columns);
    for run in runs {
        table.push(vec![
            run.way.as_str().into(),
            run.kernel.as_str().into(),
            run.hot_after_30s_percent.into(),
            run.hot_at_end_percent.into(),
            run.reached_after_s.into(),
            run.in_vain_percent.into(),
            run.promoted_pages.into(),
        ]);
    }
    table
}
