//! `isotherm-lab recorders`: the engines that record programs, next to each other in clean Debian systems: what they cost, what they see,
//! and whether they see the same.

mod agreement;
mod programs;
mod roots;
mod tables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_terminal::{CliError, Ui};
use isotherm_trace::{Clock, EventKind};
use serde::Serialize;

use agreement::Agreement;
use programs::{PROGRAMS, Program, Size};
use roots::{RELEASES, Root, Spent};

/// Compare the engines that record programs, in clean Debian systems.
///
/// Each program runs natively and under each engine that the system can have, without privileges, in a root of Debian that is made once
/// and kept in the user's cache folder. Prints Markdown: what recording costs and what was recorded, and how far engines agree.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Releases of Debian.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "bookworm,trixie")]
    release: Vec<String>,
    /// Engines.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "valgrind,qemu")]
    engine: Vec<String>,
    /// Only these programs [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    program: Vec<String>,
    /// How often each program runs natively and under each engine, in turns; figures are medians.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Short runs of all programs, to see that everything works. Their figures are mostly those of starting a program.
    #[arg(long)]
    small: bool,
    /// Also write everything, each run included, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm-lab recorders --small
  isotherm-lab recorders --release bookworm --engine valgrind,qemu --program python,gcc --repeat 3 --json recorders.json

Needs root and mmdebstrap, the network for the first run in each release, and `isotherm` with its engines next to isotherm-lab, as `make
build lab` puts them. Everything takes about 25 minutes on a quiet machine with two processors by an estimate from short runs; --small takes five.";

/// All figures.
#[derive(Debug, Serialize)]
struct Results {
    small: bool,
    rows: Vec<Row>,
    agreement: Vec<Agreement>,
}

/// One program in one release, natively (`engine` is `None`) or under one engine.
#[derive(Clone, Debug, Serialize)]
struct Row {
    release: &'static str,
    program: &'static str,
    engine: Option<&'static str>,
    /// What each run took; with an engine, recorder included, but without the native run before it.
    runs: Vec<Spent>,
    /// Of the last run.
    recorded: Option<Recorded>,
}

/// What a trace says of itself.
#[derive(Clone, Debug, Serialize)]
struct Recorded {
    rows: u64,
    accesses: u64,
    /// Different pages, per process.
    pages: u64,
    complete: bool,
    /// CPU time of all threads by the trace's clock, in ns.
    cpu_ns: u64,
    /// That clock.
    clock: Clock,
}

/// Runs all that was asked for and prints it.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let releases = named(&args.release, &RELEASES, |release| release.name, "--release")?;
    let engines = named(&args.engine, &["valgrind", "qemu"], |name| name, "--engine")?;
    let wanted: Vec<String> = match args.program.is_empty() {
        true => PROGRAMS.iter().map(|program| program.name.to_owned()).collect(),
        false => args.program.clone(),
    };
    let programs = named(&wanted, PROGRAMS, |program| program.name, "--program")?;
    let size = if args.small { Size::Small } else { Size::Full };
    let mut results = Results { small: args.small, rows: Vec::new(), agreement: Vec::new() };
    for release in releases {
        let root = Root::of(release, ui)?;
        root.install()?;
        let here: Vec<&'static str> = engines.iter().copied().filter(|&&engine| root.has(engine)).copied().collect();
        for missing in engines.iter().filter(|engine| !here.contains(engine)) {
            ui.warn(format_args!("{} has no {missing} with what it needs; left out", release.name));
        }
        for program in &programs {
            ui.say(format_args!("{}: {}", release.name, program.name));
            compare(&root, program, size, &here, args.repeat, &mut results)?;
        }
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&results).map_err(CliError::failed)? + "\n";
        std::fs::write(path, text)
            .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))?;
    }
    ui.print(tables::markdown(&results))?;
    Ok(ExitCode::SUCCESS)
}

/// The entries of a table that `names` name.
fn named<'a, T>(
    names: &[String],
    table: &'a [T],
    name_of: impl Fn(&T) -> &str,
    flag: &str,
) -> Result<Vec<&'a T>, CliError> {
    let find = |name: &String| {
        table.iter().find(|entry| name_of(entry) == name).ok_or_else(|| {
            let known: Vec<&str> = table.iter().map(&name_of).collect();
            CliError::usage(format!("`{flag}` is `{name}`; allowed: {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

/// One program in one release: natively and under each engine, in turns.
fn compare(
    root: &Root,
    program: &Program,
    size: Size,
    engines: &[&'static str],
    repeat: u32,
    results: &mut Results,
) -> Result<(), CliError> {
    let row =
        |engine| Row { release: root.release.name, program: program.name, engine, runs: Vec::new(), recorded: None };
    let mut rows: Vec<Row> = [None].into_iter().chain(engines.iter().copied().map(Some)).map(row).collect();
    for _ in 0..repeat {
        for row in &mut rows {
            row.runs.push(root.run(program, size, row.engine, "")?);
            row.recorded = row.engine.map(|engine| read(&root.trace(engine))).transpose()?;
        }
    }
    if program.is_deterministic && engines.len() == 2 {
        // Windows of time are the same ones only by the same clock.
        for engine in engines {
            root.run(program, size, Some(engine), "--time-per-kinstructions 200ns")?;
        }
        let [one, other] = [engines[0], engines[1]].map(|engine| root.trace(engine));
        let agreement = Agreement::of(root.release.name, program.name, &one, &other).map_err(CliError::failed)?;
        results.agreement.push(agreement);
    }
    results.rows.append(&mut rows);
    Ok(())
}

/// Reads a whole trace for its figures.
fn read(trace: &Path) -> Result<Recorded, CliError> {
    let mut reader = isotherm_trace::TraceReader::open(trace).map_err(CliError::failed)?;
    let meta = reader.meta().clone();
    let mut ends = vec![0; meta.threads.len()];
    let mut pages = std::collections::HashSet::new();
    reader
        .for_each_batch(|batch| {
            for row in batch.rows() {
                ends[row.thread as usize] = row.time_ns + meta.epoch_ns;
                let process = meta.threads[row.thread as usize].process;
                pages.extend((row.page..row.page + u64::from(row.pages)).map(|page| (process, page)));
            }
            Ok::<(), isotherm_trace::TraceError>(())
        })
        .map_err(CliError::failed)?;
    // Where a thread's end is known, it is exact.
    for event in meta.events.iter().filter(|event| event.kind == EventKind::EndThread) {
        ends[event.thread as usize] = event.time_ns;
    }
    Ok(Recorded {
        rows: meta.rows,
        accesses: meta.accesses,
        pages: pages.len() as u64,
        complete: meta.complete,
        cpu_ns: ends.iter().sum(),
        clock: meta.clock,
    })
}
