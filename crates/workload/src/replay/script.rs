//! The data of a trace before it is played: threads, processes, files, first mappings; and its rows if they are few.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use isotherm_trace::{EventKind, MapKind, RowBatch, TraceMeta, TraceReader};
use isotherm_units::access::{
    Backing, Channel, FileKind, FileSpec, Future, LayoutChange, Mapping, Process, Run, Sharing, ThreadStart,
};
use isotherm_units::{PAGE_BYTES, PageRange, Ratio};

use super::decode::Decoder;
use super::epoch_order::Feed;
use super::held::HeldRuns;
use super::timeline::Timeline;
use super::{EpochOrder, PlayAs, TraceStore};
use crate::WorkloadError;
use crate::layout::Layout;

/// Accesses of one thread and what happens between them.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadPart {
    pub(super) runs: Vec<Run>,
    /// Each applies before the run with this index; ordered.
    pub(super) marks: Vec<(usize, Mark)>,
}

/// The part of a thread all of whose accesses are known, which every replay shares.
#[derive(Clone, Debug)]
pub(super) struct WholePart {
    pub(super) runs: HeldRuns,
    pub(super) marks: Vec<(usize, Mark)>,
}

/// An action of a thread between accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Computes, nanoseconds.
    Compute(u64),
    /// Sleeps, nanoseconds.
    Sleep(u64),
    /// Starts the thread with this index.
    Start(usize),
    /// Needs the mappings made by this number of changes of its process's layout, counted from the beginning.
    Need(usize),
    /// Touches nothing more that lies before this number of changes.
    Pass(usize),
    /// The next accesses belong to a later epoch.
    EpochEnd,
}

/// All rows of a trace, decoded once.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) parts: Vec<WholePart>,
    /// Changes of each process.
    changes: Vec<Vec<LayoutChange>>,
}

impl Script {
    fn new(outline: &Outline, room: &HeldRuns) -> Self {
        let part = WholePart { runs: room.clone(), marks: Vec::new() };
        Self { parts: vec![part; outline.threads.len()], changes: vec![Vec::new(); outline.processes.len()] }
    }

    /// Takes over all that a decoder knows.
    fn take(&mut self, decoder: &mut Decoder, piece: &mut ThreadPart) {
        for (thread, part) in self.parts.iter_mut().enumerate() {
            if decoder.take(thread, piece) {
                let before = part.runs.len();
                part.runs.extend(&piece.runs);
                part.marks.extend(piece.marks.iter().map(|&(at, mark)| (before + at, mark)));
            }
        }
        decoder.take_changes().for_each(|(process, change)| self.changes[process].push(change));
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadOutline {
    pub(super) process: usize,
    pub(super) start: ThreadStart,
}

/// A trace without its rows, or with them if they are few.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) path: PathBuf,
    pub(super) meta: TraceMeta,
    pub(super) order: EpochOrder,
    pub(super) epoch_ns: u64,
    /// Base pages in a page of the trace.
    pub(super) page_scale: u64,
    pub(super) threads: Vec<ThreadOutline>,
    pub(super) processes: Vec<Process>,
    pub(super) files: Vec<FileSpec>,
    /// The effect of each event of the meta on a layout, if any.
    pub(super) changes: Vec<Option<LayoutChange>>,
    /// Whether each event starts a thread (and is the first to do so).
    pub(super) starts: Vec<bool>,
    pub(super) script: Option<Arc<Script>>,
    futures: Mutex<BTreeMap<FutureKey, Future>>,
}

/// The inputs of a future besides the trace.
pub(super) type FutureKey = (PlayAs, Ratio, u32, u64);

impl Outline {
    /// Reads everything but the rows, and the rows too if they are few.
    pub(super) fn read(reader: &mut TraceReader, order: EpochOrder, store: &TraceStore) -> Result<Self, WorkloadError> {
        let path = reader.path().to_owned();
        let mut outline = Self::of_meta(path.clone(), reader.meta().clone(), order);
        let error = |source| WorkloadError::Trace { path: path.clone(), source };
        outline.cover_processes_without_mappings(reader).map_err(error)?;
        if let Some(room) = store.room_for(outline.meta.rows) {
            let (mut feed, mut script) = (Feed::new(&outline), Script::new(&outline, &room));
            let (mut batch, mut piece) = (RowBatch::new(), ThreadPart::default());
            while reader.next_batch(&mut batch).map_err(error)? {
                batch.rows().for_each(|row| feed.row(&outline, row));
                script.take(&mut feed.decoder, &mut piece);
            }
            feed.finish(&outline);
            script.take(&mut feed.decoder, &mut piece);
            script.parts.iter_mut().for_each(|part| part.runs.shrink_to_fit());
            store.warn(feed.decoder.warnings(&outline));
            outline.script = Some(Arc::new(script));
        }
        Ok(outline)
    }

