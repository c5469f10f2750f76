//! Selects the parts of a monitored address space to draw, and spreads heat over equal bins of a range.

use std::collections::BTreeMap;

use isotherm_trace::TraceError;
use isotherm_trace::region::{RegionStore, Snapshot};
use serde::Serialize;

use super::{Survey, rate_ppm, target_name, unit_bytes};

/// One range of addresses that is drawn without gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownBand {
    /// Number of the target.
    pub target: u32,
    /// Name for people.
    pub label: String,
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Equal address bins in it.
    pub rows: u32,
}

/// Most ranges that are kept apart for a target; with more, the smallest gaps are closed.
const RANGES_MAX: usize = 1 << 14;
/// Blocks in which heat is added up to find the busy ones, at most.
const BLOCKS_MAX: u64 = 1 << 18;
const PAGE_BYTES: u64 = isotherm_units::PAGE_BYTES;
/// Share of all accesses found that the busy blocks hold at least, in parts per million.
const KEPT_PPM: u128 = 990_000;
/// Blocks this many times colder than the hottest are busy, too, however little they hold.
const COLDER: i64 = 20;
/// Parts of a bin that a border can fall on.
const FRACTION_BITS: u32 = 20;

/// Adds the beginning (`weight` > 0) or the end (`weight` < 0) of a range at `at` in a range of `length` bytes cut into `rows` bins.
/// `diffs` holds `rows + 1` differences between neighbouring bins: [`sums`] makes bins of them.
pub(crate) fn add_border(diffs: &mut [i64], at: u64, length: u64, weight: i64) {
    let rows = diffs.len() as u128 - 1;
    let position = ((u128::from(at.min(length)) * rows) << FRACTION_BITS) / u128::from(length.max(1));
    let row = usize::try_from(position >> FRACTION_BITS).unwrap_or(usize::MAX);
    if row >= diffs.len() - 1 {
        return;
    }
    let inside = (1i128 << FRACTION_BITS) - i128::try_from(position % (1 << FRACTION_BITS)).expect("a fraction");
    // Division truncates both signs towards zero, so an end subtracts exactly the amount that a beginning at its place would add.
    let here = i64::try_from(i128::from(weight) * inside / (1 << FRACTION_BITS)).expect("no more than the weight");
    diffs[row] += here;
    diffs[row + 1] += weight - here;
}

/// The bins of these differences.
pub(crate) fn sums(diffs: &[i64]) -> impl Iterator<Item = i64> + '_ {
    diffs[..diffs.len() - 1].iter().scan(0i64, |sum, diff| {
        *sum += diff;
        Some((*sum).max(0))
    })
}

/// How long a snapshot lasted, for weights: microseconds, at least 1.
pub(crate) fn lasted_us(snapshot: &Snapshot) -> u64 {
    (snapshot.duration_ns.or(snapshot.intervals.aggregation_ns).unwrap_or(0) / 1000).max(1)
}

/// All monitored ranges. One pass.
pub(crate) fn all(
    store: &mut RegionStore,
    survey: &Survey,
    rows: u32,
    fold_bytes: u64,
) -> Result<Vec<ShownBand>, TraceError> {
    let ranges = monitored(store, survey)?;
    Ok(finish(store, &ranges, rows, fold_bytes))
}

/// The busy parts of the monitored ranges. Two passes: the ranges, then their heat. Memory: some MiB.
pub(crate) fn busy(
    store: &mut RegionStore,
    survey: &Survey,
    rows: u32,
    fold_bytes: u64,
) -> Result<Vec<ShownBand>, TraceError> {
    let mut blocks = Blocks::over(monitored(store, survey)?);
    let units: Vec<u64> = survey.targets.iter().map(|&target| unit_bytes(store, target)).collect();
    survey.for_each(store, |snapshot| {
        let unit = units[survey.targets.binary_search(&snapshot.target).unwrap_or(0)];
        let lasted = lasted_us(snapshot);
        for region in snapshot.regions.iter().filter(|region| region.nr_accesses > 0) {
            let rate = rate_ppm(snapshot, region.nr_accesses).unwrap_or(0);
            let weight = i64::try_from(rate.saturating_mul(lasted)).unwrap_or(i64::MAX);
            blocks.add(snapshot.target, region.start.saturating_mul(unit), region.end.saturating_mul(unit), weight);
        }
        Ok(())
    })?;
    Ok(finish(store, &blocks.busy(), rows, fold_bytes))
}

/// Joins ranges to bands, at most as many as fit, names them and distributes rows.
fn finish(store: &RegionStore, ranges: &[(u32, u64, u64)], rows: u32, fold_bytes: u64) -> Vec<ShownBand> {
    let mut bands = joined(ranges, rows, fold_bytes);
    let several = bands.iter().any(|band| band.target != bands[0].target);
    for band in &mut bands {
        let end = band.end;
        band.label =
            if several { format!("{} to {end:#x}", target_name(store, band.target)) } else { format!("to {end:#x}") };
    }
    bands
}

