//! Line, step, bar and point charts with several series. This file holds the contents of a chart; drawing is in
//! [`chart_scene`](crate::chart_scene) (SVG) and [`chart_terminal`](crate::chart_terminal).

use crate::scale::{End, Scale, ScaleKind};
use crate::scene::{Picture, PictureSize};
use crate::terminal::TermStyle;
use crate::unit::Unit;

/// A chart. Points that are not numbers are left out; an empty chart prints a sentence instead of axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Title: a few words.
    pub title: String,
    /// Subject and conditions; may be empty.
    pub subtitle: String,
    /// Axis from left to right.
    pub x: Axis,
    /// Axis from bottom to top.
    pub y: Axis,
    /// The curves or bars, in order of the legend.
    pub series: Vec<Series>,
    /// Straight lines across the plot.
    pub references: Vec<Reference>,
    /// Points that are pointed out.
    pub callouts: Vec<Callout>,
}

/// One axis of a [`Chart`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// Name of the quantity, without the unit.
    pub name: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Linear or logarithmic.
    pub scale: ScaleKind,
    /// Low end; `None` takes it from the data (a linear y axis then starts at zero, unless it counts factors).
    pub low: Option<f64>,
    /// High end; `None` takes it from the data.
    pub high: Option<f64>,
    /// High end that a picture opens with: all that is drawn above it is a click away on a page, and cut off elsewhere. For a linear y
    /// axis only; `None`, and what is not above zero, opens with everything.
    pub first_high: Option<f64>,
    /// Names of the whole numbers from zero, in place of a numeric axis. For x only.
    pub categories: Vec<String>,
}

impl Axis {
    /// A linear axis whose range comes from the data.
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, ..Self::default() }
    }
    /// The same axis, logarithmic.
    pub fn log(self) -> Self {
        Self { scale: ScaleKind::Log, ..self }
    }
    /// The same axis with fixed ends.
    pub fn range(self, low: f64, high: f64) -> Self {
        Self { low: Some(low), high: Some(high), ..self }
    }
    /// The same axis, opened up to `high`.
    pub fn first_up_to(self, high: f64) -> Self {
        Self { first_high: Some(high), ..self }
    }
    /// [`Axis::first_high`], where it says something.
    pub(crate) fn first_high(&self) -> Option<f64> {
        self.first_high.filter(|high| high.is_finite() && *high > 0.0 && self.scale == ScaleKind::Linear)
    }
    /// An axis of names: the first at 0, the second at 1, ….
    pub fn categories(name: impl Into<String>, categories: Vec<String>) -> Self {
        Self { name: name.into(), categories, ..Self::default() }
    }
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeriesKind {
    /// Straight from point to point.
    #[default]
    Line,
    /// Level until the next point.
    Step,
    /// A bar from zero at each point.
    Bars,
    Points,
}

/// Emphasis of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emphasis {
    /// A baseline in the background.
    Muted,
    /// As the others.
    #[default]
    Normal,
    /// The subject of the chart.
    Strong,
}

/// One curve or set of bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// How the points are joined.
    pub kind: SeriesKind,
    /// (x, y) in the base units of the axes, ascending in x.
    pub points: Vec<(f64, f64)>,
    /// Confidence interval (low, high) at each point; empty for none.
    pub band: Vec<(f64, f64)>,
    /// Emphasis of the series.
    pub emphasis: Emphasis,
}

impl Series {
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, ..Self::default() }
    }
    /// Steps: each value holds until the next point.
    pub fn step(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { kind: SeriesKind::Step, ..Self::line(name, points) }
    }
    /// Bars, for an axis of categories: the n-th value is at n.
    pub fn bars(name: impl Into<String>, values: &[f64]) -> Self {
        let points = values.iter().enumerate().map(|(i, value)| (i as f64, *value)).collect();
        Self { kind: SeriesKind::Bars, ..Self::line(name, points) }
    }
    /// The same series with this emphasis.
    pub fn emphasis(self, emphasis: Emphasis) -> Self {
        Self { emphasis, ..self }
    }
    /// The same series with a confidence interval at each point.
    pub fn band(self, band: Vec<(f64, f64)>) -> Self {
        Self { band, ..self }
    }

    /// The points that can be drawn.
    pub(crate) fn finite(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite())
    }
}

