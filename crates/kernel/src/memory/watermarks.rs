//! Zone watermarks: how much memory stays free (docs/spec/classic-lru.md#s7-3).
//!
//! All in pages. An allocation succeeds while free memory is *above* mark + reserve. Where page blocks had to be taken apart for
//! memory of another type, [marks are boosted](ZoneWatermarks::boosted) until kswapd has freed as much.

use isotherm_units::Pages;

/// Pages of a 2 MiB block.
const BLOCK_PAGES: u64 = 512;
/// The min mark of a zone of movable memory only: a 1024th, within these bounds.
const MOVABLE_MIN_PAGES: (u64, u64) = (32, 128);

/// The properties of a machine that its watermarks depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatermarkConfig {
    /// `watermark_scale_factor`: distance between marks in 1/10000 of a zone. Default 10; 1..=1000 in Linux. More wakes the
    /// daemon earlier and leaves more memory unused.
    pub scale_factor: u64,
    /// `min_free_kbytes`; `None` derives it from the machine's size, as Linux does at boot.
    pub min_free_kib: Option<u64>,
    /// Transparent huge pages are on: the derived `min_free_kib` is raised so that whole blocks stay free.
    pub huge_pages: bool,
    /// `lowmem_reserve_ratio`: a lower zone keeps 1/ratio of the pages of all higher zones of its node away from allocations that could use
    /// the higher zones. 0 turns it off. Default 256 (32 for the zone below a movable one is not modelled).
    pub lowmem_reserve_ratio: u64,
}

impl Default for WatermarkConfig {
    fn default() -> Self {
        Self { scale_factor: 10, min_free_kib: None, huge_pages: false, lowmem_reserve_ratio: 256 }
    }
}

/// A zone, as far as its watermarks depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSize {
    pub managed: Pages,
    /// Holds movable memory only: has no share of `min_free_kib`.
    pub movable: bool,
}

/// The marks of one zone, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ZoneWatermarks {
    /// Below: direct reclaim.
    pub min: u64,
    /// Below: the daemon is woken.
    pub low: u64,
    /// Above: the daemon may sleep.
    pub high: u64,
    /// Above: promotion between tiers is free to go on.
    pub promo: u64,
    /// Kept on top of a mark from allocations that a higher zone could serve.
    pub lowmem_reserve: u64,
}

/// `watermark_boost_factor`: the boost goes up to this share of the high mark, in 1/10 000.
const BOOST_FACTOR: u64 = 15_000;

impl ZoneWatermarks {
    /// The watermarks with all marks raised by this number of pages. The reserve against requests that a higher zone could serve stays.
    pub const fn boosted(self, pages: u64) -> Self {
        let Self { min, low, high, promo, lowmem_reserve } = self;
        Self { min: min + pages, low: low + pages, high: high + pages, promo: promo + pages, lowmem_reserve }
    }

    /// The boost after `attempts` more to claim part of a page block, for a zone of `managed` pages with these marks, not
    /// boosted. Each attempt adds a page block, up to half more than the high mark; none where four page blocks are more than the
    /// zone. Source: `boost_watermark`.
    pub fn boost_after(&self, boost: u64, attempts: u64, managed: u64) -> u64 {
        if 4 * BLOCK_PAGES > managed {
            return boost;
        }
        let most = mul_div(self.high, BOOST_FACTOR, 10_000).max(BLOCK_PAGES);
        boost.saturating_add(attempts.saturating_mul(BLOCK_PAGES)).min(most)
    }
}

/// The watermarks of a machine, one entry a zone in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// `min_free_kbytes` in force.
    pub min_free_kib: u64,
    /// Marks, zones in the order of nodes.
    pub zones: Vec<ZoneWatermarks>,
}

