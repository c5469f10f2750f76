//! Summary of a trace.

use serde::Serialize;

use super::footprint::{Counts, Footprint};
use super::layout::Layout;
use super::{TraceStep, walk};
use crate::{Clock, MapKind, NativeRun, Result, TraceMeta, TraceRows};

/// Summary of a trace. Pages are in units of `page_bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Info {
    /// The command that was recorded; empty if not known.
    pub command: Vec<String>,
    /// Tool that observed the accesses, for example `valgrind tool`.
    pub recorder: String,
    /// Program and version that wrote the file.
    pub created_by: String,
    /// Description of the machine of the recording; empty if not known.
    pub host: String,
    /// Exit code of the program, if known.
    pub exit_code: Option<i32>,
    /// Whether the recording saw the program's end.
    pub complete: bool,
    pub page_bytes: u64,
    /// Length of an epoch; 0: one row is one request.
    pub epoch_ns: u64,
    /// Source of the times.
    pub clock: Clock,
    /// Resource use of the program in a separate run without the recorder; `None` if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native: Option<NativeRun>,
    /// Whether rows hold reads and writes of files through descriptors.
    pub descriptor_accesses: bool,
    /// Number of rows in the file.
    pub rows: u64,
    /// Pages touched by all rows together.
    pub accesses: u64,
    /// Accesses among these by rows that write.
    pub write_accesses: u64,
    /// Accesses among these to pages that only the kernel touched in their epoch, for the program.
    pub kernel_accesses: u64,
    /// Number of events: mappings, unmappings, thread starts and others.
    pub events: u64,
    /// Length of the file in bytes; of the whole file, even if only a part of it was requested.
    pub file_bytes: u64,
    /// Thousandths of a byte of the file for each access of the file.
    pub milli_bytes_per_access: u64,
    /// CPU time of all threads together, nanoseconds; exact to an epoch a thread.
    pub cpu_ns: u64,
    /// Pages touched, written, at most resident; trace time.
    #[serde(flatten)]
    pub footprint: Footprint,
    /// The threads, in the order of their indices.
    pub threads: Vec<ThreadInfo>,
    /// The mappings by kind and file, most accesses first.
    pub mappings: Vec<MappingInfo>,
    /// Notes of the recorder or importer.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadInfo {
    /// Index of the thread in the trace's list.
    pub thread: usize,
    /// Index of its process in the trace's list.
    pub process: usize,
    pub process_name: String,
    /// Thread id at the time of the recording; 0 if not known.
    pub tid: u32,
    /// Name of the thread; may be empty.
    pub name: String,
    pub rows: u64,
    /// Pages touched by its rows, summed.
    pub accesses: u64,
    /// CPU time of the thread at its last row or event, nanoseconds.
    pub cpu_ns: u64,
}

/// All mappings of one kind and file of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MappingInfo {
    /// Index of the process in the trace's list.
    pub process: usize,
    /// Kind of the mapping; `None`: touched outside all known mappings.
    pub what: Option<MapKind>,
    /// Path of the mapped file; `None` if there is no file.
    pub file: Option<String>,
    /// Kind and last name of the file, for display.
    pub label: String,
    /// Distinct pages touched. A page that changed mappings counts for the first one.
    pub touched_pages: u64,
    /// Touched pages that were written.
    pub written_pages: u64,
    /// Pages touched by all rows, summed.
    pub accesses: u64,
    /// Share of all accesses, parts a million.
    pub share_ppm: u64,
}