    fn of_meta(path: PathBuf, mut meta: TraceMeta, order: EpochOrder) -> Self {
        if meta.processes.is_empty() {
            meta.processes.push(isotherm_trace::ProcessMeta::default());
        }
        if meta.threads.is_empty() {
            meta.threads.push(isotherm_trace::ThreadMeta::default());
        }
        let page_scale = (meta.page_bytes / PAGE_BYTES).max(1);
        let (starts, threads) = thread_starts(&meta);
        let (files, changes) = layout_changes(&meta, page_scale);
        let processes = processes(&meta, &changes);
        let epoch_ns = meta.epoch_ns;
        let futures = Mutex::default();
        Self {
            path,
            meta,
            order,
            epoch_ns,
            page_scale,
            threads,
            processes,
            files,
            changes,
            starts,
            script: None,
            futures,
        }
    }

    /// Gives each process without a known mapping one anonymous mapping over all it touches, which takes a pass over the
    /// rows.
    fn cover_processes_without_mappings(&mut self, reader: &mut TraceReader) -> isotherm_trace::Result<()> {
        let mut is_known = vec![false; self.processes.len()];
        for (event, change) in self.meta.events.iter().zip(&self.changes) {
            is_known[self.meta.process_of(event.thread)] |= matches!(change, Some(LayoutChange::Map(_)));
        }
        for (known, process) in is_known.iter_mut().zip(&self.processes) {
            *known |= process.forked_from.is_some();
        }
        if is_known.iter().all(|&known| known) {
            return Ok(());
        }
        let mut covered: Vec<Option<PageRange>> = vec![None; self.processes.len()];
        let mut batch = RowBatch::new();
        while reader.next_batch(&mut batch)? {
            for (index, &thread) in batch.thread.iter().enumerate() {
                let row = PageRange::at(batch.page[index], u64::from(batch.pages[index]));
                if let Some(range) = covered.get_mut(self.meta.process_of(thread)) {
                    let whole = range.get_or_insert(row);
                    *whole = PageRange::new(whole.start.min(row.start), whole.end.max(row.end));
                }
            }
        }
        reader.rewind();
        for ((process, range), known) in self.processes.iter_mut().zip(covered).zip(is_known) {
            if let Some(range) = range.filter(|_| !known) {
                let scaled = PageRange::new(range.start * self.page_scale, range.end * self.page_scale);
                process.layout.push(Mapping::anonymous(scaled));
            }
        }
        Ok(())
    }

    /// How a row reaches `page`, a number of the trace.
    #[inline]
    pub(super) fn channel(&self, page: u64) -> Channel {
        if self.meta.is_page_cache(page) { Channel::FileDescriptor } else { Channel::PageTable }
    }

    /// Whether the same thread can play the rows again where it left off.
    pub(super) fn keeps_memory_between_rounds(&self) -> bool {
        self.threads.len() == 1 && self.changes.iter().all(Option::is_none)
    }

    /// Positions of the program's threads, at its beginning.
    pub(super) fn timeline(&self) -> Timeline {
        let changes = match &self.script {
            Some(script) => script.changes.clone(),
            None => vec![Vec::new(); self.processes.len()],
        };
        Timeline::new(changes, &self.threads)
    }

