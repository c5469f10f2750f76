//! A trace being written, or torn: an Arrow IPC stream read message by message, up to the last whole batch.
//!
//! Source: Apache Arrow columnar format 1.5, "Serialization and interprocess communication".

use arrow_ipc::{CompressionType, MessageHeader, Type as ArrowType};

use super::Source;
use super::decode::{little_endian, unpack_bits};
use super::footer::{COLUMNS, META_KEY};
use super::ipc_writer::{EVENT_COLUMN, Note};
use crate::{BATCH_ROWS, Result, RowBatch, TraceError, TraceMeta};

/// Largest batch that is read: our own have 64 Ki rows.
const MESSAGE_ROWS_MAX: usize = 4 << 20;
/// Largest message that is read.
const MESSAGE_BYTES_MAX: u64 = 256 << 20;
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Whether the file begins like an Arrow IPC stream.
pub(crate) fn is_ipc(head: &[u8]) -> bool {
    head.starts_with(&CONTINUATION)
}

/// Streams the rows of an Arrow IPC stream. Holds one batch.
#[derive(Debug)]
pub(crate) struct IpcRows {
    source: Source,
    fields: Vec<FieldKind>,
    /// Where the first batch begins, and where the last whole one ends.
    first_message: u64,
    end: u64,
    next_message: u64,
    rows_done: u64,
    current: Message,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldKind {
    /// Integers of `bytes` bytes; `column` indexes [`COLUMNS`].
    Integer {
        column: usize,
        bytes: usize,
    },
    Bits {
        column: usize,
    },
    Notes,
}

/// The decoded columns of one batch.
#[derive(Debug, Default)]
struct Message {
    rows: usize,
    next_row: usize,
    /// Of each of [`COLUMNS`] the plain values and the bytes a value (0: bits).
    columns: [(Vec<u8>, usize); 5],
    /// Bit i set: row i is a note. Empty: no notes.
    is_note: Vec<u8>,
    notes: Vec<String>,
    metadata: Vec<u8>,
    body: Vec<u8>,
}

/// Where one message lies.
struct Frame {
    body: u64,
    body_bytes: u64,
}

/// What is next in the stream.
enum Next {
    Frame(Frame),
    /// The stream was closed.
    Closed,
    /// The file ends inside a message, or between messages without closing.
    Torn,
}

impl IpcRows {
    /// Reads the header and then every batch once: events, declarations, counts.
    pub(crate) fn open(source: Source) -> Result<(Self, TraceMeta)> {
        let mut current = Message::default();
        let Next::Frame(frame) = next_frame(&source, 0, &mut current.metadata)? else {
            return Err(source.damaged(0, "the stream ends inside its header, before the first row: nothing is left"));
        };
        let (fields, mut meta) = read_schema(&source, &current.metadata)?;
        let first_message = frame.body + frame.body_bytes;
        let end = source.bytes;
        let mut rows = Self { source, fields, first_message, end, next_message: first_message, rows_done: 0, current };
        rows.scan(&mut meta)?;
        rows.rewind();
        Ok((rows, meta))
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn rewind(&mut self) {
        self.next_message = self.first_message;
        self.rows_done = 0;
        self.current.rows = 0;
        self.current.next_row = 0;
    }

    fn scan(&mut self, meta: &mut TraceMeta) -> Result<()> {
        meta.rows = 0;
        meta.accesses = 0;
        meta.complete = false;
        let closed = loop {
            match next_frame(&self.source, self.next_message, &mut self.current.metadata)? {
                Next::Closed => break true,
                Next::Torn => break false,
                Next::Frame(frame) => {
                    self.load(&frame, true)?;
                    for note in std::mem::take(&mut self.current.notes) {
                        let note = serde_json::from_str(&note).map_err(|error| {
                            self.source.damaged(frame.body, format!("an event is not understood: {error}"))
                        })?;
                        apply(meta, note);
                    }
                    let message = &self.current;
                    for row in (0..message.rows).filter(|&row| !message.notes_at(row)) {
                        meta.rows += 1;
                        meta.accesses += message.value(3, row);
                    }
                    self.next_message = frame.body + frame.body_bytes;
                }
            }
        };
        self.end = self.next_message;
        if !closed {
            meta.complete = false;
            let cut = self.source.bytes - self.end;
            meta.notes.push(format!("not finished: read up to the last whole batch; {cut} bytes after it left out"));
        }
        Ok(())
    }

    pub(crate) fn next_batch(&mut self, batch: &mut RowBatch) -> Result<bool> {
        batch.clear();
        batch.first_row = self.rows_done;
        while batch.is_empty() {
            if self.current.next_row == self.current.rows {
                if self.next_message >= self.end {
                    return Ok(false);
                }
                let Next::Frame(frame) = next_frame(&self.source, self.next_message, &mut self.current.metadata)?
                else {
                    return Err(self.source.damaged(self.next_message, "the file became shorter while it was read"));
                };
                self.load(&frame, false)?;
                self.next_message = frame.body + frame.body_bytes;
            }
            self.current.take_rows(batch);
        }
        self.rows_done += batch.len() as u64;
        Ok(true)
    }

    /// Decodes the batch of `frame`, whose metadata are in `current.metadata`.
    fn load(&mut self, frame: &Frame, with_notes: bool) -> Result<()> {
        let Self { source, fields, current, .. } = self;
        let damaged = |what: &str| source.damaged(frame.body, what);
        current.rows = 0;
        current.next_row = 0;
        current.is_note.clear();
        current.notes.clear();
        let message =
            arrow_ipc::root_as_message(&current.metadata).map_err(|_| damaged("a batch header is garbage"))?;
        let batch = message.header_as_record_batch().ok_or_else(|| damaged("a message that is not a batch of rows"))?;
        let rows = usize::try_from(batch.length()).ok().filter(|&rows| rows <= MESSAGE_ROWS_MAX);
        let rows = rows.ok_or_else(|| damaged("a batch of more than 4 Mi rows"))?;
        let compressed = match batch.compression() {
            None => false,
            Some(compression) if compression.codec() == CompressionType::ZSTD => true,
            Some(_) => return Err(damaged("compression other than zstd")),
        };
        let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
            return Err(damaged("a batch without columns"));
        };
        let body_bytes = usize::try_from(frame.body_bytes).map_err(|_| damaged("a batch is too large"))?;
        source.read_at(frame.body, body_bytes, &mut current.body)?;
        let mut next_buffer = 0;
        let body = &current.body;
        let mut take = || {
            let index = next_buffer;
            next_buffer += 1;
            if index >= buffers.len() {
                return Err(damaged("a batch lacks a column"));
            }
            let buffer = buffers.get(index);
            let start = usize::try_from(buffer.offset()).ok();
            let end = start.and_then(|start| start.checked_add(usize::try_from(buffer.length()).ok()?));
            start
                .zip(end)
                .and_then(|(start, end)| body.get(start..end))
                .ok_or_else(|| damaged("a column reaches outside"))
        };
        for (index, field) in fields.iter().enumerate() {
            if index >= nodes.len() || usize::try_from(nodes.get(index).length()) != Ok(rows) {
                return Err(damaged("columns of different lengths"));
            }
            let nulls = nodes.get(index).null_count();
            let validity = take()?;
            match *field {
                FieldKind::Integer { column, bytes } => {
                    let (values, width) = &mut current.columns[column];
                    *width = bytes;
                    expand(take()?, compressed, rows * bytes, values).map_err(damaged)?;
                }
                FieldKind::Bits { column } => {
                    let (values, width) = &mut current.columns[column];
                    *width = 0;
                    expand(take()?, compressed, rows.div_ceil(8), values).map_err(damaged)?;
                }
                FieldKind::Notes => {
                    let (offsets, text) = (take()?, take()?);
                    let nr_notes = usize::try_from(i64::try_from(rows).unwrap_or(0).saturating_sub(nulls));
                    if nr_notes == Ok(0) {
                        continue;
                    }
                    if nulls == 0 {
                        current.is_note.resize(rows.div_ceil(8), 0xff);
                    } else {
                        expand(validity, compressed, rows.div_ceil(8), &mut current.is_note).map_err(damaged)?;
                    }
                    if with_notes {
                        current.notes =
                            read_notes(offsets, text, compressed, rows, &current.is_note).map_err(damaged)?;
                    }
                    continue;
                }
            }
            if nulls != 0 {
                return Err(damaged("a value is absent (null) where all must be there"));
            }
        }
        current.rows = rows;
        Ok(())
    }
}

impl Message {
    fn notes_at(&self, row: usize) -> bool {
        self.is_note.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 != 0)
    }

