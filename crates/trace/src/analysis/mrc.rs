//! The miss-ratio curve of exact LRU: how many accesses miss at every memory size, in one pass.

use serde::Serialize;

use super::stack::LruStack;
use super::{PageTable, TraceStep, walk};
use crate::{EventKind, Result, TraceError, TraceRows};

/// Misses of an LRU memory of every size. Sizes are in pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissRatioCurve {
    /// Pages touched by all rows: what misses are a share of.
    pub accesses: u64,
    /// Misses that no size avoids: first touches, and first touches after an unmapping.
    pub cold_misses: u64,
    /// Sizes at which the number of misses falls, ascending, and the number from there on. Below the first, every access
    /// misses.
    pub points: Vec<MrcPoint>,
}

/// From this size on, this many misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MrcPoint {
    /// Memory size in pages.
    pub pages: u64,
    /// Number of misses at this size, up to the next point.
    pub misses: u64,
}

impl MissRatioCurve {
    /// Misses of a memory of `pages` pages.
    pub fn misses_at(&self, pages: u64) -> u64 {
        let after = self.points.partition_point(|point| point.pages <= pages);
        self.points[..after].last().map_or(self.accesses, |point| point.misses)
    }

    /// Misses at `count` sizes, evenly spaced from 0 to the size from which nothing improves: for drawing.
    pub fn sampled(&self, count: u64) -> Vec<MrcPoint> {
        let largest = self.points.last().map_or(0, |point| point.pages);
        let steps = count.saturating_sub(1).clamp(1, largest.max(1));
        let size = |step: u64| u128::from(largest) * u128::from(step) / u128::from(steps);
        let point = |pages: u64| MrcPoint { pages, misses: self.misses_at(pages) };
        (0..=steps).map(|step| point(u64::try_from(size(step)).unwrap_or(u64::MAX))).collect()
    }
}

/// One pass over the trace in file order; every page of a run is an access. Memory grows with the footprint (some 30
/// bytes a page), time by O(log footprint) an access.
///
/// A page that is unmapped, mapped over, or whose process ends is forgotten: its place is free, its next touch is cold.
///
/// # Errors
/// When the trace is damaged.
pub fn mrc(reader: &mut impl TraceRows) -> Result<MissRatioCurve> {
    let mut pages = PageTable::of(reader.meta());
    let mut stack = LruStack::default();
    // hits[d - 1]: accesses at stack distance d.
    let mut hits: Vec<u64> = Vec::new();
    let (mut accesses, mut cold_misses) = (0u64, 0u64);
    walk(reader, |step| {
        match step {
            TraceStep::Rows(rows) => {
                accesses += rows.accesses();
                for page in rows.ranges().flat_map(|(start, end)| start..end) {
                    match stack.access(pages.insert(rows.process, page)) {
                        None => cold_misses += 1,
                        Some(distance) => {
                            let index = usize::try_from(distance - 1).expect("no further than there are pages");
                            if index >= hits.len() {
                                hits.resize(index + 1, 0);
                            }
                            hits[index] += 1;
                        }
                    }
                }
            }
            TraceStep::Event { event, process } => {
                let range = match &event.kind {
                    EventKind::Map(map) => Some((map.start, map.end)),
                    EventKind::Unmap { start, end } => Some((*start, *end)),
                    _ => None,
                };
                if let Some((start, end)) = range {
                    forget(&pages, &mut stack, process, start, end);
                }
            }
            TraceStep::Exit { process } => forget(&pages, &mut stack, process, 0, crate::PAGE_LIMIT),
        }
        Ok::<(), TraceError>(())
    })?;
    let mut points = Vec::new();
    let mut misses = accesses;
    for (index, &count) in hits.iter().enumerate().filter(|(_, count)| **count > 0) {
        misses -= count;
        points.push(MrcPoint { pages: index as u64 + 1, misses });
    }
    Ok(MissRatioCurve { accesses, cold_misses, points })
}

fn forget(pages: &PageTable, stack: &mut LruStack, process: usize, start: u64, end: u64) {
    pages.for_each_in(process, start, end, |number| stack.forget(number));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_is_read_between_its_points() {
        let points = vec![MrcPoint { pages: 2, misses: 7 }, MrcPoint { pages: 5, misses: 3 }];
        let curve = MissRatioCurve { accesses: 10, cold_misses: 3, points };
        let sizes = [0, 1, 2, 4, 5, 99].map(|pages| curve.misses_at(pages));
        assert_eq!(sizes, [10, 10, 7, 7, 3, 3]);
        let drawn: Vec<_> = curve.sampled(6).iter().map(|point| (point.pages, point.misses)).collect();
        assert_eq!(drawn, [(0, 10), (1, 10), (2, 7), (3, 7), (4, 7), (5, 3)]);
    }
}
