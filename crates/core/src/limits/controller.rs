//! The controller: one decision an interval.

use super::config::{LimitConfig, LimitError, Rate};
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES, Ratio};
use serde::Serialize;

/// Intervals without a squeeze after the first harm; twice as many after each further one, up to the last number.
const WAIT_FIRST: u32 = 2;
const WAIT_MAX: u32 = 64;
/// Intervals in a row without harm after which the wait that the next harm begins with is halved.
const CALM: u32 = 32;
/// A harmed group gets this share of its limit back, twice as much in each further interval of harm, and all after so many.
const RELAX: Ratio = Ratio::from_ppm(62_500);
const RELAXES_MAX: u32 = 4;

/// What a group has done up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Memory that is charged to it: `memory.current`.
    pub memory: Bytes,
    /// Total time in which some of its tasks waited for memory.
    pub stalled: Duration,
    /// Pages that came back, in all.
    pub refaults: u64,
}

/// Why a limit is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitReason {
    /// It looks for the first time: what the group has is what it gets.
    First,
    /// All is well: it got less.
    Squeezed,
    /// Tasks waited for memory for too long: it got more.
    RelaxedPressure,
    /// Too many pages came back: it got more.
    RelaxedRefaults,
    /// It was harmed for several intervals in a row: the limit is off, or at its ceiling.
    Released,
    /// It was harmed not long ago.
    Waiting,
    /// Harm is near its goal: neither more nor less.
    Near,
    /// It cannot get less.
    Floor,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The limit to set; `None`: none.
    pub high: Option<Bytes>,
    pub reason: LimitReason,
    /// Share of the last interval in which some task waited.
    pub pressure: Ratio,
    /// Pages that came back in the last interval, a thousand seconds.
    pub refaults_per_kilosecond: u64,
}

/// Finds the limit of one group.
#[derive(Clone, Debug)]
pub struct Controller {
    config: LimitConfig,
    before: Option<(Instant, Reading)>,
    high: Option<Bytes>,
    /// Intervals until the next squeeze.
    wait: u32,
    /// What the next harm makes of it.
    next_wait: u32,
    calm: u32,
    /// Intervals of harm in a row.
    relaxes: u32,
}

impl Controller {
    /// Knows nothing of the group yet.
    ///
    /// # Errors
    /// A value that makes no sense.
    pub fn new(config: LimitConfig) -> Result<Self, LimitError> {
        config.validate()?;
        let (wait, next_wait, calm, relaxes) = (0, WAIT_FIRST, 0, 0);
        Ok(Self { config, before: None, high: None, wait, next_wait, calm, relaxes })
    }

    pub const fn config(&self) -> &LimitConfig {
        &self.config
    }

    /// When it wants to be asked next; `None`: at once.
    pub fn due(&self) -> Option<Instant> {
        self.before.map(|(before, _)| before + self.config.interval)
    }

    /// Begins anew at the next reading, as after a pause in which others may have set the limit.
    pub fn forget(&mut self) {
        self.before = None;
        self.high = None;
    }

    /// Decides. Readings are totals that only grow, but for `memory`.
    pub fn decide(&mut self, now: Instant, reading: Reading) -> Decision {
        let Some((since, before)) = self.before.replace((now, reading)) else {
            self.high = Some(self.bounded(reading.memory));
            return self.said(LimitReason::First, Ratio::ZERO, Rate::per_second(0));
        };
        let elapsed = now.since(since);
        let stalled = u128::from(reading.stalled.saturating_sub(before.stalled).ns()) * 1_000_000;
        let pressure = Ratio::from_ppm(u64::try_from(stalled / u128::from(elapsed.ns().max(1))).unwrap_or(u64::MAX));
        let refaults = Rate::of(reading.refaults.saturating_sub(before.refaults), elapsed);
        let reason = self.step(reading, pressure, refaults);
        self.said(reason, pressure, refaults)
    }

    fn step(&mut self, reading: Reading, pressure: Ratio, refaults: Rate) -> LimitReason {
        let goal = self.config.goal;
        let too_much = if pressure > goal.pressure_some {
            Some(LimitReason::RelaxedPressure)
        } else if refaults > goal.refaults {
            Some(LimitReason::RelaxedRefaults)
        } else {
            None
        };
        if let Some(reason) = too_much {
            return self.relax(reading, reason);
        }
        self.relaxes = 0;
        self.calm += 1;
        if self.calm >= CALM {
            self.calm = 0;
            self.next_wait = (self.next_wait / 2).max(WAIT_FIRST);
        }
        if self.wait > 0 {
            self.wait -= 1;
            return LimitReason::Waiting;
        }
        let is_near = |part: u64, whole: u64| u128::from(part) * 2 > u128::from(whole);
        if is_near(pressure.ppm(), goal.pressure_some.ppm())
            || is_near(refaults.per_kilosecond(), goal.refaults.per_kilosecond())
        {
            return LimitReason::Near;
        }
        self.squeeze(reading)
    }

    /// From what it has, or from its limit if that is less.
    fn squeeze(&mut self, reading: Reading) -> LimitReason {
        let from = self.high.map_or(reading.memory, |high| high.min(reading.memory));
        let step = self.config.step.of(from.get()).max(PAGE_BYTES);
        let to = self.bounded(Bytes::new(from.get().saturating_sub(step)));
        let is_less = self.high.is_none_or(|high| to < high);
        if is_less {
            self.high = Some(to);
        }
        if is_less && to < from { LimitReason::Squeezed } else { LimitReason::Floor }
    }

    fn relax(&mut self, reading: Reading, reason: LimitReason) -> LimitReason {
        self.calm = 0;
        if self.relaxes == 0 {
            self.wait = self.next_wait;
            self.next_wait = (self.next_wait * 2).min(WAIT_MAX);
        }
        self.wait = self.wait.max(WAIT_FIRST);
        self.relaxes += 1;
        if self.relaxes > RELAXES_MAX {
            self.high = self.config.ceiling;
            return LimitReason::Released;
        }
        if let Some(high) = self.high {
            let more = RELAX.of(high.get()).saturating_mul(1 << (self.relaxes - 1)).max(PAGE_BYTES);
            // A group that is above its limit all the same gets that on top.
            let from = high.max(reading.memory);
            self.high = Some(self.bounded(Bytes::new(from.get().saturating_add(more))));
        }
        reason
    }

    /// In whole pages, between floor and ceiling.
    fn bounded(&self, limit: Bytes) -> Bytes {
        let pages = limit.get().div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
        let limit = Bytes::new(pages).max(self.config.floor);
        self.config.ceiling.map_or(limit, |ceiling| limit.min(ceiling))
    }

    fn said(&self, reason: LimitReason, pressure: Ratio, refaults: Rate) -> Decision {
        Decision { high: self.high, reason, pressure, refaults_per_kilosecond: refaults.per_kilosecond() }
    }
}
