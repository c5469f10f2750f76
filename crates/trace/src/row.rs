//! Rows of a page trace, one and many.

/// Page numbers are below this (2^52: 64-bit addresses without the offset in a 4 KiB page).
pub const PAGE_LIMIT: u64 = 1 << 52;

/// Most rows that a reader puts into a [`RowBatch`]: the columns stay in a core's cache.
pub const BATCH_ROWS: usize = 16 * 1024;

/// One row of a page trace: a thread touched `pages` consecutive pages in ascending order.
///
/// In an epoch-filtered trace each page that a thread touches in an epoch appears once, at its first touch. A page that
/// was read and then written in the epoch is a written page. Consecutive pages with the same flag fold into one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// CPU time of the thread at the start of its epoch, nanoseconds; never decreases within a thread.
    pub time_ns: u64,
    /// Index of the thread in [`crate::TraceMeta::threads`].
    pub thread: u32,
    /// First virtual page number, in units of [`crate::TraceMeta::page_bytes`]; `page + pages` ≤ [`PAGE_LIMIT`].
    pub page: u64,
    /// Number of pages, at least 1.
    pub pages: u32,
    /// Whether the pages were written; otherwise they were only read.
    pub write: bool,
    /// Whether only the kernel touched them in this epoch, in a system call of the thread, on its behalf.
    pub kernel: bool,
}

/// The pages of a [`TraceRow`], without time and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// As [`TraceRow::page`].
    pub page: u64,
    /// As [`TraceRow::pages`].
    pub pages: u32,
    /// As [`TraceRow::write`].
    pub write: bool,
    /// As [`TraceRow::kernel`].
    pub kernel: bool,
}

/// Consecutive rows of a file, column by column. All columns have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowBatch {
    /// Index in the file of the batch's first row: the number that [`crate::Event::row`] counts.
    pub first_row: u64,
    /// Column of [`TraceRow::time_ns`].
    pub time_ns: Vec<u64>,
    /// Column of [`TraceRow::thread`].
    pub thread: Vec<u32>,
    /// Column of [`TraceRow::page`].
    pub page: Vec<u64>,
    /// Column of [`TraceRow::pages`].
    pub pages: Vec<u32>,
    /// Column of [`TraceRow::write`].
    pub write: Vec<bool>,
    /// Column of [`TraceRow::kernel`].
    pub kernel: Vec<bool>,
}

impl RowBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.page.len()
    }
    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.page.is_empty()
    }
    /// Removes all rows and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.time_ns.clear();
        self.thread.clear();
        self.page.clear();
        self.pages.clear();
        self.write.clear();
        self.kernel.clear();
    }
    /// Resizes all columns to `rows`, with any contents.
    pub(crate) fn resize(&mut self, rows: usize) {
        self.time_ns.resize(rows, 0);
        self.thread.resize(rows, 0);
        self.page.resize(rows, 0);
        self.pages.resize(rows, 0);
        self.write.resize(rows, false);
        self.kernel.resize(rows, false);
    }
    /// Appends a row to every column.
    pub fn push(&mut self, row: TraceRow) {
        self.time_ns.push(row.time_ns);
        self.thread.push(row.thread);
        self.page.push(row.page);
        self.pages.push(row.pages);
        self.write.push(row.write);
        self.kernel.push(row.kernel);
    }
    /// Appends the touches of `thread` in one epoch.
    pub(crate) fn extend(&mut self, time_ns: u64, thread: u32, runs: &[PageRun]) {
        let rows = self.len() + runs.len();
        self.time_ns.resize(rows, time_ns);
        self.thread.resize(rows, thread);
        self.page.extend(runs.iter().map(|run| run.page));
        self.pages.extend(runs.iter().map(|run| run.pages));
        self.write.extend(runs.iter().map(|run| run.write));
        self.kernel.extend(runs.iter().map(|run| run.kernel));
    }
    /// Row `index` of the batch.
    ///
    /// # Panics
    /// When `index` is not below [`RowBatch::len`].
    #[inline]
    pub fn row(&self, index: usize) -> TraceRow {
        TraceRow {
            time_ns: self.time_ns[index],
            thread: self.thread[index],
            page: self.page[index],
            pages: self.pages[index],
            write: self.write[index],
            kernel: self.kernel[index],
        }
    }
    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = TraceRow> + '_ {
        (0..self.len()).map(|index| self.row(index))
    }
    /// Number of pages that its rows touch in total.
    pub fn accesses(&self) -> u64 {
        self.pages.iter().map(|&pages| u64::from(pages)).sum()
    }
}
