//! Accuracy of a monitor in finding hot memory: precision and recall, period by period.

use super::carried::Carried;
use super::hot::{HOT_DEFINITIONS, HotDefinition, WINDOWS};
use super::spans::{self, Window};
use super::touched::{Period, SharedTouched};
use isotherm_core::host::{AddressRange, TargetId};
use isotherm_core::monitor::Snapshot;
use isotherm_units::{Duration, PAGE_BYTES, PAGE_SHIFT, PageRange};
use serde::Serialize;
use std::collections::VecDeque;

/// Precision and recall from which on detection counts as good.
pub const GOOD: f64 = 0.9;

/// Detection by one definition against one truth: means over the periods of the second half of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Detection {
    /// Share of the bytes called hot that are hot; 0 in periods in which no byte is called hot although some are.
    pub precision: f64,
    /// Share of the hot bytes that are called hot.
    pub recall: f64,
    /// Harmonic mean of the two, taken in each period.
    pub f1: f64,
}

impl Detection {
    /// Whether precision and recall are both at least 0.9.
    pub fn is_good(&self) -> bool {
        self.precision >= GOOD && self.recall >= GOOD
    }
}

/// Accuracy of detection by one definition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DefinitionScore {
    /// The rule by which a region counts as hot.
    pub definition: HotDefinition,
    /// Score against the pages that were really used in each period.
    pub accessed: Detection,
    /// Score against the hot set that the workload states, if it states one. A page of the stated hot set that happens not to be used in a
    /// period counts as hot all the same.
    pub stated: Option<Detection>,
}

impl DefinitionScore {
    /// The score against the stated hot set of the workload, if it has one, else against the pages used.
    pub fn main(&self) -> Detection {
        self.stated.unwrap_or(self.accessed)
    }
}

/// How accurate a monitor was in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Length of a period: one second, less for short runs.
    pub period_ns: u64,
    /// Periods judged: periods of the second half that were watched from end to end and in which some memory was hot.
    pub periods: u64,
    /// One score for each of [`HOT_DEFINITIONS`], in their order.
    pub definitions: Vec<DefinitionScore>,
    /// When precision and recall (`author`, [`DefinitionScore::main`]'s truth) were first both 0.9 and more and stayed so for a
    /// period: the time of the start of that stretch, from the start of the run. Checked after each aggregation if the hot set
    /// is stated, else after each period. `None`: never.
    pub converge_ns: Option<u64>,
    /// Mean difference between the frequency that the monitor states for a page (`nr_accesses` as a share of all samples) and the share of
    /// sampling intervals in which it was used; over pages that were used in the period, 0 to 1. In large spaces it is computed over an
    /// even sample of pages. `None` if none was.
    pub nr_accesses_error: Option<f64>,
}

impl Scores {
    /// The scores of `definition`.
    pub fn of(&self, definition: HotDefinition) -> &DefinitionScore {
        let index = HOT_DEFINITIONS.iter().position(|known| *known == definition).expect("all are listed");
        &self.definitions[index]
    }
}

/// Ground truth of a target.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    /// Pages used.
    pub(super) touched: SharedTouched,
    /// The hot set in bytes, if the workload has one that stays.
    pub(super) stated: Option<Vec<AddressRange>>,
}

/// Bytes found, found rightly, and to be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    called: u64,
    right: u64,
    hot: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.called += other.called;
        self.right += other.right;
        self.hot += other.hot;
    }

    /// `None` if there is nothing hot to find.
    fn detection(self) -> Option<Detection> {
        if self.hot == 0 {
            return None;
        }
        let precision = if self.called == 0 { 0.0 } else { self.right as f64 / self.called as f64 };
        let recall = self.right as f64 / self.hot as f64;
        let sum = precision + recall;
        Some(Detection { precision, recall, f1: if sum == 0.0 { 0.0 } else { 2.0 * precision * recall / sum } })
    }
}

/// One judged period.
#[derive(Clone, Debug)]
struct Judged {
    number: u64,
    accessed: [Counts; HOT_DEFINITIONS.len()],
    stated: Option<[Counts; HOT_DEFINITIONS.len()]>,
    /// Sum of differences in millionths, and pages.
    error: (u64, u64),
}

