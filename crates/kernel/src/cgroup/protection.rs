//! `memory.min` and `memory.low`: effective protection, and the part of a list that may be scanned (docs/spec/pressure.md#s6-1, classic-lru
//! 6.4). All numbers are pages.

/// Least pages of a protected list that are offered for scanning, before the priority shift.
const SCAN_MIN: u64 = 32;

/// A group, for computing effective protection. Groups are listed with parents before children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectionNode {
    /// Index of the parent in the list; `None` for the root.
    pub parent: Option<usize>,
    /// Pages charged, descendants included.
    pub usage: u64,
    /// `memory.min`.
    pub min: u64,
    /// `memory.low`.
    pub low: u64,
}

/// Protection in effect, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effective {
    /// Never reclaimed below this.
    pub min: u64,
    /// Not reclaimed below this while other groups can be reclaimed.
    pub low: u64,
}

/// A group's usage compared with its effective protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// At or below effective `min`: skip it.
    BelowMin,
    /// At or below effective `low`: skip it in the first pass.
    BelowLow,
    /// Above both.
    Unprotected,
}

impl Effective {
    /// Compares `usage` with the protection; "below" includes equality, but an unprotected group is never below.
    pub const fn standing(self, usage: u64) -> Standing {
        if self.min > 0 && self.min >= usage {
            Standing::BelowMin
        } else if self.low > 0 && self.low >= usage {
            Standing::BelowLow
        } else {
            Standing::Unprotected
        }
    }
}

/// One level of protection: a parent's effective protection is shared among its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Pages charged to the child.
    pub usage: u64,
    /// The child's own setting.
    pub setting: u64,
    /// Pages charged to the parent.
    pub parent_usage: u64,
    /// The parent's effective protection.
    pub parent_effective: u64,
    /// Sum over all children of the smaller of usage and setting.
    pub siblings_claim: u64,
    /// Mount option `memory_recursiveprot`: protection that no child claims is shared by usage.
    pub recursive: bool,
}

impl Share {
    /// The child's effective protection.
    pub fn effective(self) -> u64 {
        let claim = self.usage.min(self.setting);
        if self.siblings_claim > self.parent_effective {
            return mul_div(claim, self.parent_effective, self.siblings_claim);
        }
        let unclaimed = self.parent_effective - self.siblings_claim;
        let shares = self.recursive && unclaimed > 0 && self.parent_usage > self.siblings_claim && self.usage > claim;
        if !shares {
            return claim;
        }
        claim.saturating_add(mul_div(unclaimed, self.usage - claim, self.parent_usage - self.siblings_claim))
    }
}

/// Recomputes the effective protection of all groups below `target`, the group from which is reclaimed (the root for
/// global reclaim). `effective` keeps its values for groups without usage; groups outside the subtree are not touched.
/// The target itself has none.
///
/// # Panics
/// If the lists differ in length or a parent comes after its child.
pub fn update_effective(nodes: &[ProtectionNode], target: usize, recursive: bool, effective: &mut [Effective]) {
    assert_eq!(nodes.len(), effective.len(), "one result a group");
    let mut inside = vec![false; nodes.len()];
    let mut claims = vec![Effective::default(); nodes.len()];
    for node in nodes {
        if let Some(parent) = node.parent {
            let claim = &mut claims[parent];
            claim.min = claim.min.saturating_add(node.min.min(node.usage));
            claim.low = claim.low.saturating_add(node.low.min(node.usage));
        }
    }
    for (index, node) in nodes.iter().enumerate() {
        if index == target {
            inside[index] = true;
            effective[index] = Effective::default();
            continue;
        }
        let Some(parent) = node.parent else { continue };
        assert!(parent < index, "parents come before children");
        inside[index] = inside[parent];
        if !inside[index] || node.usage == 0 {
            continue;
        }
        effective[index] = if parent == target {
            Effective { min: node.min, low: node.low }
        } else {
            let share = |setting, parent_effective, siblings_claim| {
                let (usage, parent_usage) = (node.usage, nodes[parent].usage);
                Share { usage, setting, parent_usage, parent_effective, siblings_claim, recursive }.effective()
            };
            let (above, claimed) = (effective[parent], claims[parent]);
            Effective { min: share(node.min, above.min, claimed.min), low: share(node.low, above.low, claimed.low) }
        };
    }
}

/// How many pages of a list are offered for scanning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Pages, before the priority shift.
    pub pages: u64,
    /// `low` protected some: a second pass that ignores it may find more.
    pub low_skipped: bool,
}

/// Scales a list of `size` pages by the group's effective protection. `low_reclaim`: this is the pass that ignores `low`.
pub fn proportional_protection(size: u64, effective: Effective, usage: u64, low_reclaim: bool) -> Offer {
    if effective == Effective::default() {
        return Offer { pages: size, low_skipped: false };
    }
    let low_skipped = !low_reclaim && effective.low > effective.min;
    let protection = if low_skipped { effective.low } else { effective.min };
    let usage = usage.max(protection);
    let held_back = mul_div(size, protection, usage.saturating_add(1));
    Offer { pages: (size - held_back).max(SCAN_MIN), low_skipped }
}

