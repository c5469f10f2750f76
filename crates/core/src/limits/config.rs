//! Settings of a limit that is found.

use isotherm_units::{Bytes, Duration, Ratio};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Events a second, written `50/s`; thousandths are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// So many a second.
    pub const fn per_second(events: u64) -> Self {
        Self(events.saturating_mul(1000))
    }

    /// In thousandths of an event a second.
    pub const fn per_kilosecond(self) -> u64 {
        self.0
    }

    /// Of so many events in a time.
    pub fn of(events: u64, elapsed: Duration) -> Self {
        let rate = u128::from(events) * 1_000_000_000_000 / u128::from(elapsed.ns().max(1));
        Self(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no rate; allowed: a number a second, as 50/s or 0.5/s");
        let number = text.strip_suffix("/s").ok_or_else(wrong)?.trim();
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits =
            |text: &str| !text.is_empty() && text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !(part.is_empty() || (digits(part) && part.len() <= 3)) || number.ends_with('.') {
            return Err(wrong());
        }
        let part: u64 = format!("{part:0<3}").parse().map_err(|_| wrong())?;
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        Ok(Self(whole * 1000 + part))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        write!(f, "{}/s", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What the group may suffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Goal {
    /// Share of the time in which some task of the group waited for memory: `some` of its `memory.pressure`. Default 0.1 %; above 0 % up to
    /// 100 %.
    pub pressure_some: Ratio,
    /// Pages of the group that came back after they had been evicted: `workingset_refault_*` of its `memory.stat`. Default 50/s; above 0.
    pub refaults: Rate,
}

impl Default for Goal {
    fn default() -> Self {
        Self { pressure_some: Ratio::from_ppm(1000), refaults: Rate::per_second(50) }
    }
}

/// Settings of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct LimitConfig {
    /// What the group may suffer.
    pub goal: Goal,
    /// The limit is never below it. Default 16 MiB; 1 MiB and more.
    pub floor: Bytes,
    /// The limit is never above it. Left out: it may be no limit at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Bytes>,
    /// Time between two decisions. Default 6 s; 1 s to 1 h.
    pub interval: Duration,
    /// Share of the group's memory that a step takes at most. Default 2 %; above 0 % up to 25 %.
    pub step: Ratio,
}

impl Default for LimitConfig {
    fn default() -> Self {
        Self {
            goal: Goal::default(),
            floor: Bytes::from_mib(16),
            ceiling: None,
            interval: Duration::from_secs(6),
            step: Ratio::from_percent(2),
        }
    }
}

/// A value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {got}; allowed: {allowed}")]
pub struct LimitError {
    /// The key, in dotted form.
    pub key: &'static str,
    pub got: String,
    /// The values that it may have.
    pub allowed: String,
}

impl LimitConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// The first that makes no sense.
    pub fn validate(&self) -> Result<(), LimitError> {
        let wrong =
            |key, got: &dyn fmt::Display, allowed: String| Err(LimitError { key, got: got.to_string(), allowed });
        let Self { goal, floor, ceiling, interval, step } = self;
        if goal.pressure_some == Ratio::ZERO || goal.pressure_some > Ratio::ONE {
            return wrong("goal.pressure-some", &goal.pressure_some, "above 0% up to 100%".to_owned());
        }
        if goal.refaults == Rate::per_second(0) {
            return wrong("goal.refaults", &goal.refaults, "above 0/s".to_owned());
        }
        if *floor < Bytes::from_mib(1) {
            return wrong("floor", floor, "1MiB and more".to_owned());
        }
        if let Some(ceiling) = ceiling.filter(|ceiling| ceiling < floor) {
            return wrong("ceiling", &ceiling, format!("the floor, {floor}, and more"));
        }
        if *interval < Duration::from_secs(1) || *interval > Duration::from_secs(3600) {
            return wrong("interval", interval, "1s to 1h".to_owned());
        }
        if *step == Ratio::ZERO || *step > Ratio::from_percent(25) {
            return wrong("step", step, "above 0% up to 25%".to_owned());
        }
        Ok(())
    }
}
