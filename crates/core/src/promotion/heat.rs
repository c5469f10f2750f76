//! Regions of a space and their heat, for the rotating cursor (docs/spec/promotion.md#s3-2).

use crate::host::AddressRange;
use isotherm_units::{Instant, PAGE_BYTES};

const REGION_MIN: u64 = 2 << 20;
const REGION_MAX: u64 = 1 << 30;
/// Approximate number of regions that a space is cut into.
const REGIONS: u64 = 4096;
/// The heat of a region all of whose pages were touched.
const HEAT_MAX: u32 = 65_535;
/// The heat that a probe gives: the heat of one scan that found all pages touched.
const HEAT_OF_A_HIT: u32 = 16_384;

/// Aligned addresses of a space that are scanned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Aligned to the size of regions.
    pub(super) start: u64,
    /// Bytes of eligible areas in it; at least one page.
    pub(super) bytes: u64,
    /// Moving mean of the share of slow pages that were touched, 65,535 for all.
    pub(super) heat: u32,
    /// Pages that its last scan met; 0 before the first.
    pub(super) pages: u64,
    /// Time of the last scan or probe; `None` before the first.
    pub(super) scanned_at: Option<Instant>,
    /// At its last turn the table entry above it was clear: after the next use it is probed at once.
    pub(super) is_quiet: bool,
    /// Pages whose bits were cleared, so that a set one means an access since then.
    pub(super) sample: Option<Sample>,
}

/// Pages drawn at random: the seed of the draw, and how many. The next probe reads the same pages and then draws others: a page that no
/// probe has read may have a bit from long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) seed: u64,
    pub(super) draws: u32,
}

impl Region {
    const fn new(start: u64) -> Self {
        Self { start, bytes: 0, heat: 0, pages: 0, scanned_at: None, is_quiet: false, sample: None }
    }

    /// Priority of the region for a scan: heat times milliseconds since the last scan, times the bytes that a scan would pass. Heat is a
    /// share, and a region of a few pages is as hot as a full one if all of them were touched.
    pub(super) fn urgency(&self, now: Instant) -> u128 {
        let waited_ms = self.scanned_at.map_or(0, |last| now.since(last).ns() / 1_000_000);
        u128::from(self.heat) * u128::from(waited_ms) * u128::from(self.cost())
    }

    /// Bytes that a scan of the region will pass: the bytes of its known pages, because empty tables cost nothing.
    pub(super) fn cost(&self) -> u64 {
        if self.pages > 0 { self.bytes.min(self.pages.saturating_mul(PAGE_BYTES)) } else { self.bytes }
    }

    /// After a scan of `present` pages, `touched` of them touched on slow nodes. Heat that is too small to fall by a quarter
    /// becomes 0: it would stay for ever, and cause scans of the region.
    pub(super) fn scanned(&mut self, touched: u64, present: u64, now: Instant) {
        self.heat = warmed(self.heat, share(touched, present));
        if self.heat < 4 {
            self.heat = 0;
        }
        self.scanned_at = Some(now);
    }

    /// A probe found an access, and there was no time for a scan.
    pub(super) fn hit(&mut self, now: Instant) {
        self.heat = self.heat.max(HEAT_OF_A_HIT);
        self.scanned_at = Some(self.scanned_at.unwrap_or(now));
    }

    /// Takes over the state of an older region that overlaps it.
    fn inherit(&mut self, old: &Self) {
        self.heat = self.heat.max(old.heat);
        self.pages = self.pages.max(old.pages);
        self.scanned_at = self.scanned_at.max(old.scanned_at);
        self.is_quiet |= old.is_quiet;
    }
}

/// Touched pages of all present, 65,535 for all.
fn share(touched: u64, present: u64) -> u32 {
    let share = u128::from(touched) * 65_536 / u128::from(present.max(1));
    u32::try_from(share).map_or(HEAT_MAX, |share| share.min(HEAT_MAX))
}

/// A quarter of the new and three of the old.
fn warmed(heat: u32, share: u32) -> u32 {
    heat - heat / 4 + share / 4
}

/// The size of regions of a space with this number of eligible bytes: a power of two.
pub(super) fn region_size(eligible: u64) -> u64 {
    let wished = eligible.div_ceil(REGIONS).checked_next_power_of_two().unwrap_or(REGION_MAX);
    wished.clamp(REGION_MIN, REGION_MAX)
}

