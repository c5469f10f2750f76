//! Which Linux the simulated kernel is, where releases differ outside the Multi-Gen LRU.

use serde::{Deserialize, Serialize};

/// A release of Linux. What is not told apart is the same in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelRelease {
    /// 7.2.
    #[default]
    V7_2,
    /// 6.12: readahead of mapped files and of streams as it was before (`docs/machine.md`).
    V6_12,
}

impl KernelRelease {
    /// Whether nothing was chosen: such a key is not printed.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
