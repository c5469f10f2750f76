//! Builds a trace from the engine's records: gives threads their indices in the file, sorts rows of all threads by virtual time, and
//! tracks mappings so that moves and discards can be written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use isotherm_trace::{EventKind, PageCacheRange, PageRun, ProcessMeta, Result, ThreadMeta, TraceWriter};

use crate::layout::{Layout, map_range};
use crate::page_cache::{FileNumber, PageCache, Place};
use crate::protocol::{Header, Origin, ProtocolError, Record, Records};
use crate::queue::{Item, Queue, Transfer, Until};
use crate::touched::Touched;

/// Most rows, and items, held back so that earlier ones of other threads can still be sorted before them.
const HELD_ROWS: usize = 1 << 18;

/// A chunk could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AssembleError {
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error(transparent)]
    Trace(#[from] isotherm_trace::TraceError),
}

/// Builds a trace from chunks in the order of their arrival.
pub(crate) struct Assembler {
    writer: TraceWriter,
    epoch_ns: u64,
    /// Arrivals by uid, up to the last chunk received.
    arrivals: BTreeMap<u32, Arrival>,
    /// Threads by uid, up to the last row in the file.
    written: HashMap<u32, Written>,
    /// Layouts by index of the process in the file.
    layouts: Vec<Layout>,
    page_cache: PageCache,
    held: Queue,
    /// Scratch space for the rows of a chunk before `held`, and of an item before the file; empty in between.
    runs: Vec<PageRun>,
    latest_ns: u64,
    /// `latest_ns` at the last call of [`Assembler::tick`].
    settled_ns: u64,
    touched: Touched,
    /// Warnings for the user, each reported once.
    warnings: BTreeSet<String>,
    /// Announced threads that have sent nothing yet; only forks and programs started by `execve`.
    expected: BTreeSet<u32>,
}

/// One thread of the engine's stream.
#[derive(Default)]
struct Arrival {
    next_sequence: u32,
    hello: Option<Hello>,
    /// Position of its next record in the order of all threads.
    order_ns: u64,
    epoch: u64,
    /// The file that its chunk refers to.
    file: Option<FileNumber>,
    /// CPU time in ns and instructions up to its end, or up to an `execve`.
    clock: Option<(u64, u64)>,
    ended: bool,
    native: bool,
}

struct Hello {
    pid: u32,
    tid: u32,
    started_by: Option<u32>,
    origin: Origin,
    name: String,
}

#[derive(Clone, Copy)]
struct Written {
    index: u32,
    process: usize,
    ended: bool,
}

/// Totals of the recording so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) cpu_ns: u64,
    pub(crate) pages: u64,
    pub(crate) rows: u64,
    pub(crate) accesses: u64,
    pub(crate) processes: usize,
    pub(crate) threads: usize,
}

impl Assembler {
    pub(crate) fn new(writer: TraceWriter, epoch_ns: u64) -> Self {
        Self {
            writer,
            epoch_ns,
            arrivals: BTreeMap::new(),
            written: HashMap::new(),
            layouts: Vec::new(),
            page_cache: PageCache::new(PageCacheRange::RECORDED),
            held: Queue::default(),
            runs: Vec::new(),
            latest_ns: 0,
            settled_ns: 0,
            touched: Touched::new(),
            warnings: BTreeSet::new(),
            expected: BTreeSet::new(),
        }
    }

    /// Takes a chunk's payload. A chunk that was received before is skipped.
    pub(crate) fn chunk(&mut self, header: Header, payload: &[u8]) -> Result<(), AssembleError> {
        let arrival = self.arrivals.entry(header.uid).or_default();
        if header.sequence < arrival.next_sequence {
            return Ok(());
        }
        if header.sequence > arrival.next_sequence {
            self.warnings.insert(format!("{} blocks of records were lost", header.sequence - arrival.next_sequence));
        }
        arrival.next_sequence = header.sequence.saturating_add(1);
        arrival.file = None;
        let mut records = Records::new(payload);
        let mut runs = std::mem::take(&mut self.runs);
        loop {
            // Rows before an unknown record are kept.
            let rows = records.rows(&mut runs);
            self.hold_rows(header.uid, &runs);
            runs.clear();
            rows?;
            match records.next()? {
                Some(record) => self.record(header.uid, record),
                None => break,
            }
        }
        self.runs = runs;
        if self.held.exceeds(HELD_ROWS) {
            self.release(Until::Held(HELD_ROWS / 2))?;
            self.held.trim();
        }
        Ok(())
    }

