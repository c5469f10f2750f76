//! Our own formats: a finished or unfinished trace is copied with all rows and events.
//!
//! Also reads Parquet that another program rewrote without our metadata: threads are then synthetic, and mappings
//! unknown.

use std::path::Path;

use super::{ImportOptions, Importer, Input};
use crate::file::footer::is_parquet;
use crate::file::ipc_stream::is_ipc;
use crate::reader::TraceReader;
use crate::{ProcessMeta, Result, ThreadMeta, TraceError, TraceMeta, TraceWriter};

pub(super) const IMPORTER: Importer = Importer {
    name: "parquet",
    about: "a trace of isotherm, finished (Parquet) or not (Arrow IPC stream), or its columns from another program",
    has_sizes: false,
    has_clock: true,
    detect: |_, head| is_parquet(head) || is_ipc(head),
    meta: |_| TraceMeta::default(),
    convert,
};

/// Most threads of a file without metadata.
const THREADS_MAX: u32 = 4096;

fn convert(input: &mut Input, options: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let path = input.path().to_owned();
    let mut reader = open(&path, options)?;
    let mut meta = reader.meta().clone();
    if meta.recorder == WITHOUT_METADATA {
        let mut highest = 0;
        let mut times_go_back = false;
        let mut latest = vec![0; THREADS_MAX as usize];
        reader.for_each_batch(|batch| {
            for row in batch.rows() {
                highest = highest.max(row.thread);
                let latest = &mut latest[row.thread as usize];
                times_go_back |= row.time_ns < *latest;
                *latest = row.time_ns;
            }
            Ok::<(), TraceError>(())
        })?;
        if times_go_back {
            let what = "time_ns goes back within a thread; sort the rows by time";
            return Err(TraceError::Unsupported { path, what: what.to_owned() });
        }
        meta.threads.truncate(highest as usize + 1);
        meta.notes.push("read without metadata: threads, epoch and mappings are not known".to_owned());
    }
    writer.replace_meta(meta);
    reader.for_each_batch(|batch| writer.push_batch(batch))
}

const WITHOUT_METADATA: &str = "parquet without metadata";

fn open(path: &Path, options: &ImportOptions) -> Result<TraceReader> {
    let fallback = TraceMeta {
        recorder: WITHOUT_METADATA.to_owned(),
        epoch_ns: options.epoch_ns,
        processes: vec![ProcessMeta { name: "unknown".to_owned(), ..ProcessMeta::default() }],
        threads: vec![ThreadMeta::default(); THREADS_MAX as usize],
        complete: true,
        ..TraceMeta::default()
    };
    TraceReader::open_with(path, fallback)
}