    fn value(&self, column: usize, row: usize) -> u64 {
        let (values, width) = &self.columns[column];
        little_endian(&values[row * width..(row + 1) * width])
    }

    /// Moves up to [`BATCH_ROWS`] rows to `batch`; notes are passed over.
    fn take_rows(&mut self, batch: &mut RowBatch) {
        let from = self.next_row;
        let to = self.rows.min(from + BATCH_ROWS);
        self.next_row = to;
        if self.is_note.is_empty() && from.is_multiple_of(8) {
            let narrow = |column: usize| {
                let (values, width) = &self.columns[column];
                let values = values[from * width..to * width].chunks_exact(*width);
                // Values of a wider column that do not fit are refused by the reader's check of the rows.
                values.map(|bytes| u32::try_from(little_endian(bytes)).unwrap_or(u32::MAX))
            };
            let wide = |column: usize| {
                let (values, width) = &self.columns[column];
                values[from * width..to * width].chunks_exact(*width).map(little_endian)
            };
            batch.time_ns.extend(wide(0));
            batch.thread.extend(narrow(1));
            batch.page.extend(wide(2));
            batch.pages.extend(narrow(3));
            let first = batch.write.len();
            batch.write.resize(first + (to - from).next_multiple_of(8), false);
            unpack_bits(&self.columns[4].0[from / 8..to.div_ceil(8)], &mut batch.write[first..]);
            batch.write.truncate(first + to - from);
            return;
        }
        for row in (from..to).filter(|&row| !self.notes_at(row)) {
            batch.push(crate::Row {
                time_ns: self.value(0, row),
                thread: u32::try_from(self.value(1, row)).unwrap_or(u32::MAX),
                page: self.value(2, row),
                pages: u32::try_from(self.value(3, row)).unwrap_or(u32::MAX),
                write: self.columns[4].0[row / 8] >> (row % 8) & 1 != 0,
            });
        }
    }
}

