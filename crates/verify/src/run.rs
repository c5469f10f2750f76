//! One run of the command in a group of its own.

use crate::files::Files;
use crate::{Size, VerifyError};
use isotherm_linux::cgroup::{Ceiling, OwnGroup, OwnGroups, Spent};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use wait4::Wait4 as _;

/// Time between two questions whether to stop.
const ASK_EACH: Duration = Duration::from_millis(50);
/// Time that processes have to end after the first one has.
const LEAVE_IN: Duration = Duration::from_secs(1);
/// Bytes of the command's messages that are kept, the last ones.
const SAID_MAX: u64 = 2000;

/// Whether the files that the program maps are in memory when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// They were dropped from the page cache before, as far as no other program maps them, and what the run reads is dropped after it: as after a
    /// boot.
    Cold,
    /// As the run before left them: as after a restart. They are charged to no group with a limit.
    Warm,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    Exit(i32),
    Signal(i32),
    /// It took longer than [`Order::at_most`], and was ended.
    TooLong,
}

/// A run to be made.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    pub command: &'a [OsString],
    /// `None`: no limit.
    pub limit: Option<(Ceiling, Size)>,
    pub start: Start,
    /// The command prints the length of each burst of its work.
    pub has_bursts: bool,
    /// A run that takes longer is ended.
    pub at_most: Duration,
}

/// What a run took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// `None`: without a limit.
    pub memory_bytes: Option<u64>,
    pub start: Start,
    pub end: End,
    pub wall_ns: u64,
    /// CPU time of the command and of those of its children for which it waited.
    pub cpu_ns: u64,
    /// Of that, in the kernel.
    pub system_ns: u64,
    /// Highest charge of its group; `None` where the kernel does not keep it.
    pub peak_bytes: Option<u64>,
    pub major_faults: u64,
    /// Processes that the kernel killed at the limit.
    pub kills: u64,
    /// Time in which all its tasks that could run waited for memory; `None` in version 1 of control groups.
    pub stalled_ns: Option<u64>,
    /// Lengths of its bursts; empty if it prints none.
    pub bursts_ns: Vec<u64>,
    /// Processes that were there after it had ended, and were ended.
    pub left_behind: usize,
    /// The end of its messages on standard error.
    #[serde(skip)]
    pub said: String,
}

impl Run {
    /// It ended by itself, with exit code 0, and nothing of it was killed.
    pub fn is_good(&self) -> bool {
        self.end == End::Exit(0) && self.kills == 0
    }

    /// What is compared: the time of all bursts, else that of the run.
    pub fn work_ns(&self) -> u64 {
        if self.bursts_ns.is_empty() { self.wall_ns } else { self.bursts_ns.iter().sum() }
    }

    /// Time in which it did not compute by itself: that in the kernel, and that of waits. Less than nothing where several threads compute at the
    /// same time; the difference between two runs is that of kernel and waits all the same. `None` of a command that prints bursts: most of
    /// its waits are its own.
    pub fn overhead_ns(&self) -> Option<i128> {
        let user_ns = self.cpu_ns.saturating_sub(self.system_ns);
        self.bursts_ns.is_empty().then(|| i128::from(self.wall_ns) - i128::from(user_ns))
    }

    /// The length that 99 of 100 bursts do not exceed; `None` without bursts.
    pub fn p99_ns(&self) -> Option<u64> {
        let mut bursts = self.bursts_ns.clone();
        bursts.sort_unstable();
        bursts.get((bursts.len() * 99).div_ceil(100).checked_sub(1)?).copied()
    }
}

