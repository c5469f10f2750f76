//! State shared by the processes of a replay: the turn, and the position in the script.

use isotherm_guest::script::{CONDUCTOR, PROCESSES_MAX};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::sys;

/// State in memory shared by all processes of a replay. All zero at first, which means process 0's turn, so set the turn before the first
/// process starts.
pub(crate) struct Control {
    /// Index of the process whose turn it is.
    turn: AtomicU32,
    /// Next operation.
    operation: AtomicU64,
    /// Process ids by index; 0 before the process was started.
    pids: [AtomicI32; PROCESSES_MAX],
    /// 1 if a process failed; the message is on the console.
    failed: AtomicU32,
    /// Bytes of the players' own memory; `extra`: the last addition to the limit.
    own: AtomicU64,
    extra: AtomicU64,
    /// Number of processes whose memory is freed.
    ended: AtomicU32,
}

impl Control {
    /// The process whose turn it is.
    pub(crate) fn turn(&self) -> u16 {
        u16::try_from(self.turn.load(Ordering::Acquire)).unwrap_or(CONDUCTOR)
    }
    /// Next operation.
    pub(crate) fn operation(&self) -> usize {
        usize::try_from(self.operation.load(Ordering::Acquire)).unwrap_or(usize::MAX)
    }
    /// Gives the turn to `process`, at `operation`.
    pub(crate) fn pass(&self, process: u16, operation: usize) {
        self.operation.store(operation as u64, Ordering::Release);
        self.turn.store(u32::from(process), Ordering::Release);
        sys::wake_all(&self.turn);
    }
    /// Waits for the turn of `process`; `false` if it did not come in time.
    pub(crate) fn wait(&self, process: u16, longest: Duration) -> bool {
        let turn = self.turn.load(Ordering::Acquire);
        if turn != u32::from(process) {
            sys::wait_while(&self.turn, turn, longest);
        }
        self.turn() == process
    }
    /// Notes the position of a process, for the report of its death.
    pub(crate) fn at(&self, operation: usize) {
        self.operation.store(operation as u64, Ordering::Relaxed);
    }
    /// Process id of `process`, if it was started.
    pub(crate) fn pid(&self, process: u16) -> Option<i32> {
        let pid = self.pids.get(usize::from(process))?.load(Ordering::Acquire);
        (pid != 0).then_some(pid)
    }
    /// Notes a new process.
    pub(crate) fn started(&self, process: u16, pid: i32) {
        self.pids[usize::from(process)].store(pid, Ordering::Release);
    }
    /// Notes that a process failed, and gives the turn back.
    pub(crate) fn fail(&self) {
        self.failed.store(1, Ordering::Release);
        self.pass(CONDUCTOR, self.operation());
    }
    /// Adds to the players' own memory.
    pub(crate) fn add_own(&self, bytes: u64) {
        self.own.fetch_add(bytes, Ordering::AcqRel);
    }
    /// Subtracts the memory of one player from the players' own.
    pub(crate) fn take_own(&self, bytes: u64) {
        self.own.fetch_sub(bytes, Ordering::AcqRel);
    }
    /// The players' own memory.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.own.load(Ordering::Acquire)
    }
    /// Notes that the memory of a process is freed.
    pub(crate) fn note_end(&self) {
        self.ended.fetch_add(1, Ordering::AcqRel);
    }
    /// Number of processes whose memory is freed.
    pub(crate) fn nr_ended(&self) -> u32 {
        self.ended.load(Ordering::Acquire)
    }
    /// The last addition to the limit.
    pub(crate) fn extra_bytes(&self) -> u64 {
        self.extra.load(Ordering::Acquire)
    }
    /// Notes the addition to the limit.
    pub(crate) fn set_extra(&self, bytes: u64) {
        self.extra.store(bytes, Ordering::Release);
    }
    /// Whether a process failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) != 0
    }
}
