//! The working set over time.

use isotherm_trace::TraceMeta;
use isotherm_trace::analysis::WorkingSet;
use isotherm_units::Duration;

use super::{bytes, subject};
use crate::{Axis, Cell, Chart, Column, Emphasis, Reference, Series, Table, Unit};

/// Pages touched, and pages written, in each window.
pub fn wss_chart(working_set: &WorkingSet, meta: &TraceMeta) -> Chart {
    let curve = |pages: fn(&isotherm_trace::analysis::WssWindow) -> u64| {
        let size = |window| bytes(pages(window), meta.page_bytes) as f64;
        let mut points: Vec<(f64, f64)> =
            working_set.windows.iter().map(|window| (window.start_ns as f64, size(window))).collect();
        // The last window lasts, too.
        if let Some((start, size)) = points.last().copied() {
            points.push((start + working_set.window_ns as f64, size));
        }
        points
    };
    let largest = working_set.percentiles.iter().find(|p| p.percent == 99).filter(|_| working_set.windows.len() >= 20);
    let references = largest.map(|p| {
        let label = "99 % of the windows: at most this".to_owned();
        Reference::AtY { value: bytes(p.pages, meta.page_bytes) as f64, label }
    });
    let window = Duration::from_ns(working_set.window_ns);
    Chart {
        title: format!("Working set in windows of {window}"),
        subtitle: subject(meta),
        x: Axis::new("time", Unit::Ns),
        y: Axis::new("memory touched", Unit::Bytes),
        series: vec![
            Series::step("touched", curve(|window| window.pages)),
            Series::step("of it written", curve(|window| window.written_pages)).emphasis(Emphasis::Muted),
        ],
        references: references.into_iter().collect(),
        callouts: Vec::new(),
    }
}

/// The working set that this share of the windows does not exceed.
pub fn wss_table(working_set: &WorkingSet, meta: &TraceMeta) -> Table {
    let window = Duration::from_ns(working_set.window_ns);
    let columns = vec![Column::text("share of windows"), Column::number("working set at most", Unit::Bytes)];
    let mut table = Table::new(format!("working set in {} windows of {window}", working_set.windows.len()), columns);
    for percentile in &working_set.percentiles {
        let name = match percentile.percent {
            0 => "smallest".to_owned(),
            50 => "50 % (median)".to_owned(),
            100 => "100 % (largest)".to_owned(),
            percent => format!("{percent} %"),
        };
        table.push(vec![name.into(), bytes(percentile.pages, meta.page_bytes).into()]);
    }
    table
}

/// One row a window.
pub fn wss_csv(working_set: &WorkingSet, meta: &TraceMeta) -> Table {
    let mut table = Table::new(
        "wss",
        vec![
            Column::number("start", Unit::Ns),
            Column::number("touched", Unit::Bytes),
            Column::number("written", Unit::Bytes),
            Column::number("accesses", Unit::Count),
        ],
    );
    for window in &working_set.windows {
        table.push(vec![
            Cell::Int(window.start_ns),
            bytes(window.pages, meta.page_bytes).into(),
            bytes(window.written_pages, meta.page_bytes).into(),
            Cell::Int(window.accesses),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TermStyle;
    use isotherm_trace::analysis::{WssPercentile, WssWindow};

    fn small() -> WorkingSet {
        let window = |start_ns, pages| WssWindow { start_ns, pages, written_pages: pages / 2, accesses: pages * 3 };
        WorkingSet {
            window_ns: 1000,
            windows: vec![window(0, 4), window(1000, 0), window(2000, 256)],
            percentiles: vec![WssPercentile { percent: 0, pages: 0 }, WssPercentile { percent: 50, pages: 4 }],
        }
    }

    #[test]
    fn pages_become_bytes() {
        let meta = TraceMeta::single("t");
        let chart = wss_chart(&small(), &meta);
        let points = [(0.0, 16_384.0), (1000.0, 0.0), (2000.0, 1_048_576.0), (3000.0, 1_048_576.0)];
        assert_eq!(chart.series[0].points, points);
        assert_eq!(wss_csv(&small(), &meta).to_csv().lines().nth(3), Some("2000,1048576,524288,768"));
        insta::assert_snapshot!(wss_table(&small(), &meta).to_text(&TermStyle::plain(80)), @r#"
        working set in 3 windows of 1us
        share of windows  working set at most [KiB]
        smallest                                0.0
        50 % (median)                          16.0
        "#);
    }

    #[test]
    fn nothing_at_all_is_drawn() {
        let nothing = WorkingSet { window_ns: 1, windows: Vec::new(), percentiles: Vec::new() };
        let text = wss_chart(&nothing, &TraceMeta::default()).to_text(&TermStyle::plain(80));
        assert!(text.contains("no data"), "{text}");
    }
}
