//! Reads a trace in any form.

use std::ops::Range;
use std::path::Path;
use std::sync::mpsc;

use crate::file::Source;
use crate::file::footer::{Footer, META_KEY, is_parquet};
use crate::file::foreign::named;
use crate::file::ipc_reader::IpcRows;
use crate::file::ipc_stream::is_ipc;
use crate::file::parquet_reader::{ParquetRows, ThreadRows};
use crate::file::table::TRACE;
use crate::{FORMAT_VERSION, PAGE_LIMIT, Result, RowBatch, TraceError, TraceMeta};

/// A trace on disk, read in batches with constant memory.
#[derive(Debug)]
pub struct TraceReader {
    meta: TraceMeta,
    rows: Form,
}

#[derive(Debug)]
enum Form {
    Parquet(Box<ParquetRows>),
    Ipc(Box<IpcRows>),
}

impl TraceReader {
    /// Opens a trace: finished (Parquet), being written or torn (Arrow IPC stream); distinguished by content.
    ///
    /// Reads the metadata; of an unfinished file also all batches once, for its events and its length.
    ///
    /// # Errors
    /// The file cannot be read, is not a trace, or is damaged. A torn Arrow IPC stream is not an error: it opens up to its last whole
    /// batch, with [`TraceMeta::complete`] = `false` and a note.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_source(Source::open(path.as_ref())?, None)
    }

    /// Opens Parquet that may lack our metadata; `fallback` then replaces it.
    pub(crate) fn open_with(path: &Path, fallback: TraceMeta) -> Result<Self> {
        Self::open_source(Source::open(path)?, Some(fallback))
    }

    fn open_source(source: Source, fallback: Option<TraceMeta>) -> Result<Self> {
        if source.bytes == 0 {
            return Err(TraceError::Empty { path: source.path.clone() });
        }
        let head = source.head()?;
        let (mut meta, rows) = if is_parquet(&head) {
            let footer = Footer::read(&source, &TRACE)?;
            let mut meta = match (&footer.meta_json, fallback) {
                (Some(json), _) => parse_meta(&source.path, json)?,
                (None, Some(fallback)) => fallback,
                (None, None) => {
                    return Err(TraceError::WrongFormat {
                        path: source.path.clone(),
                        expected: "a page trace",
                        found: format!(
                            "Parquet without the metadata key `{META_KEY}` (lost when another program rewrote it?). \
                             `isotherm convert import --from parquet` takes it as it is"
                        ),
                    });
                }
            };
            meta.rows = footer.rows;
            (meta, Form::Parquet(Box::new(ParquetRows::new(source, footer))))
        } else if is_ipc(&head) {
            let (rows, meta) = IpcRows::open(source)?;
            (meta, Form::Ipc(Box::new(rows)))
        } else {
            return Err(TraceError::WrongFormat {
                path: source.path.clone(),
                expected: "a page trace (Parquet, or Arrow IPC stream)",
                found: format!("{}. Other formats are read by `isotherm convert import`", describe(&head)),
            });
        };
        meta.events.sort_by_key(|event| event.row);
        let reader = Self { meta, rows };
        reader.check_meta()?;
        Ok(reader)
    }

    /// Opens a stream that this process has just finished writing, with known metadata, so nothing is read twice.
    pub(crate) fn open_closed(path: &Path, mut meta: TraceMeta) -> Result<Self> {
        let rows = IpcRows::open_closed(Source::open(path)?)?;
        meta.events.sort_by_key(|event| event.row);
        Ok(Self { meta, rows: Form::Ipc(Box::new(rows)) })
    }

    fn check_meta(&self) -> Result<()> {
        let meta = &self.meta;
        let flaw = |what: String| Err(TraceError::damaged(self.path(), 0, format!("its metadata: {what}")));
        if meta.format_version > FORMAT_VERSION {
            let (found, known) = (meta.format_version, FORMAT_VERSION);
            return Err(TraceError::TooNew { path: self.path().to_owned(), found, known });
        }
        if !meta.page_bytes.is_power_of_two() {
            return flaw(format!("page_bytes is {}, which is not a power of two", meta.page_bytes));
        }
        for (index, thread) in meta.threads.iter().enumerate() {
            if thread.process >= meta.processes.len() {
                return flaw(format!("thread {index} belongs to process {}, which is not listed", thread.process));
            }
            if thread.started_by.is_some_and(|by| by >= meta.threads.len() || by == index) {
                return flaw(format!("thread {index} was started by a thread that is not listed"));
            }
        }
        for (index, process) in meta.processes.iter().enumerate() {
            if process.forked_from.is_some_and(|from| from >= index) {
                return flaw(format!("process {index} was forked from a process that is not listed before it"));
            }
        }
        for (index, event) in meta.events.iter().enumerate() {
            let known = |thread: u32| (thread as usize) < meta.threads.len();
            let fine = match &event.kind {
                crate::EventKind::Map(map) => map.start < map.end && map.end <= PAGE_LIMIT,
                crate::EventKind::Unmap { start, end } => start < end && *end <= PAGE_LIMIT,
                crate::EventKind::StartThread { thread } => known(*thread),
                _ => true,
            };
            if !fine || !known(event.thread) {
                return flaw(format!("event {index} names a thread or a range that cannot be"));
            }
        }
        Ok(())
    }

    /// Complete metadata of the trace, including events (sorted by row), row and access counts.
    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    pub fn path(&self) -> &Path {
        &self.source().path
    }

    /// Length of the file in bytes when it was opened.
    pub fn file_bytes(&self) -> u64 {
        self.source().bytes
    }

    /// Whether the file is finished (Parquet); otherwise it is an Arrow IPC stream.
    pub fn is_finished(&self) -> bool {
        matches!(self.rows, Form::Parquet(_))
    }

    fn source(&self) -> &Source {
        match &self.rows {
            Form::Parquet(rows) => rows.source(),
            Form::Ipc(rows) => rows.source(),
        }
    }

    /// Replaces the contents of `batch` with the next rows, at most [`crate::BATCH_ROWS`]. `false`: no rows are left and
    /// `batch` is empty.
    ///
    /// Each returned row is allowed by [`crate::TraceRow`], and belongs to a thread that the metadata list.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn next_batch(&mut self, batch: &mut RowBatch) -> Result<bool> {
        let more = match &mut self.rows {
            Form::Parquet(rows) => rows.next_batch(batch)?,
            Form::Ipc(rows) => rows.next_batch(batch)?,
        };
        if let Some((index, flaw)) = find_flaw(batch, self.meta.threads.len()) {
            return Err(TraceError::bad_value(self.path(), "row", batch.first_row + index as u64, flaw));
        }
        Ok(more)
    }

    /// Metadata of the file about the next rows, if known and if all these rows belong to one thread.
    pub(crate) fn thread_ahead(&self) -> Option<ThreadRows> {
        match &self.rows {
            Form::Parquet(rows) => rows.thread_ahead().filter(|rows| (rows.thread as usize) < self.meta.threads.len()),
            Form::Ipc(_) => None,
        }
    }

    /// Skips the rows that [`TraceReader::thread_ahead`] describes.
    pub(crate) fn skip_ahead(&mut self) {
        if let Form::Parquet(rows) = &mut self.rows {
            rows.skip_group();
        }
    }

    /// Goes to row `row`, or to the nearest earlier row at which the file can be read.
    fn go_to(&mut self, row: u64) {
        match &mut self.rows {
            Form::Parquet(rows) => rows.go_to(row),
            Form::Ipc(rows) => rows.rewind(),
        }
    }

    /// Goes back to the first row, for another pass.
    pub fn rewind(&mut self) {
        match &mut self.rows {
            Form::Parquet(rows) => rows.rewind(),
            Form::Ipc(rows) => rows.rewind(),
        }
    }

    /// Reads all rows from the first on, batch by batch. For a long trace the next batches are decoded meanwhile, on a separate thread.
    ///
    /// # Errors
    /// Errors of [`TraceReader::next_batch`], and of `each`.
    pub fn for_each_batch<E: From<TraceError>>(
        &mut self,
        each: impl FnMut(&RowBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.for_each_batch_of(0..u64::MAX, each)
    }

    /// The same for batches that hold these rows. There may be others before and after them.
    pub(crate) fn for_each_batch_of<E: From<TraceError>>(
        &mut self,
        rows: Range<u64>,
        mut each: impl FnMut(&RowBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.go_to(rows.start);
        if rows.end.min(self.meta.rows).saturating_sub(rows.start) > AHEAD_ROWS_MIN {
            return self.decode_ahead(rows.end, each);
        }
        let mut batch = RowBatch::new();
        while self.next_batch(&mut batch)? && batch.first_row < rows.end {
            each(&batch)?;
        }
        Ok(())
    }

    fn decode_ahead<E: From<TraceError>>(
        &mut self,
        end_row: u64,
        mut each: impl FnMut(&RowBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let (give_back, empty) = mpsc::channel();
        let (hand_on, decoded) = mpsc::sync_channel(AHEAD_BATCHES);
        for _ in 0..AHEAD_BATCHES {
            give_back.send(RowBatch::new()).expect("the receiver is here");
        }
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Ends with the rows, with an error, or when the receiver is gone.
                for mut batch in empty {
                    let more = self.next_batch(&mut batch).map(|more| more && batch.first_row < end_row);
                    let is_last = !matches!(more, Ok(true));
                    if matches!(more, Ok(false)) || hand_on.send(more.map(|_| batch)).is_err() || is_last {
                        break;
                    }
                }
            });
            // Dropped if `each` fails: the thread may be waiting for an empty batch, and must not wait for ever.
            let give_back = give_back;
            for batch in decoded {
                let batch = batch?;
                each(&batch)?;
                // The other side may have ended.
                let _ = give_back.send(batch);
            }
            Ok(())
        })
    }
}

