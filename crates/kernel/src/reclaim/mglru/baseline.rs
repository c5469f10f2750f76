//! Linux release of the policy, and how its pages count their uses (docs/spec/mglru.md#s18).
//!
//! Rules that are not here are the same in both. Rules that are longer than a line are in `v6_12.rs`, and are chosen where the rules of 7.2
//! begin.

use super::page::{NR_TIERS, PageState, ProbeResult};
use crate::memory::KernelRelease;
use serde::{Deserialize, Serialize};

/// A release of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Baseline {
    /// 7.2, and 6.18.
    #[default]
    #[serde(rename = "7.2", alias = "v7_2")]
    V7_2,
    /// 6.12: other uses, insertion, sorting, generations and ageing; groups in turn, the daemon and stops as in 7.2.
    #[serde(rename = "6.12", alias = "v6_12")]
    V6_12,
}

impl From<KernelRelease> for Baseline {
    fn from(release: KernelRelease) -> Self {
        match release {
            KernelRelease::V6_12 => Self::V6_12,
            KernelRelease::V6_18 | KernelRelease::V7_2 => Self::V7_2,
        }
    }
}

/// Uses through descriptors: 7.2 counts referenced, three further ones, working set; 6.12 referenced, working set, three further ones. The
/// same number of uses gives the same tier.
impl Baseline {
    /// Uses that are remembered: 0 to 4. In 6.12 the first use is not counted.
    pub(super) const fn refs(self, state: PageState) -> u64 {
        match self {
            Self::V7_2 => state.refs(),
            Self::V6_12 => state.further_uses() as u64 + state.is_workingset() as u64,
        }
    }

    pub(super) const fn tier(self, state: PageState) -> usize {
        match self {
            Self::V7_2 => state.tier(),
            Self::V6_12 => Self::tier_beyond_the_first(self.refs(state)),
        }
    }

    /// Tier by uses beyond the first: ceil(log2(uses + 1)).
    pub(super) const fn tier_beyond_the_first(uses: u64) -> usize {
        match uses {
            0 => 0,
            1 => 1,
            2 | 3 => 2,
            _ => NR_TIERS - 1,
        }
    }

    pub(super) const fn is_lazily_promotable(self, state: PageState) -> bool {
        match self {
            Self::V7_2 => state.is_lazily_promotable(),
            Self::V6_12 => self.refs(state) == 4,
        }
    }

    /// State after a use through a descriptor.
    pub(super) fn used_by_descriptor(self, state: PageState) -> PageState {
        match self {
            Self::V7_2 => state.used_by_descriptor(),
            Self::V6_12 if !state.is_referenced() => state.with_referenced(),
            Self::V6_12 if !state.is_workingset() => state.with_workingset(),
            Self::V6_12 => state.with_further_uses(state.further_uses() as u64 + 1),
        }
    }

    /// State as the page is taken off to be evicted.
    pub(super) const fn isolated(self, state: PageState) -> PageState {
        match self {
            Self::V7_2 => state.settled(),
            Self::V6_12 if state.is_referenced() => state.without_referenced(),
            Self::V6_12 => state.cold(),
        }
    }

    /// A walk saw it used: 6.12 promotes at the first one, and forgets all uses.
    pub(super) const fn seen_by_walk(self, state: PageState) -> (PageState, ProbeResult) {
        match self {
            Self::V7_2 => state.seen_by_walk(),
            Self::V6_12 => (state.cold(), ProbeResult::Again),
        }
    }
}
