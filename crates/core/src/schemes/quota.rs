//! How much a scheme may do: limits in time and bytes folded into one, charged in windows (docs/spec/schemes.md#s5).

use super::goal::{Goal, Tuner};
use crate::OutOfRange;
use crate::host::TargetId;
use isotherm_units::{Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};

/// Limits of a scheme. Without any limit it treats all that qualifies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Quotas {
    /// CPU time a window, whole milliseconds. Turned into bytes by how fast the scheme was so far; the try in which it is spent
    /// all the same is the last of the window.
    #[serde(alias = "time_ms", alias = "time-ms", alias = "ms", skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// Bytes that may be tried in a window. Left out: no limit.
    #[serde(alias = "sz_bytes", alias = "sz-bytes", alias = "sz", skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Length of a window. Windows end where schemes are applied, so that the real length is this rounded up.
    #[serde(alias = "reset_interval", alias = "reset_interval_ms", alias = "reset-interval-ms")]
    pub reset_interval: Duration,
    /// Goals of the quota's tuning. The scheme does as much as the least demanding goal wants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<Goal>,
    /// How the quota is tuned towards `goals`.
    #[serde(alias = "goal_tuner")]
    pub goal_tuner: Tuner,
    /// Weights of size, frequency and age when the quota does not allow all.
    pub weights: Weights,
    /// Charge for memory that was tried without success, as a share of its size; left out: all of it.
    #[serde(alias = "fail_charge", skip_serializing_if = "Option::is_none")]
    pub fail_charge: Option<FailCharge>,
}

/// Weights of a region's properties in its priority. Only their ratio counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Weights {
    /// Weight of the size. No action uses it; it is read and written for completeness.
    #[serde(alias = "size", alias = "sz_permil", alias = "sz-permil")]
    pub sz: u32,
    /// Weight of the frequency of accesses.
    #[serde(alias = "nr_accesses", alias = "nr_accesses_permil", alias = "nr-accesses-permil")]
    pub nr_accesses: u32,
    #[serde(alias = "age_permil", alias = "age-permil")]
    pub age: u32,
}

/// The share `num / denom` of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FailCharge {
    /// Numerator.
    pub num: u32,
    /// Denominator; not 0.
    pub denom: u32,
}

impl Quotas {
    pub(crate) fn validate(&self) -> Result<(), OutOfRange> {
        let refuse =
            |key: &str, got: String, allowed: &str| Err(OutOfRange::new(format!("quotas.{key}"), got, allowed));
        if let Some(time) = self.time.filter(|time| *time == Duration::ZERO || time.ns() % 1_000_000 != 0) {
            return refuse("time", time.to_string(), "whole milliseconds, 1ms and more; leave it out for no limit");
        }
        if self.size == Some(Bytes::ZERO) {
            return refuse("size", "0B".to_owned(), "a page and more; leave it out for no limit");
        }
        let is_set = self.time.is_some() || self.size.is_some() || !self.goals.is_empty();
        if is_set && self.reset_interval < Duration::from_ms(1) {
            let got = self.reset_interval.to_string();
            return refuse("reset-interval", got, "1ms and more, where there is a limit or a goal");
        }
        if self.fail_charge.is_some_and(|charge| charge.denom == 0) {
            return refuse("fail-charge.denom", "0".to_owned(), "1 and more; leave fail-charge out to charge all");
        }
        if self.goals.is_empty() && self.goal_tuner != Tuner::Consist {
            return refuse("goal-tuner", "temporal".to_owned(), "consist, where there are no goals");
        }
        for (index, goal) in self.goals.iter().enumerate() {
            goal.validate(&format!("quotas.goals[{index}]"))?;
        }
        Ok(())
    }

    /// Charge of a try of `tried` bytes when `applied` of them were treated.
    fn charge(&self, tried: u64, applied: u64) -> u64 {
        match self.fail_charge {
            Some(FailCharge { num, denom }) if applied <= tried && denom != 0 => {
                let failed = u128::from(tried - applied) * u128::from(num) / u128::from(denom);
                applied.saturating_add(u64::try_from(failed).unwrap_or(u64::MAX))
            }
            _ => tried,
        }
    }
}

