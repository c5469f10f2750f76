//! Fragmented memory, driven to a level.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_compaction::{COMPACT_WAYS, CompactRun, compact};
use isotherm_report::{Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};
use serde::Serialize;

use super::{Args, Tidy};

/// Result of one way on one kernel, by holes.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Both(Vec<CompactRun>);

/// The rig sets the knobs of this run itself, and reports none.
impl Tidy for Both {
    fn knobs_changed(&self) -> &[String] {
        &[]
    }
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let ways = args.ways(COMPACT_WAYS, |way| way.name)?;
    let runs = args.place.each(
        "compacting",
        &ways,
        |way| way.name.to_owned(),
        |rig, product, way| compact(rig, product, way).map(|runs| Some(Both(runs))),
        ui,
    )?;
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[Both]) -> Table {
    let mut columns = ["who", "kernel", "holes"].map(Column::text).to_vec();
    let counts =
        ["in smaller, %", "after, %", "huge pages free", "after", "pages moved", "huge pages asked for", "obtained"];
    columns.extend(counts.map(|name| Column::number(name, Unit::Count)));
    let mut table = Table::new("fragmented memory of a guest, driven to 25 % or below", columns);
    for run in runs.iter().flat_map(|both| &both.0) {
        let mut cells = [&run.way, &run.kernel, &run.holes].map(|text| text.as_str().into()).to_vec();
        let numbers = [
            u64::from(run.before.extfrag),
            u64::from(run.after.extfrag),
            run.before.huge,
            run.after.huge,
            run.moved,
            run.asked,
            run.obtained,
        ];
        cells.extend(numbers.map(Into::into));
        table.push(cells);
    }
    table
}
