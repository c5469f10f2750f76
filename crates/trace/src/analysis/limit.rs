//! How many pages an analysis holds in memory.
//!
//! A row of a few bytes can name 2^32 - 1 pages. If memory followed from that number alone, a file of twenty rows could take all memory of
//! the machine. So data on pages is limited to the largest of three figures: a constant, a multiple of the file's length, and what short rows
//! take. The trace of a large program is a long file, and rows of one page are never refused. Analyses ask before they
//! touch the pages of a row, so a row that goes too far costs nothing. `docs/mechanism/formats.md#limits-of-analyses`.

use std::path::PathBuf;

use super::walk::Rows;
use crate::{PageCacheRange, Result, TraceError, TraceRows};

/// Bytes for data on pages, for a file of any length. Data on every page of 128 GiB fits, with pages of 4 KiB.
const DATA_BYTES_MAX: u64 = 640 << 20;
/// The same limit for each byte of the file. A touch of a page at a random place takes some 4 bytes of the file; data on it takes up to
/// some 600 bytes, if no two pages are adjacent.
const DATA_BYTES_PER_FILE_BYTE: u64 = 256;

/// Memory of an analysis for one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Pages that share an entry.
    pub(crate) pages: u64,
    /// Bytes of an entry if touched pages are adjacent, rounded up. Tables need more for pages that are far apart; this is not included,
    /// because each such page needs a row.
    pub(crate) bytes: u64,
    /// Entries that fit for each row read so far.
    pub(crate) per_row: u64,
    /// Most entries that can be numbered.
    pub(crate) numbers: u64,
}

impl Entry {
    /// An entry for one page in a [`super::PageTable`], with up to 16 bytes of the analysis.
    pub(crate) const PAGE: Self = Self { pages: 1, bytes: 20, per_row: 1, numbers: (1 << 32) - 64 };
}

/// Entries of a table.
pub(crate) trait Entries {
    /// Number of entries.
    fn held(&self) -> u64;
    /// Number of entries that the pages `start..end` of a process would add, or one more.
    fn missing(&self, process: usize, start: u64, end: u64) -> u64;
}

/// The most entries that an analysis may hold.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    path: PathBuf,
    entry: Entry,
    /// Most entries, for any number of rows.
    entries_max: u64,
}

/// A range that ends inside entries, at both of its ends and at both borders of the page cache, has up to this many entries more than its
/// length says.
const BORDERS: u64 = 4;

impl Limit {
    pub(crate) fn new(reader: &dyn TraceRows, entry: Entry) -> Self {
        let bytes = reader.file_bytes().saturating_mul(DATA_BYTES_PER_FILE_BYTE).max(DATA_BYTES_MAX);
        let entries_max = (bytes / entry.bytes).min(entry.numbers);
        Self { path: reader.path().to_owned(), entry, entries_max }
    }

    /// Asks for the pages `start..end` of one of `rows`, before they are touched.
    ///
    /// # Errors
    /// When `table` would hold too many entries.
    #[inline]
    pub(crate) fn admit(&self, table: &impl Entries, rows: &Rows<'_>, start: u64, end: u64) -> Result<()> {
        if table.held() + (end - start) / self.entry.pages + BORDERS <= self.entries_max {
            return Ok(());
        }
        self.count(table, rows, start, end)
    }

    /// Near the limit: counts the entries that the row adds.
    #[cold]
    fn count(&self, table: &impl Entries, rows: &Rows<'_>, start: u64, end: u64) -> Result<()> {
        self.admit_entries(table.held() + table.missing(rows.process, start, end), rows, start, end)
    }

    /// Asks for this number of entries in all, together with the entries that the pages `start..end` of one of `rows` add.
    ///
    /// # Errors
    /// The entries are too many.
    #[inline]
    pub(crate) fn admit_entries(&self, entries: u64, rows: &Rows<'_>, start: u64, end: u64) -> Result<()> {
        if entries <= self.entries_max { Ok(()) } else { self.admit_for_rows(entries, rows, start, end) }
    }

    /// Beyond the limit for any rows: the number of rows may still allow it.
    #[cold]
    fn admit_for_rows(&self, entries: u64, rows: &Rows<'_>, start: u64, end: u64) -> Result<()> {
        let Entry { pages, per_row, numbers, .. } = self.entry;
        let entries_max = self.entries_max.max(rows.read_so_far().saturating_mul(per_row)).min(numbers);
        if entries <= entries_max {
            return Ok(());
        }
        Err(TraceError::TooManyPages {
            path: self.path.clone(),
            row: rows.row_of(start, end),
            row_pages: end - start,
            pages: entries.saturating_mul(pages),
            pages_max: entries_max.saturating_mul(pages),
        })
    }
}

