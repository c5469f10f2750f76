//! `isotherm daemon replay`: replays a tape of the daemon.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_daemon::config::Config;
use isotherm_daemon::control_loop::{Environment, steer};
use isotherm_daemon::tape::{NoHost, Played, Tape, Taped};
use isotherm_units::Duration;

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::daemon::configuration;
use crate::ui::Ui;

/// A larger file is no tape that fits into memory.
const BYTES_MAX: u64 = 4 << 30;

/// Play a tape of the daemon (`isotherm daemon run --tape FILE`): the same loop with the recorded answers of the machine, without the
/// machine. It must come to the same decisions.
///
/// With --config OTHER it runs with another configuration, up to the first call or line that differs: after that the tape does not hold the
/// answers of the machine.
///
/// Exit code 0: all decisions are the same, or another configuration was asked for; 1: they are not.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm daemon replay isotherm.tape
  isotherm daemon replay isotherm.tape --config other.toml
  isotherm daemon replay isotherm.tape --format json")]
pub(crate) struct Args {
    /// The tape.
    tape: PathBuf,
    /// Configuration to run in place of the recorded one.
    #[arg(long, value_name = "CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let text = read(&args.tape)?;
    let named = |error: &dyn std::fmt::Display| CliError::failed(format!("{}: {error}", args.tape.display()));
    let (header, tape) = Tape::read(&text).map_err(|error| named(&error))?;
    let other = args.config.as_deref().map(configuration).transpose()?;
    let config = other.as_ref().unwrap_or(&header.config);
    config.check().map_err(|error| named(&format_args!("its configuration: {}: {}", error.key, error.message)))?;
    let played = play(config, header.length, &tape).map_err(|why| named(&why))?;
    if args.format.format == Format::Json {
        let json = serde_json::to_string_pretty(&played).map_err(CliError::failed)?;
        ui.print_data(format_args!("{json}\n"))?;
    } else {
        ui.print(words(&played, other.is_some()))?;
    }
    let is_same = played.difference.is_none();
    Ok(if is_same || other.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the loop with a tape in place of the machine.
///
/// # Errors
/// The configuration cannot be run, in words.
pub(super) fn play(config: &Config, length: Option<Duration>, tape: &Tape) -> Result<Played, String> {
    let [mut world, mut knobs, mut clock, mut meter, mut log, mut host] = [NoHost; 6];
    let outside = Environment {
        world: &mut Taped::new(&mut world, tape),
        knobs: &mut Taped::new(&mut knobs, tape),
        clock: &mut Taped::new(&mut clock, tape),
        meter: &mut Taped::new(&mut meter, tape),
        log: &mut Taped::new(&mut log, tape),
    };
    steer(config, length, &mut Taped::new(&mut host, tape), outside).map_err(|error| error.to_string())?;
    Ok(tape.played())
}

fn read(path: &Path) -> Result<String, CliError> {
    let named = |error: std::io::Error| CliError::failed(error).while_doing(format!("cannot read {}", path.display()));
    let bytes = std::fs::metadata(path).map_err(named)?.len();
    if bytes > BYTES_MAX {
        return Err(CliError::failed(format!("{} has {bytes} bytes: no tape has more than 4 GiB", path.display())));
    }
    std::fs::read_to_string(path).map_err(named)
}

fn words(played: &Played, is_other: bool) -> String {
    let so_far = format!("calls: {}, of which lines of the audit: {}", played.calls, played.lines);
    match &played.difference {
        None if played.left == 0 => format!("the same decisions; {so_far}\n"),
        None => format!("the same decisions as far as the replay went; {so_far}; not played: {}\n", played.left),
        Some(difference) => format!(
            "{} at line {} of the tape:\n  tape:   {}\n  replay: {}\nthe same until then; {so_far}\n",
            if is_other { "the first difference is" } else { "not the same" },
            difference.line,
            difference.tape,
            difference.replay
        ),
    }
}
