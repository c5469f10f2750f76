//! One column of one row group: its pages found, checked, decompressed and decoded piece by piece.

use super::Source;
use super::decode::{Delta, Flaw, Hybrid, Integers, PAGE_SLACK_BYTES, Word, little_endian, unpack_bits};
use super::footer::{Chunk, Codec, Physical};
use super::thrift::{Struct, ThriftError, read_struct};
use crate::{Result, TraceError};

/// Largest page that is read: our own have a few hundred KiB, other programs' about 1 MiB.
const PAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes read to find a page header; headers with statistics have some 100 bytes.
const HEADER_WINDOW_BYTES: u64 = 1024;

const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE: i64 = 3;
const DELTA_BINARY_PACKED: i64 = 5;
const RLE_DICTIONARY: i64 = 8;

/// Buffers and state for one column; reused from row group to row group.
pub(crate) struct ColumnReader {
    name: &'static str,
    chunk: Chunk,
    next_page: u64,
    page_start: u64,
    /// The decompressed page and its slack.
    page: Vec<u8>,
    stored: Vec<u8>,
    values_left: usize,
    values: Values,
    dictionary: Vec<u64>,
    zstd: zstd::bulk::Decompressor<'static>,
}

enum Values {
    None,
    Integers(Integers),
    PlainBits { bit: usize, end: usize },
    RunLengthBits(Hybrid),
}

impl std::fmt::Debug for ColumnReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnReader({} at {})", self.name, self.next_page)
    }
}

impl ColumnReader {
    pub(crate) fn new(source: &Source, name: &'static str, chunk: Chunk) -> Result<Self> {
        let zstd = zstd::bulk::Decompressor::new().map_err(|error| TraceError::io("read", &source.path, error))?;
        Ok(Self {
            name,
            chunk,
            next_page: chunk.start,
            page_start: chunk.start,
            page: Vec::new(),
            stored: Vec::new(),
            values_left: 0,
            values: Values::None,
            dictionary: Vec::new(),
            zstd,
        })
    }

    /// Goes to the start of the same column in another row group.
    pub(crate) fn start(&mut self, chunk: Chunk) {
        self.chunk = chunk;
        self.next_page = chunk.start;
        self.values_left = 0;
        self.values = Values::None;
        self.dictionary.clear();
    }

    /// Fills `out` with the next values of an integer column.
    pub(crate) fn read<W: Word>(&mut self, source: &Source, mut out: &mut [W]) -> Result<()> {
        while !out.is_empty() {
            let now = self.available(source, out.len())?;
            let (here, rest) = out.split_at_mut(now);
            let read = match &mut self.values {
                Values::Integers(integers) => integers.read(&self.page, &self.dictionary, here),
                _ => Err("a page of booleans where integers belong"),
            };
            read.map_err(|flaw| self.damaged(source, flaw))?;
            self.values_left -= now;
            out = rest;
        }
        Ok(())
    }

    /// Fills `out` with the next values of a boolean column.
    pub(crate) fn read_bools(&mut self, source: &Source, mut out: &mut [bool]) -> Result<()> {
        while !out.is_empty() {
            let now = self.available(source, out.len())?;
            let (here, rest) = out.split_at_mut(now);
            let read = match &mut self.values {
                Values::PlainBits { bit, end } => read_plain_bits(&self.page[..*end], bit, here),
                Values::RunLengthBits(hybrid) => hybrid.read_bools(&self.page, here),
                _ => Err("a page of integers where booleans belong"),
            };
            read.map_err(|flaw| self.damaged(source, flaw))?;
            self.values_left -= now;
            out = rest;
        }
        Ok(())
    }

    #[cold]
    fn damaged(&self, source: &Source, flaw: &str) -> TraceError {
        source.damaged(self.page_start, format!("column `{}`: {flaw}", self.name))
    }

    /// Number of values, up to `count`, that the current page can give; moves on to the next page if it is
    /// exhausted.
    fn available(&mut self, source: &Source, count: usize) -> Result<usize> {
        while self.values_left == 0 {
            self.next_page(source)?;
        }
        Ok(count.min(self.values_left))
    }

