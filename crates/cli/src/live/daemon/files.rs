//! The daemon's folder in `/run`: a lock that only one daemon can hold, and its state.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use isotherm_daemon::control_loop::Status;
use serde::{Deserialize, Serialize};

use crate::error::CliError;

/// Default folder.
pub(crate) const RUN: &str = "/run/isotherm";

/// The lock of the daemon of this machine. Its file holds the PID.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, and creates the folder.
    pub(crate) fn take(folder: &Path) -> Result<Self, CliError> {
        let path = folder.join("lock");
        let failed = |error: std::io::Error| {
            let what = format!("cannot take {}", path.display());
            match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    CliError::host_cannot(format!("{what}: {error}; run it as root, or say --run-dir DIR"))
                }
                _ => CliError::failed(error).while_doing(what),
            }
        };
        DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).clone();
        let mut file = options.open(&path).map_err(failed)?;
        if file.try_lock().is_err() {
            let holder = pid_in(&mut file).map_or_else(String::new, |pid| format!(" (process {pid})"));
            return Err(CliError::host_cannot(format!(
                "a daemon is at work on this machine already{holder}: it holds {}; `isotherm daemon stop` ends it",
                path.display()
            )));
        }
        file.set_len(0).map_err(failed)?;
        write!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

fn pid_in(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok().filter(|&pid| pid > 1)
}

/// Contents of the state file, written every few seconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pid: u32,
    pub(crate) configuration: PathBuf,
    pub(crate) dry_run: bool,
    #[serde(flatten)]
    pub(crate) status: Status,
}

/// The file with the daemon's state.
#[derive(Clone, Debug)]
pub(crate) struct StatusFile {
    pub(crate) folder: PathBuf,
    pub(crate) configuration: PathBuf,
    pub(crate) dry_run: bool,
}

impl StatusFile {
    /// Writes the file atomically: readers see the whole old or new state.
    pub(crate) fn write(&self, status: &Status) -> std::io::Result<()> {
        let (configuration, dry_run) = (self.configuration.clone(), self.dry_run);
        let written = Told { pid: std::process::id(), configuration, dry_run, status: status.clone() };
        let beside = self.folder.join("status.json.new");
        std::fs::write(&beside, serde_json::to_vec_pretty(&written)?)?;
        std::fs::rename(beside, self.folder.join("status.json"))
    }

    pub(crate) fn remove(&self) {
        // It is useless without its daemon; if it cannot be removed, the next daemon overwrites it.
        let _ = std::fs::remove_file(self.folder.join("status.json"));
    }
}

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Running {
    pid: i32,
    file: File,
}

impl Running {
    /// The daemon that holds the lock of a folder.
    pub(crate) fn find(folder: &Path) -> Result<Self, CliError> {
        let none = || CliError::failed(format!("no daemon is at work: nobody holds {}", folder.join("lock").display()));
        let mut file = File::open(folder.join("lock")).map_err(|_| none())?;
        if file.try_lock_shared().is_ok() {
            return Err(none());
        }
        let pid = pid_in(&mut file).ok_or_else(none)?;
        Ok(Self { pid, file })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it still holds the lock.
    pub(crate) fn is_at_work(&self) -> bool {
        if self.file.try_lock_shared().is_err() {
            return true;
        }
        let _ = self.file.unlock();
        false
    }

    /// Sends it a signal by pidfd, so that another process with a reused PID never gets it.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) -> Result<(), CliError> {
        let failed = |error: rustix::io::Errno| {
            let what = format!("cannot signal process {}", self.pid);
            match error {
                rustix::io::Errno::PERM => CliError::host_cannot(format!("{what}: {error}; run it as root")),
                _ => CliError::failed(error).while_doing(what),
            }
        };
        let pid = rustix::process::Pid::from_raw(self.pid).ok_or_else(|| CliError::failed("it has no number"))?;
        let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).map_err(failed)?;
        if !self.is_at_work() {
            return Err(CliError::failed("the daemon has just ended"));
        }
        rustix::process::pidfd_send_signal(process, signal).map_err(failed)
    }
}

/// The state, as text and parsed.
pub(crate) fn told(folder: &Path) -> Result<(String, Told), CliError> {
    let path = folder.join("status.json");
    let failed = |error: &dyn std::fmt::Display| {
        CliError::failed(format!("cannot read {}: {error}; it is written five seconds after the start", path.display()))
    };
    let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let told = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    Ok((text, told))
}
