//! All system calls of this crate that the standard library does not have. Calls on another process change or read only that process:
//! addresses are numbers here and are never dereferenced.

#![allow(unsafe_code, reason = "system calls without a safe wrapper; docs/spec/live.md#2-rooms")]

use crate::module::abi;
use crate::pagemap::{PageRegion, PmScan};
use isotherm_units::Duration;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};

/// Most ranges of one [`process_madvise`] (`UIO_MAXIOV`).
pub(crate) const IOVECS_MAX: usize = 1024;

/// Advice that `process_madvise` lets one process give to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Advice {
    WillNeed = libc::MADV_WILLNEED,
    Cold = libc::MADV_COLD,
    PageOut = libc::MADV_PAGEOUT,
    Collapse = libc::MADV_COLLAPSE,
}

/// Bytes of a base page of this kernel: 4, 16 or 64 KiB.
pub(crate) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Raises the limit of open files of this process to the hard limit.
pub(crate) fn allow_many_files() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    // A refusal is ignored: a file that cannot be opened later gives its own error.
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
}

/// A handle of a process that stays valid when its PID is reused.
pub(crate) fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::Error::from(Errno::SRCH))?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Whether the process behind a handle has ended, reaped or not.
pub(crate) fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    loop {
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Err(Errno::INTR) => {}
            Ok(ready) => return ready > 0,
            Err(_) => return true,
        }
    }
}

/// CPU time that the calling thread has used so far.
pub(crate) fn thread_cpu_time() -> Duration {
    cpu_time(ClockId::ThreadCPUTime)
}

/// CPU time that all threads of this process have used so far.
pub(crate) fn own_cpu_time() -> Duration {
    cpu_time(ClockId::ProcessCPUTime)
}

/// CPU time that all threads of another process have used so far; `None` if there is no such process.
pub(crate) fn cpu_time_of(pid: u32) -> Option<Duration> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the call writes a clock number to `clock`.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a time to `time`.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let (seconds, ns) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    Some(Duration::from_ns(seconds.saturating_mul(1_000_000_000).saturating_add(ns)))
}

fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let (seconds, ns) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    Duration::from_ns(seconds * 1_000_000_000 + ns)
}

/// Advises ranges `(start, bytes)` of another process, at most [`IOVECS_MAX`]. Returns the bytes advised, which may be fewer.
pub(crate) fn process_madvise(pidfd: &OwnedFd, ranges: &[(u64, u64)], advice: Advice) -> io::Result<u64> {
    let iovec = |&(start, bytes): &(u64, u64)| libc::iovec {
        iov_base: ptr::without_provenance_mut::<c_void>(word(start)),
        iov_len: word(bytes),
    };
    let iovecs: Vec<libc::iovec> = ranges.iter().take(IOVECS_MAX).map(iovec).collect();
    // SAFETY: the kernel reads `iovecs.len()` elements of a vector that lives through the call. They name memory of the other process,
    // whose contents no `Advice` changes.
    let advised = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            iovecs.as_ptr(),
            iovecs.len(),
            advice as libc::c_int,
            0_u32,
        )
    };
    u64::try_from(advised).map_err(|_| io::Error::last_os_error())
}

/// Status of a page that `move_pages` did not reach.
pub(crate) const NOT_REACHED: i32 = i32::MIN;

/// The node of each page, or a negative error number.
pub(crate) fn query_nodes(pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>> {
    move_or_query(pid, addresses, None)
}

/// Moves pages to a node, but only pages that no other process maps. Returns a node or a negative error number for each, and
/// [`NOT_REACHED`] for pages after the one at which the kernel gave up.
pub(crate) fn move_to_node(pid: u32, addresses: &[u64], node: i32) -> io::Result<Vec<i32>> {
    move_or_query(pid, addresses, Some(node))
}

fn move_or_query(pid: u32, addresses: &[u64], to: Option<i32>) -> io::Result<Vec<i32>> {
    let pages: Vec<*const c_void> = addresses.iter().map(|&address| ptr::without_provenance(word(address))).collect();
    let nodes = to.map(|node| vec![node; pages.len()]);
    let mut status = vec![NOT_REACHED; pages.len()];
    let pid = i32::try_from(pid).map_err(|_| io::Error::from(Errno::SRCH))?;
    // SAFETY: `pages`, `nodes` if given, and `status` have `pages.len()` elements of the kind that the kernel reads or writes, and live
    // through the call. Pages are addresses of the other process and are not dereferenced here; a move keeps their contents.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            nodes.as_ref().map_or(ptr::null(), |nodes| nodes.as_ptr()),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
}

/// Only pages that no other process maps (`linux/mempolicy.h`).
const MPOL_MF_MOVE: libc::c_int = 1 << 1;

/// Ranges of pages of some categories. Returns the number of `regions` filled, and the address at which the walk ended.
pub(crate) fn pagemap_scan(pagemap: &File, scan: &mut PmScan, regions: &mut [PageRegion]) -> io::Result<usize> {
    scan.regions = regions.as_mut_ptr().expose_provenance() as u64;
    scan.nr_regions = regions.len() as u64;
    // SAFETY: `scan` is laid out as `struct pm_scan_arg` and names `regions` and their number; the kernel fills no more. Both live through
    // the call.
    let filled = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, ptr::from_mut(scan)) };
    usize::try_from(filled).map_err(|_| io::Error::last_os_error())
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u32 = rustix::ioctl::opcode::read_write::<PmScan>(b'f', 16);

