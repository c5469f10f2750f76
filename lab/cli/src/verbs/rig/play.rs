//! `isotherm-lab rig play`: one page trace in a real kernel and in the simulated machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use isotherm_kernel::memory::KernelRelease;
use isotherm_kernel::swap::device::Compressor;
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_rig::job::{Play, Setting};
use isotherm_rig::{Extras, Job, Machine, Observation, Run, Task, script_of};
use isotherm_scenario::{RunOptions, Scenario, ScenarioResult, WorkloadEntry};
use isotherm_sim::machine::{MachineConfig, NodeConfig};
use isotherm_terminal::{BarProgress, CliError, FormatArg, Ui, render};
use isotherm_units::{Amount, Bytes};
use isotherm_workload::{BuildContext, TraceSpec, WorkloadSpec};

use super::{error, guest, kernel};

/// Play a page trace in a kernel and in the simulated machine, and lay the counters side by side.
///
/// Both get the same pages in the same order, the same memory, swap on zram, and no huge pages. The kernel's figures are ranges
/// over --boots boots. The simulated kernel follows the rules of the release that is booted; where there are none, as of 6.1,
/// only the kernel's counters are shown.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The page trace.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The kernel (`isotherm-lab rig kernels`).
    #[arg(long, value_name = "KERNEL", default_value = "7.2")]
    kernel: String,
    /// Page replacement.
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    policy: Policy,
    /// memory.max of the program's group; a share is of its peak memory in the simulated machine [default: none].
    #[arg(long, value_name = "SIZE")]
    limit: Option<Amount>,
    /// Memory of the machine.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Bytes,
    /// How often the kernel plays it.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    boots: u32,
    /// Seconds after which a guest is stopped.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    #[command(flatten)]
    format: FormatArg,
}

/// Policies that kernels and the simulated machine have alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Policy {
    /// Two lists for each kind of page.
    #[default]
    Classic,
    /// The Multi-Gen LRU.
    Mglru,
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Mglru => "mglru",
        }
    }
    /// Value of `lru_gen/enabled`.
    fn enabled(self) -> &'static str {
        match self {
            Self::Classic => "n",
            Self::Mglru => "y",
        }
    }
}

