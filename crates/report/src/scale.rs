//! Axes: positions of values and of ticks.

use crate::unit::{Display, Unit, trim_zeros};

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScaleKind {
    /// Equal differences have equal lengths.
    #[default]
    Linear,
    /// Equal factors have equal lengths. Values of zero and below are at the lower edge.
    Log,
}

/// A finished axis: its range, and the ticks on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) kind: ScaleKind,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<Tick>,
    /// The unit for the axis name; empty when the ticks carry their own.
    pub(crate) suffix: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// How an end of a linear axis may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Stay where it is.
    Fixed,
    /// Move out to the next tick if that is close by.
    Snug,
    /// Move out to the next tick.
    Tick,
}

impl Scale {
    /// An axis over `low..=high` with about `nr_ticks` ticks. Never empty: a single value gets room around it.
    pub(crate) fn new(kind: ScaleKind, unit: Unit, low: f64, high: f64, nr_ticks: usize, ends: [End; 2]) -> Self {
        let (low, high) = finite_range(low, high);
        match kind {
            ScaleKind::Linear => Self::linear(unit, low, high, nr_ticks.max(2), ends),
            ScaleKind::Log => Self::log(unit, low, high, nr_ticks.max(2)),
        }
    }

    fn linear(unit: Unit, mut low: f64, mut high: f64, nr_ticks: usize, ends: [End; 2]) -> Self {
        if high - low <= (f64::EPSILON * 64.0 * high.abs().max(low.abs())).max(SMALLEST) {
            // One value: from zero to it, so that its height means something.
            (low, high) = if low > 0.0 {
                (0.0, low * 1.25)
            } else if low < 0.0 {
                (low * 1.25, 0.0)
            } else {
                (0.0, 1.0)
            };
        }
        let mut display = unit.display(low.abs().max(high.abs()));
        if unit == Unit::Count || unit == Unit::Pages {
            display = thousands(low.abs().max(high.abs()), display);
        }
        let mut step = nice_step((high - low) / display.divisor / nr_ticks as f64) * display.divisor;
        if matches!(unit, Unit::Count | Unit::Pages) {
            step = step.max(1.0);
        }
        let step = step;
        let (tick_below, tick_above) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        let moves = |end: End, by: f64| match end {
            End::Fixed => false,
            End::Snug => by <= (high - low) * 0.06,
            End::Tick => true,
        };
        let moved = (moves(ends[0], low - tick_below), moves(ends[1], tick_above - high));
        low = if moved.0 { tick_below } else { low };
        high = if moved.1 { tick_above } else { high };
        let first = (low / step - 1e-9).ceil();
        let ticks = (0..1000)
            .map(|i| (first + f64::from(i)) * step)
            .take_while(|value| *value <= high + step * 1e-6)
            .map(|value| Tick { value, label: linear_label(value, step, display, unit) })
            .collect();
        Self { kind: ScaleKind::Linear, low, high, ticks, suffix: display.suffix }
    }

    fn log(unit: Unit, low: f64, high: f64, nr_ticks: usize) -> Self {
        let high = if high > 0.0 { high.max(SMALLEST) } else { 1.0 };
        let mut low = if low > 0.0 { low.clamp(SMALLEST, high) } else { high / 1000.0 };
        let mut high = high;
        if high / low < 1.5 {
            (low, high) = (low / 2.0, high * 2.0);
        }
        let base: f64 = if unit == Unit::Bytes { 2.0 } else { 10.0 };
        let (first, last) = ((low.ln() / base.ln() - 1e-9).ceil(), (high.ln() / base.ln() + 1e-9).floor());
        let nr_powers = (last - first + 1.0).max(0.0);
        let mut values: Vec<f64> = Vec::new();
        if base > 2.0 && nr_powers < 3.0 {
            // Less than three powers of ten: 1, 2, 5 of each.
            let mut power = base.powf(first - 1.0);
            while power <= high {
                values.extend(
                    [1.0, 2.0, 5.0].iter().map(|m| m * power).filter(|v| *v >= low * 0.999 && *v <= high * 1.001),
                );
                power *= base;
            }
            if values.len() > nr_ticks * 2 {
                values.retain(|v| (v.log10() - v.log10().round()).abs() < 1e-6);
            }
        } else {
            let strides: &[f64] =
                if base > 2.0 { &[1.0, 2.0, 3.0, 6.0, 9.0] } else { &[1.0, 2.0, 3.0, 5.0, 10.0, 20.0] };
            let stride = *strides.iter().find(|s| nr_powers / **s <= nr_ticks as f64 + 0.5).unwrap_or(&20.0);
            let mut power = (first / stride).ceil() * stride;
            while power <= last {
                values.push(base.powf(power));
                power += stride;
            }
        }
        if values.is_empty() {
            values = vec![low, high];
        }
        let ticks = values.into_iter().map(|value| Tick { value, label: unit.approx(value).replace(' ', "\u{a0}") });
        Self { kind: ScaleKind::Log, low, high, ticks: ticks.collect(), suffix: "" }
    }

    /// An axis of `labels`, one at each whole number from zero.
    pub(crate) fn categories(labels: &[String]) -> Self {
        let ticks =
            labels.iter().enumerate().map(|(i, label)| Tick { value: i as f64, label: label.clone() }).collect();
        Self { kind: ScaleKind::Linear, low: -0.5, high: labels.len().max(1) as f64 - 0.5, ticks, suffix: "" }
    }

