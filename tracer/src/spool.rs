// SPDX-License-Identifier: GPL-2.0-or-later

//! Where records go: chunks of 4 KiB, built in shared file mappings and written to a FIFO.
//!
//! A thread builds its chunk in a file of the spool directory that is mapped shared, so that whatever was recorded when
//! the program is killed is still there for the recorder. The FIFO is opened for each chunk: no descriptor stays open
//! that the program could see, close or be given by accident.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::filter::PageRun;
use crate::record::{CHUNK_BYTES, HEADER_BYTES, MAGIC, RECORD_BYTES, Record, Writer};
use crate::sys;

/// What all processes of a recording share: the file `control` of the spool directory, mapped.
#[repr(C)]
pub(crate) struct Control {
    /// The latest point of virtual time that any thread has reached, in nanoseconds.
    pub(crate) frontier_ns: AtomicU64,
    /// The uid of the next thread.
    pub(crate) next_uid: AtomicU32,
    /// Not 0 when the recorder takes no more.
    pub(crate) stop: AtomicU32,
}

/// The spool directory.
pub(crate) struct Spool {
    directory: String,
    fifo: CString,
    pub(crate) control: &'static Control,
}

impl Spool {
    /// Opens the spool that the recorder made.
    pub(crate) fn open(directory: &str) -> Result<Self, String> {
        let control_path = format!("{directory}/control");
        let bytes = sys::map_shared_file(&c_path(&control_path), CHUNK_BYTES, sys::Create::No)
            .map_err(|error| format!("cannot map {control_path}: {error}"))?;
        Ok(Self {
            directory: directory.to_owned(),
            fifo: c_path(&format!("{directory}/fifo")),
            control: sys::control_of(bytes),
        })
    }

    /// A uid that no other thread of the recording has.
    pub(crate) fn new_uid(&self) -> u32 {
        self.control.next_uid.fetch_add(1, Ordering::Relaxed)
    }

    /// The directory, as the recorder gave it.
    pub(crate) fn directory(&self) -> &str {
        &self.directory
    }
}

fn c_path(path: &str) -> CString {
    CString::new(Path::new(path).as_os_str().as_bytes()).unwrap_or_default()
}

/// When something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Number of the thread's epoch.
    pub(crate) epoch: u64,
    /// Place in the order of all threads: a point of virtual time, in nanoseconds.
    pub(crate) order_ns: u64,
}

/// An epoch record: a tag and two varints.
const STAMP_BYTES: usize = 1 + 10 + 10;
/// The same of a row.
const ROW_BYTES: usize = 1 + 10 + 10;

/// The chunk that a thread is filling.
pub(crate) struct Chunk {
    buffer: &'static mut [u8],
    path: CString,
    uid: u32,
    sequence: u32,
    len: usize,
    /// The epoch and order that what follows belongs to, if this chunk has said so.
    stamp: Option<Stamp>,
    /// Where the chunk's last row ended.
    row_end: u64,
    /// The file that the chunk speaks of, 0 for none, and where its last transfer ended.
    file: u64,
    transfer_end: u64,
}

impl Chunk {
    /// Makes the chunk file of thread `uid`.
    pub(crate) fn create(spool: &Spool, uid: u32) -> std::io::Result<Self> {
        let file = c_path(&format!("{}/thread.{uid}", spool.directory));
        let buffer = sys::map_shared_file(&file, CHUNK_BYTES, sys::Create::Yes)?;
        let mut chunk = Self {
            buffer,
            path: file,
            uid,
            sequence: 0,
            len: HEADER_BYTES,
            stamp: None,
            row_end: 0,
            file: 0,
            transfer_end: 0,
        };
        chunk.begin();
        Ok(chunk)
    }

    fn begin(&mut self) {
        // The length goes first to nothing and last to something: a kill between the two leaves a valid chunk.
        self.buffer[4..8].fill(0);
        self.buffer[..4].copy_from_slice(&MAGIC);
        self.buffer[8..12].copy_from_slice(&self.uid.to_le_bytes());
        self.buffer[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        self.len = HEADER_BYTES;
        self.stamp = None;
        self.row_end = 0;
        self.file = 0;
    }

    /// Appends a record, sending the chunk first when it is full.
    pub(crate) fn push(&mut self, spool: &Spool, stamp: Stamp, record: &Record<'_>) {
        if self.len + STAMP_BYTES + RECORD_BYTES > CHUNK_BYTES {
            self.send(spool);
        }
        self.stamp(stamp);
        self.append(record);
    }

    /// Appends a row; rows are small, so they fill chunks further than other records.
    pub(crate) fn push_row(&mut self, spool: &Spool, stamp: Stamp, run: PageRun) {
        if self.len + STAMP_BYTES + ROW_BYTES > CHUNK_BYTES {
            self.send(spool);
        }
        self.stamp(stamp);
        let PageRun { page, pages, write, kernel } = run;
        let delta = page.wrapping_sub(self.row_end).cast_signed();
        self.row_end = page + pages;
        self.append(&Record::Row { delta, pages, write, kernel });
    }

    /// Appends pages of a file that were read or written, and before them the file, `named`, if the chunk spoke of another.
    pub(crate) fn push_transfer(&mut self, spool: &Spool, stamp: Stamp, file: u64, named: &Record<'_>, run: PageRun) {
        if self.len + STAMP_BYTES + RECORD_BYTES + ROW_BYTES > CHUNK_BYTES {
            self.send(spool);
        }
        self.stamp(stamp);
        if self.file != file {
            (self.file, self.transfer_end) = (file, 0);
            self.append(named);
        }
        let PageRun { page, pages, write, .. } = run;
        let delta = page.wrapping_sub(self.transfer_end).cast_signed();
        self.transfer_end = page + pages;
        self.append(&Record::Transfer { delta, pages, write });
    }

    fn stamp(&mut self, stamp: Stamp) {
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.append(&Record::Epoch { number: stamp.epoch, order_ns: stamp.order_ns });
        }
    }

    fn append(&mut self, record: &Record<'_>) {
        let mut out = Writer { buffer: self.buffer, len: self.len };
        record.encode(&mut out);
        self.len = out.len;
        let payload = u32::try_from(self.len - HEADER_BYTES).expect("a chunk has 4096 bytes");
        self.buffer[4..8].copy_from_slice(&payload.to_le_bytes());
    }

    /// Writes the chunk to the FIFO and begins the next one. When nobody reads any more, records are dropped from then
    /// on and the program runs on.
    pub(crate) fn send(&mut self, spool: &Spool) {
        if self.len == HEADER_BYTES {
            return;
        }
        if spool.control.stop.load(Ordering::Relaxed) == 0
            && sys::write_to_fifo(&spool.fifo, &self.buffer[..self.len]).is_err()
        {
            spool.control.stop.store(1, Ordering::Relaxed);
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.begin();
    }

    /// Whether anything waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == HEADER_BYTES
    }

    /// Sends what is left and removes the file.
    pub(crate) fn close(mut self, spool: &Spool) {
        self.send(spool);
        sys::unlink(&self.path);
        sys::unmap(self.buffer);
    }
}

/// The path of this process's executable: the emulator.
pub(crate) fn emulator() -> Option<CString> {
    let path = std::fs::read_link("/proc/self/exe").ok()?;
    CString::new(path.as_os_str().as_bytes()).ok()
}