/// Limits of one scan, in bytes of eligible areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// For hot regions.
    pub(super) exploit: u64,
    /// Budget of the other regions, one after the other.
    pub(super) explore: u64,
}

impl Budget {
    /// A quarter of the scan size explores, and never less than brings the cursor round once in `cover_ms`.
    pub(super) fn new(scan_size: u64, eligible: u64, period_ms: u64, cover_ms: u64) -> Self {
        let share = u128::from(eligible) * u128::from(period_ms);
        let round = share.div_ceil(u128::from(cover_ms.max(1)));
        let round = u64::try_from(round).unwrap_or(u64::MAX);
        Self { exploit: scan_size - scan_size / 4, explore: (scan_size / 4).max(round) }
    }
}

/// The regions of a space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeatMap {
    /// Bytes of each, a power of two; 0 before the first scan.
    size: u64,
    /// Ascending; only regions that hold eligible bytes.
    regions: Vec<Region>,
    /// Where exploring goes on.
    pub(super) cursor: u64,
    /// The table entry above the region at the cursor: its first byte, and whether it had been used when its bit was cleared. Kept while
    /// the cursor is below it, because the bit is only seen once.
    pub(super) entry: Option<(u64, bool)>,
}

impl HeatMap {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn regions(&self) -> &[Region] {
        &self.regions
    }

    pub(super) fn region(&mut self, index: usize) -> &mut Region {
        &mut self.regions[index]
    }

    /// Follows the areas of the space, which ascend and are eligible. Regions that still exist keep their state, even if the size of
    /// regions changes.
    pub(super) fn update(&mut self, areas: &[AddressRange]) {
        let eligible = areas.iter().fold(0u64, |sum, area| sum.saturating_add(area.len()));
        let size = region_size(eligible);
        let mut regions: Vec<Region> = Vec::with_capacity(self.regions.len());
        for area in areas.iter().filter(|area| !area.is_empty()) {
            let first = area.start & !(size - 1);
            let mut start = first;
            while start < area.end {
                let end = start.saturating_add(size);
                let bytes = area.end.min(end) - area.start.max(start);
                match regions.last_mut() {
                    Some(last) if last.start == start => last.bytes += bytes,
                    _ => regions.push(Region { bytes, ..Region::new(start) }),
                }
                if end == u64::MAX {
                    break;
                }
                start = end;
            }
        }
        let mut first_old = 0;
        for region in &mut regions {
            let end = region.start.saturating_add(size);
            while first_old < self.regions.len()
                && self.regions[first_old].start.saturating_add(self.size) <= region.start
            {
                first_old += 1;
            }
            let overlapping = self.regions[first_old..].iter().take_while(|old| old.start < end);
            overlapping.for_each(|old| region.inherit(old));
            // A draw of other bytes would not be repeated.
            let same = self.regions.get(first_old).filter(|old| (old.start, old.bytes) == (region.start, region.bytes));
            region.sample = same.filter(|_| self.size == size).and_then(|old| old.sample);
        }
        self.size = size;
        self.regions = regions;
    }

    /// The region at the cursor or the next one after it; the first region if there is none. `None` without regions.
    pub(super) fn at_cursor(&self) -> Option<usize> {
        let behind = self.regions.partition_point(|region| region.start.saturating_add(self.size) <= self.cursor);
        if behind < self.regions.len() { Some(behind) } else { (!self.regions.is_empty()).then_some(0) }
    }