/// A straight line across the plot.
#[derive(Clone, Debug, PartialEq)]
pub enum Reference {
    /// Upright, at this x.
    AtX {
        /// Where, in the x axis's base unit.
        value: f64,
        label: String,
    },
    /// Level, at this y.
    AtY {
        /// Where, in the y axis's base unit.
        value: f64,
        label: String,
    },
}

/// A point that is pointed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Callout {
    /// Value in the x axis's base unit.
    pub x: f64,
    /// Value in the y axis's base unit.
    pub y: f64,
    pub label: String,
}

impl Chart {
    /// Lays the chart out as a picture.
    pub fn picture(&self, size: PictureSize) -> Picture {
        Picture { scene: crate::chart_scene::scene(self, size) }
    }

    /// The chart for a terminal, `style.width` columns wide and about `style.height` lines high.
    pub fn to_text(&self, style: &TermStyle) -> String {
        crate::chart_terminal::text(self, style)
    }

    /// Whether nothing can be drawn.
    pub(crate) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.finite().next().is_none())
    }

    /// Both axes, with about this number of ticks.
    pub(crate) fn scales(&self, nr_ticks_x: usize, nr_ticks_y: usize) -> (Scale, Scale) {
        let points = || self.series.iter().flat_map(Series::finite);
        let bands = self.series.iter().flat_map(|series| series.band.iter().flat_map(|band| [band.0, band.1]));
        let callouts = || self.callouts.iter().filter(|callout| callout.x.is_finite() && callout.y.is_finite());
        let mut ys: Vec<f64> = points().map(|point| point.1).chain(bands).chain(callouts().map(|c| c.y)).collect();
        let mut xs: Vec<f64> = points().map(|point| point.0).chain(callouts().map(|c| c.x)).collect();
        for reference in &self.references {
            match reference {
                Reference::AtX { value, .. } => xs.push(*value),
                Reference::AtY { value, .. } => ys.push(*value),
            }
        }
        let has_bars = self.series.iter().any(|series| series.kind == SeriesKind::Bars);
        let y_from_zero = self.y.scale == ScaleKind::Linear && (has_bars || self.y.unit != Unit::Factor);
        let opened = Axis { high: self.y.first_high().or(self.y.high), ..self.y.clone() };
        let y = range(&opened, ys, y_from_zero);
        let ends =
            |axis: &Axis, free: End| [axis.low, axis.high].map(|end| if end.is_some() { End::Fixed } else { free });
        let y_scale = Scale::new(self.y.scale, self.y.unit, y.0, y.1, nr_ticks_y, ends(&opened, End::Tick));
        let x_scale = if self.x.categories.is_empty() {
            let x = range(&self.x, xs, false);
            Scale::new(self.x.scale, self.x.unit, x.0, x.1, nr_ticks_x, ends(&self.x, End::Snug))
        } else {
            Scale::categories(&self.x.categories)
        };
        (x_scale, y_scale)
    }
}

/// The ends of `axis`: fixed ends, else the ends of the data (on a log axis: of values above zero).
fn range(axis: &Axis, values: Vec<f64>, from_zero: bool) -> (f64, f64) {
    let usable = values.into_iter().filter(|v| v.is_finite() && (axis.scale == ScaleKind::Linear || *v > 0.0));
    let (mut low, mut high) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        (low, high) = if axis.scale == ScaleKind::Log { (1.0, 10.0) } else { (0.0, 1.0) };
    }
    if from_zero {
        (low, high) = (low.min(0.0), high.max(0.0));
    }
    let fixed = |end: Option<f64>| end.filter(|end| end.is_finite() && (axis.scale == ScaleKind::Linear || *end > 0.0));
    (fixed(axis.low).unwrap_or(low), fixed(axis.high).unwrap_or(high))
}

