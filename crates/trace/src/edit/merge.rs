//! Merges several traces into one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use isotherm_units::Duration;

use super::steps::{Step, Steps};
use crate::analysis::Clock;
use crate::{
    BATCH_ROWS, Event, EventKind, MapRange, PageCacheRange, ProcessMeta, Result, ThreadMeta, TraceError, TraceMeta,
    TraceReader, TraceRow, TraceWriter,
};

/// Puts traces into one finished trace at `output`, as if their programs had been started together: all processes and threads, in the
/// order of trace time; at equal times in the order of `inputs`. `progress` gets the number of rows written. Memory: a batch of each
/// trace, and the events.
///
/// # Errors
/// When there are fewer than two, their page sizes or epochs differ, there is nothing in them, one is damaged, or the output cannot be
/// written; it is then untouched.
pub fn merge(inputs: &[PathBuf], output: impl AsRef<Path>, mut progress: impl FnMut(u64)) -> Result<TraceMeta> {
    let mut readers = inputs.iter().map(TraceReader::open).collect::<Result<Vec<_>>>()?;
    check(&readers)?;
    let (page_cache, moved) = places_of_files(&readers)?;
    let (mut meta, firsts) = merged_meta(&readers);
    meta.page_cache = page_cache;
    let mut writer = TraceWriter::create_finished(output, meta)?;
    let metas: Vec<TraceMeta> = readers.iter().map(|reader| reader.meta().clone()).collect();
    let mut cursors: Vec<Cursor<'_>> = (readers.iter_mut().zip(&metas))
        .map(|(reader, meta)| Cursor { steps: Steps::new(reader), clock: Clock::new(meta), meta })
        .collect();
    // Trace time of each trace's next step, and the trace.
    let mut heads: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut next: Vec<Option<Step>> = Vec::new();
    for (index, cursor) in cursors.iter_mut().enumerate() {
        let head = cursor.next()?;
        heads.extend(head.map(|(time_ns, _)| Reverse((time_ns, index))));
        next.push(head.map(|(_, step)| step));
    }
    while let Some(Reverse((_, index))) = heads.pop() {
        let first_thread = firsts[index].1;
        match next[index].take().expect("a head has a step") {
            Step::Row(row) => {
                let page = row.page + if metas[index].is_page_cache(row.page) { moved[index] } else { 0 };
                writer.push(TraceRow { thread: row.thread + first_thread, page, ..row })?;
                if writer.meta().rows.is_multiple_of(BATCH_ROWS as u64) {
                    progress(BATCH_ROWS as u64);
                }
            }
            Step::Event(event) => {
                let Event { thread, time_ns, kind, .. } = metas[index].events[event].clone();
                let kind = match kind {
                    EventKind::StartThread { thread } => EventKind::StartThread { thread: thread + first_thread },
                    EventKind::Map(map) if metas[index].is_page_cache(map.start) => {
                        let (start, end) = (map.start + moved[index], map.end + moved[index]);
                        EventKind::Map(MapRange { start, end, ..map })
                    }
                    kind => kind,
                };
                writer.event(thread + first_thread, time_ns, kind)?;
            }
        }
        if let Some((time_ns, step)) = cursors[index].next()? {
            next[index] = Some(step);
            heads.push(Reverse((time_ns, index)));
        }
    }
    if writer.meta().rows == 0 {
        let path = inputs[0].clone();
        return Err(TraceError::Unsupported { path, what: "nothing to merge: no trace has accesses".to_owned() });
    }
    writer.finish()
}

/// Page numbers, in the merged trace, of files that are read and written, and the offset added to the page numbers of each trace: one
/// number must mean one file in all traces.
fn places_of_files(readers: &[TraceReader]) -> Result<(Option<PageCacheRange>, Vec<u64>)> {
    let mut merged: Option<PageCacheRange> = None;
    let mut moved = vec![0; readers.len()];
    let mut next = 0;
    for (reader, moved) in readers.iter().zip(&mut moved) {
        let meta = reader.meta();
        let Some(range) = meta.page_cache else { continue };
        if merged.is_some_and(|merged| merged.start != range.start) {
            let what = "it keeps the files that it reads and writes at other page numbers than the first trace";
            return Err(TraceError::Unsupported { path: reader.path().to_owned(), what: what.to_owned() });
        }
        let ends = meta.events.iter().filter_map(|event| match &event.kind {
            EventKind::Map(map) if range.contains(map.start) => Some(map.end.min(range.end)),
            _ => None,
        });
        let used = ends.max().unwrap_or(range.start) - range.start;
        *moved = next;
        next += used;
        let end = merged.map_or(range.end, |merged| merged.end.max(range.end));
        if used > end - range.start || next > end - range.start {
            let what = "with it, the files that the traces read and write are too many for one".to_owned();
            return Err(TraceError::Unsupported { path: reader.path().to_owned(), what });
        }
        merged = Some(PageCacheRange { start: range.start, end });
    }
    Ok((merged, moved))
}

/// The position in one trace.
struct Cursor<'a> {
    steps: Steps<'a>,
    clock: Clock,
    meta: &'a TraceMeta,
}

