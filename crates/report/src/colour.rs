//! Colours: the heat scale, the series colours of both themes, and their forms in a terminal.

/// A colour in sRGB, 8 bits a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

/// Background that the colours of a style sheet are for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Theme {
    /// Dark ink on white.
    Light,
    /// Light ink on near-black.
    Dark,
}

impl Rgb {
    /// `#rrggbb`.
    pub fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// This colour, `share` (0–1) of it replaced by `other`.
    pub(crate) fn mix(self, other: Self, share: f64) -> Self {
        let channel = |from: u8, to: u8| {
            let value = f64::from(from) + (f64::from(to) - f64::from(from)) * share.clamp(0.0, 1.0);
            #[expect(clippy::cast_possible_truncation, reason = "between two u8")]
            let value = value.round() as u8;
            value
        };
        Self(channel(self.0, other.0), channel(self.1, other.1), channel(self.2, other.2))
    }

    /// The nearest colour of xterm's 256: the 6×6×6 cube (16–231) or the grey ramp (232–255).
    pub(crate) fn xterm256(self) -> u8 {
        const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        let nearest = |value: u8| (0u8..6).min_by_key(|&i| STEPS[usize::from(i)].abs_diff(value)).unwrap_or(0);
        let (r, g, b) = (nearest(self.0), nearest(self.1), nearest(self.2));
        let cube = Self(STEPS[usize::from(r)], STEPS[usize::from(g)], STEPS[usize::from(b)]);
        let mean = (u16::from(self.0) + u16::from(self.1) + u16::from(self.2)) / 3;
        let step = u8::try_from((mean.saturating_sub(3) / 10).min(23)).unwrap_or(23);
        let grey = Self(8 + 10 * step, 8 + 10 * step, 8 + 10 * step);
        if self.distance(grey) < self.distance(cube) { 232 + step } else { 16 + 36 * r + 6 * g + b }
    }

    fn distance(self, other: Self) -> u32 {
        let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
        square(self.0, other.0) + square(self.1, other.1) + square(self.2, other.2)
    }
}

/// Background of the cells of a heatmap, in both themes: memory that is mapped and was not touched.
pub(crate) const UNTOUCHED: Rgb = Rgb(0x17, 0x19, 0x21);

/// Control points of the map "inferno" by S. van der Walt and N. Smith (CC0), every tenth of its length, without the two
/// darkest, which are hard to distinguish from untouched memory. Its lightness grows evenly, so it reads the same to the
/// colour-blind and in grey.
const HEAT: [Rgb; 9] = [
    Rgb(0x42, 0x0a, 0x68),
    Rgb(0x6a, 0x17, 0x6e),
    Rgb(0x93, 0x26, 0x67),
    Rgb(0xbc, 0x37, 0x54),
    Rgb(0xdd, 0x51, 0x3a),
    Rgb(0xf3, 0x78, 0x19),
    Rgb(0xfc, 0xa5, 0x0a),
    Rgb(0xf6, 0xd7, 0x46),
    Rgb(0xfc, 0xff, 0xa4),
];

/// The colour of `heat`, 0 (coldest that was touched) to 1 (hottest); outside is clamped, NaN is coldest.
pub fn heat_colour(heat: f64) -> Rgb {
    let at = if heat.is_nan() { 0.0 } else { heat.clamp(0.0, 1.0) * 8.0 };
    #[expect(clippy::cast_possible_truncation, reason = "0..=7")]
    let below = (at.floor() as usize).min(7);
    HEAT[below].mix(HEAT[below + 1], at - at.floor() + if at >= 8.0 { 1.0 } else { 0.0 })
}

/// A paint by its role; the theme or the style sheet gives it a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Background,
    /// Titles, labels.
    Ink,
    /// Ticks, notes.
    Muted,
    /// Grid lines.
    Grid,
    /// Axis lines, gap marks.
    Axis,
    /// Data series by number; wraps around.
    Series(usize),
    /// Emphasised items: recommendation, limit.
    Accent,
    /// A fixed colour, the same in both themes.
    Fixed(Rgb),
}

/// How many series colours there are before they repeat (with another dash).
pub(crate) const SERIES_COLOURS: usize = 7;

