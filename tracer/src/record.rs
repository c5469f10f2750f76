// SPDX-License-Identifier: GPL-2.0-or-later

//! The records of the tracer's stream, as bytes. The protocol is specified in `docs/recording.md#protocol`; the reader is
//! `crates/recorder/src/protocol.rs`.

/// First bytes of every chunk.
pub(crate) const MAGIC: [u8; 4] = *b"iTR1";
/// A chunk is at most so long, so that writing it to a FIFO is atomic (`PIPE_BUF` of Linux).
pub(crate) const CHUNK_BYTES: usize = 4096;
/// magic, payload bytes, thread uid, sequence number: four 32-bit words, little endian.
pub(crate) const HEADER_BYTES: usize = 16;
/// Version of the records, in every HELLO.
pub(crate) const VERSION: u64 = 1;
/// Names longer than this are cut, so that each record fits into a chunk.
pub(crate) const NAME_BYTES: usize = 1024;
/// No record is longer: a tag, eight varints and a name.
pub(crate) const RECORD_BYTES: usize = 1 + 8 * 10 + 3 + NAME_BYTES;

/// Flags of [`Record::Map`].
pub(crate) mod map_flags {
    /// `MAP_SHARED`.
    pub(crate) const SHARED: u64 = 1;
    /// `PROT_EXEC`.
    pub(crate) const EXECUTABLE: u64 = 2;
    /// The name is a file's path.
    pub(crate) const FILE: u64 = 4;
    /// A thread's stack.
    pub(crate) const STACK: u64 = 8;
    /// The `brk` heap.
    pub(crate) const HEAP: u64 = 16;
    /// Present before the program's first instruction.
    pub(crate) const INITIAL: u64 = 32;
}

/// How a thread came into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The program that was asked for.
    Program = 0,
    /// `clone` with a shared address space.
    Thread = 1,
    /// `fork`, `vfork`, or `clone` without one.
    Fork = 2,
    /// `execve`: the same process with a new program.
    Exec = 3,
}

/// One record. Pages are virtual page numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// The first record of a thread.
    Hello { pid: u64, tid: u64, started_by: Option<u32>, origin: Origin, start_ns: u64, name: &'a [u8] },
    /// Rows and events that follow belong to this epoch of the thread and to this place in the order of all threads, a
    /// point of virtual time in ns. Repeated at the head of each chunk.
    Epoch { number: u64, order_ns: u64 },
    /// Pages touched. `delta` is from the end of the chunk's previous row.
    Row { delta: i64, pages: u64, write: bool, kernel: bool },
    /// What follows in this chunk as [`Record::Transfer`] is of this file, which has so many pages.
    File { pages: u64, in_memory: bool, name: &'a [u8] },
    /// Pages of that file, read or written through a descriptor. `delta` is from the end of the transfer before it.
    Transfer { delta: i64, pages: u64, write: bool },
    /// A mapping appears.
    Map { start: u64, pages: u64, flags: u64, file_page: u64, name: &'a [u8] },
    /// Mappings of the range disappear.
    Unmap { start: u64, pages: u64 },
    /// `MADV_DONTNEED` or `MADV_FREE`: the mapping stays, its contents go.
    Discard { start: u64, pages: u64 },
    /// `mremap` to another place.
    Remap { old_start: u64, old_pages: u64, new_start: u64, new_pages: u64 },
    /// The thread starts another one; before the other's HELLO.
    Start { uid: u32, origin: Origin },
    /// The start announced last did not happen.
    StartFailed { uid: u32 },
    /// The thread slept.
    Idle { ns: u64 },
    /// The thread is over after so many instructions.
    End { instructions: u64 },
    /// The process is about to become a program that cannot be followed; `text` says which and why.
    NotFollowed { text: &'a [u8] },
    /// The process ended itself with this status, as `_exit` was told.
    Exit { status: u64 },
    /// CPU time and instructions of the thread so far.
    Clock { ns: u64, instructions: u64 },
}

impl Record<'_> {
    /// Appends the record: a tag, then its fields as LEB128 varints, names as length and bytes.
    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        match *self {
            Self::Hello { pid, tid, started_by, origin, start_ns, name } => {
                let by = started_by.map_or(0, |uid| u64::from(uid) + 1);
                out.fields(1, &[VERSION, pid, tid, by, origin as u64, start_ns]);
                out.name(name);
            }
            Self::Epoch { number, order_ns } => out.fields(2, &[number, order_ns]),
            Self::Row { delta, pages, write, kernel } => out.run(if kernel { 16 } else { 3 }, delta, pages, write),
            Self::File { pages, in_memory, name } => {
                out.fields(14, &[pages, u64::from(in_memory)]);
                out.name(name);
            }
            Self::Transfer { delta, pages, write } => out.run(15, delta, pages, write),
            Self::Map { start, pages, flags, file_page, name } => {
                out.fields(4, &[start, pages, flags, file_page]);
                out.name(name);
            }
            Self::Unmap { start, pages } => out.fields(5, &[start, pages]),
            Self::Discard { start, pages } => out.fields(6, &[start, pages]),
            Self::Remap { old_start, old_pages, new_start, new_pages } => {
                out.fields(7, &[old_start, old_pages, new_start, new_pages]);
            }
            Self::Start { uid, origin } => out.fields(8, &[uid.into(), origin as u64]),
            Self::StartFailed { uid } => out.fields(9, &[uid.into()]),
            Self::Idle { ns } => out.fields(10, &[ns]),
            Self::End { instructions } => out.fields(11, &[instructions]),
            Self::NotFollowed { text } => {
                out.fields(12, &[]);
                out.name(text);
            }
            Self::Exit { status } => out.fields(13, &[status]),
            Self::Clock { ns, instructions } => out.fields(17, &[ns, instructions]),
        }
    }
}

/// Bytes being appended to a buffer that is long enough: callers leave [`RECORD_BYTES`] of room.
pub(crate) struct Writer<'a> {
    pub(crate) buffer: &'a mut [u8],
    pub(crate) len: usize,
}

