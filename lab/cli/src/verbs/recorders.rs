//! `isotherm-lab recorders`: the cost of recording programs in clean Debian systems, and contents of the traces.

mod programs;
mod roots;
mod tables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_terminal::{CliError, Ui};
use isotherm_trace::{Clock, EventKind};
use serde::Serialize;

use super::asked::{named, write_json};
use programs::{PROGRAMS, Program, Size};
use roots::{RELEASES, Root, Spent};

/// Measure what recording programs costs, in clean Debian systems.
///
/// Each program runs natively and under the recorder, without privileges, in a root of Debian that is made once and kept in the user's
/// cache folder. Prints Markdown: costs of recording, and descriptions of the recordings.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Releases of Debian.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "bookworm,trixie")]
    release: Vec<String>,
    /// Only these programs [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    program: Vec<String>,
    /// How often each program runs natively and under the recorder, in turns; figures are medians.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Short runs of all programs, to see that everything works. Most of their time is the start of a program.
    #[arg(long)]
    small: bool,
    /// Also write everything, each run included, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm-lab recorders --small
  isotherm-lab recorders --release bookworm --program python,gcc --repeat 3 --json recorders.json

Needs root and mmdebstrap, the network for the first run in each release, and `isotherm` with its engine next to isotherm-lab, as `make
build lab` puts them. Everything takes at most 25 minutes on a quiet machine with two processors by an estimate from short runs; --small takes at most five.";

/// All figures.
#[derive(Debug, Serialize)]
struct Results {
    small: bool,
    rows: Vec<Row>,
}

/// One program in one release, natively or under the recorder.
#[derive(Clone, Debug, Serialize)]
struct Row {
    release: &'static str,
    program: &'static str,
    is_recorded: bool,
    /// Cost of each run; the recorder included.
    runs: Vec<Spent>,
    /// Results of the last recording.
    recorded: Option<Recorded>,
}

/// Figures of a trace.
#[derive(Clone, Debug, Serialize)]
struct Recorded {
    rows: u64,
    accesses: u64,
    /// Distinct pages, per process.
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
    let wanted: Vec<String> = match args.program.is_empty() {
        true => PROGRAMS.iter().map(|program| program.name.to_owned()).collect(),
        false => args.program.clone(),
    };
    let programs = named(&wanted, PROGRAMS, |program| program.name, "--program")?;
    let size = if args.small { Size::Small } else { Size::Full };
    let mut results = Results { small: args.small, rows: Vec::new() };
    for release in releases {
        let root = Root::of(release, ui)?;
        root.install()?;
        for program in &programs {
            ui.say(format_args!("{}: {}", release.name, program.name));
            results.rows.extend(measure(&root, program, size, args.repeat)?);
        }
    }
    write_json(args.json.as_deref(), &results)?;
    ui.print(tables::markdown(&results))?;
    Ok(ExitCode::SUCCESS)
}

/// One program in one release: natively and under the recorder, in turns.
fn measure(root: &Root, program: &Program, size: Size, repeat: u32) -> Result<[Row; 2], CliError> {
    let row = |is_recorded| Row {
        release: root.release.name,
        program: program.name,
        is_recorded,
        runs: Vec::new(),
        recorded: None,
    };
    let mut rows = [false, true].map(row);
    for _ in 0..repeat {
        for row in &mut rows {
            row.runs.push(root.run(program, size, row.is_recorded)?);
            row.recorded = row.is_recorded.then(|| read(&root.trace())).transpose()?;
        }
    }
    Ok(rows)
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
