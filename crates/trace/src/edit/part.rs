//! A part of a trace, read like a whole trace.

use std::path::Path;

use super::Selection;
use super::plan::{Plan, plan};
use super::sieve::Sieve;
use crate::{BATCH_ROWS, Result, RowBatch, TraceMeta, TraceReader, TraceRow, TraceRows, TraceWriter};

/// The part of a trace that a [`Selection`] keeps, read with the memory of one batch and the mappings.
#[derive(Debug)]
pub struct TracePart {
    reader: TraceReader,
    part: Option<(Plan, Sieve)>,
}

impl TracePart {
    /// Finds the part, with one pass over the trace; two if a time is a share of the length, none for a whole trace.
    ///
    /// # Errors
    /// When the selection names a thread, process or mapping that the trace does not have, nothing is left, or the
    /// trace is damaged.
    pub fn new(mut reader: TraceReader, selection: &Selection) -> Result<Self> {
        if selection.is_whole() {
            return Ok(Self { reader, part: None });
        }
        let mut sieve = Sieve::new(reader.meta(), selection)?;
        let plan = plan(&mut reader, selection, &mut sieve)?;
        Ok(Self { reader, part: Some((plan, sieve)) })
    }
}

impl TraceRows for TracePart {
    fn meta(&self) -> &TraceMeta {
        self.part.as_ref().map_or(self.reader.meta(), |(plan, _)| &plan.meta)
    }
    fn path(&self) -> &Path {
        self.reader.path()
    }
    fn file_bytes(&self) -> u64 {
        self.reader.file_bytes()
    }
    fn file_accesses(&self) -> Option<u64> {
        self.part.is_some().then_some(self.reader.meta().accesses)
    }

    fn for_each_batch(&mut self, each: &mut dyn FnMut(&RowBatch) -> Result<()>) -> Result<()> {
        let Some((plan, sieve)) = &mut self.part else { return self.reader.for_each_batch(each) };
        sieve.reset();
        let source = if sieve.needs_events() { self.reader.meta().clone() } else { TraceMeta::default() };
        let mut events = source.events.iter().peekable();
        let processes: Vec<usize> = self.reader.meta().threads.iter().map(|thread| thread.process).collect();
        let mut out = RowBatch::new();
        self.reader.for_each_batch_of(plan.rows.clone(), |batch| {
            for (number, row) in (batch.first_row..plan.rows.end).zip(batch.rows()) {
                while let Some(event) = events.next_if(|event| event.row <= number) {
                    sieve.event(&source, event, source.process_of(event.thread));
                }
                if number < plan.rows.start {
                    continue;
                }
                let Some(place) = plan.threads[row.thread as usize] else { continue };
                let mut failed = Ok(());
                sieve.row(processes[row.thread as usize], row, |kept| {
                    let time_ns = kept.time_ns.saturating_sub(place.base_ns);
                    out.push(TraceRow { time_ns, thread: place.number, ..kept });
                    if out.len() == BATCH_ROWS && failed.is_ok() {
                        failed = each(&out);
                        next_batch(&mut out);
                    }
                });
                failed?;
            }
            Ok(())
        })?;
        if out.is_empty() { Ok(()) } else { each(&out) }
    }
}

/// Empties the batch for the following rows.
fn next_batch(batch: &mut RowBatch) {
    let after = batch.first_row + batch.len() as u64;
    batch.clear();
    batch.first_row = after;
}

/// Writes a part as a finished trace at `output`, which appears in one step. `progress` gets the number of rows
/// written.
///
/// # Errors
/// When the trace is damaged, or the output cannot be written; it is then untouched.
pub fn write_part(part: &mut TracePart, output: impl AsRef<Path>, mut progress: impl FnMut(u64)) -> Result<TraceMeta> {
    let mut writer = TraceWriter::create_finished(output, part.meta().clone())?;
    part.for_each_batch(&mut |batch| {
        progress(batch.len() as u64);
        writer.push_batch(batch)
    })?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::Moment;
    use crate::file::parquet_file::GROUP_ROWS;
    use isotherm_units::{Duration, Ratio};
    use std::os::unix::fs::FileExt as _;

    /// Three row groups, the first one not decodable: a window in the last one can still be read.
    #[test]
    fn row_groups_before_a_window_are_not_decoded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let rows = GROUP_ROWS as u64 * 5 / 2;
        let mut writer =
            TraceWriter::create_finished(&path, TraceMeta { epoch_ns: 10, ..TraceMeta::single("t") }).unwrap();
        let row = |number: u64| TraceRow {
            time_ns: number / 100 * 10,
            thread: 0,
            page: number * 7 % 1000,
            pages: 1,
            write: false,
            kernel: false,
        };
        (0..rows).for_each(|number| writer.push(row(number)).unwrap());
        writer.finish().unwrap();
        // The first column of the first group starts after the magic bytes.
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[0xff; 64], 4).unwrap();
        let (from_ns, to_ns) = (row(GROUP_ROWS as u64 * 9 / 4).time_ns, row(GROUP_ROWS as u64 * 19 / 8).time_ns);
        let length_ns = row(rows - 1).time_ns;
        let window = |from, to| Selection { from: Some(from), to: Some(to), ..Selection::default() };
        let read = |selection: &Selection| {
            let mut part = TracePart::new(TraceReader::open(&path)?, selection)?;
            let mut found = Vec::new();
            part.for_each_batch(&mut |batch| {
                found.extend(batch.rows());
                Ok(())
            })?;
            Ok::<_, crate::TraceError>(found)
        };
        let expected: Vec<TraceRow> = (0..rows)
            .map(row)
            .filter(|row| (from_ns..to_ns).contains(&row.time_ns))
            .map(|row| TraceRow { time_ns: row.time_ns - from_ns, ..row })
            .collect();
        assert_eq!(
            read(&window(Moment::After(Duration::from_ns(from_ns)), Moment::After(Duration::from_ns(to_ns)))).unwrap(),
            expected
        );
        let last_tenth =
            read(&window(Moment::Share(Ratio::from_percent(90)), Moment::Share(Ratio::from_percent(100)))).unwrap();
        let begin_ns = length_ns * 9 / 10;
        assert_eq!(
            last_tenth.len(),
            (0..rows).filter(|&number| (begin_ns..length_ns).contains(&row(number).time_ns)).count()
        );
        assert!(
            read(&window(Moment::After(Duration::from_ns(0)), Moment::After(Duration::from_ns(to_ns)))).is_err(),
            "the first group is damaged"
        );
    }
}
