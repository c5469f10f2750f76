//! The contract of every host, role by role: one suite for the simulated machine, for live Linux, and for the fakes of tests.
//!
//! Each function exercises one role on a host whose contents the caller describes, and finds violations of the contract. No other program
//! may act on the host at the same time: no program touches its memory, nothing reclaims. A host that answers "not here" for a whole role
//! keeps the contract of that role, if its capabilities report the same.

mod applying;
mod compacting;
mod gauging;
mod generations;
mod mappings;
mod probing;
mod tiering;

#[cfg(test)]
mod tests;

pub use applying::applying;
pub use compacting::compacting;
pub use gauging::gauging;
pub use generations::generations;
pub use mappings::mappings;
pub use probing::probing;
pub use tiering::tiering;

use super::{AddressRange, HostError, TargetId};

/// State that the caller has prepared on the host.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// A process that is alive during the test.
    pub process: TargetId,
    /// A part of the space that is mapped, in whole pages, all of them present.
    pub mapped: AddressRange,
    /// A byte address at which nothing is mapped, not even near.
    pub hole: u64,
    /// A target that has ended, if the host recognises such targets.
    pub gone: Option<TargetId>,
}

/// Breaches of the contract, a sentence each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(Vec<String>);

impl Findings {
    fn expect(&mut self, holds: bool, contract: &str) {
        if !holds {
            self.0.push(contract.to_owned());
        }
    }

    /// A call that the host claims to have answers; a call that it does not claim returns "not here".
    fn expect_offered<T>(&mut self, is_offered: bool, call: &str, answer: &Result<T, HostError>) {
        let is_not_here = matches!(answer, Err(HostError::NotHere(_)));
        if is_offered && is_not_here {
            self.0.push(format!("`{call}` is among the capabilities, and not here"));
        }
        if !is_offered && answer.is_ok() {
            self.0.push(format!("`{call}` is not among the capabilities, and answers"));
        }
    }

    /// A call for a target that has ended returns that it has ended.
    fn expect_gone<T>(&mut self, call: &str, target: TargetId, answer: &Result<T, HostError>) {
        let is_so = match answer {
            Err(HostError::Gone(gone)) => *gone == target,
            Err(HostError::NotHere(_)) => true,
            Ok(_) | Err(HostError::Failed(_)) => false,
        };
        self.expect(is_so, &format!("`{call}` of a target that has ended is not `Gone` with its number"));
    }

    /// Faults of the host, one sentence each; empty if there are none.
    pub fn sentences(&self) -> &[String] {
        &self.0
    }

    /// For tests.
    ///
    /// # Panics
    /// If something was found: with all findings.
    #[track_caller]
    pub fn assert_none(&self) {
        assert!(self.0.is_empty(), "the host breaks its contract:\n  {}", self.0.join("\n  "));
    }
}

/// Ranges that ascend, touch at most, and are not empty.
fn are_ordered(ranges: &[AddressRange]) -> bool {
    ranges.iter().all(|range| !range.is_empty()) && ranges.windows(2).all(|pair| pair[0].end <= pair[1].start)
}
