//! Demotion: reclaim of a fast node moves pages to a slower one rather than freeing them (docs/spec/promotion.md#s5-2).
//!
//! Source: `can_demote`, `demote_folio_list`, `alloc_demote_folio` of `mm/vmscan.c`. Departures: a huge page is split first, as
//! reclaim meets its base pages one by one; cpusets are not modelled, so no group is kept from a node.

use super::{ReclaimPolicy, Reclaimer, Scan, outcome};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::{FrameId, Mark, Memory, NodeId};
use crate::migrate::{MigrateMode, Move};
use crate::reclaim::outcome::Fate;

/// Decides about a page that no rule keeps: it goes down a tier, with others later in [`demote`], or it is evicted now.
#[inline]
pub(super) fn demote_or_evict<P: ReclaimPolicy + ?Sized>(
    memory: &mut Memory,
    policy: &mut P,
    frame: FrameId,
    scan: &mut Scan,
) -> Fate {
    if memory.tiers.can_demote(memory.nodes.of(frame)) {
        return Fate::Demote;
    }
    outcome::evict(memory, policy, frame, scan)
}

/// The result for pages that were to be demoted.
#[derive(Clone, Debug, Default)]
pub(super) struct Demoted {
    /// Pages that went down a tier; they are on lists there and count as reclaimed.
    pub(super) pages: u64,
    /// Pages that could not go and were freed instead.
    pub(super) freed: u64,
    /// Pages that stay, on no list, with the fate of each.
    pub(super) staying: Vec<(FrameId, Fate)>,
}

/// Moves pages of one node, which are on no list, to a slower one in one batch. Pages that cannot go are evicted, except in requested
/// reclaim (`memory.reclaim`): then they stay.
pub(super) fn demote(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    frames: Vec<FrameId>,
    scan: &mut Scan,
) -> Demoted {
    let mut demoted = Demoted::default();
    let Some(&first) = frames.first() else { return demoted };
    let from = memory.nodes.of(first);
    let chosen = memory.tiers.next_demotion_node(from).expect("a node that can demote");
    debug_assert!(chosen != from, "a slower node is another one");
    let (mut moves, mut left): (Vec<Move>, Vec<FrameId>) = (Vec::with_capacity(frames.len()), Vec::new());
    for frame in frames {
        debug_assert_eq!(memory.nodes.of(frame), from, "a batch is of one node");
        if let Some((space, page)) = memory.sole_mapper(frame) {
            memory.split_huge(space, page);
        }
        // Without memory anywhere below no further page is tried.
        let target = if left.is_empty() { take_target(memory, from, chosen) } else { None };
        match target {
            Some(target) => moves.push((frame, target)),
            None => left.push(frame),
        }
    }
    let groups: Vec<CgroupId> = moves.iter().map(|&(frame, _)| memory.frames.cgroup(frame)).collect();
    let migrated = memory.migrate_isolated(policy, &moves, MigrateMode::Async);
    let mut failed = migrated.failed.iter().map(|&(index, _)| index).peekable();
    for (index, (&(frame, target), cgroup)) in moves.iter().zip(groups).enumerate() {
        if failed.next_if_eq(&index).is_some() {
            memory.give_target(target, 0);
            left.push(frame);
        } else {
            demoted.pages += 1;
            memory.count_on(counter_of(scan.reclaimer), from, cgroup, 1);
        }
    }
    debug_assert!(demoted.pages + left.len() as u64 >= moves.len() as u64, "each page moved or is left");
    for frame in left {
        match scan.reclaimer {
            Reclaimer::Proactive => demoted.staying.push((frame, Fate::Keep)),
            _ => match outcome::evict(memory, policy, frame, scan) {
                Fate::Freed => demoted.freed += 1,
                fate => demoted.staying.push((frame, fate)),
            },
        }
    }
    demoted
}

const fn counter_of(reclaimer: Reclaimer) -> Counter {
    match reclaimer {
        Reclaimer::Kswapd => Counter::PgDemoteKswapd,
        Reclaimer::Direct | Reclaimer::Limit => Counter::PgDemoteDirect,
        Reclaimer::Proactive => Counter::PgDemoteProactive,
    }
}

/// A frame of the chosen node, else of any slower node; never by reclaim, but their daemons are woken when they run low.
fn take_target(memory: &mut Memory, from: NodeId, chosen: NodeId) -> Option<FrameId> {
    let others = memory.tiers.demotion_targets(from).allowed.clone();
    let mut take = |node: NodeId| {
        memory.take_target(node, Mark::Low).or_else(|| {
            memory.kswapd_wanted[node.index()] = true;
            memory.take_target(node, Mark::Min)
        })
    };
    take(chosen).or_else(|| others.into_iter().filter(|&node| node != chosen).find_map(take))
}