    /// Position of `value`: 0 at the low end, 1 at the high end, outside of this for values outside. `None` for NaN.
    pub(crate) fn position(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let position = match self.kind {
            ScaleKind::Linear => (value - self.low) / (self.high - self.low),
            ScaleKind::Log if value <= self.low => return Some(if value < self.low * 0.999 { -0.0 } else { 0.0 }),
            ScaleKind::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        Some(position.clamp(-10.0, 10.0))
    }
}

/// No count comes near this; above it differences and quotients of floats break down.
const LARGEST: f64 = 1e150;
const SMALLEST: f64 = 1e-150;

/// Orders the ends and replaces infinities and NaN.
fn finite_range(low: f64, high: f64) -> (f64, f64) {
    let (low, high) = finite_ends(low, high);
    (low.clamp(-LARGEST, LARGEST), high.clamp(-LARGEST, LARGEST))
}

fn finite_ends(low: f64, high: f64) -> (f64, f64) {
    match (low.is_finite(), high.is_finite()) {
        (true, true) if low <= high => (low, high),
        (true, true) => (high, low),
        (true, false) => (low, low),
        (false, true) => (high, high),
        (false, false) => (0.0, 0.0),
    }
}

/// On an axis five digits are too wide for a tick.
fn thousands(largest: f64, display: Display) -> Display {
    if display.divisor == 1.0 && largest >= 10_000.0 { Display { divisor: 1e3, suffix: "k" } } else { display }
}

/// The smallest of 1, 2, 2.5, 5 × 10ⁿ that is not below `rough`.
fn nice_step(rough: f64) -> f64 {
    if !rough.is_finite() || rough <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= rough * 0.999).unwrap_or(10.0);
    factor * power
}

fn linear_label(value: f64, step: f64, display: Display, unit: Unit) -> String {
    if unit == Unit::Address {
        return unit.approx(value);
    }
    let (value, step) = (value / display.divisor, step / display.divisor);
    let decimals = (0..9).find(|&d| (step * 10f64.powi(d) - (step * 10f64.powi(d)).round()).abs() < 1e-6).unwrap_or(9);
    let decimals = usize::try_from(decimals).unwrap_or(0);
    let text = trim_zeros(format!("{value:.decimals$}"));
    if text == "-0" { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> String {
        scale.ticks.iter().map(|tick| tick.label.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_in_the_unit_that_is_shown() {
        let mib = 1024.0 * 1024.0;
        let table = [
            (ScaleKind::Linear, Unit::Bytes, 0.0, 187.0 * mib, "0 50 100 150 200", "MiB"),
            (ScaleKind::Linear, Unit::Ns, 0.0, 4.3e9, "0 1 2 3 4 5", "s"),
            (ScaleKind::Linear, Unit::Ppm, 0.0, 1e6, "0 20 40 60 80 100", "%"),
            (ScaleKind::Linear, Unit::Factor, 1.0, 1.23, "1 1.05 1.1 1.15 1.2 1.25", "×"),
            (ScaleKind::Linear, Unit::Count, 0.0, 45_000.0, "0 10 20 30 40 50", "k"),
            (ScaleKind::Linear, Unit::Count, 0.0, 2.0, "0 1 2", ""),
            (ScaleKind::Linear, Unit::Count, 0.0, 0.0, "0 1", ""),
            (ScaleKind::Linear, Unit::Bytes, 4096.0, 4096.0, "0 1 2 3 4 5", "KiB"),
            (
                ScaleKind::Log,
                Unit::Ns,
                1e3,
                1e9,
                "1\u{a0}µs 10\u{a0}µs 100\u{a0}µs 1\u{a0}ms 10\u{a0}ms 100\u{a0}ms 1\u{a0}s",
                "",
            ),
            (
                ScaleKind::Log,
                Unit::Bytes,
                4096.0,
                64.0 * mib,
                "4\u{a0}KiB 32\u{a0}KiB 256\u{a0}KiB 2\u{a0}MiB 16\u{a0}MiB",
                "",
            ),
            (ScaleKind::Log, Unit::Count, 3.0, 60.0, "5 10 20 50", ""),
        ];
        for (kind, unit, low, high, expected, suffix) in table {
            let nr_ticks = if kind == ScaleKind::Log && unit == Unit::Ns { 7 } else { 5 };
            let scale = Scale::new(kind, unit, low, high, nr_ticks, [End::Tick; 2]);
            assert_eq!((labels(&scale).as_str(), scale.suffix), (expected, suffix), "{kind:?} {unit:?} {low}..{high}");
        }
    }

    #[test]
    fn strange_ranges_give_an_axis_all_the_same() {
        for kind in [ScaleKind::Linear, ScaleKind::Log] {
            for (low, high) in [
                (f64::NAN, 1.0),
                (f64::NEG_INFINITY, f64::INFINITY),
                (5.0, -5.0),
                (0.0, f64::MAX),
                (-1.0, -1.0),
                (0.0, 5e-324),
            ] {
                let scale = Scale::new(kind, Unit::Count, low, high, 5, [End::Tick; 2]);
                assert!(scale.low < scale.high, "{kind:?} {low} {high} {scale:?}");
                assert!(scale.ticks.len() <= 1000);
                let middle = scale.position(scale.low / 2.0 + scale.high / 2.0).unwrap();
                assert!((0.0..=1.0).contains(&middle), "{kind:?} {low} {high}: {middle}");
            }
        }
        assert_eq!(Scale::new(ScaleKind::Linear, Unit::Count, 0.0, 1.0, 5, [End::Fixed; 2]).position(f64::NAN), None);
    }

    #[test]
    fn zero_stands_at_the_foot_of_a_log_axis() {
        let scale = Scale::new(ScaleKind::Log, Unit::Count, 1.0, 100.0, 5, [End::Fixed; 2]);
        assert_eq!(scale.position(0.0), Some(0.0));
        assert!((scale.position(10.0).unwrap() - 0.5).abs() < 1e-9);
    }
}
