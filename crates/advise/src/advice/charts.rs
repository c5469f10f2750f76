//! What each configuration does at each size, as charts: slow-down, major faults, memory charge.

use crate::{Advice, AdviceRow, CANDIDATES, Candidate};
use isotherm_report::{Axis, Callout, Chart, Emphasis, Reference, Series, SeriesKind, Unit};

/// A curve of each configuration, with its interval where `y` gives one.
fn curves(advice: &Advice, y: impl Fn(&AdviceRow) -> Option<[f64; 3]>) -> Vec<Series> {
    let curve = |candidate: &Candidate| {
        let rows = advice.rows.iter().filter(|row| row.candidate == candidate.name);
        let values = rows.filter_map(|row| Some((row.memory_bytes as f64, y(row)?)));
        let (points, band) = values.map(|(x, [low, mean, high])| ((x, mean), (low, high))).unzip();
        let emphasis = match (candidate.runs_on_linux(), candidate.nr_parts()) {
            (false, _) => Emphasis::Muted,
            (true, 0) => Emphasis::Strong,
            (true, _) => Emphasis::Normal,
        };
        let series = Series::line(candidate.name, points).emphasis(emphasis);
        // Bands of many curves hide each other.
        if emphasis == Emphasis::Strong { series.band(band) } else { series }
    };
    let was_tried =
        |candidate: &&Candidate| advice.configurations.iter().any(|tried| tried.candidate == candidate.name);
    CANDIDATES.iter().filter(was_tried).map(curve).collect()
}

/// Where outcomes fall into two groups: both as points, which `y` gives.
fn gambles(advice: &Advice, y: impl Fn(&AdviceRow) -> Option<[f64; 2]>) -> Vec<Series> {
    let points = |candidate: &Candidate| {
        let rows = advice.rows.iter().filter(|row| row.candidate == candidate.name && row.gamble.is_some());
        let both = |row: &AdviceRow| y(row).map(|ends| ends.map(|end| (row.memory_bytes as f64, end)));
        let points: Vec<(f64, f64)> = rows.filter_map(both).flatten().collect();
        let name = format!("{}: a gamble", candidate.name);
        (!points.is_empty()).then(|| Series { kind: SeriesKind::Points, ..Series::line(name, points) })
    };
    CANDIDATES.iter().filter_map(points).collect()
}

pub(super) fn runtime(advice: &Advice) -> Chart {
    let over = |ratio: u64| ratio.saturating_sub(1_000_000) as f64;
    let ratio = |row: &AdviceRow| {
        let ratio = row.runtime_ratio_ppm.filter(|_| row.gamble.is_none())?;
        Some([over(ratio.low), over(ratio.median), over(ratio.high)])
    };
    let ends = |row: &AdviceRow| row.runtime_ratio_ppm.map(|ratio| [over(ratio.chance_low), over(ratio.chance_high)]);
    let mut chart = Chart {
        title: "Slower than with unlimited memory".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis { first_high: opens_up_to(advice).map(|high| high as f64), ..Axis::new("slower by", Unit::Ppm) },
        series: [curves(advice, ratio), gambles(advice, ends)].concat(),
        references: vec![Reference::AtY { value: advice.slowdown_allowed_ppm as f64, label: "allowed".to_owned() }],
        ..Chart::default()
    };
    if let Some(best) = &advice.recommendation {
        let (x, y) = (best.memory_bytes as f64, over(best.runtime_ratio_ppm.median));
        chart.callouts.push(Callout { x, y, label: "recommended".to_owned() });
    }
    chart
}

/// Twice the slow-down allowed, millionths: sizes are decided below it. `None` where nothing is that fast, and a chart up to there would be empty.
pub(super) fn opens_up_to(advice: &Advice) -> Option<u64> {
    let high = advice.slowdown_allowed_ppm.saturating_mul(2);
    let is_seen = |ratio: crate::Interval| ratio.median.saturating_sub(1_000_000) <= high;
    let any = advice.rows.iter().filter(|row| row.runs_on_linux).filter_map(|row| row.runtime_ratio_ppm).any(is_seen);
    (any && high > 0).then_some(high)
}

pub(super) fn faults(advice: &Advice) -> Chart {
    let faults = |row: &AdviceRow| {
        let faults = row.major_faults;
        row.gamble.is_none().then_some([faults.low as f64, faults.median as f64, faults.high as f64])
    };
    let groups = |row: &AdviceRow| row.gamble.map(|gamble| [gamble.good_faults as f64, gamble.bad_faults as f64]);
    Chart {
        title: "Major faults".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("major faults", Unit::Count),
        series: [curves(advice, faults), gambles(advice, groups)].concat(),
        ..Chart::default()
    }
}

pub(super) fn charge(advice: &Advice) -> Chart {
    let charge = |row: &AdviceRow| {
        let mean = row.mean_bytes;
        Some([mean.low as f64, mean.median as f64, mean.high as f64])
    };
    Chart {
        title: "Mean memory charge".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("mean charge", Unit::Bytes),
        series: curves(advice, charge),
        ..Chart::default()
    }
}
