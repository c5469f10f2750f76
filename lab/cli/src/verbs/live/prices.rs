//! Costs of scans by the accessed-bit module, next to those in the simulated machine.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_prices::{PRICING, PriceRun, prices};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Ui};
use serde::Serialize;

use super::{Args, Runs, Tidy};

/// All acts in one kernel.
#[derive(Serialize)]
#[serde(transparent)]
struct KernelPrices(Vec<PriceRun>);

impl Tidy for KernelPrices {
    /// The run has no command that could change a knob.
    fn knobs_changed(&self) -> &[String] {
        &[]
    }
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let runs: Runs<KernelPrices> = args.place.each(
        "measuring",
        &[()],
        |()| "prices".to_owned(),
        |rig, product, ()| prices(rig, product.module, PRICING).map(|runs| Some(KernelPrices(runs))),
        ui,
    )?;
    runs.put_out(&table(&runs.done), args.format.format, ui)
}

fn table(kernels: &[KernelPrices]) -> Table {
    let mut columns = ["memory", "act"].map(Column::text).to_vec();
    columns.push(Column::number("level", Unit::Count));
    columns.push(Column::text("kernel"));
    columns.extend(["entries", "calls"].map(|name| Column::number(name, Unit::Count)));
    columns.extend(["instructions an entry", "simulated, ns an entry"].map(|name| Column::number(name, Unit::Count)));
    columns.extend(["million instructions a GiB", "simulated, ms a GiB"].map(|name| Column::number(name, Unit::Count)));
    let mut table = Table::new("acts on page tables in real kernels (1 instruction is 1 ns of the guest)", columns);
    let rounded = |figure: f64| {
        // Three digits: further ones are noise and the timer.
        let scale = 10f64.powf(2.0 - figure.abs().max(1e-9).log10().floor());
        (figure * scale).round() / scale
    };
    // Not every kernel has PAGEMAP_SCAN.
    let all = kernels.iter().map(|kernel| &kernel.0[..]).max_by_key(|prices| prices.len()).unwrap_or_default();
    for of_first in all {
        let same = |run: &&PriceRun| {
            let (one, other) = (&of_first.price, &run.price);
            (one.memory, one.act, one.level) == (other.memory, other.act, other.level)
        };
        for run in kernels.iter().filter_map(|kernel| kernel.0.iter().find(same)) {
            let per_gib = |ns: u64| run.ms_per_gib(ns).map(rounded);
            table.push(vec![
                Cell::from(run.price.memory.name()),
                Cell::from(run.price.act.name()),
                Cell::Int(u64::from(run.price.level)),
                Cell::from(run.kernel.as_str()),
                Cell::Int(run.price.nr_entries),
                Cell::Int(run.price.nr_calls),
                Cell::from(rounded(run.per_entry(run.took_ns))),
                Cell::from(run.simulated_ns.map(|ns| rounded(run.per_entry(ns)))),
                Cell::from(per_gib(run.took_ns)),
                Cell::from(run.simulated_ns.and_then(per_gib)),
            ]);
        }
    }
    table
}