/// Bands of disjoint ranges in order, without names, at most as many as fit, with their rows.
pub(super) fn joined(ranges: &[(u32, u64, u64)], rows: u32, fold_bytes: u64) -> Vec<ShownBand> {
    let mut bands = join(ranges, fold_bytes);
    let mut fold_bytes = fold_bytes.max(1);
    while bands.len() * 3 > rows as usize && fold_bytes < 1 << 46 {
        fold_bytes *= 4;
        bands = join(ranges, fold_bytes);
    }
    bands.truncate((rows as usize).max(1));
    give_rows(&mut bands, rows);
    bands
}

/// The ranges that regions of each target ever covered.
fn monitored(store: &mut RegionStore, survey: &Survey) -> Result<Vec<(u32, u64, u64)>, TraceError> {
    let units: Vec<u64> = survey.targets.iter().map(|&target| unit_bytes(store, target)).collect();
    let mut ranges: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new(); survey.targets.len()];
    survey.for_each(store, |snapshot| {
        let index = survey.targets.binary_search(&snapshot.target).unwrap_or(0);
        for run in snapshot.regions.chunk_by(|a, b| a.end == b.start) {
            let (start, end) = (run[0].start, run[run.len() - 1].end);
            insert(&mut ranges[index], start.saturating_mul(units[index]), end.saturating_mul(units[index]));
        }
        if ranges[index].len() > RANGES_MAX {
            thin_out(&mut ranges[index]);
        }
        Ok(())
    })?;
    let flat = survey.targets.iter().zip(ranges);
    Ok(flat.flat_map(|(&target, ranges)| ranges.into_iter().map(move |(start, end)| (target, start, end))).collect())
}

/// Adds `start..end` to disjoint ranges; touching ranges become one.
fn insert(ranges: &mut BTreeMap<u64, u64>, start: u64, end: u64) {
    let (mut start, mut end) = (start, end);
    if let Some((&before, &until)) = ranges.range(..=start).next_back()
        && until >= start
    {
        if until >= end {
            return;
        }
        start = before;
    }
    while let Some((&next, &until)) = ranges.range(start..=end).next() {
        ranges.remove(&next);
        end = end.max(until);
    }
    ranges.insert(start, end);
}

/// Closes the smaller half of the gaps.
fn thin_out(ranges: &mut BTreeMap<u64, u64>) {
    let all: Vec<(u64, u64)> = std::mem::take(ranges).into_iter().collect();
    let mut gaps: Vec<u64> = all.windows(2).map(|pair| pair[1].0 - pair[0].1).collect();
    gaps.sort_unstable();
    let closed = gaps[gaps.len() / 2];
    for run in all.chunk_by(|a, b| b.0 - a.1 <= closed) {
        ranges.insert(run[0].0, run[run.len() - 1].1);
    }
}

/// Equal blocks over all that was monitored, with the heat in each.
struct Blocks {
    block_bytes: u64,
    /// Ranges by target and address, whole blocks each.
    ranges: Vec<(u32, u64, u64)>,
    heat: Vec<Vec<i64>>,
}

impl Blocks {
    fn over(mut ranges: Vec<(u32, u64, u64)>) -> Self {
        let total: u128 = ranges.iter().map(|(_, start, end)| u128::from(end - start)).sum();
        let mut block_bytes = PAGE_BYTES;
        while total / u128::from(block_bytes) > u128::from(BLOCKS_MAX) {
            block_bytes *= 2;
        }
        for (_, start, end) in &mut ranges {
            *start = *start / block_bytes * block_bytes;
            *end = end.checked_next_multiple_of(block_bytes).unwrap_or(*end / block_bytes * block_bytes);
        }
        let nr = |start: u64, end: u64| usize::try_from((end - start) / block_bytes).unwrap_or(usize::MAX);
        let heat = ranges.iter().map(|&(_, start, end)| vec![0; nr(start, end) + 1]).collect();
        Self { block_bytes, ranges, heat }
    }

    fn add(&mut self, target: u32, start: u64, end: u64, weight: i64) {
        let first = self.ranges.partition_point(|&(of, _, until)| (of, until) <= (target, start));
        for (range, diffs) in self.ranges[first..].iter().zip(&mut self.heat[first..]) {
            let &(of, low, high) = range;
            if of != target || low >= end {
                break;
            }
            add_border(diffs, start.saturating_sub(low), high - low, weight);
            add_border(diffs, end.min(high) - low, high - low, -weight);
        }
    }