impl Watermarks {
    /// The watermarks of `nodes`, each a list of zones from low to high.
    pub fn new(config: &WatermarkConfig, nodes: &[Vec<ZoneSize>]) -> Self {
        let zones = || nodes.iter().flatten();
        let lowmem: u64 = zones().filter(|zone| !zone.movable).map(|zone| zone.managed.get()).sum();
        let nr_populated = zones().filter(|zone| !zone.movable && zone.managed.get() > 0).count() as u64;
        let min_free_kib = config.min_free_kib.unwrap_or_else(|| {
            let derived = min_free_kib(lowmem.saturating_mul(4));
            let wanted = if config.huge_pages { min_free_kib_for_huge_pages(nr_populated, lowmem) } else { 0 };
            derived.max(wanted)
        });
        let mut marks = Vec::new();
        for node in nodes {
            for (index, zone) in node.iter().enumerate() {
                let above = node[index + 1..].iter().map(|zone| zone.managed.get()).sum();
                let mut zone = zone_watermarks(*zone, min_free_kib / 4, lowmem, config.scale_factor);
                zone.lowmem_reserve = lowmem_reserve(above, config.lowmem_reserve_ratio);
                marks.push(zone);
            }
        }
        Self { min_free_kib, zones: marks }
    }
}

/// The default of `min_free_kbytes` for this amount of low memory, both in KiB: grows with the square root, 128 KiB to 256 MiB.
pub const fn min_free_kib(lowmem_kib: u64) -> u64 {
    let root = lowmem_kib.saturating_mul(16).isqrt();
    if root < 128 {
        128
    } else if root > 262_144 {
        262_144
    } else {
        root
    }
}

/// The least `min_free_kbytes` with transparent huge pages, for `nr_zones` populated zones and this number of low pages: two
/// blocks a zone and nine to keep the kinds of allocations apart, but no more than a twentieth of memory.
pub const fn min_free_kib_for_huge_pages(nr_zones: u64, lowmem_pages: u64) -> u64 {
    let blocks = 11 * BLOCK_PAGES * nr_zones;
    let cap = lowmem_pages / 20;
    4 * if blocks < cap { blocks } else { cap }
}

/// The marks of one zone. `min_free_pages` is shared among all zones in proportion to their part of `lowmem_pages`.
fn zone_watermarks(zone: ZoneSize, min_free_pages: u64, lowmem_pages: u64, scale_factor: u64) -> ZoneWatermarks {
    let managed = zone.managed.get();
    let share = mul_div(min_free_pages, managed, lowmem_pages.max(1));
    let min = if zone.movable { (managed / 1024).clamp(MOVABLE_MIN_PAGES.0, MOVABLE_MIN_PAGES.1) } else { share };
    let step = (share / 4).max(mul_div(managed, scale_factor, 10_000));
    ZoneWatermarks { min, low: min + step, high: min + 2 * step, promo: min + 3 * step, lowmem_reserve: 0 }
}

/// Pages that a zone keeps from allocations that the `pages_above` pages of higher zones could serve.
pub const fn lowmem_reserve(pages_above: u64, ratio: u64) -> u64 {
    match pages_above.checked_div(ratio) {
        Some(reserve) => reserve,
        None => 0,
    }
}

