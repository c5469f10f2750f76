//! What moving a block costs: CPU time of whoever moves, and waits of tasks that touch a page on its way (
//! docs/spec/compaction.md#s5 and #s8-3).
//!
//! Pages that move together share one flush of cached translations, which is cheap for the mover; but each is away until the
//! last of them is unmapped and its own turn has come, so that waits grow with the square of the batch. Hence a batch of its
//! own size for each block: the more it is used, the smaller.

use crate::compaction::CompactionError;
use isotherm_units::Duration;
use serde::{Deserialize, Serialize};

/// Largest batch: the kernel's unit of isolation.
pub(super) const MAX_BATCH: u32 = 32;
/// Accesses are counted in thousandths a second.
const MILLI_PER_NS: u128 = 1_000_000_000_000;

/// What is assumed of the host. The defaults are the specification's for a kernel that flushes once a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Prices {
    /// Unmapping, copying and mapping one page.
    pub page: Duration,
    /// The flush of cached translations of a batch.
    pub flush: Duration,
    /// The fault of a task that finds its page on the way.
    pub fault: Duration,
    /// What a nanosecond of waiting weighs, in nanoseconds of the mover's CPU time. 0: nobody's waits matter.
    pub stall_weight: u32,
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            page: Duration::from_ns(4500),
            flush: Duration::from_us(10),
            fault: Duration::from_ns(1500),
            stall_weight: 20,
        }
    }
}

impl Prices {
    pub(super) fn validate(&self) -> Result<(), CompactionError> {
        let longest = Duration::from_ms(100);
        for (place, got, least) in [("page", self.page, 1), ("flush", self.flush, 0), ("fault", self.fault, 0)] {
            if got.ns() < least || got > longest {
                let allowed = format!("{} to 100ms", Duration::from_ns(least));
                return Err(CompactionError::out_of_range(format!("prices.{place}"), got, allowed));
            }
        }
        if self.stall_weight > 1_000_000 {
            return Err(CompactionError::out_of_range("prices.stall-weight", self.stall_weight, "0 to 1000000"));
        }
        Ok(())
    }

    /// Pages that should move together where each is used `rate` thousandths of a time a second: what makes flushes per page
    /// and weighted waits per page least together.
    pub(super) fn batch(&self, rate: u64) -> u32 {
        let (page, flush) = (u128::from(self.page.ns()), u128::from(self.flush.ns()));
        let weighted = u128::from(self.stall_weight) * u128::from(rate) * page * page;
        let wanted = flush * MILLI_PER_NS;
        (1..MAX_BATCH).find(|&batch| u128::from(batch).pow(3).saturating_mul(weighted) >= wanted).unwrap_or(MAX_BATCH)
    }

    /// How long a page of such a batch is away, at most.
    pub(super) fn window(&self, batch: u32) -> u64 {
        (self.page.ns() * u64::from(batch)).saturating_add(self.flush.ns())
    }

    /// CPU time of moving `pages` in batches.
    pub(super) fn cost(&self, pages: u32, batch: u32) -> u64 {
        let flushes = u64::from(pages.div_ceil(batch));
        (self.page.ns() * u64::from(pages)).saturating_add(self.flush.ns().saturating_mul(flushes))
    }

    /// Expected waits while pages that are used `rate` thousandths of a time a second, all together, are away once each.
    pub(super) fn stall(&self, rate: u64, batch: u32) -> u64 {
        narrow(u128::from(rate).saturating_mul(self.stall_of_one(batch)) / MILLI_PER_NS)
    }

    /// Cost and weighted waits of a block of `pages` pages that are used `rate` thousandths of a time a second, all together.
    pub(super) fn key(&self, pages: u32, rate: u64) -> u64 {
        let batch = self.batch_of(pages, rate);
        let weighted =
            u128::from(rate).saturating_mul(self.stall_of_one(batch)).saturating_mul(u128::from(self.stall_weight));
        self.cost(pages, batch).saturating_add(narrow(weighted / MILLI_PER_NS))
    }

