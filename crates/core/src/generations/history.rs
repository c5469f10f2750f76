//! Bounds from earlier readings, for windows that reach further back than the four generations there are.
//!
//! The oldest generation swallows the one before it at each ageing. Pages idle for longer than its age were in it at earlier readings, too,
//! so its smallest size since then is the upper bound. Of the pages it holds now, only pages that it swallowed since can be younger: the
//! rest is the lower bound.

use crate::vocabulary::{GenerationRow, pages_of};
use isotherm_units::Instant;
use serde::Serialize;
use std::collections::VecDeque;

/// How much memory was idle for a window and longer, at the last ageing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ColdBounds {
    /// Lower bound. Pages that enter the oldest generation from outside, read or written through descriptors, count as if they
    /// had been there.
    pub at_least_pages: u64,
    /// Upper bound; all there is, where readings do not reach back far enough.
    pub at_most_pages: u64,
}

/// One reading.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// When its youngest generation was made, by the tool's clock.
    as_of_ms: u64,
    max_seq: u64,
    total: u64,
    oldest: u64,
    /// Age of the oldest generation: its pages were not used for this time.
    reach_ms: u64,
}

/// The last readings of one group on one node.
#[derive(Clone, Debug)]
pub struct History {
    samples: VecDeque<Sample>,
    most: usize,
}

impl History {
    /// Keeps `most` readings, one at least.
    pub fn new(most: usize) -> Self {
        Self { samples: VecDeque::new(), most: most.max(1) }
    }

    /// Takes in the rows that were read at `now`. A group with fewer than two generations gives no information. A group whose numbers went
    /// back is another one: its history is forgotten.
    pub fn push(&mut self, now: Instant, rows: &[GenerationRow]) {
        let [oldest, second, ..] = rows else { return };
        let youngest = rows.last().expect("two at least");
        if self.samples.back().is_some_and(|last| last.max_seq > youngest.seq) {
            self.samples.clear();
        }
        if self.samples.len() == self.most {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            as_of_ms: (now.ns() / 1_000_000).saturating_sub(youngest.age_ms),
            max_seq: youngest.seq,
            total: pages_of(rows),
            oldest: oldest.pages(),
            // Used last before the next generation was made.
            reach_ms: second.age_ms.saturating_sub(youngest.age_ms),
        });
    }

    /// Memory idle for `window_ms` and longer as of the last ageing; `None` before the first reading.
    pub fn cold_bounds(&self, window_ms: u64) -> Option<ColdBounds> {
        let last = self.samples.back()?;
        // Cold is what was not used after this moment.
        let since_ms = i128::from(last.as_of_ms) - i128::from(window_ms);
        let (mut at_least, mut at_most) = (0, last.total);
        let mut swallowed = 0u64;
        for (index, sample) in self.samples.iter().enumerate().rev() {
            let idle_ms = i128::from(sample.as_of_ms) - since_ms;
            let reach_ms = i128::from(sample.reach_ms);
            if idle_ms >= reach_ms {
                at_most = at_most.min(sample.oldest);
            }
            if idle_ms <= reach_ms {
                at_least = at_least.max(last.oldest.saturating_sub(swallowed));
            }
            // What the oldest generation can have swallowed since the reading before.
            if let Some(before) = index.checked_sub(1).map(|before| self.samples[before])
                && before.max_seq < sample.max_seq
            {
                swallowed = swallowed.saturating_add(before.total.saturating_sub(before.oldest));
            }
        }
        Some(ColdBounds { at_least_pages: at_least.min(at_most), at_most_pages: at_most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks each second; pages of rows oldest first.
    fn sample(history: &mut History, second: u64, pages: [u64; 4]) {
        let rows: Vec<GenerationRow> = (0..4u64)
            .zip(pages)
            .map(|(index, anon_pages)| GenerationRow {
                seq: second + index,
                age_ms: (3 - index) * 1000,
                anon_pages,
                file_pages: 0,
            })
            .collect();
        history.push(Instant::from_ns(second * 1_000_000_000), &rows);
    }

    /// 100 unused pages, 10 that are used each second, and 7 used in second 1 alone.
    #[test]
    fn longer_windows_are_bounded_by_earlier_looks() {
        let mut history = History::new(10);
        assert_eq!(history.cold_bounds(1000), None);
        sample(&mut history, 1, [100, 0, 17, 0]);
        sample(&mut history, 2, [100, 7, 10, 0]);
        sample(&mut history, 3, [107, 0, 10, 0]);
        let bounds = |history: &History, window_ms| {
            let ColdBounds { at_least_pages, at_most_pages } = history.cold_bounds(window_ms).expect("looks");
            (at_least_pages, at_most_pages)
        };
        assert_eq!(bounds(&history, 2000), (107, 107), "as the rows tell");
        assert_eq!(bounds(&history, 3000), (90, 100), "at least 107 less the 17 that were younger in second 2");
        sample(&mut history, 4, [107, 0, 10, 0]);
        sample(&mut history, 5, [107, 0, 10, 0]);
        assert_eq!(bounds(&history, 4000), (87, 107), "107 less twice 10; the 7 were in it, too, two looks ago");
        assert_eq!(bounds(&history, 5000).1, 100, "but not three looks ago");
        // True are 107 for 4 s and 100 for 5 s.
        assert_eq!(bounds(&history, 60_000), (0, 100), "further back than it was looked at");
    }

    #[test]
    fn eviction_and_a_new_group_are_noticed() {
        let mut history = History::new(3);
        sample(&mut history, 5, [100, 0, 10, 0]);
        sample(&mut history, 6, [20, 0, 10, 0]);
        assert_eq!(history.cold_bounds(3000).map(|bounds| bounds.at_most_pages), Some(20));
        sample(&mut history, 2, [50, 0, 10, 0]);
        assert_eq!(history.cold_bounds(3000).map(|bounds| bounds.at_most_pages), Some(50), "forgotten");
        (3..9).for_each(|second| sample(&mut history, second, [50, 0, 10, 0]));
        assert_eq!(history.samples.len(), 3);
    }
}