/// Asks the module for its version.
pub(crate) fn module_version(device: &File) -> io::Result<abi::Version> {
    let mut version = abi::Version::default();
    // SAFETY: the module writes a `struct isotherm_version`, and `version` has the same layout.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), abi::VERSION as _, ptr::from_mut(&mut version)) };
    answered(answer).map(|()| version)
}

/// Probes entries; the answers are written into them.
pub(crate) fn module_probe(
    device: &File,
    target: abi::Target,
    entries: &mut [abi::Entry],
    flags: u32,
) -> io::Result<()> {
    let mut probe = abi::Probe {
        target,
        entries: entries.as_mut_ptr().expose_provenance() as u64,
        count: u32::try_from(entries.len()).map_err(|_| io::Error::from(Errno::INVAL))?,
        flags,
    };
    // SAFETY: `probe` is laid out as `struct isotherm_probe` and names `entries` and their number. Any bytes are valid entries.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), abi::PROBE as _, ptr::from_mut(&mut probe)) };
    answered(answer)
}

/// Scans entries of `1 << shift` bytes into bitmaps, each of which must have a bit for every entry of the range; empty bitmaps are not
/// filled.
pub(crate) fn module_scan(device: &File, scan: &mut abi::Scan, shift: u8, bitmaps: [&mut [u64]; 4]) -> io::Result<()> {
    let nr_entries = scan.end.saturating_sub(scan.start).div_ceil(1 << shift.min(63));
    let nr_words = usize::try_from(nr_entries.div_ceil(64)).map_err(|_| io::Error::from(Errno::INVAL))?;
    let [young, present, huge, written] = bitmaps.map(|words| match words.len() {
        0 => Some(0),
        enough if enough >= nr_words => Some(words.as_mut_ptr().expose_provenance() as u64),
        _ => None,
    });
    let (Some(young), Some(present), Some(huge), Some(written)) = (young, present, huge, written) else {
        return Err(Errno::INVAL.into());
    };
    (scan.young, scan.present, scan.huge, scan.written) = (young, present, huge, written);
    // SAFETY: `scan` is laid out as `struct isotherm_scan`. The bitmaps that it names were checked to be long enough for all entries of the
    // range.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), abi::SCAN as _, ptr::from_mut(scan)) };
    answered(answer)
}

/// Drops the cached translations of a process.
pub(crate) fn module_flush(device: &File, target: abi::Target) -> io::Result<()> {
    // SAFETY: the module reads a `struct isotherm_flush`, which only holds a target.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), abi::FLUSH as _, ptr::from_ref(&target)) };
    answered(answer)
}

/// Marks pages accessed. Returns the number of marked pages.
pub(crate) fn module_activate(device: &File, target: abi::Target, addresses: &[u64]) -> io::Result<u32> {
    let mut activate = abi::Activate {
        target,
        addresses: addresses.as_ptr().expose_provenance() as u64,
        count: u32::try_from(addresses.len()).map_err(|_| io::Error::from(Errno::INVAL))?,
        done: 0,
    };
    // SAFETY: `activate` is laid out as `struct isotherm_activate` and names `addresses` and their number; they are only read.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), abi::ACTIVATE as _, ptr::from_mut(&mut activate)) };
    answered(answer).map(|()| activate.done)
}

/// Memory of this process in a mapping of its own, for measurements of faults. Dropping it unmaps it. One thread has it.
#[derive(Debug)]
pub struct OwnMapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl OwnMapping {
    /// New private memory, of which nothing is there before it is used.
    ///
    /// # Errors
    /// The kernel gives none.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// The beginning of a file, shared. Only pages that the file has may be used: others end the process (SIGBUS).
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn shared(file: &File, bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn new(bytes: usize, flags: libc::c_int, fd: libc::c_int) -> io::Result<Self> {
        // SAFETY: without MAP_FIXED the kernel chooses addresses at which this process has nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast::<c_void>() != libc::MAP_FAILED => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads a byte, which the compiler never leaves out. `at` must be inside.
    pub fn read(&self, at: usize) -> u8 {
        assert!(at < self.bytes, "{at} is outside of {} bytes", self.bytes);
        // SAFETY: the address is inside of the mapping, which lasts as long as `self` and may be read.
        unsafe { self.start.as_ptr().add(at).read_volatile() }
    }

    /// Writes a byte. `at` must be inside.
    pub fn write(&mut self, at: usize, byte: u8) {
        assert!(at < self.bytes, "{at} is outside of {} bytes", self.bytes);
        // SAFETY: as of `read`; the memory is writable, and no reference to it exists.
        unsafe { self.start.as_ptr().add(at).write_volatile(byte) }
    }
}

impl Drop for OwnMapping {
    fn drop(&mut self) {
        // SAFETY: the range is that of this mapping alone, to which no reference exists.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn answered(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An address or a length as a word. A value that does not fit is no address of this machine, and the call refuses it.
fn word(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_mappings_hold_what_is_written() {
        let bytes = 4 * rustix::param::page_size();
        let mut memory = OwnMapping::anonymous(bytes).unwrap();
        assert_eq!((memory.read(0), memory.read(bytes - 1)), (0, 0));
        memory.write(bytes - 1, 7);
        assert_eq!((memory.read(0), memory.read(bytes - 1)), (0, 7));
        assert!(std::panic::catch_unwind(|| memory.read(bytes)).is_err(), "nothing is read behind it");

        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes as u64).unwrap();
        OwnMapping::shared(&file, bytes).unwrap().write(3, 9);
        assert_eq!(OwnMapping::shared(&file, bytes).unwrap().read(3), 9);
        assert!(OwnMapping::anonymous(0).is_err());
    }
}