impl Cursor<'_> {
    /// The next step with its trace time.
    fn next(&mut self) -> Result<Option<(u64, Step)>> {
        let Some((step, _)) = self.steps.next()? else { return Ok(None) };
        let time_ns = match step {
            Step::Row(row) => self.clock.advance(row.thread, row.time_ns),
            Step::Event(index) => {
                let event = &self.meta.events[index];
                let time_ns = self.clock.advance(event.thread, event.time_ns);
                self.clock.see(self.meta, event);
                time_ns
            }
        };
        Ok(Some((time_ns, step)))
    }
}

fn check(readers: &[TraceReader]) -> Result<()> {
    let [first, others @ ..] = readers else {
        return Err(TraceError::option("inputs", "are none; allowed: two traces or more"));
    };
    if others.is_empty() {
        return Err(TraceError::option("inputs", "are one trace; allowed: two or more"));
    }
    for other in others {
        let (ours, theirs) = (first.meta(), other.meta());
        let refuse = |what: String| {
            let what = format!("{what} of {}; only traces that agree in it can be merged", first.path().display());
            Err(TraceError::Unsupported { path: other.path().to_owned(), what })
        };
        if ours.page_bytes != theirs.page_bytes {
            let (ours, theirs) = (ours.page_bytes, theirs.page_bytes);
            return refuse(format!("its page size is {theirs} bytes, not the {ours} bytes"));
        }
        if ours.epoch_ns != theirs.epoch_ns {
            let epoch = |ns: u64| if ns == 0 { "none".to_owned() } else { Duration::from_ns(ns).to_string() };
            let (ours, theirs) = (epoch(ours.epoch_ns), epoch(theirs.epoch_ns));
            return refuse(format!("its epoch is {theirs}, not that ({ours})"));
        }
    }
    Ok(())
}

/// Metadata of the merged trace before its first row, and the numbers of the first process and thread of each trace.
fn merged_meta(readers: &[TraceReader]) -> (TraceMeta, Vec<(usize, u32)>) {
    let metas = || readers.iter().map(TraceReader::meta);
    let first = readers[0].meta();
    let mut meta = TraceMeta {
        command: first.command.clone(),
        page_bytes: first.page_bytes,
        epoch_ns: first.epoch_ns,
        recorder: same(metas().map(|meta| &meta.recorder)).cloned().unwrap_or_else(|| "merge".to_owned()),
        host: same(metas().map(|meta| &meta.host)).cloned().unwrap_or_default(),
        ns_per_instruction: same(metas().map(|meta| &meta.ns_per_instruction)).copied().flatten(),
        exit_code: same(metas().map(|meta| &meta.exit_code)).copied().flatten(),
        kernel_accesses: metas().all(|meta| meta.kernel_accesses),
        complete: metas().all(|meta| meta.complete),
        ..TraceMeta::default()
    };
    if same(metas().map(|meta| &meta.command)).is_none() {
        meta.command.clear();
    }
    let mut firsts = Vec::new();
    for reader in readers {
        let theirs = reader.meta();
        let (process, thread) = (meta.processes.len(), meta.threads.len());
        firsts.push((process, u32::try_from(thread).expect("readers list fewer threads")));
        meta.processes.extend(
            theirs
                .processes
                .iter()
                .map(|one| ProcessMeta { forked_from: one.forked_from.map(|from| from + process), ..one.clone() }),
        );
        meta.threads.extend(theirs.threads.iter().map(|one| ThreadMeta {
            process: one.process + process,
            started_by: one.started_by.map(|by| by + thread),
            ..one.clone()
        }));
        let name = reader.path().file_name().unwrap_or_default().to_string_lossy();
        let (last, command) = (meta.processes.len(), theirs.command.join(" "));
        let command = if command.is_empty() { String::new() } else { format!(" ({command})") };
        meta.notes.push(match last - process {
            1 => format!("process {process} is merged from {name}{command}"),
            _ => format!("processes {process} to {} are merged from {name}{command}", last.saturating_sub(1)),
        });
        if !theirs.complete {
            meta.notes.push(format!("{name}: the recording does not reach the program's end"));
        }
        meta.notes.extend(theirs.notes.iter().map(|note| format!("{name}: {note}")));
    }
    meta.notes.push("all programs are taken to start at the same time".to_owned());
    if metas().any(|one| one.kernel_accesses) && !meta.kernel_accesses {
        meta.notes.push("only some of the traces hold what the kernel touched for the program".to_owned());
    }
    if metas().any(|one| one.page_cache.is_some()) && !metas().all(|one| one.page_cache.is_some()) {
        meta.notes.push("only some of the traces hold files that were read and written through descriptors".to_owned());
    }
    if metas().any(|one| one.native.is_some()) {
        meta.notes.push("figures of runs without the recorder are left out: they are of each program alone".to_owned());
    }
    (meta, firsts)
}

/// The common value; `None` if they differ.
fn same<'a, T: PartialEq>(mut all: impl Iterator<Item = &'a T>) -> Option<&'a T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}
