//! libCacheSim's oracleGeneral: 24 bytes an access, `next_access_vtime` = the 0-based index of the next access to the same
//! page, -1 when there is none.
//!
//! The next access of each record is known only from the end, so the records first go to a temporary file next to the
//! output, which is then read backwards block by block. Temporarily costs 24 bytes of disk for each access, and some 20
//! bytes of memory a page of the footprint, never the whole trace.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{ExportOptions, Exporter, Output, check_processes, object_id, write_error};
use crate::analysis::{Entry, Limit, PageTable, TraceStep, walk};
use crate::file::temporary::Temporary;
use crate::{Result, TraceError, TraceReader};

pub(super) const EXPORTER: Exporter = Exporter {
    name: "oracle-general",
    about: "libCacheSim oracleGeneral, one record an access (.zst: compressed)",
    endings: &[".oraclegeneral", ".oraclegeneral.bin", ".bin"],
    convert,
};

const RECORD_BYTES: usize = 24;
/// Accesses in a block of the backward pass.
const BLOCK_RECORDS: u64 = 1 << 16;

fn convert(reader: &mut TraceReader, output: &Path, _: &ExportOptions) -> Result<()> {
    check_processes(reader)?;
    let temporary = Temporary::beside(output, "records");
    let file = temporary.create().map_err(|error| TraceError::io("create", temporary.path(), error))?;
    let (records, pages) = write_forward(reader, &file, output)?;
    let failed = |error| write_error(output, error);
    let mut later = Next { pages, index: Vec::new() };
    let mut block = Vec::new();
    for number in (0..records.div_ceil(BLOCK_RECORDS)).rev() {
        let first = number * BLOCK_RECORDS;
        let len = usize::try_from((records - first).min(BLOCK_RECORDS)).expect("a block is small");
        block.resize(len * RECORD_BYTES, 0);
        file.read_exact_at(&mut block, first * RECORD_BYTES as u64).map_err(failed)?;
        for (index, record) in block.chunks_exact_mut(RECORD_BYTES).enumerate().rev() {
            let id = u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"));
            let next = later.replace(id, first + index as u64);
            record[16..24].copy_from_slice(&next.to_le_bytes());
        }
        file.write_all_at(&block, first * RECORD_BYTES as u64).map_err(failed)?;
    }
    let mut out = Output::create(output)?;
    for number in 0..records.div_ceil(BLOCK_RECORDS) {
        let first = number * BLOCK_RECORDS;
        let len = usize::try_from((records - first).min(BLOCK_RECORDS)).expect("a block is small");
        block.resize(len * RECORD_BYTES, 0);
        file.read_exact_at(&mut block, first * RECORD_BYTES as u64).map_err(failed)?;
        out.write(&block)?;
    }
    out.finish()
}

/// Writes all records except their next accesses. Returns the number of records, and the table of their pages: a trace with too many is
/// refused here, before its records fill the disk.
fn write_forward(reader: &mut TraceReader, file: &File, output: &Path) -> Result<(u64, PageTable)> {
    let limit = Limit::new(reader, Entry::PAGE);
    let mut pages = PageTable::default();
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let size = u32::try_from(reader.meta().page_bytes).unwrap_or(u32::MAX);
    let mut records = 0u64;
    let failed = |error| write_error(output, error);
    walk(reader, |step| {
        let TraceStep::Rows(rows) = step else { return Ok(()) };
        let mut record = [0u8; RECORD_BYTES];
        let seconds = u32::try_from(rows.time_ns / 1_000_000_000).unwrap_or(u32::MAX);
        record[0..4].copy_from_slice(&seconds.to_le_bytes());
        record[12..16].copy_from_slice(&size.to_le_bytes());
        for (start, end) in rows.ranges() {
            limit.admit(&pages, &rows, start, end)?;
            for page in start..end {
                pages.insert(rows.process, page);
                record[4..12].copy_from_slice(&object_id(rows.process, page).to_le_bytes());
                out.write_all(&record).map_err(failed)?;
            }
            records += end - start;
        }
        Ok(())
    })?;
    out.flush().map_err(failed)?;
    Ok((records, pages))
}

/// For each object, the index of the access seen last in the backward pass.
struct Next {
    pages: PageTable,
    index: Vec<i64>,
}

impl Next {
    /// Records access `now`. Returns the one recorded before, or -1.
    fn replace(&mut self, id: u64, now: u64) -> i64 {
        let dense = self.pages.insert((id >> 52) as usize, id & (crate::PAGE_LIMIT - 1)) as usize;
        if dense >= self.index.len() {
            self.index.resize(dense + 1, -1);
        }
        std::mem::replace(&mut self.index[dense], now.cast_signed())
    }
}
