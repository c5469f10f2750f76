//! The kernel's tick: some rules count time in jiffies.

use isotherm_units::Duration;

/// Ticks per second (`HZ`), 1 to 1000. Kernels are built with 100, 250 (Debian), 300 or 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate(u64);

impl Default for TickRate {
    fn default() -> Self {
        Self(250)
    }
}

impl TickRate {
    /// `hz` ticks a second; `None` outside 1..=1000.
    pub const fn new(hz: u64) -> Option<Self> {
        if hz >= 1 && hz <= 1000 { Some(Self(hz)) } else { None }
    }
    /// Ticks per second.
    pub const fn hz(self) -> u64 {
        self.0
    }
    /// Length of a tick, cut to whole nanoseconds.
    pub const fn tick(self) -> Duration {
        Duration::from_ns(1_000_000_000 / self.0)
    }
    /// Whole ticks in `span`.
    pub const fn whole_ticks(self, span: Duration) -> u64 {
        span.ns() / self.tick().ns()
    }
    /// The span of `ticks` ticks; saturates.
    pub const fn span(self, ticks: u64) -> Duration {
        self.tick().saturating_mul(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_spans_convert() {
        let rate = TickRate::new(250).unwrap();
        assert_eq!((rate.whole_ticks(Duration::from_us(11_999)), rate.span(2)), (2, Duration::from_ms(8)));
        assert_eq!((TickRate::new(0), TickRate::new(1001)), (None, None));
    }
}