fn apply(meta: &mut TraceMeta, note: Note) {
    match note {
        Note::Event(event) => meta.events.push(event),
        Note::Process(process) => meta.processes.push(process),
        Note::Thread(thread) => meta.threads.push(thread),
        Note::Remark(remark) => meta.notes.push(remark),
        Note::Outcome { exit_code, complete } => {
            meta.exit_code = exit_code;
            meta.complete = complete;
        }
    }
}

/// Finds the message at `at`; its metadata go to `metadata`.
fn next_frame(source: &Source, at: u64, metadata: &mut Vec<u8>) -> Result<Next> {
    let left = source.bytes.saturating_sub(at);
    if left < 8 {
        return Ok(Next::Torn);
    }
    source.read_at(at, 8, metadata)?;
    let len = u64::from(u32::from_le_bytes([metadata[4], metadata[5], metadata[6], metadata[7]]));
    if metadata[..4] != CONTINUATION {
        if metadata.iter().all(|&byte| byte == 0) {
            // A crash of the machine can leave zeroes where data were to be.
            return Ok(Next::Torn);
        }
        return Err(source.damaged(at, "no Arrow IPC message where one should begin"));
    }
    if len == 0 {
        return Ok(Next::Closed);
    }
    if len > left - 8 {
        return Ok(Next::Torn);
    }
    if len > MESSAGE_BYTES_MAX {
        return Err(source.damaged(at, "a message header of more than 256 MiB"));
    }
    source.read_at(at + 8, usize::try_from(len).expect("checked to be small"), metadata)?;
    let message = arrow_ipc::root_as_message(metadata);
    let message = message.map_err(|_| source.damaged(at, "the header of an Arrow IPC message is garbage"))?;
    let body = at + 8 + len;
    let body_bytes = u64::try_from(message.bodyLength());
    let body_bytes = body_bytes.map_err(|_| source.damaged(at, "a message of negative length"))?;
    if body_bytes > source.bytes - body {
        return Ok(Next::Torn);
    }
    if body_bytes > MESSAGE_BYTES_MAX {
        return Err(source.damaged(at, "a message of more than 256 MiB"));
    }
    Ok(Next::Frame(Frame { body, body_bytes }))
}

