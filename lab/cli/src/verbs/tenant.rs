//! `isotherm-lab tenant`: the daemon next to a hostile user.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_tenant::{Attack, TenantRun, tenant};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, FormatArg, Ui};
use isotherm_units::Duration;

use super::in_kernels::InKernels;

/// Run `isotherm daemon run` inside real kernels next to a tenant who does what he can to hold it up.
///
/// The tenant has groups of his own: he makes and removes them all the time, tries to rename them, gives them limits, guarantees and hostile
/// names, and holds connections to the daemon's metrics. Exit code 1: the section over the groups of services did not run at its interval
/// (± 20 % in each minute), the daemon held more than 64 MiB, took more than 2 s to end, or left a knob changed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm-lab tenant
  isotherm-lab tenant --for 1h --groups 100000 --kernel 6.12
  isotherm-lab tenant --isotherm before/isotherm --format json

Needs what `isotherm-lab live` needs.")]
pub(crate) struct Args {
    /// Time that the tenant has, of the guest; 90 s and more.
    #[arg(long = "for", value_name = "TIME", default_value = "2m")]
    length: Duration,
    /// Groups that the tenant makes in that time, if the guest is fast enough.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    groups: u64,
    /// Groups that he has at a time.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    at_a_time: u64,
    /// Connections that he holds.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=1000))]
    connections: u64,
    /// Seed of his limits.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    place: InKernels,
    #[command(flatten)]
    format: FormatArg,
}

/// States are counted over minutes, and known each ten seconds.
const LENGTH_MIN: Duration = Duration::from_secs(90);

tidy!(TenantRun, tenanted);

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    args.place.check()?;
    if args.length < LENGTH_MIN {
        let (length, least) = (args.length, LENGTH_MIN);
        return Err(CliError::usage(format!("--for {length} is too short to count runs; allowed: {least} and more")));
    }
    let attack = Attack {
        seconds: args.length.ns() / 1_000_000_000,
        groups: args.groups,
        groups_at_a_time: args.at_a_time,
        connections: args.connections,
        seed: args.seed,
    };
    let name = |_: &Attack| "the tenant".to_owned();
    let runs = args.place.each(
        "hosting",
        &[attack],
        name,
        |rig, product, attack| tenant(rig, product, attack).map(Some),
        ui,
    )?;
    let done = runs.put_out(&table(&runs.done), args.format.format, ui)?;
    let misses: Vec<String> = runs.done.iter().flat_map(TenantRun::misses).collect();
    if misses.is_empty() { Ok(done) } else { Err(CliError::failed(misses.join("; "))) }
}

fn table(runs: &[TenantRun]) -> Table {
    let mut columns = vec![Column::text("kernel")];
    let counts = ["groups made", "names refused", "connections", "groups of sections, at most"];
    columns.extend(counts.map(|name| Column::number(name, Unit::Count)));
    let rates = ["before, % of the interval", "with him", "least minute", "most"];
    columns.extend(rates.map(|name| Column::number(name, Unit::Count)));
    columns.push(Column::number("CPU, %", Unit::Count));
    columns.push(Column::number("memory, at most", Unit::Bytes));
    let times = ["metrics, at most [ms]", "SIGTERM to end [ms]", "knobs left changed"];
    columns.extend(times.map(|name| Column::number(name, Unit::Count)));
    let mut table = Table::new("the daemon next to a hostile tenant", columns);
    for run in runs {
        let percent = |share: f64| Cell::from((share * 100.0).round());
        let targets = run.tenanted.with_tenant.iter().map(|state| state.targets).max();
        table.push(vec![
            Cell::from(run.kernel.as_str()),
            run.tenanted.churn.made.into(),
            run.tenanted.churn.names_refused.into(),
            run.tenanted.churn.connected.into(),
            targets.unwrap_or(0).into(),
            percent(run.rate_alone),
            percent(run.rate),
            percent(run.rate_least),
            percent(run.rate_most),
            Cell::from((run.cpu_percent * 10.0).round() / 10.0),
            run.tenanted.resident_peak_bytes.into(),
            run.metrics_longest_ms.into(),
            run.tenanted.term_ms.into(),
            (run.tenanted.knobs_changed.len() as u64).into(),
        ]);
    }
    table
}