    fn hold_rows(&mut self, uid: u32, runs: &[PageRun]) {
        if !runs.is_empty() {
            let (order_ns, time_ns) = self.now_of(uid);
            self.held.push_rows(uid, order_ns, time_ns, runs);
        }
    }

    fn record(&mut self, uid: u32, record: Record) {
        let arrival = self.arrivals.entry(uid).or_default();
        match record {
            Record::Hello { pid, tid, started_by, origin, start_ns, name } => {
                arrival.order_ns = arrival.order_ns.max(start_ns);
                arrival.hello = Some(Hello { pid, tid, started_by, origin, name });
                self.expected.remove(&uid);
                return;
            }
            Record::Epoch { number, order_ns } => {
                // Neither time nor order decreases within a thread.
                arrival.epoch = arrival.epoch.max(number);
                arrival.order_ns = arrival.order_ns.max(order_ns);
                return;
            }
            Record::StartFailed { uid } => {
                self.expected.remove(&uid);
                return;
            }
            Record::NotFollowed { text } => {
                arrival.native = true;
                self.warnings.insert(format!("not recorded: {text}"));
                return;
            }
            Record::Start { uid: child, origin } => {
                let unheard = self.arrivals.get(&child).is_none_or(|child| child.hello.is_none());
                let _ = unheard && origin != Origin::Thread && self.expected.insert(child);
            }
            Record::Clock { ns, instructions } => {
                arrival.clock = Some((ns, instructions));
                return;
            }
            Record::End { .. } => arrival.ended = true,
            Record::Exit { .. } => return,
            Record::File { pages, in_memory, name } => {
                arrival.file = Some(self.page_cache.file(name, pages, in_memory));
                return;
            }
            Record::Transfer(run) => {
                // Engines name the file first.
                if let Some(file) = arrival.file {
                    self.page_cache.reaches(file, run.page + u64::from(run.pages));
                    let (order_ns, time_ns) = self.now_of(uid);
                    self.held.push_transfer(uid, order_ns, time_ns, Transfer { file, run });
                }
                return;
            }
            _ => {}
        }
        self.hold_event(uid, record);
    }

    fn hold_event(&mut self, uid: u32, event: Record) {
        let (order_ns, time_ns) = self.now_of(uid);
        self.held.push_event(uid, order_ns, time_ns, event);
    }

    /// Position in the order of all threads, and CPU time, of a thread's current record.
    fn now_of(&mut self, uid: u32) -> (u64, u64) {
        let arrival = self.arrivals.entry(uid).or_default();
        let time_ns = arrival.epoch.saturating_mul(self.epoch_ns).min(i64::MAX.unsigned_abs());
        self.latest_ns = self.latest_ns.max(arrival.order_ns);
        (arrival.order_ns, time_ns)
    }

    /// Call about once a second. Writes the data held at the last call, so a crash of the recorder loses little.
    pub(crate) fn tick(&mut self) -> Result<()> {
        self.release(Until::Order(self.settled_ns))?;
        self.settled_ns = self.latest_ns;
        self.writer.flush()
    }

    /// Writes held items, oldest first.
    fn release(&mut self, until: Until) -> Result<()> {
        let mut runs = std::mem::take(&mut self.runs);
        while let Some((uid, time_ns, item)) = self.held.next(until, &mut runs) {
            match item {
                Item::Rows(_) => self.write_rows(uid, time_ns, &runs)?,
                Item::Event(record) => self.write_event(uid, time_ns, *record)?,
                Item::Transfer(transfer) => self.write_transfer(uid, time_ns, transfer)?,
            }
            runs.clear();
        }
        self.runs = runs;
        Ok(())
    }

    fn write_rows(&mut self, uid: u32, time_ns: u64, runs: &[PageRun]) -> Result<()> {
        let Written { index, process, .. } = self.in_file(uid)?;
        for run in runs {
            self.touched.note(process, run.page, run.pages.into());
        }
        self.writer.push_runs(time_ns, index, runs)
    }

    /// Writes reads and writes of a file, after mappings for page numbers that the process has not used yet.
    fn write_transfer(&mut self, uid: u32, time_ns: u64, Transfer { file, run }: Transfer) -> Result<()> {
        let Written { index, process, .. } = self.in_file(uid)?;
        let places = self.page_cache.places(process, file, run.page, run.pages);
        if places.iter().map(|place| place.pages).sum::<u32>() < run.pages {
            self.warnings.insert("too many pages of files were read or written; some are not in the trace".to_owned());
        }
        for Place { map, page, pages } in places {
            if let Some(map) = map {
                self.writer.event(index, time_ns, EventKind::Map(map))?;
            }
            self.writer.push_runs(time_ns, index, &[PageRun { page, pages, ..run }])?;
            // These pages are the same for all processes.
            self.touched.note(0, page, pages.into());
        }
        Ok(())
    }