/// Makes a run. `mapped` takes the files that the program maps, if it is given. That costs time, so such a run is not compared.
///
/// # Errors
/// [`VerifyError::Stopped`] if `goes_on` returns false; the group cannot be made or the command not be started; its output is no list of
/// bursts.
pub fn run(
    groups: &OwnGroups,
    order: &Order<'_>,
    goes_on: &dyn Fn() -> bool,
    mut mapped: Option<&mut Files>,
) -> Result<Run, VerifyError> {
    let group = groups.make()?;
    if let Some((ceiling, size)) = order.limit {
        group.limit(ceiling, size.bytes)?;
    }
    let cannot_keep = |error| VerifyError::io("keep the output of the command", error);
    let (mut output, mut messages) =
        (tempfile::tempfile().map_err(cannot_keep)?, tempfile::tempfile().map_err(cannot_keep)?);
    let mut command = group.command(order.command);
    command.stdin(Stdio::null()).stderr(messages.try_clone().map_err(cannot_keep)?);
    match order.has_bursts {
        true => command.stdout(output.try_clone().map_err(cannot_keep)?),
        false => command.stdout(Stdio::null()),
    };
    let cannot_start = |error| VerifyError::io(format!("start {}", order.command[0].display()), error);
    let began = Instant::now();
    let child = command.spawn().map_err(cannot_start)?;
    drop(command);
    let (sender, ended) = channel();
    std::thread::spawn(move || sender.send((child.wait4(), began.elapsed())));
    let mut is_too_long = false;
    let (waited, wall) = loop {
        match ended.recv_timeout(ASK_EACH) {
            Ok(ended) => break ended,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(cannot_start(std::io::Error::other("the thread that waits for it is gone")));
            }
        }
        if !goes_on() {
            return Err(VerifyError::Stopped);
        }
        if let Some(mapped) = mapped.as_deref_mut() {
            mapped.look_at(&group);
        }
        if began.elapsed() > order.at_most && !is_too_long {
            is_too_long = true;
            group.kill();
        }
    };
    let ended = waited.map_err(|error| VerifyError::io("wait for the command", error))?;
    let left_behind = left_behind(&group);
    let bursts_ns = if order.has_bursts && !is_too_long && ended.status.success() {
        bursts(&text_of(&mut output, u64::MAX).map_err(cannot_keep)?)?
    } else {
        Vec::new()
    };
    let Spent { peak, major_faults, kills, stalled } = group.spent();
    if order.start == Start::Cold {
        group.empty();
    }
    let cpu = ended.rusage.utime + ended.rusage.stime;
    Ok(Run {
        memory_bytes: order.limit.map(|(_, size)| size.bytes.get()),
        start: order.start,
        end: if is_too_long { End::TooLong } else { end_of(ended.status) },
        wall_ns: ns(wall),
        cpu_ns: ns(cpu),
        system_ns: ns(ended.rusage.stime),
        peak_bytes: peak.map(isotherm_units::Bytes::get),
        major_faults,
        kills,
        stalled_ns: stalled.map(isotherm_units::Duration::ns),
        bursts_ns,
        left_behind,
        said: text_of(&mut messages, SAID_MAX).map_err(cannot_keep)?,
    })
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The shell that the command replaced passes its end on as 128 and the signal where the command itself was a shell's child.
fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}

/// Members of the group some time after the command has ended.
fn left_behind(group: &OwnGroup<'_>) -> usize {
    let ended = Instant::now();
    loop {
        let left = group.processes().map_or(0, |processes| processes.len());
        if left == 0 || ended.elapsed() > LEAVE_IN {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The last `most` bytes of a file, as text.
fn text_of(file: &mut File, most: u64) -> std::io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The numbers that a command printed, one a line; anything else is an error of the command.
fn bursts(text: &str) -> Result<Vec<u64>, VerifyError> {
    let number = |line: &str| {
        let shown = || line.chars().take(60).collect();
        line.trim().parse().map_err(|_| VerifyError::NoBurst { line: shown() })
    };
    text.lines().map(number).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn good(memory_bytes: Option<u64>, wall_ms: u64) -> Run {
        Run {
            memory_bytes,
            start: Start::Warm,
            end: End::Exit(0),
            wall_ns: wall_ms * 1_000_000,
            cpu_ns: 0,
            system_ns: 0,
            peak_bytes: None,
            major_faults: 0,
            kills: 0,
            stalled_ns: None,
            bursts_ns: Vec::new(),
            left_behind: 0,
            said: String::new(),
        }
    }

    #[test]
    fn overhead_is_what_the_command_does_not_compute() {
        let of = |cpu_ms: u64, system_ms: u64| {
            Run { cpu_ns: cpu_ms * 1_000_000, system_ns: system_ms * 1_000_000, ..good(None, 1000) }.overhead_ns()
        };
        assert_eq!(of(900, 200), Some(300_000_000), "700 ms of 1000 it computes");
        assert_eq!(of(1900, 100), Some(-800_000_000), "on two processors");
        assert_eq!(Run { bursts_ns: vec![1], ..good(None, 1000) }.overhead_ns(), None);
    }

    #[test]
    fn of_a_hundred_bursts_the_second_longest_is_the_99th_percentile() {
        let run = Run { bursts_ns: (1..=100).rev().collect(), ..good(None, 1) };
        assert_eq!((run.p99_ns(), run.work_ns()), (Some(99), 5050));
        assert_eq!((good(None, 1).p99_ns(), good(None, 1).work_ns()), (None, 1_000_000));
    }

    #[test]
    fn what_is_no_number_is_named() {
        assert_eq!(bursts("12\n 7 \n").unwrap(), [12, 7]);
        assert_eq!(bursts("").unwrap(), [] as [u64; 0]);
        for text in ["12\nTraceback", "-3", "1.5", "99999999999999999999", "\u{fffd}"] {
            let error = bursts(text).unwrap_err().to_string();
            assert!(error.contains(text.lines().last().unwrap()), "{error}");
        }
    }

    #[test]
    fn the_end_of_a_long_text_is_kept() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, "a line\nthe last one\n".as_bytes()).unwrap();
        assert_eq!(text_of(&mut file, 13).unwrap(), "the last one");
        assert_eq!(text_of(&mut file, 1000).unwrap(), "a line\nthe last one");
    }
}
