//! `isotherm monitor` versus ground truth.

use std::process::ExitCode;

use isotherm_fidelity::versus::live::{LiveRun, WAYS, watch};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};

use super::Args;

tidy!(LiveRun);

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let patterns = args.patterns()?;
    let is_wanted = |way: &str| args.way.is_empty() || args.way.iter().any(|one| one == way);
    let ways: Vec<_> = WAYS.iter().filter(|way| is_wanted(way.name)).collect();
    if ways.is_empty() {
        let known: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        return Err(CliError::usage(format!("no such way of watching; allowed: {}", known.join("; "))));
    }
    let mut cases = Vec::new();
    for pattern in &patterns {
        for way in &ways {
            cases.extend((0..args.boots).map(|boot| (pattern, *way, u64::from(boot) + 1)));
        }
    }
    let runs = args.place.each(
        "watching",
        &cases,
        |(pattern, way, _)| format!("{}, {}", pattern.0, way.name),
        |rig, product, (pattern, way, seed)| {
            watch(rig, product, pattern.0, &pattern.1, way, *seed, args.seconds).map(Some)
        },
        ui,
    )?;
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(runs: &[LiveRun]) -> Table {
    let mut columns = ["pattern", "way", "kernel"].map(Column::text).to_vec();
    columns.extend([Column::number("boots", Unit::Count)]);
    for name in ["often: precision", "recall", "seen: precision", "recall ", "regions", "CPU share"] {
        columns.push(Column::number(name, if name == "regions" { Unit::Count } else { Unit::Ppm }));
    }
    let mut table = Table::new("isotherm monitor in real kernels; means over boots", columns);
    let mut seen: Vec<(&str, &str, &str)> = Vec::new();
    for run in runs {
        let case = (run.pattern.as_str(), run.way.as_str(), run.kernel.as_str());
        if seen.contains(&case) {
            continue;
        }
        seen.push(case);
        let of_case: Vec<&LiveRun> =
            runs.iter().filter(|run| (run.pattern.as_str(), run.way.as_str(), run.kernel.as_str()) == case).collect();
        let mean = |figure: &dyn Fn(&LiveRun) -> Option<f64>| {
            let figures: Vec<f64> = of_case.iter().filter_map(|run| figure(run)).collect();
            (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
        };
        let share = |figure: Option<f64>| Cell::from(figure.map(|share| (share * 1e6).round()));
        let mut cells =
            vec![Cell::from(case.0), Cell::from(case.1), Cell::from(case.2), Cell::Int(of_case.len() as u64)];
        cells.push(share(mean(&|run| run.scores.often.precision)));
        cells.push(share(mean(&|run| run.scores.often.recall)));
        cells.push(share(mean(&|run| run.scores.seen.precision)));
        cells.push(share(mean(&|run| run.scores.seen.recall)));
        cells.push(Cell::from(mean(&|run| Some(run.scores.regions)).map(|regions| (regions * 10.0).round() / 10.0)));
        cells.push(Cell::from(mean(&|run| Some(run.cpu_share_ppm as f64)).map(f64::round)));
        table.push(cells);
    }
    table
}
