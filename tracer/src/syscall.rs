// SPDX-License-Identifier: GPL-2.0-or-later

//! System calls of the program: which mappings they change, whom they start, how long they sleep, which buffers the
//! kernel touches. Numbers are those of x86-64 Linux.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::plugin::{self, Announced};
use crate::record::{Origin, Record, map_flags};
use crate::spool::Spool;
use crate::thread::Thread;
use crate::{exec, files, sys};

/// Numbers from the kernel's `arch/x86/entry/syscalls/syscall_64.tbl`.
mod nr {
    pub(super) const READ: i64 = 0;
    pub(super) const WRITE: i64 = 1;
    pub(super) const POLL: i64 = 7;
    pub(super) const MMAP: i64 = 9;
    pub(super) const MUNMAP: i64 = 11;
    pub(super) const BRK: i64 = 12;
    pub(super) const PREAD64: i64 = 17;
    pub(super) const PWRITE64: i64 = 18;
    pub(super) const READV: i64 = 19;
    pub(super) const SELECT: i64 = 23;
    pub(super) const MREMAP: i64 = 25;
    pub(super) const MADVISE: i64 = 28;
    pub(super) const SHMAT: i64 = 30;
    pub(super) const PAUSE: i64 = 34;
    pub(super) const NANOSLEEP: i64 = 35;
    pub(super) const CONNECT: i64 = 42;
    pub(super) const ACCEPT: i64 = 43;
    pub(super) const SENDTO: i64 = 44;
    pub(super) const RECVFROM: i64 = 45;
    pub(super) const RECVMSG: i64 = 47;
    pub(super) const CLONE: i64 = 56;
    pub(super) const FORK: i64 = 57;
    pub(super) const VFORK: i64 = 58;
    pub(super) const EXECVE: i64 = 59;
    pub(super) const EXIT: i64 = 60;
    pub(super) const WAIT4: i64 = 61;
    pub(super) const SHMDT: i64 = 67;
    pub(super) const RT_SIGTIMEDWAIT: i64 = 128;
    pub(super) const RT_SIGSUSPEND: i64 = 130;
    pub(super) const FUTEX: i64 = 202;
    pub(super) const CLOCK_NANOSLEEP: i64 = 230;
    pub(super) const EXIT_GROUP: i64 = 231;
    pub(super) const EPOLL_WAIT: i64 = 232;
    pub(super) const WAITID: i64 = 247;
    pub(super) const PSELECT6: i64 = 270;
    pub(super) const PPOLL: i64 = 271;
    pub(super) const EPOLL_PWAIT: i64 = 281;
    pub(super) const ACCEPT4: i64 = 288;
    pub(super) const EXECVEAT: i64 = 322;
}

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const MAP_SHARED_BITS: u64 = 0x1; // MAP_SHARED is 1, MAP_SHARED_VALIDATE 3, MAP_PRIVATE 2
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;
const MAP_STACK: u64 = 0x2_0000;
const PROT_EXEC: u64 = 4;
const MADV_DONTNEED: u64 = 4;
const MADV_FREE: u64 = 8;
const EAGAIN: i64 = -11;
const ETIMEDOUT: i64 = -110;
/// Of the operation in a futex call, without its flags: `FUTEX_WAIT` and `FUTEX_WAIT_BITSET`.
const FUTEX_COMMAND_MASK: u64 = 0x7f;
const FUTEX_WAITS: [u64; 2] = [0, 9];
/// Calls that took less wall time did not sleep: they had what was asked for.
const SLEPT_NS: u64 = 100_000;

/// The program break of this process; 0 until the program has asked for it.
static PROGRAM_BREAK: AtomicU64 = AtomicU64::new(0);

/// A system call between its entry and its return.
#[derive(Default)]
pub(crate) struct Pending {
    arguments: [u64; 6],
    entered_wall_ns: u64,
    /// How far the furthest thread was when the call began, in ns of virtual time.
    entered_frontier_ns: u64,
    /// The uid announced for the thread that the call starts.
    pub(crate) child: Option<u32>,
    file: Vec<u8>,
}

/// A system call begins.
pub(crate) fn enter(thread: &mut Thread, spool: &Spool, number: i64, arguments: [u64; 6]) {
    thread.pending.arguments = arguments;
    thread.pending.child = None;
    thread.pending.file.clear();
    match number {
        nr::MMAP if arguments[3] & MAP_ANONYMOUS == 0 => thread.pending.file = file_of(arguments[4]),
        nr::CLONE | nr::FORK | nr::VFORK => {
            let flags = if number == nr::CLONE { arguments[0] } else { 0 };
            // The emulator turns a vfork into a fork, whatever else it was asked for.
            let shares_memory = flags & CLONE_VM != 0 && flags & CLONE_VFORK == 0;
            let origin = if shares_memory { Origin::Thread } else { Origin::Fork };
            announce(thread, spool, origin);
        }
        nr::EXECVE => exec::follow(thread, spool, arguments[0], arguments[1], arguments[2]),
        nr::EXECVEAT => exec::not_followed(thread, spool, "a program given by descriptor (execveat)"),
        nr::EXIT => thread.end(spool),
        nr::EXIT_GROUP => {
            thread.event(spool, &Record::Exit { status: arguments[0] & 0xff });
            thread.end(spool);
        }
        _ if may_sleep(number) => {
            thread.before_sleep(spool);
            thread.pending.entered_wall_ns = sys::wall_ns();
            thread.pending.entered_frontier_ns = spool.control.frontier_ns.load(Ordering::Relaxed);
        }
        _ => {}
    }
}

