//! How far the simulated machine is from real kernels: by how much an interval of chance is widened so that it holds the kernel's
//! count as well.
//!
//! The factors are fitted to real runs of programs on which nothing is judged (`docs/evidence/fidelity.md#recommendations`). A
//! configuration whose policy, release or parts were never compared with a kernel has no factor: it is shown, and never recommended.

use isotherm_kernel::memory::KernelRelease;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Events that are added to both sides of a ratio of counts: in smaller counts a single event is more than the model's error.
pub const EVENTS: u64 = 100;

/// How far a counter under a policy of a release is from the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelError {
    /// Name of the policy.
    pub policy: String,
    pub kernel: KernelRelease,
    /// Counter, by its name in results: `major_faults`.
    pub counter: String,
    /// Number of real runs that it was fitted to.
    pub runs: u64,
    /// Number of programs that these runs are of.
    pub programs: u64,
    /// Kernel's count over the upper end, in millionths, [`EVENTS`] added to both: at most this in 97.5 of 100 cases. The value is at least
    /// 1 000 000.
    pub above_ppm: u64,
    /// The same factor in 95 of 100 cases.
    pub above_95_ppm: u64,
    /// Lower end over the kernel's count, in millionths, with the same meaning.
    pub below_ppm: u64,
}

impl ModelError {
    /// The upper end of an interval of chance, widened.
    pub fn widened_high(&self, high: u64) -> u64 {
        scaled(high, self.above_ppm, 1_000_000)
    }

    /// The upper end, widened so that 95 of 100 counts lie below.
    pub fn widened_high_95(&self, high: u64) -> u64 {
        scaled(high, self.above_95_ppm, 1_000_000)
    }

    /// The lower end of an interval of chance, widened.
    pub fn widened_low(&self, low: u64) -> u64 {
        scaled(low, 1_000_000, self.below_ppm.max(1_000_000))
    }
}

fn scaled(count: u64, times: u64, by: u64) -> u64 {
    let with_events = u128::from(count) + u128::from(EVENTS);
    let scaled = (with_events * u128::from(times) / u128::from(by.max(1))).saturating_sub(u128::from(EVENTS));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// All that was measured.
///
/// # Panics
/// Never: a test reads the file.
pub fn model_errors() -> &'static [ModelError] {
    static ERRORS: OnceLock<Vec<ModelError>> = OnceLock::new();
    ERRORS.get_or_init(|| serde_json::from_str(include_str!("../data/model-error.json")).expect("a test reads it"))
}

/// The model's error for a counter under a policy of a release; `None` if it was not measured. A release whose rules were not compared with
/// running kernels has the largest error of those that were.
pub fn model_error(policy: &str, kernel: KernelRelease, counter: &str) -> Option<&'static ModelError> {
    let is_compared = KernelRelease::COMPARED.contains(&kernel);
    let is_it = |error: &&ModelError| {
        error.policy == policy && (error.kernel == kernel || !is_compared) && error.counter == counter
    };
    model_errors().iter().filter(is_it).max_by_key(|error| error.above_ppm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_policies_of_all_releases_have_an_error() {
        for policy in ["classic", "mglru"] {
            for kernel in KernelRelease::ALL {
                let error = model_error(policy, kernel, "major_faults").unwrap_or_else(|| panic!("{policy} {kernel}"));
                assert!(error.above_ppm >= error.above_95_ppm && error.above_95_ppm >= 1_000_000, "{error:?}");
                assert!(error.below_ppm >= 1_000_000, "{error:?}");
                assert!(error.programs >= 2 && error.runs >= error.programs, "{error:?}");
            }
        }
        assert_eq!(model_error("opt", KernelRelease::V7_2, "major_faults"), None);
        let [old, between, new] = KernelRelease::ALL
            .map(|kernel| model_error("classic", kernel, "major_faults").map_or(0, |error| error.above_ppm));
        assert_eq!(between, old.max(new));
    }

    #[test]
    fn intervals_are_widened_by_hand() {
        let error = ModelError {
            policy: "classic".to_owned(),
            kernel: KernelRelease::V7_2,
            counter: "major_faults".to_owned(),
            runs: 36,
            programs: 6,
            above_ppm: 1_500_000,
            above_95_ppm: 1_200_000,
            below_ppm: 2_000_000,
        };
        // (900 + 100) × 1.5 − 100; (900 + 100) ÷ 2 − 100.
        assert_eq!((error.widened_high(900), error.widened_low(900)), (1400, 400));
        // (900 + 100) × 1.2 − 100.
        assert_eq!(error.widened_high_95(900), 1100);
        assert_eq!((error.widened_high(0), error.widened_low(0)), (50, 0), "a count is never below 0");
        assert_eq!(error.widened_high(u64::MAX), u64::MAX);
    }
}
