//! Why a limit was changed or left: counts of all decisions.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Action on a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAction {
    /// Nothing.
    Hold,
    /// LRU lists are sorted; a squeeze follows one interval later.
    Sort,
    /// The limit is lowered.
    Squeeze,
    /// The limit is raised.
    Relax,
    /// The limit is taken away.
    Lift,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitReason {
    /// Harm is at most half of the goal, and no other reason forbids a squeeze.
    Calm,
    /// Memory pressure of the group is above its goal.
    Pressure,
    /// Refaults of the group are above their goal.
    Refaults,
    /// Harm is above its goal, but the limit was neither reached nor near, so raising it would change nothing.
    Elsewhere,
    /// Harm is above half of its goal.
    Near,
    /// Harm was above its goal not long ago.
    BackingOff,
    /// Memory in use, or the limit, is at the floor.
    AtFloor,
    /// Memory in use stays above the limit: nothing more can be evicted.
    AboveLimit,
    /// The first reading: there is nothing to compare with.
    FirstLook,
    /// There is no such group.
    NoGroup,
    /// The host cannot read one of the gauges, or cannot set the limit.
    Refused,
}

impl LimitAction {
    /// Name of the action in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Sort => "sort",
            Self::Squeeze => "squeeze",
            Self::Relax => "relax",
            Self::Lift => "lift",
        }
    }
}

impl LimitReason {
    /// Name of the reason in results.
    pub const fn name(self) -> &'static str {
        LIMIT_REASONS[self as usize].1
    }
}

/// All reasons, with their names in results.
pub const LIMIT_REASONS: [(LimitReason, &str); 11] = [
    (LimitReason::Calm, "calm"),
    (LimitReason::Pressure, "pressure"),
    (LimitReason::Refaults, "refaults"),
    (LimitReason::Elsewhere, "elsewhere"),
    (LimitReason::Near, "near"),
    (LimitReason::BackingOff, "backing_off"),
    (LimitReason::AtFloor, "at_floor"),
    (LimitReason::AboveLimit, "above_limit"),
    (LimitReason::FirstLook, "first_look"),
    (LimitReason::NoGroup, "no_group"),
    (LimitReason::Refused, "refused"),
];

/// Counts of all decisions since the daemon was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsWhy {
    /// Counts by reason.
    by_reason: [u64; LIMIT_REASONS.len()],
    /// Lists sorted.
    pub sorts: u64,
    /// Sorts that the host could not do.
    pub sorts_refused: u64,
    pub squeezes: u64,
    pub relaxes: u64,
    pub lifts: u64,
    /// Intervals without a reading because it came too late.
    pub missed: u64,
    /// Message of the host's last refusal.
    pub last_refusal: Option<String>,
}

impl LimitsWhy {
    /// Decisions for this reason.
    pub const fn of(&self, reason: LimitReason) -> u64 {
        self.by_reason[reason as usize]
    }

    /// All decisions.
    pub fn decisions(&self) -> u64 {
        self.by_reason.iter().sum()
    }

    pub(super) const fn count(&mut self, action: LimitAction, reason: LimitReason) {
        self.by_reason[reason as usize] += 1;
        match action {
            LimitAction::Hold => {}
            LimitAction::Sort => self.sorts += 1,
            LimitAction::Squeeze => self.squeezes += 1,
            LimitAction::Relax => self.relaxes += 1,
            LimitAction::Lift => self.lifts += 1,
        }
    }
}

impl Serialize for LimitsWhy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, times) in [
            ("sorts", self.sorts),
            ("sorts_refused", self.sorts_refused),
            ("squeezes", self.squeezes),
            ("relaxes", self.relaxes),
            ("lifts", self.lifts),
            ("missed", self.missed),
        ] {
            map.serialize_entry(name, &times)?;
        }
        for (reason, name) in LIMIT_REASONS {
            map.serialize_entry(name, &self.of(reason))?;
        }
        map.serialize_entry("last_refusal", &self.last_refusal)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_results() {
        for (place, (reason, name)) in LIMIT_REASONS.into_iter().enumerate() {
            assert_eq!((reason as usize, reason.name()), (place, name));
            assert_eq!(toml::Value::try_from(reason), Ok(name.into()));
        }
        use LimitAction::{Hold, Lift, Relax, Sort, Squeeze};
        for action in [Hold, Sort, Squeeze, Relax, Lift] {
            assert_eq!(toml::Value::try_from(action), Ok(action.name().into()));
        }
    }
}
