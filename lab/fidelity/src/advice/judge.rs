//! Answers and intervals versus counts of real kernels: hold rate, price of safety, coverage.

use serde::Serialize;

use crate::advice::answer::{Answer, Answers, HOLD_PERCENT, Recommended};
use crate::advice::calibrate::{OFFSET, Predict};
use crate::advice::{Boot, Key, StoredPlay};
use crate::matrix::{METRICS, Set};
use crate::rank::nearest;

/// Finds a play: kernel, program, policy, limit in pages. `None`: it was never made, or is of another recording.
pub type Find<'a> = &'a dyn Fn(&str, &str, &str, u64) -> Option<StoredPlay>;

/// The counter that recommendations are judged by.
const FAULTS: &str = "major_faults";

/// The case of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Name of the program.
    pub program: String,
    pub set: Set,
    /// Release of the kernel.
    pub kernel: String,
    /// Allowed slow-down in percent.
    pub slowdown_percent: u32,
    /// The recommended configuration.
    pub candidate: String,
    /// Memory in bytes that was recommended.
    pub memory_bytes: u64,
}

impl Case {
    fn of(answer: &Answer, set: Set, recommended: &Recommended) -> Self {
        Self {
            program: answer.program.clone(),
            set,
            kernel: answer.kernel.clone(),
            slowdown_percent: answer.slowdown_percent,
            candidate: recommended.candidate.clone(),
            memory_bytes: recommended.memory_bytes,
        }
    }
}

/// Result of a real kernel at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Real {
    /// It was never played.
    Missing,
    /// Most major faults of its boots.
    Faults(u64),
    /// The program did not finish in at least one boot.
    Unfinished,
}

impl Real {
    fn of(play: Option<&StoredPlay>) -> Self {
        let Some(play) = play else { return Self::Missing };
        let most = play.counter(FAULTS).and_then(|boots| boots.into_iter().max());
        most.map_or(Self::Unfinished, Self::Faults)
    }

    /// Whether there were at most `most` major faults; `None` if it was never played.
    fn is_within(self, most: u64) -> Option<bool> {
        match self {
            Self::Missing => None,
            Self::Faults(faults) => Some(faults <= most),
            Self::Unfinished => Some(false),
        }
    }
}

/// A recommendation at one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HoldRow {
    #[serde(flatten)]
    pub case: Case,
    /// Size in percent of the recommended one.
    pub size_percent: u64,
    pub limit_pages: u64,
    /// Most major faults that were predicted.
    pub predicted: u64,
    /// Count of the kernel.
    pub real: Real,
    pub boots: usize,
    /// Whether the real count is within the prediction; `None` if it was never played.
    pub holds: Option<bool>,
}

/// Share of cases that hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HoldRate {
    /// Cases that were judged: a case was played at all its sizes.
    pub cases: u64,
    /// Cases judged that hold at all sizes.
    pub hold: u64,
    /// Cases that were not played at all their sizes yet.
    pub missing: u64,
    /// Answers that recommend nothing.
    pub unanswered: u64,
}

impl HoldRate {
    /// Share in millionths; `None` without cases.
    pub fn share_ppm(&self) -> Option<u64> {
        (self.hold * 1_000_000).checked_div(self.cases)
    }
}

/// Whether recommendations hold: a row for each size of each case whose program `set_of` knows, and the rate by set.
pub fn hold(answers: &[Answer], set_of: &dyn Fn(&str) -> Option<Set>, find: Find<'_>) -> (Vec<HoldRow>, [HoldRate; 2]) {
    let (mut rows, mut rates) = (Vec::new(), [HoldRate::default(), HoldRate::default()]);
    for answer in answers {
        let Some(set) = set_of(&answer.program) else { continue };
        let rate = &mut rates[usize::from(set == Set::HeldOut)];
        let Some(recommended) = &answer.recommended else {
            rate.unanswered += 1;
            continue;
        };
        let case = Case::of(answer, set, recommended);
        let mut holds = Some(true);
        for (size_percent, predicted) in HOLD_PERCENT.into_iter().zip(recommended.upper_faults) {
            let limit_pages = recommended.pages_at(size_percent);
            let play = find(&answer.kernel, &answer.program, &recommended.policy, limit_pages);
            let real = Real::of(play.as_ref());
            let held = real.is_within(predicted);
            // A single failing size decides, even if other sizes are missing.
            holds = match (holds, held) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (None, _) | (_, None) => None,
                (Some(true), Some(true)) => Some(true),
            };
            let boots = play.map_or(0, |play| play.boots.len());
            rows.push(HoldRow { case: case.clone(), size_percent, limit_pages, predicted, real, boots, holds: held });
        }
        match holds {
            None => rate.missing += 1,
            Some(held) => {
                rate.cases += 1;
                rate.hold += u64::from(held);
            }
        }
    }
    (rows, rates)
}