    fn write_event(&mut self, uid: u32, time_ns: u64, record: Record) -> Result<()> {
        let Written { index, process, ended } = self.in_file(uid)?;
        if ended {
            return Ok(());
        }
        let layout = &mut self.layouts[process];
        let kinds = match record {
            Record::Map { start, end, flags, file_page, name } => {
                if start == end {
                    return Ok(());
                }
                vec![layout.map(map_range(start, end, flags, file_page, name))]
            }
            Record::Unmap { start, end } => vec![layout.unmap(start, end)],
            Record::Discard { start, end } => layout.discard(start, end),
            Record::Remap { old_start, old_end, new_start, new_end } => {
                layout.remap((old_start, old_end), (new_start, new_end))
            }
            Record::Idle { ns } => vec![EventKind::Idle { ns }],
            Record::Start { uid: child, origin } => {
                if self.arrivals.get(&child).is_none_or(|child| child.hello.is_none()) {
                    return Ok(()); // announced, but it never ran
                }
                let thread = self.in_file(child)?.index;
                self.writer.event(index, time_ns, EventKind::StartThread { thread })?;
                return if origin == Origin::Exec { self.end_process(process, time_ns) } else { Ok(()) };
            }
            Record::End { .. } => return self.end_thread(uid, time_ns),
            _ => return Ok(()),
        };
        kinds.into_iter().try_for_each(|kind| self.writer.event(index, time_ns, kind))
    }

    fn end_thread(&mut self, uid: u32, time_ns: u64) -> Result<()> {
        // Rows carry the start time of their epoch; the time of the end is exact.
        let told = self.arrivals.get(&uid).and_then(|arrival| arrival.clock);
        let time_ns = told.map_or(time_ns, |(ns, _)| time_ns.max(ns));
        match self.written.get_mut(&uid) {
            Some(written) if !written.ended => {
                written.ended = true;
                self.writer.event(written.index, time_ns, EventKind::EndThread)
            }
            _ => Ok(()),
        }
    }

    /// Ends all threads of a process of the file.
    fn end_process(&mut self, process: usize, time_ns: u64) -> Result<()> {
        let own = |written: &Written| written.process == process && !written.ended;
        let mut uids: Vec<u32> = self.written.iter().filter(|(_, written)| own(written)).map(|(&uid, _)| uid).collect();
        uids.sort_unstable();
        uids.into_iter().try_for_each(|uid| self.end_thread(uid, time_ns))
    }

    /// Index of the thread in the file; added if it has none.
    fn in_file(&mut self, uid: u32) -> Result<Written> {
        if let Some(&written) = self.written.get(&uid) {
            return Ok(written);
        }
        let hello = self.arrivals.get(&uid).and_then(|arrival| arrival.hello.as_ref());
        let (pid, tid) = hello.map_or((0, 0), |hello| (hello.pid, hello.tid));
        let origin = hello.map_or(Origin::Program, |hello| hello.origin);
        let name = hello.map_or("?", |hello| hello.name.rsplit('/').next().unwrap_or("?")).to_owned();
        let parent = hello.and_then(|hello| hello.started_by).and_then(|uid| self.written.get(&uid).copied());
        let process = match (origin, parent) {
            (Origin::Thread, Some(parent)) => parent.process,
            (Origin::Fork, Some(parent)) => {
                let forked_from = Some(parent.process);
                self.layouts.push(self.layouts[parent.process].clone());
                self.page_cache.add_process(forked_from);
                self.writer.add_process(ProcessMeta { pid, name: name.clone(), forked_from })?
            }
            _ => {
                self.layouts.push(Layout::default());
                self.page_cache.add_process(None);
                self.writer.add_process(ProcessMeta { pid, name: name.clone(), forked_from: None })?
            }
        };
        let started_by = parent.and_then(|parent| usize::try_from(parent.index).ok());
        let index = self.writer.add_thread(ThreadMeta { process, tid, name, started_by })?;
        let written = Written { index, process, ended: false };
        self.written.insert(uid, written);
        Ok(written)
    }

    /// Processes that may still send records.
    pub(crate) fn living(&self) -> BTreeSet<u32> {
        let living = self.arrivals.values().filter(|arrival| !arrival.ended && !arrival.native);
        living.filter_map(|arrival| arrival.hello.as_ref()).map(|hello| hello.pid).collect()
    }

    /// Threads of a process that have not reported their end.
    pub(crate) fn unfinished(&self, pid: u32) -> Vec<u32> {
        let of_pid = |arrival: &Arrival| arrival.hello.as_ref().is_some_and(|hello| hello.pid == pid);
        self.arrivals.iter().filter(|(_, arrival)| !arrival.ended && of_pid(arrival)).map(|(&uid, _)| uid).collect()
    }

