//! A process that cannot be mistaken for another: its PID, its start time, and a handle that survives PID reuse
//! (docs/spec/live-linux.md#3-permissions-and-process-life-cycle).

mod family;
mod running;
mod victim;
pub(crate) use crate::{LiveError, Root, sys};
use isotherm_texts::stat::Stat;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

pub use family::{Changes, Family, Member};
pub use running::{Running, largest, running, user_number};
pub use victim::{Victim, victim};

/// A live process, with the program that it ran when it was opened.
#[derive(Debug)]
pub struct Process {
    root: Root,
    pid: u32,
    start_time: u64,
    name: String,
    /// Start address of the program's code; it reveals another program below a root of files, where there is no handle.
    code_start: u64,
    /// `None` below a root of files.
    pidfd: Option<OwnedFd>,
    /// It belongs to the address space at the time of opening, and reads 0 bytes once that space has ended.
    pagemap: File,
}

/// Current state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs the same program as when it was opened.
    Same,
    /// It runs another program (`execve`): earlier addresses are invalid now.
    OtherProgram,
    /// The process has ended, reaped or not; the PID may be reused by now.
    Ended,
}

impl Process {
    /// Opens the process with this PID.
    ///
    /// # Errors
    /// [`LiveError::Gone`] if there is none, or it has ended; [`LiveError::Refused`] if it can never be monitored: a kernel thread, a
    /// thread that is no process, a process that this user may not read; [`LiveError::Io`], [`LiveError::Strange`],
    /// [`LiveError::NotHere`].
    pub fn open(root: &Root, pid: u32) -> Result<Self, LiveError> {
        // The handle comes first: later reads are of the same process if the handle is still alive at the end.
        let pidfd = if root.is_real() { Some(open_pidfd(root, pid)?) } else { None };
        let stat = read_stat(root, pid)?;
        if stat.has_ended() || stat.is_exiting() {
            return Err(ended(pid, &stat.name));
        }
        if stat.is_kernel_thread() {
            return Err(LiveError::Refused(format!(
                "process {pid} ({}) is a kernel thread, which has no memory of its own: name a program's process",
                stat.name
            )));
        }
        let path = root.path(format!("/proc/{pid}/pagemap"));
        let pagemap = File::open(&path).map_err(|error| {
            // An exiting process has no address space, which appears as a lack of rights.
            let has_ended = read_stat(root, pid).map_or(true, |now| now.has_ended() || now.is_exiting());
            if has_ended { ended(pid, &stat.name) } else { cannot_open(&path, error, pid, &stat.name) }
        })?;
        let process = Self {
            root: root.clone(),
            pid,
            start_time: stat.start_time,
            name: stat.name.clone(),
            code_start: stat.code_start,
            pidfd,
            pagemap,
        };
        process.check()?;
        Ok(process)
    }

    /// PID in this PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Name of the program when it was opened, at most 15 bytes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Present state of the process. Check before each round of actions, and after reads that must come from one program.
    pub fn life(&self) -> Life {
        if self.pidfd.as_ref().is_some_and(sys::has_ended) {
            return Life::Ended;
        }
        let Ok(stat) = read_stat(&self.root, self.pid) else { return Life::Ended };
        if stat.has_ended() || stat.start_time != self.start_time {
            return Life::Ended;
        }
        // On a real machine, the pagemap of the old address space reads empty; below a root of files, the start of its code differs.
        let is_given_up = match &self.pidfd {
            Some(_) => matches!(self.pagemap.read_at(&mut [0; 8], 0), Ok(0)),
            None => stat.code_start != self.code_start,
        };
        match (is_given_up, &self.pidfd) {
            (false, _) => Life::Same,
            // An exit also frees the address space, a moment before the handle shows it.
            (true, Some(pidfd)) if sys::has_ended(pidfd) || self.is_exiting() => Life::Ended,
            (true, _) => Life::OtherProgram,
        }
    }

    /// Whether the process's address space has ended.
    fn is_exiting(&self) -> bool {
        read_stat(&self.root, self.pid).map_or(true, |stat| stat.has_ended() || stat.is_exiting())
    }