    /// The future for `key`, made by `build` the first time.
    pub(super) fn future(
        &self,
        key: FutureKey,
        build: impl FnOnce() -> Result<Future, WorkloadError>,
    ) -> Result<Future, WorkloadError> {
        let mut futures = self.futures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(future) = futures.get(&key) {
            return Ok(future.clone());
        }
        let future = build()?;
        futures.insert(key, future.clone());
        Ok(future)
    }
}

/// Events that start threads, and the beginning of each thread. A thread without a plausible start (none recorded, or by a thread that has
/// not started) begins with the program.
fn thread_starts(meta: &TraceMeta) -> (Vec<bool>, Vec<ThreadOutline>) {
    let mut first_start: Vec<Option<usize>> = vec![None; meta.threads.len()];
    for (index, event) in meta.events.iter().enumerate() {
        if let EventKind::StartThread { thread } = event.kind
            && let Some(first) = first_start.get_mut(thread as usize)
        {
            first.get_or_insert(index);
        }
    }
    let mut is_started: Vec<bool> = first_start.iter().map(Option::is_none).collect();
    let mut starts = vec![false; meta.events.len()];
    // A program needs a first thread even if every one claims to be started by another.
    if let Some(first) = is_started.first_mut() {
        *first = true;
    }
    let with_program = is_started.clone();
    for (index, event) in meta.events.iter().enumerate() {
        if let EventKind::StartThread { thread } = event.kind
            && let Some(started) = usize::try_from(thread).ok().filter(|&t| first_start.get(t) == Some(&Some(index)))
            && is_started[event.thread as usize]
            && !is_started[started]
        {
            starts[index] = true;
            is_started[started] = true;
        }
    }
    let threads = meta.threads.iter().enumerate().map(|(index, thread)| {
        let by_thread = !with_program[index] && is_started[index];
        let start = if by_thread { ThreadStart::ByThread } else { ThreadStart::WithProgram };
        ThreadOutline { process: thread.process, start }
    });
    let threads = threads.collect();
    (starts, threads)
}

/// The files that mappings show, and the effect of each event on a layout.
fn layout_changes(meta: &TraceMeta, page_scale: u64) -> (Vec<FileSpec>, Vec<Option<LayoutChange>>) {
    let mut files: Vec<FileSpec> = Vec::new();
    let mut by_path: BTreeMap<String, usize> = BTreeMap::new();
    let scaled = |start: u64, end: u64| {
        let limit = isotherm_trace::PAGE_LIMIT;
        PageRange::new(start.saturating_mul(page_scale).min(limit), end.saturating_mul(page_scale).min(limit))
    };
    let changes = meta.events.iter().map(|event| match &event.kind {
        EventKind::Map(map) => {
            let pages = scaled(map.start, map.end);
            if pages.is_empty() {
                return None;
            }
            let is_shared_memory = map.what == MapKind::Shared || map.shared && map.file.is_none();
            let is_page_cache = meta.is_page_cache(map.start);
            let sharing =
                if map.shared || is_shared_memory || is_page_cache { Sharing::Shared } else { Sharing::Private };
            let first_page = map.file_page.saturating_mul(page_scale);
            let kind = if is_shared_memory { FileKind::SharedMemory } else { FileKind::Regular };
            let file = match &map.file {
                Some(path) => Some(*by_path.entry(path.clone()).or_insert_with(|| {
                    files.push(FileSpec { name: path.clone(), pages: 0, kind });
                    files.len() - 1
                })),
                None if is_shared_memory => {
                    files.push(FileSpec { name: format!("shared-{}", files.len()), pages: 0, kind });
                    Some(files.len() - 1)
                }
                None => None,
            };
            let backing = file.map_or(Backing::Anonymous, |file| {
                files[file].pages = files[file].pages.max(first_page.saturating_add(pages.len()));
                Backing::File { file, first_page, sharing }
            });
            Some(LayoutChange::Map(Mapping { pages, backing, executable: map.executable, huge: false }))
        }
        &EventKind::Unmap { start, end } => {
            Some(LayoutChange::Unmap(scaled(start, end))).filter(|_| !scaled(start, end).is_empty())
        }
        EventKind::StartThread { .. } | EventKind::EndThread | EventKind::Idle { .. } | EventKind::Unknown => None,
    });
    let changes = changes.collect();
    (files, changes)
}

/// Whether an event is part of the layout that its process begins with: it comes before all rows, and the process is not
/// forked.
pub(super) fn is_initial(meta: &TraceMeta, event: &isotherm_trace::Event) -> bool {
    event.row == 0 && meta.processes[meta.process_of(event.thread)].forked_from.is_none()
}

fn processes(meta: &TraceMeta, changes: &[Option<LayoutChange>]) -> Vec<Process> {
    let mut layouts = vec![Layout::default(); meta.processes.len()];
    for (event, change) in meta.events.iter().zip(changes).filter(|(event, _)| is_initial(meta, event)) {
        let layout = &mut layouts[meta.process_of(event.thread)];
        match change {
            Some(LayoutChange::Map(mapping)) => layout.map(*mapping),
            Some(LayoutChange::Unmap(range)) => layout.unmap(*range),
            Some(LayoutChange::Advise(..) | LayoutChange::Pin(_)) | None => {}
        }
    }
    let process = |(process, layout): (&isotherm_trace::ProcessMeta, Layout)| Process {
        name: process.name.clone(),
        forked_from: process.forked_from,
        layout: layout.iter().collect(),
    };
    meta.processes.iter().zip(layouts).map(process).collect()
}