/// The price of safety in one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PriceRow {
    #[serde(flatten)]
    pub case: Case,
    /// Most major faults within the allowed slow-down.
    pub allowed: u64,
    /// The smallest size of the scan, in percent of the recommended one, that is safe together with all larger ones; `None`: not
    /// even the largest is.
    pub safe_percent: Option<u64>,
    /// Whether that is the smallest size of the scan, so that smaller ones may be safe too, and the price may be higher.
    pub is_at_end: bool,
    /// Recommended memory over the smallest safe size; `None` without one.
    pub price: Option<f64>,
}

/// The price of safety over all cases that were scanned.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Price {
    /// Cases with a price.
    pub cases: u64,
    /// Cases in which no size of the scan is safe.
    pub unsafe_cases: u64,
    /// Cases that were not scanned yet, or whose rule does not give the number of allowed faults.
    pub missing: u64,
    /// Median of the prices.
    pub median: Option<f64>,
    /// 90th percentile of the prices. A case in which no size is safe counts as none.
    pub p90: Option<f64>,
}

/// The price of safety of each answer, and a summary by set.
pub fn price(answers: &[Answer], set_of: &dyn Fn(&str) -> Option<Set>, find: Find<'_>) -> (Vec<PriceRow>, [Price; 2]) {
    let (mut rows, mut prices) = (Vec::new(), [Price::default(), Price::default()]);
    for answer in answers {
        let (Some(set), Some(recommended)) = (set_of(&answer.program), &answer.recommended) else { continue };
        let short = &mut prices[usize::from(set == Set::HeldOut)];
        let safe = recommended.allowed_faults.and_then(|allowed| {
            let real = |percent| {
                let pages = recommended.pages_at(percent);
                Real::of(find(&answer.kernel, &answer.program, &recommended.policy, pages).as_ref())
            };
            Some((allowed, smallest_safe(allowed, &real)?))
        });
        let Some((allowed, safe_percent)) = safe else {
            short.missing += 1;
            continue;
        };
        let price = safe_percent.map(|percent| recommended.pages_at(100) as f64 / recommended.pages_at(percent) as f64);
        match price {
            Some(_) => short.cases += 1,
            None => short.unsafe_cases += 1,
        }
        let is_at_end = safe_percent == Recommended::scan_percents().next();
        rows.push(PriceRow { case: Case::of(answer, set, recommended), allowed, safe_percent, is_at_end, price });
    }
    for (short, set) in prices.iter_mut().zip([Set::Fitting, Set::HeldOut]) {
        let mut of_set: Vec<f64> = rows.iter().filter(|row| row.case.set == set).filter_map(|row| row.price).collect();
        of_set.sort_by(f64::total_cmp);
        (short.median, short.p90) = (nearest(&of_set, 500), nearest(&of_set, 900));
    }
    (rows, prices)
}

/// The smallest size of the scan in percent that is safe together with all larger ones; inner `None`: there is none; outer
/// `None`: sizes that matter were not scanned.
#[expect(clippy::option_option, reason = "unknown, none, some")]
fn smallest_safe(allowed: u64, real: &dyn Fn(u64) -> Real) -> Option<Option<u64>> {
    let mut safe = None;
    for percent in Recommended::scan_percents().rev() {
        if !real(percent).is_within(allowed)? {
            break;
        }
        safe = Some(percent);
    }
    Some(safe)
}

/// Everything about the answers of one rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Name of the rule.
    pub rule: String,
    /// How its answers were made.
    pub note: String,
    /// A row for each size of each case.
    pub hold: Vec<HoldRow>,
    /// Hold rates of the fitting and of the held-out set.
    pub hold_rates: [HoldRate; 2],
    /// A row for each case that was scanned.
    pub price: Vec<PriceRow>,
    /// Prices of the fitting and of the held-out set.
    pub prices: [Price; 2],
}

impl Judged {
    /// Judges the answers of a rule for the kernels and programs that `is_chosen` selects.
    pub fn of(
        answers: &Answers,
        is_chosen: &dyn Fn(&Answer) -> bool,
        set_of: &dyn Fn(&str) -> Option<Set>,
        find: Find<'_>,
    ) -> Self {
        let chosen: Vec<Answer> = answers.answers.iter().filter(|answer| is_chosen(answer)).cloned().collect();
        let (hold, hold_rates) = hold(&chosen, set_of, find);
        let (price, prices) = price(&chosen, set_of, find);
        Self { rule: answers.rule.clone(), note: answers.note.clone(), hold, hold_rates, price, prices }
    }
}

