//! Traces of running programs versus their recordings by an emulator.

use std::path::Path;
use std::process::ExitCode;

use isotherm_fidelity::FidelityError;
use isotherm_fidelity::versus::live_programs::{PROGRAMS, ProgramRun, TOLERANCE, Told, record_program};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};

use super::Args;

tidy!(ProgramRun);

const TRACES: &str = "traces";

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let mut cases = Vec::new();
    for case in PROGRAMS.iter().filter(|case| args.wants(case.name)) {
        match case.ready(Path::new(TRACES), &args.place.isotherm) {
            Ok(ready) => cases.push(ready),
            Err(FidelityError::Rig(lack)) if lack.is_lack() => {
                ui.warn(format_args!("{} is passed over: {lack}", case.name));
            }
            Err(error) => return Err(super::super::fidelity::error(error)),
        }
    }
    if cases.is_empty() {
        let known: Vec<&str> = PROGRAMS.iter().map(|case| case.name).collect();
        return Err(CliError::usage(format!("no such program here; there are {}", known.join(", "))));
    }
    let runs = args.place.each(
        "recording",
        &cases,
        |ready| ready.case.label(),
        |rig, product, ready| record_program(rig, product, ready, args.keep.as_deref()).map(Some),
        ui,
    )?;
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[ProgramRun]) -> Table {
    let mut columns = ["program", "kernel", "clock"].map(Column::text).to_vec();
    columns.extend(["epochs", "recorded", "pages", "recorded "].map(|name| Column::number(name, Unit::Count)));
    columns.extend([Column::text("policy"), Column::text("recorded  ")]);
    columns.extend(["memory", "recorded   "].map(|name| Column::number(name, Unit::Bytes)));
    columns.extend([Column::number("ratio", Unit::Ppm), Column::text("within 5 %")]);
    let mut table = Table::new("isotherm advise on live traces and on recordings", columns);
    let policy = |told: &Told| Cell::from(told.policy.as_deref().unwrap_or("none"));
    let memory = |told: &Told| told.memory_bytes.map_or(Cell::from(None::<f64>), Cell::from);
    for run in runs {
        let ways =
            [("as it ran", &run.live, run.ratio), ("recording's", &run.by_recorded_clock, run.ratio_by_recorded_clock)];
        for (times, live, ratio) in ways {
            let is_within = ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= TOLERANCE);
            table.push(vec![
                Cell::from(run.program.as_str()),
                Cell::from(run.kernel.as_str()),
                Cell::from(times),
                Cell::Int(live.epochs),
                Cell::Int(run.recorded.epochs),
                Cell::Int(live.pages),
                Cell::Int(run.recorded.pages),
                policy(live),
                policy(&run.recorded),
                memory(live),
                memory(&run.recorded),
                Cell::from(ratio.map(|ratio| (ratio * 1e6).round())),
                Cell::from(if is_within { "yes" } else { "no" }),
            ]);
        }
    }
    table
}