/// Splits pages where the pages shared by all processes begin and end: up to three ranges, of which some may be empty.
pub(crate) fn split_at_shared(shared: Option<PageCacheRange>, start: u64, end: u64) -> [(u64, u64); 3] {
    let border = |page: u64| page.clamp(start, end);
    let (first, second) = shared.map_or((end, end), |shared| (border(shared.start), border(shared.end)));
    [(start, first), (first, second.max(first)), (second.max(first), end)]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::analysis::{TraceStep, walk};
    use crate::{RowBatch, TraceMeta, TraceRow};

    /// A trace in memory, of a file of this length.
    struct Given {
        meta: TraceMeta,
        batch: RowBatch,
        file_bytes: u64,
    }

    impl TraceRows for Given {
        fn meta(&self) -> &TraceMeta {
            &self.meta
        }
        fn path(&self) -> &Path {
            Path::new("given")
        }
        fn file_bytes(&self) -> u64 {
            self.file_bytes
        }
        fn file_accesses(&self) -> Option<u64> {
            None
        }
        fn for_each_batch(&mut self, each: &mut dyn FnMut(&RowBatch) -> Result<()>) -> Result<()> {
            each(&self.batch)
        }
    }

    /// One row of 1000 pages, the last of `rows` rows.
    fn given(file_bytes: u64, rows: u64) -> Given {
        let mut batch = RowBatch { first_row: rows - 1, ..RowBatch::new() };
        batch.push(TraceRow { time_ns: 0, thread: 0, page: 7, pages: 1000, write: false, kernel: false });
        Given { meta: TraceMeta::single("t"), batch, file_bytes }
    }

    /// A table with these numbers.
    #[derive(Clone, Copy)]
    struct Table {
        held: u64,
        missing: u64,
    }

    impl Entries for Table {
        fn held(&self) -> u64 {
            self.held
        }
        fn missing(&self, _: usize, start: u64, end: u64) -> u64 {
            assert_eq!((start, end), (7, 1007));
            self.missing
        }
    }

    fn admitted(mut given: Given, entry: Entry, table: Table) -> Result<()> {
        let limit = Limit::new(&given, entry);
        walk(&mut given, |step| match step {
            TraceStep::Rows(rows) => rows.ranges().try_for_each(|(start, end)| limit.admit(&table, &rows, start, end)),
            _ => Ok(()),
        })
        .map(|_| ())
    }

    #[test]
    fn the_limit_is_a_constant_or_in_proportion_to_the_file_or_to_its_rows() {
        // (bytes of the file, rows, most pages): 640 MiB / 20; 2^24 bytes * 256 / 20; a page for each row.
        let table = [
            (0, 1, 1 << 25),
            (1 << 20, 1, 1 << 25),
            (1 << 24, 1, (1 << 32) / 20),
            (0, (1 << 25) + 5, (1 << 25) + 5),
            (u64::MAX, u64::MAX, (1 << 32) - 64),
        ];
        for (file_bytes, rows, most) in table {
            for (held, missing, fits) in
                [(most - 1000, 1000, true), (most - 1000, 1001, false), (most, 0, true), (most, 1, false)]
            {
                let found = admitted(given(file_bytes, rows), Entry::PAGE, Table { held, missing });
                assert_eq!(found.is_ok(), fits, "{file_bytes} bytes, {rows} rows: {held} and {missing}");
            }
        }
        let table = Table { held: (1 << 24) - 15, missing: 16 };
        let error = admitted(given(0, 6), Entry::GROUP, table).unwrap_err().to_string();
        let (pages, most) = (((1u64 << 24) + 1) * 64, 1u64 << 30);
        for words in ["given, row 5: ", " 1000 pages", &format!(" {pages} pages"), &format!(" {most} "), "--from"] {
            assert!(error.contains(words), "{error}: {words}");
        }
    }

    #[test]
    fn far_from_the_limit_nothing_is_counted() {
        struct Far;
        impl Entries for Far {
            fn held(&self) -> u64 {
                (1 << 25) - 1004
            }
            fn missing(&self, _: usize, _: u64, _: u64) -> u64 {
                panic!("counting costs time")
            }
        }
        let mut given = given(0, 1);
        let limit = Limit::new(&given, Entry::PAGE);
        walk(&mut given, |step| match step {
            TraceStep::Rows(rows) => limit.admit(&Far, &rows, 7, 1007),
            _ => Ok(()),
        })
        .unwrap();
    }

    #[test]
    fn ranges_end_at_the_borders_of_shared_pages() {
        let shared = |start, end| Some(PageCacheRange { start, end });
        assert_eq!(split_at_shared(None, 3, 9), [(3, 9), (9, 9), (9, 9)]);
        assert_eq!(split_at_shared(shared(5, 7), 3, 9), [(3, 5), (5, 7), (7, 9)]);
        assert_eq!(split_at_shared(shared(0, 3), 3, 9), [(3, 3), (3, 3), (3, 9)]);
        assert_eq!(split_at_shared(shared(0, 100), 3, 9), [(3, 3), (3, 9), (9, 9)]);
        assert_eq!(split_at_shared(shared(7, 5), 3, 9), [(3, 7), (7, 7), (7, 9)], "an empty range shares nothing");
    }
}
