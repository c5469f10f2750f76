//! Decides the next limit, and why.

use super::config::LimitsConfig;
use super::decision_counts::{LimitAction, LimitReason};
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES, Ratio};

/// Harm of this multiple of the goal removes the limit. Raising the limit by the largest step would need several intervals of
/// such harm. Taking it away brings no evicted page back by itself: memory in use stays low, and the next squeeze begins there.
const LIFT_TIMES: u64 = 16;
/// Squeezes in a row without harm that halve the back-off once.
const SQUEEZES_TO_FORGET: u32 = 8;
/// Harm that exactly meets the goal, in millionths of the goal.
const GOAL_PPM: u64 = 1_000_000;

/// The gauges of a group over one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// End of the interval.
    pub at: Instant,
    /// Length of the interval: harm is a share of it. An empty interval shows no harm.
    pub span: Duration,
    /// `memory.current` at its end, bytes.
    pub usage: Bytes,
    /// Time in which some task of the group was stalled by memory.
    pub stalled: Duration,
    /// Pages (4 KiB) that came back after eviction.
    pub refaulted_pages: u64,
    /// Whether a task of the group was made to reclaim because usage was above the limit (`high` of `memory.events` grew).
    pub has_reached_limit: bool,
}

impl Observation {
    /// Stalled share of the interval, in millionths.
    pub fn stalled_ppm(&self) -> u64 {
        scaled(self.stalled.ns(), GOAL_PPM, self.span.ns())
    }

    /// Refaulted pages in a thousand seconds.
    pub fn refaults_per_1000s(&self) -> u64 {
        scaled(self.refaulted_pages, 1_000_000_000_000, self.span.ns())
    }
}

/// `value * times / by`; saturates, and is 0 for an empty divisor.
fn scaled(value: u64, times: u64, by: u64) -> u64 {
    let scaled = (u128::from(value) * u128::from(times)).checked_div(u128::from(by)).unwrap_or(0);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The next action, and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub action: LimitAction,
    pub reason: LimitReason,
    /// The next `memory.high`; `None` is `max`, no limit.
    pub limit: Option<Bytes>,
    /// The greater of the two harms, in millionths of its goal: above 1,000,000 the goal is missed.
    pub harm_ppm: u64,
}

/// Decides on the limit of one group. One call of [`decide`](Self::decide) an interval.
#[derive(Clone, Debug)]
pub struct Controller {
    config: LimitsConfig,
    limit: Option<Bytes>,
    /// No squeeze before this.
    holds_until: Instant,
    /// How often the back-off is doubled.
    level: u32,
    /// Squeezes since the last harm, or since the back-off was last halved.
    squeezes_in_a_row: u32,
    /// There was a squeeze since the last harm: the next harm is its fault.
    has_squeezed: bool,
    /// The last decision was a squeeze.
    squeezed_last: bool,
    /// Lists were sorted for the next squeeze.
    is_sorted: bool,
}

impl Controller {
    /// Begins at the ceiling, or without a limit. `config` is expected to be [valid](LimitsConfig::validate).
    pub fn new(config: LimitsConfig) -> Self {
        Self {
            limit: config.ceiling,
            config,
            holds_until: Instant::START,
            level: 0,
            squeezes_in_a_row: 0,
            has_squeezed: false,
            squeezed_last: false,
            is_sorted: false,
        }
    }

    pub const fn config(&self) -> &LimitsConfig {
        &self.config
    }

    /// The limit now; `None`: no limit.
    pub const fn limit(&self) -> Option<Bytes> {
        self.limit
    }

    /// No squeeze happens before this time.
    pub const fn holds_until(&self) -> Instant {
        self.holds_until
    }

    /// The limit that is really in force, where a decision could not be carried out.
    pub(super) fn correct(&mut self, limit: Option<Bytes>) {
        self.limit = limit;
        self.squeezed_last = false;
    }

    /// The next limit, from the group's pressure and refaults since the last call.
    pub fn decide(&mut self, seen: &Observation) -> Decision {
        let (harm_ppm, reason) = self.harm(seen);
        let squeezed_last = std::mem::take(&mut self.squeezed_last);
        let (action, reason) = if harm_ppm > GOAL_PPM {
            self.harmed(seen, harm_ppm, reason, squeezed_last)
        } else {
            match self.why_not_squeeze(seen, harm_ppm) {
                Some(reason) => (LimitAction::Hold, reason),
                None if self.config.sort_first && !self.is_sorted => {
                    self.is_sorted = true;
                    (LimitAction::Sort, LimitReason::Calm)
                }
                None => {
                    self.squeeze(seen.usage);
                    (LimitAction::Squeeze, LimitReason::Calm)
                }
            }
        };
        Decision { action, reason, limit: self.limit, harm_ppm }
    }