    /// The hottest blocks that together hold nearly all of the heat, in order.
    fn busy(&self) -> Vec<(u32, u64, u64)> {
        let mut blocks: Vec<(u32, u64, u64, i64)> = Vec::new();
        for (&(target, low, _), diffs) in self.ranges.iter().zip(&self.heat) {
            let starts = (0u64..).map(|index| low + index * self.block_bytes);
            let hot = starts.zip(sums(diffs)).filter(|(_, heat)| *heat > 0);
            blocks.extend(hot.map(|(start, heat)| (target, start, start.saturating_add(self.block_bytes), heat)));
        }
        let total: u128 = blocks.iter().map(|block| u128::from(block.3.unsigned_abs())).sum();
        let mut heats: Vec<i64> = blocks.iter().map(|block| block.3).collect();
        heats.sort_unstable_by(|a, b| b.cmp(a));
        let mut held = 0;
        let mut threshold = heats.first().map_or(0, |hottest| hottest / COLDER);
        for heat in heats {
            if held * 1_000_000 >= total * KEPT_PPM {
                break;
            }
            held += u128::from(heat.unsigned_abs());
            threshold = threshold.min(heat);
        }
        blocks.retain(|block| block.3 >= threshold);
        blocks.into_iter().map(|(target, start, end, _)| (target, start, end)).collect()
    }
}

/// Bands of blocks that lie no further than `fold_bytes` from each other.
fn join(blocks: &[(u32, u64, u64)], fold_bytes: u64) -> Vec<ShownBand> {
    let near = |a: &(u32, u64, u64), b: &(u32, u64, u64)| a.0 == b.0 && b.1.saturating_sub(a.2) <= fold_bytes;
    let band = |run: &[(u32, u64, u64)]| ShownBand {
        target: run[0].0,
        label: String::new(),
        start: run[0].1,
        end: run[run.len() - 1].2,
        rows: 0,
    };
    blocks.chunk_by(near).map(band).collect()
}

/// Distributes rows: one to each band, the rest by length, none more than a band has pages.
fn give_rows(bands: &mut [ShownBand], rows: u32) {
    let pages = |band: &ShownBand| (band.end.saturating_sub(band.start) / PAGE_BYTES).max(1);
    let total: u128 = bands.iter().map(|band| u128::from(pages(band))).sum();
    let spare = u128::from(rows).saturating_sub(bands.len() as u128);
    for band in bands {
        let share = 1 + spare * u128::from(pages(band)) / total.max(1);
        band.rows = u32::try_from(share.min(u128::from(pages(band)))).unwrap_or(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn borders_are_spread_by_hand() {
        // Four bins of 10 bytes; 8 from 5 to 30: half of the first bin, the second and third whole.
        let mut diffs = vec![0; 5];
        add_border(&mut diffs, 5, 40, 8);
        add_border(&mut diffs, 30, 40, -8);
        assert_eq!(sums(&diffs).collect::<Vec<_>>(), [4, 8, 8, 0]);
        // A quarter inside one bin.
        let mut diffs = vec![0; 3];
        add_border(&mut diffs, 5, 40, 8);
        add_border(&mut diffs, 10, 40, -8);
        assert_eq!(sums(&diffs).collect::<Vec<_>>(), [2, 0]);
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let mut ranges = BTreeMap::new();
        for (start, end) in [(10, 20), (40, 50), (20, 30), (45, 47), (25, 41), (60, 61)] {
            insert(&mut ranges, start, end);
        }
        assert_eq!(ranges.into_iter().collect::<Vec<_>>(), [(10, 50), (60, 61)]);
    }

    #[test]
    fn blocks_far_apart_make_bands() {
        let blocks = [(0, 0, 1), (0, 1, 2), (0, 6, 7), (0, 20, 21), (1, 21, 22)];
        let found: Vec<_> = join(&blocks, 4).iter().map(|band| (band.target, band.start, band.end)).collect();
        assert_eq!(found, [(0, 0, 7), (0, 20, 21), (1, 21, 22)]);
    }

    proptest! {
        #[test]
        fn what_is_left_of_no_region_is_nothing(
            parts in prop::collection::vec((0u64..1000, 0u64..1000, 1i64..1_000_000_000_000), 0..20),
            rows in 1usize..40,
        ) {
            let mut diffs = vec![0; rows + 1];
            for (a, b, weight) in parts {
                add_border(&mut diffs, a.min(b), 1000, weight);
                add_border(&mut diffs, a.max(b), 1000, -weight);
            }
            let untouched: i64 = diffs.iter().take(rows).sum::<i64>();
            prop_assert!(untouched >= 0);
            let mut sum = 0i64;
            for diff in &diffs[..rows] {
                sum += diff;
                prop_assert!(sum >= 0, "no bin is colder than nothing");
            }
        }
    }
}
