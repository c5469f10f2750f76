//! Reads a region record in our own format, finished or not.

use std::path::Path;

use super::columns::{RECORD, Rows};
use super::snapshot::flaw;
use super::writer::Note;
use super::{RECORD_VERSION, RecordMeta, Snapshot};
use crate::file::container::Container;
use crate::file::footer::is_parquet;
use crate::file::ipc_stream::{IpcTable, is_ipc};
use crate::{Result, TraceError};

/// Most regions of a snapshot: no monitor keeps that many, and a damaged file cannot ask for more memory than this.
const SNAPSHOT_REGIONS_MAX: usize = 1 << 24;

/// A region record on disk, read snapshot by snapshot: holds one page of each column and one snapshot.
#[derive(Debug)]
pub struct RegionReader {
    meta: RecordMeta,
    form: Container,
    rows: Rows,
    next_row: usize,
    /// Number after the number of the last returned snapshot.
    next_number: u64,
    /// Index in [`RecordMeta::stats`].
    next_stats: usize,
    times_ns: Vec<u64>,
    /// Bytes after the last whole batch of a torn stream.
    cut_bytes: Option<u64>,
}

/// Whether a file that starts with `head` may be a region record.
pub(crate) fn is_record(head: &[u8]) -> bool {
    is_parquet(head) || is_ipc(head)
}

impl RegionReader {
    /// Opens a record: finished (Parquet), being written or torn (Arrow IPC stream); distinguished by content.
    ///
    /// Reads the metadata; of an unfinished file also all batches once, for its declarations and its length.
    ///
    /// # Errors
    /// The file cannot be read, is not a region record, or is damaged. A torn Arrow IPC stream is not an error: it opens up to its last
    /// whole batch, with [`RecordMeta::complete`] = `false` and a note.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let (mut form, json) = Container::open(path.as_ref(), &RECORD, ". Make one with `isotherm monitor`")?;
        let mut meta = parse_meta(&form.source().path, &json)?;
        let cut_bytes = match &mut form {
            Container::Parquet(_) => None,
            Container::Ipc(table) => scan(table, &mut meta)?,
        };
        let times_ns = vec![0; meta.targets.len()];
        let rows = Rows::default();
        let reader = Self { meta, form, rows, next_row: 0, next_number: 0, next_stats: 0, times_ns, cut_bytes };
        reader.check_meta()?;
        Ok(reader)
    }

    fn check_meta(&self) -> Result<()> {
        let found = self.meta.record_version;
        if found > RECORD_VERSION {
            return Err(TraceError::TooNew { path: self.path().to_owned(), found, known: RECORD_VERSION });
        }
        let flaw = self.meta.flaw();
        flaw.map_or(Ok(()), |flaw| Err(TraceError::damaged(self.path(), 0, format!("its metadata: {flaw}"))))
    }

    /// Complete metadata of the record.
    pub fn meta(&self) -> &RecordMeta {
        &self.meta
    }

    pub fn path(&self) -> &Path {
        &self.form.source().path
    }

    /// Length of the file in bytes when it was opened.
    pub fn file_bytes(&self) -> u64 {
        self.form.source().bytes
    }

    /// Whether the file is finished (Parquet); otherwise it is an Arrow IPC stream.
    pub fn is_finished(&self) -> bool {
        self.form.is_finished()
    }

    /// Bytes after the last whole batch, which are left out; `None` unless the file is a torn stream.
    pub fn cut_bytes(&self) -> Option<u64> {
        self.cut_bytes
    }

    /// Goes back to the first snapshot, for another pass.
    pub fn rewind(&mut self) {
        match &mut self.form {
            Container::Parquet(table) => table.rewind(),
            Container::Ipc(table) => table.rewind(),
        }
        self.rows.clear();
        (self.next_row, self.next_number, self.next_stats) = (0, 0, 0);
        self.times_ns.fill(0);
    }

    /// Replaces `snapshot` with the next one, and reuses its memory. `false`: none is left, and `snapshot` has no regions.
    ///
    /// Each returned snapshot is valid by [`Snapshot`], and of a target in the metadata.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn next_snapshot(&mut self, snapshot: &mut Snapshot) -> Result<bool> {
        snapshot.regions.clear();
        if !self.has_row()? {
            return Ok(false);
        }
        let (number, _) = self.rows.run_at(self.next_row);
        self.rows.start_snapshot(self.next_row, snapshot);
        if number < self.next_number {
            return Err(self.bad(number, "its number is not above that of the snapshot before".to_owned()));
        }
        loop {
            let (other, to) = self.rows.run_at(self.next_row);
            if other != number {
                break;
            }
            if snapshot.regions.len() + (to - self.next_row) > SNAPSHOT_REGIONS_MAX {
                return Err(self.bad(number, "it has more than 16 Mi regions".to_owned()));
            }
            if let Some(flaw) = self.rows.take_regions(self.next_row, to, snapshot) {
                return Err(self.bad(number, flaw.to_owned()));
            }
            self.next_row = to;
            if self.next_row < self.rows.len() || !self.has_row()? {
                break;
            }
        }
        self.next_number = number.saturating_add(1);
        self.check(snapshot)?;
        self.add_stats(snapshot);
        Ok(true)
    }

    fn check(&mut self, snapshot: &Snapshot) -> Result<()> {
        let count = self.times_ns.len();
        let found = match self.times_ns.get_mut(snapshot.target as usize) {
            None => Some(format!("target {} is not among the {count} listed", snapshot.target)),
            Some(latest_ns) if snapshot.time_ns < *latest_ns => {
                Some(format!("it ends at {} ns, before the one of the same target at {latest_ns} ns", snapshot.time_ns))
            }
            Some(latest_ns) => {
                *latest_ns = snapshot.time_ns;
                flaw(&snapshot.regions)
            }
        };
        found.map_or(Ok(()), |what| Err(self.bad(snapshot.number, what)))
    }

    fn add_stats(&mut self, snapshot: &mut Snapshot) {
        let mut waiting = self.meta.stats[self.next_stats..].iter();
        while let Some(stats) = waiting.next().filter(|stats| stats.snapshot <= snapshot.number) {
            self.next_stats += 1;
            snapshot.stats = (stats.snapshot == snapshot.number).then_some(stats.stats);
        }
    }

    #[cold]
    fn bad(&self, number: u64, what: String) -> TraceError {
        TraceError::bad_value(self.path(), "snapshot", number, what)
    }

    /// Whether there is a row at `next_row`; reads on if needed.
    fn has_row(&mut self) -> Result<bool> {
        while self.next_row >= self.rows.len() {
            self.next_row = 0;
            match &mut self.form {
                Container::Parquet(table) => {
                    if !self.rows.read_parquet(table)? {
                        return Ok(false);
                    }
                }
                Container::Ipc(table) => match table.next_message()? {
                    Some(message) => self.rows.read_message(message),
                    None => {
                        self.rows.clear();
                        return Ok(false);
                    }
                },
            }
        }
        Ok(true)
    }
}