/// Tells the recorder of a thread to come, and sends it all before the other can say anything.
pub(crate) fn announce(thread: &mut Thread, spool: &Spool, origin: Origin) -> u32 {
    let uid = spool.new_uid();
    thread.pending.child = Some(uid);
    thread.advance_frontier(spool);
    if origin == Origin::Thread {
        plugin::expect_thread(Announced { uid, parent: thread.uid, start_ns: thread.now_ns() });
    }
    thread.event(spool, &Record::Start { uid, origin });
    if origin == Origin::Exec {
        thread.tell_clock(spool); // the last word of this thread if the call succeeds
    }
    thread.flush(spool);
    uid
}

/// A system call ends with `result`: negative error numbers as in the kernel.
pub(crate) fn leave(thread: &mut Thread, spool: &Spool, number: i64, result: i64) {
    let arguments = thread.pending.arguments;
    let Ok(value) = u64::try_from(result) else {
        match number {
            nr::CLONE | nr::FORK | nr::VFORK => {
                if let Some(uid) = thread.pending.child.take() {
                    plugin::expect_no_more(uid);
                    thread.event(spool, &Record::StartFailed { uid });
                }
            }
            nr::FUTEX if result == EAGAIN => met(thread, spool),
            _ if may_sleep(number) => woken(thread, spool, result == ETIMEDOUT),
            _ => {}
        }
        return;
    };
    files::used(thread, spool, number, arguments, value);
    match number {
        nr::MMAP => map(thread, spool, value),
        nr::MUNMAP => unmap(thread, spool, arguments[0], arguments[1]),
        nr::MREMAP => remap(thread, spool, value),
        nr::BRK => program_break(thread, spool, value),
        nr::MADVISE if matches!(arguments[2], MADV_DONTNEED | MADV_FREE) => {
            let (start, end) = pages(arguments[0], arguments[1]);
            thread.layout_event(spool, &Record::Discard { start, pages: end - start });
            thread.forget(start, end);
        }
        nr::SHMAT => {
            let (start, end) = pages(value, sys::attached_segment_bytes(arguments[0]).unwrap_or(4096));
            let name = format!("/sysv-shm-{}", arguments[0]);
            let flags = map_flags::SHARED | map_flags::FILE;
            thread.layout_event(
                spool,
                &Record::Map { start, pages: end - start, flags, file_page: 0, name: name.as_bytes() },
            );
            thread.forget(start, end);
        }
        nr::SHMDT => {} // the length is not in the call; the recorder keeps the mapping until something replaces it
        nr::CLONE | nr::FORK | nr::VFORK if value == 0 => {
            if let Some(uid) = thread.pending.child.take() {
                plugin::forget_other_threads(thread);
                thread.become_child(spool, uid);
            }
        }
        nr::READ | nr::PREAD64 | nr::RECVFROM => {
            if number != nr::PREAD64 {
                woken(thread, spool, false);
            }
            thread.touch_buffer(spool, arguments[1], value.min(arguments[2]), true);
        }
        nr::WRITE | nr::PWRITE64 | nr::SENDTO => {
            thread.touch_buffer(spool, arguments[1], value.min(arguments[2]), false);
        }
        nr::FUTEX => met(thread, spool),
        nr::NANOSLEEP | nr::CLOCK_NANOSLEEP => woken(thread, spool, true),
        _ if may_sleep(number) => {
            let polls =
                matches!(number, nr::POLL | nr::PPOLL | nr::SELECT | nr::PSELECT6 | nr::EPOLL_WAIT | nr::EPOLL_PWAIT);
            woken(thread, spool, polls && value == 0);
        }
        _ => {}
    }
}

fn may_sleep(number: i64) -> bool {
    matches!(
        number,
        nr::READ
            | nr::POLL
            | nr::READV
            | nr::SELECT
            | nr::PAUSE
            | nr::NANOSLEEP
            | nr::CONNECT
            | nr::ACCEPT
            | nr::RECVFROM
            | nr::RECVMSG
            | nr::WAIT4
            | nr::RT_SIGTIMEDWAIT
            | nr::RT_SIGSUSPEND
            | nr::FUTEX
            | nr::CLOCK_NANOSLEEP
            | nr::EPOLL_WAIT
            | nr::WAITID
            | nr::PSELECT6
            | nr::PPOLL
            | nr::EPOLL_PWAIT
            | nr::ACCEPT4
    )
}