/// One pass over the trace; memory grows with the footprint.
///
/// # Errors
/// When the trace is damaged or touches too many pages.
pub fn info(reader: &mut dyn TraceRows) -> Result<Info> {
    let meta = reader.meta().clone();
    let mut threads = thread_table(&meta);
    let mut counts = Counts::new(reader);
    let mut layout = Layout::default();
    let mut accesses_of: Vec<u64> = Vec::new();
    // Group of each page by its number: the first group that had it.
    let mut owner: Vec<u32> = Vec::new();
    let (mut rows, mut accesses, mut write_accesses, mut kernel_accesses) = (0u64, 0u64, 0u64, 0u64);
    let duration_ns = walk(reader, |step| {
        match &step {
            TraceStep::Event { event, process } => {
                layout.see(&meta, event, *process);
                let thread = &mut threads[event.thread as usize];
                thread.cpu_ns = thread.cpu_ns.max(event.time_ns);
            }
            TraceStep::Rows(some) => {
                let (process, touched) = (some.process, some.accesses());
                rows += some.len() as u64;
                accesses += touched;
                let thread = &mut threads[some.thread as usize];
                thread.rows += some.len() as u64;
                thread.accesses += touched;
                thread.cpu_ns = thread.cpu_ns.max(some.cpu_ns);
                for row in some.iter() {
                    let touched = u64::from(row.pages);
                    write_accesses += if row.write { touched } else { 0 };
                    kernel_accesses += if row.kernel { touched } else { 0 };
                    let before = counts.pages().0.len();
                    counts.touch(some, row.page..row.page + touched, row.write)?;
                    let new_pages = counts.pages().0.len() - before;
                    layout.split(process, row.page, row.page + touched, |group, start, end| {
                        let group_index = group as usize;
                        if group_index >= accesses_of.len() {
                            accesses_of.resize(group_index + 1, 0);
                        }
                        accesses_of[group_index] += end - start;
                        if new_pages > 0 {
                            // New pages of this row got the next numbers in ascending order of pages.
                            counts.pages().0.for_each_touched(process, start, end, |number| {
                                let number = number as usize;
                                if number >= owner.len() {
                                    owner.resize(number + 1, u32::MAX);
                                }
                                if owner[number] == u32::MAX {
                                    owner[number] = group;
                                }
                            });
                        }
                    });
                }
                counts.rise(some.time_ns);
                return Ok(());
            }
            TraceStep::Exit { .. } => {}
        }
        counts.see(&step)
    })?;
    let mappings = mapping_table(&layout, &counts, &owner, &accesses_of, accesses);
    let file_bytes = reader.file_bytes();
    let file_accesses = reader.file_accesses().unwrap_or(accesses);
    let milli_bytes = u128::from(file_bytes) * 1000 / u128::from(file_accesses.max(1));
    Ok(Info {
        command: meta.command.clone(),
        recorder: meta.recorder.clone(),
        created_by: meta.created_by.clone(),
        host: meta.host.clone(),
        exit_code: meta.exit_code,
        complete: meta.complete,
        page_bytes: meta.page_bytes,
        epoch_ns: meta.epoch_ns,
        clock: meta.clock,
        native: meta.native,
        descriptor_accesses: meta.page_cache.is_some(),
        rows,
        accesses,
        write_accesses,
        kernel_accesses,
        events: meta.events.len() as u64,
        file_bytes,
        milli_bytes_per_access: u64::try_from(milli_bytes).unwrap_or(u64::MAX),
        cpu_ns: threads.iter().fold(0, |sum, thread| sum.saturating_add(thread.cpu_ns)),
        footprint: counts.finish(duration_ns),
        threads,
        mappings,
        notes: meta.notes,
    })
}

fn thread_table(meta: &TraceMeta) -> Vec<ThreadInfo> {
    let row = |(index, thread): (usize, &crate::ThreadMeta)| ThreadInfo {
        thread: index,
        process: thread.process,
        process_name: meta.processes[thread.process].name.clone(),
        tid: thread.tid,
        name: thread.name.clone(),
        ..ThreadInfo::default()
    };
    meta.threads.iter().enumerate().map(row).collect()
}

fn mapping_table(
    layout: &Layout,
    counts: &Counts,
    owner: &[u32],
    accesses_of: &[u64],
    accesses: u64,
) -> Vec<MappingInfo> {
    let (_, is_written) = counts.pages();
    let mut table: Vec<MappingInfo> = layout
        .groups()
        .iter()
        .enumerate()
        .map(|(index, group)| {
            let accesses_here = accesses_of.get(index).copied().unwrap_or(0);
            MappingInfo {
                process: group.process,
                what: group.what,
                file: group.file.clone(),
                label: group.label(),
                touched_pages: 0,
                written_pages: 0,
                accesses: accesses_here,
                share_ppm: super::share_ppm(accesses_here, accesses),
            }
        })
        .collect();
    for (number, &group) in owner.iter().enumerate() {
        if let Some(entry) = table.get_mut(group as usize) {
            entry.touched_pages += 1;
            entry.written_pages += u64::from(is_written(u32::try_from(number).expect("numbers are u32")));
        }
    }
    table.sort_by(|a, b| b.accesses.cmp(&a.accesses).then_with(|| (a.process, &a.label).cmp(&(b.process, &b.label))));
    table
}
