//! A second engine for the common machine: one thread that uses private anonymous memory, one group with a limit, compressed swap
//! (`docs/mechanism/machine.md#the-lean-engine`).
//!
//! The full machine keeps frames, slots, reverse maps and lists that link frames, so that any mix of memory works. Where pages of one process
//! go to compressed swap and come back, and nothing else happens, a page is its number: a few bits, a word of flags or of its shadow, and a
//! place in a ring.
//!
//! The policies decide here as they do there. What is a rule (scan balance, tiers, generations, refault distance) is called, not written
//! again. What differs is how pages are kept. Whatever is not covered makes the engine [give up](Halt::GivesUp), and the run begins again on
//! the full machine.
//!
//! Sketch: half a byte of bits a page; classic: 4 bytes more; mglru: 5 bytes more; lru: 4 bytes and no bits. Rings have 4 to 16 bytes a
//! resident page, the log of lru 24 to 48.

#![expect(clippy::cast_possible_truncation, reason = "numbers of pages fit 30 bits, as places in rings do")]

mod account;
mod attempt;
mod bits;
mod classic;
mod clock;
mod layout;
mod lru;
mod mglru;
mod play;
mod ring;

use crate::cgroup::{CgroupId, Limit};
use crate::memory::{Memory, Node, Zone};
use crate::mmu::{Cursor, SpaceId};
use crate::reclaim::ListSizes;
use account::Account;
use isotherm_units::Pages;
use isotherm_units::access::Run;
use layout::Layout;
use play::Engine;

/// A policy that the engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Exact least recently used.
    Lru,
    /// First in, first out with a second chance.
    Clock,
    /// The two lists of Linux.
    Classic,
    /// The Multi-Gen LRU of Linux 7.2 with all features.
    Mglru,
}

/// Why the engine stopped to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// All runs are done.
    Done,
    /// The time is up.
    TimeUp,
    /// Something that the engine does not cover. Its state is of no use any more.
    GivesUp,
}

/// What the thread went through; times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A fault found no room under the limit of its group, at this time: the thread begins to reclaim.
    Short(u64),
    /// The reclaim took this time.
    Reclaimed(u64),
    /// The fault was served, at this time.
    Served(u64),
}

/// The clock of the thread, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Current time.
    pub now_ns: u64,
    /// Stop when `now_ns` reaches this.
    pub until_ns: u64,
    /// Cost of a touched page.
    pub page_ns: u64,
    /// CPU time of faults, without reclaim, since the caller set it to 0.
    pub fault_ns: u64,
    /// CPU time of reclaim, likewise.
    pub reclaim_ns: u64,
}

/// The engine under any policy.
pub trait Lean: Send {
    /// Plays runs, with their faults and the reclaim that these need. What happened is added to `events`.
    fn play(&mut self, runs: &[Run], cursor: &mut Cursor, clock: &mut Clock, events: &mut Vec<Event>) -> Halt;
    /// Before a stretch: reads what others may have changed.
    fn enter(&mut self, memory: &Memory);
    /// After a stretch: writes charges, counters and the like.
    fn settle(&mut self, memory: &mut Memory);
    /// The process ends, and its pages are freed.
    fn exit(&mut self);
    /// Pages on the lists of the group.
    fn sizes(&self) -> ListSizes;
    /// See [`ReclaimPolicy::flush_statistics`](crate::reclaim::ReclaimPolicy::flush_statistics).
    fn flush_statistics(&mut self);
    /// Highest number of resident pages after a fault.
    fn peak_resident(&self) -> u64;
    /// A second engine in the same state.
    fn fork(&self) -> Box<dyn Lean>;
}

/// The engine for `space`, whose memory was never touched, under the policy of `memory`; `None`: it does not cover this.
pub fn new(kind: Kind, memory: &Memory, space: SpaceId) -> Option<Box<dyn Lean>> {
    let layout = Layout::of(memory, space)?;
    is_covered(memory, space).then_some(())?;
    let covered = pages_covered(memory, memory.space(space).cgroup, layout.pages());
    layout.is_dense(covered).then_some(())?;
    let account = Account::of(memory, space, covered);
    Some(match kind {
        Kind::Lru => Box::new(Engine::<lru::Lru>::new(layout, account)),
        Kind::Clock => Box::new(Engine::<clock::Clock>::new(layout, account)),
        Kind::Classic => Box::new(Engine::<classic::Classic>::new(layout, account)),
        Kind::Mglru => Box::new(Engine::<mglru::Mglru>::new(layout, account)),
    })
}

/// Whether nothing but the faults of the space and the reclaim of its group can happen, as long as there is memory and swap for it.
fn is_covered(memory: &Memory, space: SpaceId) -> bool {
    let group = memory.space(space).cgroup;
    let groups = &memory.cgroups;
    let is_plain = |id: CgroupId| {
        let group = groups.get(id);
        group.usage == 0 && group.swap_usage == 0 && group.min == 0 && group.low == 0
    };
    let are_plain = groups.ids().all(is_plain) && !groups.has_soft_limits() && !groups.has_swap_limits();
    let is_limited_alone = groups.lineage(group).skip(1).all(|above| groups.get(above).max == Limit::Unlimited);
    let is_leaf = group == CgroupId::ROOT || groups.get(group).children.is_empty();
    let root_is_free = group != CgroupId::ROOT || groups.get(group).max == Limit::Unlimited;
    let config = &memory.config;
    let reads_swap_alone = memory.io.swap_is_synchronous() && memory.slots.used() == 0;
    are_plain
        && is_limited_alone
        && is_leaf
        && root_is_free
        && reads_swap_alone
        && (1..=200).contains(&config.swappiness)
        && memory.nodes.len() == 1
}

/// Pages, at most `most`, of which any number may be in swap and the others in memory: slots are left for all of them, and the node keeps
/// more than its high watermark free. Memory of a group without a limit may hold all of them.
fn pages_covered(memory: &Memory, group: CgroupId, most: u64) -> u64 {
    let limit = match memory.cgroups.get(group).max {
        Limit::Unlimited => u64::MAX,
        Limit::At(max) => max.get(),
    };
    let room_of = |node: &Node| -> u64 {
        let kept = |zone: &Zone| zone.marks.high + zone.marks.lowmem_reserve;
        node.zones.iter().map(|zone| zone.free().saturating_sub(kept(zone))).sum()
    };
    let room: u64 = memory.nodes.iter().map(|(_, node)| room_of(node)).sum();
    let suffices = |pages: u64| {
        let compressed = memory.io.swap.model().memory(Pages::new(pages)).get();
        memory.slots.total() >= pages + SLOTS_KEPT && room >= pages.min(limit) + compressed + SLACK
    };
    let (mut covered, mut too_many) = (0, most + 1);
    while covered + 1 < too_many {
        let pages = u64::midpoint(covered, too_many);
        *(if suffices(pages) { &mut covered } else { &mut too_many }) = pages;
    }
    covered
}

/// The Multi-Gen LRU spares anonymous pages when fewer slots are left than a batch has pages.
const SLOTS_KEPT: u64 = 128;
/// Pages that processors hold at hand, several times.
const SLACK: u64 = 2048;
