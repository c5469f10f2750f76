//! A finished trace: row groups in order, five columns side by side, a batch at a time.

use super::Source;
use super::footer::{COLUMNS, Footer, RowGroup};
use super::pages::ColumnReader;
use crate::{BATCH_ROWS, Result, RowBatch};

/// Streams the rows of a Parquet file. Holds one page of each column.
#[derive(Debug)]
pub(crate) struct ParquetRows {
    source: Source,
    row_groups: Vec<RowGroup>,
    next_group: usize,
    rows_left: u64,
    rows_done: u64,
    columns: Vec<ColumnReader>,
}

impl ParquetRows {
    pub(crate) fn new(source: Source, footer: Footer) -> Self {
        Self { source, row_groups: footer.row_groups, next_group: 0, rows_left: 0, rows_done: 0, columns: Vec::new() }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn rewind(&mut self) {
        self.next_group = 0;
        self.rows_left = 0;
        self.rows_done = 0;
    }

    pub(crate) fn next_batch(&mut self, batch: &mut RowBatch) -> Result<bool> {
        while self.rows_left == 0 {
            let Some(group) = self.row_groups.get(self.next_group) else {
                batch.clear();
                return Ok(false);
            };
            if self.columns.is_empty() {
                for (name, chunk) in COLUMNS.into_iter().zip(group.chunks) {
                    self.columns.push(ColumnReader::new(&self.source, name, chunk)?);
                }
            }
            self.columns.iter_mut().zip(group.chunks).for_each(|(column, chunk)| column.start(chunk));
            self.rows_left = group.rows;
            self.next_group += 1;
        }
        let rows = usize::try_from(self.rows_left.min(BATCH_ROWS as u64)).expect("a batch is small");
        batch.first_row = self.rows_done;
        // Not cleared before: a column of the right length is overwritten, not zeroed first.
        batch.resize(rows);
        let [time_ns, thread, page, pages, write] = &mut self.columns[..] else {
            unreachable!("one reader was made for each column");
        };
        time_ns.read(&self.source, &mut batch.time_ns[..])?;
        thread.read(&self.source, &mut batch.thread[..])?;
        page.read(&self.source, &mut batch.page[..])?;
        pages.read(&self.source, &mut batch.pages[..])?;
        write.read_bools(&self.source, &mut batch.write)?;
        self.rows_left -= rows as u64;
        self.rows_done += rows as u64;
        Ok(true)
    }
}
