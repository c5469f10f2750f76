//! Heatmaps of memory over time. This file holds the contents of a heatmap and fits them to a number of cells; drawing is in
//! [`heatmap_scene`](crate::heatmap_scene) (SVG) and [`heatmap_terminal`](crate::heatmap_terminal).

use std::collections::BTreeMap;

use crate::scene::{Picture, PictureSize};
use crate::terminal::TermStyle;
use crate::unit::{Unit, significant};

const PAGE_BYTES: f64 = isotherm_units::PAGE_BYTES as f64;

/// How often memory was touched, by time and address.
///
/// A colour is a density ([`Measure`]), so it means the same in every band, however coarse its bins are. Where a trace is filtered by
/// epochs, a page counts at most once an epoch and thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heatmap {
    /// Title: a few words.
    pub title: String,
    /// Subject and conditions; may be empty.
    pub subtitle: String,
    /// Left edge, in nanoseconds.
    pub start_ns: u64,
    /// Right edge, in nanoseconds.
    pub end_ns: u64,
    /// Equal time bins between the two.
    pub columns: usize,
    /// Mapped address ranges by address space, ascending and disjoint in each. Ranges between two bands are folded.
    pub bands: Vec<Band>,
    /// The quantity that is counted, and so the meaning of a colour.
    pub measure: Measure,
}

/// The quantity counted in a [`Heatmap`], and the meaning of its colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Pages touched; colour: touches per page and second.
    #[default]
    Touches,
    /// Pages × milliseconds × millionths of checks that found an access; colour: percent of checks, the mean over a
    /// cell's pages and time. Time and memory that was not monitored counts as not accessed.
    AccessRate,
}

impl Measure {
    /// Factor from a count per page and second to the value of a colour.
    fn scale(self) -> f64 {
        match self {
            Self::Touches => 1.0,
            // Of all checks, a page has 10^6 millionths for 1000 ms in a second: 100 %.
            Self::AccessRate => 1e-7,
        }
    }
    /// Largest ratio of the hottest to the coldest colour.
    fn range(self) -> f64 {
        match self {
            Self::Touches => 1e6,
            // A check in a thousand: below are borders of regions that cut a cell.
            Self::AccessRate => 1e3,
        }
    }
    /// Meaning of a colour, shown after the scale of its numbers.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Touches => "touches per page and second",
            Self::AccessRate => "% of checks found an access",
        }
    }
    /// Meaning of the darkest cells.
    pub(crate) fn absent(self) -> &'static str {
        match self {
            Self::Touches => "not touched",
            Self::AccessRate => "not found accessed",
        }
    }
    /// Meaning of memory that is folded.
    pub(crate) fn folded(self) -> &'static str {
        match self {
            Self::Touches => "not touched",
            Self::AccessRate => "left out",
        }
    }
    /// Alternative text for the picture.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Touches => "page touches",
            Self::AccessRate => "access frequency",
        }
    }
}

/// One mapped range of addresses, drawn without gaps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Band {
    /// Address space (process) it belongs to.
    pub space: usize,
    /// Name of the mapping: `heap`, `stack`, `libc.so.6`.
    pub label: String,
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Equal address bins in it.
    pub rows: usize,
    /// [`Heatmap::measure`] in each bin, `rows` × [`Heatmap::columns`], the row of the lowest address first. Missing ones are
    /// 0.
    pub counts: Vec<u64>,
}

impl Heatmap {
    /// Lays the heatmap out as a picture.
    pub fn picture(&self, size: PictureSize) -> Picture {
        Picture { scene: crate::heatmap_scene::scene(self, size) }
    }