fn mul_div(a: u64, b: u64, divisor: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(divisor)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB_PAGES: u64 = 1 << 18;

    fn zone(pages: u64) -> ZoneSize {
        ZoneSize { managed: Pages::new(pages), movable: false }
    }
    fn single(pages: u64, scale_factor: u64) -> (u64, u64, u64) {
        let config = WatermarkConfig { scale_factor, ..WatermarkConfig::default() };
        let marks = Watermarks::new(&config, &[vec![zone(pages)]]).zones[0];
        (marks.min, marks.low, marks.high)
    }

    #[test]
    fn c8_watermarks() {
        // Section 7.3: single-zone results; section 8, C8: 4 GiB at scale 10 and 100.
        assert_eq!(single(GIB_PAGES, 10), (1024, 1286, 1548));
        assert_eq!(single(4 * GIB_PAGES, 10), (2048, 3096, 4144));
        assert_eq!(single(256 * GIB_PAGES, 10), (16_384, 83_492, 150_600));
        assert_eq!(single(4 * GIB_PAGES, 100), (2048, 12_533, 23_018));
        assert_eq!(min_free_kib(4 * GIB_PAGES * 4), 8192);
    }

    #[test]
    fn c12_direct_vs_kswapd() {
        // 4 GiB node: target of a kswapd run 4144 (> 32), sleeps above it; woken at 3096, direct reclaim at 2048.
        let marks = Watermarks::new(&WatermarkConfig::default(), &[vec![zone(4 * GIB_PAGES)]]).zones[0];
        assert_eq!(marks.high.max(32), 4144);
        assert_eq!((marks.low, marks.min, marks.promo), (3096, 2048, 5192));
    }

    /// docs/spec/compaction.md#s11, E11, E12 and E22: a machine of 24 GiB with three zones, as its /proc says.
    #[test]
    fn e11_e12_e22_three_zones() {
        let sizes = [3840, 772_917, 4_980_736].map(zone);
        let config = WatermarkConfig { huge_pages: true, ..WatermarkConfig::default() };
        let marks = Watermarks::new(&config, &[sizes.to_vec()]);
        assert_eq!(marks.min_free_kib, 67_584, "E22");
        let found: Vec<[u64; 3]> = marks.zones.iter().map(|zone| [zone.min, zone.low, zone.high]).collect();
        assert_eq!(found, [[11, 14, 17], [2268, 3040, 3812], [14_616, 19_596, 24_576]], "E11");
        let reserves: Vec<u64> = marks.zones.iter().map(|zone| zone.lowmem_reserve).collect();
        assert_eq!(reserves, [22_475, 19_456, 0], "E12, for requests that could use the highest zone");
        assert_eq!(lowmem_reserve(772_917, 256), 3019, "E12, DMA for requests that could use DMA32");
        let of_mib = |mib: u64| min_free_kib(mib << 10);
        assert_eq!([16, 1 << 10, 4 << 10, 16 << 10, 32 << 10].map(of_mib), [512, 4096, 8192, 16_384, 23_170], "E11");
    }

    /// docs/spec/promotion.md#s7, example 21: one zone of 64 GiB.
    #[test]
    fn oracle_21_marks_up_to_promo() {
        let config = WatermarkConfig { min_free_kib: Some(67_584), ..WatermarkConfig::default() };
        let marks = Watermarks::new(&config, &[vec![zone(64 * GIB_PAGES)]]).zones[0];
        assert_eq!([marks.min, marks.low, marks.high, marks.promo], [16_896, 33_673, 50_450, 67_227], "example 21");
    }

    /// docs/spec/compaction.md#s11, E25.
    #[test]
    fn e25_the_boost_grows_by_page_blocks_up_to_a_cap() {
        let normal = ZoneWatermarks { min: 14_616, low: 19_596, high: 24_576, ..ZoneWatermarks::default() };
        let after = |attempts| normal.boost_after(0, attempts, 4_980_736);
        assert_eq!([0, 1, 2, 71, 72, 73].map(after), [0, 512, 1024, 36_352, 36_864, 36_864]);
        let one_by_one = (0..72).fold(0, |boost, _| normal.boost_after(boost, 1, 4_980_736));
        assert_eq!(one_by_one, 36_864, "after 72 events");
        assert_eq!(normal.boost_after(0, 9, 2000), 0, "never in a zone of fewer than four page blocks");
        assert_eq!(ZoneWatermarks::default().boost_after(0, 9, 1 << 20), 512, "but always a page block");
        let boosted = normal.boosted(1024);
        assert_eq!((boosted.min, boosted.low, boosted.high), (15_640, 20_620, 25_600));
    }

    #[test]
    fn min_free_is_bounded() {
        assert_eq!(min_free_kib(0), 128);
        assert_eq!(min_free_kib(1023), 128); // isqrt(16368) = 127
        assert_eq!(min_free_kib(u64::MAX), 262_144);
    }

    #[test]
    fn huge_pages_raise_the_minimum() {
        // 11 * 512 * 1 = 5632 pages = 22528 kB; three zones 67584 kB; a 256 MiB machine is capped at 65536/20 = 3276 pages.
        assert_eq!(min_free_kib_for_huge_pages(1, GIB_PAGES), 22_528);
        assert_eq!(min_free_kib_for_huge_pages(3, 4 * GIB_PAGES), 67_584);
        assert_eq!(min_free_kib_for_huge_pages(1, GIB_PAGES / 4), 4 * 3276);
        let config = WatermarkConfig { huge_pages: true, ..WatermarkConfig::default() };
        let marks = Watermarks::new(&config, &[vec![zone(GIB_PAGES)]]);
        // min 5632; a quarter of it, 1408, is more than 262144 / 1000.
        assert_eq!((marks.min_free_kib, marks.zones[0].min, marks.zones[0].low), (22_528, 5632, 7040));
        let set = WatermarkConfig { min_free_kib: Some(4000), ..config };
        assert_eq!(Watermarks::new(&set, &[vec![zone(GIB_PAGES)]]).min_free_kib, 4000, "what is set stays");
    }

    #[test]
    fn zones_share_the_minimum_by_size() {
        // 1 + 3 GiB: min_free 8192 kB = 2048 pages, split 512 : 1536. Steps: max(128, 262) and max(384, 786).
        let marks = Watermarks::new(&WatermarkConfig::default(), &[vec![zone(GIB_PAGES), zone(3 * GIB_PAGES)]]).zones;
        assert_eq!((marks[0].min, marks[0].low, marks[0].high), (512, 774, 1036));
        assert_eq!((marks[1].min, marks[1].low, marks[1].high), (1536, 2322, 3108));
        // The lower zone keeps a 256th of the upper one; the highest has nothing to keep.
        assert_eq!((marks[0].lowmem_reserve, marks[1].lowmem_reserve), (3 * GIB_PAGES / 256, 0));
    }

    #[test]
    fn movable_zones_keep_little() {
        let movable = ZoneSize { managed: Pages::new(GIB_PAGES), movable: true };
        let marks = Watermarks::new(&WatermarkConfig::default(), &[vec![zone(GIB_PAGES)], vec![movable]]);
        assert_eq!((marks.zones[0].min, marks.zones[1].min), (1024, 128));
        assert_eq!(marks.zones[1].lowmem_reserve, 0, "no zone above it in its node");
    }

    #[test]
    fn an_empty_machine_has_no_division_by_zero() {
        assert_eq!(Watermarks::new(&WatermarkConfig::default(), &[vec![zone(0)]]).zones[0], ZoneWatermarks::default());
        assert!(Watermarks::new(&WatermarkConfig::default(), &[]).zones.is_empty());
    }

    proptest! {
        #[test]
        fn marks_are_ordered_and_leave_room(zones in prop::collection::vec(1024u64..1 << 28, 1..5), scale in 1u64..=1000) {
            let config = WatermarkConfig { scale_factor: scale, ..WatermarkConfig::default() };
            let sizes: Vec<ZoneSize> = zones.iter().map(|&pages| zone(pages)).collect();
            let marks = Watermarks::new(&config, &[sizes]);
            for (marks, size) in marks.zones.iter().zip(zones) {
                prop_assert!(marks.min <= marks.low && marks.low <= marks.high && marks.high <= marks.promo);
                prop_assert!(marks.high < size, "{marks:?} of {size} pages");
            }
            prop_assert!(marks.zones.iter().map(|marks| marks.min).sum::<u64>() <= marks.min_free_kib / 4);
        }
    }
}
