//! Two heatmaps side by side, on the same axes and with one scale of colours: all differences between the pictures are differences of
//! the data.
#![expect(clippy::cast_possible_truncation, reason = "sizes of a picture that is at most 8192 pixels wide and high")]

use crate::colour::Paint;
use crate::heatmap::{HeatScale, Heatmap, Strip};
use crate::heatmap_scene::{self as scenes, GAP, LABEL, LABEL_HEIGHT, Marks, PADDING, TICK};
use crate::heatmap_terminal::{self as terminals, Room};
use crate::scene::{Anchor, Picture, PictureSize, Scene, fit_text, room};
use crate::terminal::{CharGrid, ColourDepth, TermStyle, truncate};
use isotherm_units::text::printable;

/// Blanks between the two in a terminal.
const BETWEEN: usize = 3;
/// Logical pixels between the two in a picture.
const BETWEEN_PIXELS: f64 = 16.0;

/// Two heatmaps that agree in everything except the counts.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapPair {
    names: [String; 2],
    maps: [Heatmap; 2],
}

impl HeatmapPair {
    /// The left one with its name, and the right one. Title and subtitle come from the left map. `None` if their times, columns, bands or
    /// measures differ: they would not be comparable by eye.
    pub fn new(names: [String; 2], maps: [Heatmap; 2]) -> Option<Self> {
        let [one, other] = &maps;
        let bands = |map: &Heatmap| -> Vec<(usize, u64, u64, usize)> {
            map.bands.iter().map(|band| (band.space, band.start, band.end, band.rows)).collect()
        };
        let axes = |map: &Heatmap| (map.start_ns, map.end_ns, map.columns, map.measure);
        (axes(one) == axes(other) && bands(one) == bands(other)).then_some(Self { names, maps })
    }

    /// Cells of both maps, and a scale for all cells.
    fn densities(&self, strips: &[Strip], columns: usize) -> ([Vec<Vec<f64>>; 2], Option<HeatScale>) {
        let both = self.maps.each_ref().map(|map| map.densities(strips_of(map, strips).as_slice(), columns));
        let scale = HeatScale::of(&both.concat(), self.maps[0].measure);
        (both, scale)
    }

    /// Both for a terminal, `style.width` columns wide together and about `style.height` lines high.
    pub fn to_text(&self, style: &TermStyle) -> String {
        let map = &self.maps[0];
        let mut out = terminals::header(&map.title, &map.subtitle, style);
        if map.is_empty() {
            return out + &truncate("no data", style.width, style.unicode) + "\n";
        }
        let halves = if style.colour == ColourDepth::None { 1 } else { 2 };
        let strips = terminals::fit(map, style.height.saturating_sub(6).clamp(3, 200), halves);
        let labels = terminals::labels_room(&strips, style.width);
        let left = if labels.addresses > 0 { labels.addresses + 1 } else { 0 };
        let right = if labels.names > 0 { labels.names + 1 } else { 0 };
        let width = (style.width.saturating_sub(left + right + BETWEEN) / 2).clamp(1, 1000);
        let lefts = [left, left + width + BETWEEN];
        let (densities, scale) = self.densities(&strips, width);
        let nr_lines = strips.last().map_or(0, |strip| strip.top + strip.rows).div_ceil(halves);

        let mut names = CharGrid::new(style.width.max(1), 1);
        let mut grid = CharGrid::new(style.width.max(1), nr_lines + 3);
        // Addresses are shown once, at the left of both, and names once, at the right.
        let rooms = [Room { names: 0, ..labels }, Room { addresses: 0, ..labels }];
        let mut is_marked = false;
        for (side, map) in self.maps.iter().enumerate() {
            names.text(lefts[side], 0, &truncate(&printable(&self.names[side]), width, style.unicode), None, true);
            let area = (lefts[side], width, halves);
            for (strip, densities) in strips.iter().zip(&densities[side]) {
                terminals::cells(&mut grid, strip, densities, scale, area, style);
            }
            is_marked |= terminals::marks(&mut grid, &strips, area, (&rooms[side], map.measure), style);
            terminals::time_axis(&mut grid, map, (lefts[side], width, nr_lines));
        }
        out += &names.render(style);
        out += grid.render(style).trim_end_matches('\n');
        out.push('\n');
        out + &terminals::legend(scale, map.measure, is_marked, style)
    }