    /// The heatmap for a terminal, `style.width` columns wide and about `style.height` lines high.
    pub fn to_text(&self, style: &TermStyle) -> String {
        crate::heatmap_terminal::text(self, style)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.columns == 0 || self.bands.iter().all(|band| band.rows == 0)
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// Fits the bands to `height` cell rows in all, with `gap` rows free between two bands.
    ///
    /// Every band gets `least` rows, so that a stack is visible next to a large heap. The rest is divided by [`weight`]: a large band is
    /// drawn higher than a small one, but leaves room for it. Where bands too small to earn `least` rows would take more than a third of
    /// the height, the smallest are drawn as one with their smaller neighbours: twenty libraries must not squeeze the heap.
    pub(crate) fn fit(&self, height: usize, gap: usize, least: usize) -> Vec<Strip> {
        let bands: Vec<&Band> = self.bands.iter().filter(|band| band.rows > 0).collect();
        if bands.is_empty() || height == 0 {
            return Vec::new();
        }
        let groups = group(bands, height, gap, least.max(1));
        let free = height.saturating_sub(gap * (groups.len() - 1)).max(groups.len());
        let least = least.min(free / groups.len()).max(1);
        let weights: Vec<f64> = groups.iter().map(|group| weight(group)).collect();
        let heights = share_out(free, least, &weights);
        let mut top = 0;
        let mut strips: Vec<Strip> = Vec::new();
        for (group, rows) in groups.iter().zip(heights).rev() {
            strips.push(Strip {
                space: group[0].space,
                label: group_label(group),
                start: group[0].start,
                end: group[group.len() - 1].end,
                mapped_bytes: group.iter().map(|band| band.end.saturating_sub(band.start) as f64).sum(),
                top,
                rows,
                bands: group.iter().map(|band| (*band).clone()).collect(),
            });
            top += rows + gap;
        }
        strips
    }

    /// The heat of each cell of `strips` on `columns` time cells in the unit of colours, the top row first.
    pub(crate) fn densities(&self, strips: &[Strip], columns: usize) -> Vec<Vec<f64>> {
        let cell_seconds = (self.seconds() / columns.max(1) as f64).max(1e-9) / self.measure.scale();
        strips
            .iter()
            .map(|strip| {
                let mut cells = vec![0.0f64; strip.rows * columns];
                let stacked = strip.bands.iter().map(|band| band.rows as f64).sum::<f64>().max(1.0);
                let mut below = 0.0;
                // Pages of each cell row, for bands of different coarseness drawn as one.
                let mut pages = vec![0.0f64; strip.rows];
                for band in &strip.bands {
                    let band_pages = (band.end.saturating_sub(band.start) as f64 / PAGE_BYTES).max(1.0);
                    for row in 0..band.rows {
                        let scale = strip.rows as f64 / stacked;
                        let (low, high) = ((below + row as f64) * scale, (below + row as f64 + 1.0) * scale);
                        for (cell_row, share_of_row) in overlap(low, high, strip.rows) {
                            pages[cell_row] += band_pages / band.rows as f64 * share_of_row;
                            let first = row * self.columns;
                            for column in 0..self.columns {
                                let count = band.counts.get(first + column).copied().unwrap_or(0);
                                if count == 0 {
                                    continue;
                                }
                                let scale = columns as f64 / self.columns as f64;
                                for (cell_column, share) in
                                    overlap(column as f64 * scale, (column as f64 + 1.0) * scale, columns)
                                {
                                    cells[cell_row * columns + cell_column] += count as f64 * share * share_of_row;
                                }
                            }
                        }
                    }
                    below += band.rows as f64;
                }
                for (row, pages) in pages.iter().enumerate() {
                    cells[row * columns..(row + 1) * columns]
                        .iter_mut()
                        .for_each(|c| *c /= pages.max(1e-9) * cell_seconds);
                }
                // Low addresses were filled in first; pictures start with the top row.
                cells.chunks(columns.max(1)).rev().flatten().copied().collect()
            })
            .collect()
    }
}

/// One band (or several neighbours) fitted to cell rows.
#[derive(Clone, Debug)]
pub(crate) struct Strip {
    pub(crate) space: usize,
    pub(crate) label: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) mapped_bytes: f64,
    /// Cell rows above it.
    pub(crate) top: usize,
    pub(crate) rows: usize,
    bands: Vec<Band>,
}