/// Traces up to this length are decoded without another thread.
const AHEAD_ROWS_MIN: u64 = 1 << 18;
/// Batches that are decoded ahead or worked on: 4 MiB.
const AHEAD_BATCHES: usize = 8;

/// The first row of `batch` that is not allowed, and why.
fn find_flaw(batch: &RowBatch, nr_threads: usize) -> Option<(usize, String)> {
    // Passes without branches over the columns; the row is searched for only if there is an error.
    let nr_known = u32::try_from(nr_threads).unwrap_or(u32::MAX);
    let strange_thread = batch.thread.iter().fold(false, |found, &thread| found | (thread >= nr_known));
    let no_pages = batch.pages.iter().fold(false, |found, &pages| found | (pages == 0));
    // The OR of all sums is below the limit, a power of two, exactly if each sum is; a sum that wraps had a page beyond it.
    let highest = batch
        .page
        .iter()
        .zip(&batch.pages)
        .fold(0u64, |bits, (&page, &pages)| bits | page | page.wrapping_add(u64::from(pages)).wrapping_sub(1));
    if !strange_thread && !no_pages && highest < PAGE_LIMIT {
        return None;
    }
    batch.rows().enumerate().find_map(|(index, row)| {
        row_flaw(row.page, row.pages).or_else(|| thread_flaw(row.thread, nr_threads)).map(|flaw| (index, flaw))
    })
}

