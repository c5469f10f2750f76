//! Scale between the trace that is played and the whole recording: the whole itself, or a sample.
//!
//! Figures of advice are always of the whole. A limit is converted to a limit of the sample, and counts and bytes of an outcome to those of
//! the whole. Runtimes are equal: the costs of a page are multiplied in the sampled machine.

use isotherm_units::{Bytes, PAGE_BYTES};

/// Conversion from the trace that is played to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// Pages that each page counts for; 1: the whole is played.
    pub(super) pages: u32,
    /// Peak of the trace that is played.
    own_peak: Bytes,
    /// Peak of the whole.
    whole_peak: Bytes,
}

impl Scale {
    /// The whole itself.
    pub(super) const WHOLE: Self = Self { pages: 1, own_peak: Bytes::ZERO, whole_peak: Bytes::ZERO };

    /// Scale of a sample whose peak is `own_peak`. `whole_peak`: peak of the whole, if known; limits are then equal shares of the two.
    pub(super) fn of(pages: u32, own_peak: Bytes, whole_peak: Option<Bytes>) -> Self {
        if pages <= 1 {
            return Self::WHOLE;
        }
        let by_pages = Bytes::new(own_peak.get().saturating_mul(pages.into()));
        Self { pages, own_peak, whole_peak: whole_peak.unwrap_or(by_pages) }
    }

    /// A size of the whole, converted to the trace that is played, in whole pages, at least one.
    pub(super) fn own(&self, size: Bytes) -> Bytes {
        if self.pages == 1 {
            return size;
        }
        scaled(size, self.own_peak, self.whole_peak).max(Bytes::new(PAGE_BYTES))
    }

    /// A size of the trace that is played, converted to the whole, in whole pages.
    pub(super) fn whole(&self, size: Bytes) -> Bytes {
        if self.pages == 1 { size } else { scaled(size, self.whole_peak, self.own_peak) }
    }

    /// A number of pages or faults of the trace that is played, converted to the whole.
    pub(super) fn count(&self, count: u64) -> u64 {
        count.saturating_mul(self.pages.into())
    }

    /// Work of a replay, for progress: a thousand for the whole.
    pub(super) fn units_of(pages: u32) -> u64 {
        1000 / u64::from(pages.clamp(1, 1000))
    }
}

fn scaled(size: Bytes, by: Bytes, of: Bytes) -> Bytes {
    let bytes = u128::from(size.get()) * u128::from(by.get()) / u128::from(of.get().max(1));
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)).pages_floor().bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_equal_shares_of_both_peaks() {
        let mib = Bytes::from_mib;
        let scale = Scale::of(16, mib(60), Some(mib(1000)));
        assert_eq!((scale.own(mib(500)), scale.whole(mib(30))), (mib(30), mib(500)));
        assert_eq!((scale.count(7), scale.own(Bytes::ZERO)), (112, Bytes::new(4096)));
        let unknown = Scale::of(16, mib(60), None);
        assert_eq!((unknown.own(mib(160)), unknown.whole(mib(60))), (mib(10), mib(960)));
        let whole = Scale::of(1, mib(60), Some(mib(1000)));
        assert_eq!(
            (whole.own(Bytes::new(5)), whole.whole(Bytes::new(5)), whole.count(3)),
            (Bytes::new(5), Bytes::new(5), 3)
        );
    }
}
