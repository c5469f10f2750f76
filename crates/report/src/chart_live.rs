//! Charts as data for the script of a page, which draws them with uPlot where scripts run.

use serde_json::{Value, json};

use crate::chart::{Axis, Chart, Emphasis, Reference, Series, SeriesKind};
use crate::chart_scene::{dash, line_width};
use crate::colour::SERIES_COLOURS;
use crate::scale::ScaleKind;
use crate::unit::Unit;

/// Most points of a series: more than the pixels of a screen show nothing new.
const POINTS_MAX: usize = 2000;

/// Data for the script; `None` for bars and for charts without a point, which stay static.
pub(crate) fn data(chart: &Chart) -> Option<Value> {
    let has_bars = chart.series.iter().any(|series| series.kind == SeriesKind::Bars) || !chart.x.categories.is_empty();
    let fits_axes = |&(x, y): &(f64, f64)| {
        (x > 0.0 || chart.x.scale == ScaleKind::Linear) && (y > 0.0 || chart.y.scale == ScaleKind::Linear)
    };
    let series: Vec<Value> =
        chart.series.iter().enumerate().map(|(index, one)| series(index, one, fits_axes)).collect();
    let is_empty = series.iter().all(|series| series["points"].as_array().is_none_or(Vec::is_empty));
    if has_bars || is_empty {
        return None;
    }
    let lines = chart.references.iter().map(|reference| match reference {
        Reference::AtX { value, label } => json!({ "x": value, "label": label }),
        Reference::AtY { value, label } => json!({ "y": value, "label": label }),
    });
    let marks = chart.callouts.iter().map(|mark| json!({ "x": mark.x, "y": mark.y, "label": mark.label }));
    Some(json!({
        "title": chart.title,
        "subtitle": chart.subtitle,
        "x": axis(&chart.x),
        "y": axis(&chart.y),
        "series": series,
        "lines": lines.collect::<Vec<_>>(),
        "marks": marks.collect::<Vec<_>>(),
    }))
}

fn axis(axis: &Axis) -> Value {
    let unit = match axis.unit {
        Unit::Bytes => "bytes",
        Unit::Ns => "ns",
        Unit::Ppm => "ppm",
        Unit::Factor => "factor",
        Unit::Count => "count",
        Unit::Pages => "pages",
        Unit::PerSecond => "per_s",
        Unit::Address => "address",
    };
    json!({
        "name": axis.name,
        "unit": unit,
        "log": axis.scale == ScaleKind::Log,
        "low": axis.low,
        "high": axis.high,
        "first": axis.first_high(),
    })
}

fn series(index: usize, series: &Series, fits_axes: impl Fn(&(f64, f64)) -> bool) -> Value {
    let with_band = |i: usize, point: (f64, f64)| (point, series.band.get(i).copied());
    let points = series.points.iter().enumerate().map(|(i, point)| with_band(i, *point));
    let points: Vec<_> =
        points.filter(|(point, _)| point.0.is_finite() && point.1.is_finite() && fits_axes(point)).collect();
    let points = thin(points);
    let band: Vec<(f64, f64)> = points.iter().filter_map(|(_, band)| *band).collect();
    let kind = match series.kind {
        SeriesKind::Line => "line",
        SeriesKind::Step => "step",
        SeriesKind::Points => "points",
        SeriesKind::Bars => "bars",
    };
    json!({
        "name": series.name,
        "kind": kind,
        "colour": index % SERIES_COLOURS,
        "width": line_width(series),
        "dash": dash(index, series).pattern(),
        // Series in the background are hidden until clicked.
        "hidden": series.emphasis == Emphasis::Muted,
        "points": points.iter().map(|(point, _)| *point).collect::<Vec<_>>(),
        "band": if band.len() == points.len() { band } else { Vec::new() },
    })
}

/// The first, last, lowest and highest of every few points, so that no peak is lost.
fn thin<T: Copy>(points: Vec<((f64, f64), T)>) -> Vec<((f64, f64), T)> {
    if points.len() <= POINTS_MAX {
        return points;
    }
    let few = points.len().div_ceil(POINTS_MAX / 4);
    let mut kept = Vec::new();
    for chunk in points.chunks(few) {
        let y = |i: &usize| chunk[*i].0.1;
        let lowest = (0..chunk.len()).min_by(|a, b| y(a).total_cmp(&y(b))).unwrap_or(0);
        let highest = (0..chunk.len()).max_by(|a, b| y(a).total_cmp(&y(b))).unwrap_or(0);
        let mut those = [0, lowest, highest, chunk.len() - 1];
        those.sort_unstable();
        let mut last = None;
        for index in those {
            if last.replace(index) != Some(index) {
                kept.push(chunk[index]);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::{advise_chart, degenerate_charts};

    #[test]
    fn every_curve_is_there_with_its_interval() {
        let chart = advise_chart();
        let data = data(&chart).expect("lines");
        assert_eq!(data["series"].as_array().map(Vec::len), Some(chart.series.len()));
        for (given, series) in data["series"].as_array().unwrap().iter().zip(&chart.series) {
            assert_eq!(given["points"].as_array().map(Vec::len), Some(series.points.len()), "{}", series.name);
            assert_eq!(given["band"].as_array().map(Vec::len), Some(series.band.len()), "{}", series.name);
            assert_eq!(given["hidden"], series.emphasis == Emphasis::Muted);
        }
        assert_eq!(data["marks"].as_array().map(Vec::len), Some(chart.callouts.len()));
    }

    #[test]
    fn a_picture_opens_with_what_decides() {
        let opened = |y: Axis| {
            let chart =
                Chart { y, series: vec![Series::line("a", vec![(1.0, 3.0), (2.0, 800.0)])], ..Chart::default() };
            (data(&chart).expect("a line")["y"]["first"].as_f64(), chart.scales(5, 5).1.high)
        };
        let axis = || Axis::new("y", Unit::Ppm);
        assert_eq!(opened(axis().first_up_to(10.0)), (Some(10.0), 10.0));
        for whole in [axis(), axis().first_up_to(0.0), axis().first_up_to(f64::NAN), axis().log().first_up_to(10.0)] {
            let (first, high) = opened(whole);
            assert!(first.is_none() && high >= 800.0, "{first:?} {high}");
        }
    }

    #[test]
    fn what_cannot_be_placed_is_left_out() {
        for (name, chart) in degenerate_charts() {
            let Some(data) = data(&chart) else { continue };
            let all = data["series"].as_array().unwrap().iter().flat_map(|series| series["points"].as_array().unwrap());
            for point in all {
                assert!(point[0].is_f64() && point[1].is_f64(), "{name}: {point}");
            }
        }
        assert!(super::data(&Chart::default()).is_none());
        let bars = Chart { series: vec![Series::bars("b", &[1.0])], ..Chart::default() };
        assert!(super::data(&bars).is_none());
    }

    #[test]
    fn thinning_keeps_peaks_and_ends() {
        let points = (0..10_001).map(|i| ((f64::from(i), if i == 5003 { 9.0 } else { 1.0 }), ())).collect();
        let thinned = thin(points);
        assert!(thinned.len() <= POINTS_MAX + 4, "{}", thinned.len());
        assert!(thinned.contains(&((5003.0, 9.0), ())));
        assert_eq!((thinned[0].0.0, thinned[thinned.len() - 1].0.0), (0.0, 10_000.0));
    }
}
