// SPDX-License-Identifier: GPL-2.0-or-later

//! Which pages of which files a system call read and wrote. Asked after the call: where the descriptor stands then, less what
//! was transferred, is where it began. Only regular files with a page cache count; pseudo file systems make their contents up,
//! and `O_DIRECT` goes past the cache.
//!
//! Going on in the page where the last call ended is no new use to the kernel (`filemap_read` in mm/filemap.c compares with the
//! position before), so programs that read byte by byte say each page once.

use std::os::unix::ffi::OsStringExt;

use crate::filter::PageRun;
use crate::record::Record;
use crate::spool::Spool;
use crate::sys::{self, FileStatus};
use crate::thread::Thread;

/// Numbers from the kernel's `arch/x86/entry/syscalls/syscall_64.tbl`.
mod nr {
    pub(super) const READ: i64 = 0;
    pub(super) const WRITE: i64 = 1;
    pub(super) const CLOSE: i64 = 3;
    pub(super) const PREAD64: i64 = 17;
    pub(super) const PWRITE64: i64 = 18;
    pub(super) const READV: i64 = 19;
    pub(super) const WRITEV: i64 = 20;
    pub(super) const SENDFILE: i64 = 40;
    pub(super) const SPLICE: i64 = 275;
    pub(super) const PREADV: i64 = 295;
    pub(super) const PWRITEV: i64 = 296;
    pub(super) const COPY_FILE_RANGE: i64 = 326;
    pub(super) const PREADV2: i64 = 327;
    pub(super) const PWRITEV2: i64 = 328;
}

/// Of pseudo file systems, from the kernel's include/uapi/linux/magic.h: proc, sysfs, debugfs, tracefs, cgroup, cgroup2, securityfs,
/// selinuxfs, bpf, efivarfs, pstore, configfs, hugetlbfs.
const MADE_UP: [u32; 13] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x0027_e0eb,
    0x6367_7270,
    0x6363_6673,
    0xf97c_ff8c,
    0xcafe_4a11,
    0xde5e_81e4,
    0x6165_676c,
    0x6265_6570,
    0x9584_58f6,
];
/// tmpfs and ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// The position that the descriptor has.
const HERE: u64 = u64::MAX;

/// What a thread knows of the file that it used last, so that reading on in it costs little.
#[derive(Default)]
pub(crate) struct LastFile {
    device: u64,
    inode: u64,
    /// Another one each time a file is looked up, from 1.
    number: u64,
    /// Path of the file; `None`: it has no page cache, or nothing is known.
    name: Option<Vec<u8>>,
    in_memory: bool,
    is_known: bool,
    /// The last page used, in which epoch, and whether it was written.
    last_use: Option<(u64, u64, bool)>,
}

impl LastFile {
    /// Takes in the file behind a descriptor.
    fn learn(&mut self, descriptor: i32, status: &FileStatus) {
        if self.is_known && (self.device, self.inode) == (status.device, status.inode) {
            return;
        }
        let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
        let path = path.map(|path| path.into_os_string().into_vec()).ok().filter(|path| path.first() == Some(&b'/'));
        let magic = sys::file_system(descriptor);
        *self = Self {
            device: status.device,
            inode: status.inode,
            number: self.number + 1,
            name: path.filter(|_| magic.is_some_and(|magic| !MADE_UP.contains(&magic))),
            in_memory: magic.is_some_and(|magic| IN_MEMORY.contains(&magic)),
            is_known: true,
            last_use: None,
        };
    }
}

/// After a system call that succeeded with `bytes`: says which pages it read and wrote, if it is one that does.
pub(crate) fn used(thread: &mut Thread, spool: &Spool, number: i64, arguments: [u64; 6], bytes: u64) {
    let [first, second, third, fourth, ..] = arguments;
    let mut transfer = |descriptor, position, write| transfer(thread, spool, (descriptor, position), bytes, write);
    match number {
        nr::READ | nr::READV => transfer(first, HERE, false),
        nr::WRITE | nr::WRITEV => transfer(first, HERE, true),
        // The last takes -1 for the descriptor's own position.
        nr::PREAD64 | nr::PREADV | nr::PREADV2 => transfer(first, fourth, false),
        nr::PWRITE64 | nr::PWRITEV | nr::PWRITEV2 => transfer(first, fourth, true),
        // To, from, position.
        nr::SENDFILE => {
            transfer(second, moved_on(third, bytes), false);
            transfer(first, HERE, true);
        }
        // From, position, to, position.
        nr::SPLICE | nr::COPY_FILE_RANGE => {
            transfer(first, moved_on(second, bytes), false);
            transfer(third, moved_on(fourth, bytes), true);
        }
        // Its file may go, and another have its inode.
        nr::CLOSE => thread.last_file.is_known = false,
        _ => {}
    }
}

/// The position that a call found at an address and moved on by `bytes`; [`HERE`] without an address.
fn moved_on(address: u64, bytes: u64) -> u64 {
    let mut position = [0; 8];
    match address {
        0 => HERE,
        address if sys::read_memory(address, &mut position) == 8 => u64::from_le_bytes(position).saturating_sub(bytes),
        _ => 0,
    }
}

/// `bytes` bytes went from or to a descriptor, from a position on or up to where it stands now.
fn transfer(thread: &mut Thread, spool: &Spool, (descriptor, position): (u64, u64), bytes: u64, write: bool) {
    // An `int` in a register whose upper half may hold anything.
    let Ok(descriptor) = i32::try_from(descriptor & 0xffff_ffff) else { return };
    let Some(status) = sys::file_status(descriptor).filter(|status| status.is_regular && !status.is_direct) else {
        return;
    };
    if bytes == 0 {
        return;
    }
    let position = match position {
        HERE => match sys::position(descriptor).and_then(|now| now.checked_sub(bytes)) {
            Some(position) => position,
            None => return, // somebody else moved it
        },
        position => position,
    };
    let epoch = thread.epoch();
    let mut file = std::mem::take(&mut thread.last_file);
    file.learn(descriptor, &status);
    if let Some(name) = &file.name {
        let (mut page, end) = (position >> 12, position.saturating_add(bytes).div_ceil(4096));
        if file.last_use.replace((end - 1, epoch, write)) == Some((page, epoch, write)) {
            page += 1;
        }
        if page < end {
            let named = Record::File { pages: status.bytes.div_ceil(4096), in_memory: file.in_memory, name };
            thread.transfer(spool, file.number, &named, PageRun { page, pages: end - page, write, kernel: true });
        }
    }
    thread.last_file = file;
}
