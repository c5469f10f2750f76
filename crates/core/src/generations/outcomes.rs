//! Why generations were not evicted: the result for each group in each pass.

use crate::host::HostError;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// How often, and how much memory it was about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    pub times: u64,
    /// Bytes together; a group met twice counts twice.
    pub bytes: u64,
}

/// The result for a group, or for all of them, in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GenerationReason {
    /// The group was aged: a new generation was made.
    Aged,
    /// No generation, except perhaps the two youngest, is as old as the threshold: nothing is cold.
    NothingOld,
    /// Cold memory was found, but others had used up the budget.
    BudgetUsed,
    /// Cold memory was found, but memory pressure is above its limit.
    Pressure,
    /// Cold memory was found, but too many of the evicted pages came back.
    Refaults,
    Evicted,
    /// Evicted on request, but still there: in use after all, locked, being written, or without a place in swap.
    StillThere,
    /// There is no group of that name.
    NoGroup,
    /// The host does not support the call.
    NotHere,
    /// The host refused or failed.
    Failed,
}

/// All reasons, with their names in results.
pub const GENERATION_REASONS: [(GenerationReason, &str); 10] = [
    (GenerationReason::Aged, "aged"),
    (GenerationReason::NothingOld, "nothing_old"),
    (GenerationReason::BudgetUsed, "budget_used"),
    (GenerationReason::Pressure, "pressure"),
    (GenerationReason::Refaults, "refaults"),
    (GenerationReason::Evicted, "evicted"),
    (GenerationReason::StillThere, "still_there"),
    (GenerationReason::NoGroup, "no_group"),
    (GenerationReason::NotHere, "not_here"),
    (GenerationReason::Failed, "failed"),
];

/// Numbers of passes of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passes {
    /// Passes that were begun.
    pub begun: u64,
    /// Passes among `passes` in which it was backing off for memory pressure.
    pub pressure: u64,
    /// Passes in which it was backing off for refaults.
    pub refaults: u64,
    /// Passes in which a number that steers it could not be read; the tool then goes on as if that number were calm.
    pub unread: u64,
}

/// Counts of all passes since the tool was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenerationWhy {
    pub passes: Passes,
    by_reason: [Times; GENERATION_REASONS.len()],
    /// Message of the host's last refusal.
    pub last_refusal: Option<String>,
}

impl GenerationWhy {
    pub fn of(&self, reason: GenerationReason) -> Times {
        self.by_reason[reason as usize]
    }

    pub(super) fn count(&mut self, reason: GenerationReason, bytes: u64) {
        let sum = &mut self.by_reason[reason as usize];
        sum.times += 1;
        sum.bytes = sum.bytes.saturating_add(bytes);
    }

    pub(super) fn refused(&mut self, error: &HostError) {
        let reason = match error {
            HostError::NotHere(_) => GenerationReason::NotHere,
            HostError::Gone(_) | HostError::Failed(_) => GenerationReason::Failed,
        };
        self.count(reason, 0);
        self.last_refusal = Some(error.to_string());
    }

    /// The sum with other counts of the same passes.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (sum, more) in sum.by_reason.iter_mut().zip(other.by_reason) {
            sum.times += more.times;
            sum.bytes = sum.bytes.saturating_add(more.bytes);
        }
        if sum.last_refusal.is_none() {
            sum.last_refusal.clone_from(&other.last_refusal);
        }
        sum
    }
}

impl Serialize for GenerationWhy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("passes", &self.passes)?;
        for (reason, name) in GENERATION_REASONS {
            map.serialize_entry(name, &self.of(reason))?;
        }
        map.serialize_entry("last_refusal", &self.last_refusal)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for GenerationWhy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            passes: Passes,
            last_refusal: Option<String>,
            #[serde(flatten)]
            reasons: BTreeMap<String, Times>,
        }
        let Fields { passes, last_refusal, reasons } = Fields::deserialize(deserializer)?;
        let by_reason = GENERATION_REASONS.map(|(_, name)| reasons.get(name).copied().unwrap_or_default());
        Ok(Self { passes, by_reason, last_refusal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_in_their_own_places() {
        for (place, (reason, _)) in GENERATION_REASONS.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }

    #[test]
    fn counts_add_up() {
        let mut one = GenerationWhy::default();
        one.count(GenerationReason::Evicted, 5);
        one.refused(&HostError::NotHere("needs mglru"));
        let mut other = GenerationWhy::default();
        other.count(GenerationReason::Evicted, 7);
        let sum = one.with(&other);
        assert_eq!(sum.of(GenerationReason::Evicted), Times { times: 2, bytes: 12 });
        let written = serde_json::to_string(&sum).expect("it is plain data");
        assert_eq!(serde_json::from_str::<GenerationWhy>(&written).expect("as it was written"), sum);
        assert_eq!((sum.of(GenerationReason::NotHere).times, sum.last_refusal.is_some()), (1, true));
    }
}
