//! Heatmaps as data for the script of a page: every cell, so that it can be zoomed into.

use serde_json::{Value, json};

use crate::cells::{cells_png, palette};
use crate::heatmap::{HeatScale, Heatmap, Strip};
use crate::heatmap_scene::{GAP, address};
use crate::svg::base64;

/// Rows of cells of the picture as a whole; strips are this high until they are zoomed into.
const HEIGHT: usize = 480;
/// Rows of the lowest strip, for its name.
const STRIP_MIN: usize = 15;

/// Data for the script; `None` for a map without cells.
pub(crate) fn data(map: &Heatmap) -> Option<Value> {
    if map.is_empty() || map.end_ns <= map.start_ns {
        return None;
    }
    let strips = map.fit(HEIGHT, GAP, STRIP_MIN);
    let detailed: Vec<Strip> = strips.iter().map(Strip::in_detail).collect();
    let densities = map.densities(&detailed, map.columns);
    let scale = HeatScale::of(&densities, map.measure);
    let drawn = strips.iter().zip(&detailed).zip(&densities).map(|((strip, detail), densities)| {
        let levels: Vec<u8> = densities.iter().map(|density| scale.map_or(0, |scale| scale.level(*density))).collect();
        json!({
            "label": strip.label,
            "size": strip.size(),
            "start": address(strip.start),
            "bytes": strip.mapped_bytes,
            "top": strip.top,
            "rows": strip.rows,
            "png": base64(&cells_png(map.columns, detail.rows, &levels)),
        })
    });
    Some(json!({
        "title": map.title,
        "subtitle": map.subtitle,
        "start": map.start_ns,
        "end": map.end_ns,
        "height": strips.last().map_or(0, |strip| strip.top + strip.rows),
        "coldest": scale.map_or(0.0, |scale| scale.coldest),
        "hottest": scale.map_or(0.0, |scale| scale.hottest),
        "words": map.measure.words(),
        "absent": map.measure.absent(),
        "folded": map.measure.folded(),
        "palette": palette(),
        "strips": drawn.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heatmap::tests::{degenerate_heatmaps, phases, small};

    #[test]
    fn strips_follow_each_other_and_hold_every_row() {
        for map in [small(), phases()] {
            let data = data(&map).expect("cells");
            let strips = data["strips"].as_array().unwrap();
            let mut below = 0;
            for strip in strips {
                assert!(strip["top"].as_u64().unwrap() >= below);
                below = strip["top"].as_u64().unwrap() + strip["rows"].as_u64().unwrap();
                assert!(strip["png"].as_str().unwrap().len() > 60);
            }
            assert_eq!(data["height"].as_u64(), Some(below));
            assert_eq!(data["palette"].as_array().map(Vec::len), Some(256));
        }
    }

    #[test]
    fn no_map_is_too_strange() {
        for (name, map) in degenerate_heatmaps() {
            let data = data(&map);
            assert!(data.is_none_or(|data| data["strips"].is_array()), "{name}");
        }
    }
}
