//! Heatmaps in a terminal: two cells a character with half blocks where there is colour, shades or letters otherwise.

use crate::colour::{Paint, Rgb, UNTOUCHED, heat_colour};
use crate::heatmap::{HeatScale, Heatmap, Measure, Strip};
use crate::scale::{End, Scale, ScaleKind};
use crate::terminal::{CharGrid, ColourDepth, Glyph, TermStyle, display_width, paint_text, truncate};
use crate::unit::Unit;
use isotherm_units::text::printable;

/// Cold to hot without colour; the first is memory that was not touched.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];
const DENSITY: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];

pub(crate) fn text(map: &Heatmap, style: &TermStyle) -> String {
    let mut out = header(&map.title, &map.subtitle, style);
    if map.is_empty() {
        return out + &truncate("no data", style.width, style.unicode) + "\n";
    }
    let halves = if style.colour == ColourDepth::None { 1 } else { 2 };
    let lines = style.height.saturating_sub(5).clamp(3, 200);
    // A whole line, so that a fold is seen between two strips.
    let strips = fit(map, lines, halves);
    let room = labels_room(&strips, style.width);
    let left = if room.addresses > 0 { room.addresses + 1 } else { 0 };
    let right = if room.names > 0 { room.names + 1 } else { 0 };
    let width = style.width.saturating_sub(left + right).clamp(1, 1000);
    let densities = map.densities(&strips, width);
    let scale = HeatScale::of(&densities, map.measure);

    let last = strips.last().map_or(0, |strip| strip.top + strip.rows);
    let nr_lines = last.div_ceil(halves);
    let mut grid = CharGrid::new(style.width.max(1), nr_lines + 3);
    for (strip, densities) in strips.iter().zip(&densities) {
        cells(&mut grid, strip, densities, scale, (left, width, halves), style);
    }
    let marked = marks(&mut grid, &strips, (left, width, halves), (&room, map.measure), style);
    time_axis(&mut grid, map, (left, width, nr_lines));
    let rendered = grid.render(style);
    out.push_str(rendered.trim_end_matches('\n'));
    out.push('\n');
    out + &legend(scale, map.measure, marked, style)
}

/// Title and subtitle, a line each, where there are any.
pub(crate) fn header(title: &str, subtitle: &str, style: &TermStyle) -> String {
    let mut out = String::new();
    for (text, paint, bold) in [(title, None, true), (subtitle, Some(Paint::Muted), false)] {
        let text = truncate(&printable(text), style.width, style.unicode);
        if !text.is_empty() {
            out.push_str(&paint_text(style, &text, paint, bold));
            out.push('\n');
        }
    }
    out
}

/// Strips whose edges fall on whole lines: fitted in lines, then refined to half lines.
pub(crate) fn fit(map: &Heatmap, lines: usize, halves: usize) -> Vec<Strip> {
    let nr_bands = map.bands.iter().filter(|band| band.rows > 0).count();
    // Folds take lines away from the picture only while there are plenty.
    let gap = if nr_bands * 3 <= lines { 1 } else { 0 };
    let mut strips = map.fit(lines, gap, 1);
    for strip in &mut strips {
        strip.top *= halves;
        strip.rows *= halves;
    }
    strips
}

/// Columns reserved for addresses and names.
pub(crate) struct Room {
    pub(crate) addresses: usize,
    pub(crate) names: usize,
}

pub(crate) fn labels_room(strips: &[Strip], width: usize) -> Room {
    let addresses = strips.iter().map(|strip| address(strip).len()).max().unwrap_or(0);
    let names = strips.iter().map(|strip| display_width(&name(strip, width / 4, true))).max().unwrap_or(0);
    match width {
        width if width < 40 => Room { addresses: 0, names: 0 },
        width if width < 70 => Room { addresses: 0, names },
        _ => Room { addresses, names },
    }
}

fn address(strip: &Strip) -> String {
    format!("{:#x}", strip.start)
}

/// Name and size in at most `room` columns; the name is shortened.
fn name(strip: &Strip, room: usize, unicode: bool) -> String {
    let size = strip.size();
    let label = truncate(&printable(&strip.label), room.saturating_sub(display_width(&size) + 1), unicode);
    truncate(&format!("{label} {size}"), room, unicode)
}

