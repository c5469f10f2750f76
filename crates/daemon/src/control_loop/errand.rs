//! Work of the loop that is no section's: the search for groups, and reports of the state. At its interval, and less often where it costs
//! much.
//!
//! What it costs is the number of groups, which any user may make thousands of, and no pace of the sections makes it less. So each errand
//! has a budget of its own: sections would be slowed down further with each one.

use isotherm_units::{Duration, Instant, Ratio};

/// When an errand is due, and what the last one cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errand {
    shortest: Duration,
    longest: Duration,
    /// All of them together take at most this share of a processor, up to the longest interval.
    max: Ratio,
    last: Option<Instant>,
    interval: Duration,
    cost: Duration,
}

impl Errand {
    /// One that is due at once, and then after `shortest` to `longest`.
    pub(super) const fn new(shortest: Duration, longest: Duration, max: Ratio) -> Self {
        Self { shortest, longest, max, last: None, interval: shortest, cost: Duration::ZERO }
    }

    /// It was done at `now`, for `cost` of CPU time.
    pub(super) fn done(&mut self, now: Instant, cost: Duration) {
        let fitting = u128::from(cost.ns()) * u128::from(Ratio::ONE.ppm()) / u128::from(self.max.ppm().max(1));
        let fitting = Duration::from_ns(u64::try_from(fitting).unwrap_or(u64::MAX));
        (self.last, self.cost) = (Some(now), cost);
        self.interval = fitting.clamp(self.shortest, self.longest);
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.since(last) >= self.interval)
    }

    /// Nanoseconds of CPU time a second.
    pub(super) fn rate(&self) -> u64 {
        let rate = u128::from(self.cost.ns()) * 1_000_000_000 / u128::from(self.interval.ns().max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::START + Duration::from_secs(s)
    }

    #[test]
    fn what_costs_much_is_done_less_often_but_never_given_up() {
        let new = |max| Errand::new(Duration::from_secs(10), Duration::from_secs(120), max);
        let mut errand = new(Ratio::from_percent(1));
        assert!(errand.is_due(at(0)) && errand.rate() == 0);
        errand.done(at(0), Duration::from_ms(100));
        assert!(!errand.is_due(at(9)) && errand.is_due(at(10)), "it fits at its interval");
        errand.done(at(10), Duration::from_ms(400));
        assert!(!errand.is_due(at(49)) && errand.is_due(at(50)), "1 % of 40 s");
        assert_eq!(errand.rate(), 10_000_000);
        errand.done(at(50), Duration::from_secs(60));
        assert!(!errand.is_due(at(169)) && errand.is_due(at(170)), "two minutes at most");
        let mut none = new(Ratio::from_ppm(0));
        none.done(at(0), Duration::from_secs(1));
        assert!(none.is_due(at(120)));
    }
}