    fn next_page(&mut self, source: &Source) -> Result<()> {
        self.page_start = self.next_page;
        let left = self.chunk.end.saturating_sub(self.next_page);
        if left == 0 {
            return Err(self.damaged(source, "it has fewer values than its row group has rows"));
        }
        let header = self.read_header(source, left)?;
        self.load(source, &header)?;
        let flaw = match header.kind {
            PageKind::Dictionary => self.open_dictionary(&header),
            PageKind::Data => self.open_data(&header),
            PageKind::Other => Ok(()),
        };
        flaw.map_err(|flaw| self.damaged(source, flaw))
    }

    fn read_header(&mut self, source: &Source, left: u64) -> Result<PageHeader> {
        let mut window = HEADER_WINDOW_BYTES;
        loop {
            let len = usize::try_from(left.min(window)).expect("a window is small");
            source.read_at(self.next_page, len, &mut self.stored)?;
            match read_struct(&self.stored) {
                Ok((header, header_len)) => {
                    self.next_page += header_len as u64;
                    let page_left = left - header_len as u64;
                    return PageHeader::parse(&header, page_left).map_err(|flaw| self.damaged(source, flaw));
                }
                Err(ThriftError::CutOff) if window < left && window < 1 << 20 => window *= 16,
                Err(_) => return Err(self.damaged(source, "a page header is unreadable")),
            }
        }
    }

    /// Reads the page's bytes into `self.page`, decompressed, followed by slack.
    fn load(&mut self, source: &Source, header: &PageHeader) -> Result<()> {
        let offset = self.next_page;
        self.next_page += header.stored_bytes as u64;
        if header.kind == PageKind::Other {
            return Ok(());
        }
        let compressed = self.chunk.codec == Codec::Zstd && header.compressed;
        if compressed {
            source.read_at(offset, header.stored_bytes, &mut self.stored)?;
            // Levels of version 2 pages stay outside the compression.
            let levels = header.level_bytes.min(self.stored.len());
            let values_bytes = header.page_bytes.saturating_sub(levels);
            self.page.clear();
            if levels == 0 {
                self.page.reserve(header.page_bytes + PAGE_SLACK_BYTES);
                let done = self.zstd.decompress_to_buffer(&self.stored, &mut self.page);
                done.map_err(|_| self.damaged(source, "a page cannot be decompressed"))?;
            } else {
                let values = self.zstd.decompress(&self.stored[levels..], values_bytes);
                let values = values.map_err(|_| self.damaged(source, "a page cannot be decompressed"))?;
                self.page.extend_from_slice(&self.stored[..levels]);
                self.page.extend_from_slice(&values);
            }
        } else {
            source.read_at(offset, header.stored_bytes, &mut self.page)?;
        }
        if self.page.len() != header.page_bytes {
            return Err(self.damaged(source, "a page has another length than its header says"));
        }
        self.page.resize(header.page_bytes + PAGE_SLACK_BYTES, 0);
        Ok(())
    }

    fn open_dictionary(&mut self, header: &PageHeader) -> Result<(), Flaw> {
        let width = match self.chunk.physical {
            Physical::Boolean => return Err("a dictionary of booleans"),
            Physical::Int32 => 4,
            Physical::Int64 => 8,
        };
        if header.page_bytes / width < header.values {
            return Err("its dictionary is cut off");
        }
        self.dictionary.clear();
        self.dictionary.extend(self.page[..header.values * width].chunks_exact(width).map(little_endian));
        Ok(())
    }

    fn open_data(&mut self, header: &PageHeader) -> Result<(), Flaw> {
        let (end, count) = (header.page_bytes, header.values);
        let at = self.skip_levels(header)?;
        self.values = match (self.chunk.physical, header.encoding) {
            (Physical::Boolean, PLAIN) => Values::PlainBits { bit: at * 8, end },
            (Physical::Boolean, RLE) => Values::RunLengthBits(Hybrid::new(at + 4, end.max(at + 4), 1)?),
            (Physical::Int32 | Physical::Int64, DELTA_BINARY_PACKED) => {
                Values::Integers(Integers::Delta(Box::new(Delta::new(&self.page, at, end, count)?)))
            }
            (physical @ (Physical::Int32 | Physical::Int64), PLAIN) => {
                Values::Integers(Integers::Plain { at, end, physical })
            }
            (Physical::Int32 | Physical::Int64, RLE_DICTIONARY | PLAIN_DICTIONARY) => {
                let width = if at < end { self.page[at] } else { 0 };
                Values::Integers(Integers::Dictionary(Hybrid::new((at + 1).min(end), end, width)?))
            }
            _ => return Err("an encoding that is not read here; use DELTA_BINARY_PACKED, PLAIN or a dictionary"),
        };
        self.values_left = count;
        Ok(())
    }

