//! Expected results of a configuration at a size: intervals over chance, widened by the model's error.

use super::calibration::ModelError;
use super::run::{Run, ppm};
use serde::Serialize;

/// A count or ratio over replays, with an interval that is meant to hold outcomes, not their mean. For counts, 2.5 of 100 outcomes are
/// expected beyond each end; for ratios of run times, 5 beyond the upper end, which alone decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// Median of the replays of a first start, in which the program reads its files as it did when it was recorded.
    pub median: u64,
    /// Lower end: chance and the model's error.
    pub low: u64,
    /// Upper end: chance and the model's error.
    pub high: u64,
    /// Lower end by chance only.
    pub chance_low: u64,
    /// Upper end by chance only.
    pub chance_high: u64,
}

/// Share of outcomes that an end leaves out, in thousandths: 2.5 % on each side.
const TAIL_PERMIL: usize = 25;
/// Share that the upper end of a runtime leaves out: 5 % on the one side that matters.
const SLOW_TAIL_PERMIL: usize = 50;

impl Interval {
    /// The range by chance only: of few replays the least and the most; of 40 and more, one in 40 is left out on each side.
    pub(super) fn of_chance(values: &mut [u64]) -> Option<Self> {
        values.sort_unstable();
        let last = values.len().checked_sub(1)?;
        let out = values.len() * TAIL_PERMIL / 1000;
        let (low, high) = (values[out], values[last - out]);
        let median = values[last / 2].midpoint(values[values.len() / 2]);
        Some(Self { median, low, high, chance_low: low, chance_high: high })
    }

    /// The range by chance of a figure over replays, which holds that of first starts and that of restarts.
    pub(super) fn of_runs(runs: &[&Run], figure: impl Fn(&Run) -> u64) -> Option<Self> {
        let of = |kind: Vec<&Run>| Self::of_chance(&mut kind.into_iter().map(&figure).collect::<Vec<_>>());
        let hold = |all: Self, one: Self| {
            let (low, high) = (all.low.min(one.low), all.high.max(one.high));
            Self { median: all.median, low, high, chance_low: low, chance_high: high }
        };
        kinds(runs).into_iter().filter_map(of).reduce(hold)
    }
}

/// Replays of first starts and of restarts, which are judged by themselves. None is empty.
pub(super) fn kinds<'r>(runs: &[&'r Run]) -> Vec<Vec<&'r Run>> {
    let (warm, cold): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| run.is_warm);
    [cold, warm].into_iter().filter(|kind| !kind.is_empty()).collect()
}

/// The value that 95 of 100 of these values do not exceed: of fewer than 20, the largest. 0 of none.
fn at_most_95(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.len().checked_sub(1 + values.len() * SLOW_TAIL_PERMIL / 1000).map_or(0, |rank| values[rank])
}

/// The largest of these values. 0 of none.
fn at_most(values: &mut [u64]) -> u64 {
    values.iter().copied().max().unwrap_or(0)
}

/// Outcomes that fall into two groups with nothing in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gamble {
    /// Major faults in a good outcome: middle of the lower group.
    pub good_faults: u64,
    /// Major faults in a bad outcome: middle of the upper group.
    pub bad_faults: u64,
    /// Share of replays in the upper group, in millionths.
    pub bad_share_ppm: u64,
}

/// Least gap between two groups, in percent of the lower side.
const GAP_PERCENT: u64 = 150;
/// Least gap between two groups, in faults.
const GAP_FAULTS: u64 = 500;
/// Least number of replays in each group.
const GROUP_MIN: usize = 2;

impl Gamble {
    /// Whether the outcomes of replays are two groups that do not follow from their limits. If all with more memory go well and all with
    /// less go badly, it is a cliff and no gamble.
    pub(super) fn of(runs: &[&Run]) -> Option<Self> {
        let mut sorted: Vec<(u64, u64)> = runs.iter().map(|run| (run.major_faults, run.limit.get())).collect();
        sorted.sort_unstable();
        if sorted.len() < 2 * GROUP_MIN {
            return None;
        }
        let wide = |&place: &usize| {
            let (below, above) = (sorted[place - 1].0, sorted[place].0);
            above - below >= GAP_FAULTS.max(below.saturating_mul(GAP_PERCENT) / 100)
        };
        let cut = (GROUP_MIN..=sorted.len() - GROUP_MIN)
            .filter(wide)
            .max_by_key(|&place| sorted[place].0 - sorted[place - 1].0)?;
        let (good, bad) = sorted.split_at(cut);
        // Bad outcomes with more memory than good ones had: two such pairs at least, or it may be the step itself.
        let mut bad_limits: Vec<u64> = bad.iter().map(|&(_, limit)| limit).collect();
        let mut good_limits: Vec<u64> = good.iter().map(|&(_, limit)| limit).collect();
        bad_limits.sort_unstable_by(|one, other| other.cmp(one));
        good_limits.sort_unstable();
        if bad_limits[GROUP_MIN - 1] <= good_limits[GROUP_MIN - 1] {
            return None;
        }
        let middle = |group: &[(u64, u64)]| group[group.len() / 2].0;
        Some(Self {
            good_faults: middle(good),
            bad_faults: middle(bad),
            bad_share_ppm: ppm(bad.len() as u64, sorted.len() as u64).unwrap_or(0),
        })
    }
}

