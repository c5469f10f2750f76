//! How long a generator goes on: a number of operations, or an amount of time.

use isotherm_units::{Duration, Instant};

use crate::WorkloadError;

/// A checked length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Operations(u64),
    Time(Duration),
}

impl Extent {
    /// The extent from the two fields that every generator has; exactly one must be given.
    pub(crate) fn of(
        kind: &'static str,
        operations: Option<u64>,
        duration: Option<Duration>,
    ) -> Result<Self, WorkloadError> {
        match (operations, duration) {
            (Some(0), None) => Err(WorkloadError::field(kind, "operations", 0, "1 or more")),
            (None, Some(Duration::ZERO)) => Err(WorkloadError::field(kind, "duration", "0", "1ns or more")),
            (Some(operations), None) => Ok(Self::Operations(operations)),
            (None, Some(duration)) => Ok(Self::Time(duration)),
            (None, None) => Err(WorkloadError::contradiction(
                kind,
                "its length is not given",
                "set `operations` (for example 10000000) or `duration` (for example \"30s\")",
            )),
            (Some(_), Some(_)) => Err(WorkloadError::contradiction(
                kind,
                "both `operations` and `duration` are given",
                "keep the one that shall end the workload",
            )),
        }
    }

    /// The share of thread `index` of `threads`: operations are divided, time is not.
    pub(crate) fn share(self, index: u64, threads: u64) -> Budget {
        match self {
            Self::Operations(all) => Budget::Operations(all / threads + u64::from(index < all % threads)),
            Self::Time(duration) => Budget::NotBegun(duration),
        }
    }

    /// Operations a batch may hold so that a batch covers at most 1 % of the time, when one takes about `operation_ns`.
    pub(crate) fn batch_operations(self, operation_ns: u64) -> u64 {
        match self {
            Self::Operations(_) => BATCH_OPERATIONS,
            Self::Time(duration) => (duration.ns() / 100 / operation_ns.max(1)).clamp(1, BATCH_OPERATIONS),
        }
    }

    /// The reason to give when the future is wanted.
    pub(crate) fn depends_on_time(duration: Option<Duration>) -> Option<String> {
        duration.map(|_| "its length is a `duration`; give `operations` instead".to_owned())
    }
}

/// Runs that a batch holds by default: 16 KiB, half a first-level cache.
pub(crate) const BATCH_OPERATIONS: u64 = 1024;

/// The rest of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    Operations(u64),
    /// The time starts with the first question.
    NotBegun(Duration),
    Until(Instant),
}

impl Budget {
    /// Takes at most `wanted` operations at time `now`; 0 when the end is reached.
    pub(crate) fn take(&mut self, wanted: u64, now: Instant) -> u64 {
        if let Self::NotBegun(duration) = *self {
            *self = Self::Until(now + duration);
        }
        match self {
            Self::Operations(left) => {
                let taken = wanted.min(*left);
                *left -= taken;
                taken
            }
            Self::Until(end) if now < *end => wanted,
            Self::Until(_) | Self::NotBegun(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_length() {
        let second = Duration::from_secs(1);
        assert_eq!(Extent::of("scan", Some(3), None).unwrap(), Extent::Operations(3));
        assert_eq!(Extent::of("scan", None, Some(second)).unwrap(), Extent::Time(second));
        let message = |operations, duration| Extent::of("scan", operations, duration).unwrap_err().to_string();
        assert!(message(None, None).contains("set `operations`"));
        assert!(message(Some(1), Some(second)).contains("both"));
        assert_eq!(message(Some(0), None), "scan: `operations` is 0; allowed: 1 or more");
        assert!(message(None, Some(Duration::ZERO)).contains("`duration`"));
    }

    #[test]
    fn operations_are_divided_without_loss() {
        let shares: Vec<Budget> = (0..3).map(|index| Extent::Operations(8).share(index, 3)).collect();
        assert_eq!(shares, [Budget::Operations(3), Budget::Operations(3), Budget::Operations(2)]);
    }

    #[test]
    fn a_budget_ends() {
        let mut budget = Budget::Operations(5);
        assert_eq!(
            [budget.take(4, Instant::START), budget.take(4, Instant::START), budget.take(4, Instant::START)],
            [4, 1, 0]
        );
        let mut budget = Budget::NotBegun(Duration::from_ns(10));
        let at = |budget: &mut Budget, ns| budget.take(4, Instant::from_ns(ns));
        assert_eq!([at(&mut budget, 100), at(&mut budget, 109), at(&mut budget, 110)], [4, 4, 0]);
    }
}