    /// Decides before an interval is over, if harm so far is already more than the goal allows for all of it. `so_far` has the span
    /// of a whole interval. `None`: nothing to do yet.
    pub fn decide_early(&mut self, so_far: &Observation) -> Option<Decision> {
        (self.harm(so_far).0 > GOAL_PPM).then(|| self.decide(so_far))
    }

    /// The greater harm, in millionths of its goal, and which of the two it is.
    fn harm(&self, seen: &Observation) -> (u64, LimitReason) {
        let goal = self.config.goal;
        let pressure = scaled(seen.stalled_ppm(), GOAL_PPM, goal.pressure_some.ppm());
        let refaults = scaled(seen.refaults_per_1000s(), GOAL_PPM, goal.refaults.get().saturating_mul(1000));
        if refaults > pressure { (refaults, LimitReason::Refaults) } else { (pressure, LimitReason::Pressure) }
    }

    /// The goal is missed: raises the limit if the limit can be the cause, and delays squeezes.
    fn harmed(
        &mut self,
        seen: &Observation,
        harm_ppm: u64,
        reason: LimitReason,
        squeezed_last: bool,
    ) -> (LimitAction, LimitReason) {
        self.is_sorted = false;
        self.squeezes_in_a_row = 0;
        if std::mem::take(&mut self.has_squeezed) {
            self.level = self.level.saturating_add(1);
        }
        self.holds_until = self.holds_until.max(seen.at + self.hold());
        let Some(limit) = self.limit else { return (LimitAction::Hold, reason) };
        let slack = self.step(self.config.squeeze, seen.usage);
        let binds = seen.has_reached_limit || squeezed_last || seen.usage.get().saturating_add(slack) >= limit.get();
        if !binds {
            return (LimitAction::Hold, LimitReason::Elsewhere);
        }
        let times = harm_ppm.div_ceil(GOAL_PPM);
        if times >= LIFT_TIMES {
            self.limit = self.config.ceiling;
            let action = if self.limit.is_none() { LimitAction::Lift } else { LimitAction::Relax };
            return (action, reason);
        }
        let base = limit.max(seen.usage);
        let step = self.step(self.config.relax, base).saturating_mul(times);
        let raised = Bytes::new(base.get().saturating_add(step));
        self.limit = Some(self.config.ceiling.map_or(raised, |ceiling| raised.min(ceiling)));
        (LimitAction::Relax, reason)
    }

    fn why_not_squeeze(&self, seen: &Observation, harm_ppm: u64) -> Option<LimitReason> {
        if harm_ppm > GOAL_PPM / 2 {
            return Some(LimitReason::Near);
        }
        if seen.at < self.holds_until {
            return Some(LimitReason::BackingOff);
        }
        if seen.usage.min(self.limit.unwrap_or(Bytes::new(u64::MAX))) <= self.config.floor {
            return Some(LimitReason::AtFloor);
        }
        let step = self.step(self.config.squeeze, seen.usage);
        // The memory that the last squeezes asked for is still there: nothing can be evicted, or swap has no room.
        let is_above = |limit: Bytes| seen.usage.get() > limit.get().saturating_add(step);
        self.limit.is_some_and(is_above).then_some(LimitReason::AboveLimit)
    }

    fn squeeze(&mut self, usage: Bytes) {
        let base = self.limit.map_or(usage, |limit| limit.min(usage));
        let lower = Bytes::new(base.get().saturating_sub(self.step(self.config.squeeze, base)));
        self.limit = Some(lower.max(self.config.floor));
        (self.has_squeezed, self.squeezed_last, self.is_sorted) = (true, true, false);
        self.squeezes_in_a_row += 1;
        if self.squeezes_in_a_row == SQUEEZES_TO_FORGET {
            self.squeezes_in_a_row = 0;
            self.level = self.level.saturating_sub(1);
        }
    }

    /// A share of `base` in whole pages, one at least.
    fn step(&self, share: Ratio, base: Bytes) -> u64 {
        (share.of(base.get()) / PAGE_BYTES).max(1) * PAGE_BYTES
    }

    /// The back-off at this level. The first harm that a squeeze led to is level 1: the back-off as configured.
    fn hold(&self) -> Duration {
        let doublings = self.level.saturating_sub(1).min(63);
        self.config.backoff.saturating_mul(1 << doublings).min(self.config.backoff_max)
    }
}
