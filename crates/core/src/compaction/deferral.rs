//! Attempts that failed are not repeated at once: each failure doubles the number of requests that pass before the next
//! attempt, up to 64 (docs/spec/compaction.md#s4-6).

/// At most 2^6 requests are skipped.
const MAX_SHIFT: u32 = 6;

/// A zone's memory of failed compactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deferral {
    considered: u32,
    shift: u32,
    /// The lowest order that failed. 0 at the start, so that after one failure of any order all are deferred.
    order_failed: u32,
}

impl Deferral {
    /// Whether a request for `order` is to be skipped; counts it. Source: Linux 7.2 `mm/compaction.c`,
    /// `compaction_deferred`.
    pub fn is_deferred(&mut self, order: u32) -> bool {
        if order < self.order_failed {
            return false;
        }
        let limit = 1 << self.shift;
        self.considered = (self.considered + 1).min(limit);
        self.considered < limit
    }

    /// Notes that an attempt for `order` failed: later attempts are deferred for longer.
    pub fn defer(&mut self, order: u32) {
        self.considered = 0;
        self.shift = (self.shift + 1).min(MAX_SHIFT);
        self.order_failed = self.order_failed.min(order);
    }

    /// An attempt for `order` succeeded; `got_page`: the allocation as well.
    pub fn reset(&mut self, order: u32, got_page: bool) {
        if got_page {
            self.considered = 0;
            self.shift = 0;
        }
        self.order_failed = self.order_failed.max(order.saturating_add(1));
    }

    /// Whether the pause is the longest possible: hints about skipped blocks are then forgotten.
    pub const fn is_restarting(&self, order: u32) -> bool {
        order >= self.order_failed && self.shift == MAX_SHIFT && self.considered >= 1 << MAX_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/compaction.md#s11, E15.
    #[test]
    fn e15_gaps_double_up_to_64() {
        let mut zone = Deferral::default();
        let mut attempts = Vec::new();
        let mut restarts = Vec::new();
        for call in 1..400 {
            if !zone.is_deferred(9) {
                attempts.push(call);
                restarts.push(zone.is_restarting(9));
                zone.defer(9);
            }
        }
        assert_eq!(attempts, [1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 383]);
        assert_eq!(restarts.iter().filter(|&&is_restart| is_restart).count(), 5, "from the longest pause on");
        zone.reset(9, false);
        assert!(!zone.is_deferred(9) && !zone.is_deferred(0), "what succeeded, and smaller");
        assert!(zone.is_deferred(10), "order 10 still");
    }

    #[test]
    fn a_page_in_hand_forgets_failures() {
        let mut zone = Deferral::default();
        (0..3).for_each(|_| zone.defer(9));
        assert!(zone.is_deferred(9));
        zone.reset(9, true);
        assert!(!zone.is_deferred(10), "the count starts anew for larger orders, too");
    }

    #[test]
    fn a_fresh_zone_defers_every_order_after_one_failure() {
        let mut zone = Deferral::default();
        assert!(!zone.is_deferred(9));
        zone.defer(9);
        assert!(zone.is_deferred(0), "order 0 is deferred by a failure at order 9");
    }
}
