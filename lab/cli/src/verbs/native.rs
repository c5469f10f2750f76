//! `isotherm-lab native`: programs on this machine under the limits that `isotherm advise` recommends, next to what it states.

mod advice;
mod group;
mod programs;
mod runs;
mod swap;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_terminal::{CliError, Ui};
use isotherm_units::Bytes;
use serde::Serialize;

use super::asked::{named, write_json};
use advice::Stated;
use group::Groups;
use programs::{PROGRAMS, Program, Workshop};
use runs::Run;
use swap::Zram;

/// Run programs on this machine under the memory that `isotherm advise` recommends, and compare.
///
/// Each program is recorded, `isotherm advise --here` is asked, and the program runs in a memory cgroup of its own: without a limit and
/// under the recommended one, in turns. The programs wait most of the time and print how long each of their bursts of work took.
/// Prints a table in Markdown.
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
    /// Record each program five times alone and five times next to six busy loops instead, and compare the recommendations.
    #[arg(long, conflicts_with = "zram")]
    busy: bool,
    /// Also write everything, each run included, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm-lab native --zram 2GiB
  isotherm-lab native --program timer,pool --repeat 3 --json native.json
  isotherm-lab native --busy --program timer,node,java,go

Needs root, a memory cgroup hierarchy (v1 or v2), and `isotherm` with its engine next to isotherm-lab, as `make build lab` puts them. A
program whose interpreter is missing is skipped and named. Everything takes an hour on a quiet machine with two processors.";

/// All figures.
#[derive(Debug, Serialize)]
struct Results {
    rows: Vec<Row>,
}

/// One program.
#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    stated: Stated,
    free: Vec<Run>,
    limited: Vec<Run>,
}

/// Runs all that was asked for and prints it.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let programs = match args.program.is_empty() {
        true => PROGRAMS.iter().collect(),
        false => named(&args.program, PROGRAMS, |program| program.name, "--program")?,
    };
    let workshop = Workshop::new()?;
    if args.busy {
        let rows = advice::alone_and_busy(&programs, &workshop, ui)?;
        write_json(args.json.as_deref(), &rows)?;
        ui.print(tables::busy(&rows))?;
        return Ok(ExitCode::SUCCESS);
    }
    let groups = Groups::find()?;
    let _zram = args.zram.map(Zram::start).transpose()?;
    let mut results = Results { rows: Vec::new() };
    for program in programs {
        match workshop.command(program) {
            Err(missing) => ui.say(format_args!("{} is skipped: {missing}", program.name)),
            Ok(command) => {
                ui.say(format_args!("{}: recording", program.name));
                let stated = advice::of(program, &command, &workshop)?;
                results.rows.push(measure(program, &command, stated, &groups, args.repeat, ui)?);
                write_json(args.json.as_deref(), &results)?;
            }
        }
    }
    ui.print(tables::services(&results))?;
    Ok(ExitCode::SUCCESS)
}

/// One program, in turns without a limit and under the recommended one. A program that is to be left as it is runs free alone.
fn measure(
    program: &Program,
    command: &[String],
    stated: Stated,
    groups: &Groups,
    repeat: u32,
    ui: &Ui,
) -> Result<Row, CliError> {
    let mut row = Row { program: program.name, stated, free: Vec::new(), limited: Vec::new() };
    for turn in 1..=repeat {
        ui.say(format_args!("{}: runs {turn} of {repeat}", program.name));
        row.free.push(groups.run(command, &row.stated.files, None)?);
        if let Some(bytes) = row.stated.memory_bytes {
            row.limited.push(groups.run(command, &row.stated.files, Some(bytes))?);
        }
    }
    Ok(row)
}