    /// The process has ended, and its threads with it.
    pub(crate) fn gone(&mut self, pid: u32) {
        for uid in self.unfinished(pid) {
            if let Some(arrival) = self.arrivals.get_mut(&uid) {
                arrival.ended = true;
            }
            // Records of a program that replaced it are not its end.
            self.hold_event(uid, Record::End { instructions: 0 });
        }
    }

    /// Whether a forked or executed process was announced and has sent nothing yet.
    pub(crate) fn expects_more(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Whether anything was received.
    pub(crate) fn has_begun(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Warnings not taken yet.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings).into_iter().collect()
    }

    /// Sums so far.
    pub(crate) fn totals(&self) -> Totals {
        let threads = self.arrivals.values();
        let cpu_ns = threads.map(|arrival| match arrival.clock {
            Some((ns, _)) => ns.max(arrival.epoch.saturating_mul(self.epoch_ns)),
            None => arrival.epoch.saturating_add(arrival.hello.is_some().into()).saturating_mul(self.epoch_ns),
        });
        let meta = self.writer.meta();
        Totals {
            // Epoch numbers come from the stream and are not trusted.
            cpu_ns: cpu_ns.fold(0, u64::saturating_add),
            pages: self.touched.pages(),
            rows: meta.rows,
            accesses: meta.accesses,
            processes: meta.processes.len(),
            threads: meta.threads.len(),
        }
    }

    /// Number of instructions: as reported by threads at their ends. Threads that could not report count whole epochs of
    /// `epoch_instructions`, if an epoch is a number of instructions.
    pub(crate) fn instructions(&self, epoch_instructions: Option<u64>) -> u64 {
        let counted = |arrival: &Arrival| arrival.epoch.saturating_mul(epoch_instructions.unwrap_or(0));
        let of = |arrival: &Arrival| arrival.clock.map_or(counted(arrival), |(_, told)| told.max(counted(arrival)));
        self.arrivals.values().map(of).fold(0, u64::saturating_add)
    }

    /// Writes everything held, and returns the writer.
    pub(crate) fn finish(mut self) -> (TraceWriter, Totals, Result<()>) {
        let written = self.release(Until::Empty);
        let totals = self.totals();
        (self.writer, totals, written)
    }
}

#[cfg(test)]
mod tests {
    use isotherm_trace::{MapKind, RowBatch, TraceMeta, TraceReader};

    use super::*;

    /// Records as bytes; values below 128, pages below 64.
    #[derive(Default)]
    struct Payload(Vec<u8>);
    impl Payload {
        fn hello(mut self, pid: u8, by: u8, origin: u8, start_ns: u8) -> Self {
            self.0.extend([1, 1, pid, pid, by, origin, start_ns, 2, b'/', b'p']);
            self
        }
        fn raw(mut self, bytes: &[u8]) -> Self {
            self.0.extend(bytes);
            self
        }
        fn row(self, epoch: u8, order_ns: u8, page: u8) -> Self {
            self.raw(&[2, epoch, order_ns, 3, page << 1, 0])
        }
    }

    struct Rig {
        _directory: tempfile::TempDir,
        path: std::path::PathBuf,
        assembler: Assembler,
        sequences: HashMap<u32, u32>,
    }