/// Why a run of pages is not allowed; `None` if it is.
pub(crate) fn row_flaw(page: u64, pages: u32) -> Option<String> {
    if pages == 0 {
        return Some("`pages` is 0; at least 1 is allowed".to_owned());
    }
    let end = page.checked_add(u64::from(pages));
    end.is_none_or(|end| end > PAGE_LIMIT).then(|| format!("page {page} + {pages} pages exceeds 2^52"))
}

/// Why a thread index is not allowed; `None` if it is.
pub(crate) fn thread_flaw(thread: u32, nr_threads: usize) -> Option<String> {
    (thread as usize >= nr_threads).then(|| format!("thread {thread} is not among the {nr_threads} listed"))
}

pub(crate) fn parse_meta(path: &Path, json: &str) -> Result<TraceMeta> {
    serde_json::from_str(json)
        .map_err(|error| TraceError::damaged(path, 0, format!("its metadata are not understood: {error}")))
}

pub(crate) fn describe(head: &[u8]) -> String {
    if let Some(named) = named(head) {
        return named.to_owned();
    }
    let head = &head[..head.len().min(8)];
    if head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        format!("it begins like text (\"{}\")", head.escape_ascii())
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        "it is compressed with zstd as a whole".to_owned()
    } else if head.starts_with(b"ARROW1") {
        "an Arrow IPC file (Feather), not a stream".to_owned()
    } else {
        let hex: Vec<String> = head.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("it begins with the bytes {}", hex.join(" "))
    }
}
