//! The search for groups: at its interval, and less often where it costs much.
//!
//! What it costs is the number of groups of the machine, which any user may make thousands of, and no pace of the sections makes it less.
//! So it has a budget of its own, and is not counted to that of the sections: they would be slowed down further with each search.

use isotherm_units::{Duration, Instant, Ratio};

/// Time between two searches.
const INTERVAL: Duration = Duration::from_secs(10);
/// Longest time between two searches, whatever they cost.
const INTERVAL_MAX: Duration = Duration::from_secs(120);

/// When groups are searched for, and what that has cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    last: Instant,
    interval: Duration,
    spent: Duration,
}

impl Search {
    /// One was made at `now`, for `cost` of CPU time. All of them together take at most `max` of a processor, up to the longest interval.
    pub(super) fn made(before: Option<Self>, now: Instant, cost: Duration, max: Ratio) -> Self {
        let fitting = u128::from(cost.ns()) * u128::from(Ratio::ONE.ppm()) / u128::from(max.ppm().max(1));
        let fitting = Duration::from_ns(u64::try_from(fitting).unwrap_or(u64::MAX));
        let spent = before.map_or(Duration::ZERO, |before| before.spent) + cost;
        Self { last: now, interval: fitting.clamp(INTERVAL, INTERVAL_MAX), spent }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now.since(self.last) >= self.interval
    }

    /// CPU time of all searches so far.
    pub(super) const fn spent(&self) -> Duration {
        self.spent
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
        let one = Ratio::from_percent(1);
        let cheap = Search::made(None, at(0), Duration::from_ms(100), one);
        assert!(!cheap.is_due(at(9)) && cheap.is_due(at(10)), "it fits at its interval");
        let dear = Search::made(Some(cheap), at(10), Duration::from_ms(400), one);
        assert!(!dear.is_due(at(49)) && dear.is_due(at(50)), "1 % of 40 s");
        let huge = Search::made(Some(dear), at(50), Duration::from_secs(60), one);
        assert!(!huge.is_due(at(169)) && huge.is_due(at(170)), "two minutes at most");
        assert_eq!(huge.spent(), Duration::from_ms(60_500));
        let none = Search::made(None, at(0), Duration::from_secs(1), Ratio::from_ppm(0));
        assert!(none.is_due(at(120)));
    }
}
