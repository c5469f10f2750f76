//! Accuracy of a monitor over a pattern: its regions against the pages that were really used.

use isotherm_guest::monitoring::{ARENA_PAGE, Region, Snapshot};
use isotherm_guest::patterns::Pattern;
use serde::{Deserialize, Serialize};

/// Intervals with which a pattern was watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Intervals {
    pub(super) sample_ns: u64,
    /// Samples an aggregation.
    pub(super) samples: u32,
}

/// Quality over the second half of a run. Shares from 0 to 1; only the arena counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    /// Snapshots judged.
    pub snapshots: u32,
    /// Pages used in at least half of the sampling intervals of an aggregation, against regions with as many positive samples.
    pub often: Detection,
    /// Pages used at all in an aggregation, against regions with a positive sample.
    pub seen: Detection,
    /// Mean number of regions, outside the arena too.
    pub regions: f64,
    /// Mean difference, page by page, between the share of sampling intervals with a use and the region's `nr_accesses` as a share of
    /// its most.
    pub nr_accesses_error: f64,
}

/// Detection, pages of all judged snapshots together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detection {
    /// Share of the pages called hot that are hot; 0 if none is called hot although some are. `None`: none is hot.
    pub precision: Option<f64>,
    /// Share of the hot pages that are called hot.
    pub recall: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    called: u64,
    right: u64,
    hot: u64,
}

impl Counts {
    fn add(&mut self, called: bool, hot: bool) {
        self.called += u64::from(called);
        self.right += u64::from(called && hot);
        self.hot += u64::from(hot);
    }

    fn detection(self) -> Detection {
        if self.hot == 0 {
            return Detection::default();
        }
        let precision = if self.called == 0 { 0.0 } else { self.right as f64 / self.called as f64 };
        Detection { precision: Some(precision), recall: Some(self.right as f64 / self.hot as f64) }
    }
}

/// Judges snapshots of the second half of `snapshots`. `passes_ns` are the starts of passes on the snapshots' clock.
pub(super) fn judge(pattern: &Pattern, passes_ns: &[u64], snapshots: &[Snapshot], intervals: Intervals) -> Scores {
    let judged = &snapshots[snapshots.len() / 2..];
    let half = intervals.samples.div_ceil(2);
    let (mut often, mut seen, mut regions, mut error) = (Counts::default(), Counts::default(), 0, 0u64);
    for snapshot in judged {
        let truth = uses(pattern, passes_ns, snapshot.at_ns, intervals);
        let stated = stated(pattern, &snapshot.regions);
        for (&truth, &stated) in truth.iter().zip(&stated) {
            often.add(stated >= half, truth >= half);
            seen.add(stated > 0, truth > 0);
            error += u64::from(truth.abs_diff(stated.min(intervals.samples)));
        }
        regions += snapshot.regions.len();
    }
    let nr = judged.len().max(1) as f64;
    Scores {
        snapshots: u32::try_from(judged.len()).unwrap_or(u32::MAX),
        often: often.detection(),
        seen: seen.detection(),
        regions: regions as f64 / nr,
        nr_accesses_error: error as f64 / nr / f64::from(pattern.pages) / f64::from(intervals.samples),
    }
}

/// Number of sampling intervals in which each page was used, in the aggregation that ended at `end_ns`.
fn uses(pattern: &Pattern, passes_ns: &[u64], end_ns: u64, intervals: Intervals) -> Vec<u32> {
    let mut counts = vec![0u32; pattern.pages as usize];
    // The interval that a page was last counted in, from 1.
    let mut counted = vec![0u32; pattern.pages as usize];
    for number in 1..=intervals.samples {
        // Nothing was sampled before the clock began.
        let before_end = u64::from(intervals.samples - number + 1) * intervals.sample_ns;
        let Some(begin) = end_ns.checked_sub(before_end) else { continue };
        let first = passes_ns.partition_point(|&at| at < begin);
        let last = passes_ns.partition_point(|&at| at < begin + intervals.sample_ns);
        for pass in first..last.max(first) {
            pattern.pass(pass as u64, |page, pages| {
                for page in page as usize..(page + pages) as usize {
                    if counted[page] != number {
                        counted[page] = number;
                        counts[page] += 1;
                    }
                }
            });
        }
    }
    counts
}

/// The regions' `nr_accesses` for each page of the arena; 0 without a region.
fn stated(pattern: &Pattern, regions: &[Region]) -> Vec<u32> {
    let mut stated = vec![0u32; pattern.pages as usize];
    let inside = |byte: u64| {
        let page = (byte >> 12).saturating_sub(ARENA_PAGE).min(u64::from(pattern.pages));
        usize::try_from(page).expect("fewer than 2^32")
    };
    for region in regions {
        stated[inside(region.start)..inside(region.end)].fill(region.nr_accesses);
    }
    stated
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_guest::patterns::{Motion, Part};

    const INTERVALS: Intervals = Intervals { sample_ns: 10, samples: 4 };

    fn region(start: u64, end: u64, nr_accesses: u32) -> Region {
        Region { start: (ARENA_PAGE + start) << 12, end: (ARENA_PAGE + end) << 12, nr_accesses, age: 0 }
    }

    /// Ten pages; 2 to 4 used in each pass, 6 and 7 in each third, a pass each 10 ns.
    fn case() -> (Pattern, Vec<u64>) {
        let part = |first, pages, passes| Part { first, pages, motion: Motion::Every { passes } };
        (Pattern { pages: 10, parts: vec![part(2, 3, 1), part(6, 2, 3)] }, (0..10).map(|pass| 5 + pass * 10).collect())
    }

    #[test]
    fn uses_by_hand() {
        let (pattern, passes) = case();
        // Passes 5 to 8; of these the sixth only touches 6 and 7.
        assert_eq!(uses(&pattern, &passes, 90, INTERVALS), [0, 0, 4, 4, 4, 0, 1, 1, 0, 0]);
        assert_eq!(uses(&pattern, &passes, 10, INTERVALS), [0, 0, 1, 1, 1, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn scores_by_hand() {
        let (pattern, passes) = case();
        let early = Snapshot { at_ns: 50, regions: Vec::new() };
        let outside = Region { start: 0, end: 4096, nr_accesses: 4, age: 0 };
        let late = Snapshot { at_ns: 90, regions: vec![outside, region(0, 3, 3), region(3, 5, 4), region(5, 10, 1)] };
        let scores = judge(&pattern, &passes, &[early, late], INTERVALS);
        // Called often: pages 0 to 4; hot are 2, 3, 4.
        assert_eq!(scores.often, Detection { precision: Some(0.6), recall: Some(1.0) });
        assert_eq!(scores.seen, Detection { precision: Some(0.5), recall: Some(1.0) });
        assert_eq!((scores.snapshots, scores.regions), (1, 4.0));
        // 3, 3 and 1 on pages 0 to 2, none on 3 and 4, then 1, 0, 0, 1, 1: ten of forty.
        assert!((scores.nr_accesses_error - 0.25).abs() < 1e-12, "{}", scores.nr_accesses_error);
    }

    #[test]
    fn nothing_hot_is_no_score() {
        let pattern = Pattern { pages: 4, parts: Vec::new() };
        let snapshot = Snapshot { at_ns: 90, regions: vec![region(0, 4, 4)] };
        let scores = judge(&pattern, &[], &[snapshot], INTERVALS);
        assert_eq!((scores.often, scores.seen), (Detection::default(), Detection::default()));
        assert!((scores.nr_accesses_error - 1.0).abs() < 1e-12);
    }
}