/// Coverage of intervals of a counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Set of the programs.
    pub set: Set,
    /// `classic` or `mglru`.
    pub policy: String,
    /// Release of the kernel.
    pub kernel: String,
    pub counter: &'static str,
    /// Plays with a prediction.
    pub plays: u64,
    /// Plays whose interval contains the counts of every boot.
    pub inside: u64,
    /// Median of the intervals' widths: high over low, [`OFFSET`] events added to both.
    pub median_width: Option<f64>,
}

impl Coverage {
    /// Share in millionths; `None` without plays.
    pub fn share_ppm(&self) -> Option<u64> {
        (self.inside * 1_000_000).checked_div(self.plays)
    }
}

/// Coverage of the intervals of `plays` of one kernel: by set, policy and counter.
pub fn coverage(
    kernel: &str,
    plays: &[StoredPlay],
    set_of: &dyn Fn(&str) -> Option<Set>,
    predict: Predict<'_>,
) -> Vec<Coverage> {
    let mut found = Vec::new();
    for set in [Set::Fitting, Set::HeldOut] {
        for policy in crate::POLICIES {
            for (at, metric) in METRICS.iter().enumerate() {
                let is_of = |key: &Key| key.policy == *policy && set_of(&key.program) == Some(set);
                let (mut inside, mut widths) = (0, Vec::new());
                for play in plays.iter().filter(|play| is_of(&play.key)) {
                    let Some(interval) = predict(kernel, play, metric.name) else { continue };
                    let holds = |boot: &Boot| match boot {
                        Boot::Counted(row) => row.get(at).is_some_and(|&real| interval.holds(real)),
                        Boot::Failed(_) => false,
                    };
                    inside += u64::from(play.boots.iter().all(holds));
                    widths.push(interval.high.saturating_add(OFFSET) as f64 / (interval.low + OFFSET) as f64);
                }
                if widths.is_empty() {
                    continue;
                }
                widths.sort_by(f64::total_cmp);
                found.push(Coverage {
                    set,
                    policy: (*policy).to_owned(),
                    kernel: kernel.to_owned(),
                    counter: metric.name,
                    plays: widths.len() as u64,
                    inside,
                    median_width: nearest(&widths, 500),
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::calibrate::Interval;

    fn play(limit_pages: u64, boots: &[Option<u64>]) -> StoredPlay {
        let boot = |faults: &Option<u64>| match faults {
            Some(faults) => Boot::Counted([vec![*faults], vec![0; METRICS.len() - 1]].concat()),
            None => Boot::Failed("process 0 was killed at operation 1".to_owned()),
        };
        let (program, digest) = ("node".to_owned(), "d".to_owned());
        let key = Key { program, digest, policy: "mglru".to_owned(), limit_pages };
        StoredPlay { key, boots: boots.iter().map(boot).collect() }
    }

    /// 1000 pages are recommended, with at most 50, 40 and 30 major faults.
    fn answer(program: &str, allowed_faults: Option<u64>) -> Answer {
        let recommended = Recommended {
            candidate: "mglru + reclaim".to_owned(),
            policy: "mglru".to_owned(),
            memory_bytes: 1000 * 4096,
            upper_faults: [50, 40, 30],
            allowed_faults,
        };
        Answer {
            program: program.to_owned(),
            kernel: "7.2".to_owned(),
            slowdown_percent: 5,
            recommended: Some(recommended),
        }
    }

    fn set_of(program: &str) -> Option<Set> {
        match program {
            "node" => Some(Set::HeldOut),
            "gcc" => Some(Set::Fitting),
            _ => None,
        }
    }

    fn rate_of(plays: &[StoredPlay]) -> (Vec<Option<bool>>, HoldRate) {
        let find = |kernel: &str, program: &str, policy: &str, limit: u64| {
            assert_eq!((kernel, program, policy), ("7.2", "node", "mglru"));
            plays.iter().find(|play| play.key.limit_pages == limit).cloned()
        };
        let (rows, [fitting, held_out]) = hold(&[answer("node", None)], &set_of, &find);
        assert_eq!(fitting, HoldRate::default());
        (rows.iter().map(|row| row.holds).collect(), held_out)
    }

    #[test]
    fn a_case_holds_where_every_boot_at_every_size_is_within_what_was_predicted() {
        let judged = |hold| HoldRate { cases: 1, hold, ..HoldRate::default() };
        let missing = HoldRate { missing: 1, ..HoldRate::default() };
        let at = |own: &[Option<u64>], more: u64, most: &[Option<u64>]| {
            vec![play(1000, own), play(1030, &[Some(more)]), play(1100, most)]
        };
        let all = at(&[Some(50), Some(3)], 40, &[Some(30)]);
        assert_eq!(rate_of(&all), (vec![Some(true); 3], judged(1)));
        let one = at(&[Some(3), Some(51)], 40, &[Some(30)]);
        assert_eq!(rate_of(&one), (vec![Some(false), Some(true), Some(true)], judged(0)), "the worst boot counts");
        let killed = at(&[Some(3)], 40, &[Some(1), None]);
        assert_eq!(rate_of(&killed), (vec![Some(true), Some(true), Some(false)], judged(0)));
        assert_eq!(rate_of(&all[..2]), (vec![Some(true), Some(true), None], missing), "not played yet");
        assert_eq!(rate_of(&one[..1]), (vec![Some(false), None, None], judged(0)), "what fails needs no more");
    }

    #[test]
    fn answers_without_a_recommendation_are_counted_and_unknown_programs_left_out() {
        let none = Answer { recommended: None, ..answer("gcc", None) };
        let (rows, [fitting, held_out]) = hold(&[none, answer("oracle", None)], &set_of, &|_, _, _, _| None);
        assert_eq!((rows.len(), fitting.unanswered, held_out), (0, 1, HoldRate::default()));
        assert_eq!(fitting.share_ppm(), None);
    }

    /// Faults by size in percent; other sizes were not played.
    fn price_of(faults: &dyn Fn(u64) -> Option<u64>, allowed: Option<u64>) -> (Vec<PriceRow>, Price) {
        let find =
            |_: &str, _: &str, _: &str, limit: u64| faults(limit / 10).map(|faults| play(limit, &[Some(faults)]));
        let (rows, [_, held_out]) = price(&[answer("node", allowed)], &set_of, &find);
        (rows, held_out)
    }

    #[test]
    fn prices_by_hand() {
        // Safe from 96 % on; 90 % alone is safe too, and does not count.
        let faults = |percent| Some(if percent >= 96 || percent == 90 { 10 } else { 11 });
        let (rows, short) = price_of(&faults, Some(10));
        assert_eq!((rows[0].safe_percent, rows[0].is_at_end, rows[0].price), (Some(96), false, Some(1000.0 / 960.0)));
        assert_eq!((short.cases, short.median, short.p90), (1, rows[0].price, rows[0].price));
        let (rows, _) = price_of(&|_| Some(10), Some(10));
        assert_eq!((rows[0].safe_percent, rows[0].is_at_end, rows[0].price), (Some(80), true, Some(1.25)));
        // The recommendation itself is not safe: there is no price, regardless of smaller sizes.
        let (rows, short) = price_of(&|percent| Some(if percent < 100 { 0 } else { 99 }), Some(10));
        assert_eq!((rows[0].price, short.unsafe_cases), (None, 1));
        let (rows, short) = price_of(&|_| Some(11), Some(10));
        assert_eq!((rows[0].price, short.unsafe_cases, short.cases, short.median), (None, 1, 0, None));
    }

    #[test]
    fn a_scan_with_a_hole_that_matters_has_no_price() {
        let hole = |at: u64| move |percent: u64| (percent != at).then_some(u64::from(percent < 100));
        assert_eq!(price_of(&hole(90), Some(0)).1.cases, 1, "98 % is known not to be safe");
        for (at, allowed) in [(100, Some(0)), (90, Some(1)), (0, None)] {
            let (rows, short) = price_of(&hole(at), allowed);
            assert_eq!((rows.len(), short.missing), (0, 1), "{at}");
        }
    }

    #[test]
    fn coverage_by_hand() {
        let plays = [play(1, &[Some(100), Some(300)]), play(2, &[Some(100), Some(301)]), play(3, &[Some(100), None])];
        let predict = |_: &str, play: &StoredPlay, metric: &str| {
            let low = if play.key.limit_pages == 2 { 0 } else { 100 };
            (metric == "major_faults").then_some(Interval { low, high: 300 })
        };
        let found = coverage("7.2", &plays, &set_of, &predict);
        assert_eq!(found.len(), 1);
        let found = &found[0];
        assert_eq!((found.set, found.counter, found.plays, found.inside), (Set::HeldOut, "major_faults", 3, 1));
        // 400 / 200 twice, 400 / 100 once.
        assert_eq!((found.median_width, found.share_ppm()), (Some(2.0), Some(333_333)));
    }
}
