//! How wide text is, before a viewer draws it: widths of a sans-serif on a grid of 20 units to the em.

/// Units of the grid in one em.
const EM: f64 = 20.0;
/// Space between neighbouring characters.
const SPACING: f64 = 3.2;
/// Width of digits, so that numbers line up, and of every character that is not in [`WIDTHS`].
const USUAL: f64 = 8.0;

/// Characters by their width in units, without the space between them.
const WIDTHS: &[(f64, &str)] = &[
    (0.0, "!'.:Ii|·"),
    (1.0, ",;"),
    (2.0, "`l"),
    (2.2, " \u{a0}"),
    (2.5, "j"),
    (3.0, "\"()"),
    (3.5, "[]"),
    (4.0, "°"),
    (4.5, "{}"),
    (4.6, "r"),
    (5.0, "-ft"),
    (6.0, "/J\\"),
    (6.5, "s"),
    (7.0, "*?ckz×"),
    (7.5, "ahnux"),
    (8.5, "µ"),
    (9.0, "$BKPRSXZ_~…≈"),
    (10.0, "#&ACDHNTUVY"),
    (10.5, "G"),
    (11.0, "OQw→"),
    (12.0, "Mm"),
    (13.0, "%@—"),
    (14.0, "W"),
];

/// Width of `text` in pixels, at `size` pixels to the em.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| width(c) + SPACING).sum::<f64>() * size / EM
}

fn width(c: char) -> f64 {
    WIDTHS.iter().find(|(_, characters)| characters.contains(c)).map_or(USUAL, |(width, _)| *width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_line_up() {
        assert!(('0'..='9').all(|c| width(c) == width('0')));
        assert!(text_width("Wide", 20.0) > text_width("ill", 20.0));
        assert_eq!((width('漢'), width('\u{a0}')), (USUAL, width(' ')));
        assert_eq!(text_width("8W", 10.0), (8.0 + 3.2 + 14.0 + 3.2) / 2.0);
    }

    #[test]
    fn each_character_has_one_width() {
        let mut seen = std::collections::BTreeSet::new();
        for (width, characters) in WIDTHS {
            assert!(characters.chars().all(|c| seen.insert(c)), "{width}: {characters}");
        }
    }
}
