//! Limit of the bytes that may be moved: a bucket that fills at the rate and holds one second of it (docs/spec/promotion.md#s8-4).

use isotherm_units::{Bytes, Instant};

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// The rest of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    per_second: u64,
    /// In bytes times nanoseconds, so that no fraction is lost however often it is read. Below 0 after a folio that was
    /// larger than the rest.
    level: i128,
    filled_at: Instant,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(per_second: Bytes, now: Instant) -> Self {
        let per_second = per_second.get();
        Self { per_second, level: i128::from(per_second) * SECOND, filled_at: now }
    }

    /// Bytes that may be moved at `now`.
    pub(super) fn available(&mut self, now: Instant) -> u64 {
        let passed = now.since(self.filled_at).ns();
        self.filled_at = self.filled_at.max(now);
        let full = i128::from(self.per_second) * SECOND;
        self.level = full.min(self.level + i128::from(self.per_second) * i128::from(passed));
        u64::try_from((self.level / SECOND).max(0)).expect("at most a second of the rate")
    }

    /// Takes bytes out that were moved.
    pub(super) fn take(&mut self, bytes: u64) {
        self.level -= i128::from(bytes) * SECOND;
    }

    /// When `bytes` will be there, or a full bucket where that is less.
    pub(super) fn ready_at(&self, bytes: u64) -> Instant {
        let missing = (i128::from(bytes.min(self.per_second)) * SECOND - self.level).max(0);
        let rate = i128::from(self.per_second);
        let ns = u64::try_from((missing + rate - 1) / rate).unwrap_or(u64::MAX);
        Instant::from_ns(self.filled_at.ns().saturating_add(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_the_rate_and_then_the_rate() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let mut bucket = Bucket::new(Bytes::new(8000), at(0));
        assert_eq!(bucket.available(at(5000)), 8000, "never more than a second");
        bucket.take(8000);
        assert_eq!(
            (bucket.available(at(5000)), bucket.ready_at(4096)),
            (0, at(5512)),
            "example by hand: 4096 / 8000 s"
        );
        assert_eq!(bucket.ready_at(1 << 40), at(6000), "no more than it holds");
        assert_eq!((0..512).map(|ms| bucket.available(at(5001 + ms))).last(), Some(4096), "no fraction is lost");
        bucket.take(12_096);
        let after = (bucket.available(at(5512)), bucket.ready_at(4000));
        assert_eq!(after, (0, at(7012)), "8000 too many and 4000 are missing");
    }
}
