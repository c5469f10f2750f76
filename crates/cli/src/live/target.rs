//! Target of a live verb: a process, a group, a command that it starts, or physical memory.

use std::ffi::OsString;
use std::process::{Child, Command};

use isotherm_linux::{Family, Process, Root};

use super::to_cli;
use crate::error::CliError;

/// Flattened into the arguments of verbs that watch.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "What to watch, live")]
pub(crate) struct TargetArgs {
    /// A running process, with its children.
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "physical"])]
    pub(crate) pid: Option<u32>,
    /// All processes of a control group (version 2) and of those below it: its path as in /proc/PID/cgroup or below /sys/fs/cgroup, or the
    /// name of a unit of systemd, or the number of a container.
    #[arg(long, value_name = "GROUP", conflicts_with = "physical")]
    pub(crate) cgroup: Option<String>,
    /// All of physical memory.
    #[arg(long)]
    pub(crate) physical: bool,
}

/// The requested target.
#[derive(Debug)]
pub(crate) enum Target {
    /// Processes.
    Family {
        family: Family,
        /// Name for titles and files.
        name: String,
        /// The program that was started for it.
        child: Option<Started>,
    },
    /// Physical memory.
    Physical,
}

/// A program started for monitoring. It is not killed if monitoring ends first.
#[derive(Debug)]
pub(crate) struct Started(Child);

impl Started {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Exit status of the program, if it has ended.
    pub(crate) fn wait(&mut self) -> Option<std::process::ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

impl TargetArgs {
    /// Whether a target was given.
    pub(crate) fn is_given(&self) -> bool {
        self.pid.is_some() || self.cgroup.is_some() || self.physical
    }

    /// Finds the target; starts a command.
    pub(crate) fn open(&self, root: &Root, command: &[OsString]) -> Result<Target, CliError> {
        if self.physical {
            return Ok(Target::Physical);
        }
        if let Some(pid) = self.pid {
            // Targets that can never be monitored are refused here, with the cause.
            let process = Process::open(root, pid).map_err(to_cli)?;
            let name = process.name().to_owned();
            let family = Family::of_process(root, pid).map_err(to_cli)?;
            return Ok(Target::Family { family, name, child: None });
        }
        if let Some(path) = &self.cgroup {
            let family = Family::of_group(root, path).map_err(to_cli)?;
            return Ok(Target::Family { family, name: path.trim_matches('/').to_owned(), child: None });
        }
        let Some((program, arguments)) = command.split_first() else {
            return Err(CliError::usage("nothing to watch: give --pid, --cgroup, --physical, or a command after --"));
        };
        let started = Command::new(program).args(arguments).spawn();
        let child = Started(
            started
                .map_err(|error| CliError::failed(format!("cannot start `{}`: {error}", program.to_string_lossy())))?,
        );
        let family = Family::of_process(root, child.pid()).map_err(to_cli)?;
        let name = std::path::Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        Ok(Target::Family { family, name, child: Some(child) })
    }
}
