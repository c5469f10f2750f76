//! `isotherm daemon stop`: ends the daemon.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::live::daemon::{Ask, Heard, RUN, Running, ask};
use crate::ui::Ui;

/// End the daemon, and wait until it has ended.
///
/// It is asked at its control socket, or by SIGTERM where there is none. It ends between two pieces of work, within two seconds unless the kernel holds it in a call.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo isotherm daemon stop")]
pub(crate) struct Args {
    /// Folder of the lock, the control socket and the state.
    #[arg(long, value_name = "DIR", default_value = RUN)]
    run_dir: PathBuf,
}

/// Longer than any piece of work that the kernel does not hold up.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let daemon = Running::find(&args.run_dir)?;
    let asked = Instant::now();
    match ask(&args.run_dir, &daemon, Ask::Stop)? {
        Heard::Answer(_) => {}
        Heard::Unknown(_) if !daemon.is_at_work() => {}
        Heard::NotAsked | Heard::Unknown(_) => daemon.signal(rustix::process::Signal::TERM)?,
    }
    while daemon.is_at_work() {
        if asked.elapsed() > PATIENCE {
            return Err(CliError::failed(format!(
                "process {} has not ended within {} s: the kernel holds it in a call; it ends after that",
                daemon.pid(),
                PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    ui.say(format_args!("the daemon (process {}) has ended", daemon.pid()));
    Ok(ExitCode::SUCCESS)
}
