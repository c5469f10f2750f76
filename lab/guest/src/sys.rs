//! The system calls of the guest, and all that is `unsafe` in it.
#![expect(
    unsafe_code,
    reason = "mappings at chosen addresses, loads and stores through them, fork, memory shared by processes"
)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Bytes a page.
pub(crate) const PAGE: u64 = 4096;
/// The page size as a length in memory.
pub(crate) const PAGE_LEN: usize = 4096;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn text(words: &str) -> io::Result<CString> {
    CString::new(words).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// `mount`; `options` as the file system spells them.
pub(crate) fn mount(source: &str, target: &str, kind: &str, options: &str) -> io::Result<()> {
    mount_with(source, target, kind, 0, options)
}

/// Lets a mounted file system be read alone, or written again.
pub(crate) fn remount(target: &str, access: Access) -> io::Result<()> {
    let flags = match access {
        Access::Read => libc::MS_REMOUNT | libc::MS_RDONLY,
        Access::Write => libc::MS_REMOUNT,
    };
    mount_with("", target, "", flags, "")
}

/// What a mounted file system allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Shows one file in the place of another one.
pub(crate) fn bind(source: &str, target: &str) -> io::Result<()> {
    mount_with(source, target, "", libc::MS_BIND, "")
}

/// `umount`.
pub(crate) fn unmount(target: &str) -> io::Result<()> {
    let target = text(target)?;
    // SAFETY: a string that ends with a zero byte and lives through the call.
    check(unsafe { libc::umount(target.as_ptr()) })
}

fn mount_with(source: &str, target: &str, kind: &str, flags: libc::c_ulong, options: &str) -> io::Result<()> {
    let (source, target, kind, options) = (text(source)?, text(target)?, text(kind)?, text(options)?);
    // SAFETY: four strings that end with a zero byte and live through the call.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) })
}

/// `finit_module` with `parameters`, each `name=value`, blanks between.
pub(crate) fn load_module(file: &impl AsRawFd, parameters: &str) -> io::Result<()> {
    let parameters = text(parameters)?;
    // SAFETY: an open file, a string that ends with a zero byte and lives through the call, no flags.
    let result = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), parameters.as_ptr(), 0) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `delete_module`, without waiting.
