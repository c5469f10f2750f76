// SPDX-License-Identifier: GPL-2.0-or-later

//! The system calls the tracer makes itself, with safe faces.
#![expect(unsafe_code, reason = "mappings, guest memory and exec cannot be had otherwise")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{Error, ErrorKind, Result};
use std::ptr::NonNull;

use crate::record::CHUNK_BYTES;
use crate::spool::Control;

/// Whether [`map_shared_file`] makes the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    Yes,
    No,
}

/// Runs a system call again when a signal interrupted it.
fn retry(mut call: impl FnMut() -> isize) -> Result<usize> {
    loop {
        let result = call();
        if let Ok(value) = usize::try_from(result) {
            return Ok(value);
        }
        let error = Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Closes its descriptor at the end of the scope.
struct Descriptor(c_int);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor came from `open` and is closed nowhere else.
        unsafe { libc::close(self.0) };
    }
}

fn open(path: &CStr, flags: c_int) -> Result<Descriptor> {
    // SAFETY: `path` is a C string and `open` keeps no reference to it.
    let fd = retry(|| unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o600) } as isize)?;
    Ok(Descriptor(c_int::try_from(fd).map_err(|_| Error::from(ErrorKind::InvalidData))?))
}

/// Maps the first `len` bytes of a file, shared with other processes. The descriptor is not kept.
pub(crate) fn map_shared_file(path: &CStr, len: usize, create: Create) -> Result<&'static mut [u8]> {
    let flags = if create == Create::Yes { libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC } else { libc::O_RDWR };
    let file = open(path, flags)?;
    if create == Create::Yes {
        let bytes = libc::off_t::try_from(len).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
        // Reserved now, because a full disk would otherwise be a SIGBUS at the first store.
        // SAFETY: takes numbers only.
        let error = unsafe { libc::posix_fallocate(file.0, 0, bytes) };
        if error != 0 {
            return Err(Error::from_raw_os_error(error));
        }
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.0, 0) };
    if address == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    // SAFETY: the mapping has `len` bytes, is readable and writable, and nobody else has a reference to it: each thread
    // maps its own file. (`control` is mapped once and used through atomics only, see `control_of`.) It stays until
    // `unmap`, which takes the slice.
    Ok(unsafe { std::slice::from_raw_parts_mut(address.cast::<u8>(), len) })
}

