//! Patterns under sudden pressure, with lists sorted by the kernel or by the daemon.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_sorting::{SORT_WAYS, SortRun, simulated, sort};
use isotherm_report::{Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};
use serde::Serialize;

use super::{Args, Tidy};

/// All workloads of one boot.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct All(Vec<SortRun>);

/// The rig sets the knobs of this run itself, and reports none.
impl Tidy for All {
    fn knobs_changed(&self) -> &[String] {
        &[]
    }
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let ways = args.ways(SORT_WAYS, |way| way.name)?;
    let workloads: Vec<&str> = args.pattern.iter().map(String::as_str).collect();
    let cases: Vec<_> = (0..args.boots).flat_map(|boot| ways.iter().map(move |way| (boot, *way))).collect();
    let runs = args.place.each(
        "sorting",
        &cases,
        |(boot, way)| format!("{}, boot {}", way.name, boot + 1),
        |rig, product, (_, way)| sort(rig, product, way, &workloads).map(|runs| Some(All(runs))),
        ui,
    )?;
    let mut runs = runs;
    for way in &ways {
        for seed in 1..=u64::from(args.boots) {
            runs.done.push(All(simulated(way, &workloads, seed).map_err(crate::verbs::fidelity::error)?));
        }
    }
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[All]) -> Table {
    let mut columns = ["who", "kernel", "workload"].map(Column::text).to_vec();
    let counts = ["major faults", "refaults", "scanned", "took, ms"];
    columns.extend(counts.map(|name| Column::number(name, Unit::Count)));
    let mut table = Table::new("faults under a limit that drops and rises", columns);
    for run in runs.iter().flat_map(|all| &all.0) {
        let mut cells = [&run.way, &run.kernel, &run.workload].map(|text| text.as_str().into()).to_vec();
        let counts = &run.counts;
        cells.extend([counts.major_faults, counts.refaults, counts.scanned, counts.took_us / 1000].map(Into::into));
        table.push(cells);
    }
    table
}