pub(crate) fn unload_module(name: &str) -> io::Result<()> {
    let name = text(name)?;
    // SAFETY: a string that ends with a zero byte and lives through the call.
    let result = unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `ioctl` of the accessed-bit module or of `pagemap`; the error is the errno. The argument and all addresses in it must be memory of the
/// caller's own without other references, or unmapped.
pub(crate) fn ioctl(file: &File, command: u32, argument: u64) -> Result<(), i32> {
    // SAFETY: an open file; it writes only to addresses of the caller's, as required above.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::c_ulong::from(command) as _, argument) };
    if result == -1 { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(()) }
}

/// The kernel's log, a record each.
pub(crate) fn kernel_log() -> io::Result<Vec<String>> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
    let mut record = vec![0; 8192];
    let mut records = Vec::new();
    loop {
        match file.read(&mut record) {
            Ok(bytes) => records.push(String::from_utf8_lossy(&record[..bytes]).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(records),
            // Records were dropped to make room: the next read continues after them.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for a child, and takes its status.
pub(crate) fn wait(child: i32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: a number that lives through the call.
    check(unsafe { libc::waitpid(child, &raw mut status, 0) })?;
    Ok(status)
}

/// `swapon`.
pub(crate) fn swap_on(device: &str) -> io::Result<()> {
    let device = text(device)?;
    // SAFETY: a string that ends with a zero byte and lives through the call.
    check(unsafe { libc::swapon(device.as_ptr(), 0) })
}

/// `swapoff`.
pub(crate) fn swap_off(device: &str) -> io::Result<()> {
    let device = text(device)?;
    // SAFETY: a string that ends with a zero byte and lives through the call.
    check(unsafe { libc::swapoff(device.as_ptr()) })
}

/// Writes everything that is dirty to its device, and waits.
pub(crate) fn sync() {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::sync() };
}

/// Switches the machine off.
pub(crate) fn power_off() -> ! {
    // SAFETY: no arguments in memory. `sync` cannot fail.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A new file in memory, of this many bytes.
pub(crate) fn memory_file(bytes: u64) -> io::Result<OwnedFd> {
    // SAFETY: a string that ends with a zero byte, no flags.
    let fd = unsafe { libc::memfd_create(c"script".as_ptr(), 0) };
    check(fd)?;
    // SAFETY: a new descriptor without another owner.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let bytes = i64::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: an open descriptor.
    check(unsafe { libc::ftruncate(fd, bytes) })?;
    Ok(file)
}

/// Backing of a mapping.
#[derive(Clone, Copy)]
pub(crate) enum Backing<'a> {
    Anonymous,
    File { file: &'a File, offset: u64, shared: bool, executable: bool },
}

/// Maps pages at a fixed place, replacing existing mappings. The caller must not map below the first terabyte (the program itself) or above
/// the script's own limit, see [`crate::player`].
pub(crate) fn map(page: u64, pages: u64, backing: Backing<'_>) -> io::Result<()> {
    let mut protection = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, fd, offset) = match backing {
        Backing::Anonymous => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0),
        Backing::File { file, offset, shared, executable } => {
            if executable {
                protection |= libc::PROT_EXEC;
            }
            let sharing = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
            (sharing | libc::MAP_NORESERVE, file.as_raw_fd(), offset)
        }
    };
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (address, length) = place(page, pages)?;
    // SAFETY: the caller keeps the range away from this program's own memory.
    let mapped = unsafe { libc::mmap(address, length, protection, flags | libc::MAP_FIXED, fd, offset) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Most pages in one call of [`transfer`].
pub(crate) const TRANSFER_PAGES_MAX: usize = 256;

/// Reads or writes whole pages of a file in one call; data read are dropped, data written are zeroes. Returns the bytes.
pub(crate) fn transfer(file: &File, page: u64, pages: usize, write: bool) -> io::Result<usize> {
    let mut buffer = [0u8; PAGE_LEN];
    let one = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: PAGE_LEN };
    // All parts use the same page of memory: the player's own memory stays small.
    let parts = [one; TRANSFER_PAGES_MAX];
    let count = libc::c_int::try_from(pages.min(TRANSFER_PAGES_MAX)).map_err(|_| io::ErrorKind::InvalidInput)?;
    let offset = i64::try_from(page.saturating_mul(PAGE)).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: an open file; `count` parts, each the whole of `buffer`, which lives through the call.
    let done = unsafe {
        if write {
            libc::pwritev(file.as_raw_fd(), parts.as_ptr(), count, offset)
        } else {
            libc::preadv(file.as_raw_fd(), parts.as_ptr(), count, offset)
        }
    };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

/// Unmaps pages; the same holds as for [`map`].
pub(crate) fn unmap(page: u64, pages: u64) -> io::Result<()> {
    let (address, length) = place(page, pages)?;
    // SAFETY: the caller keeps the range away from this program's own memory.
    check(unsafe { libc::munmap(address, length) })
}

/// `madvise`; the same holds as for [`map`].
pub(crate) fn advise(page: u64, pages: u64, advice: libc::c_int) -> io::Result<()> {
    let (address, length) = place(page, pages)?;
    // SAFETY: the caller keeps the range away from this program's own memory.
    check(unsafe { libc::madvise(address, length, advice) })
}

fn place(page: u64, pages: u64) -> io::Result<(*mut libc::c_void, usize)> {
    let bytes = |pages: u64| pages.checked_mul(PAGE).and_then(|bytes| usize::try_from(bytes).ok());
    match (bytes(page), bytes(pages)) {
        (Some(address), Some(length)) => Ok((address as *mut libc::c_void, length)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Loads from, or stores to, one byte of each page. A page that is not mapped ends the process.
pub(crate) fn touch(page: u64, pages: u64, write: bool, value: u8) {
    for page in page..page + pages {
        let byte = (page * PAGE) as *mut u8;
        // SAFETY: the page is mapped by the script, or the process is killed by a signal, which the conductor reports. No object
        // of this program lies there.
        unsafe {
            if write {
                // Never a page of zeroes, which swap would not store.
                byte.write_volatile(value | 1);
            } else {
                let _ = byte.read_volatile();
            }
        }
    }
}

/// Returns for each page of a file whether it is in the page cache.
pub(crate) fn cached_pages(file: &OwnedFd, pages: u64) -> io::Result<Vec<bool>> {
    let (_, length) = place(0, pages)?;
    if length == 0 {
        return Ok(Vec::new());
    }
    let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: a new mapping at a place of the kernel's choice, given back below.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut states = vec![0u8; length / PAGE_LEN];
    // SAFETY: a mapping of `length` bytes and a vector with a byte for each of its pages.
    let result = check(unsafe { libc::mincore(mapped, length, states.as_mut_ptr()) });
    // SAFETY: the mapping made above, without remaining references.
    check(unsafe { libc::munmap(mapped, length) })?;
    result?;
    Ok(states.iter().map(|state| state & 1 == 1).collect())
}

/// Result of [`fork`] on either side.
pub(crate) enum Forked {
    Child,
    Parent(i32),
}

/// `fork`. This program has one thread, so that the child may do anything.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: there is one thread, and so no lock that another one could hold.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        child => Ok(Forked::Parent(child)),
    }
}

/// Executes this program again, without a terminal. It finds that it is not the first process, and exits.
pub(crate) fn run_again() {
    let (path, name) = (c"/proc/self/exe".as_ptr(), c"isotherm-guest".as_ptr());
    let arguments = [name, std::ptr::null()];
    // SAFETY: strings and list end with a zero and live until the program is replaced; the three descriptors have no other user.
    unsafe {
        (0..3).for_each(|descriptor| {
            libc::close(descriptor);
        });
        libc::execv(path, arguments.as_ptr());
    }
}

/// Ends the process at once, without destructors or exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: does not return and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Reaps children that exited.
pub(crate) fn reap() {
    // SAFETY: no status is asked for.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

/// Whether a child has exited; reaps it.
pub(crate) fn has_ended(child: i32) -> bool {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) != 0 }
}

/// How a child exited, if it has; reaps it.
pub(crate) fn end_of(child: i32) -> Option<std::process::ExitStatus> {
    let mut status = 0;
    // SAFETY: a number that lives through the call.
    let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child;
    ended.then(|| std::os::unix::process::ExitStatusExt::from_raw(status))
}

/// Switches the loopback network on: it is off after boot.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: no memory is involved.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(socket)?;
    // SAFETY: a new descriptor without another owner.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: zeroes are a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: an open socket, and a request with a name and flags that lives through the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) })
}

/// The signal that ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Kill,
    Terminate,
}

pub(crate) fn signal(child: i32, signal: Signal) -> io::Result<()> {
    let number = match signal {
        Signal::Kill => libc::SIGKILL,
        Signal::Terminate => libc::SIGTERM,
    };
    // SAFETY: no memory is involved.
    check(unsafe { libc::kill(child, number) })
}

pub(crate) fn kill(child: i32) -> io::Result<()> {
    signal(child, Signal::Kill)
}

/// Removes a capability from the bounding set.
pub(crate) fn drop_capability(number: u32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) })
}

