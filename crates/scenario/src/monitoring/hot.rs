//! Definitions of hot, by which detection is judged.

use super::spans::{self, Window};
use isotherm_core::host::AddressRange;
use serde::Serialize;

/// The rule by which a region counts as hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HotDefinition {
    /// The region's counts of the last second add up to more than 5: the count of the author of page-table profiling. The counts are the
    /// region's, carried through splits and merges like all counters of a region in the monitor: merges cut means down to whole numbers.
    Author,
    /// The same for each byte: counts of all regions that held it, so that merges lose nothing.
    AuthorBytes,
    /// Every sample of the last aggregation found it used.
    Strict,
    /// At least one of the last 11 aggregations found it used: a definition asked for by a reviewer of the patches.
    Recent,
    /// `Author`, and its count has stayed similar for more than 10 aggregations.
    Stable,
    /// The region's priority as a hot region in DAMON's schemes, with frequency and age weighed alike, is 50 or more of 99.
    Score,
}

/// All definitions, in the order of results.
pub const HOT_DEFINITIONS: [HotDefinition; 6] = [
    HotDefinition::Author,
    HotDefinition::AuthorBytes,
    HotDefinition::Strict,
    HotDefinition::Recent,
    HotDefinition::Stable,
    HotDefinition::Score,
];

/// Samples a second that `author` must exceed.
const AUTHOR_SAMPLES: u64 = 5;
/// Aggregations without a use after which `recent` gives up a region, and age from which `stable` believes it: both mean "more than".
pub(super) const WINDOWS: usize = 10;
const SCORE_MIN: u64 = 50;

impl HotDefinition {
    /// Name in results and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Author => "author",
            Self::AuthorBytes => "author-bytes",
            Self::Strict => "strict",
            Self::Recent => "recent",
            Self::Stable => "stable",
            Self::Score => "score",
        }
    }

    /// The byte ranges that are hot, ascending and disjoint. `windows` are the last aggregations, oldest first; the last
    /// `in_period` of them make up the period of `period_ns`.
    pub(super) fn hot(self, windows: &[Window], in_period: usize, period_ns: u64) -> Vec<AddressRange> {
        let Some(last) = windows.last() else { return Vec::new() };
        let now = std::slice::from_ref(last);
        match self {
            Self::Author => author(last, period_ns),
            Self::AuthorBytes => {
                let period = &windows[windows.len().saturating_sub(in_period)..];
                spans::of(period, |_, region| u64::from(region.nr_accesses), |sum| is_many(sum, period_ns))
            }
            Self::Strict => {
                spans::of(now, |window, region| u64::from(region.nr_accesses >= window.nr_accesses_max), |sum| sum > 0)
            }
            Self::Recent if windows.len() <= WINDOWS => spans::of(now, |_, _| 1, |_| true),
            Self::Recent => {
                let recent = &windows[windows.len() - WINDOWS - 1..];
                spans::of(recent, |_, region| u64::from(region.nr_accesses > 0), |sum| sum > 0)
            }
            Self::Stable => {
                let old = spans::of(now, |_, region| u64::from(region.age as usize > WINDOWS), |sum| sum > 0);
                spans::intersection(&author(last, period_ns), &old)
            }
            Self::Score => spans::of(
                now,
                |window, region| hot_score(region.nr_accesses, window.nr_accesses_max, region.age, window.aggr_ns),
                |score| score >= SCORE_MIN,
            ),
        }
    }
}

fn author(last: &Window, period_ns: u64) -> Vec<AddressRange> {
    let hot = last.regions.iter().zip(&last.sums).filter(|(_, sum)| is_many(**sum, period_ns));
    hot.map(|(region, _)| region.range).collect()
}

/// "More than 5 in a second", also where a period is not a second.
fn is_many(sum: u64, period_ns: u64) -> bool {
    sum * 1_000_000_000 > AUTHOR_SAMPLES * period_ns
}

/// Priority of a region where hot ones come first, 0 to 99, with equal weights. All divisions truncate, in this order.
/// Source: Linux 7.2 `mm/damon/ops-common.c`, `damon_hot_score`.
fn hot_score(nr_accesses: u32, nr_accesses_max: u32, age: u32, aggr_ns: u64) -> u64 {
    let frequency = u64::from(nr_accesses) * 100 / u64::from(nr_accesses_max.max(1));
    let seconds = u64::from(age).saturating_mul(aggr_ns) / 1_000_000_000;
    let log = u64::from(64 - seconds.leading_zeros()).min(32);
    let aged = if frequency == 0 { 32 - log } else { 32 + log };
    ((frequency + aged * 100 / 32 / 2) / 2 * 99 / 100).min(99)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::monitor::RegionRecord;

    /// docs/spec/schemes.md#s15, examples 20 and 21: 20 samples of 5 ms.
    #[test]
    fn scores_by_hand() {
        let table = [(20, 0, 74), (10, 0, 49), (10, 100, 52), (20, 1200, 79)];
        let idle = [(0, 0, 24), (0, 10, 23), (0, 50, 21), (0, 1200, 18), (0, 36_000, 14)];
        for (nr_accesses, age, expected) in table.into_iter().chain(idle) {
            assert_eq!(hot_score(nr_accesses, 20, age, 100_000_000), expected, "{nr_accesses} age {age}");
        }
    }

    fn window(regions: &[(u64, u64, u32, u32)]) -> Window {
        let regions = regions.iter().map(|&(start, end, nr_accesses, age)| RegionRecord {
            range: AddressRange::new(start, end),
            nr_accesses,
            age,
            ..RegionRecord::default()
        });
        Window { regions: regions.collect(), sums: Vec::new(), nr_accesses_max: 40, aggr_ns: 200_000_000 }
    }

    #[test]
    fn definitions_by_hand() {
        // Five aggregations of 200 ms; the border between the two regions moves in the last.
        let mut windows = vec![window(&[(0, 100, 1, 3), (100, 200, 0, 12)]); 4];
        windows.push(window(&[(0, 60, 2, 11), (60, 150, 40, 0), (150, 200, 0, 13)]));
        // Carried: 60-150 was 1 on 40 bytes of 90, which is 0.
        windows[4].sums = vec![6, 40, 0];
        let hot = |definition: HotDefinition| {
            let ranges = definition.hot(&windows, 5, 1_000_000_000);
            ranges.into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        // By bytes: 0-60 is 6, 60-100 is 44, 100-150 is 40, 150-200 is 0.
        assert_eq!(hot(HotDefinition::AuthorBytes), [(0, 150)]);
        assert_eq!(hot(HotDefinition::Author), [(0, 60), (60, 150)]);
        assert_eq!(hot(HotDefinition::Strict), [(60, 150)]);
        assert_eq!(hot(HotDefinition::Recent), [(0, 200)], "nobody can have been idle for more than ten aggregations");
        assert_eq!(hot(HotDefinition::Stable), [(0, 60)]);
        assert_eq!(hot(HotDefinition::Score), [(60, 150)]);
        let idle = vec![window(&[(0, 100, 0, 20)]); 11];
        assert_eq!(HotDefinition::Recent.hot(&idle, 5, 1_000_000_000), []);
        let mut lucky = idle.clone();
        lucky[0].regions[0].nr_accesses = 1;
        assert_eq!(HotDefinition::Recent.hot(&lucky, 5, 1_000_000_000), [AddressRange::new(0, 100)]);
    }
}