/// State of a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QuotaState {
    /// The effective limit of this window in bytes.
    pub(crate) esz: u64,
    /// The limit from tuning, in 1/10,000 bytes. The other limits do not bound it, so it may be far above them.
    esz_bp: u64,
    /// Bytes charged in this window.
    pub(crate) charged: u64,
    /// Time that tries took in this window.
    pub(crate) spent_ns: u64,
    /// Over the life of the scheme: how fast it is.
    total_charged_ns: u64,
    /// Charge of closed windows.
    total_charged_bytes: u64,
    window_start: Option<Instant>,
    /// Where the quota ran out: the next pass goes on there, at this address in address units.
    pub(crate) resume: Option<(TargetId, u64)>,
    /// Regions of lower scores wait.
    pub(crate) min_score: u32,
}

/// The smallest amounts there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grain {
    /// The smallest region in bytes.
    pub(crate) region_bytes: u64,
    pub(crate) page_bytes: u64,
}

/// The score of a quota's goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Score {
    /// 10,000 on goal: the highest of all goals.
    At(u64),
    /// The host could not read the metric: the tuned value stays.
    Unknown,
}

impl QuotaState {
    /// A limit that a commit took away stays in force until the window ends.
    pub(crate) fn is_set(&self, quotas: &Quotas) -> bool {
        self.esz != 0 || quotas.size.is_some() || quotas.time.is_some() || !quotas.goals.is_empty()
    }

    /// Less than the smallest region is left, or the time is spent. The kernel only checks bytes, and converts the time by the speed over
    /// the whole life: a scheme that has become slower takes many times its limit.
    pub(crate) fn is_full(&self, quotas: &Quotas, grain: Grain) -> bool {
        let is_late = quotas.time.is_some_and(|time| self.spent_ns >= time.ns());
        self.is_set(quotas) && (is_late || self.charged >= self.esz || self.esz - self.charged < grain.region_bytes)
    }

    /// Begins the first window, or the next one where the last has ended at `now`; `score` is asked once a window. Whether
    /// a window ended full.
    pub(crate) fn roll(
        &mut self,
        quotas: &Quotas,
        now: Instant,
        grain: Grain,
        mut score: impl FnMut() -> Score,
    ) -> bool {
        if !self.is_set(quotas) {
            return false;
        }
        if self.window_start.is_none() {
            self.window_start = Some(now);
            self.set_effective(quotas, grain, &mut score);
        }
        let start = self.window_start.expect("set above");
        debug_assert!(start <= now, "a window began before it ends");
        if now.since(start) < quotas.reset_interval {
            return false;
        }
        let was_full = self.is_full(quotas, grain);
        self.total_charged_bytes = self.total_charged_bytes.saturating_add(self.charged);
        self.window_start = Some(now);
        (self.charged, self.spent_ns) = (0, 0);
        self.set_effective(quotas, grain, &mut score);
        debug_assert!(quotas.size.is_none_or(|size| self.esz <= size.get()), "the smallest limit is in force");
        was_full
    }

    /// The smallest of all limits.
    fn set_effective(&mut self, quotas: &Quotas, grain: Grain, score: &mut impl FnMut() -> Score) {
        if quotas.time.is_none() && quotas.goals.is_empty() {
            self.esz = quotas.size.map_or(0, Bytes::get);
            return;
        }
        self.esz = u64::MAX;
        if !quotas.goals.is_empty() {
            if let Score::At(score) = score() {
                self.esz_bp = quotas.goal_tuner.next(self.esz_bp, score, quotas.size);
            }
            self.esz = self.esz_bp / 10_000;
        }
        if let Some(time) = quotas.time {
            let bytes = self.bytes_per_ms(grain).saturating_mul(time.ns() / 1_000_000);
            self.esz = self.esz.min(bytes.max(grain.region_bytes));
        }
        if let Some(size) = quotas.size {
            self.esz = self.esz.min(size.get());
        }
    }

