//! How much memory was used within a window, from one reading of the generations.
//!
//! A walk finds pages that were used since the walk before, and leaves them in the generation that was the youngest until then. So with
//! walks at times `w3 < w2 < w1`, and generations made at these times, the one made at `w2` holds the pages last used between `w2` and
//! `w1`. A page's last use is known within one generation, and as of the last walk: later uses are seen by the next walk. The oldest
//! generation also holds what earlier ones held, so nothing is known beyond it.

use crate::vocabulary::{GenerationRow, pages_of};
use serde::Serialize;

/// Memory used within a window that ends at the last ageing. Pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// The window that was asked for, milliseconds.
    pub window_ms: u64,
    /// At least this many pages were used within the window.
    pub low_pages: u64,
    /// At most this many pages were used within the window.
    pub high_pages: u64,
    /// Pages used within [`reported_window_ms`](Self::reported_window_ms); 0 where that is `None`.
    pub pages: u64,
    /// The window closest to the requested one that begins with a generation; of two equally close windows, the longer. `None`: all that
    /// there is lies in the oldest generation or is too new.
    pub reported_window_ms: Option<u64>,
}

impl Estimate {
    /// The sum over groups: an estimate for all of them; `None` as soon as one has no estimate.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let reported = self.reported_window_ms.zip(other.reported_window_ms);
        Self {
            window_ms: self.window_ms.max(other.window_ms),
            low_pages: self.low_pages.saturating_add(other.low_pages),
            high_pages: self.high_pages.saturating_add(other.high_pages),
            pages: if reported.is_some() { self.pages.saturating_add(other.pages) } else { 0 },
            reported_window_ms: reported.map(|(one, other)| one.max(other)),
        }
    }
}

/// The estimate for a window from the rows of a group. Rows are oldest first, as they are read.
///
/// Uses through file descriptors are not in it: they move no page to a younger generation (docs/spec/mglru.md#s2-2).
pub fn estimate(rows: &[GenerationRow], window_ms: u64) -> Estimate {
    let total = pages_of(rows);
    let mut reported = Estimate { window_ms, high_pages: total, ..Estimate::default() };
    let Some(youngest) = rows.last() else { return reported };
    let (mut pages, mut age_before_ms) = (youngest.pages(), 0);
    reported.low_pages = pages;
    let mut is_above = false;
    // From the second youngest down to the second oldest: each closes a window.
    for row in rows.iter().rev().skip(1).take(rows.len().saturating_sub(2)) {
        pages = pages.saturating_add(row.pages());
        let age_ms = row.age_ms.saturating_sub(youngest.age_ms);
        // Generations made at one time, as the first four of a group are, cannot distinguish windows.
        if age_ms <= age_before_ms {
            continue;
        }
        age_before_ms = age_ms;
        if age_ms <= window_ms {
            reported.low_pages = pages;
        }
        if age_ms >= window_ms && !is_above {
            (reported.high_pages, is_above) = (pages, true);
        }
        let is_closer =
            reported.reported_window_ms.is_none_or(|best| best.abs_diff(window_ms) >= age_ms.abs_diff(window_ms));
        if is_closer {
            (reported.pages, reported.reported_window_ms) = (pages, Some(age_ms));
        }
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(u64, u64)]) -> Vec<GenerationRow> {
        let row = |(seq, &(age_ms, pages)): (u64, &(u64, u64))| GenerationRow {
            seq,
            age_ms,
            anon_pages: pages,
            file_pages: 0,
        };
        (0..).zip(rows).map(row).collect()
    }

    /// Walks each second, the last one 250 ms ago. 10 pages used in the last interval, 5 in the one before, 100 before that.
    #[test]
    fn windows_that_begin_with_a_generation_are_told_exactly() {
        let rows = rows(&[(3250, 100), (2250, 5), (1250, 10), (250, 0)]);
        let reported = |window_ms| {
            let Estimate { low_pages, high_pages, pages, reported_window_ms, .. } = estimate(&rows, window_ms);
            (low_pages, high_pages, pages, reported_window_ms)
        };
        assert_eq!(reported(1000), (10, 10, 10, Some(1000)));
        assert_eq!(reported(2000), (15, 15, 15, Some(2000)));
        assert_eq!(reported(1400), (10, 15, 10, Some(1000)), "between two generations");
        assert_eq!(reported(1500), (10, 15, 15, Some(2000)), "equally close: the longer window");
        assert_eq!(reported(400), (0, 10, 10, Some(1000)));
        assert_eq!(reported(9000), (15, 115, 15, Some(2000)), "the oldest generation has no beginning");
        assert_eq!(reported(0), (0, 10, 10, Some(1000)));
    }

    /// Pages faulted in since the walk are in use, too; with two types apart in age there may be three rows, or two.
    #[test]
    fn new_pages_and_few_generations() {
        assert_eq!(estimate(&rows(&[(2000, 50), (1000, 7), (0, 3)]), 1000).pages, 10);
        let two = estimate(&rows(&[(1000, 50), (0, 3)]), 1000);
        assert_eq!((two.low_pages, two.high_pages, two.reported_window_ms), (3, 53, None));
        assert_eq!(estimate(&[], 5), Estimate { window_ms: 5, ..Estimate::default() });
    }

    /// A new group has four generations of one age: before its first ageing nothing is known, after it one window.
    #[test]
    fn a_group_without_ageing_tells_nothing() {
        let before = estimate(&rows(&[(700, 0), (700, 0), (700, 40), (700, 0)]), 500);
        assert_eq!((before.low_pages, before.high_pages, before.reported_window_ms), (0, 40, None));
        let after = estimate(&rows(&[(1000, 2), (1000, 0), (1000, 40), (0, 0)]), 1000);
        assert_eq!((after.low_pages, after.high_pages, after.pages), (40, 40, 40));
    }

    #[test]
    fn groups_add_up() {
        let known = estimate(&rows(&[(2000, 50), (1000, 7), (0, 3)]), 1000);
        assert_eq!((known.plus(known).pages, known.plus(known).high_pages), (20, 20));
        let unknown = estimate(&rows(&[(1000, 50), (0, 3)]), 1000);
        assert_eq!((known.plus(unknown).reported_window_ms, known.plus(unknown).pages), (None, 0));
    }
}
