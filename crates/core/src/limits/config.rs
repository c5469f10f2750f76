//! Settings of right-sizing.

use isotherm_units::{Bytes, Duration, PAGE_BYTES, Ratio};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Stall times are counted in microseconds, and a kernel takes samples in between: shorter intervals would be noise.
const INTERVAL_MIN: Duration = Duration::from_ms(100);
const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// The largest step down. A larger step would find the limit only by doing harm.
const SQUEEZE_MAX: Ratio = Ratio::from_percent(20);

/// A value that is refused, with the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {got}; allowed: {allowed}")]
pub struct LimitsError {
    /// The key in files, such as `floor`; `goal.refaults` for keys of the goal.
    pub key: &'static str,
    pub got: String,
    /// The allowed values, as text.
    pub allowed: String,
}

/// Events a second, written `50/s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    pub const fn per_second(events: u64) -> Self {
        Self(events)
    }

    /// Events a second.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix("/s").map(str::trim_end);
        let digits = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let events = digits.and_then(|digits| digits.parse().ok());
        events
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a rate; allowed: a whole number a second, such as `50/s`"))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Harm that is accepted. The limit is raised above either of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Goal {
    /// Share of an interval in which some task of the group was stalled by memory. More than 0 %, at most 100 %. Default 0.1 %.
    pub pressure_some: Ratio,
    /// Evicted pages (4 KiB) of the group that came back, a second. At least `1/s`. Default `50/s`.
    pub refaults: Rate,
}

impl Default for Goal {
    fn default() -> Self {
        Self { pressure_some: Ratio::from_ppm(1000), refaults: Rate::per_second(50) }
    }
}

/// Settings of right-sizing for one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LimitsConfig {
    /// Path of the group, such as `/app/web`. The root has no limit and is refused.
    pub target: String,
    /// Harm that is accepted.
    #[serde(default)]
    pub goal: Goal,
    /// The limit is never set below this, a page (4 KiB) and more. Default 64 MiB.
    #[serde(default = "floor")]
    pub floor: Bytes,
    /// The limit is never set above this. If left out, the limit is removed (`max`) if great harm requires it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Bytes>,
    /// Whether LRU lists are sorted one interval before each squeeze, by making a generation of the group. The two-list LRU has no such
    /// call: LRU_SORT has to run next to it. Default `false`.
    #[serde(default)]
    pub sort_first: bool,
    /// Time from one decision to the next, 100 ms to 1 h. Default 5 s.
    #[serde(default = "interval")]
    pub interval: Duration,
    /// A squeeze takes this share of the memory in use. More than 0 %, at most 20 %. Default 1 %.
    #[serde(default = "squeeze")]
    pub squeeze: Ratio,
    /// Raising the limit adds at least this share. More than `squeeze`, at most 100 %. Default 5 %.
    #[serde(default = "relax")]
    pub relax: Ratio,
    /// Time after harm without a squeeze, one interval and more. It doubles each time that a squeeze led to harm. Default 30 s.
    #[serde(default = "backoff")]
    pub backoff: Duration,
    /// The longest such time, `backoff` and more. Default 10 min.
    #[serde(default = "backoff_max")]
    pub backoff_max: Duration,
}

const fn floor() -> Bytes {
    Bytes::from_mib(64)
}
const fn interval() -> Duration {
    Duration::from_secs(5)
}
const fn squeeze() -> Ratio {
    Ratio::from_percent(1)
}
const fn relax() -> Ratio {
    Ratio::from_percent(5)
}
const fn backoff() -> Duration {
    Duration::from_secs(30)
}
const fn backoff_max() -> Duration {
    Duration::from_secs(600)
}