/// `a * b / divisor` without overflow. The callers' results never exceed `a`.
fn mul_div(a: u64, b: u64, divisor: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(divisor)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOW: Effective = Effective { min: 0, low: 5000 };

    #[test]
    fn c7_protection() {
        // 10000 * 5000 / 10001 = 4999 held back; >> 12 leaves 1.
        let offer = proportional_protection(10_000, LOW, 10_000, false);
        assert_eq!((offer.pages, offer.pages >> 12, offer.low_skipped), (5001, 1, true));
        // 10000 * 9990 / 10001 = 9989 held back, 11 left: raised to 32; >> 12 leaves 0.
        let offer = proportional_protection(10_000, Effective { min: 0, low: 9990 }, 10_000, false);
        assert_eq!((offer.pages, offer.pages >> 12), (32, 0));
        // Below `low`: skipped on the first pass.
        assert_eq!(LOW.standing(4999), Standing::BelowLow);
        assert_eq!(LOW.standing(5000), Standing::BelowLow, "inclusive");
        assert_eq!(LOW.standing(5001), Standing::Unprotected);
    }

    #[test]
    fn low_gives_way_in_the_second_pass_and_min_never() {
        let both = Effective { min: 2000, low: 5000 };
        // Only min counts: 10000 * 2000 / 10001 = 1999.
        assert_eq!(proportional_protection(10_000, both, 10_000, true), Offer { pages: 8001, low_skipped: false });
        // A usage below the protection counts as the protection: 1000 * 2000 / 2001 = 999, 1 left, raised.
        assert_eq!(proportional_protection(1000, both, 500, true).pages, 32);
        // Without any protection a short list is not raised to 32.
        assert_eq!(proportional_protection(7, Effective::default(), 7, false).pages, 7);
        assert_eq!(both.standing(2000), Standing::BelowMin);
        assert_eq!(Effective::default().standing(0), Standing::Unprotected);
    }

    #[test]
    fn p13_effective_low() {
        let share = |usage, setting, parent_usage, siblings_claim, recursive| {
            Share { usage, setting, parent_usage, parent_effective: 600, siblings_claim, recursive }.effective()
        };
        // Children claim 400 + 300 = 700 of 600: 400 * 600 / 700 and 300 * 600 / 700.
        assert_eq!((share(400, 400, 700, 700, false), share(300, 300, 700, 700, false)), (342, 257));
        assert_eq!(share(300, 300, 1000, 300, false), 300);
        // 300 unclaimed, shared by usage beyond the claim: 200 + 300 * (600 - 200) / (1000 - 300) = 200 + 171.
        assert_eq!((share(600, 200, 1000, 300, true), share(600, 200, 1000, 300, false)), (371, 200));
    }

    #[test]
    fn protection_flows_from_the_reclaim_target_down() {
        let node = |parent, usage, low| ProtectionNode { parent, usage, min: 0, low };
        // root > p (low 600) > { a: 400 of 400, b: 300 of 300 }, and a sibling s of p without usage.
        let nodes = [
            node(None, 2000, 0),
            node(Some(0), 900, 600),
            node(Some(1), 400, 400),
            node(Some(1), 300, 300),
            node(Some(0), 0, 50),
        ];
        let mut effective = [Effective::default(); 5];
        update_effective(&nodes, 0, false, &mut effective);
        assert_eq!(effective.map(|e| e.low), [0, 600, 342, 257, 0]);
        // Limit reclaim in p: its own protection does not count and its children's settings count in full.
        update_effective(&nodes, 1, false, &mut effective);
        assert_eq!(effective.map(|e| e.low), [0, 0, 400, 300, 0]);
    }

    proptest! {
        #[test]
        fn siblings_never_get_more_than_their_parent(
            children in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40), 1..8), parent_effective in 0u64..1 << 41,
            recursive: bool,
        ) {
            let parent_usage = children.iter().map(|c| c.0).sum();
            let siblings_claim = children.iter().map(|c| c.0.min(c.1)).sum();
            let total: u64 = children
                .iter()
                .map(|&(usage, setting)| {
                    Share { usage, setting, parent_usage, parent_effective, siblings_claim, recursive }.effective()
                })
                .sum();
            prop_assert!(total <= parent_effective);
        }
        #[test]
        fn an_offer_is_never_above_the_list_or_the_minimum(size: u64, min: u64, low: u64, usage: u64, low_reclaim: bool) {
            let offer = proportional_protection(size, Effective { min, low }, usage, low_reclaim);
            prop_assert!(offer.pages <= size.max(32));
        }
    }
}
