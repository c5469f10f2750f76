//! A finished file: row groups in order, columns side by side, a batch at a time.

use std::ops::Range;

use super::Source;
use super::decode::Word;
use super::footer::{Footer, RowGroup};
use super::pages::ColumnReader;
use super::table::Table;
use crate::{BATCH_ROWS, Result, RowBatch};

/// Streams the columns of a Parquet file. Holds one page of each column.
#[derive(Debug)]
pub(crate) struct ParquetTable {
    source: Source,
    table: &'static Table,
    row_groups: Vec<RowGroup>,
    next_group: usize,
    rows_left: u64,
    rows_done: u64,
    columns: Vec<ColumnReader>,
}

impl ParquetTable {
    pub(crate) fn new(source: Source, footer: Footer, table: &'static Table) -> Self {
        let row_groups = footer.row_groups;
        Self { source, table, row_groups, next_group: 0, rows_left: 0, rows_done: 0, columns: Vec::new() }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn rewind(&mut self) {
        self.next_group = 0;
        self.rows_left = 0;
        self.rows_done = 0;
    }

    /// Goes to the row group that holds row `row`, or after all row groups.
    pub(crate) fn go_to(&mut self, row: u64) {
        self.rewind();
        while self.group_ahead().is_some_and(|group| self.rows_done + group.rows <= row) {
            self.skip_group();
        }
    }

    /// The row group that the next batch begins with; `None` inside a group, and at the end.
    pub(crate) fn group_ahead(&self) -> Option<&RowGroup> {
        self.row_groups.get(self.next_group).filter(|_| self.rows_left == 0)
    }

    /// Skips the next row group.
    pub(crate) fn skip_group(&mut self) {
        self.rows_done += self.group_ahead().map_or(0, |group| group.rows);
        self.next_group += 1;
    }

    /// Index of the first row of the next batch.
    pub(crate) fn rows_done(&self) -> u64 {
        self.rows_done
    }

    /// Number of rows in the next batch: at most [`BATCH_ROWS`], 0 at the end. Each column must then be read for this
    /// number.
    pub(crate) fn next_rows(&mut self) -> Result<usize> {
        while self.rows_left == 0 {
            let Some(group) = self.row_groups.get(self.next_group) else { return Ok(0) };
            if self.columns.is_empty() {
                // Optional columns come last, so a file that lacks one has fewer chunks.
                for (column, &chunk) in self.table.columns.iter().zip(&group.chunks) {
                    self.columns.push(ColumnReader::new(&self.source, column.name, chunk)?);
                }
            }
            self.columns.iter_mut().zip(&group.chunks).for_each(|(column, &chunk)| column.start(chunk));
            self.rows_left = group.rows;
            self.next_group += 1;
        }
        let rows = usize::try_from(self.rows_left.min(BATCH_ROWS as u64)).expect("a batch is small");
        self.rows_left -= rows as u64;
        self.rows_done += rows as u64;
        Ok(rows)
    }

    /// Fills `out` with the batch's values of integer column `column`.
    pub(crate) fn read<W: Word>(&mut self, column: usize, out: &mut [W]) -> Result<()> {
        self.columns[column].read(&self.source, out)
    }

    /// Fills `out` with the batch's values of boolean column `column`; with `false` if the file lacks it.
    pub(crate) fn read_bools(&mut self, column: usize, out: &mut [bool]) -> Result<()> {
        match self.columns.get_mut(column) {
            Some(column) => column.read_bools(&self.source, out),
            None => {
                out.fill(false);
                Ok(())
            }
        }
    }
}

/// Consecutive rows of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadRows {
    pub(crate) thread: u32,
    /// CPU time of the last row.
    pub(crate) last_ns: u64,
    /// Numbers of the rows.
    pub(crate) rows: Range<u64>,
}

/// Streams the rows of a finished trace.
#[derive(Debug)]
pub(crate) struct ParquetRows {
    table: ParquetTable,
}

impl ParquetRows {
    pub(crate) fn new(source: Source, footer: Footer) -> Self {
        Self { table: ParquetTable::new(source, footer, &super::table::TRACE) }
    }

    pub(crate) fn source(&self) -> &Source {
        self.table.source()
    }

    pub(crate) fn rewind(&mut self) {
        self.table.rewind();
    }

    pub(crate) fn go_to(&mut self, row: u64) {
        self.table.go_to(row);
    }

    /// Metadata of the file about the next rows, if all these rows belong to one thread.
    pub(crate) fn thread_ahead(&self) -> Option<ThreadRows> {
        let group = self.table.group_ahead()?;
        let (_, last_ns) = group.chunks.first()?.values?;
        let (least, greatest) = group.chunks.get(1)?.values?;
        let thread = u32::try_from(least).ok().filter(|_| least == greatest)?;
        let first_row = self.table.rows_done();
        Some(ThreadRows { thread, last_ns, rows: first_row..first_row + group.rows })
    }

    pub(crate) fn skip_group(&mut self) {
        self.table.skip_group();
    }

    pub(crate) fn next_batch(&mut self, batch: &mut RowBatch) -> Result<bool> {
        let first_row = self.table.rows_done();
        let rows = self.table.next_rows()?;
        if rows == 0 {
            batch.clear();
            return Ok(false);
        }
        batch.first_row = first_row;
        // Not cleared first: a column of the right length is overwritten, without zeroing.
        batch.resize(rows);
        self.table.read(0, &mut batch.time_ns[..])?;
        self.table.read(1, &mut batch.thread[..])?;
        self.table.read(2, &mut batch.page[..])?;
        self.table.read(3, &mut batch.pages[..])?;
        self.table.read_bools(4, &mut batch.write)?;
        self.table.read_bools(5, &mut batch.kernel)?;
        Ok(true)
    }
}
