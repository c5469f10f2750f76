//! `isotherm daemon reload`: makes the daemon read its configuration again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::error::CliError;
use crate::live::daemon::{Answer, Ask, Heard, RUN, Running, ask, configuration, told};
use crate::ui::Ui;

/// Have the daemon read its configuration again, and say what came of it.
///
/// A configuration that is wrong is refused with what is wrong (exit code 2), and the daemon goes on as before. Sections that did not change
/// keep what they know. A daemon without a control socket gets SIGHUP, after the file was checked here.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo isotherm daemon reload")]
pub(crate) struct Args {
    /// Folder of the lock, the control socket and the state.
    #[arg(long, value_name = "DIR", default_value = RUN)]
    run_dir: PathBuf,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let daemon = Running::find(&args.run_dir)?;
    let pid = daemon.pid();
    match ask(&args.run_dir, &daemon, Ask::Reload)? {
        Heard::Answer(Answer::Taken { configuration }) => {
            ui.say(format_args!("the daemon (process {pid}) has taken {}", configuration.display()));
        }
        Heard::Answer(Answer::NotTaken { why }) => {
            return Err(CliError::usage(format!("the new configuration is refused, the old one goes on: {why}")));
        }
        Heard::NotAsked => signalled(&args.run_dir, &daemon, ui)?,
        Heard::Unknown(why) => return Err(unknown(pid, &why)),
        Heard::Answer(_) => return Err(unknown(pid, "it answered something else")),
    }
    Ok(ExitCode::SUCCESS)
}

/// The way of a daemon without a socket: its answer is not heard, so the file is checked here.
fn signalled(folder: &Path, daemon: &Running, ui: &Ui) -> Result<(), CliError> {
    let told = told(folder, daemon)?;
    configuration(&told.configuration)?;
    daemon.signal(rustix::process::Signal::HUP)?;
    ui.say(format_args!("the daemon (process {}) reads {} again", daemon.pid(), told.configuration.display()));
    Ok(())
}

fn unknown(pid: i32, why: &str) -> CliError {
    CliError::failed(format!(
        "whether the daemon (process {pid}) takes the configuration is not known: {why}; `isotherm daemon explain --since 1m` tells"
    ))
}
