//! `isotherm run`: the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_daemon::steer::{Ended, steer};
use isotherm_linux::{LiveHost, Root, Stopwatch};
use isotherm_units::Duration;

use crate::error::CliError;
use crate::live::OwnCpu;
use crate::live::daemon::{AUDIT, Audit, Configuration, DaemonClock, Lock, Machine, RUN, StatusFile, configuration};
use crate::ui::Ui;

/// Watch and steer this machine as a live configuration says, until it is stopped.
///
/// Sections observe unless they say enable = true: they tell what they would do, and change nothing but what watching itself needs. With
/// --dry-run none acts whatever the file says. What acts is written down before it is done, is read back after it, and pauses while memory is
/// short or the file /run/isotherm/stop is there. SIGTERM and Ctrl-C end it between two pieces of work, SIGHUP has it read its configuration
/// anew. One daemon runs on a machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo isotherm run --dry-run isotherm.toml
  sudo isotherm run
  sudo isotherm run --for 1h isotherm.toml")]
pub(crate) struct Args {
    #[command(flatten)]
    configuration: Configuration,
    /// Decide and tell, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// End after this time [default: when it is stopped].
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Duration>,
    /// Folder of the lock and the state.
    #[arg(long, value_name = "DIR", default_value = RUN)]
    run_dir: PathBuf,
    /// A line of JSON for each thing that it did.
    #[arg(long, value_name = "FILE", default_value = AUDIT)]
    audit: PathBuf,
    /// Work on a tree of files in place of this machine.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let file = args.configuration.file;
    let mut config = configuration(&file)?;
    if args.dry_run {
        config = config.observing();
    }
    if config.generations.is_empty() {
        return Err(CliError::usage(format!(
            "{} has no section: there is nothing to do; add [[generations]]",
            file.display()
        )));
    }
    let root = args.root.map_or_else(Root::default, Root::below);
    let clock =
        Stopwatch::start_reloadable().map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
    let _lock = Lock::take(&args.run_dir)?;
    let status = StatusFile { folder: args.run_dir, configuration: file.clone(), dry_run: args.dry_run };
    let mut audit = Audit::open(&args.audit, status.clone(), ui)?;
    let mut world = Machine { root: root.clone(), clock: &clock, file, dry_run: args.dry_run };
    let mut host = LiveHost::new(root);
    let steered = steer(&config, args.length, &mut host, &mut world, &mut DaemonClock(&clock), &mut OwnCpu, &mut audit);
    status.remove();
    match steered.map_err(CliError::usage)?.end {
        Ended::Stopped | Ended::TimeOver => Ok(ExitCode::SUCCESS),
        Ended::TooLarge(why) => Err(CliError::failed(why)),
    }
}