    /// Checks that no value is absent. Returns the offset of the values.
    fn skip_levels(&self, header: &PageHeader) -> Result<usize, Flaw> {
        let (at, values_at) = if header.version == 2 {
            (0, header.level_bytes)
        } else if self.chunk.optional {
            let len = usize::try_from(little_endian(&self.page[..4])).map_err(|_| "levels are cut off")?;
            (4, len.saturating_add(4))
        } else {
            (0, 0)
        };
        if values_at > header.page_bytes {
            return Err("levels are cut off");
        }
        if self.chunk.optional {
            let mut absent = false;
            let mut levels = Hybrid::new(at, values_at, 1)?;
            levels.read(&self.page, header.values, |level, _| absent |= level != 1)?;
            if absent {
                return Err("a value is absent (null); all columns of a trace are required");
            }
        }
        Ok(values_at)
    }
}

fn read_plain_bits(page: &[u8], bit: &mut usize, out: &mut [bool]) -> Result<(), Flaw> {
    let end = *bit + out.len();
    if end > page.len() * 8 {
        return Err("a page ends inside its values");
    }
    let one = |bit: usize| page[bit / 8] >> (bit % 8) & 1 != 0;
    let lead = bit.next_multiple_of(8).min(end) - *bit;
    let (head, body) = out.split_at_mut(lead);
    let whole = body.len() / 8;
    let (body, tail) = body.split_at_mut(whole * 8);
    head.iter_mut().enumerate().for_each(|(index, value)| *value = one(*bit + index));
    let body_at = *bit + lead;
    unpack_bits(&page[body_at / 8..body_at / 8 + whole], body);
    tail.iter_mut().enumerate().for_each(|(index, value)| *value = one(body_at + whole * 8 + index));
    *bit = end;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageKind {
    Dictionary,
    Data,
    Other,
}

#[derive(Debug)]
struct PageHeader {
    kind: PageKind,
    version: u8,
    values: usize,
    encoding: i64,
    /// Bytes of the page when decompressed, levels included.
    page_bytes: usize,
    stored_bytes: usize,
    /// Bytes of levels, in version 2 pages.
    level_bytes: usize,
    compressed: bool,
}

impl PageHeader {
    /// `left`: bytes of the column chunk after this header.
    fn parse(header: &Struct<'_>, left: u64) -> Result<Self, Flaw> {
        let size = |value: Option<i64>| value.and_then(|value| usize::try_from(value).ok());
        let page_bytes = size(header.int(2)).ok_or("a page without a length")?;
        let stored_bytes = size(header.int(3)).ok_or("a page without a length")?;
        if page_bytes > PAGE_BYTES_MAX || stored_bytes > PAGE_BYTES_MAX {
            return Err("a page of more than 64 MiB");
        }
        if stored_bytes as u64 > left {
            return Err("a page reaches beyond its column");
        }
        let (kind, version, inner) = match header.int(1) {
            Some(0) => (PageKind::Data, 1, header.inner(5)),
            Some(2) => (PageKind::Dictionary, 1, header.inner(7)),
            Some(3) => (PageKind::Data, 2, header.inner(8)),
            _ => (PageKind::Other, 1, None),
        };
        let Some(inner) = inner else {
            if kind != PageKind::Other {
                return Err("a page header lacks its second half");
            }
            let compressed = false;
            return Ok(Self {
                kind,
                version,
                values: 0,
                encoding: 0,
                page_bytes,
                stored_bytes,
                level_bytes: 0,
                compressed,
            });
        };
        let values = size(inner.int(1)).ok_or("a page without a value count")?;
        let encoding = inner.int(if version == 2 { 4 } else { 2 }).ok_or("a page without an encoding")?;
        let mut level_bytes = 0;
        let mut compressed = true;
        if version == 2 {
            let (definition, repetition) = (size(inner.int(5)), size(inner.int(6)));
            let (definition, repetition) = definition.zip(repetition).ok_or("a page without level lengths")?;
            if repetition != 0 {
                return Err("a page of lists");
            }
            if definition > page_bytes || definition > stored_bytes {
                return Err("levels are cut off");
            }
            level_bytes = definition;
            compressed = inner.bool(7).unwrap_or(true);
        }
        Ok(Self { kind, version, values, encoding, page_bytes, stored_bytes, level_bytes, compressed })
    }
}
