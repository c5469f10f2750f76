//! The daemon's folder in `/run`: a lock that only one daemon can hold, and its state.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use isotherm_daemon::control_loop::Status;
use isotherm_texts::stat::Stat;
use isotherm_units::Duration;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::live::private_file;

/// Default folder.
pub(crate) const RUN: &str = "/run/isotherm";

/// The lock of the daemon of this machine. Its file holds PID and start time of the daemon; only its owner can open it, and so hold it.
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
        if private_file::is_shared(&std::fs::metadata(folder).map_err(failed)?) {
            return Err(CliError::usage(format!(
                "{} belongs to another user, or can be written by others: `chown`, `chmod go-w` it, or say --run-dir DIR",
                folder.display()
            )));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = private_file::open(&options, &path).map_err(failed)?;
        // Whoever can open it can hold it, and keep the daemon from starting.
        file.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
        if file.try_lock().is_err() {
            let path = path.display();
            return Err(CliError::host_cannot(match Holder::read(&mut file).filter(Holder::is_alive) {
                Some(Holder { pid, .. }) => format!(
                    "a daemon is at work on this machine already (process {pid}): it holds {path}; `isotherm daemon stop` ends it"
                ),
                None => format!("{path} is locked by a program that is no daemon: remove the file, and start again"),
            }));
        }
        file.set_len(0).map_err(failed)?;
        let pid = std::process::id();
        let start = i32::try_from(pid).ok().and_then(start_time).unwrap_or_default();
        write!(file, "{pid} {start}").map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// The process that wrote the lock file.
#[derive(Clone, Copy, Debug)]
struct Holder {
    pid: i32,
    /// Start time in clock ticks since boot: another process with the same PID started at another time.
    start: u64,
}

impl Holder {
    fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.take(64).read_to_string(&mut text).ok()?;
        let (pid, start) = text.trim().split_once(' ')?;
        Some(Self { pid: pid.parse().ok().filter(|&pid| pid > 1)?, start: start.parse().ok()? })
    }

    fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }
}

/// Start time of a process, if there is one with this PID.
fn start_time(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Stat::parse(&text).map(|stat| stat.start_time)
}

/// Contents of the state file, written every few seconds, and of an answer of the control socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pid: u32,
    pub(crate) configuration: PathBuf,
    pub(crate) dry_run: bool,
    #[serde(flatten)]
    pub(crate) status: Status,
    /// How long ago it was written; `None` if it is of now, or the clock was set back since.
    #[serde(skip)]
    pub(crate) age: Option<Duration>,
}

/// The file with the daemon's state.
#[derive(Clone, Debug)]
pub(crate) struct StatusFile {
    pub(crate) folder: PathBuf,
    pub(crate) configuration: PathBuf,
    pub(crate) dry_run: bool,
}

impl StatusFile {
    /// The state, as others get it.
    pub(crate) fn told(&self, status: &Status) -> Told {
        let (configuration, dry_run) = (self.configuration.clone(), self.dry_run);
        Told { pid: std::process::id(), configuration, dry_run, status: status.clone(), age: None }
    }

    /// Writes the file atomically: readers see the whole old or new state.
    pub(crate) fn write(&self, told: &Told) -> std::io::Result<()> {
        let new = self.folder.join("status.json.new");
        // What is left of an earlier write, or a link in its place, is not written to.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(told)?)?;
        std::fs::rename(new, self.folder.join("status.json"))
    }

    pub(crate) fn remove(&self) {
        // It is useless without its daemon; if it cannot be removed, the next daemon overwrites it.
        let _ = std::fs::remove_file(self.folder.join("status.json"));
    }
}

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Running {
    holder: Holder,
    file: File,
}