/// `name [unit]`, or only the name if ticks carry their units.
pub(crate) fn axis_title(axis: &Axis, scale: &Scale) -> String {
    match (axis.name.as_str(), scale.suffix) {
        (name, "") => name.to_owned(),
        ("", suffix) => format!("[{suffix}]"),
        (name, suffix) => format!("{name} [{suffix}]"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The chart of `advise`: runtime against memory for three policies.
    pub(crate) fn advise_chart() -> Chart {
        let mib = 1_048_576.0;
        let curve = |factors: [f64; 5]| {
            [40.0, 55.0, 70.0, 85.0, 100.0].iter().zip(factors).map(|(percent, f)| (percent * 2.0 * mib, f)).collect()
        };
        let classic: Vec<(f64, f64)> = curve([2.9, 1.6, 1.16, 1.04, 1.0]);
        let band = classic.iter().map(|(_, y)| (y - (y - 1.0) * 0.1, y + (y - 1.0) * 0.1)).collect();
        Chart {
            title: "Runtime against memory".into(),
            subtitle: "sqlite3 index.db, swap on zram, 5 repeats".into(),
            x: Axis::new("memory limit", Unit::Bytes),
            y: Axis::new("runtime against unlimited memory", Unit::Factor),
            series: vec![
                Series::line("classic", classic).band(band).emphasis(Emphasis::Strong),
                Series::line("lru", curve([2.6, 1.5, 1.12, 1.03, 1.0])),
                Series::line("opt", curve([1.7, 1.2, 1.05, 1.01, 1.0])).emphasis(Emphasis::Muted),
            ],
            references: vec![Reference::AtY { value: 1.05, label: "5 % slower".into() }],
            callouts: vec![Callout { x: 170.0 * mib, y: 1.04, label: "recommended: 170 MiB".into() }],
        }
    }

    /// Charts that are hard to draw.
    pub(crate) fn degenerate_charts() -> Vec<(&'static str, Chart)> {
        let of = |points: Vec<(f64, f64)>| Chart { series: vec![Series::line("a", points)], ..Chart::default() };
        let huge = u64::MAX as f64;
        let mut charts = vec![
            ("nothing", Chart::default()),
            ("no points", of(vec![])),
            ("one point", of(vec![(5.0, 5.0)])),
            ("constant", of(vec![(0.0, 7.0), (1.0, 7.0), (2.0, 7.0)])),
            ("all zero", of(vec![(0.0, 0.0), (0.0, 0.0)])),
            ("huge", of(vec![(0.0, huge), (huge, 0.0)])),
            ("largest", of(vec![(f64::MIN, f64::MAX), (f64::MAX, f64::MIN)])),
            ("not numbers", of(vec![(f64::NAN, 1.0), (1.0, f64::INFINITY), (f64::NEG_INFINITY, f64::NAN)])),
            ("negative", of(vec![(-5.0, -3.0), (5.0, -1.0)])),
            ("many", of((0..50_000).map(|i| (f64::from(i), f64::from(i * 7919 % 1000))).collect())),
        ];
        let mut bars = of(vec![]);
        bars.series = vec![Series::bars("x", &[1.0, 0.0, 3.0]), Series::bars("y", &[2.0, f64::NAN])];
        bars.x =
            Axis::categories("workload", vec!["a".into(), "a rather long name of a workload".into(), String::new()]);
        charts.push(("bars", bars));
        let mut odd = of(vec![(1.0, 1.0), (10.0, 0.0)]);
        odd.series[0].band = vec![(f64::NAN, 1.0)];
        odd.references = vec![
            Reference::AtX { value: f64::NAN, label: "x".repeat(500) },
            Reference::AtY { value: 1e300, label: String::new() },
        ];
        odd.callouts = vec![Callout { x: f64::INFINITY, y: 0.0, label: "漢".into() }];
        charts.push(("odd marks", odd));
        let logs: Vec<_> = charts
            .iter()
            .map(|(name, chart)| {
                let (x, y) = (chart.x.clone().log(), chart.y.clone().log());
                (*name, Chart { x, y, ..chart.clone() })
            })
            .collect();
        charts.extend(logs);
        charts
    }

    #[test]
    fn axes_take_their_range_from_what_is_drawn() {
        let (x, y) = advise_chart().scales(5, 5);
        assert_eq!((x.low, x.high), (80.0 * 1_048_576.0, 200.0 * 1_048_576.0));
        assert!(y.low == 1.0 && y.high >= 3.0, "factors do not start at zero: {} {}", y.low, y.high);
        let bars = Chart { series: vec![Series::bars("n", &[5.0, 6.0])], ..Chart::default() };
        assert_eq!(bars.scales(5, 5).1.low, 0.0, "bars start at zero");
    }
}
