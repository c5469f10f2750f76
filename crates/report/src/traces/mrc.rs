//! The miss-ratio curve.

use isotherm_trace::TraceMeta;
use isotherm_trace::analysis::MissRatioCurve;

use super::{bytes, subject};
use crate::{Axis, Cell, Chart, Column, Reference, Series, Table, Unit};

/// Misses of an exact LRU memory of every size, as a share of all touches.
pub fn mrc_chart(curve: &MissRatioCurve, meta: &TraceMeta) -> Chart {
    let ratio = |misses: u64| ratio_ppm(misses, curve.accesses) as f64;
    let mut points = Vec::new();
    if curve.accesses > 0 {
        points.push((0.0, 1e6));
        points.extend(curve.points.iter().map(|p| (bytes(p.pages, meta.page_bytes) as f64, ratio(p.misses))));
    }
    let mut references = Vec::new();
    if curve.accesses > 0 {
        references
            .push(Reference::AtY { value: ratio(curve.cold_misses), label: "first touches, always missed".into() });
    }
    let title = match curve.sample {
        None => "Misses of exact LRU at every memory size".into(),
        Some(sample) => format!("Misses of LRU at every memory size, of a sample of {}", sample.rate),
    };
    Chart {
        title,
        subtitle: subject(meta),
        x: Axis::new("memory", Unit::Bytes),
        y: Axis::new("share of touches that miss", Unit::Ppm),
        series: vec![Series::step("LRU", points)],
        references,
        callouts: Vec::new(),
    }
}

/// Notes for judging the curve.
pub fn mrc_caveats(curve: &MissRatioCurve) -> Vec<String> {
    let sample = curve.sample.map(|sample| {
        format!(
            "the curve is of a sample of {} of the pages, with {} of {} touches; standard error of the miss ratio: {} at most; exact: --sample off",
            sample.rate,
            sample.accesses,
            curve.accesses,
            Unit::Ppm.approx(sample.error_ppm as f64)
        )
    });
    sample.into_iter().collect()
}

/// The curve at every tenth of the size above which nothing improves.
pub fn mrc_table(curve: &MissRatioCurve, meta: &TraceMeta) -> Table {
    let name = if curve.sample.is_some() { "LRU, sampled" } else { "exact LRU" };
    let mut table = Table::new(name, columns());
    for point in curve.sampled(11) {
        table.push(row(point.pages, point.misses, curve, meta));
    }
    table
}

/// Every size at which the number of misses falls.
pub fn mrc_csv(curve: &MissRatioCurve, meta: &TraceMeta) -> Table {
    let mut table = Table::new("mrc", columns());
    table.push(row(0, curve.accesses, curve, meta));
    for point in &curve.points {
        table.push(row(point.pages, point.misses, curve, meta));
    }
    table
}

fn columns() -> Vec<Column> {
    vec![
        Column::number("memory", Unit::Bytes),
        Column::number("misses", Unit::Count),
        Column::number("miss ratio", Unit::Ppm),
    ]
}

fn row(pages: u64, misses: u64, curve: &MissRatioCurve, meta: &TraceMeta) -> Vec<Cell> {
    vec![bytes(pages, meta.page_bytes).into(), misses.into(), ratio_ppm(misses, curve.accesses).into()]
}

fn ratio_ppm(misses: u64, accesses: u64) -> u64 {
    u64::try_from(u128::from(misses) * 1_000_000 / u128::from(accesses.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TermStyle;
    use isotherm_trace::analysis::MrcPoint;

    #[test]
    fn misses_become_ratios() {
        let points = vec![MrcPoint { pages: 2, misses: 7 }, MrcPoint { pages: 5, misses: 3 }];
        let curve = MissRatioCurve { accesses: 10, cold_misses: 3, points, step_pages: None, sample: None };
        let meta = TraceMeta::single("t");
        let chart = mrc_chart(&curve, &meta);
        assert_eq!(chart.series[0].points, [(0.0, 1e6), (8192.0, 7e5), (20_480.0, 3e5)]);
        assert_eq!(
            mrc_csv(&curve, &meta).to_csv(),
            "memory_bytes,misses,miss_ratio_ppm\n0,10,1000000\n8192,7,700000\n20480,3,300000\n"
        );
        assert_eq!(mrc_table(&curve, &meta).rows.len(), 6, "no more rows than sizes");
    }

    #[test]
    fn an_empty_trace_has_no_curve() {
        let curve = MissRatioCurve { accesses: 0, cold_misses: 0, points: Vec::new(), step_pages: None, sample: None };
        assert!(mrc_chart(&curve, &TraceMeta::default()).to_text(&TermStyle::plain(60)).contains("no data"));
        assert!(!mrc_table(&curve, &TraceMeta::default()).to_text(&TermStyle::plain(60)).is_empty());
    }
}