impl Running {
    /// The daemon that holds the lock of a folder.
    pub(crate) fn find(folder: &Path) -> Result<Self, CliError> {
        let path = folder.join("lock");
        let none = || CliError::failed(format!("no daemon is at work: no process holds {}", path.display()));
        let mut file =
            private_file::open(OpenOptions::new().read(true), &path).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => none(),
                std::io::ErrorKind::PermissionDenied => CliError::host_cannot(format!(
                    "whether a daemon is at work cannot be seen: {}: {error}; run it as root",
                    path.display()
                )),
                _ => CliError::failed(error).while_doing(format!("cannot read {}", path.display())),
            })?;
        if file.try_lock_shared().is_ok() {
            return Err(none());
        }
        let holder = Holder::read(&mut file).filter(Holder::is_alive);
        let stranger = || {
            CliError::failed(format!(
                "no daemon is at work: {} is locked by a program that is no daemon",
                path.display()
            ))
        };
        Ok(Self { holder: holder.ok_or_else(stranger)?, file })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.holder.pid
    }

    /// Whether that process still holds the lock.
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
            let what = format!("cannot signal process {}", self.holder.pid);
            match error {
                rustix::io::Errno::PERM => CliError::host_cannot(format!("{what}: {error}; run it as root")),
                _ => CliError::failed(error).while_doing(what),
            }
        };
        let pid =
            rustix::process::Pid::from_raw(self.holder.pid).ok_or_else(|| CliError::failed("it has no number"))?;
        let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).map_err(failed)?;
        // The handle is of the process that has the number now.
        if !self.holder.is_alive() || !self.is_at_work() {
            return Err(CliError::failed("the daemon has just ended"));
        }
        rustix::process::pidfd_send_signal(process, signal).map_err(failed)
    }
}

/// The state that a daemon wrote.
pub(crate) fn told(folder: &Path, daemon: &Running) -> Result<Told, CliError> {
    let path = folder.join("status.json");
    let failed = |error: &dyn std::fmt::Display| {
        CliError::failed(format!("cannot read {}: {error}; it is written five seconds after the start", path.display()))
    };
    let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let mut told: Told = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let written = std::fs::metadata(&path).and_then(|data| data.modified()).map_err(|error| failed(&error))?;
    let age = written.elapsed().ok().and_then(|age| u64::try_from(age.as_nanos()).ok());
    told.age = age.map(Duration::from_ns);
    if i64::from(told.pid) != i64::from(daemon.pid()) {
        return Err(failed(&format!("it is of process {}, an earlier daemon", told.pid)));
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    fn refused<T: std::fmt::Debug>(result: Result<T, CliError>) -> String {
        result.unwrap_err().to_string()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_daemon_is_found_by_number_and_start_time() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refused(Running::find(folder.path())).contains("no process holds"));
        let lock = Lock::take(folder.path()).unwrap();
        let running = Running::find(folder.path()).unwrap();
        assert_eq!(running.pid().unsigned_abs(), std::process::id());
        assert!(refused(Lock::take(folder.path())).contains("a daemon is at work on this machine already"));
        drop(lock);
        assert!(refused(Running::find(folder.path())).contains("no process holds"));
    }

    /// The number in the file is ours, and the start time is another's: a signal would end the test.
    #[test]
    fn another_process_with_the_number_is_never_signalled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, format!("{} 1", std::process::id())).unwrap();
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        assert!(refused(Running::find(folder.path())).contains("a program that is no daemon"));
        assert!(refused(Lock::take(folder.path())).contains("a program that is no daemon"));
        let holder = Holder { pid: std::process::id().cast_signed(), start: 1 };
        let running = Running { holder, file: File::open(&path).unwrap() };
        assert!(refused(running.signal(rustix::process::Signal::TERM)).contains("just ended"));
    }

    #[test]
    fn nobody_else_can_hold_the_lock_or_give_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(Lock::take(folder.path()).unwrap());
        assert_eq!(mode(&path), 0o600);
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(refused(Lock::take(folder.path())).contains("can be written by others"));
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(refused(Lock::take(folder.path())).contains("cannot take"));
    }

    #[test]
    fn a_link_in_place_of_the_new_state_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "of root").unwrap();
        std::os::unix::fs::symlink(&precious, folder.path().join("status.json.new")).unwrap();
        let file =
            StatusFile { folder: folder.path().to_owned(), configuration: PathBuf::from("c.toml"), dry_run: false };
        let status = serde_json::json!({
            "since_start_ns": 0, "paused": null, "stretch": 1, "cpu_ns": 0, "resident_bytes": null,
            "longest_turn_ns": 0, "sections": []
        });
        file.write(&file.told(&serde_json::from_value(status).unwrap())).unwrap();
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "of root");
        assert_eq!(mode(&folder.path().join("status.json")), 0o600);
        let _lock = Lock::take(folder.path()).unwrap();
        let running = Running::find(folder.path()).unwrap();
        assert!(told(folder.path(), &running).is_ok());
        let other = Running { holder: Holder { pid: 1, ..running.holder }, file: running.file };
        assert!(refused(told(folder.path(), &other)).contains("an earlier daemon"));
    }
}