/// Views a mapping as the control block.
pub(crate) fn control_of(bytes: &'static mut [u8]) -> &'static Control {
    assert!(bytes.len() >= size_of::<Control>() && CHUNK_BYTES >= size_of::<Control>());
    // SAFETY: long enough, page aligned, never unmapped; atomics may be changed by other processes at any time.
    unsafe { &*bytes.as_ptr().cast::<Control>() }
}

/// Takes a mapping away.
pub(crate) fn unmap(bytes: &'static mut [u8]) {
    // SAFETY: the slice came from `map_shared_file` and is handed in for good.
    unsafe { libc::munmap(bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// Removes a file; that it is gone already does not matter.
pub(crate) fn unlink(path: &CStr) {
    // SAFETY: `path` is a C string.
    unsafe { libc::unlink(path.as_ptr()) };
}

/// Writes `bytes` (at most `PIPE_BUF`) to a FIFO in one piece, waiting for room. Fails when nobody has it open for reading.
pub(crate) fn write_to_fifo(path: &CStr, bytes: &[u8]) -> Result<()> {
    // Without O_NONBLOCK, opening a FIFO that nobody reads would wait for ever.
    let fifo = open(path, libc::O_WRONLY | libc::O_NONBLOCK)?;
    // SAFETY: takes numbers only.
    unsafe { libc::fcntl(fifo.0, libc::F_SETFL, 0) };
    // SAFETY: the pointer and the length are those of a slice.
    retry(|| unsafe { libc::write(fifo.0, bytes.as_ptr().cast(), bytes.len()) }).map(|_| ())
}

/// Copies the program's memory at `address`; less than asked for where it ends. The emulator places the program's memory
/// at its own addresses, and a wrong pointer is an error here, not a fault.
pub(crate) fn read_memory(address: u64, bytes: &mut [u8]) -> usize {
    let Ok(start) = usize::try_from(address) else { return 0 };
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // Split at the page boundary: a piece is copied whole or not at all.
    let first = (4096 - start % 4096).min(bytes.len());
    let remote = [
        libc::iovec { iov_base: start as *mut _, iov_len: first },
        libc::iovec { iov_base: start.wrapping_add(first) as *mut _, iov_len: bytes.len() - first },
    ];
    // SAFETY: the local piece is a slice that may be written; remote pieces are checked by the kernel.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, remote.as_ptr(), 2, 0) };
    usize::try_from(copied).unwrap_or(0)
}

/// Nanoseconds of a clock that runs on while threads sleep.
pub(crate) fn wall_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// This process and this thread.
pub(crate) fn pid_and_tid() -> (u64, u64) {
    // SAFETY: take nothing and cannot fail.
    let (pid, tid) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
    (u64::from(pid.unsigned_abs()), tid.unsigned_abs())
}

/// What is known of an open file.
pub(crate) struct FileStatus {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Its length.
    pub(crate) bytes: u64,
    pub(crate) is_regular: bool,
    /// Whether it goes past the page cache.
    pub(crate) is_direct: bool,
}

/// Asks about a descriptor; `None` if it is not open.
pub(crate) fn file_status(descriptor: c_int) -> Option<FileStatus> {
    // SAFETY: all zeroes is a valid `stat`.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` may be written; the rest takes numbers only.
    let (result, flags) = unsafe { (libc::fstat(descriptor, &mut status), libc::fcntl(descriptor, libc::F_GETFL)) };
    (result == 0 && flags >= 0).then_some(FileStatus {
        device: status.st_dev,
        inode: status.st_ino,
        bytes: status.st_size.unsigned_abs(),
        is_regular: status.st_mode & libc::S_IFMT == libc::S_IFREG,
        is_direct: flags & libc::O_DIRECT != 0,
    })
}

/// The kind of the file system that an open file is on, as a number of the kernel's `magic.h`.
pub(crate) fn file_system(descriptor: c_int) -> Option<u32> {
    // SAFETY: all zeroes is a valid `statfs`.
    let mut status: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `status` may be written.
    let result = unsafe { libc::fstatfs(descriptor, &mut status) };
    u32::try_from(status.f_type).ok().filter(|_| result == 0)
}

/// Where a descriptor stands in its file.
pub(crate) fn position(descriptor: c_int) -> Option<u64> {
    // SAFETY: takes numbers only.
    u64::try_from(unsafe { libc::lseek(descriptor, 0, libc::SEEK_CUR) }).ok()
}

/// The length of a System V shared memory segment.
pub(crate) fn attached_segment_bytes(shmid: u64) -> Option<u64> {
    let id = c_int::try_from(shmid).ok()?;
    // SAFETY: all zeroes is a valid `shmid_ds`.
    let mut status: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: `status` may be written.
    let result = unsafe { libc::shmctl(id, libc::IPC_STAT, &mut status) };
    (result == 0).then_some(status.shm_segsz as u64)
}

/// The address of this process's function of this name, the program's own or a library's.
pub(crate) fn loaded(function: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name is a C string.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, function.as_ptr()) })
}

/// The user this process acts as.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether this process may execute the file.
pub(crate) fn may_execute(path: &CStr) -> bool {
    // SAFETY: `path` is a C string.
    unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
}

/// Replaces this process; returns only when that failed.
pub(crate) fn exec(path: &CStr, arguments: &[CString], environment: &[CString]) -> Error {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: both arrays hold pointers to live C strings and end with a null pointer.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    Error::last_os_error()
}
