//! A file being written, or torn: an Arrow IPC stream read message by message, up to the last whole batch.
//!
//! Source: Apache Arrow columnar format 1.5, "Serialization and interprocess communication".

use arrow_ipc::{CompressionType, MessageHeader, Type as ArrowType};

use super::Source;
use super::decode::little_endian;
use super::footer::META_KEY;
use super::ipc_file::EVENT_COLUMN;
use super::table::{Kind, Table};
use crate::{Result, TraceError};

/// Largest batch that is read: our own have 64 Ki rows.
const MESSAGE_ROWS_MAX: usize = 4 << 20;
/// Largest message that is read.
const MESSAGE_BYTES_MAX: u64 = 256 << 20;
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Whether the file begins like an Arrow IPC stream.
pub(crate) fn is_ipc(head: &[u8]) -> bool {
    head.starts_with(&CONTINUATION)
}

/// Streams the batches of an Arrow IPC stream. Holds one.
#[derive(Debug)]
pub(crate) struct IpcTable {
    source: Source,
    fields: Vec<FieldKind>,
    /// Start of the first batch, and end of the last whole one.
    first_message: u64,
    end: u64,
    next_message: u64,
    current: Message,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldKind {
    /// Integers of `bytes` bytes; `column` indexes the table's columns.
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
pub(crate) struct Message {
    pub(crate) rows: usize,
    /// For each column of the table: the plain values, and the bytes of a value (0: bits).
    pub(crate) columns: Vec<(Vec<u8>, usize)>,
    /// Bit i set: row i is a note. Empty: no notes.
    is_note: Vec<u8>,
    notes: Vec<String>,
    metadata: Vec<u8>,
    body: Vec<u8>,
}

/// Location of a message.
struct Frame {
    body: u64,
    body_bytes: u64,
}

/// The next item of the stream.
enum Next {
    Frame(Frame),
    /// The stream was closed.
    Closed,
    /// The file ends inside a message, or between messages without closing.
    Torn,
}

impl IpcTable {
    /// Reads the header. Returns its metadata as JSON. [`IpcTable::scan`] or [`IpcTable::expect_closed`] must come
    /// next.
    pub(crate) fn open(source: Source, table: &Table) -> Result<(Self, String)> {
        let mut current = Message::default();
        let Next::Frame(frame) = next_frame(&source, 0, &mut current.metadata)? else {
            return Err(source.damaged(0, "the stream ends inside its header, before the first row: nothing is left"));
        };
        let (fields, json) = read_schema(&source, table, &current.metadata)?;
        current.columns.resize_with(table.columns.len(), Default::default);
        let first_message = frame.body + frame.body_bytes;
        let end = source.bytes;
        Ok((Self { source, fields, first_message, end, next_message: first_message, current }, json))
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn rewind(&mut self) {
        self.next_message = self.first_message;
        self.current.rows = 0;
    }

    /// Reads every batch once, and passes it on with its notes and its offset in the file. Returns the number of bytes
    /// after the last whole batch, which are left out; `None` if the stream was closed.
    pub(crate) fn scan(
        &mut self,
        mut each: impl FnMut(&Source, u64, &Message, Vec<String>) -> Result<()>,
    ) -> Result<Option<u64>> {
        let closed = loop {
            match next_frame(&self.source, self.next_message, &mut self.current.metadata)? {
                Next::Closed => break true,
                Next::Torn => break false,
                Next::Frame(frame) => {
                    self.load(&frame, true)?;
                    let notes = std::mem::take(&mut self.current.notes);
                    each(&self.source, frame.body, &self.current, notes)?;
                    self.next_message = frame.body + frame.body_bytes;
                }
            }
        };
        self.end = self.next_message;
        self.rewind();
        Ok((!closed).then(|| self.source.bytes - self.end))
    }

    /// Replaces [`IpcTable::scan`] for a stream that is known to be closed, by a marker of 8 bytes.
    pub(crate) fn expect_closed(&mut self) {
        self.end = self.source.bytes.saturating_sub(8);
    }

    /// The next batch; `None` at the end.
    pub(crate) fn next_message(&mut self) -> Result<Option<&Message>> {
        if self.next_message >= self.end {
            self.current.rows = 0;
            return Ok(None);
        }
        let Next::Frame(frame) = next_frame(&self.source, self.next_message, &mut self.current.metadata)? else {
            return Err(self.source.damaged(self.next_message, "the file became shorter while it was read"));
        };
        self.load(&frame, false)?;
        self.next_message = frame.body + frame.body_bytes;
        Ok(Some(&self.current))
    }

    /// The last batch from [`IpcTable::next_message`].
    pub(crate) fn current(&self) -> &Message {
        &self.current
    }

    /// Decodes the batch of `frame`, whose metadata are in `current.metadata`.
    fn load(&mut self, frame: &Frame, with_notes: bool) -> Result<()> {
        let Self { source, fields, current, .. } = self;
        let damaged = |what: &str| source.damaged(frame.body, what);
        current.rows = 0;
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
    pub(crate) fn has_notes(&self) -> bool {
        !self.is_note.is_empty()
    }

    pub(crate) fn notes_at(&self, row: usize) -> bool {
        self.is_note.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 != 0)
    }

    /// Whether the stream has this column of the table; always true for required columns.
    pub(crate) fn has_column(&self, column: usize) -> bool {
        self.rows == 0 || !self.columns[column].0.is_empty()
    }

    /// Value of an integer column.
    pub(crate) fn value(&self, column: usize, row: usize) -> u64 {
        let (values, width) = &self.columns[column];
        little_endian(&values[row * width..(row + 1) * width])
    }

    /// Value of a boolean column.
    pub(crate) fn bit(&self, column: usize, row: usize) -> bool {
        self.columns[column].0[row / 8] >> (row % 8) & 1 != 0
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
            // A crash of the machine can leave zeroes in place of data.
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

fn read_schema(source: &Source, table: &Table, metadata: &[u8]) -> Result<(Vec<FieldKind>, String)> {
    let wrong = |found: &str| TraceError::WrongFormat {
        path: source.path.clone(),
        expected: table.what,
        found: format!("{found}. An Arrow IPC stream is read when `{}` wrote it", table.made_by),
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
        let column = table.columns.iter().position(|column| column.name == name);
        let is_bool = column.is_some_and(|column| table.columns[column].kind == Kind::Bool);
        fields.push(match (field.type_type(), column) {
            (ArrowType::Int, Some(column)) if !is_bool => {
                let bits = field.type_as_int().map_or(0, |int| int.bitWidth());
                let bytes = match bits {
                    32 => 4,
                    64 => 8,
                    _ => return Err(wrong(&format!("column `{name}` has {bits} bits a value"))),
                };
                FieldKind::Integer { column, bytes }
            }
            (ArrowType::Bool, Some(column)) if is_bool => FieldKind::Bits { column },
            (ArrowType::Utf8, None) if name == EVENT_COLUMN => FieldKind::Notes,
            _ => return Err(wrong(&format!("column `{name}` does not belong in {}, or has another type", table.what))),
        });
    }
    for (index, described) in table.columns.iter().enumerate() {
        let name = described.name;
        let count = fields
            .iter()
            .filter(|field| match field {
                FieldKind::Integer { column, .. } | FieldKind::Bits { column } => *column == index,
                FieldKind::Notes => false,
            })
            .count();
        if count != 1 && !(described.optional && count == 0) {
            return Err(wrong(&format!("column `{name}` is there {count} times")));
        }
    }
    let entries = schema.custom_metadata().into_iter().flatten();
    let json = entries.filter(|entry| entry.key() == Some(META_KEY)).find_map(|entry| entry.value());
    let json = json.ok_or_else(|| wrong(&format!("an Arrow IPC stream without the metadata key `{META_KEY}`")))?;
    Ok((fields, json.to_owned()))
}

/// Copies a buffer of `bytes` bytes to `out`, decompressed if needed.
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