/// Judges a monitor while it runs.
#[derive(Debug)]
pub(super) struct Scorer {
    period_ns: u64,
    targets: Vec<Truth>,
    /// The last aggregations of each target.
    windows: Vec<VecDeque<Window>>,
    /// Carried aggregations of each target, once it is known how many make a period.
    carried: Vec<Carried>,
    /// Aggregations of the current period, and the time that they cover.
    in_period: usize,
    covered_ns: u64,
    number: u64,
    judged: Vec<Judged>,
    convergence: Convergence,
    last_ns: u64,
}

impl Scorer {
    pub(super) fn new(period: Duration, targets: Vec<Truth>) -> Self {
        let windows = targets.iter().map(|_| VecDeque::new()).collect();
        Self {
            period_ns: period.ns(),
            targets,
            windows,
            carried: Vec::new(),
            in_period: 0,
            covered_ns: 0,
            number: 0,
            judged: Vec::new(),
            convergence: Convergence::default(),
            last_ns: 0,
        }
    }

    fn is_stated(&self) -> bool {
        self.targets.iter().all(|truth| truth.stated.is_some())
    }

    /// Takes in the aggregation that has just ended. It belongs to the period that contains its middle.
    pub(super) fn add(&mut self, snapshot: &Snapshot) {
        let (at_ns, elapsed_ns) = (snapshot.at.ns(), snapshot.elapsed.ns());
        let number = (at_ns - elapsed_ns / 2) / self.period_ns;
        if number != self.number {
            self.judge();
            self.number = number;
        }
        let nr_wanted = usize::try_from(self.period_ns / snapshot.aggr_interval.ns().max(1)).unwrap_or(1).max(1);
        self.carried.resize_with(self.targets.len(), || Carried::new(nr_wanted));
        for (index, windows) in self.windows.iter_mut().enumerate() {
            let id = TargetId(u32::try_from(index).expect("few targets"));
            let place = snapshot.targets.iter().find(|(target, _)| *target == id).map(|(_, place)| place.clone());
            // A target that has ended has no regions.
            let regions = place.map(|place| snapshot.regions[place].to_vec()).unwrap_or_default();
            windows.push_back(Window {
                sums: self.carried[index].push(&regions),
                regions,
                nr_accesses_max: snapshot.nr_accesses_max,
                aggr_ns: snapshot.aggr_interval.ns(),
            });
        }
        self.in_period += 1;
        self.covered_ns += elapsed_ns;
        self.last_ns = at_ns;
        if self.is_stated() {
            let counts = self.count(HotDefinition::Author, nr_wanted, stated_counts);
            self.convergence.note(at_ns, self.period_ns, counts.detection());
        }
        let keep = (WINDOWS + 1).max(nr_wanted).max(self.in_period);
        for windows in &mut self.windows {
            while windows.len() > keep {
                windows.pop_front();
            }
        }
    }

    fn count(
        &mut self,
        definition: HotDefinition,
        in_period: usize,
        of: impl Fn(&Truth, &[AddressRange]) -> Counts,
    ) -> Counts {
        let mut counts = Counts::default();
        for (truth, windows) in self.targets.iter().zip(&mut self.windows) {
            let hot = definition.hot(windows.make_contiguous(), in_period, self.period_ns);
            counts.add(of(truth, &hot));
        }
        counts
    }

    /// Judges the current period, if it was watched to within one aggregation.
    fn judge(&mut self) {
        let in_period = std::mem::take(&mut self.in_period);
        let covered_ns = std::mem::take(&mut self.covered_ns);
        let number = self.number;
        let periods: Vec<Period> = self.targets.iter().map(|truth| truth.touched.lock().take(number)).collect();
        let one_ns = covered_ns / (in_period as u64).max(1);
        if in_period > 0 && covered_ns + one_ns / 2 >= self.period_ns {
            self.judge_period(number, in_period, &periods);
        }
        for (truth, period) in self.targets.iter().zip(periods) {
            truth.touched.lock().recycle(period);
        }
    }

