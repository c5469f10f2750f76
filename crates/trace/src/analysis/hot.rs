//! The hottest memory: mappings, and ranges within mappings, with most accesses.

use serde::Serialize;

use super::layout::{Group, Layout};
use super::{Entry, Limit, PageTable, TraceStep, share_ppm, walk};
use crate::{MapKind, Result, TraceRows};

/// Distribution of accesses. Pages are in units of the trace's page size; an access is a page touched by a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hot {
    /// Number of all accesses of the trace.
    pub accesses: u64,
    /// Mappings by kind and file, most accesses first.
    pub mappings: Vec<HotMapping>,
    /// The ranges with most accesses, in descending order.
    pub ranges: Vec<HotRange>,
}

/// All mappings of one kind and file of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HotMapping {
    /// Index of the process in the trace's list.
    pub process: usize,
    /// Kind of the mapping; `None`: outside all known mappings.
    pub what: Option<MapKind>,
    /// Kind and last name of the file, for display.
    pub label: String,
    /// Number of distinct pages touched.
    pub touched_pages: u64,
    pub accesses: u64,
    /// Share of all accesses, parts a million.
    pub share_ppm: u64,
}

/// Adjacent pages of similar heat: their accesses per touched page are within the same power of two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HotRange {
    /// Index of the process in the trace's list.
    pub process: usize,
    /// Label of the mapping that it belongs to.
    pub label: String,
    /// Number of the first virtual page.
    pub start: u64,
    /// Number of the page after the last; not part of the range.
    pub end: u64,
    /// Number of distinct pages touched.
    pub touched_pages: u64,
    pub accesses: u64,
    /// Accesses per touched page, in thousandths.
    pub milli_accesses_per_page: u64,
    /// Share of all accesses, parts a million.
    pub share_ppm: u64,
}

/// Most blocks into which a trace's touched pages are divided, before adjacent ones of similar heat are joined.
const BLOCKS_MAX: usize = 4096;

/// One pass over the trace; memory grows with the footprint (some 20 bytes a page). `nr_ranges`: number of ranges to
/// return. A page that changed mappings counts for the first one.
///
/// # Errors
/// When the trace is damaged or touches too many pages.
pub fn hot(reader: &mut dyn TraceRows, nr_ranges: usize) -> Result<Hot> {
    let meta = reader.meta().clone();
    let mut layout = Layout::default();
    let limit = Limit::new(reader, Entry::PAGE);
    let mut pages = PageTable::default();
    // Group and accesses of each page.
    let mut heat: Vec<(u32, u64)> = Vec::new();
    let mut accesses = 0u64;
    walk(reader, |step| {
        match step {
            TraceStep::Event { event, process } => layout.see(&meta, event, process),
            TraceStep::Exit { .. } => {}
            TraceStep::Rows(rows) => {
                accesses += rows.accesses();
                let process = rows.process;
                for (start, end) in rows.ranges() {
                    limit.admit(&pages, &rows, start, end)?;
                    layout.split(process, start, end, |group, start, end| {
                        for page in start..end {
                            let number = pages.insert(process, page) as usize;
                            if number == heat.len() {
                                heat.push((group, 0));
                            }
                            heat[number].1 += 1;
                        }
                    });
                }
            }
        }
        Ok(())
    })?;
    let page = |(process, page, number): (usize, u64, u32)| {
        let (group, accesses) = heat[number as usize];
        Part { process, group, start: page, end: page + 1, touched_pages: 1, accesses }
    };
    let mappings = by_mapping(pages.sorted().map(page), layout.groups(), accesses);
    let mut ranges = join_alike(divide(pages.sorted().map(page)));
    ranges.sort_by_key(|part| (std::cmp::Reverse(part.accesses), part.process, part.start));
    ranges.truncate(nr_ranges);
    let range = |part: Part| HotRange {
        process: part.process,
        label: layout.groups()[part.group as usize].label(),
        start: part.start,
        end: part.end,
        touched_pages: part.touched_pages,
        accesses: part.accesses,
        milli_accesses_per_page: part.accesses.saturating_mul(1000) / part.touched_pages,
        share_ppm: share_ppm(part.accesses, accesses),
    };
    Ok(Hot { accesses, mappings, ranges: ranges.into_iter().map(range).collect() })
}

/// Pages of one mapping with their accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    process: usize,
    group: u32,
    start: u64,
    end: u64,
    touched_pages: u64,
    accesses: u64,
}

