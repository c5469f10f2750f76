//! Allocation of a frame for a single page: charge and watermarks (docs/spec/classic-lru.md#s7-2, #s7-5).

use crate::cgroup::{CgroupId, OverLimit};
use crate::memory::{FrameId, Mark, Memory, NodeId};

/// Why there is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// `memory.max` of this group is reached.
    Limit(CgroupId),
    /// All nodes are at their min watermark; the preferred one is given.
    Node(NodeId),
    /// This node is at its min watermark, and no other will do.
    Bound(NodeId),
}

/// Nodes from which memory is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// From the node of the processor, then from the others in the order in which they help out.
    #[default]
    Local,
    /// From one node, wherever the thread runs, then from the others in its order (`MPOL_PREFERRED`).
    Preferred,
    /// A single node only (`MPOL_BIND`).
    Bound,
}

/// A frame for a page that `cgroup` pays for, from `node` if it has one, else from the other nodes in their fallback order.
/// It comes from no other where `policy` is [bound](MemoryPolicy::Bound).
///
/// Free memory stays above the low watermark of every node at first; if that fails, the daemons are asked for
/// ([`Memory::kswapd_wanted`]) and the min watermark is the limit. Pages charged are added to [`Memory::charged`].
///
/// # Errors
/// The resource that is short; nothing is charged then.
pub fn allocate(
    memory: &mut Memory,
    cgroup: CgroupId,
    node: NodeId,
    policy: MemoryPolicy,
) -> Result<FrameId, Shortage> {
    let room = memory.cgroups.room(cgroup);
    // The common shortage, found without taking a frame that is given back at once.
    if room == 0 && memory.nodes.has(node, Mark::Low) {
        let over = memory.cgroups.over_limit(cgroup, 1).expect("there is no room");
        return Err(Shortage::Limit(over));
    }
    let frame = match take(memory, node, policy, Mark::Low) {
        Some(frame) => frame,
        None => {
            match policy {
                MemoryPolicy::Bound => memory.kswapd_wanted[node.index()] = true,
                MemoryPolicy::Local | MemoryPolicy::Preferred => memory.kswapd_wanted.fill(true),
            }
            let shortage = match policy {
                MemoryPolicy::Bound => Shortage::Bound(node),
                MemoryPolicy::Local | MemoryPolicy::Preferred => Shortage::Node(node),
            };
            take(memory, node, policy, Mark::Min).ok_or(shortage)?
        }
    };
    match charge(memory, cgroup, room, frame) {
        Ok(()) => Ok(frame),
        Err(OverLimit(over)) => {
            memory.nodes.give(&mut memory.frames, frame);
            Err(Shortage::Limit(over))
        }
    }
}

/// Frames for up to `most` pages that `cgroup` pays for: the first ones that [`allocate`] would find one by one with neither a
/// shortage nor a look beyond the pages at hand.
pub(super) fn allocate_at_hand(
    memory: &mut Memory,
    cgroup: CgroupId,
    node: NodeId,
    most: usize,
    frames: &mut impl Extend<FrameId>,
) {
    let nr_at_hand = memory.nodes.several_at_hand(node, Mark::Low, most);
    let (nr_paid, charge) = memory.cgroups.charge_several(cgroup, nr_at_hand as u64);
    memory.charged += charge.charged;
    let Memory { nodes, ground_truth, frames: table, .. } = memory;
    frames.extend((0..nr_paid).map(|_| {
        let frame = nodes.take_at_hand(node);
        if let Some(ground_truth) = ground_truth {
            ground_truth.forget(frame, table.cgroup(frame));
        }
        frame
    }));
}

/// Charges a frame that was taken to a group with a known [`room`](crate::cgroup::Cgroups::room).
///
/// # Errors
/// The group whose limit leaves no room.
#[inline]
pub(super) fn charge(memory: &mut Memory, cgroup: CgroupId, room: u64, frame: FrameId) -> Result<(), OverLimit> {
    let charge = memory.cgroups.charge_into(cgroup, room)?;
    memory.charged += charge.charged;
    if let Some(ground_truth) = &mut memory.ground_truth {
        ground_truth.forget(frame, memory.frames.cgroup(frame));
    }
    Ok(())
}

/// A block of 2^`order` frames of `node` for one huge page, charged in one go; `None` leaves everything as it was. Pages at
/// hand are joined first if that may help; nothing is compacted. Does not wake daemons: the caller has a smaller page to fall
/// back on.
pub(super) fn allocate_block(memory: &mut Memory, cgroup: CgroupId, node: NodeId, order: u32) -> Option<Vec<FrameId>> {
    let pages = 1_u32 << order;
    if memory.cgroups.over_limit(cgroup, u64::from(pages)).is_some() {
        return None;
    }
    let Memory { nodes, frames, ledger, costs, .. } = memory;
    let first = match nodes.take_block(frames, node, order, Mark::Low) {
        Ok(first) => first,
        // Pages at hand count for no watermark of blocks, and cannot be joined.
        Err(_) if nodes.drain(frames, node) > 0 => {
            ledger.spend(costs.drain_lists_ns);
            nodes.take_block(frames, node, order, Mark::Low).ok()?
        }
        Err(_) => return None,
    };
    charge_block(memory, cgroup, first, order)
}