/// Expected results of a configuration at a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// Number of replays behind the figures.
    pub(super) n: usize,
    /// Replays that did not finish.
    pub(super) unfinished: usize,
    /// Major faults.
    pub(super) faults: Interval,
    /// Runtime against unlimited memory, in millionths; `None` if a replay did not finish.
    pub(super) ratio: Option<Interval>,
    /// The two groups of outcomes, if there are two.
    pub(super) gamble: Option<Gamble>,
}

impl Expected {
    /// The interval from the replays around a size. `error` is the model's, where it is known; a fault that the model may have missed costs
    /// `fault_ppm` millionths of the runtime with unlimited memory, times a million.
    pub(super) fn of(runs: &[&Run], error: Option<&ModelError>, fault_cost: FaultCost) -> Option<Self> {
        let mut faults = Interval::of_runs(runs, |run| run.major_faults)?;
        let gambles = kinds(runs).into_iter().filter_map(|kind| Gamble::of(&kind));
        let gamble = gambles.max_by_key(|gamble| gamble.bad_faults);
        // The bad outcomes of a gamble decide, however few.
        let of_kind = if gamble.is_some() { at_most } else { at_most_95 };
        let upper_end = |figure: &dyn Fn(&Run) -> u64| {
            let ends =
                kinds(runs).into_iter().map(|kind| of_kind(&mut kind.into_iter().map(figure).collect::<Vec<_>>()));
            ends.max().unwrap_or(0)
        };
        let slow = |run: &Run| run.ratio_ppm.unwrap_or(u64::MAX);
        let have_finished = runs.iter().all(|run| run.ratio_ppm.is_some());
        let mut ratio = Interval::of_runs(runs, slow).filter(|_| have_finished).map(|ratio| {
            let high = upper_end(&slow);
            Interval { high, chance_high: high, ..ratio }
        });
        if let Some(error) = error {
            faults.low = error.widened_low(faults.chance_low);
            faults.high = error.widened_high(faults.chance_high);
            if let Some(ratio) = &mut ratio {
                let most = upper_end(&|run| run.major_faults);
                ratio.high = ratio.high.saturating_add(fault_cost.ratio_ppm(error.widened_high_95(most) - most));
                let less = fault_cost.ratio_ppm(faults.chance_low - faults.low);
                // The model's error does not make a configuration faster than unlimited memory.
                ratio.low = ratio.low.saturating_sub(less).max(ratio.low.min(1_000_000));
            }
        }
        let unfinished = runs.iter().filter(|run| run.ratio_ppm.is_none()).count();
        Some(Self { n: runs.len(), unfinished, faults, ratio, gamble })
    }

    /// The same where runtimes up to `allowed_ppm` are allowed: outcomes in two groups, all of which are, are no gamble.
    pub(super) fn where_allowed(mut self, allowed_ppm: u64) -> Self {
        if self.ratio.is_some_and(|ratio| ratio.high <= allowed_ppm) {
            self.gamble = None;
        }
        self
    }

    /// Slow-down at the upper end, in millionths; the largest number if a replay did not finish.
    pub(super) fn excess_ppm(&self) -> u64 {
        self.ratio.map_or(u64::MAX, |ratio| ratio.high.saturating_sub(1_000_000))
    }
}

/// Cost of a major fault under a configuration, near the border of the allowed slow-down: a sum of time over a sum of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FaultCost {
    /// Sum of the slow-downs of replays against no limits, in millionths of that runtime.
    pub(super) excess_ppm: u128,
    /// Sum of the faults of replays beyond those without limits.
    pub(super) faults: u128,
}

/// Least number of replays near the border between too slow and fast enough; with fewer, all replays count.
const NEAR_MIN: usize = 4;

