//! The budget of CPU time: monitoring takes at most a share of one processor and slows down instead of exceeding it.

use crate::{Duration, Instant, Ratio};

/// Largest factor by which intervals are stretched.
pub const STRETCH_MAX: u32 = 4096;

/// Time between two checks of the CPU time spent. A shorter window says little: the kernel counts CPU time in ticks of up to 10 ms.
const WINDOW: Duration = Duration::from_secs(2);
/// The first window is shorter, because the cost of monitoring is unknown until it ends.
const FIRST_WINDOW: Duration = Duration::from_ms(500);
/// Windows in a row with less than half of the allowed share, before it becomes faster again.
const CALM_WINDOWS: u32 = 5;

/// Keeps the cost of monitoring below a share of one processor.
#[derive(Clone, Debug)]
pub struct Budget {
    max: Ratio,
    stretch: u32,
    /// Start of the window, and the CPU time spent before it.
    since: (Instant, Duration),
    calm: u32,
    window: Duration,
}

impl Budget {
    /// A budget of `max` of one processor, starting at `now`, when `spent` had already been used.
    pub fn new(max: Ratio, now: Instant, spent: Duration) -> Self {
        Self { max, stretch: 1, since: (now, spent), calm: 0, window: FIRST_WINDOW }
    }

    /// Current factor by which intervals are stretched; 1 leaves them as configured.
    pub fn stretch(&self) -> u32 {
        self.stretch
    }

    /// Checks the total CPU time spent so far. Returns the new stretch if it changes: raised at once to what fits if too much was
    /// spent, halved after five windows in a row that spent little.
    pub fn look(&mut self, now: Instant, spent: Duration) -> Option<u32> {
        let (since, before) = self.since;
        let elapsed = now.since(since);
        if elapsed < self.window {
            return None;
        }
        self.window = WINDOW;
        self.since = (now, spent);
        let used = u128::from(spent.saturating_sub(before).ns()) * 1_000_000;
        let allowed = u128::from(elapsed.ns()) * u128::from(self.max.ppm().max(1));
        if used > allowed {
            self.calm = 0;
            let fitting = (u128::from(self.stretch) * used).div_ceil(allowed);
            let fitting = u32::try_from(fitting)
                .unwrap_or(STRETCH_MAX)
                .clamp(self.stretch + 1, STRETCH_MAX.max(self.stretch + 1));
            return self.change(fitting.min(STRETCH_MAX));
        }
        self.calm = if used * 2 < allowed { self.calm + 1 } else { 0 };
        if self.calm < CALM_WINDOWS {
            return None;
        }
        self.calm = 0;
        self.change((self.stretch / 2).max(1))
    }

    fn change(&mut self, stretch: u32) -> Option<u32> {
        let changes = stretch != self.stretch;
        self.stretch = stretch;
        changes.then_some(stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_ms(ms)
    }

    #[test]
    fn too_much_is_stretched_to_what_fits() {
        let mut budget = Budget::new(Ratio::from_percent(1), at(0), Duration::ZERO);
        assert_eq!(budget.look(at(499), Duration::from_ms(49)), None, "so little time says little");
        // 10 % of two seconds: ten times what is allowed.
        assert_eq!(budget.look(at(2000), Duration::from_ms(200)), Some(10));
        assert_eq!(budget.look(at(4000), Duration::from_ms(220)), None, "now it fits exactly");
        assert_eq!(budget.look(at(6000), Duration::from_ms(242)), Some(11), "a little too much is one step");
    }

    #[test]
    fn it_becomes_faster_only_when_it_was_calm_for_long() {
        let mut budget = Budget::new(Ratio::from_percent(1), at(0), Duration::ZERO);
        assert_eq!(budget.look(at(2000), Duration::from_ms(160)), Some(8));
        let spent = Duration::from_ms(160);
        let looks: Vec<_> = (2..=12).map(|window| budget.look(at(window * 2000), spent)).collect();
        assert_eq!(looks[..5], [None, None, None, None, Some(4)]);
        assert_eq!(looks[9], Some(2));
        assert_eq!(budget.stretch(), 2);
    }

    #[test]
    fn it_has_a_floor_and_a_ceiling() {
        let mut budget = Budget::new(Ratio::from_ppm(0), at(0), Duration::ZERO);
        assert_eq!(budget.look(at(2000), Duration::from_secs(2)), Some(STRETCH_MAX));
        assert_eq!(budget.look(at(4000), Duration::from_secs(4)), None, "no further");
        let mut budget = Budget::new(Ratio::ONE, at(0), Duration::ZERO);
        assert!(
            (1..50).all(|window| budget.look(at(window * 2000), Duration::ZERO).is_none()),
            "nor below what was asked for"
        );
    }
}