    /// Checks that it lives and runs the same program as when it was opened.
    ///
    /// # Errors
    /// [`LiveError::Gone`].
    pub fn check(&self) -> Result<(), LiveError> {
        match self.life() {
            Life::Same => Ok(()),
            Life::Ended => Err(self.gone()),
            Life::OtherProgram => Err(LiveError::Gone(format!(
                "process {} ({}) runs another program now: open it anew to watch that",
                self.pid, self.name
            ))),
        }
    }

    /// Reads one of its files below `/proc/PID`, checked to belong to the program that it ran when it was opened.
    ///
    /// # Errors
    /// [`LiveError::Gone`]; [`LiveError::Refused`] if it is no longer readable; [`LiveError::Io`].
    pub fn read(&self, file: &str) -> Result<String, LiveError> {
        let text = self.root.read(format!("/proc/{}/{file}", self.pid));
        self.check()?;
        text.map_err(|error| match error {
            LiveError::Io { path, source, .. } => cannot_open(&path, source, self.pid, &self.name),
            other => other,
        })
    }

    /// Writes to one of its files below `/proc/PID`. Success proves nothing: call [`check`](Self::check) again.
    ///
    /// # Errors
    /// [`LiveError::Gone`]; [`LiveError::Io`].
    pub(crate) fn write(&self, file: &str, text: &str) -> Result<(), LiveError> {
        self.check()?;
        self.root.write(format!("/proc/{}/{file}", self.pid), text)?;
        self.check()
    }

    /// The path of one of its files, for messages.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root.path(format!("/proc/{}/{file}", self.pid))
    }

    /// Major page faults so far.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub fn major_faults(&self) -> Result<u64, LiveError> {
        self.check()?;
        read_stat(&self.root, self.pid).map(|stat| stat.major_faults)
    }

    /// The handle for calls; `None` below a root of files.
    pub(crate) fn pidfd(&self) -> Option<&OwnedFd> {
        self.pidfd.as_ref()
    }

    pub(crate) fn pagemap(&self) -> &File {
        &self.pagemap
    }

    pub(crate) fn gone(&self) -> LiveError {
        ended(self.pid, &self.name)
    }
}

pub(crate) fn read_stat(root: &Root, pid: u32) -> Result<Stat, LiveError> {
    let path = format!("/proc/{pid}/stat");
    let text = root.read(&path).map_err(|error| match &error {
        // ESRCH comes if it ends between the opening of the file and the reading.
        LiveError::Io { source, .. } if error.is_missing() || source.raw_os_error() == Some(libc::ESRCH) => {
            LiveError::Gone(format!("there is no process {pid}"))
        }
        _ => error,
    })?;
    let stat = Stat::parse(&text).filter(|stat| stat.pid == pid);
    stat.ok_or_else(|| LiveError::strange(root.path(path), format!("`{}`", isotherm_texts::shortened(text.trim()))))
}

fn open_pidfd(root: &Root, pid: u32) -> Result<OwnedFd, LiveError> {
    sys::open_pidfd(pid).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            LiveError::NotHere { what: "a handle of a process", needs: "Linux 5.3 or later (`pidfd_open`)".to_owned() }
        }
        Some(libc::EINVAL | libc::ENOENT) if read_stat(root, pid).is_ok() => LiveError::Refused(format!(
            "{pid} is a thread, not a process: name the process it belongs to (`Tgid` in /proc/{pid}/status)"
        )),
        Some(libc::ESRCH | libc::EINVAL | libc::ENOENT) => LiveError::Gone(format!("there is no process {pid}")),
        _ => LiveError::io("open a handle of", &root.path(format!("/proc/{pid}")), error),
    })
}

fn cannot_open(path: &std::path::Path, error: io::Error, pid: u32, name: &str) -> LiveError {
    match error.raw_os_error() {
        Some(libc::ESRCH) => ended(pid, name),
        Some(libc::EACCES | libc::EPERM) => LiveError::Refused(format!(
            "process {pid} ({name}) may not be read here ({} says {error}): run as its user and group, or with CAP_SYS_PTRACE",
            path.display()
        )),
        _ if error.kind() == io::ErrorKind::NotFound && !path.parent().is_some_and(std::path::Path::exists) => {
            ended(pid, name)
        }
        _ => LiveError::io("open", path, error),
    }
}

fn ended(pid: u32, name: &str) -> LiveError {
    LiveError::Gone(format!("process {pid} ({name}) has ended"))
}
