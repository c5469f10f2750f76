//! The system calls of this crate, all through safe interfaces so far.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, Mode, OFlags, access};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, waitid};

/// Whether this process may execute the file.
pub(crate) fn may_execute(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}

/// Whether executing the file grants capabilities (capabilities(7)).
pub(crate) fn has_capabilities(path: &Path) -> bool {
    let mut nothing: [u8; 0] = [];
    rustix::fs::getxattr(path, "security.capability", &mut nothing).is_ok()
}

/// Makes a FIFO and opens it for reading. It is open for writing too, so that it does not reach its end when its
/// writers pause.
pub(crate) fn make_fifo(path: &Path) -> io::Result<File> {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR)?;
    let fifo = rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    // A larger buffer lets the program continue while rows are being written; the default also works.
    let _ = rustix::pipe::fcntl_setpipe_size(&fifo, 1 << 20);
    Ok(File::from(fifo))
}

/// Waits until the file is readable, for at most `milliseconds`. A signal ends the wait.
pub(crate) fn wait_readable(file: impl AsFd, milliseconds: u32) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(milliseconds.min(999)) * 1_000_000 };
    let mut descriptors = [PollFd::new(&file, PollFlags::IN)];
    match poll(&mut descriptors, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A handle of a process that stays valid when its PID is reused; `None` if there is no such process.
///
/// # Errors
/// The process cannot be opened although it may exist: this process has too many open files.
pub(crate) fn open_process(pid: u32) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => Ok(Some(process)),
        Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM)
            if rustix::process::test_kill_process(pid) != Err(Errno::SRCH) =>
        {
            Err(Errno::MFILE.into())
        }
        Err(_) => Ok(None),
    }
}

/// Whether the process behind a handle has ended, reaped or not.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    wait_readable(process, 0).unwrap_or(true)
}

/// Whether a child of this process has ended; it is not reaped. Needs no open file.
pub(crate) fn child_has_ended(pid: u32) -> io::Result<bool> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(true) };
    match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT) {
        Ok(status) => Ok(status.is_some()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sends a signal by number; an ended process is ignored.
pub(crate) fn send_signal(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Kills a process that leads its group, and the whole group.
pub(crate) fn kill_group(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
}

/// Effective user id of this process.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a Ctrl-C of the terminal reaches this process and the program alike: both are its foreground.
pub(crate) fn shares_terminal() -> bool {
    // `getpgrp` of rustix asserts that there is one; in a new PID namespace the group is outside, and its number 0.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let Some(group) = group_of(&stat) else { return false };
    let of = |stream: &dyn AsFd| rustix::termios::tcgetpgrp(stream.as_fd()) == Ok(group);
    of(&io::stdin()) || of(&io::stderr()) || of(&io::stdout())
}

/// System, release and machine, as in `uname`.
pub(crate) fn kernel() -> String {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine()))
}

/// `pgrp` of proc_pid_stat(5); `None` if the group is outside the PID namespace.
fn group_of(stat: &str) -> Option<Pid> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(2)?.parse().ok().filter(|&group| group > 0).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_group_is_read_or_is_outside() {
        assert_eq!(group_of("12 (a b) c) S 1 77 77 0"), Pid::from_raw(77));
        for stat in ["", "12 (x) S 1", "3 (x) S 1 0 0 0", "3 (x) S 1 -5 0 0", "3 (x) S 1 x"] {
            assert_eq!(group_of(stat), None, "{stat}");
        }
    }
}
