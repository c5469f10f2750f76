//! Sums over generations.

pub use isotherm_units::{GenerationRow, Listing, Lruvec};

pub fn pages_of(rows: &[GenerationRow]) -> u64 {
    rows.iter().map(GenerationRow::pages).fold(0, u64::saturating_add)
}

/// Pages of generations that are at least `threshold_ms` old (docs/spec/mglru.md#s14-3, example E22): the kernel's guide calls them cold
/// memory. The youngest of these pages may have been used up to one generation later than the threshold;
/// [`estimate`](fn@crate::generations::estimate) gives the bounds.
pub fn cold_pages(rows: &[GenerationRow], threshold_ms: u64) -> u64 {
    rows.iter().filter(|row| row.age_ms >= threshold_ms).map(GenerationRow::pages).fold(0, u64::saturating_add)
}

/// The rest: pages of younger generations (example E22).
pub fn working_set_pages(rows: &[GenerationRow], threshold_ms: u64) -> u64 {
    pages_of(rows).saturating_sub(cold_pages(rows, threshold_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E22: cold at 8 s and more, and the working set within 8 s.
    #[test]
    fn e22_working_set_sizes() {
        let row = |seq, age_ms, anon_pages, file_pages| GenerationRow { seq, age_ms, anon_pages, file_pages };
        let rows = [row(4, 12_031, 1024, 9), row(5, 8020, 800, 12), row(6, 3011, 16_000, 96), row(7, 1002, 53_000, 0)];
        assert_eq!((cold_pages(&rows, 8000), working_set_pages(&rows, 8000)), (1845, 69_096));
        assert_eq!((cold_pages(&rows, 0), working_set_pages(&rows, 0)), (70_941, 0));
        assert_eq!((cold_pages(&rows, 8021), cold_pages(&rows, 20_000)), (1033, 0));
        assert_eq!((cold_pages(&[], 5), pages_of(&[])), (0, 0));
    }

    #[test]
    fn sums_saturate() {
        let row = GenerationRow { anon_pages: u64::MAX, file_pages: 7, ..GenerationRow::default() };
        assert_eq!((row.pages(), pages_of(&[row, row])), (u64::MAX, u64::MAX));
    }
}