    fn judge_period(&mut self, number: u64, in_period: usize, periods: &[Period]) {
        let is_stated = self.is_stated();
        let mut judged =
            Judged { number, accessed: Default::default(), stated: is_stated.then(Default::default), error: (0, 0) };
        let used: Vec<u64> = periods.iter().map(|period| period.pages.len() * PAGE_BYTES).collect();
        for (target, windows) in self.windows.iter_mut().enumerate() {
            let windows = &*windows.make_contiguous();
            for (slot, definition) in HOT_DEFINITIONS.iter().enumerate() {
                let hot = definition.hot(windows, in_period, self.period_ns);
                let right = hot.iter().map(|range| periods[target].pages.count_in(pages_of(*range)) * PAGE_BYTES).sum();
                judged.accessed[slot].add(Counts { called: spans::len(&hot), right, hot: used[target] });
                if let Some(stated) = &mut judged.stated {
                    stated[slot].add(stated_counts(&self.targets[target], &hot));
                }
            }
            let (sum, pages) = error_of(&windows[windows.len() - in_period..], &periods[target]);
            judged.error = (judged.error.0 + sum, judged.error.1 + pages);
        }
        if !is_stated {
            let end_ns = (number + 1) * self.period_ns;
            self.convergence.note(end_ns, 0, judged.accessed[0].detection());
        }
        self.judged.push(judged);
    }

    /// The scores.
    pub(super) fn finish(mut self) -> Scores {
        self.judge();
        let half_ns = self.last_ns / 2;
        let late: Vec<&Judged> =
            self.judged.iter().filter(|judged| judged.number * self.period_ns >= half_ns).collect();
        let definitions = HOT_DEFINITIONS.iter().enumerate().map(|(slot, &definition)| DefinitionScore {
            definition,
            accessed: mean(late.iter().filter_map(|judged| judged.accessed[slot].detection())),
            stated: self
                .is_stated()
                .then(|| mean(late.iter().filter_map(|judged| judged.stated.as_ref()?[slot].detection()))),
        });
        let (sum, pages) =
            late.iter().fold((0, 0), |(sum, pages), judged| (sum + judged.error.0, pages + judged.error.1));
        Scores {
            period_ns: self.period_ns,
            periods: late.iter().filter(|judged| judged.accessed[0].hot > 0).count() as u64,
            definitions: definitions.collect(),
            converge_ns: self.convergence.reached_ns,
            nr_accesses_error: (pages > 0).then(|| sum as f64 / pages as f64 / 1e6),
        }
    }
}

/// All zero where no period was judged.
fn mean(of: impl Iterator<Item = Detection>) -> Detection {
    let (mut sum, mut count) = (Detection { precision: 0.0, recall: 0.0, f1: 0.0 }, 0u32);
    for one in of {
        sum.precision += one.precision;
        sum.recall += one.recall;
        sum.f1 += one.f1;
        count += 1;
    }
    let count = f64::from(count.max(1));
    Detection { precision: sum.precision / count, recall: sum.recall / count, f1: sum.f1 / count }
}

fn stated_counts(truth: &Truth, hot: &[AddressRange]) -> Counts {
    let stated = truth.stated.as_deref().unwrap_or_default();
    Counts { called: spans::len(hot), right: spans::len(&spans::intersection(hot, stated)), hot: spans::len(stated) }
}

/// Whole pages of a range: regions begin and end on their borders.
fn pages_of(range: AddressRange) -> PageRange {
    PageRange::new(range.start >> PAGE_SHIFT, range.end >> PAGE_SHIFT)
}

/// Differences between stated and true frequency in millionths, summed over the counted pages of `period`, and their number.
fn error_of(windows: &[Window], period: &Period) -> (u64, u64) {
    let mut stated: Vec<(AddressRange, u64)> = Vec::new();
    spans::sums(windows, |_, region| u64::from(region.nr_accesses), |range, sum| stated.push((range, sum)));
    let samples: u64 = windows.iter().map(|window| u64::from(window.nr_accesses_max)).sum();
    let (mut sum, mut pages) = (0, 0);
    for (page, intervals) in period.uses() {
        let address = page << PAGE_SHIFT;
        let after = stated.partition_point(|(range, _)| range.start <= address);
        let here = stated[..after].last().filter(|(range, _)| address < range.end);
        let stated = here.map_or(0, |(_, sum)| sum * 1_000_000 / samples.max(1));
        let truth = (u64::from(intervals) * 1_000_000 / samples.max(1)).min(1_000_000);
        sum += stated.abs_diff(truth);
        pages += 1;
    }
    (sum, pages)
}

/// Time at which detection became good enough.
#[derive(Clone, Copy, Debug, Default)]
struct Convergence {
    good_since_ns: Option<u64>,
    reached_ns: Option<u64>,
}

