//! Visiting the groups below a root, with protections (docs/spec/classic-lru.md#s7-1, pressure 6.1).

use crate::cgroup::CgroupId;
use crate::cgroup::protection::{Effective, ProtectionNode, Standing, update_effective};
use crate::counters::Counter;
use crate::memory::{Memory, NodeId};
use crate::reclaim::{LruvecId, ReclaimPolicy, Scan, Taken};
use std::collections::BTreeMap;

/// Whether children share the protection of their parent that no child claims. On, because systemd mounts the hierarchy in this way
/// (`memory_recursiveprot`).
const RECURSIVE_PROTECTION: bool = true;

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The walk goes on where the last one stopped, until the goal is met or the last group is reached.
    Partial,
    /// All groups.
    Full,
}

/// Where partial walks stopped, so that the next reclaimer goes on with the next group and no group pays for all.
#[derive(Clone, Debug, Default)]
pub struct Walks(BTreeMap<(CgroupId, NodeId), CgroupId>);

/// Shrinks the lists of the groups below `scan.root` on `node`.
pub(super) fn shrink_node(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    node: NodeId,
    scan: &mut Scan,
    extent: Extent,
) {
    debug_assert!(scan.priority <= crate::reclaim::DEF_PRIORITY, "reclaim begins with the gentlest priority");
    scan.taken = Taken::default();
    if policy.shrink_node(memory, node, scan) {
        return;
    }
    policy.begin_walk(memory, node, scan);
    let key = (scan.root, node);
    let groups = memory.cgroups.subtree(scan.root);
    let effective = effective_protection(memory, scan.root);
    debug_assert!(
        effective.is_empty() || effective.len() == memory.cgroups.len(),
        "protection is known of all groups or of none"
    );
    debug_assert!(!groups.is_empty(), "a group is one of its own subtree");
    let stopped_at = match extent {
        Extent::Partial => memory.reclaim.walks.0.get(&key),
        Extent::Full => None,
    };
    let after_stop = stopped_at.and_then(|last| groups.iter().position(|group| group == last)).map_or(0, |at| at + 1);
    let first = if after_stop < groups.len() { after_stop } else { 0 };
    for &group in &groups[first..] {
        memory.ledger.spend(memory.costs.reclaim_group_ns);
        if !is_eligible(memory, group, &effective, scan) {
            continue;
        }
        let lruvec = memory.lruvec(group, node);
        policy.shrink_lruvec(memory, lruvec, scan);
        if scan.blocked {
            break;
        }
        prune_shadows(memory, policy, lruvec, scan);
        if extent == Extent::Partial && scan.nr_reclaimed >= scan.nr_to_reclaim {
            memory.reclaim.walks.0.insert(key, group);
            return;
        }
    }
    if extent == Extent::Partial && !scan.blocked {
        memory.reclaim.walks.0.remove(&key);
    }
}

/// Prunes nodes of the page cache that hold nothing but shadows, where a group has too many (`shrink_slab`).
pub(in crate::reclaim) fn prune_shadows(
    memory: &mut Memory,
    policy: &dyn ReclaimPolicy,
    lruvec: LruvecId,
    scan: &Scan,
) {
    let pruned = memory.files.prune_shadows(lruvec, policy.pages_for_shrinkers(lruvec), scan.priority);
    memory.count(Counter::WorkingsetNodeReclaim, memory.cgroup_of(lruvec), pruned);
}

/// Frees pages one by one, each the best choice of all groups below `scan.root` on `nodes`, until the goal is met.
pub(super) fn shrink_exactly(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, nodes: &[NodeId], scan: &mut Scan) {
    debug_assert!(policy.is_exact(), "only exact policies choose page by page");
    memory.ledger.spend(memory.costs.reclaim_group_ns);
    let root = memory.cgroups.get(scan.root);
    if let ([node], true) = (nodes, root.children.is_empty()) {
        let lruvec = memory.lruvec(scan.root, *node);
        return free_one_by_one(memory, policy, &[lruvec], scan);
    }
    let groups = memory.cgroups.subtree(scan.root);
    let effective = effective_protection(memory, scan.root);
    let mut lruvecs = Vec::with_capacity(groups.len() * nodes.len());
    for group in groups {
        if is_eligible(memory, group, &effective, scan) {
            lruvecs.extend(nodes.iter().map(|&node| memory.lruvec(group, node)));
        }
    }
    free_one_by_one(memory, policy, &lruvecs, scan);
}

fn free_one_by_one(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, lruvecs: &[LruvecId], scan: &mut Scan) {
    while scan.nr_reclaimed < scan.nr_to_reclaim {
        let before = scan.nr_reclaimed;
        policy.shrink_exactly(memory, lruvecs, scan);
        debug_assert!(scan.nr_reclaimed <= before + 1, "an exact policy frees one page at a time");
        if scan.nr_reclaimed == before {
            return;
        }
    }
}

/// Pages that reclaim could free in principle: file pages, and anonymous ones while swap has room or a slower node
/// takes them.
pub(super) fn reclaimable(memory: &Memory, root: CgroupId) -> u64 {
    let may_demote = memory.nodes.ids().any(|node| memory.tiers.can_demote(node));
    let swap = if may_demote { u64::MAX } else { memory.swap_available(root) };
    let usage = memory.cgroups.get(root).usage;
    let file: u64 = memory.files.iter().map(|(_, file)| file.nr_cached).sum();
    file.min(usage) + usage.saturating_sub(file).min(swap)
}

/// Decides about a group by its usage against its protection, notes a skipped group, and leaves the protection in `scan`.
fn is_eligible(memory: &mut Memory, group: CgroupId, effective: &[Effective], scan: &mut Scan) -> bool {
    scan.effective = effective.get(group.index()).copied().unwrap_or_default();
    match scan.effective.standing(memory.cgroups.get(group).usage) {
        Standing::BelowMin => false,
        Standing::BelowLow if !scan.low_reclaim => {
            scan.low_skipped = true;
            false
        }
        Standing::BelowLow => {
            count_low_events(memory, group);
            true
        }
        Standing::Unprotected => true,
    }
}

/// A group is reclaimed from although it is below its `low`.
pub(in crate::reclaim) fn count_low_events(memory: &mut Memory, group: CgroupId) {
    memory.cgroups.for_lineage(group, |above| above.events.low += 1);
}

/// Effective protections by group number; empty when nothing is protected anywhere.
pub(in crate::reclaim) fn effective_protection(memory: &Memory, root: CgroupId) -> Vec<Effective> {
    let groups = || memory.cgroups.ids().map(|id| memory.cgroups.get(id));
    if groups().all(|group| group.min == 0 && group.low == 0) {
        return Vec::new();
    }
    let nodes: Vec<ProtectionNode> = groups()
        .map(|group| ProtectionNode {
            parent: group.parent.map(CgroupId::index),
            usage: group.usage,
            min: group.min,
            low: group.low,
        })
        .collect();
    let mut effective = vec![Effective::default(); nodes.len()];
    update_effective(&nodes, root.index(), RECURSIVE_PROTECTION, &mut effective);
    effective
}