fn parse_meta(path: &Path, json: &str) -> Result<RecordMeta> {
    let mut meta: RecordMeta = serde_json::from_str(json)
        .map_err(|error| TraceError::damaged(path, 0, format!("its metadata are not understood: {error}")))?;
    meta.stats.sort_by_key(|stats| stats.snapshot);
    Ok(meta)
}

/// Reads all batches once for declarations and counts. Returns the number of bytes after the last whole one, which are
/// left out.
fn scan(table: &mut IpcTable, meta: &mut RecordMeta) -> Result<Option<u64>> {
    (meta.snapshots, meta.regions, meta.complete) = (0, 0, false);
    let mut latest = None;
    let cut_bytes = table.scan(|source, place, message, notes| {
        for note in notes {
            let note: Note = serde_json::from_str(&note)
                .map_err(|error| source.damaged(place, format!("an event is not understood: {error}")))?;
            note.apply(meta);
        }
        for row in (0..message.rows).filter(|&row| !message.notes_at(row)) {
            let number = message.value(0, row);
            meta.snapshots += u64::from(latest != Some(number));
            latest = Some(number);
            // Columns 4 and 5 are the region's ends; equal ones mean a snapshot without regions.
            meta.regions += u64::from(message.value(4, row) != message.value(5, row));
        }
        Ok(())
    })?;
    if let Some(cut) = cut_bytes {
        meta.complete = false;
        meta.notes.push(format!("not finished: read up to the last whole batch; {cut} bytes after it left out"));
    }
    Ok(cut_bytes)
}