impl Part {
    fn and(self, next: Self) -> Self {
        Self {
            end: next.end,
            touched_pages: self.touched_pages + next.touched_pages,
            accesses: self.accesses + next.accesses,
            ..self
        }
    }
    /// The power of two of its accesses per page.
    fn class(&self) -> u32 {
        (self.accesses / self.touched_pages).max(1).ilog2()
    }
}

fn by_mapping(parts: impl Iterator<Item = Part>, groups: &[Group], accesses: u64) -> Vec<HotMapping> {
    let mut table: Vec<HotMapping> = groups
        .iter()
        .map(|group| HotMapping {
            process: group.process,
            what: group.what,
            label: group.label(),
            touched_pages: 0,
            accesses: 0,
            share_ppm: 0,
        })
        .collect();
    for part in parts {
        let entry = &mut table[part.group as usize];
        entry.touched_pages += part.touched_pages;
        entry.accesses += part.accesses;
    }
    table.retain(|entry| entry.accesses > 0);
    table.iter_mut().for_each(|entry| entry.share_ppm = share_ppm(entry.accesses, accesses));
    table.sort_by(|a, b| b.accesses.cmp(&a.accesses).then_with(|| (a.process, &a.label).cmp(&(b.process, &b.label))));
    table
}

/// Joins pages into aligned blocks of a power of two, the smallest that gives at most [`BLOCKS_MAX`] blocks. Blocks that are too small for
/// the pages so far are too small for all of them, so there is no need to hold all pages.
fn divide(pages: impl Iterator<Item = Part>) -> Vec<Part> {
    let mut shift = 0;
    let mut parts: Vec<Part> = Vec::new();
    for page in pages {
        match parts.last_mut().filter(|last| is_one_block(last, &page, shift)) {
            Some(last) => *last = last.and(page),
            None => parts.push(page),
        }
        while parts.len() > BLOCKS_MAX && shift < 52 {
            shift += 1;
            parts = parts.chunk_by(|a, b| is_one_block(a, b, shift)).map(sum).collect();
        }
    }
    parts
}

/// Whether two parts lie in the same block of 2^`shift` pages.
fn is_one_block(a: &Part, b: &Part, shift: u32) -> bool {
    a.process == b.process && a.group == b.group && a.start >> shift == b.start >> shift
}

fn join_alike(parts: Vec<Part>) -> Vec<Part> {
    // Gaps up to the length of the part before them are bridged: a few untouched pages do not end a range.
    let joins = |a: &Part, b: &Part| {
        let gap = b.start.saturating_sub(a.end);
        a.process == b.process
            && a.group == b.group
            && a.class() == b.class()
            && gap <= (a.end - a.start).max(b.end - b.start)
    };
    parts.chunk_by(joins).map(sum).collect()
}

fn sum(parts: &[Part]) -> Part {
    parts[1..].iter().fold(parts[0], |sum, &part| sum.and(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(start: u64, end: u64, accesses: u64) -> Part {
        Part { process: 0, group: 0, start, end, touched_pages: end - start, accesses }
    }

    #[test]
    fn neighbours_of_equal_heat_join() {
        // Heat 8, 15 (the same power of two), 16, then a gap of 5 pages, 16 again.
        let parts = vec![part(0, 1, 8), part(1, 2, 15), part(2, 3, 16), part(8, 9, 16)];
        assert_eq!(join_alike(parts), [part(0, 2, 23), part(2, 3, 16), part(8, 9, 16)]);
    }

    #[test]
    fn many_pages_become_blocks() {
        let blocks = divide((0..10_000).map(|page| part(page, page + 1, 1)));
        assert_eq!(blocks.len(), 2500);
        assert_eq!(blocks[1], part(4, 8, 4));
    }

    proptest! {
        /// Against trying each size with all pages.
        #[test]
        fn blocks_are_the_smallest_that_suffice(
            pages in proptest::collection::btree_map((0usize..2, 0u64..40_000), (0u32..2, 1u64..9), 4000..6000),
        ) {
            let page = |(&(process, page), &(group, accesses)): (&(usize, u64), &(u32, u64))| {
                Part { process, group, ..part(page, page + 1, accesses) }
            };
            let pages: Vec<Part> = pages.iter().map(page).collect();
            let blocks = |shift| pages.chunk_by(|a, b| is_one_block(a, b, shift)).map(sum).collect::<Vec<_>>();
            let expected = (0..).map(blocks).find(|blocks| blocks.len() <= BLOCKS_MAX).unwrap();
            prop_assert_eq!(divide(pages.iter().copied()), expected);
        }
    }
}