impl LimitsConfig {
    /// Right-sizing of the group at `target`, with defaults otherwise.
    pub fn new(target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            goal: Goal::default(),
            floor: floor(),
            ceiling: None,
            sort_first: false,
            interval: interval(),
            squeeze: squeeze(),
            relax: relax(),
            backoff: backoff(),
            backoff_max: backoff_max(),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), LimitsError> {
        let refuse =
            |key, got: &dyn fmt::Display, allowed: String| Err(LimitsError { key, got: got.to_string(), allowed });
        let target = &self.target;
        if !target.starts_with('/') || target.ends_with('/') || target.contains("//") || target.contains('\n') {
            let allowed = "the path of one group below the root, such as \"/app/web\"; the root has no memory.high";
            return refuse("target", &format_args!("\"{target}\""), allowed.to_owned());
        }
        let Goal { pressure_some, refaults } = self.goal;
        if pressure_some == Ratio::ZERO || pressure_some > Ratio::ONE {
            return refuse("goal.pressure-some", &pressure_some, "more than 0%, at most 100%".to_owned());
        }
        if refaults.get() == 0 {
            return refuse("goal.refaults", &refaults, "1/s and more".to_owned());
        }
        if self.floor.get() < PAGE_BYTES {
            return refuse("floor", &self.floor, "a page (4KiB) and more".to_owned());
        }
        if let Some(ceiling) = self.ceiling
            && ceiling < self.floor
        {
            return refuse("ceiling", &ceiling, format!("the floor ({}) and more", self.floor));
        }
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&self.interval) {
            return refuse("interval", &self.interval, format!("{INTERVAL_MIN} to {INTERVAL_MAX}"));
        }
        if self.squeeze == Ratio::ZERO || self.squeeze > SQUEEZE_MAX {
            return refuse("squeeze", &self.squeeze, format!("more than 0%, at most {SQUEEZE_MAX}"));
        }
        if self.relax <= self.squeeze || self.relax > Ratio::ONE {
            return refuse("relax", &self.relax, format!("more than `squeeze` ({}), at most 100%", self.squeeze));
        }
        if self.backoff < self.interval {
            return refuse("backoff", &self.backoff, format!("one interval ({}) and more", self.interval));
        }
        if self.backoff_max < self.backoff {
            return refuse("backoff-max", &self.backoff_max, format!("`backoff` ({}) and more", self.backoff));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_written() {
        let text = "target = \"/web\"\ngoal = { pressure-some = \"0.1%\", refaults = \"50/s\" }\nfloor = \"512MiB\"\nsort-first = true\n";
        let read: LimitsConfig = toml::from_str(text).expect("as in docs/spec/live.md#s5");
        let expected = LimitsConfig { floor: Bytes::from_mib(512), sort_first: true, ..LimitsConfig::new("/web") };
        assert_eq!(read, expected);
        let written = toml::to_string(&read).expect("plain");
        assert_eq!(toml::from_str::<LimitsConfig>(&written).expect("as written"), read);
        for wrong in ["floor = \"1MiB\"", "target = \"/a\"\nlimit = 1", "target = \"/a\"\ngoal = { refaults = 50 }"] {
            assert!(toml::from_str::<LimitsConfig>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_whole_numbers_a_second() {
        assert_eq!("50/s".parse(), Ok(Rate::per_second(50)));
        assert_eq!(" 7 /s ".parse(), Ok(Rate::per_second(7)));
        assert_eq!(Rate::per_second(7).to_string(), "7/s");
        for wrong in ["50", "/s", "-1/s", "+1/s", "1.5/s", "50/m", "99999999999999999999/s"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_key() {
        let good = LimitsConfig::new("/web");
        assert_eq!(good.validate(), Ok(()));
        let goal = |pressure_some, refaults| Goal { pressure_some, refaults: Rate::per_second(refaults) };
        let cases = [
            ("target", LimitsConfig { target: "/".to_owned(), ..good.clone() }),
            ("target", LimitsConfig { target: "web".to_owned(), ..good.clone() }),
            ("goal.pressure-some", LimitsConfig { goal: goal(Ratio::ZERO, 1), ..good.clone() }),
            ("goal.pressure-some", LimitsConfig { goal: goal(Ratio::from_ppm(1_000_001), 1), ..good.clone() }),
            ("goal.refaults", LimitsConfig { goal: goal(Ratio::ONE, 0), ..good.clone() }),
            ("floor", LimitsConfig { floor: Bytes::new(4095), ..good.clone() }),
            ("ceiling", LimitsConfig { ceiling: Some(Bytes::from_mib(63)), ..good.clone() }),
            ("interval", LimitsConfig { interval: Duration::from_ms(99), ..good.clone() }),
            ("squeeze", LimitsConfig { squeeze: Ratio::ZERO, ..good.clone() }),
            ("squeeze", LimitsConfig { squeeze: Ratio::from_percent(21), ..good.clone() }),
            ("relax", LimitsConfig { relax: Ratio::from_percent(1), ..good.clone() }),
            ("backoff", LimitsConfig { backoff: Duration::from_secs(4), ..good.clone() }),
            ("backoff-max", LimitsConfig { backoff_max: Duration::from_secs(29), ..good }),
        ];
        for (key, config) in cases {
            let error = config.validate().expect_err(key);
            assert_eq!(error.key, key);
            assert!(error.to_string().contains("; allowed: "), "{error}");
        }
    }
}