/// CPU time of this process.
pub(crate) fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one `timespec`, which outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// Binds memory that this process will touch to one node, or to none.
pub(crate) fn bind_memory(node: Option<u32>) -> io::Result<()> {
    const MPOL_DEFAULT: libc::c_int = 0;
    const MPOL_BIND: libc::c_int = 2;
    let (mode, mask) = match node {
        Some(node) if node < 63 => (MPOL_BIND, 1u64 << node),
        Some(_) => return Err(io::ErrorKind::InvalidInput.into()),
        None => (MPOL_DEFAULT, 0),
    };
    let (place, bits) = if mask == 0 { (std::ptr::null(), 0) } else { (&raw const mask, 64) };
    // SAFETY: a mask of 64 bits that lives through the call, or none.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, place, bits) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The node of each page of this process, negative for pages that are not present.
pub(crate) fn nodes_of(page: u64, pages: u64) -> io::Result<Vec<i32>> {
    let (address, length) = place(page, pages)?;
    let addresses: Vec<*mut libc::c_void> =
        (0..length / PAGE_LEN).map(|index| address.wrapping_byte_add(index * PAGE_LEN)).collect();
    let mut nodes = vec![-1i32; addresses.len()];
    // SAFETY: two lists of that length that live through the call; without a list of nodes it only asks.
    let result = unsafe {
        let no_nodes = std::ptr::null::<i32>();
        libc::syscall(libc::SYS_move_pages, 0, addresses.len(), addresses.as_ptr(), no_nodes, nodes.as_mut_ptr(), 0)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(nodes) }
}

/// Maps some pages at an address chosen by the kernel, has them filled, and unmaps them: for more than a few dozen, the kernel drops all
/// cached translations of the process.
pub(crate) fn forget_translations(pages: u64) -> io::Result<()> {
    let (_, length) = place(0, pages)?;
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE);
    // SAFETY: a new mapping at a place of the kernel's choice, given back below.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping made above, without any reference.
    check(unsafe { libc::munmap(mapped, length) })
}

/// A new `T` in memory that stays shared over [`fork`]. Never given back.
pub(crate) fn shared<T: SharedMemory>() -> io::Result<&'static T> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a place of the kernel's choice.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<T>(), protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed memory of the right size, aligned to a page, which is a valid `T` by its trait; it stays mapped.
    Ok(unsafe { &*mapped.cast::<T>() })
}

/// Types for which zeroed memory is a value and that many processes may change at once: atomics and arrays of atomics.
///
/// # Safety
/// Zeroed memory is a value, and all fields are atomics.
pub(crate) unsafe trait SharedMemory: Sync {}

// SAFETY: atomics only.
unsafe impl SharedMemory for crate::shared::Control {}
// SAFETY: atomics only.
unsafe impl SharedMemory for crate::damon::PassLog {}
// SAFETY: atomics only.
unsafe impl SharedMemory for crate::target::Orders {}
// SAFETY: atomics only.
unsafe impl SharedMemory for crate::programs::Gate {}
// SAFETY: atomics only.
unsafe impl SharedMemory for crate::lru_sort::FilterBy {}
// SAFETY: atomics and arrays of them.
unsafe impl SharedMemory for crate::fragment::Board {}
// SAFETY: atomics and arrays of them.
unsafe impl SharedMemory for crate::tiers::Ledger {}

/// Waits until `word` is no longer `value`, or the time is over; may return early.
pub(crate) fn wait_while(word: &AtomicU32, value: u32, longest: Duration) {
    let timeout = libc::timespec {
        tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(longest.subsec_nanos()),
    };
    // SAFETY: an aligned word and a time that live through the call. Shared between processes: not the private kind.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const timeout) };
}

/// Wakes all processes that wait for `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: an aligned word that lives through the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