    /// The batch of a block.
    pub(super) fn batch_of(&self, pages: u32, rate: u64) -> u32 {
        self.batch(rate / u64::from(pages.max(1)))
    }

    /// Expected waits of an access each nanosecond: half the window on average where it falls into it, and the fault.
    fn stall_of_one(&self, batch: u32) -> u128 {
        let window = u128::from(self.window(batch));
        window * window / 2 + window * u128::from(self.fault.ns())
    }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// docs/spec/compaction.md#s11, E27: rates in accesses a microsecond 1e-2 … 1e-7.
    #[test]
    fn e27_batches_by_rate() {
        let prices = Prices::default();
        for (rate, batch) in
            [(10_000_000, 2), (1_000_000, 3), (100_000, 7), (10_000, 14), (1000, 30), (100, 32), (0, 32)]
        {
            assert_eq!(prices.batch(rate), batch, "{rate} thousandths a second");
        }
        assert_eq!(prices.batch(u64::MAX), 1);
        let blind = Prices { stall_weight: 0, ..prices };
        assert_eq!((blind.batch(u64::MAX), blind.batch(0)), (32, 32));
    }

    /// E28, by block: A(128, 0), B(64, 1e-3), C(200, 0), D(40, 1e-5).
    #[test]
    fn e28_keys() {
        let prices = Prices::default();
        assert_eq!(prices.key(128, 0), 616_000);
        assert_eq!(prices.key(200, 0), 970_000);
        // B: batches of 3, away for 23.5 µs; 508 µs of CPU time, 19.928 µs of waits.
        let rate = 64 * 1_000_000;
        assert_eq!((prices.batch_of(64, rate), prices.window(3), prices.cost(64, 3)), (3, 23_500, 508_000));
        assert_eq!((prices.stall(rate, 3), prices.key(64, rate)), (19_928, 906_560));
        let rate = 40 * 10_000;
        assert_eq!((prices.batch_of(40, rate), prices.window(14), prices.cost(40, 14)), (14, 73_000, 210_000));
        assert_eq!((prices.stall(rate, 14), prices.key(40, rate)), (1109, 232_192));
        let blind = Prices { stall_weight: 0, ..prices };
        assert_eq!((blind.key(40, rate), blind.key(64, 64_000_000)), (200_000, 308_000));
        assert_eq!(prices.window(MAX_BATCH), 154_000, "E26");
        assert_eq!(prices.window(96), 442_000, "E26: a batch that the kernel makes of the rest of a block");
    }

    #[test]
    fn prices_out_of_range_are_refused() {
        let said = |prices: Prices| prices.validate().unwrap_err().to_string();
        let free = Prices { page: Duration::ZERO, ..Prices::default() };
        assert_eq!(said(free), "`prices.page` is 0ns; allowed: 1ns to 100ms");
        let slow = Prices { flush: Duration::from_secs(1), ..Prices::default() };
        assert_eq!(said(slow), "`prices.flush` is 1s; allowed: 0ns to 100ms");
        let dear = Prices { stall_weight: 1_000_001, ..Prices::default() };
        assert_eq!(said(dear), "`prices.stall-weight` is 1000001; allowed: 0 to 1000000");
    }

    proptest! {
        /// The batch is the least sum of flushes and weighted waits per page, as near as rounding up allows: two for hardly more
        /// than one cost (1/2 + 2) / (1 + 1/2) of the best.
        #[test]
        fn no_batch_is_much_better(rate in 0u64..100_000_000) {
            let prices = Prices::default();
            let per_page = |batch: u32| {
                let flush = prices.flush.ns() as f64 / f64::from(batch);
                let away = f64::from(batch) * prices.page.ns() as f64;
                flush + 20.0 * rate as f64 / 1e12 * away * away / 2.0
            };
            let best = (1..=MAX_BATCH).map(per_page).fold(f64::INFINITY, f64::min);
            prop_assert!(per_page(prices.batch(rate)) <= best * 1.67, "{rate}");
            prop_assert!(prices.batch(rate) >= prices.batch(rate + 1));
        }
    }
}