    /// Speed of the scheme over its whole life, by its charges; 1024 pages while nothing is known.
    fn bytes_per_ms(&self, grain: Grain) -> u64 {
        if self.total_charged_ns == 0 {
            return grain.page_bytes.saturating_mul(1024);
        }
        let rate = u128::from(self.total_charged_bytes) * 1_000_000 / u128::from(self.total_charged_ns);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Charges a try. This happens also if no limit is set: a limit that is set later finds the charges in its first window.
    pub(crate) fn charge(&mut self, quotas: &Quotas, tried: u64, applied: u64, spent: Duration) {
        self.total_charged_ns = self.total_charged_ns.saturating_add(spent.ns());
        self.spent_ns = self.spent_ns.saturating_add(spent.ns());
        self.charged = self.charged.saturating_add(quotas.charge(tried, applied));
        debug_assert!(self.spent_ns <= self.total_charged_ns, "a window is a part of the whole life");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::Metric;

    const MIB: u64 = 1 << 20;
    const GRAIN: Grain = Grain { region_bytes: 4096, page_bytes: 4096 };

    fn quotas(ms: u64, size: u64) -> Quotas {
        Quotas {
            time: (ms > 0).then(|| Duration::from_ms(ms)),
            size: (size > 0).then(|| Bytes::new(size)),
            reset_interval: Duration::from_secs(1),
            ..Quotas::default()
        }
    }

    fn with_goal(ms: u64, size: u64, goal_tuner: Tuner) -> Quotas {
        let goal = Goal { metric: Metric::UserInput, target_value: 10_000, ..Goal::default() };
        Quotas { goals: vec![goal], goal_tuner, ..quotas(ms, size) }
    }

    /// Passes a second apart, one window each, with these scores; the limit of each.
    fn windows(quotas: &Quotas, state: &mut QuotaState, scores: &[u64]) -> Vec<u64> {
        let first = state.window_start.map_or(0, |start| start.ns() / 1_000_000_000 + 1);
        let mut limit = |(second, score): (u64, &u64)| {
            state.roll(quotas, Instant::from_ns(second * 1_000_000_000), GRAIN, || Score::At(*score));
            state.esz
        };
        (first..).zip(scores).map(&mut limit).collect()
    }

    /// docs/spec/schemes.md#s15, examples 8 and 9.
    #[test]
    fn consist_starts_cold_and_doubles() {
        let quotas = with_goal(0, 0, Tuner::Consist);
        let limits = windows(&quotas, &mut QuotaState::default(), &[0; 13]);
        assert_eq!(limits, (1..=13).map(|window| 1 << window).collect::<Vec<u64>>(), "example 8");
        assert_eq!((limits[11], limits[12]), (4096, 8192), "example 8");
        let mut warm = QuotaState { esz_bp: 20_000_000 * 10_000, ..QuotaState::default() };
        let limits = windows(&quotas, &mut warm, &[5000, 10_000, 12_000, 25_000]);
        assert_eq!(limits, [30_000_000, 30_000_000, 24_000_000, 1], "example 9");
    }

    /// docs/spec/schemes.md#s15, example 10: user input with target 10,000.
    #[test]
    fn the_quota_follows_what_the_user_reports() {
        let mut state = QuotaState { esz_bp: 1 << 50, ..QuotaState::default() };
        let limits = windows(&with_goal(0, 0, Tuner::Consist), &mut state, &[10_000, 0, 15_000, 5000, 18_000]);
        let directions: Vec<bool> = limits.windows(2).map(|pair| pair[0] < pair[1]).collect();
        assert_eq!(directions, [true, false, true, false], "example 10: {limits:?}");
    }

    /// docs/spec/schemes.md#s15, examples 11 and 12.
    #[test]
    fn temporal_is_all_or_nothing() {
        let first =
            |ms, size, score| windows(&with_goal(ms, size, Tuner::Temporal), &mut QuotaState::default(), &[score])[0];
        assert_eq!(first(0, 128 * MIB, 9999), 134_217_728, "example 11");
        assert_eq!(first(0, 0, 0), 1_844_674_407_370_955, "example 11");
        assert_eq!(first(0, 0, 10_000), 0, "example 11");
        assert_eq!(first(10, 0, 0), 41_943_040, "example 12");
    }

    /// docs/spec/schemes.md#s15, examples 13 to 16.
    #[test]
    fn time_becomes_bytes_by_the_speed_so_far() {
        // (example, charged bytes, in ns, ms, size limit, effective)
        let table = [
            (13, 0, 0, 10, 0, 41_943_040),
            (13, 0, 0, 5, 0, 20_971_520),
            (13, 0, 0, 10, 128 * MIB, 41_943_040),
            (14, 300 * MIB, 1_000_000_000, 10, 0, 3_145_720),
            (15, 64 * MIB, 4_000_000, 10, 128 * MIB, 134_217_728),
            (16, 10, 1_000_000_000, 1, 0, 4096),
        ];
        for (example, total_charged_bytes, total_charged_ns, ms, size, expected) in table {
            let mut state = QuotaState { total_charged_bytes, total_charged_ns, ..QuotaState::default() };
            assert_eq!(windows(&quotas(ms, size), &mut state, &[0]), [expected], "example {example}");
        }
    }

    /// docs/spec/schemes.md#s15, examples 17 and 18.
    #[test]
    fn what_failed_may_cost_less() {
        let with = |num, denom| Quotas { fail_charge: Some(FailCharge { num, denom }), ..Quotas::default() };
        assert_eq!(with(1, 1024).charge(1000 * MIB, 700 * MIB), 734_310_400, "example 17");
        assert_eq!(with(1, 1024).charge(1000 * MIB, 700 * MIB), 700 * MIB + 300 * 1024, "example 17");
        assert_eq!(Quotas::default().charge(1000 * MIB, 700 * MIB), 1_048_576_000, "example 18");
        assert_eq!(with(1, 1024).charge(4096, 2 * MIB), 4096, "example 18");
        assert_eq!(with(1, 10).charge(10 * MIB, 0), 1_048_576, "example 18");
    }

    /// docs/spec/schemes.md#s15, example 19.
    #[test]
    fn less_than_a_region_left_is_full() {
        for (charged, is_full) in [(6000, true), (5904, false), (10_000, true), (20_000, true)] {
            let state = QuotaState { esz: 10_000, charged, ..QuotaState::default() };
            assert_eq!(state.is_full(&quotas(0, 10_000), GRAIN), is_full, "example 19: {charged}");
        }
        assert!(!QuotaState { charged: 1, ..QuotaState::default() }.is_full(&Quotas::default(), GRAIN), "not set");
    }

    /// docs/spec/schemes.md#s15, example 50. Files cannot say it: a goal needs a window.
    #[test]
    fn without_a_window_each_pass_is_one_and_the_first_counts_twice() {
        let quotas = Quotas { reset_interval: Duration::ZERO, ..with_goal(0, 0, Tuner::Consist) };
        assert!(quotas.validate().is_err());
        assert_eq!(windows(&quotas, &mut QuotaState::default(), &[0, 0, 0]), [4, 8, 16], "example 50");
    }

    #[test]
    fn a_goal_that_cannot_be_read_changes_nothing() {
        let mut state = QuotaState { esz_bp: 50_000 * 10_000, ..QuotaState::default() };
        state.roll(&with_goal(0, 0, Tuner::Consist), Instant::START, GRAIN, || Score::Unknown);
        assert_eq!(state.esz, 50_000);
    }

    #[test]
    fn a_limit_set_late_finds_what_was_charged_before() {
        let mut state = QuotaState::default();
        state.charge(&Quotas::default(), 1 << 30, 0, Duration::ZERO);
        let quotas = quotas(0, MIB);
        assert!(!state.roll(&quotas, Instant::START, GRAIN, || Score::Unknown));
        assert!(state.is_full(&quotas, GRAIN), "until its first window ends");
        assert!(state.roll(&quotas, Instant::from_ns(1_000_000_000), GRAIN, || Score::Unknown), "it ended full");
        assert!(!state.is_full(&quotas, GRAIN));
        assert!(state.is_set(&Quotas::default()), "a limit taken away stays until the window ends");
    }

    #[test]
    fn limits_that_mean_nothing_are_refused() {
        let error = |quotas: Quotas| quotas.validate().unwrap_err().to_string();
        let none = Quotas { reset_interval: Duration::ZERO, ..quotas(10, 0) };
        assert!(error(none).starts_with("`quotas.reset-interval` is 0ns; allowed: 1ms and more"));
        let half = Quotas { time: Some(Duration::from_us(1500)), ..quotas(0, 0) };
        assert!(error(half).starts_with("`quotas.time` is 1.5ms; allowed: whole milliseconds"));
        let nothing = Quotas { size: Some(Bytes::ZERO), ..quotas(0, 0) };
        assert!(error(nothing).starts_with("`quotas.size` is 0B"));
        let charge = Quotas { fail_charge: Some(FailCharge { num: 1, denom: 0 }), ..quotas(0, 0) };
        assert!(error(charge).starts_with("`quotas.fail-charge.denom` is 0"));
        let aimless = Quotas { goal_tuner: Tuner::Temporal, ..quotas(10, 0) };
        assert_eq!(error(aimless), "`quotas.goal-tuner` is temporal; allowed: consist, where there are no goals");
        assert!(Quotas::default().validate().is_ok());
    }
}