    /// Lays both out as one picture.
    pub fn picture(&self, size: PictureSize) -> Picture {
        let map = &self.maps[0];
        let description = format!("{} and {}: {} by time and address", self.names[0], self.names[1], map.title);
        let mut scene = Scene::new(size, description);
        let header_bottom = scenes::header(&mut scene, &map.title, &map.subtitle);
        if map.is_empty() {
            let (x, y) = (scene.width / 2.0, (header_bottom + scene.height) / 2.0);
            scene.text(x, y, "no data", LABEL, Anchor::Middle, Paint::Muted);
            return Picture { scene };
        }
        let top = header_bottom + 70.0;
        let height = (scene.height - top - 50.0).max(16.0).floor();
        let strips = map.fit(height as usize, GAP, LABEL_HEIGHT as usize);
        let widest = |label: fn(&Strip) -> String, size: f64| {
            strips.iter().map(|strip| room(&label(strip), size)).fold(0.0, f64::max)
        };
        let label_room = widest(scenes::strip_label, LABEL).min(scene.width * 0.2);
        let left = (PADDING + widest(|strip| scenes::address(strip.start), TICK) + 8.0).round();
        let all = scene.width - left - label_room - 10.0 - PADDING - BETWEEN_PIXELS;
        let width = (all / 2.0).max(40.0).floor();
        let lefts = [left, left + width + BETWEEN_PIXELS];
        let (densities, scale) = self.densities(&strips, scenes::cell_columns(map, width));
        let marks = [Marks { addresses: true, label_room: 0.0 }, Marks { addresses: false, label_room }];
        for (((map, name), left), (densities, marks)) in
            self.maps.iter().zip(&self.names).zip(lefts).zip(densities.iter().zip(marks))
        {
            scene.text(left, top - 12.0, fit_text(name, LABEL, width), LABEL, Anchor::Start, Paint::Ink);
            scenes::cells(&mut scene, map, &strips, densities, scale, (left, top, width));
            scenes::strip_marks(&mut scene, &strips, (left, top, width), marks);
            scenes::time_axis(&mut scene, map, (left, top + height, width));
        }
        scenes::legend(&mut scene, (scale, map.measure), left, header_bottom + 12.0, 2.0 * width);
        Picture { scene }
    }
}

/// The strips of the left map with the bands of this one.
fn strips_of(map: &Heatmap, strips: &[Strip]) -> Vec<Strip> {
    strips.iter().map(|strip| strip.with_bands_of(map)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Band, Measure};

    /// One band of two pages and two columns; `counts` row by row, lowest address first.
    fn map(counts: [u64; 4]) -> Heatmap {
        let band = Band {
            space: 0,
            label: "to 0x3000".to_owned(),
            start: 0x1000,
            end: 0x3000,
            rows: 2,
            counts: counts.to_vec(),
        };
        Heatmap {
            title: "t".to_owned(),
            end_ns: 2_000_000_000,
            columns: 2,
            bands: vec![band],
            measure: Measure::AccessRate,
            ..Heatmap::default()
        }
    }

    fn pair(one: [u64; 4], other: [u64; 4]) -> HeatmapPair {
        HeatmapPair::new(["before".to_owned(), "after".to_owned()], [map(one), map(other)]).unwrap()
    }

    /// A page that is found accessed in every check of a column of one second: milliseconds × millionths.
    const ALWAYS: u64 = 1000 * 1_000_000;

    #[test]
    fn one_scale_is_for_both() {
        // Left: always. Right: in 1 % of the checks. Each alone would be drawn as the hottest.
        let both = pair([ALWAYS, ALWAYS, 0, 0], [ALWAYS / 100, ALWAYS / 100, 0, 0]);
        let (densities, scale) = both.densities(&both.maps[0].fit(2, 0, 1), 2);
        let scale = scale.unwrap();
        assert!((scale.hottest - 100.0).abs() < 1e-6 && (scale.coldest - 1.0).abs() < 1e-6, "{scale:?}");
        // The top row comes first, and is not accessed.
        assert_eq!(densities[0][0][..2], [0.0, 0.0]);
        assert!((densities[0][0][2] - 100.0).abs() < 1e-6 && (densities[1][0][3] - 1.0).abs() < 1e-6, "{densities:?}");
        let text = both.to_text(&TermStyle { height: 10, ..TermStyle::plain(60) });
        let row = text.lines().find(|line| line.contains('█')).unwrap();
        assert!(row.contains('░') && row.find('█') < row.find('░'), "{text}");
        assert!(text.contains("before") && text.contains("after"), "{text}");
    }

    #[test]
    fn both_stand_in_one_line_of_any_width() {
        for width in [1, 10, 39, 80, 100, 200] {
            for colour in [ColourDepth::None, ColourDepth::TrueColour] {
                let style = TermStyle { height: 12, colour, ..TermStyle::plain(width) };
                let text = pair([1, 2, 3, 4], [4, 3, 2, 1]).to_text(&style);
                if colour == ColourDepth::None {
                    assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
                }
            }
        }
        let empty = pair([0; 4], [0; 4]).to_text(&TermStyle::plain(80));
        assert!(empty.contains("nothing was found accessed"), "{empty}");
    }

    #[test]
    fn the_picture_has_both_with_their_names() {
        let svg = pair([1, 2, 3, 4], [4, 3, 2, 1]).picture(PictureSize { width: 960, height: 500 }).to_svg();
        for text in ["before", "after", "0x1000", "to 0x3000"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<image").count(), 3, "two bands and one colour bar");
        assert_eq!(svg.matches(">0x1000<").count(), 1, "addresses stand once");
    }

    #[test]
    fn maps_on_other_axes_are_no_pair() {
        let names = || ["a".to_owned(), "b".to_owned()];
        let other = |change: fn(&mut Heatmap)| {
            let mut other = map([1; 4]);
            change(&mut other);
            HeatmapPair::new(names(), [map([1; 4]), other])
        };
        assert!(other(|map| map.bands[0].counts = vec![9; 4]).is_some());
        assert!(other(|map| map.end_ns += 1).is_none());
        assert!(other(|map| map.bands[0].start -= 0x1000).is_none());
        assert!(other(|map| map.measure = Measure::Touches).is_none());
    }
}