impl Writer<'_> {
    fn fields(&mut self, tag: u8, fields: &[u64]) {
        self.byte(tag);
        fields.iter().for_each(|&field| self.varint(field));
    }

    fn run(&mut self, tag: u8, delta: i64, pages: u64, write: bool) {
        self.fields(tag, &[((delta << 1) ^ (delta >> 63)).cast_unsigned(), (pages - 1) << 1 | u64::from(write)]);
    }

    fn byte(&mut self, byte: u8) {
        self.buffer[self.len] = byte;
        self.len += 1;
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.byte(value.to_le_bytes()[0]);
    }

    fn name(&mut self, name: &[u8]) {
        let name = &name[..name.len().min(NAME_BYTES)];
        self.varint(name.len() as u64);
        self.buffer[self.len..self.len + name.len()].copy_from_slice(name);
        self.len += name.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(record: Record<'_>) -> Vec<u8> {
        let mut buffer = [0; RECORD_BYTES];
        let mut out = Writer { buffer: &mut buffer, len: 0 };
        record.encode(&mut out);
        let len = out.len;
        buffer[..len].to_vec()
    }

    #[test]
    fn records_are_the_bytes_of_the_documentation() {
        // By hand from docs/recording.md#protocol.
        assert_eq!(bytes(Record::Epoch { number: 300, order_ns: 7 }), [2, 0xac, 0x02, 7]);
        assert_eq!(bytes(Record::Row { delta: -1, pages: 1, write: true, kernel: false }), [3, 1, 1]);
        assert_eq!(bytes(Record::Row { delta: 2, pages: 65, write: false, kernel: false }), [3, 4, 0x80, 0x01]);
        assert_eq!(bytes(Record::Row { delta: 1, pages: 1, write: false, kernel: true }), [16, 2, 0]);
        assert_eq!(bytes(Record::File { pages: 9, in_memory: true, name: b"/m" }), [14, 9, 1, 2, b'/', b'm']);
        assert_eq!(bytes(Record::Transfer { delta: 2, pages: 2, write: true }), [15, 4, 3]);
        assert_eq!(bytes(Record::NotFollowed { text: b"no" }), [12, 2, b'n', b'o']);
        assert_eq!(bytes(Record::Clock { ns: 128, instructions: 5 }), [17, 0x80, 0x01, 5]);
        assert_eq!(bytes(Record::Start { uid: 3, origin: Origin::Fork }), [8, 3, 2]);
        assert_eq!(
            bytes(Record::Hello {
                pid: 9,
                tid: 10,
                started_by: Some(0),
                origin: Origin::Thread,
                start_ns: 5,
                name: b"x"
            }),
            [1, 1, 9, 10, 1, 1, 5, 1, b'x']
        );
    }

    #[test]
    fn the_longest_record_fits() {
        let name = [b'n'; 5000];
        let map = Record::Map { start: u64::MAX, pages: u64::MAX, flags: u64::MAX, file_page: u64::MAX, name: &name };
        assert_eq!(bytes(map).len(), 1 + 4 * 10 + 2 + NAME_BYTES);
        const { assert!(HEADER_BYTES + 3 * RECORD_BYTES < CHUNK_BYTES) };
    }
}
