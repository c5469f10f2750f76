//! `memory.high`: how long a task that pushed its group over it must wait (docs/spec/pressure.md#s6-2).

use super::Limit;
use crate::tick::TickRate;
use isotherm_units::Duration;

/// Fixed point of the overage: 2^20 is once the limit.
const OVERAGE_SHIFT: u32 = 20;
/// Softens the quadratic curve.
const SCALING_SHIFT: u32 = 14;
/// Pages that the penalty is for; fewer pay in proportion.
const CHARGE_BATCH: u64 = 64;
/// Seconds that a penalty may last.
const PENALTY_MAX_S: u64 = 2;
/// Pages per further try to reclaim.
const RETRY_PAGES: u64 = 32;
/// Fruitless tries before the sleep.
const RETRIES: u32 = 16;

/// How far `usage` is over `high`, in 2^-20 of the limit; 0 if it is not. Both in pages. Take the maximum over a group and
/// its ancestors.
#[inline]
pub fn overage(usage: u64, high: Limit) -> u64 {
    let Limit::At(limit) = high else { return 0 };
    let over = u128::from(high.excess(usage)) << OVERAGE_SHIFT;
    u64::try_from(over / u128::from(limit.get().max(1))).unwrap_or(u64::MAX)
}

/// The penalty in ticks for `pending_pages` charged while over a limit by `memory_overage`, and by `swap_overage` over `memory.swap.high`.
/// The result is at most 2 s.
pub fn penalty(memory_overage: u64, swap_overage: u64, pending_pages: u64, rate: TickRate) -> u64 {
    let one = |overage: u64| {
        let squared = u128::from(overage).saturating_mul(u128::from(overage));
        let ticks = squared.saturating_mul(u128::from(rate.hz())) >> OVERAGE_SHIFT >> SCALING_SHIFT;
        ticks.saturating_mul(u128::from(pending_pages)) / u128::from(CHARGE_BATCH)
    };
    let sum = one(memory_overage).saturating_add(one(swap_overage));
    u64::try_from(sum).unwrap_or(u64::MAX).min(PENALTY_MAX_S * rate.hz())
}

/// Next step of a task on its way back to user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighStep {
    /// Go on running: no penalty worth sleeping for.
    Return,
    /// Reclaim this number of pages from the over-limit group, then ask again.
    Reclaim(u64),
    /// Sleep; the time counts as memory stall.
    Sleep(Duration),
}

/// The tries of one task on one return to user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HighThrottle {
    retries_left: u32,
}

impl HighThrottle {
    /// Begins: reclaim `pending_pages` first and call [`next`](Self::next) with the result.
    pub const fn start(pending_pages: u64) -> (Self, HighStep) {
        (Self { retries_left: RETRIES }, HighStep::Reclaim(pending_pages))
    }

    /// The next step, with the penalty as it is now (in ticks) and the pages that the last try reclaimed.
    pub fn next(&mut self, penalty: u64, reclaimed: u64, rate: TickRate) -> HighStep {
        if penalty <= rate.hz() / 100 {
            return HighStep::Return;
        }
        if reclaimed > 0 {
            return HighStep::Reclaim(RETRY_PAGES);
        }
        match self.retries_left.checked_sub(1) {
            Some(left) => {
                self.retries_left = left;
                HighStep::Reclaim(RETRY_PAGES)
            }
            None => HighStep::Sleep(rate.span(penalty)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_units::Pages;

    fn rate() -> TickRate {
        TickRate::new(1000).unwrap()
    }

    #[test]
    fn p12_memory_high() {
        let high = Limit::At(Pages::new(100_000));
        assert_eq!(overage(110_000, high), 104_857);
        // (usage, pending pages, ticks at HZ 1000)
        let table = [
            (110_000, 64, 639),
            (105_000, 64, 159),
            (101_000, 64, 6),
            (200_000, 64, 2000), // 64000, capped
            (110_000, 16, 159),
            (100_000, 64, 0),
        ];
        for (usage, pending, ticks) in table {
            assert_eq!(penalty(overage(usage, high), 0, pending, rate()), ticks, "usage {usage}, {pending} pages");
        }
        // 6 ticks are not worth a sleep.
        assert_eq!(HighThrottle::start(64).0.next(6, 0, rate()), HighStep::Return);
    }

    #[test]
    fn both_limits_add_up_and_nothing_overflows() {
        let once = penalty(104_857, 0, 64, rate());
        assert_eq!(penalty(104_857, 104_857, 64, rate()), 2 * once);
        assert_eq!(penalty(u64::MAX, u64::MAX, u64::MAX, rate()), 2000);
        assert_eq!(overage(u64::MAX, Limit::At(Pages::new(0))), u64::MAX);
        assert_eq!(overage(u64::MAX, Limit::Unlimited), 0);
    }

    #[test]
    fn a_task_sleeps_after_sixteen_fruitless_tries() {
        let (mut throttle, first) = HighThrottle::start(64);
        assert_eq!(first, HighStep::Reclaim(64));
        assert_eq!(throttle.next(639, 5, rate()), HighStep::Reclaim(32), "success costs no try");
        for _ in 0..16 {
            assert_eq!(throttle.next(639, 0, rate()), HighStep::Reclaim(32));
        }
        assert_eq!(throttle.next(639, 0, rate()), HighStep::Sleep(Duration::from_ms(639)));
    }
}