pub(crate) fn cells(
    grid: &mut CharGrid,
    strip: &Strip,
    densities: &[f64],
    scale: Option<HeatScale>,
    (left, width, halves): (usize, usize, usize),
    style: &TermStyle,
) {
    let colour = |density: f64| -> Rgb {
        match scale {
            Some(scale) if density > 0.0 => heat_colour(scale.heat(density)),
            _ => UNTOUCHED,
        }
    };
    for row in (0..strip.rows).step_by(halves) {
        for column in 0..width {
            let upper = densities.get(row * width + column).copied().unwrap_or(0.0);
            let glyph = if halves == 2 {
                let lower = densities.get((row + 1) * width + column).copied().unwrap_or(0.0);
                if style.unicode {
                    Glyph { c: '▀', fore: Some(colour(upper)), back: Some(colour(lower)), bold: false }
                } else {
                    Glyph { c: ' ', fore: None, back: Some(colour(upper.max(lower))), bold: false }
                }
            } else {
                Glyph { c: shade(scale, upper, style.unicode), fore: None, back: None, bold: false }
            };
            grid.set(left + column, (strip.top + row) / halves, glyph);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a share of a handful of characters")]
fn shade(scale: Option<HeatScale>, density: f64, unicode: bool) -> char {
    let shades: &[char] = if unicode { &SHADES } else { &DENSITY };
    match scale {
        Some(scale) if density > 0.0 => {
            let nr = (shades.len() - 1) as f64;
            shades[1 + ((scale.heat(density) * nr) as usize).min(shades.len() - 2)]
        }
        _ => shades[0],
    }
}

/// Addresses, names and folds. Returns whether folds are marked by a sign that the legend must explain.
pub(crate) fn marks(
    grid: &mut CharGrid,
    strips: &[Strip],
    (left, width, halves): (usize, usize, usize),
    (room, measure): (&Room, Measure),
    style: &TermStyle,
) -> bool {
    let mut marked = false;
    for (i, strip) in strips.iter().enumerate() {
        let (first, last) = (strip.top / halves, (strip.top + strip.rows) / halves - 1);
        if room.addresses > 0 {
            let text = address(strip);
            grid.text(room.addresses.saturating_sub(text.len()), last, &text, Some(Paint::Muted), false);
        }
        if room.names > 0 {
            let text = name(strip, room.names, style.unicode);
            grid.text(left + width + 1, usize::midpoint(first, last), &text, None, false);
        }
        let Some(below) = strips.get(i + 1) else { continue };
        let Some(folded_bytes) = strip.folded_bytes(below) else { continue };
        if below.top / halves > last + 1 {
            let gap = Unit::Bytes.approx(folded_bytes as f64);
            let text = format!("≈ {gap} {} ", measure.folded());
            grid.text(left, last + 1, &truncate(&text, width, style.unicode), Some(Paint::Muted), false);
            (display_width(&text)..width).for_each(|i| grid.text(left + i, last + 1, "╌", Some(Paint::Grid), false));
        } else if room.addresses > 0 {
            // No line to spare: a mark next to the foot of the strip.
            grid.text(left - 1, last, "≈", Some(Paint::Accent), false);
            marked = true;
        }
    }
    marked
}

pub(crate) fn time_axis(grid: &mut CharGrid, map: &Heatmap, (left, width, line): (usize, usize, usize)) {
    let (start, end) = (map.start_ns as f64, map.end_ns.max(map.start_ns.saturating_add(1)) as f64);
    let scale = Scale::new(ScaleKind::Linear, Unit::Ns, start, end, (width / 14).clamp(2, 12), [End::Fixed; 2]);
    (0..width).for_each(|i| grid.text(left + i, line, "─", Some(Paint::Axis), false));
    let mut free_from = 0;
    for tick in &scale.ticks {
        let Some(position) = scale.position(tick.value).filter(|p| (-0.001..=1.001).contains(p)) else { continue };
        #[expect(clippy::cast_possible_truncation, reason = "a share of the width")]
        let column = left + (position.clamp(0.0, 1.0) * (width - 1) as f64).round() as usize;
        grid.text(column, line, "┬", Some(Paint::Axis), false);
        let label = format!("{} {}", tick.label, scale.suffix);
        let start =
            column.saturating_sub(display_width(&label) / 2).min((left + width).saturating_sub(display_width(&label)));
        if start >= free_from {
            grid.text(start, line + 1, &label, Some(Paint::Muted), false);
            free_from = start + display_width(&label) + 2;
        }
    }
}

pub(crate) fn legend(scale: Option<HeatScale>, measure: Measure, marked: bool, style: &TermStyle) -> String {
    let Some(scale) = scale else {
        let words = truncate(&measure.absent().replace("not", "nothing was"), style.width, style.unicode);
        return paint_text(style, &words, Some(Paint::Muted), false) + "\n";
    };
    let (coldest, hottest) = scale.end_labels();
    let folds = if marked { "   ≈ addresses left out" } else { "" };
    let words = format!("{hottest} {} (log){folds}", measure.words());
    let mut grid = CharGrid::new(style.width.max(1), 1);
    let untouched = Glyph { c: shade(None, 0.0, style.unicode), fore: None, back: None, bold: false };
    let mut column = 0;
    let say = |grid: &mut CharGrid, column: &mut usize, text: &str| {
        grid.text(*column, 0, text, Some(Paint::Muted), false);
        *column += display_width(text);
    };
    if style.colour == ColourDepth::None {
        grid.set(column, 0, untouched);
    } else {
        (0..2).for_each(|i| grid.set(column + i, 0, Glyph { c: ' ', fore: None, back: Some(UNTOUCHED), bold: false }));
        column += 1;
    }
    column += 2;
    say(&mut grid, &mut column, &format!("{}   {coldest} ", measure.absent()));
    let bar: Vec<Glyph> = if style.colour == ColourDepth::None {
        let shades: &[char] = if style.unicode { &SHADES } else { &DENSITY };
        shades[1..].iter().flat_map(|c| [*c; 2]).map(|c| Glyph { c, fore: None, back: None, bold: false }).collect()
    } else {
        let colours = (0..18).map(|i| heat_colour(f64::from(i) / 17.0));
        colours.map(|colour| Glyph { c: ' ', fore: None, back: Some(colour), bold: false }).collect()
    };
    for glyph in bar {
        grid.set(column, 0, glyph);
        column += 1;
    }
    column += 1;
    say(&mut grid, &mut column, &words);
    grid.render(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heatmap::tests::{degenerate_heatmaps, phases, small};

    #[test]
    fn plain_text_in_unicode_and_ascii() {
        insta::assert_snapshot!(small().to_text(&TermStyle { height: 12, ..TermStyle::plain(80) }), @r#"
        memory
                   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓····························
                   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓···························· stack 4 KiB
        0x70000000 ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓····························
                   ≈ 1.75 GiB not touched ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌
                   █████████████████████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
                   █████████████████████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ heap 8 KiB
            0x1000 ····························░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
                   ┬─────────────┬─────────────┬─────────────┬─────────────┬
                  0 s          0.5 s          1 s          1.5 s         2 s
        · not touched   0.5 ░░▒▒▓▓██ 1000 touches per page and second (log)
        "#);
        let ascii = TermStyle { unicode: false, height: 28, ..TermStyle::plain(100) };
        let text = phases().to_text(&ascii);
        assert!(text.is_ascii(), "{text}");
        insta::assert_snapshot!(text, @r#"
        Memory touched over time
        sqlite3 index.db < queries.sql, epochs of 1 ms
        0x7ffffffde000 @@###@@@##@@@###@@@###@@###@@####@@@##@@@###@@@###@@###@@@# stack 136 KiB
                       ~ 128 MiB not touched -------------------------------------
        0x7ffff7fc0000 #*......................................................... ld-linux-x86-64.~ 200 KiB
                       ~ 392 KiB not touched -------------------------------------
                       ........................................................... libsqlite3.so.0~ 1.37 MiB
        0x7ffff7e00000 @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
                       ~ 248 KiB not touched -------------------------------------
                       ........................................................... libc.so.6 1.76 MiB
        0x7ffff7c00000 ###########################################################
                       ~ 1.29 GiB not touched ------------------------------------
                       ..............:*####..............+####*..............*####
                       ..........*####*.............+#####*.............*####*+... index.db 78.1 MiB
                       .....*####*-............+#####*.............*#####+........
        0x7fffa0000000 *####*.............=*####*.............+#####+.............
                       ~ 42.7 TiB not touched ------------------------------------
                       ...........*@@#....................+***********+===========
                       ........*@@#+.-====================############*+++++++++++
                       .....*@@@*....*####################*...........+*********** heap 195 MiB
                       ..*@@@*.......#@@@@@@@@@@@@@@@@@@@@@...........************
        0x555555750000 #@@*..........*####################*...........############
                       ~ 832 KiB not touched -------------------------------------
                       ########################################################### sqlite3 1.17 MiB
        0x555555554000 @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
                       +--------------------------+--------------------------+----
                      0 s                        2 s                        4 s
        . not touched   0.13 ::--==++**##@@ 999 touches per page and second (log)
        "#);
    }

    #[test]
    fn folds_are_marked_where_there_is_no_line_for_them() {
        let text = phases().to_text(&TermStyle { height: 18, ..TermStyle::plain(100) });
        assert!(text.contains("0x7fffa0000000≈") && text.contains("≈ addresses left out"), "{text}");
        assert!(!text.contains("not touched ╌"), "{text}");
    }

    #[test]
    fn colour_puts_two_cells_in_a_character() {
        let style = TermStyle { colour: ColourDepth::TrueColour, unicode: true, width: 20, height: 9 };
        let text = small().to_text(&style);
        assert!(text.contains('▀'));
        let Rgb(r, g, b) = heat_colour(1.0);
        assert!(text.contains(&format!("\u{1b}[38;2;{r};{g};{b}m")), "{text:?}");
        let few = small().to_text(&TermStyle { colour: ColourDepth::Xterm256, ..style });
        assert!(few.contains("\u{1b}[38;5;") && !few.contains("[38;2;"));
    }

    #[test]
    fn degenerate_heatmaps_are_drawn() {
        for colour in [ColourDepth::None, ColourDepth::Xterm256, ColourDepth::TrueColour] {
            for (width, height) in [(0, 0), (1, 1), (45, 6), (130, 50)] {
                for unicode in [true, false] {
                    let style = TermStyle { colour, unicode, width, height };
                    for (name, map) in degenerate_heatmaps() {
                        let text = map.to_text(&style);
                        assert!(!text.contains("NaN"), "{name}");
                        if colour == ColourDepth::None {
                            assert!(!text.contains('\u{1b}'), "{name}");
                            assert!(text.lines().all(|line| line.chars().count() <= width.max(1)), "{name}\n{text}");
                        }
                    }
                }
            }
        }
    }
}