fn read_schema(source: &Source, metadata: &[u8]) -> Result<(Vec<FieldKind>, TraceMeta)> {
    let wrong = |found: &str| TraceError::WrongFormat {
        path: source.path.clone(),
        expected: "a page trace",
        found: format!("{found}. An Arrow IPC stream is read when `isotherm record` wrote it"),
    };
    let message = arrow_ipc::root_as_message(metadata).map_err(|_| source.damaged(0, "its header is garbage"))?;
    if message.header_type() != MessageHeader::Schema {
        return Err(wrong("an Arrow IPC stream that does not begin with a schema"));
    }
    let schema = message.header_as_schema().ok_or_else(|| source.damaged(0, "its header is garbage"))?;
    if schema.endianness() != arrow_ipc::Endianness::Little {
        return Err(wrong("an Arrow IPC stream in big-endian order"));
    }
    let mut fields = Vec::new();
    for field in schema.fields().into_iter().flatten() {
        let name = field.name().unwrap_or_default();
        let column = COLUMNS.iter().position(|column| *column == name);
        fields.push(match (field.type_type(), column) {
            (ArrowType::Int, Some(column)) if column < 4 => {
                let bits = field.type_as_int().map_or(0, |int| int.bitWidth());
                let bytes = match bits {
                    32 => 4,
                    64 => 8,
                    _ => return Err(wrong(&format!("column `{name}` has {bits} bits a value"))),
                };
                FieldKind::Integer { column, bytes }
            }
            (ArrowType::Bool, Some(4)) => FieldKind::Bits { column: 4 },
            (ArrowType::Utf8, None) if name == EVENT_COLUMN => FieldKind::Notes,
            _ => return Err(wrong(&format!("column `{name}` does not belong in a trace, or has another type"))),
        });
    }
    for (index, name) in COLUMNS.iter().enumerate() {
        let count = fields
            .iter()
            .filter(|field| match field {
                FieldKind::Integer { column, .. } | FieldKind::Bits { column } => *column == index,
                FieldKind::Notes => false,
            })
            .count();
        if count != 1 {
            return Err(wrong(&format!("column `{name}` is there {count} times")));
        }
    }
    let entries = schema.custom_metadata().into_iter().flatten();
    let json = entries.filter(|entry| entry.key() == Some(META_KEY)).find_map(|entry| entry.value());
    let json = json.ok_or_else(|| wrong(&format!("an Arrow IPC stream without the metadata key `{META_KEY}`")))?;
    Ok((fields, crate::reader::parse_meta(&source.path, json)?))
}

/// Copies a buffer of `bytes` bytes to `out`, decompressed where it is compressed.
fn expand(stored: &[u8], compressed: bool, bytes: usize, out: &mut Vec<u8>) -> Result<(), &'static str> {
    const SHORT: &str = "a column is shorter than its rows";
    out.clear();
    if !compressed || bytes == 0 {
        out.extend_from_slice(stored.get(..bytes).ok_or(SHORT)?);
        return Ok(());
    }
    let (head, stored) = stored.split_first_chunk::<8>().ok_or(SHORT)?;
    match i64::from_le_bytes(*head) {
        -1 => out.extend_from_slice(stored.get(..bytes).ok_or(SHORT)?),
        claimed => {
            // Buffers may be padded to whole words before they are compressed.
            let claimed = usize::try_from(claimed).map_err(|_| SHORT)?;
            if claimed < bytes || claimed > bytes + 64 {
                return Err("a column has another length than its rows");
            }
            out.reserve(claimed);
            let done = zstd::bulk::Decompressor::new().and_then(|mut zstd| zstd.decompress_to_buffer(stored, out));
            if done.is_err() || out.len() < bytes {
                return Err("a column cannot be decompressed");
            }
            out.truncate(bytes);
        }
    }
    Ok(())
}

fn read_notes(
    offsets: &[u8],
    text: &[u8],
    compressed: bool,
    rows: usize,
    is_note: &[u8],
) -> Result<Vec<String>, &'static str> {
    const BAD: &str = "the text of an event lies outside its column";
    let (mut plain_offsets, mut plain_text) = (Vec::new(), Vec::new());
    expand(offsets, compressed, (rows + 1) * 4, &mut plain_offsets)?;
    let offset = |index: usize| usize::try_from(little_endian(&plain_offsets[index * 4..index * 4 + 4])).ok();
    let text_bytes = offset(rows).ok_or(BAD)?;
    if text_bytes > 64 << 20 {
        return Err("more than 64 MiB of events in one batch");
    }
    expand(text, compressed, text_bytes, &mut plain_text)?;
    let mut notes = Vec::new();
    for row in (0..rows).filter(|&row| is_note[row / 8] >> (row % 8) & 1 != 0) {
        let (start, end) = offset(row).zip(offset(row + 1)).ok_or(BAD)?;
        let bytes = plain_text.get(start..end).ok_or(BAD)?;
        notes.push(String::from_utf8(bytes.to_vec()).map_err(|_| "an event is not UTF-8 text")?);
    }
    Ok(notes)
}
