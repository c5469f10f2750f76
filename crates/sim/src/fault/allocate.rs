//! One frame for one page: charge and watermarks (spec classic-lru 7.2, 7.5).

use crate::cgroup::{CgroupId, OverLimit};
use crate::memory::{FrameId, Mark, Memory, NodeId};

/// Why there is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// `memory.max` of this group is reached.
    Limit(CgroupId),
    /// All nodes are at their min watermark; the preferred one is given.
    Node(NodeId),
}

/// A frame for a page that `cgroup` pays for, from `node` if it has one, else from the other nodes in their order.
///
/// Free memory stays above the low watermark of every node at first; if that fails, the daemons are asked for
/// ([`Memory::kswapd_wanted`]) and the min watermark is the limit. Pages charged are added to [`Memory::charged`].
///
/// # Errors
/// What is short; nothing is charged then.
pub fn allocate(memory: &mut Memory, cgroup: CgroupId, node: NodeId) -> Result<FrameId, Shortage> {
    // The common shortage, found without taking a frame that is given back at once.
    if let Some(over) = memory.cgroups.would_exceed(cgroup)
        && memory.nodes.has(node, Mark::Low)
    {
        return Err(Shortage::Limit(over));
    }
    let frame = match take(memory, node, Mark::Low) {
        Some(frame) => frame,
        None => {
            memory.kswapd_wanted.fill(true);
            take(memory, node, Mark::Min).ok_or(Shortage::Node(node))?
        }
    };
    match memory.cgroups.charge(cgroup) {
        Ok(charge) => {
            memory.charged += charge.charged;
            if let Some(witness) = &mut memory.witness {
                witness.forget(frame, memory.frames.cgroup(frame));
            }
            Ok(frame)
        }
        Err(OverLimit(over)) => {
            memory.nodes.give(frame);
            Err(Shortage::Limit(over))
        }
    }
}

/// `pages` frames of `node` for one huge page, charged in one go; `None` leaves everything as it was. Does not wake
/// daemons: whoever asks has a smaller page to fall back on.
pub(super) fn allocate_block(
    memory: &mut Memory,
    cgroup: CgroupId,
    node: NodeId,
    pages: usize,
) -> Option<Vec<FrameId>> {
    if memory.cgroups.over_limit(cgroup, pages as u64).is_some() {
        return None;
    }
    let mut frames = Vec::with_capacity(pages);
    while frames.len() < pages {
        match memory.nodes.take(node, Mark::Low) {
            Some(frame) => frames.push(frame),
            None => {
                // Last taken first: the free lists end up as they were.
                frames.into_iter().rev().for_each(|frame| memory.nodes.give(frame));
                return None;
            }
        }
    }
    memory.cgroups.charge_exactly(cgroup, pages as u64);
    memory.charged += pages as u64;
    if let Some(witness) = &mut memory.witness {
        frames.iter().for_each(|&frame| witness.forget(frame, memory.frames.cgroup(frame)));
    }
    Some(frames)
}

fn take(memory: &mut Memory, preferred: NodeId, mark: Mark) -> Option<FrameId> {
    if let Some(frame) = memory.nodes.take(preferred, mark) {
        return Some(frame);
    }
    memory.nodes.ids().filter(|&node| node != preferred).find_map(|node| memory.nodes.take(node, mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::testing::Rig;
    use crate::swap::device::DeviceKind;
    use isotherm_units::Pages;

    #[test]
    fn other_nodes_help_before_the_daemons_are_asked_for() {
        let mut rig = Rig::with(DeviceKind::None, 0, |setup| {
            setup.nodes = vec![(vec![Pages::new(1024)], 100), (vec![Pages::new(1024)], 200)];
        });
        let [near, far] = [NodeId(1), NodeId(0)];
        let low = rig.memory.nodes.get(near).zones[0].marks.low;
        let min = rig.memory.nodes.get(near).zones[0].marks.min;
        assert!(min > 0 && low > min);
        let mut take = |nr: u64| (0..nr).map(|_| allocate(&mut rig.memory, rig.cgroup, near)).collect::<Vec<_>>();
        take(2 * (1024 - low));
        let free = |rig: &Rig| [near, far].map(|node| rig.memory.nodes.get(node).free());
        assert_eq!((free(&rig), rig.memory.kswapd_wanted.clone()), ([low, low], vec![false; 2]));
        let mut take = |nr: u64| (0..nr).map(|_| allocate(&mut rig.memory, rig.cgroup, near)).collect::<Vec<_>>();
        let taken = take(2 * (low - min) + 1);
        assert_eq!((free(&rig), rig.memory.kswapd_wanted.clone()), ([min, min], vec![true; 2]));
        assert_eq!(taken.last(), Some(&Err(Shortage::Node(near))));
    }

    #[test]
    fn a_charge_that_fails_gives_the_frame_back() {
        let mut rig = Rig::new(DeviceKind::None);
        rig.limit(1);
        assert!(allocate(&mut rig.memory, rig.cgroup, NodeId(0)).is_ok());
        assert_eq!(allocate(&mut rig.memory, rig.cgroup, NodeId(0)), Err(Shortage::Limit(rig.cgroup)));
        assert_eq!((rig.memory.nodes.nr_used(), rig.memory.charged, rig.usage()), (1, 1, 1));
        assert_eq!(allocate_block(&mut rig.memory, rig.cgroup, NodeId(0), 512), None);
        assert_eq!(allocate_block(&mut rig.memory, CgroupId::ROOT, NodeId(0), 5000), None, "more than there is");
        assert_eq!(rig.memory.nodes.nr_used(), 1);
    }
}