/// While the emulator computes, sleepers sleep at full speed. Their time counts only where nobody computed: where the
/// furthest thread came ahead by less than this fraction of it. The emulator is not slower than that by far.
const BUSY_FRACTION: u64 = 64;

/// The thread is back from a call that may have slept. If somebody ended its sleep, it is over when that somebody got
/// there. If the sleep ended by its own timeout, it took the time it took on the wall, unless others computed meanwhile.
fn woken(thread: &mut Thread, spool: &Spool, timed_out: bool) {
    let slept_ns = sys::wall_ns().saturating_sub(thread.pending.entered_wall_ns);
    if slept_ns < SLEPT_NS {
        return;
    }
    let frontier_ns = spool.control.frontier_ns.load(Ordering::Relaxed);
    let computed_ns = frontier_ns.saturating_sub(thread.pending.entered_frontier_ns);
    let quiet = computed_ns < slept_ns / BUSY_FRACTION;
    thread.woken(spool, if timed_out && quiet { slept_ns } else { 0 });
}

/// A futex wait is over because another thread changed the word, however short it was: what follows comes after what that
/// thread did. Small differences are left, or each contended lock would be an event.
fn met(thread: &mut Thread, spool: &Spool) {
    let waits = FUTEX_WAITS.contains(&(thread.pending.arguments[1] & FUTEX_COMMAND_MASK));
    let ahead_ns = spool.control.frontier_ns.load(Ordering::Relaxed).saturating_sub(thread.now_ns());
    if waits && ahead_ns >= SLEPT_NS {
        thread.woken(spool, 0);
    }
}

/// `[address, address + bytes)` as pages, rounded outwards.
fn pages(address: u64, bytes: u64) -> (u64, u64) {
    (address >> 12, address.saturating_add(bytes).div_ceil(4096))
}

/// The path behind a descriptor; empty if there is none.
fn file_of(descriptor: u64) -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    // An `int` in a register whose upper half may hold anything.
    let path = format!("/proc/self/fd/{}", descriptor & 0xffff_ffff);
    std::fs::read_link(path).map(|path| path.into_os_string().into_vec()).unwrap_or_default()
}

fn map(thread: &mut Thread, spool: &Spool, address: u64) {
    let [_, bytes, protection, how, _, offset] = thread.pending.arguments;
    let (start, end) = pages(address, bytes);
    let file = std::mem::take(&mut thread.pending.file);
    let is_file = !file.is_empty() && file != b"/dev/zero";
    let flag = |condition: bool, flag: u64| if condition { flag } else { 0 };
    let flags = flag(how & MAP_SHARED_BITS != 0, map_flags::SHARED)
        | flag(protection & PROT_EXEC != 0, map_flags::EXECUTABLE)
        | flag(is_file, map_flags::FILE)
        | flag(how & (MAP_STACK | MAP_GROWSDOWN) != 0, map_flags::STACK);
    let name: &[u8] = if is_file { &file } else { &[] };
    thread.layout_event(spool, &Record::Map { start, pages: end - start, flags, file_page: offset >> 12, name });
    thread.forget(start, end);
}

fn unmap(thread: &mut Thread, spool: &Spool, address: u64, bytes: u64) {
    let (start, end) = pages(address, bytes);
    thread.layout_event(spool, &Record::Unmap { start, pages: end - start });
    thread.forget(start, end);
}

fn remap(thread: &mut Thread, spool: &Spool, address: u64) {
    let [old, old_bytes, new_bytes, ..] = thread.pending.arguments;
    let ((old_start, old_end), (new_start, new_end)) = (pages(old, old_bytes), pages(address, new_bytes));
    let (old_pages, new_pages) = (old_end - old_start, new_end - new_start);
    thread.layout_event(spool, &Record::Remap { old_start, old_pages, new_start, new_pages });
    if old_start != new_start {
        thread.forget(old_start, old_end);
        thread.forget(new_start, new_end);
    } else if new_end < old_end {
        thread.forget(new_end, old_end);
    }
}

fn program_break(thread: &mut Thread, spool: &Spool, now: u64) {
    let before = PROGRAM_BREAK.swap(now, Ordering::Relaxed);
    let (before, now) = (before.div_ceil(4096), now.div_ceil(4096));
    if before == 0 {
        return;
    }
    if now > before {
        let flags = map_flags::HEAP;
        thread.layout_event(spool, &Record::Map { start: before, pages: now - before, flags, file_page: 0, name: b"" });
        thread.forget(before, now);
    } else if now < before {
        thread.layout_event(spool, &Record::Unmap { start: now, pages: before - now });
        thread.forget(now, before);
    }
}