impl Strip {
    /// Bytes left out between this strip and the one `below` it; `None` between address spaces and if no bytes are left out.
    pub(crate) fn folded_bytes(&self, below: &Self) -> Option<u64> {
        self.start.checked_sub(below.end).filter(|bytes| *bytes > 0 && self.space == below.space)
    }

    /// The same with a cell row for each row of its bands, though no fewer than it has, and no more than a picture can hold.
    pub(crate) fn in_detail(&self) -> Self {
        let rows = self.bands.iter().map(|band| band.rows).sum::<usize>();
        Self { rows: rows.clamp(self.rows.max(1), 8192.max(self.rows)), ..self.clone() }
    }

    /// The same with the counts of another map of the same bands.
    pub(crate) fn with_bands_of(&self, map: &Heatmap) -> Self {
        let place = |band: &Band| (band.space, band.start, band.end);
        let bands = self.bands.iter().filter_map(|band| map.bands.iter().find(|other| place(other) == place(band)));
        Self { bands: bands.cloned().collect(), ..self.clone() }
    }

    /// Size of the mapped memory, and how many other bands are drawn in it: `1.2 MiB (+3)`.
    pub(crate) fn size(&self) -> String {
        let size = Unit::Bytes.approx(self.mapped_bytes);
        if self.bands.len() > 1 { format!("{size} (+{})", self.bands.len() - 1) } else { size }
    }
}

/// `bands` in groups of neighbours that fit: the two neighbours that are smallest together become one group, until the groups that need
/// more than their share of `height` take at most a third of it.
fn group(bands: Vec<&Band>, height: usize, gap: usize, least: usize) -> Vec<Vec<&Band>> {
    // Bands of different address spaces only when nothing else is left.
    let between = |a: &[&Band], b: &[&Band]| if a[0].space == b[0].space { 0 } else { 1 << 64 };
    let mut groups: Vec<Vec<&Band>> = bands.into_iter().map(|band| vec![band]).collect();
    let taken = |groups: &[Vec<&Band>]| {
        let total: f64 = groups.iter().map(|group| weight(group)).sum();
        let small = groups.iter().filter(|group| weight(group) * (height as f64) < total * least as f64);
        small.count() * (least + gap)
    };
    while groups.len() > 1 && (groups.len() * (least + gap) > height + gap || taken(&groups) * 3 > height) {
        let size = |i: usize| nr_bins(&groups[i - 1]) + nr_bins(&groups[i]) + between(&groups[i - 1], &groups[i]);
        let smallest = (1..groups.len()).min_by_key(|&i| size(i)).unwrap_or(1);
        let right = groups.remove(smallest);
        groups[smallest - 1].extend(right);
    }
    groups
}

fn nr_bins(group: &[&Band]) -> u128 {
    group.iter().map(|band| band.rows as u128).sum()
}

/// Weight of a group in the division of the height: less than its size. The power was chosen by eye on recordings of a database, a compiler
/// and a script.
fn weight(group: &[&Band]) -> f64 {
    (nr_bins(group) as f64).powf(0.7)
}

/// Name of most of the group's memory.
fn group_label(group: &[&Band]) -> String {
    let mut sizes: BTreeMap<&str, u128> = BTreeMap::new();
    for band in group {
        *sizes.entry(&band.label).or_default() += u128::from(band.end.saturating_sub(band.start));
    }
    let most = sizes.into_iter().max_by_key(|(_, size)| *size);
    most.map_or_else(String::new, |(label, _)| label.to_owned())
}

/// Divides `total` rows: `least` to each, the rest by `weights`, largest remainders first.
#[expect(clippy::cast_possible_truncation, reason = "shares of a small number of rows")]
fn share_out(total: usize, least: usize, weights: &[f64]) -> Vec<usize> {
    let rest = total.saturating_sub(least * weights.len());
    let sum: f64 = weights.iter().sum::<f64>().max(1e-9);
    let exact: Vec<f64> = weights.iter().map(|weight| weight / sum * rest as f64).collect();
    let mut shares: Vec<usize> = exact.iter().map(|share| least + share.floor() as usize).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()).then(a.cmp(&b)));
    let left = total.saturating_sub(shares.iter().sum());
    for &index in order.iter().cycle().take(left) {
        shares[index] += 1;
    }
    shares
}

