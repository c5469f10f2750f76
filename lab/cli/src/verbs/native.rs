//! `isotherm-lab native`: programs on this machine under the limits that `isotherm advise` recommends, next to what it states.

mod advice;
mod group;
mod programs;
mod runs;
mod sizes;
mod swap;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_terminal::{CliError, Ui};
use isotherm_units::Bytes;
use isotherm_verify::Start;
use serde::{Deserialize, Serialize};

use super::asked::{named, write_json};
use advice::Stated;
use group::{Groups, RUN_AT_MOST};
use programs::{PROGRAMS, Program, Timed, Workshop};
use runs::Run;
use swap::Zram;

/// Run programs on this machine under the memory that `isotherm advise` recommends, and compare.
///
/// Each program is recorded, `isotherm advise --here` is asked, and the program runs in a memory cgroup of its own: without a limit and
/// under the recommended one, in turns. Half of the programs wait most of the time and print how long each of their bursts of work took.
/// The others compute, and are timed as a whole. Prints tables in Markdown.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only these programs [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    program: Vec<String>,
    /// How often each program runs without a limit and under it.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Make swap of this size on an unused zram device first; it is taken away in the end.
    #[arg(long, value_name = "SIZE")]
    zram: Option<Bytes>,
    /// Another build of isotherm, with its engine: it is asked as well, without flags, and each program also runs under its answer.
    #[arg(long, value_name = "ISOTHERM")]
    before: Option<PathBuf>,
    /// Record each program five times alone and five times next to six busy loops instead, and compare the recommendations.
    #[arg(long, conflicts_with_all = ["zram", "before"])]
    busy: bool,
    /// Ask about these shares of the recording's peak instead, with and without a calibration of this machine, and run each program
    /// at each of them and at the sizes that are recommended.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', conflicts_with_all = ["before", "busy"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=200))]
    sizes: Vec<u64>,
    /// With --sizes: how many of the runs at each size start warm, with the program's files in memory.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sizes")]
    warm: u32,
    /// With --sizes: number of further cold runs without a limit and at the sizes that are said to be enough.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sizes")]
    more: u32,
    /// With --sizes: keep the recordings and the calibration in this folder. Those that are there are used again.
    #[arg(long, value_name = "FOLDER", requires = "sizes")]
    keep: Option<PathBuf>,
    /// With --sizes: take the runs of this earlier result, and run only what it lacks.
    #[arg(long, value_name = "FILE", requires = "sizes")]
    again: Option<PathBuf>,
    /// Also write everything, each run included, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run nothing; print the tables of such files.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "zram", "before", "busy", "json", "sizes"])]
    tables: Vec<PathBuf>,
    /// Run nothing; print the tables of such a file of --sizes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "zram", "before", "busy", "json", "sizes", "tables"])]
    tables_of_sizes: Option<PathBuf>,
    /// With --tables-of-sizes: also write how much more time limits added than was said, which `isotherm advise` shows.
    #[arg(long, value_name = "FILE", requires = "tables_of_sizes")]
    fit: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm-lab native --zram 2GiB
  isotherm-lab native --program timer,pool --repeat 3 --json native.json
  isotherm-lab native --zram 2GiB --before ../old/target/release/isotherm
  isotherm-lab native --tables lab/native/runs.json
  isotherm-lab native --busy --program timer,node,java,go
  isotherm-lab native --zram 2GiB --sizes 95,90,85,80,70 --repeat 3 --json sizes.json
  isotherm-lab native --tables-of-sizes lab/native/sizes.json

Needs root, a memory cgroup hierarchy (v1 or v2), and `isotherm` with its engine next to isotherm-lab, as `make build lab` puts them. A
program whose interpreter is missing is skipped and named. Everything takes two hours on a quiet machine with two processors.";

/// All figures.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Results {
    rows: Vec<Row>,
}

/// One program.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    program: String,
    timed: Timed,
    stated: Stated,
    free: Vec<Run>,
    limited: Vec<Run>,
    /// The answer of another build, and runs under it.
    before: Option<(Stated, Vec<Run>)>,
}

/// Runs all that was asked for and prints it.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let programs = match args.program.is_empty() {
        true => PROGRAMS.iter().collect(),
        false => named(&args.program, PROGRAMS, |program| program.name, "--program")?,
    };
    if !args.tables.is_empty() {
        ui.print(tables::all(&read(&args.tables)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.tables_of_sizes {
        ui.print(sizes::tables(file, args.fit.as_deref())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let workshop = Workshop::new()?;
    if args.busy {
        let rows = advice::alone_and_busy(&programs, &workshop, ui)?;
        write_json(args.json.as_deref(), &rows)?;
        ui.print(tables::busy(&rows))?;
        return Ok(ExitCode::SUCCESS);
    }
    let groups = Groups::find()?;
    let _zram = args.zram.map(Zram::start).transpose()?;
    if !args.sizes.is_empty() {
        let turns = sizes::Turns { all: args.repeat, warm: args.warm.min(args.repeat), more: args.more };
        let earlier = args.again.as_deref().map(sizes::read).transpose()?;
        let asked = sizes::Asked { percents: args.sizes, turns, keep: args.keep, earlier, json: args.json };
        ui.print(sizes::measure(&programs, &workshop, &groups, &asked, ui)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut results = Results { rows: Vec::new() };
    for program in programs {
        match workshop.command(program) {
            Err(missing) => ui.say(format_args!("{} is skipped: {missing}", program.name)),
            Ok(command) => {
                ui.say(format_args!("{}: recording", program.name));
                let stated = advice::of(program, &command, &workshop)?;
                let ask = |isotherm: &PathBuf| advice::before(isotherm, program, &command, &workshop);
                let before = args.before.as_ref().map(ask).transpose()?;
                results.rows.push(measure(program, &command, (stated, before), &groups, args.repeat, ui)?);
                write_json(args.json.as_deref(), &results)?;
            }
        }
    }
    ui.print(tables::all(&results))?;
    Ok(ExitCode::SUCCESS)
}

/// What earlier runs wrote with `--json`.
fn read(files: &[PathBuf]) -> Result<Results, CliError> {
    let mut results = Results::default();
    for file in files {
        let failed = |error: &dyn std::fmt::Display| CliError::failed(format!("{}: {error}", file.display()));
        let text = std::fs::read(file).map_err(|error| failed(&error))?;
        let one: Results = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
        results.rows.extend(one.rows);
    }
    Ok(results)
}

/// One program, in turns without a limit and under the recommended one. A program that is to be left as it is runs free alone.
fn measure(
    program: &Program,
    command: &[String],
    (stated, before): (Stated, Option<Stated>),
    groups: &Groups,
    repeat: u32,
    ui: &Ui,
) -> Result<Row, CliError> {
    let (free, limited) = (Vec::new(), Vec::new());
    let before = before.map(|stated| (stated, Vec::new()));
    let mut row = Row { program: program.name.to_owned(), timed: program.timed, stated, free, limited, before };
    let run =
        |limit_bytes| groups.run(command, program.timed, &row.stated.files, Start::Cold, (limit_bytes, RUN_AT_MOST));
    for turn in 1..=repeat {
        ui.say(format_args!("{}: runs {turn} of {repeat}", program.name));
        row.free.push(run(None)?);
        if let Some(bytes) = row.stated.memory_bytes {
            row.limited.push(run(Some(bytes))?);
        }
        if let Some((Stated { memory_bytes: Some(bytes), .. }, runs)) = &mut row.before {
            runs.push(run(Some(*bytes))?);
        }
    }
    Ok(row)
}