impl FaultCost {
    /// From the replays that finished and whose slow-down is half to twice the allowed one, in millionths; from all that finished if these
    /// are too few. The cost of a fault varies: far below the border, reclaim and queues add to it.
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a Run>, unlimited_faults: u64, allowed_ppm: u64) -> Self {
        let slower = |run: &Run| {
            let more = run.major_faults.checked_sub(unlimited_faults).filter(|&more| more > 0)?;
            Some((run.ratio_ppm?.saturating_sub(1_000_000), more))
        };
        let is_near = |&(excess, _): &(u64, u64)| (allowed_ppm / 2..=allowed_ppm.saturating_mul(2)).contains(&excess);
        let all: Vec<(u64, u64)> = runs.filter_map(slower).collect();
        let has_enough = all.iter().filter(|one| is_near(one)).count() >= NEAR_MIN;
        let mut cost = Self::default();
        for (excess, more) in all.into_iter().filter(|one| !has_enough || is_near(one)) {
            cost.excess_ppm += u128::from(excess);
            cost.faults += u128::from(more);
        }
        cost
    }

    /// Number of faults that cost `ppm` millionths of the runtime; `None` where a fault costs nothing.
    pub(super) fn faults_in(self, ppm: u64) -> Option<u64> {
        let faults = (u128::from(ppm) * self.faults).checked_div(self.excess_ppm)?;
        Some(u64::try_from(faults).unwrap_or(u64::MAX))
    }

    /// Cost of `faults` in millionths of the runtime.
    pub(super) fn ratio_ppm(self, faults: u64) -> u64 {
        let ppm = (u128::from(faults) * self.excess_ppm).div_ceil(self.faults.max(1));
        u64::try_from(ppm).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::run;
    use super::*;
    use isotherm_units::Bytes;

    fn gamble(outcomes: &[(u64, u64)]) -> Option<Gamble> {
        let runs: Vec<Run> = outcomes.iter().map(|&(mib, faults)| run(Bytes::from_mib(mib), faults)).collect();
        Gamble::of(&runs.iter().collect::<Vec<_>>())
    }

    #[test]
    fn intervals_by_hand() {
        let of = |mut values: Vec<u64>| Interval::of_chance(&mut values).map(|one| (one.low, one.median, one.high));
        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![7]), Some((7, 7, 7)));
        assert_eq!(of(vec![9, 1, 5, 3]), Some((1, 4, 9)), "of few, all are kept");
        assert_eq!(of((1..=40).collect()), Some((2, 20, 39)), "one in 40 is left out on each side");
    }

    /// A restart finds its files in memory: none of 20 first starts hides that each fifth restart is slow.
    #[test]
    fn first_starts_and_restarts_are_judged_by_themselves() {
        let of = |is_warm: bool, faults: u64| Run {
            is_warm,
            ratio_ppm: Some(1_000_000 + faults * 100),
            ..run(Bytes::from_mib(100), faults)
        };
        let cold = (0..20).map(|nth| of(false, 700 + nth));
        let runs: Vec<Run> = cold.chain([0, 0, 0, 0, 900].map(|faults| of(true, faults))).collect();
        let expected = Expected::of(&runs.iter().collect::<Vec<_>>(), None, FaultCost::default()).expect("played");
        let (faults, ratio) = (expected.faults, expected.ratio.expect("all finished"));
        assert_eq!((faults.low, faults.median, faults.high), (0, 709, 900), "the median is of first starts");
        assert_eq!((ratio.median, ratio.high), (1_070_950, 1_090_000));
        assert_eq!(expected.gamble, None, "two kinds of starts are no gamble");
    }

    #[test]
    fn of_twenty_runtimes_the_slowest_is_left_out() {
        assert_eq!(at_most_95(&mut []), 0);
        assert_eq!(at_most_95(&mut [3]), 3);
        assert_eq!(at_most_95(&mut (1..=19).rev().collect::<Vec<_>>()), 19);
        assert_eq!(at_most_95(&mut (1..=20).rev().collect::<Vec<_>>()), 19);
        assert_eq!(at_most_95(&mut (1..=40).collect::<Vec<_>>()), 38);
    }

    #[test]
    fn two_groups_at_the_same_limits_are_a_gamble_and_a_cliff_is_none() {
        let mixed = [(100, 1500), (101, 24_000), (99, 1600), (102, 1400), (98, 23_000), (103, 25_000)];
        let found = gamble(&mixed).expect("as sqlite under 7.2");
        assert_eq!((found.good_faults, found.bad_faults, found.bad_share_ppm), (1500, 24_000, 500_000));
        let cliff = [(97, 24_000), (98, 23_000), (99, 25_000), (100, 1500), (101, 1600), (102, 1400)];
        assert_eq!(gamble(&cliff), None, "less memory, more faults");
        assert_eq!(gamble(&[(100, 1000), (101, 1100), (99, 1200), (98, 1300)]), None, "one group");
        assert_eq!(gamble(&[(100, 10), (101, 60), (99, 11), (98, 62)]), None, "too few faults to matter");
        assert_eq!(gamble(&[(100, 1500), (101, 24_000), (99, 1600)]), None, "too few replays");
    }

    /// 240 or 2500 faults, at most 2.2 % slower: nothing that anybody asked about hangs on chance.
    #[test]
    fn two_groups_that_are_both_allowed_are_no_gamble() {
        let outcome = |mib, faults, ratio| Run { ratio_ppm: Some(ratio), ..run(Bytes::from_mib(mib), faults) };
        let mut runs: Vec<Run> = (0..38).map(|at| outcome(98 + at % 5, 240 + at, 1_002_000)).collect();
        runs.extend([outcome(101, 2538, 1_021_000), outcome(102, 2500, 1_022_000)]);
        let expected = Expected::of(&runs.iter().collect::<Vec<_>>(), None, FaultCost::default()).unwrap();
        assert_eq!(expected.gamble.map(|gamble| gamble.bad_faults), Some(2538));
        assert_eq!(expected.excess_ppm(), 22_000, "the bad outcomes decide, though they are one in twenty");
        assert_eq!(expected.where_allowed(1_022_000).gamble, None);
        assert_eq!(expected.where_allowed(1_021_999).gamble, expected.gamble);
    }

    #[test]
    fn what_a_fault_costs_is_told_by_replays_near_the_border() {
        let slow = |faults, ratio| Run { ratio_ppm: Some(ratio), ..run(Bytes::from_mib(100), faults) };
        // Of 100 faults 50 belong to the program; far off a fault costs 1000, near the border 100.
        let far = [slow(150, 1_100_000 + 1), slow(60, 1_010_000)];
        let near = [slow(550, 1_050_000), slow(300, 1_025_000), slow(1050, 1_100_000), slow(550, 1_050_000)];
        let of = |runs: &[Run]| FaultCost::of(runs.iter(), 50, 50_000);
        let both: Vec<Run> = far.iter().chain(&near).cloned().collect();
        assert_eq!(of(&both), FaultCost { excess_ppm: 225_000, faults: 2250 });
        assert_eq!(of(&far), FaultCost { excess_ppm: 110_001, faults: 110 }, "too few near it: all count");
        assert_eq!(of(&both[..5]), FaultCost { excess_ppm: 285_001, faults: 1860 });
        let killed = Run { ratio_ppm: None, ..run(Bytes::from_mib(100), 5000) };
        assert_eq!(of(&[killed, slow(50, 1_040_000)]), FaultCost::default(), "nothing to tell it by");
    }

    /// Two replays: 1000 and 3000 faults, 1 % and 3 % slower. A fault costs 10 ppm; the model may miss half as many again.
    #[test]
    fn the_models_error_widens_faults_and_through_them_the_runtime() {
        let runs = [(1000, 1_010_000), (3000, 1_030_000)]
            .map(|(faults, ratio)| Run { ratio_ppm: Some(ratio), ..run(Bytes::from_mib(100), faults) });
        let cost = FaultCost::of(runs.iter(), 0, 50_000);
        assert_eq!(cost, FaultCost { excess_ppm: 40_000, faults: 4000 });
        let error = ModelError {
            policy: String::new(),
            kernel: isotherm_kernel::memory::KernelRelease::V7_2,
            counter: String::new(),
            runs: 1,
            programs: 1,
            above_ppm: 1_500_000,
            above_95_ppm: 1_200_000,
            below_ppm: 1_000_000,
        };
        let expected = Expected::of(&[&runs[0], &runs[1]], Some(&error), cost).unwrap();
        // (3000 + 100) × 1.5 − 100 = 4550; × 1.2 it is 3620: 620 more, 6200 ppm.
        assert_eq!((expected.faults.low, expected.faults.high, expected.faults.chance_high), (1000, 4550, 3000));
        let ratio = expected.ratio.unwrap();
        assert_eq!((ratio.low, ratio.chance_high, ratio.high), (1_010_000, 1_030_000, 1_036_200));
        assert_eq!(expected.excess_ppm(), 36_200);
        let plain = Expected::of(&[&runs[0], &runs[1]], None, cost).unwrap();
        assert_eq!(plain.excess_ppm(), 30_000);
        let killed = Run { ratio_ppm: None, ..run(Bytes::from_mib(100), 5) };
        let expected = Expected::of(&[&runs[0], &killed], None, cost).unwrap();
        assert_eq!((expected.ratio, expected.unfinished, expected.excess_ppm()), (None, 1, u64::MAX));
    }
}