/// The whole cells that `low..high` covers, each with the share of `low..high` that lies in it.
#[expect(clippy::cast_possible_truncation, reason = "cell numbers, clamped")]
fn overlap(low: f64, high: f64, cells: usize) -> impl Iterator<Item = (usize, f64)> {
    let first = (low.max(0.0).floor() as usize).min(cells.saturating_sub(1));
    let last = (high.ceil().max(0.0) as usize).clamp(first + 1, cells.max(first + 1));
    let length = (high - low).max(1e-12);
    (first..last).filter_map(move |cell| {
        let share = (high.min(cell as f64 + 1.0) - low.max(cell as f64)) / length;
        (share > 1e-9).then_some((cell, share.min(1.0)))
    })
}

/// The logarithmic scale between the coldest and the hottest cell that was touched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HeatScale {
    pub(crate) coldest: f64,
    pub(crate) hottest: f64,
}

impl HeatScale {
    /// The scale of all cells above zero; `None` when nothing was touched. No longer than `measure` allows: colder is drawn
    /// as coldest.
    pub(crate) fn of(densities: &[Vec<f64>], measure: Measure) -> Option<Self> {
        let touched = densities.iter().flatten().copied().filter(|d| *d > 0.0 && d.is_finite());
        let (low, high) = touched.fold((f64::INFINITY, 0.0f64), |(low, high), d| (low.min(d), high.max(d)));
        (high > 0.0).then_some(Self { coldest: low.max(high / measure.range()), hottest: high })
    }

    /// 0 (coldest) to 1 (hottest).
    pub(crate) fn heat(&self, density: f64) -> f64 {
        if self.is_single() {
            return 1.0;
        }
        ((density / self.coldest).ln() / (self.hottest / self.coldest).ln()).clamp(0.0, 1.0)
    }

    /// 0 for untouched, else 1–255.
    #[expect(clippy::cast_possible_truncation, reason = "0..=254")]
    pub(crate) fn level(&self, density: f64) -> u8 {
        if density > 0.0 { 1 + (self.heat(density) * 254.0).round() as u8 } else { 0 }
    }

    /// Whether all that was touched is equally hot.
    pub(crate) fn is_single(&self) -> bool {
        self.hottest <= self.coldest * 1.000_1
    }