/// Light and dark variant of each, distinguishable by people with red-green and blue-yellow blindness in order of
/// lightness and hue (after Okabe and Ito), each with a contrast of at least 3:1 to its background.
const SERIES: [(Rgb, Rgb); SERIES_COLOURS] = [
    (Rgb(0x00, 0x66, 0xb3), Rgb(0x5c, 0xb3, 0xf5)),
    (Rgb(0xcc, 0x4f, 0x0a), Rgb(0xf5, 0x93, 0x56)),
    (Rgb(0x00, 0x85, 0x62), Rgb(0x3f, 0xc9, 0x9c)),
    (Rgb(0x8a, 0x4b, 0xa8), Rgb(0xcb, 0x9f, 0xe6)),
    (Rgb(0x8d, 0x6e, 0x00), Rgb(0xe6, 0xc5, 0x4f)),
    (Rgb(0xb8, 0x2a, 0x6c), Rgb(0xf2, 0x82, 0xb4)),
    (Rgb(0x5b, 0x63, 0x70), Rgb(0xb4, 0xbb, 0xc7)),
];

impl Paint {
    pub(crate) fn colour(self, theme: Theme) -> Rgb {
        let (light, dark) = match self {
            Self::Background => (Rgb(0xff, 0xff, 0xff), Rgb(0x12, 0x14, 0x1a)),
            Self::Ink => (Rgb(0x1c, 0x20, 0x28), Rgb(0xe8, 0xea, 0xee)),
            Self::Muted => (Rgb(0x5a, 0x62, 0x70), Rgb(0xa2, 0xaa, 0xb8)),
            Self::Grid => (Rgb(0xe6, 0xe8, 0xec), Rgb(0x2a, 0x2e, 0x38)),
            Self::Axis => (Rgb(0xa9, 0xb0, 0xbc), Rgb(0x5b, 0x63, 0x72)),
            Self::Accent => (Rgb(0xb4, 0x23, 0x18), Rgb(0xff, 0x9a, 0x8f)),
            Self::Series(index) => SERIES[index % SERIES_COLOURS],
            Self::Fixed(colour) => (colour, colour),
        };
        match theme {
            Theme::Light => light,
            Theme::Dark => dark,
        }
    }

    /// Colour on a terminal whose background is not known: strong enough for both.
    pub(crate) fn terminal(self) -> Option<Rgb> {
        match self {
            Self::Ink | Self::Background => None,
            Self::Muted | Self::Grid | Self::Axis => Some(Rgb(0x80, 0x87, 0x94)),
            Self::Series(index) => {
                let (light, dark) = SERIES[index % SERIES_COLOURS];
                Some(light.mix(dark, 0.5))
            }
            Self::Accent => Some(Rgb(0xe0, 0x5a, 0x4e)),
            Self::Fixed(colour) => Some(colour),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG 2 relative luminance.
    fn luminance(colour: Rgb) -> f64 {
        let linear = |channel: u8| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(colour.0) + 0.7152 * linear(colour.1) + 0.0722 * linear(colour.2)
    }

    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn hotter_is_always_lighter() {
        let heats: Vec<f64> = (0..=256).map(|i| luminance(heat_colour(f64::from(i) / 256.0))).collect();
        assert!(heats.is_sorted_by(|a, b| a < b), "{heats:?}");
        assert!(contrast(heat_colour(0.0), UNTOUCHED) > 1.2, "the coldest touched cell differs from an untouched one");
        assert_eq!(heat_colour(1.0), Rgb(0xfc, 0xff, 0xa4));
        assert_eq!(heat_colour(0.5), Rgb(0xdd, 0x51, 0x3a));
        assert_eq!(heat_colour(f64::NAN), heat_colour(-1.0));
    }

    #[test]
    fn every_paint_can_be_read_on_its_background() {
        for theme in [Theme::Light, Theme::Dark] {
            let background = Paint::Background.colour(theme);
            for index in 0..SERIES_COLOURS {
                let ratio = contrast(Paint::Series(index).colour(theme), background);
                assert!(ratio >= 3.0, "series {index} {theme:?} {ratio}");
            }
            for paint in [Paint::Ink, Paint::Muted, Paint::Accent] {
                let ratio = contrast(paint.colour(theme), background);
                assert!(ratio >= 4.5, "{paint:?} {theme:?} {ratio}");
            }
        }
    }

    #[test]
    fn nearest_of_256() {
        // xterm: 196 = (255,0,0), 16 = black, 231 = white, 244 = grey 128.
        let table = [(Rgb(255, 0, 0), 196), (Rgb(0, 0, 0), 16), (Rgb(255, 255, 255), 231), (Rgb(128, 128, 128), 244)];
        for (colour, index) in table {
            assert_eq!(colour.xterm256(), index, "{colour:?}");
        }
    }
}
