//! `isotherm daemon check`: checks a live configuration, and shows what it would do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_daemon::config::Config;
use isotherm_daemon::control_loop::{foretold, lacking};
use isotherm_linux::cgroup::Hierarchy;
use isotherm_linux::{Root, Stopwatch};

use crate::error::CliError;
use crate::live::daemon::{Configuration, InForce, Machine, checksum, configuration, configuration_files};
use crate::ui::Ui;

/// Check a live configuration: unknown keys, values out of range, sections that contradict each other, groups that are protected.
///
/// Every error of the file and those of `conf.d` next to it names file, line and column, where two tables disagree both. Exit code 0:
/// `isotherm daemon run` takes it. Sections that would do nothing on this machine now are named with the reason; for that groups and
/// switches of the kernel are read, and nothing is changed. Of `min-ttl` it says whether it would have a process killed now, and which one.
/// `--no-host` leaves both out.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm daemon check
  isotherm daemon check isotherm.toml")]
pub(crate) struct Args {
    #[command(flatten)]
    configuration: Configuration,
    /// The configuration is for another machine: say nothing of this one.
    #[arg(long)]
    no_host: bool,
    /// Work on a tree of files in place of this machine.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let config = configuration(&args.configuration.file)?;
    let files = configuration_files(&args.configuration.file)?;
    let more = match files.len() {
        1 => String::new(),
        more => format!(" with {} files of conf.d", more - 1),
    };
    ui.print(format_args!(
        "{}{more}: fine; {} sections, {} of which may act\n",
        args.configuration.file.display(),
        config.nr_sections(),
        config.nr_acting(),
    ))?;
    if !args.no_host {
        let root = args.root.map_or_else(Root::default, Root::below);
        let (lacking, foretold) = of_the_host(&config, &root, args.configuration.file)?;
        foretold.iter().for_each(|words| ui.say(format_args!("on this host: {words}")));
        lacking.iter().for_each(|words| ui.warn(format_args!("on this host: {words}")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Why sections would do nothing here, and what others would do to the machine.
fn of_the_host(config: &Config, root: &Root, file: PathBuf) -> Result<(Vec<String>, Vec<String>), CliError> {
    let clock = Stopwatch::start().map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
    let in_force = InForce::new(checksum(config).into());
    let families = BTreeMap::new();
    let mut machine = Machine { root: root.clone(), clock: &clock, file, dry_run: true, in_force, families };
    let mut lacking = lacking(config, &mut machine);
    // Groups may be there, and their memory with another version.
    let of_memory = Hierarchy::find(root).err().filter(|_| !config.limits.is_empty());
    lacking.extend(of_memory.map(|error| format!("limits: {error}")));
    Ok((lacking, foretold(config, &mut machine)))
}
