//! The set-ups that advice compares: one table. A new policy is tried by being registered; a new combination (a scheme
//! on top of a policy) is one line here.

use crate::Scenario;
use isotherm_sim::reclaim::policy_by_name;

/// A set-up to try.
pub struct Candidate {
    /// Name in results.
    pub name: &'static str,
    /// Policy it builds on.
    policy: &'static str,
    /// Turns the plain scenario into this set-up.
    pub apply: fn(Scenario) -> Scenario,
}

impl Candidate {
    /// Whether Linux has it.
    pub fn runs_on_linux(&self) -> bool {
        policy_by_name(self.policy).is_ok_and(|entry| entry.runs_on_linux)
    }
}

macro_rules! plain {
    ($name:literal) => {
        Candidate { name: $name, policy: $name, apply: |scenario| Scenario { policy: $name.to_owned(), ..scenario } }
    };
}

/// All set-ups, in the order of results. A test checks that every registered policy is among them.
pub const CANDIDATES: &[Candidate] =
    &[plain!("classic"), plain!("mglru"), plain!("lru"), plain!("fifo"), plain!("clock"), plain!("opt")];

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_sim::reclaim::POLICIES;

    #[test]
    fn every_policy_is_tried() {
        for entry in POLICIES {
            assert!(CANDIDATES.iter().any(|candidate| candidate.policy == entry.name), "`{}` is not tried", entry.name);
        }
    }
}
