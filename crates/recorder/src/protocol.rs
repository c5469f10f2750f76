//! The engine's stream, read: chunks from the FIFO, records from a chunk. Specified in `docs/use/recording.md#protocol`; the
//! writer is `recorder/valgrind/src/record.h`.

use isotherm_trace::{PAGE_LIMIT, PageRun};

/// First bytes of every chunk.
const MAGIC: [u8; 4] = *b"iTR1";
/// Longest chunk, in bytes.
pub(crate) const CHUNK_BYTES: usize = 4096;
/// magic, payload bytes, thread uid, sequence number.
pub(crate) const HEADER_BYTES: usize = 16;
/// Version of the records that this reader knows.
const VERSION: u64 = 1;

/// Tag of a row.
const ROW: u8 = 3;
/// Tag of a row of pages that only the kernel touched.
const KERNEL_ROW: u8 = 16;

/// Faults of a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("a chunk begins with {found:02x?} and not with `iTR1`")]
    Magic { found: [u8; 4] },
    #[error("a chunk claims {claimed} bytes; at most {} are allowed", CHUNK_BYTES - HEADER_BYTES)]
    Length { claimed: u32 },
    #[error("a record of kind {tag} is cut off at byte {offset} of its chunk")]
    CutOff { tag: u8, offset: usize },
    #[error("byte {offset} of a chunk begins a record of unknown kind {tag}")]
    UnknownRecord { tag: u8, offset: usize },
    #[error("{what} is {value}, which is not allowed")]
    Value { what: &'static str, value: u64 },
    #[error("the engine speaks version {found} of the protocol, this recorder version {VERSION}")]
    Version { found: u64 },
}

/// A chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) payload_bytes: usize,
    pub(crate) uid: u32,
    pub(crate) sequence: u32,
}

impl Header {
    /// Reads the first [`HEADER_BYTES`] of `bytes`; `None` if there are fewer.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let word = |index: usize| -> [u8; 4] { std::array::from_fn(|byte| header[4 * index + byte]) };
        if word(0) != MAGIC {
            return Err(ProtocolError::Magic { found: word(0) });
        }
        let claimed = u32::from_le_bytes(word(1));
        let payload_bytes = usize::try_from(claimed).unwrap_or(usize::MAX);
        if payload_bytes > CHUNK_BYTES - HEADER_BYTES {
            return Err(ProtocolError::Length { claimed });
        }
        let (uid, sequence) = (u32::from_le_bytes(word(2)), u32::from_le_bytes(word(3)));
        Ok(Some(Self { payload_bytes, uid, sequence }))
    }
}

/// How a thread was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Program,
    Thread,
    Fork,
    Exec,
}

/// Properties of a mapping, except its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapFlags {
    pub(crate) shared: bool,
    pub(crate) executable: bool,
    pub(crate) file: bool,
    pub(crate) stack: bool,
    pub(crate) heap: bool,
    pub(crate) initial: bool,
}

/// One record. Ranges of pages are `start..end`; rows carry their page, not the difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Hello {
        pid: u32,
        tid: u32,
        started_by: Option<u32>,
        origin: Origin,
        start_ns: u64,
        name: String,
    },
    Epoch {
        number: u64,
        order_ns: u64,
    },
    Row(PageRun),
    /// The following [`Record::Transfer`]s of this chunk are of this file, which has `pages` pages.
    File {
        pages: u64,
        in_memory: bool,
        name: String,
    },
    /// Pages of the chunk's file, read or written through a descriptor.
    Transfer(PageRun),
    Map {
        start: u64,
        end: u64,
        flags: MapFlags,
        file_page: u64,
        name: String,
    },
    Unmap {
        start: u64,
        end: u64,
    },
    Discard {
        start: u64,
        end: u64,
    },
    Remap {
        old_start: u64,
        old_end: u64,
        new_start: u64,
        new_end: u64,
    },
    Start {
        uid: u32,
        origin: Origin,
    },
    StartFailed {
        uid: u32,
    },
    Idle {
        ns: u64,
    },
    End {
        instructions: u64,
    },
    NotFollowed {
        text: String,
    },
    Exit {
        status: u64,
    },
    /// CPU time and instructions of the thread so far.
    Clock {
        ns: u64,
        instructions: u64,
    },
}