    /// Position (0–1) and label of each power of ten on the scale; of its ends where it has less than two.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        if self.is_single() {
            return vec![(0.5, significant(self.hottest, 3))];
        }
        let powers = (-12..=24).map(|power| 10f64.powi(power));
        let inside: Vec<f64> = powers.filter(|v| (self.coldest * 0.999..=self.hottest * 1.001).contains(v)).collect();
        let values = if inside.len() < 2 { vec![self.coldest, self.hottest] } else { inside };
        values.into_iter().map(|value| (self.heat(value), significant(value, 2))).collect()
    }

    /// Labels of the ends of the scale.
    pub(crate) fn end_labels(&self) -> (String, String) {
        (significant(self.coldest, 2), significant(self.hottest, 2))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two time bins, a heap of two rows (one page each) and a stack of one row, over two seconds.
    pub(crate) fn small() -> Heatmap {
        let heap =
            Band { space: 0, label: "heap".into(), start: 0x1000, end: 0x3000, rows: 2, counts: vec![0, 1, 1000, 10] };
        let stack = Band {
            space: 0,
            label: "stack".into(),
            start: 0x7000_0000,
            end: 0x7000_1000,
            rows: 1,
            counts: vec![100, 0],
        };
        Heatmap {
            title: "memory".into(),
            end_ns: 2_000_000_000,
            columns: 2,
            bands: vec![heap, stack],
            ..Heatmap::default()
        }
    }

    /// A program with phases: a heap that is filled and then worked on in parts, a file read through, a few libraries.
    pub(crate) fn phases() -> Heatmap {
        let columns = 240;
        let band = |label: &str, start: u64, pages: u64, rows: usize, count: &dyn Fn(f64, f64) -> f64| {
            let per_row = pages as f64 / rows as f64;
            let counts = (0..rows * columns).map(|i| {
                let (y, t) = ((i / columns) as f64 / rows as f64, (i % columns) as f64 / columns as f64);
                let noise = 0.6 + 0.8 * ((i * 2_654_435_761) % 1000) as f64 / 1000.0;
                crate::unit::saturating_u64(count(y, t) * per_row * noise)
            });
            Band { space: 0, label: label.into(), start, end: start + pages * 4096, rows, counts: counts.collect() }
        };
        let heap = |y: f64, t: f64| match t {
            t if t < 0.25 => {
                if (y - t * 4.0).abs() < 0.03 {
                    20.0
                } else {
                    0.0
                }
            }
            t if t < 0.6 => 18.0 * (-((y - 0.3) / 0.12).powi(2)).exp() + if y < 0.8 { 0.05 } else { 0.0 },
            t if t < 0.8 => 12.0 * (-((y - 0.75) / 0.05).powi(2)).exp(),
            _ => 3.0 * (-y * 4.0).exp(),
        };
        let file = |y: f64, t: f64| if (t * 3.0).fract() > y && (t * 3.0).fract() - y < 0.06 { 9.0 } else { 0.0 };
        Heatmap {
            title: "Memory touched over time".into(),
            subtitle: "sqlite3 index.db < queries.sql, epochs of 1 ms".into(),
            start_ns: 0,
            end_ns: 4_300_000_000,
            columns,
            measure: Measure::Touches,
            bands: vec![
                band("sqlite3", 0x5555_5555_4000, 300, 12, &|y, _| if y < 0.6 { 6.0 } else { 0.01 }),
                band("heap", 0x5555_5575_0000, 50_000, 200, &heap),
                band("index.db", 0x7fff_a000_0000, 20_000, 100, &file),
                band("libc.so.6", 0x7fff_f7c0_0000, 450, 16, &|y, _| if y > 0.3 && y < 0.5 { 12.0 } else { 0.005 }),
                band("libsqlite3.so.0.8.6", 0x7fff_f7e0_0000, 350, 16, &|y, _| if y < 0.4 { 20.0 } else { 0.02 }),
                band("ld-linux-x86-64.so.2", 0x7fff_f7fc_0000, 50, 4, &|_, t| if t < 0.02 { 5.0 } else { 0.0 }),
                band("stack", 0x7fff_fffd_e000, 34, 4, &|y, _| if y > 0.7 { 20.0 } else { 0.0 }),
            ],
        }
    }

    /// Heatmaps that are hard to draw.
    pub(crate) fn degenerate_heatmaps() -> Vec<(&'static str, Heatmap)> {
        let of = |columns: usize, bands: Vec<Band>| Heatmap { columns, bands, end_ns: 1_000_000, ..Heatmap::default() };
        let band =
            |rows: usize, counts: Vec<u64>| Band { space: 0, label: "b".into(), start: 0, end: 4096, rows, counts };
        let many = (0..500u64).map(|i| Band {
            space: 0,
            label: format!("library-{i}.so"),
            start: i << 20,
            end: (i << 20) + 4096,
            rows: 1,
            counts: vec![i; 4],
        });
        vec![
            ("nothing", Heatmap::default()),
            ("no bands", of(5, vec![])),
            ("no columns", of(0, vec![band(1, vec![1])])),
            ("one cell", of(1, vec![band(1, vec![1])])),
            ("all zero", of(3, vec![band(2, vec![0; 6])])),
            ("too few counts", of(3, vec![band(2, vec![7])])),
            ("huge counts", of(2, vec![band(2, vec![u64::MAX; 4])])),
            ("no time", Heatmap { end_ns: 0, ..of(2, vec![band(1, vec![1, 2])]) }),
            ("time backwards", Heatmap { start_ns: u64::MAX, end_ns: 1, ..of(2, vec![band(1, vec![1, 2])]) }),
            (
                "all of time and space",
                Heatmap {
                    end_ns: u64::MAX,
                    ..of(2, vec![Band { start: 0, end: u64::MAX, ..band(2, vec![1, 2, 3, u64::MAX]) }])
                },
            ),
            ("backwards band", of(1, vec![Band { start: 9, end: 3, ..band(1, vec![1]) }])),
            ("many bands", of(4, many.collect())),
            ("markup", of(1, vec![Band { space: 0, label: "<script>\u{1b}[31m&".into(), ..band(1, vec![1]) }])),
        ]
    }

    #[test]
    fn densities_by_hand() {
        let map = small();
        let strips = map.fit(4, 1, 1);
        // Three free rows: the stack on top gets one, the heap two.
        let places: Vec<(&str, usize, usize)> = strips.iter().map(|s| (s.label.as_str(), s.top, s.rows)).collect();
        assert_eq!(places, [("stack", 0, 1), ("heap", 2, 2)]);
        // One page a cell, one second a cell; the upper address of the heap comes first.
        assert_eq!(map.densities(&strips, 2), [vec![100.0, 0.0], vec![1000.0, 10.0, 0.0, 1.0]]);
        // Both columns and both pages in one cell: 1011 touches, two pages, two seconds.
        assert_eq!(map.densities(&map.fit(3, 1, 1), 1)[1], [1011.0 / 4.0]);
        // Drawn finer than it is, a bin's rate stays.
        assert_eq!(map.densities(&strips, 4)[0], [100.0, 100.0, 0.0, 0.0]);
    }

    #[test]
    fn heat_is_logarithmic() {
        let scale = HeatScale::of(&[vec![0.0, 1.0, 10.0], vec![100.0]], Measure::Touches).unwrap();
        assert_eq!(scale, HeatScale { coldest: 1.0, hottest: 100.0 });
        assert_eq!([0.0, 1.0, 10.0, 100.0].map(|density| scale.level(density)), [0, 1, 128, 255]);
        assert_eq!(HeatScale::of(&[vec![0.0]], Measure::Touches), None);
        let single = HeatScale::of(&[vec![5.0]], Measure::Touches).unwrap();
        assert_eq!(single.level(5.0), 255, "a single value is the hottest");
    }

    proptest! {
        #[test]
        fn strips_fill_the_height_without_overlap(
            rows in prop::collection::vec(0usize..50, 0..40),
            height in 0usize..200,
            gap in 0usize..4,
        ) {
            let bands: Vec<Band> = rows.iter().map(|rows| Band { rows: *rows, ..Band::default() }).collect();
            let strips = Heatmap { columns: 1, bands, ..Heatmap::default() }.fit(height, gap, 3);
            let mut free_from = 0;
            for strip in &strips {
                prop_assert!(strip.rows >= 1 && strip.top >= free_from);
                free_from = strip.top + strip.rows + gap;
            }
            prop_assert!(strips.is_empty() || free_from == height + gap || strips.len() == 1, "{free_from} of {height}");
        }

        #[test]
        fn refitting_keeps_every_touch(columns in 1usize..20, cells in 1usize..30, counts in prop::collection::vec(0u64..1000, 60)) {
            let band = Band { start: 0, end: 3 * 4096, rows: 3, counts: counts.clone(), ..Band::default() };
            let map = Heatmap { end_ns: 1_000_000_000, columns, bands: vec![band], ..Heatmap::default() };
            let strips = map.fit(cells, 0, 1);
            let sum: f64 = map.densities(&strips, cells)[0].iter().sum();
            // Mean density × pages × seconds = touches.
            let touches = sum / (strips[0].rows * cells) as f64 * 3.0;
            let expected = counts.iter().take(3 * columns).sum::<u64>() as f64;
            prop_assert!((touches - expected).abs() <= expected * 1e-6 + 1e-6, "{touches} {expected}");
        }
    }
}