    impl Rig {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("t");
            let writer = TraceWriter::create(&path, TraceMeta { epoch_ns: 10, ..TraceMeta::default() }).unwrap();
            Self { _directory: directory, path, assembler: Assembler::new(writer, 10), sequences: HashMap::new() }
        }
        fn send(&mut self, uid: u32, payload: Payload) {
            let sequence = self.sequences.entry(uid).or_default();
            let header = Header { payload_bytes: payload.0.len(), uid, sequence: *sequence };
            *sequence += 1;
            self.assembler.chunk(header, &payload.0).unwrap();
        }
        fn read(self) -> (TraceMeta, Vec<(u32, u64, u64)>) {
            let (writer, _, written) = self.assembler.finish();
            written.unwrap();
            writer.finish().unwrap();
            let mut reader = TraceReader::open(&self.path).unwrap();
            let (mut rows, mut batch) = (Vec::new(), RowBatch::new());
            while reader.next_batch(&mut batch).unwrap() {
                rows.extend(batch.rows().map(|row| (row.thread, row.time_ns, row.page)));
            }
            (reader.meta().clone(), rows)
        }
    }

    #[test]
    fn rows_of_threads_are_put_in_order() {
        let mut rig = Rig::new();
        // The record of thread 1 at 15 ns lies between epochs 1 and 2 of thread 0, although it arrives last.
        let first = Payload::default().hello(9, 0, 0, 0).raw(&[8, 1, 1]);
        rig.send(0, first.row(0, 0, 20).row(1, 10, 1).raw(&[10, 25]).row(2, 45, 1));
        rig.send(1, Payload::default().hello(9, 1, 1, 10).row(0, 15, 50).row(1, 44, 50));
        let (meta, rows) = rig.read();
        let order: Vec<_> = rows.iter().map(|row| (row.0, row.1)).collect();
        assert_eq!(order, [(0, 0), (0, 10), (1, 0), (1, 10), (0, 20)]);
        assert_eq!((meta.threads[1].started_by, meta.threads[1].process), (Some(0), 0));
        assert!(matches!(meta.events[0].kind, EventKind::StartThread { thread: 1 }));
        assert!(meta.events.iter().any(|event| event.kind == EventKind::Idle { ns: 25 } && event.row == 2));
    }

    #[test]
    fn sums_of_impossible_numbers_stop_at_the_largest() {
        let mut rig = Rig::new();
        let last_epoch = [2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0];
        rig.send(0, Payload::default().hello(9, 0, 0, 0).row(0, 0, 20).raw(&[8, 1, 1]).raw(&last_epoch));
        rig.send(1, Payload::default().hello(9, 1, 1, 0).raw(&last_epoch));
        assert_eq!((rig.assembler.totals().cpu_ns, rig.assembler.instructions(Some(2))), (u64::MAX, u64::MAX));
        rig.read();
    }

    #[test]
    fn a_fork_inherits_mappings_and_exec_replaces_the_process() {
        let mut rig = Rig::new();
        let parent = Payload::default().hello(9, 0, 0, 0).raw(&[4, 16, 4, 0, 0, 0]).row(0, 0, 16).raw(&[8, 1, 2]);
        rig.send(0, parent);
        assert!(rig.assembler.expects_more());
        let child = Payload::default().hello(10, 1, 2, 0).raw(&[6, 16, 2]).row(0, 0, 16).raw(&[8, 2, 3]);
        rig.send(1, child);
        rig.send(2, Payload::default().hello(10, 2, 3, 0).row(0, 0, 60));
        assert!(!rig.assembler.expects_more());
        let (meta, _) = rig.read();
        assert_eq!(meta.processes.iter().map(|process| process.forked_from).collect::<Vec<_>>(), [None, Some(0), None]);
        let of_child: Vec<_> =
            meta.events.iter().filter(|event| event.thread == 1).map(|event| event.kind.clone()).collect();
        assert!(matches!(&of_child[1], EventKind::Map(map) if map.start == 16 && map.what == MapKind::Anonymous));
        assert_eq!(of_child[2..], [EventKind::StartThread { thread: 2 }, EventKind::EndThread]);
    }

    #[test]
    fn a_chunk_that_came_twice_counts_once_and_a_lost_one_is_told() {
        let mut rig = Rig::new();
        let payload = Payload::default().hello(9, 0, 0, 0).row(0, 0, 20);
        let header = |sequence| Header { payload_bytes: payload.0.len(), uid: 0, sequence };
        rig.assembler.chunk(header(0), &payload.0).unwrap();
        rig.assembler.chunk(header(0), &payload.0).unwrap();
        assert!(rig.assembler.take_warnings().is_empty());
        rig.assembler.chunk(header(5), &Payload::default().row(1, 10, 30).0).unwrap();
        assert_eq!(rig.assembler.take_warnings(), ["4 blocks of records were lost"]);
        assert_eq!(rig.read().1.len(), 2);
    }

    #[test]
    fn a_start_that_failed_leaves_no_trace() {
        let mut rig = Rig::new();
        rig.send(0, Payload::default().hello(9, 0, 0, 0).raw(&[8, 1, 2, 9, 1]).row(0, 0, 20));
        assert!(!rig.assembler.expects_more());
        let (meta, _) = rig.read();
        assert_eq!((meta.threads.len(), meta.events.len()), (1, 0));
    }

    #[test]
    fn a_process_that_vanished_has_ended_threads() {
        let mut rig = Rig::new();
        rig.send(0, Payload::default().hello(9, 0, 0, 0).row(0, 0, 20));
        assert_eq!(rig.assembler.living(), BTreeSet::from([9]));
        rig.assembler.gone(9);
        assert!(rig.assembler.living().is_empty());
        let (meta, _) = rig.read();
        assert_eq!(meta.events[0].kind, EventKind::EndThread);
    }
}
