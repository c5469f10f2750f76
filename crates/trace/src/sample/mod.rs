//! A spatial sample of a trace: one group of pages in N, packed together.
//!
//! A sample is a complete trace, of a program with 1/N of the memory and the same run time. Replays of the sample show the behaviour of the
//! whole, if each of its pages counts for N (`machine.sample` of a scenario). Groups are chosen evenly over memory ([`grid`]), so that hot
//! and cold ranges both have their share. Adjacent pages within a group stay adjacent, for readahead. Chosen groups are packed together,
//! for monitors that assume evenly used regions. Design and measured errors: `docs/use/advise.md#samples`.

mod grid;
mod mappings;
mod rate;

use std::path::Path;

use crate::{Event, EventKind, Result, RowBatch, TraceError, TraceMeta, TraceReader, TraceRow, TraceWriter};

use grid::Grid;
use mappings::Mappings;
pub use rate::{SAMPLE_MAX, SampleRate};

/// Writes a sample of a trace as a finished trace at `output`, which appears in one step. Reads the trace once, in constant memory except
/// for its mappings. `progress` gets the number of rows read.
///
/// # Errors
/// The trace is a sample already, is damaged, has no page in the sample, or the output cannot be written; it is then untouched.
pub fn write_sample(
    reader: &mut TraceReader,
    rate: SampleRate,
    output: impl AsRef<Path>,
    mut progress: impl FnMut(u64),
) -> Result<TraceMeta> {
    let source = reader.meta().clone();
    let path = reader.path().to_owned();
    if source.sample.is_some() {
        let what = "it is a sample already; take one of the trace that it comes from".to_owned();
        return Err(TraceError::Unsupported { path, what });
    }
    let meta = TraceMeta {
        created_by: TraceMeta::default().created_by,
        native: None,
        events: Vec::new(),
        sample: Some(rate.get()),
        ..source.clone()
    };
    let mut writer = TraceWriter::create_finished(output, meta)?;
    let mut sampler = Sampler { source: &source, mappings: Mappings::new(&source, rate), dropped: Vec::new() };
    sampler.dropped = vec![None; source.threads.len()];
    let mut events = source.events.iter().peekable();
    let mut batch = RowBatch::new();
    reader.rewind();
    while reader.next_batch(&mut batch)? {
        for (number, row) in (batch.first_row..).zip(batch.rows()) {
            while let Some(event) = events.next_if(|event| event.row <= number) {
                sampler.event(event, &mut writer)?;
            }
            sampler.row(row, &mut writer)?;
        }
        progress(batch.len() as u64);
    }
    for event in events {
        sampler.event(event, &mut writer)?;
    }
    sampler.keep_times(&mut writer)?;
    if writer.meta().rows == 0 {
        let what = format!("none of its pages is in a sample of {rate}; take a larger one");
        return Err(TraceError::Unsupported { path, what });
    }
    let (kept, all) = (writer.meta().accesses, source.accesses);
    writer.note(format!("a sample of {rate} of its pages: {kept} of {all} accesses"))?;
    writer.finish()
}

struct Sampler<'a> {
    source: &'a TraceMeta,
    mappings: Mappings,
    /// By thread, the time of its last row if that is not in the sample, because its clock advanced.
    dropped: Vec<Option<u64>>,
}

impl Sampler<'_> {
    fn row(&mut self, row: TraceRow, writer: &mut TraceWriter) -> Result<()> {
        let process = self.source.process_of(row.thread);
        let mut failed = Ok(());
        let mut is_kept = false;
        self.mappings.sampled(process, row.page, row.page + u64::from(row.pages), |start, end| {
            is_kept = true;
            let pages = u32::try_from(end - start).expect("no more than the row has");
            if failed.is_ok() {
                failed = writer.push(TraceRow { page: start, pages, ..row });
            }
        });
        self.dropped[row.thread as usize] = (!is_kept).then_some(row.time_ns);
        failed
    }

    fn event(&mut self, event: &Event, writer: &mut TraceWriter) -> Result<()> {
        let process = self.source.process_of(event.thread);
        let mut tell = |kind| writer.event(event.thread, event.time_ns, kind);
        match &event.kind {
            EventKind::Map(map) => self.mappings.map(process, map, &mut tell)?,
            EventKind::Unmap { start, end } => self.mappings.unmap(process, *start, *end, &mut tell)?,
            kind @ EventKind::StartThread { thread } => {
                let child = self.source.process_of(*thread);
                if self.source.processes.get(child).and_then(|child| child.forked_from) == Some(process) {
                    self.mappings.fork(process, child);
                }
                tell(kind.clone())?;
            }
            kind => tell(kind.clone())?,
        }
        self.dropped[event.thread as usize] = None;
        Ok(())
    }

    /// Sleeps of length 0 keep the time of final rows that are not in the sample, so each thread's CPU time stays the same.
    fn keep_times(&mut self, writer: &mut TraceWriter) -> Result<()> {
        for (thread, dropped) in (0u32..).zip(&self.dropped) {
            if let Some(time_ns) = *dropped {
                writer.event(thread, time_ns, EventKind::Idle { ns: 0 })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