    /// Hot regions, most urgent first.
    pub(super) fn by_urgency(&self, now: Instant) -> Vec<usize> {
        let mut hot: Vec<usize> = (0..self.regions.len()).filter(|&index| self.regions[index].heat > 0).collect();
        hot.sort_by_key(|&index| (std::cmp::Reverse(self.regions[index].urgency(now)), index));
        hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// docs/spec/promotion.md#s7, example 26.
    #[test]
    fn heat_moves_by_a_quarter() {
        let mut heat = 0;
        let mut step = |share| {
            heat = warmed(heat, share);
            heat
        };
        assert_eq!([65_535, 65_535, 65_535].map(&mut step), [16_383, 28_671, 37_887], "example 26");
        assert_eq!([0, 0].map(&mut step), [28_416, 21_312], "example 26");
        assert_eq!((share(7, 7), share(1, 512), share(0, 0), share(9, 0)), (65_535, 128, 0, 65_535));
    }

    #[test]
    fn a_region_cools_down_to_nothing() {
        let mut region = Region { heat: 16_384, ..Region::new(0) };
        let scans = (1..).find(|&scan| {
            region.scanned(0, 512, Instant::from_ns(scan));
            region.heat == 0
        });
        assert_eq!(scans, Some(32), "16,384 less a quarter, cut, until below 4");
    }

    /// docs/spec/promotion.md#s3-2, and section 7, example 27.
    #[test]
    fn sizes_of_regions_and_budgets() {
        for (eligible, size) in [
            (1, 2 * MIB),
            (8 * GIB, 2 * MIB),
            (32 * GIB, 8 * MIB),
            (33 * GIB, 16 * MIB),
            (1 << 40, 256 * MIB),
            (1 << 50, GIB),
        ] {
            assert_eq!(region_size(eligible), size, "{eligible}");
        }
        let far = Budget::new(512 * MIB, 32 * GIB, 5000, 60_000);
        assert_eq!(far.explore, (32 * GIB * 5).div_ceil(60), "example 27: 2.667 GiB");
        assert_eq!(far.explore.div_ceil(8 * MIB) * 8, 2736, "example 27: 342 regions, MiB");
        assert_eq!((32 * 1024u64).div_ceil(2736), 12, "example 27: scans");
        let tib = Budget::new(512 * MIB, 1 << 40, 5000, 60_000);
        assert_eq!((tib.exploit, tib.explore.div_ceil(256 * MIB)), (384 * MIB, 342), "section 3.2: 1 TiB");
        let small = Budget::new(4 * GIB, 8 * GIB, 400, 60_000);
        assert_eq!((small.exploit, small.explore), (3 * GIB, GIB));
    }

    fn map(areas: &[(u64, u64)]) -> HeatMap {
        let mut map = HeatMap::default();
        map.update(&ranges(areas));
        map
    }

    fn ranges(areas: &[(u64, u64)]) -> Vec<AddressRange> {
        areas.iter().map(|&(start, end)| AddressRange::new(start * MIB, end * MIB)).collect()
    }

    #[test]
    fn regions_hold_eligible_bytes_and_nothing_lies_between() {
        let map = map(&[(1, 3), (3, 5), (100, 101)]);
        let found: Vec<(u64, u64)> = map.regions.iter().map(|r| (r.start / MIB, r.bytes / MIB)).collect();
        assert_eq!(found, [(0, 1), (2, 2), (4, 1), (100, 1)]);
        let end = HeatMap::default();
        assert_eq!(end.at_cursor(), None);
        let mut top = HeatMap::default();
        top.update(&[AddressRange::new(u64::MAX - 4096, u64::MAX)]);
        assert_eq!(top.regions.len(), 1, "the last page of all addresses");
    }

    #[test]
    fn the_cursor_goes_round() {
        let mut map = map(&[(0, 4), (100, 102)]);
        let steps: Vec<usize> = (0..4)
            .map(|_| {
                let index = map.at_cursor().unwrap();
                map.cursor = map.regions[index].start + map.size;
                index
            })
            .collect();
        assert_eq!(steps, [0, 1, 2, 0]);
    }

    #[test]
    fn what_is_known_survives_other_areas_and_other_sizes() {
        let mut map = map(&[(0, 8), (64, 66)]);
        (map.regions[1].heat, map.regions[1].is_quiet) = (900, true);
        map.regions[1].scanned_at = Some(Instant::from_ns(5));
        map.update(&ranges(&[(2, 6)]));
        assert_eq!((map.regions[0].heat, map.regions[0].is_quiet, map.regions[1].is_quiet), (900, true, false));
        map.update(&ranges(&[(0, 16 * 1024)]));
        let first = map.regions[0];
        assert_eq!((map.size, first.heat, first.is_quiet), (4 * MIB, 900, true));
        assert_eq!(first.scanned_at, Some(Instant::from_ns(5)));
        map.update(&ranges(&[(0, 8)]));
        let heats: Vec<u32> = map.regions.iter().map(|region| region.heat).collect();
        assert_eq!((map.size, heats), (2 * MIB, vec![900, 900, 0, 0]));
    }
}