/// Counters that both worlds have: our metric, and the kernel's names, summed. The first that exists counts: some are in the
/// group's statistics, others in the system's.
const COUNTERS: &[(&str, &[&str])] = &[
    ("major_faults", &["pgmajfault"]),
    ("minor_faults", &["pgfault", "-pgmajfault"]),
    ("refaults_anon", &["workingset_refault_anon"]),
    ("refaults_file", &["workingset_refault_file"]),
    ("pages_scanned", &["pgscan"]),
    ("pages_reclaimed", &["pgsteal"]),
    ("pages_swapped_in", &["pswpin"]),
    ("pages_swapped_out", &["pswpout"]),
];

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let (guest, kernel) = (guest()?, kernel(&args.kernel, ui)?);
    let rules = KernelRelease::of_osrelease(&kernel.release);
    let (simulated, limit) = simulate(args, rules, ui)?;
    let spec = WorkloadSpec::Trace(TraceSpec::new(&args.trace));
    let program = spec.build(&BuildContext::new(".")).map_err(CliError::failed)?;
    let script = script_of(program).map_err(error)?;
    let job = job(args, limit, MachineConfig::default().readahead);
    let machine = Machine {
        memory_bytes: args.memory.get(),
        time_limit: std::time::Duration::from_secs(args.seconds + 60),
        isolated_tables: true,
        ..Machine::default()
    };
    let run = Run {
        kernel: &kernel,
        machine: &machine,
        guest: &guest,
        job: &job,
        script: Some(&script),
        extras: &Extras::default(),
    };
    let bar = ui.progress("booting", u64::from(args.boots));
    let mut seen = Vec::new();
    for boot in 1..=args.boots {
        let result = run.go().map_err(error)?;
        let last = result.observations().last().cloned();
        seen.push(last.ok_or_else(|| CliError::failed(format!("boot {boot} of {} reported no counters", args.boots)))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let by = rules.map(|rules| format!(", simulated by the rules of {rules}")).unwrap_or_default();
    let title = format!("Linux {}{by}, {}: {}", kernel.release, args.policy.name(), limit_text(limit));
    if rules.is_none() {
        ui.say(without_rules(&kernel.release));
    }
    ui.print_styled(&render(&table(&title, &seen, simulated.as_ref(), args), args.format.format, ui))
}

/// Why there is no simulated column: `there are no rules of 6.1; only the kernel's counters are shown`.
fn without_rules(release: &str) -> String {
    let end = release.match_indices(['.', '-', '+']).nth(1).map_or(release.len(), |(at, _)| at);
    format!("there are no rules of {}; only the kernel's counters are shown", &release[..end])
}

fn limit_text(limit: Option<Bytes>) -> String {
    limit.map_or_else(|| "no limit".to_owned(), |limit| format!("memory.max {limit}"))
}

/// Plays it in the simulated machine by `rules`, first without a limit, for the base of shares. Without rules the result is only the limit;
/// the newest rules give the peak, which depends on readahead only.
fn simulate(
    args: &Args,
    rules: Option<KernelRelease>,
    ui: &Ui,
) -> Result<(Option<ScenarioResult>, Option<Bytes>), CliError> {
    if rules.is_none() && !matches!(args.limit, Some(Amount::Share(_))) {
        let Some(Amount::Absolute(limit)) = args.limit else { return Ok((None, None)) };
        return Ok((None, Some(limit.pages_floor().bytes())));
    }
    let load = WorkloadSpec::Trace(TraceSpec::new(&args.trace));
    let mut machine = MachineConfig { cpus: 1, kernel: rules.unwrap_or_default(), ..MachineConfig::default() };
    machine.nodes = vec![NodeConfig { memory: args.memory, ..NodeConfig::default() }];
    machine.swap.size = Some(args.memory);
    machine.swap.compressor = Compressor::Lz4;
    let mut scenario = Scenario {
        policy: args.policy.name().to_owned(),
        machine,
        workloads: vec![WorkloadEntry::new("program", load)],
        ..Scenario::named("rig")
    };
    let options = RunOptions { base_dir: PathBuf::from("."), place: args.trace.display().to_string(), threads: None };
    let play = |scenario: &Scenario| {
        let bar = BarProgress::new(ui, "simulating");
        let result = isotherm_scenario::run(scenario, &options, &bar);
        bar.finish();
        result.map_err(CliError::from)
    };
    let free = play(&scenario)?;
    let Some(limit) = args.limit else { return Ok((Some(free), None)) };
    let peak = free.rows.iter().find(|row| row.metric == "peak_bytes").map_or(0.0, |row| row.mean);
    #[expect(clippy::cast_possible_truncation, reason = "a whole number of bytes, far below 2^53")]
    let limit = limit.of(Bytes::new(peak as u64)).pages_floor().bytes();
    scenario.limit = Some(Amount::Absolute(limit));
    let simulated = rules.map(|_| play(&scenario)).transpose()?;
    Ok((simulated, Some(limit)))
}

fn job(args: &Args, limit: Option<Bytes>, readahead: Bytes) -> Job {
    let knob = |path: &str, value: &str, optional| Setting { path: path.to_owned(), value: value.to_owned(), optional };
    Job {
        settings: vec![
            knob("/sys/kernel/mm/transparent_hugepage/enabled", "never", false),
            knob("/sys/kernel/mm/lru_gen/enabled", args.policy.enabled(), args.policy == Policy::Classic),
            knob("/proc/sys/vm/swappiness", "60", false),
            // Default readahead of disks differs between kernels, from 128 KiB to 8 MiB.
            knob("/sys/block/vda/queue/read_ahead_kb", &(readahead.get() / 1024).to_string(), true),
            // Both act on their own.
            knob("/sys/module/damon_stat/parameters/enabled", "N", true),
            knob("/proc/sys/kernel/numa_balancing", "0", true),
        ],
        zram_bytes: Some(args.memory.get()),
        files_device: None,
        task: Task::Play(Play { limit_bytes: limit.map(Bytes::get), read_stat_every: 256, seconds_max: args.seconds }),
    }
}

/// A counter of an observation; names with a minus are subtracted.
fn real(seen: &Observation, names: &[&str]) -> Option<i64> {
    let of = |name: &str| {
        let own = seen.memory_stat.get(name).and_then(|&value| i64::try_from(value).ok());
        own.or_else(|| seen.vmstat.get(name).copied())
    };
    names.iter().try_fold(0, |sum, name| match name.strip_prefix('-') {
        Some(less) => Some(sum - of(less)?),
        None => Some(sum + of(name)?),
    })
}

fn table(title: &str, seen: &[Observation], simulated: Option<&ScenarioResult>, args: &Args) -> Table {
    let mut columns = vec![
        Column::text("counter"),
        Column::number("real least", Unit::Count),
        Column::number("real most", Unit::Count),
    ];
    if simulated.is_some() {
        columns.extend([Column::number("simulated", Unit::Count), Column::number("ratio", Unit::Factor)]);
    }
    let rows = simulated.iter().flat_map(|simulated| &simulated.rows);
    let ours: BTreeMap<&str, f64> = rows.map(|row| (row.metric.as_str(), row.mean)).collect();
    let mut table =
        Table::new(format!("{title}, {} of {} operations", args.trace.display(), operations(seen)), columns);
    for (metric, names) in COUNTERS {
        let real: Vec<i64> = seen.iter().filter_map(|seen| real(seen, names)).collect();
        let (least, most) = (real.iter().min().copied(), real.iter().max().copied());
        let ours = ours.get(metric).copied();
        let middle = least.zip(most).map(|(least, most)| (least + most) as f64 / 2.0).filter(|&middle| middle > 0.0);
        let mut cells = vec![
            Cell::from(*metric),
            Cell::from(least.and_then(|least| u64::try_from(least).ok())),
            Cell::from(most.and_then(|most| u64::try_from(most).ok())),
        ];
        if simulated.is_some() {
            let ratio = ours.zip(middle).map(|(ours, middle)| ours / middle);
            cells.extend([Cell::from(ours), Cell::from(ratio)]);
        }
        table.push(cells);
    }
    table
}

fn operations(seen: &[Observation]) -> u64 {
    seen.first().map_or(0, |seen| seen.operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_rules_has_no_simulated_column() {
        for (release, name) in [("6.1.0-28-amd64", "6.1"), ("6.1-amd64", "6.1"), ("7.4", "7.4"), ("odd", "odd")] {
            let line = format!("there are no rules of {name}; only the kernel's counters are shown");
            assert_eq!(without_rules(release), line);
        }
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let line: Line = clap::Parser::parse_from(["play", "t.parquet"]);
        let result = |rows| ScenarioResult {
            scenario: "s".to_owned(),
            rows,
            ratios: vec![],
            schemes: vec![],
            killed: vec![],
            expectations: vec![],
        };
        let header = |simulated: Option<&ScenarioResult>| {
            let csv = table("t", &[], simulated, &line.args).to_csv();
            csv.lines().next().unwrap().to_owned()
        };
        assert!(header(Some(&result(vec![]))).contains("simulated"));
        let alone = header(None);
        assert!(alone.contains("real_most") && !alone.contains("simulated") && !alone.contains("ratio"), "{alone}");
    }
}