/// The records of one chunk's payload.
pub(crate) struct Records<'a> {
    payload: &'a [u8],
    offset: usize,
    row_end: u64,
    transfer_end: u64,
}

impl<'a> Records<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Self { payload, offset: 0, row_end: 0, transfer_end: 0 }
    }

    /// The next record, `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, ProtocolError> {
        let start = self.offset;
        let Some(&tag) = self.payload.get(start) else { return Ok(None) };
        self.offset += 1;
        let cut_off = |()| ProtocolError::CutOff { tag, offset: start };
        let record = match tag {
            1 => {
                let version = self.varint().map_err(cut_off)?;
                if version != VERSION {
                    return Err(ProtocolError::Version { found: version });
                }
                let [pid, tid, by, origin, start_ns] = self.varints().map_err(cut_off)?;
                let name = self.name().map_err(cut_off)?;
                let started_by = match by {
                    0 => None,
                    by => Some(narrow("a thread's uid", by - 1)?),
                };
                let (pid, tid) = (narrow("a process id", pid)?, narrow("a thread id", tid)?);
                Record::Hello { pid, tid, started_by, origin: origin_of(origin)?, start_ns: time(start_ns)?, name }
            }
            2 => {
                let [number, order_ns] = self.varints().map_err(cut_off)?;
                Record::Epoch { number, order_ns: time(order_ns)? }
            }
            ROW | KERNEL_ROW => {
                let fields = self.varints().map_err(cut_off)?;
                let run = run_after(&mut self.row_end, fields)?;
                Record::Row(PageRun { kernel: tag == KERNEL_ROW, ..run })
            }
            4 => {
                let [start, pages, flags, file_page] = self.varints().map_err(cut_off)?;
                let name = self.name().map_err(cut_off)?;
                Record::Map { start, end: range("a mapping", start, pages)?, flags: flags_of(flags), file_page, name }
            }
            5 | 6 => {
                let [start, pages] = self.varints().map_err(cut_off)?;
                let end = range("an unmapped range", start, pages)?;
                if tag == 5 { Record::Unmap { start, end } } else { Record::Discard { start, end } }
            }
            7 => {
                let [old_start, old_pages, new_start, new_pages] = self.varints().map_err(cut_off)?;
                let old_end = range("a moved range", old_start, old_pages)?;
                Record::Remap { old_start, old_end, new_start, new_end: range("a moved range", new_start, new_pages)? }
            }
            8 => {
                let [uid, origin] = self.varints().map_err(cut_off)?;
                Record::Start { uid: narrow("a thread's uid", uid)?, origin: origin_of(origin)? }
            }
            9 => Record::StartFailed { uid: narrow("a thread's uid", self.varint().map_err(cut_off)?)? },
            10 => Record::Idle { ns: time(self.varint().map_err(cut_off)?)? },
            11 => Record::End { instructions: self.varint().map_err(cut_off)? },
            12 => Record::NotFollowed { text: self.name().map_err(cut_off)? },
            13 => Record::Exit { status: self.varint().map_err(cut_off)? },
            14 => {
                let [pages, flags] = self.varints().map_err(cut_off)?;
                let name = self.name().map_err(cut_off)?;
                self.transfer_end = 0;
                Record::File { pages: range("the length of a file", 0, pages)?, in_memory: flags & 1 != 0, name }
            }
            15 => {
                let fields = self.varints().map_err(cut_off)?;
                let run = run_after(&mut self.transfer_end, fields)?;
                Record::Transfer(PageRun { kernel: true, ..run })
            }
            17 => {
                let [ns, instructions] = self.varints().map_err(cut_off)?;
                Record::Clock { ns: time(ns)?, instructions }
            }
            _ => return Err(ProtocolError::UnknownRecord { tag, offset: start }),
        };
        Ok(Some(record))
    }

    /// Appends the next rows, up to a record of another kind or the end. Nearly all records are rows, so this decodes rows of usual length
    /// in few steps. It leaves all others, and all errors, to [`Records::next`].
    pub(crate) fn rows(&mut self, runs: &mut Vec<PageRun>) -> Result<(), ProtocolError> {
        while matches!(self.payload.get(self.offset), Some(&(ROW | KERNEL_ROW))) {
            if let Some(run) = self.short_row() {
                runs.push(run);
                continue;
            }
            match self.next()? {
                Some(Record::Row(run)) => runs.push(run),
                _ => unreachable!("the tag is that of a row"),
            }
        }
        Ok(())
    }

    /// The next row, if it is valid, its first number has at most seven bytes, and its second has one byte.
    fn short_row(&mut self) -> Option<PageRun> {
        // The tag, seven bytes of a number and one of the other; anything shorter is no such row.
        let bytes = self.payload.get(self.offset..)?.first_chunk::<9>()?;
        let word = u64::from_le_bytes(*bytes.last_chunk::<8>()?);
        let ends = !word & 0x0080_8080_8080_8080;
        if ends == 0 {
            return None;
        }
        // Bits up to the first byte that ends a number, 8 to 56.
        let bits = ends.trailing_zeros() + 1;
        let tail = (word >> bits).to_le_bytes()[0];
        let number = word & (u64::MAX >> (64 - bits));
        // Seven bits of each byte, put together in pairs, in pairs of pairs, and once more.
        let number = number & 0x007f_007f_007f_007f | (number & 0x7f00_7f00_7f00_7f00) >> 1;
        let number = number & 0x0000_3fff_0000_3fff | (number & 0x3fff_0000_3fff_0000) >> 2;
        let number = number & 0x0fff_ffff | (number & 0x0fff_ffff_0000_0000) >> 4;
        let page = self.row_end.wrapping_add_signed(zigzag(number));
        let pages = u32::from(tail >> 1) + 1;
        let end = page.wrapping_add(pages.into());
        if tail & 0x80 != 0 || page >= PAGE_LIMIT || end > PAGE_LIMIT {
            return None;
        }
        self.offset += bits as usize / 8 + 2;
        self.row_end = end;
        Some(PageRun { page, pages, write: tail & 1 != 0, kernel: bytes[0] == KERNEL_ROW })
    }

    fn varint(&mut self) -> Result<u64, ()> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let &byte = self.payload.get(self.offset).ok_or(())?;
            self.offset += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(())
    }

    fn varints<const N: usize>(&mut self) -> Result<[u64; N], ()> {
        let mut values = [0; N];
        for value in &mut values {
            *value = self.varint()?;
        }
        Ok(values)
    }

    fn name(&mut self) -> Result<String, ()> {
        let len = usize::try_from(self.varint()?).map_err(|_| ())?;
        let end = self.offset.checked_add(len).ok_or(())?;
        let bytes = self.payload.get(self.offset..end).ok_or(())?;
        self.offset = end;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// A run encoded by its distance from the end of the previous one; sets `end` to its own end.
fn run_after(end: &mut u64, [delta, tail]: [u64; 2]) -> Result<PageRun, ProtocolError> {
    let page = end.wrapping_add_signed(zigzag(delta));
    let pages: u32 = narrow("a row's length", (tail >> 1) + 1)?;
    *end = range("a row", page, pages.into())?;
    Ok(PageRun { page, pages, write: tail & 1 != 0, kernel: false })
}

/// Signed numbers as unsigned ones: 0, -1, 1, -2, ….
fn zigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

fn narrow(what: &'static str, value: u64) -> Result<u32, ProtocolError> {
    u32::try_from(value).map_err(|_| ProtocolError::Value { what, value })
}

/// Times are sums of a few such values and must not overflow.
fn time(ns: u64) -> Result<u64, ProtocolError> {
    if ns < 1 << 60 { Ok(ns) } else { Err(ProtocolError::Value { what: "a time in nanoseconds", value: ns }) }
}

/// The end of `pages` pages from `start`.
fn range(what: &'static str, start: u64, pages: u64) -> Result<u64, ProtocolError> {
    let end = start.checked_add(pages).filter(|&end| end <= PAGE_LIMIT);
    end.ok_or(ProtocolError::Value { what, value: start })
}

fn origin_of(value: u64) -> Result<Origin, ProtocolError> {
    Ok(match value {
        0 => Origin::Program,
        1 => Origin::Thread,
        2 => Origin::Fork,
        3 => Origin::Exec,
        _ => return Err(ProtocolError::Value { what: "the origin of a thread", value }),
    })
}

/// Unknown bits are ignored.
fn flags_of(bits: u64) -> MapFlags {
    let has = |bit: u64| bits & bit != 0;
    MapFlags { shared: has(1), executable: has(2), file: has(4), stack: has(8), heap: has(16), initial: has(32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(payload: &[u8]) -> Result<Vec<Record>, ProtocolError> {
        let mut records = Records::new(payload);
        let mut out = Vec::new();
        while let Some(record) = records.next()? {
            out.push(record);
        }
        Ok(out)
    }

    /// Encoded by hand from docs/use/recording.md#protocol.
    const EXAMPLE: &[u8] = &[
        1, 1, 9, 10, 1, 1, 5, 1, b'x', // hello of thread 10 of process 9, started by uid 0 as a thread at 5 ns
        2, 0xac, 0x02, 7, // epoch 300, at 7 ns in the order of all threads
        3, 200, 1, 1, // row: page 100, one page, written
        3, 1, 0x80, 0x01, // row: page 101 - 1, 65 pages, read
        4, 16, 2, 5, 7, 2, b'/', b'f', // mapping of /f
        7, 16, 2, 32, 4, // moved
        8, 3, 2, // forks uid 3
        10, 0x80, 0x08, // idle 1024 ns
        12, 2, b'n', b'o', // not followed
        16, 2, 0, // a row by the kernel, one page after
        14, 9, 1, 2, b'/', b'm', // file /m in memory, 9 pages
        15, 4, 3, 15, 1, 0, // its pages 2 and 3 written, page 3 read
        13, 1, 17, 20, 99, // exit, clock
        11, 99, // end
    ];

    #[test]
    fn the_example_of_the_documentation() {
        let flags = MapFlags { shared: true, file: true, ..MapFlags::default() };
        let expected = [
            Record::Hello {
                pid: 9,
                tid: 10,
                started_by: Some(0),
                origin: Origin::Thread,
                start_ns: 5,
                name: "x".into(),
            },
            Record::Epoch { number: 300, order_ns: 7 },
            Record::Row(PageRun { page: 100, pages: 1, write: true, kernel: false }),
            Record::Row(PageRun { page: 100, pages: 65, write: false, kernel: false }),
            Record::Map { start: 16, end: 18, flags, file_page: 7, name: "/f".into() },
            Record::Remap { old_start: 16, old_end: 18, new_start: 32, new_end: 36 },
            Record::Start { uid: 3, origin: Origin::Fork },
            Record::Idle { ns: 1024 },
            Record::NotFollowed { text: "no".into() },
            Record::Row(PageRun { page: 166, pages: 1, write: false, kernel: true }),
            Record::File { pages: 9, in_memory: true, name: "/m".into() },
            Record::Transfer(PageRun { page: 2, pages: 2, write: true, kernel: true }),
            Record::Transfer(PageRun { page: 3, pages: 1, write: false, kernel: true }),
            Record::Exit { status: 1 },
            Record::Clock { ns: 20, instructions: 99 },
            Record::End { instructions: 99 },
        ];
        assert_eq!(records(EXAMPLE).unwrap(), expected);
    }

    #[test]
    fn rows_are_the_same_taken_together_and_one_by_one() {
        let mut state = 5u64;
        let mut draw = |bits: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) >> (53 - bits)
        };
        let varint = |mut value: u64, out: &mut Vec<u8>| {
            while value >= 0x80 {
                out.push(value.to_le_bytes()[0] | 0x80);
                value >>= 7;
            }
            out.push(value.to_le_bytes()[0]);
        };
        let (mut payload, mut row_end, mut expected) = (Vec::new(), 0u64, Vec::new());
        for index in 0..4000 {
            // Numbers of all lengths, at both ends of what is allowed.
            let bits = 1 + draw(10) % 52;
            let (page, pages) = (draw(bits) % (PAGE_LIMIT - 300), 1 + draw(bits % 9));
            let delta = page.wrapping_sub(row_end).cast_signed();
            let kernel = index % 5 == 0;
            payload.push(if kernel { KERNEL_ROW } else { ROW });
            varint((delta << 1 ^ delta >> 63).cast_unsigned(), &mut payload);
            varint((pages - 1) << 1 | u64::from(index % 3 == 0), &mut payload);
            row_end = page + pages;
            expected.push(PageRun { page, pages: u32::try_from(pages).unwrap(), write: index % 3 == 0, kernel });
        }
        let mut runs = Vec::new();
        let mut together = Records::new(&payload);
        together.rows(&mut runs).unwrap();
        assert_eq!(runs, expected);
        assert_eq!(records(&payload).unwrap(), expected.into_iter().map(Record::Row).collect::<Vec<_>>());
        // One page too many, after the last that is allowed.
        let mut beyond = vec![ROW];
        varint((PAGE_LIMIT - 1) << 1, &mut beyond);
        beyond.extend([0, ROW, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let (mut runs, mut reader) = (Vec::new(), Records::new(&beyond));
        assert!(matches!(reader.rows(&mut runs), Err(ProtocolError::Value { .. })));
        assert_eq!(runs, [PageRun { page: PAGE_LIMIT - 1, pages: 1, write: false, kernel: false }]);
    }

    #[test]
    fn a_payload_cut_anywhere_is_an_error_or_shorter() {
        let whole = records(EXAMPLE).unwrap();
        for len in 0..EXAMPLE.len() {
            match records(&EXAMPLE[..len]) {
                Ok(part) => assert_eq!(part, whole[..part.len()], "cut at {len}"),
                Err(error) => assert!(matches!(error, ProtocolError::CutOff { .. }), "cut at {len}: {error}"),
            }
        }
    }

    #[test]
    fn garbage_is_refused_with_a_reason() {
        let table: [(&[u8], &str); 6] = [
            (&[0], "unknown kind 0"),
            (&[200, 1, 1], "unknown kind 200"),
            (&[1, 2], "version 2"),
            (&[3, 1, 0], "a row is"),
            (&[8, 1, 9], "origin of a thread is 9"),
            (&[2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "cut off"),
        ];
        for (payload, part) in table {
            let message = records(payload).unwrap_err().to_string();
            assert!(message.contains(part), "{payload:?}: {message}");
        }
        let mut state = 1u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..40)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Small values, so that most tags are known.
                    let byte = state.to_le_bytes()[7];
                    if byte < 160 { byte % 18 } else { byte }
                })
                .collect();
            let _ = records(&bytes);
        }
    }

    #[test]
    fn headers() {
        let bytes = [b'i', b'T', b'R', b'1', 3, 0, 0, 0, 7, 0, 0, 0, 2, 1, 0, 0, 99];
        assert_eq!(Header::read(&bytes), Ok(Some(Header { payload_bytes: 3, uid: 7, sequence: 258 })));
        assert_eq!(Header::read(&bytes[..15]), Ok(None));
        assert!(matches!(Header::read(&[b'x'; 16]), Err(ProtocolError::Magic { .. })));
        let mut long = bytes;
        long[6] = 1;
        assert_eq!(Header::read(&long), Err(ProtocolError::Length { claimed: 65_539 }));
    }
}