impl Convergence {
    /// Detection as of `at_ns`; it must have been good for `hold_ns`.
    fn note(&mut self, at_ns: u64, hold_ns: u64, detection: Option<Detection>) {
        if !detection.is_some_and(|detection| detection.is_good()) {
            self.good_since_ns = None;
            return;
        }
        let since_ns = *self.good_since_ns.get_or_insert(at_ns);
        if at_ns - since_ns >= hold_ns {
            self.reached_ns.get_or_insert(since_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitoring::touched::{NotedStream, Noting};
    use isotherm_core::monitor::RegionRecord;
    use isotherm_units::Instant;
    use isotherm_units::access::{After, Batch, Run, Stream, StreamError};

    const PAGE: u64 = PAGE_BYTES;

    /// Returns one run.
    struct Once(Run);

    impl Stream for Once {
        fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
            batch.runs.push(self.0);
            Ok(After::Continue)
        }
    }

    fn snapshot(number: u64, regions: &[(u64, u64, u32)]) -> Snapshot {
        let regions: Vec<RegionRecord> = regions
            .iter()
            .map(|&(start, end, nr_accesses)| RegionRecord {
                range: AddressRange::new(start * PAGE, end * PAGE),
                nr_accesses,
                ..RegionRecord::default()
            })
            .collect();
        Snapshot {
            at: Instant::from_ns(number * 500_000_000),
            number,
            sample_interval: Duration::from_ms(50),
            aggr_interval: Duration::from_ms(500),
            nr_accesses_max: 10,
            elapsed: Duration::from_ms(500),
            targets: vec![(TargetId(0), 0..regions.len())],
            regions,
            ..Snapshot::default()
        }
    }

    /// Two seconds of one process that uses pages 0 to 9 of 0 to 99.
    fn scorer(stated: Option<Vec<AddressRange>>) -> Scorer {
        let noting = Noting { period_ns: 1_000_000_000, sample_ns: 50_000_000, page_ns: 0, mapped_pages: 100 };
        let touched = SharedTouched::new(noting);
        let mut stream = NotedStream { stream: Box::new(Once(Run::read(0, 10))), touched: touched.clone() };
        for tick in 0..40 {
            stream.next_batch(Instant::from_ns(tick * 50_000_000), &mut Batch::default()).unwrap();
        }
        Scorer::new(Duration::from_secs(1), vec![Truth { touched, stated }])
    }

    #[test]
    fn scores_by_hand() {
        let mut scorer = scorer(None);
        for number in 1..=4 {
            // 20 pages called hot, 8 of them used.
            scorer.add(&snapshot(number, &[(0, 2, 0), (2, 22, 10), (22, 100, 0)]));
        }
        let scores = scorer.finish();
        assert_eq!((scores.period_ns, scores.periods), (1_000_000_000, 1), "the second of two");
        let author = scores.of(HotDefinition::Author);
        assert_eq!((author.accessed.precision, author.accessed.recall, author.stated), (0.4, 0.8, None));
        assert!((author.accessed.f1 - 0.64 / 1.2).abs() < 1e-12);
        assert_eq!(scores.of(HotDefinition::Recent).accessed.recall, 1.0, "nothing has been idle for long");
        assert_eq!(scores.converge_ns, None);
        // Two used pages are stated never used, eight rightly always.
        assert_eq!(scores.nr_accesses_error, Some(0.2));
    }

    #[test]
    fn the_stated_truth_is_looked_at_after_each_aggregation() {
        let mut scorer = scorer(Some(vec![AddressRange::new(0, 10 * PAGE)]));
        scorer.add(&snapshot(1, &[(0, 100, 10)]));
        for number in 2..=6 {
            scorer.add(&snapshot(number, &[(0, 10, 10), (10, 100, 0)]));
        }
        let scores = scorer.finish();
        assert_eq!(
            scores.converge_ns,
            Some(1_500_000_000),
            "when the first aggregation is out of the second looked at"
        );
        assert!(scores.of(HotDefinition::Author).main().is_good());
    }

    #[test]
    fn nothing_called_hot_is_no_precision() {
        assert_eq!(Counts { called: 0, right: 0, hot: 5 }.detection().unwrap().precision, 0.0);
        assert_eq!(Counts { called: 5, right: 0, hot: 0 }.detection(), None);
    }
}