/// Charges 2^`order` frames from `first` on to a group; without room there they are given back.
pub(super) fn charge_block(memory: &mut Memory, cgroup: CgroupId, first: FrameId, order: u32) -> Option<Vec<FrameId>> {
    let pages = 1_u32 << order;
    if memory.cgroups.over_limit(cgroup, u64::from(pages)).is_some() {
        memory.give_target(first, order);
        return None;
    }
    memory.cgroups.charge_exactly(cgroup, u64::from(pages));
    memory.charged += u64::from(pages);
    let taken: Vec<FrameId> = (0..pages).map(|at| FrameId::new(first.index_u32() + at)).collect();
    if let Some(ground_truth) = &mut memory.ground_truth {
        taken.iter().for_each(|&frame| ground_truth.forget(frame, memory.frames.cgroup(frame)));
    }
    Some(taken)
}

#[inline]
fn take(memory: &mut Memory, preferred: NodeId, policy: MemoryPolicy, mark: Mark) -> Option<FrameId> {
    let Memory { nodes, frames, tiers, .. } = memory;
    if let Some(frame) = nodes.take(frames, preferred, mark) {
        return Some(frame);
    }
    if policy == MemoryPolicy::Bound {
        return None;
    }
    tiers.fallback(preferred)[1..].iter().find_map(|&node| nodes.take(frames, node, mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::NodeSetup;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Rig;
    use isotherm_units::Pages;

    #[test]
    fn other_nodes_help_before_the_daemons_are_asked_for() {
        let mut rig = Rig::with(DeviceKind::None, 0, |setup| {
            setup.nodes = [100, 200].map(|latency_ns| NodeSetup::new(vec![Pages::new(1024)], latency_ns)).to_vec();
        });
        let [near, far] = [NodeId(1), NodeId(0)];
        let low = rig.memory.nodes.get(near).zones[0].marks.low;
        let min = rig.memory.nodes.get(near).zones[0].marks.min;
        assert!(min > 0 && low > min);
        let mut take = |nr: u64| {
            (0..nr).map(|_| allocate(&mut rig.memory, rig.cgroup, near, MemoryPolicy::Local)).collect::<Vec<_>>()
        };
        take(2 * (1024 - low));
        let free = |rig: &Rig| [near, far].map(|node| rig.memory.nodes.get(node).free());
        assert_eq!((free(&rig), rig.memory.kswapd_wanted.clone()), ([low, low], vec![false; 2]));
        let mut take = |nr: u64| {
            (0..nr).map(|_| allocate(&mut rig.memory, rig.cgroup, near, MemoryPolicy::Local)).collect::<Vec<_>>()
        };
        let taken = take(2 * (low - min) + 1);
        assert_eq!((free(&rig), rig.memory.kswapd_wanted.clone()), ([min, min], vec![true; 2]));
        assert_eq!(taken.last(), Some(&Err(Shortage::Node(near))));
    }

    #[test]
    fn a_charge_that_fails_gives_the_frame_back() {
        let mut rig = Rig::new(DeviceKind::None);
        rig.limit(1);
        assert!(allocate(&mut rig.memory, rig.cgroup, NodeId(0), MemoryPolicy::Local).is_ok());
        assert_eq!(
            allocate(&mut rig.memory, rig.cgroup, NodeId(0), MemoryPolicy::Local),
            Err(Shortage::Limit(rig.cgroup))
        );
        assert_eq!((rig.memory.nodes.nr_used(), rig.memory.charged, rig.usage()), (1, 1, 1));
        assert_eq!(allocate_block(&mut rig.memory, rig.cgroup, NodeId(0), 9), None);
        assert_eq!(allocate_block(&mut rig.memory, CgroupId::ROOT, NodeId(0), 13), None, "larger than any block");
        assert_eq!(rig.memory.nodes.nr_used(), 1);
    }

    /// Every other page of the machine is given back: much is free, and no block.
    #[test]
    fn pages_at_hand_are_joined_for_a_block_but_nothing_is_moved() {
        let mut rig = Rig::new(DeviceKind::None);
        let node = NodeId(0);
        let Memory { nodes, frames, .. } = &mut rig.memory;
        let mut taken: Vec<FrameId> = std::iter::from_fn(|| nodes.take(frames, node, Mark::Nothing)).collect();
        taken.sort_unstable();
        let (even, odd): (Vec<FrameId>, Vec<FrameId>) = taken.iter().partition(|frame| frame.index() % 2 == 0);
        even.into_iter().for_each(|frame| nodes.give(frames, frame));
        assert_eq!(nodes.take_block(frames, node, 9, Mark::Low), Err(crate::memory::NoBlock::Fragmented));
        assert_eq!(allocate_block(&mut rig.memory, rig.cgroup, node, 9), None);
        let drain_ns = rig.memory.costs.drain_lists_ns;
        assert_eq!((rig.memory.ledger.take(), drain_ns > 0), (drain_ns, true), "joined in vain");
        assert_eq!(allocate_block(&mut rig.memory, rig.cgroup, node, 9), None);
        assert_eq!(rig.memory.ledger.take(), 0, "nothing is at hand any more");
        for frame in odd.into_iter().filter(|frame| frame.index() < 512) {
            rig.memory.nodes.give(&mut rig.memory.frames, frame);
        }
        let block = allocate_block(&mut rig.memory, rig.cgroup, node, 9).expect("one block is whole again");
        assert_eq!((block[0], block[511], block.len()), (FrameId::new(0), FrameId::new(511), 512));
        assert_eq!(rig.usage(), 512);
    }
}
