//! The common page of reclaim in one go: an anonymous page of one process, without a slot, that goes to compressed swap.
//!
//! [`outcome`](super::outcome) does the same step by step for pages of every kind: it puts the page into the swap cache,
//! takes its entries away, has it written, and takes it out of the swap cache again. Where the write is over when it has been
//! submitted, the states in between are never seen, so each record is written once, as it is afterwards. What is a sum over the pages
//! of a batch is booked when the batch is over: nothing reads it before.

use super::outcome::Fate;
use super::{LruvecId, ReclaimPolicy, Scan};
use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Memory};
use crate::mmu::{DensePage, SpaceId};

/// A page with any of these flags takes the slow path.
const SPECIAL: [Flag; 4] = [Flag::FileOwned, Flag::Shared, Flag::SwapCache, Flag::ZeroFilled];
/// These too, before it is judged.
const IN_THE_WAY: [Flag; 3] = [Flag::Reading, Flag::Writeback, Flag::Unevictable];

/// A page of the common kind, which one entry shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    frame: FrameId,
    space: SpaceId,
    page: DensePage,
}

/// The common ones among pages of one group and node that are judged together, and sums over them that are not booked yet.
#[derive(Debug, Default)]
pub(super) struct PlainPages {
    /// They may be swapped out in one go, as long as a slot is free.
    at_once: bool,
    /// Checked for use through their entries.
    checked: u64,
    /// Of these, used through their entries.
    used: u64,
    swapped_out: u64,
}

impl PlainPages {
    /// Before the first page of `lruvec` is judged.
    #[inline]
    pub(super) fn of(memory: &Memory, lruvec: LruvecId, scan: &Scan) -> Self {
        let at_once = scan.may_swap
            && memory.io.swap_is_synchronous()
            && !memory.cgroups.has_swap_limits()
            && !memory.tiers.can_demote(memory.node_of(lruvec));
        Self { at_once, ..Self::default() }
    }

    /// The page in `frame`, which is on no list, and whether its accessed bit is set, if it is a common one that may be swapped out in one
    /// go: nothing is in its way, and its process belongs to the group that `root` is reclaimed from.
    #[inline]
    pub(super) fn judged(&self, memory: &Memory, frame: FrameId, root: CgroupId) -> Option<(Plain, bool)> {
        if !self.at_once || memory.slots.free() == 0 {
            return None;
        }
        let (flags, space, page) = memory.frames.anonymous(frame)?;
        let owner = &memory.spaces[space.index()];
        let is_plain = flags.has(Flag::SwapBacked) && !flags.has_any(SPECIAL) && !flags.has_any(IN_THE_WAY);
        // A page in flight may outlive its space.
        if !is_plain || !owner.alive || !owner.huge_blocks.is_empty() {
            return None;
        }
        if owner.cgroup != root && !memory.cgroups.is_within(owner.cgroup, root) {
            return None;
        }
        let is_young = owner.table.young_if_shows(page, frame)?;
        Some((Plain { frame, space, page }, is_young))
    }

    /// Whether the page was used, by its entry or by what a monitor left; neither is set afterwards. `is_young`: its accessed bit.
    #[inline]
    pub(super) fn take_young(&mut self, memory: &mut Memory, plain: Plain, is_young: bool) -> bool {
        let Plain { frame, space, page } = plain;
        self.checked += 1;
        let owner = &mut memory.spaces[space.index()];
        let is_used = is_young && owner.vmas.has_recency(|| owner.table.page_of(page));
        if is_used {
            owner.table.clear_young(page);
            memory.frames.met_use(frame);
            self.used += 1;
        }
        memory.frames.take_young(frame) || is_used
    }

    /// Swaps the page out. A slot is free.
    #[inline]
    pub(super) fn swap_out<P: ReclaimPolicy + ?Sized>(
        &mut self,
        memory: &mut Memory,
        policy: &mut P,
        plain: Plain,
        root: CgroupId,
    ) {
        let Plain { frame, space, page } = plain;
        let shadow = policy.shadow_of(memory, frame, root);
        let cgroup = memory.frames.cgroup(frame);
        let slot = memory.slots.take_for_entry(cgroup, shadow).expect("one is free");
        let owner = &mut memory.spaces[space.index()];
        owner.nr_resident -= 1;
        owner.nr_swapped += 1;
        owner.table.swap_out(page, slot);
        self.swapped_out += 1;
        memory.frames.update(frame, [Flag::Isolated, Flag::Dirty], []);
        memory.frames.forget_pin(frame);
        memory.nodes.give(&mut memory.frames, frame);
    }

    /// Books the sums, to the group of the pages.
    #[inline]
    pub(super) fn book(self, memory: &mut Memory, cgroup: CgroupId, scan: &mut Scan) {
        let Self { checked, used, swapped_out, .. } = self;
        memory.reclaim.work.rmap_walks += checked;
        memory.reclaim.work.entries_cleared += used;
        memory.ledger.spend(checked * memory.costs.rmap_walk_ns);
        scan.taken.pages += checked;
        if swapped_out > 0 {
            scan.taken.unmapped += swapped_out;
            scan.taken.written += swapped_out;
            memory.cgroups.swapped_out(cgroup, swapped_out);
            memory.write_slots_at_once(cgroup, swapped_out);
            let costs = &memory.costs;
            memory.ledger.spend(swapped_out * (costs.swap_out_page_ns + costs.unmap_page_ns + costs.free_page_ns));
            memory.update_hidden();
        }
    }
}

/// Evicts a page that is on no list; `None`, and nothing is done, if it is not of the common kind or finds no slot.
#[inline]
pub(super) fn swap_out<P: ReclaimPolicy + ?Sized>(
    memory: &mut Memory,
    policy: &mut P,
    frame: FrameId,
    scan: &mut Scan,
) -> Option<Fate> {
    let (flags, space, page) = memory.frames.anonymous(frame)?;
    if !flags.has(Flag::SwapBacked) || flags.has_any(SPECIAL) || !scan.may_swap || !memory.io.swap_is_synchronous() {
        return None;
    }
    let owner = &memory.spaces[space.index()];
    // A page in flight may outlive its space.
    if !owner.alive || !owner.huge_blocks.is_empty() || !owner.table.shows(page, frame) {
        return None;
    }
    let cgroup = memory.frames.cgroup(frame);
    if memory.slots.free() == 0 || !memory.cgroups.may_swap(cgroup) {
        return None;
    }
    let mut alone = PlainPages::default();
    alone.swap_out(memory, policy, Plain { frame, space, page }, scan.root);
    alone.book(memory, cgroup, scan);
    Some(Fate::Freed)
}

#[cfg(test)]
mod tests {
    use super::super::driver::Attempt;
    use super::super::outcome::{evict, evict_by_steps};
    use super::super::{POLICIES, Reclaimer, policy_by_name};
    use super::*;
    use crate::cgroup::Knob;
    use crate::mmu::Entry;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Testbed;
    use isotherm_units::PageRange;

    type Evict = fn(&mut Memory, &mut (dyn ReclaimPolicy + 'static), FrameId, &mut Scan) -> Fate;

    /// The visible state of a machine after some evictions.
    fn after(policy: Box<dyn ReclaimPolicy>, device: DeviceKind, evict: Evict) -> String {
        let mut bed = Testbed::new(policy, 256, device, 64);
        let group = bed.group(CgroupId::ROOT, "g");
        let space = bed.space(group, 16);
        (0..16).for_each(|page| _ = bed.write(space, page));
        bed.policy.insert_waiting(&mut bed.memory);
        let mut scan = Scan::new(Reclaimer::Limit, group, 32, 60);
        let mut flags = Vec::new();
        for page in [3, 9, 4] {
            let frame = bed.frame(space, page).expect("resident");
            bed.policy.removed(&mut bed.memory, frame);
            assert_eq!(evict(&mut bed.memory, bed.policy.as_mut(), frame, &mut scan), Fate::Freed);
            flags.push(bed.memory.frames.flags(frame));
        }
        bed.check();
        let entries: Vec<Entry> = (0..16).map(|page| bed.entry(space, page)).collect();
        let (memory, owner) = (&bed.memory, bed.memory.space(space));
        let counts = (owner.nr_resident, owner.nr_swapped, memory.nodes.get(crate::memory::NodeId(0)).free());
        let groups: Vec<_> = memory.cgroups.ids().map(|id| memory.cgroups.get(id)).collect();
        format!(
            "{scan:?} {flags:?} {entries:?} {counts:?} {groups:?} {:?} {:?} {:?} {:?}",
            memory.counters,
            memory.ledger,
            memory.slots,
            memory.io.swap.stats()
        )
    }

    /// The visible state of a machine whose group was reclaimed from by batches, with pages of one process, of two after a fork, used ones,
    /// and ones that a monitor found used. A limit on swap, although never reached, makes reclaim go page by page.
    fn after_batches(policy: Box<dyn ReclaimPolicy>, slots: u64, by_page: bool) -> (String, u64) {
        let mut bed = Testbed::new(policy, 1024, DeviceKind::Zram, slots);
        let group = bed.group(CgroupId::ROOT, "g");
        bed.cgroup = group;
        bed.limit(500);
        if by_page {
            bed.set(group, Knob::SwapMax, 1 << 20);
        }
        let space = bed.space(group, 400);
        bed.write_all(space, PageRange::new(0, 30));
        bed.fork(space);
        bed.write_all(space, PageRange::new(20, 350));
        for page in (30..400).step_by(7) {
            bed.read(space, page);
        }
        for page in (21..200).step_by(5) {
            let frame = bed.frame(space, page).expect("just written");
            bed.memory.frames.leave_young(frame);
        }
        for limit in [300, 180, 60] {
            bed.limit(limit);
            bed.run(Attempt::limit(group, 1));
            bed.write_all(space, PageRange::new(100, 140));
        }
        bed.check();
        let entries: Vec<Entry> = (0..400).map(|page| bed.entry(space, page)).collect();
        let (memory, owner) = (&bed.memory, bed.memory.space(space));
        let counts = (owner.nr_resident, owner.nr_swapped, memory.nodes.get(crate::memory::NodeId(0)).free());
        let own = memory.cgroups.get(group);
        let group = (own.usage, own.peak, own.swap_usage, &own.counters, own.events);
        let seen = format!(
            "{entries:?} {counts:?} {group:?} {:?} {:?} {:?} {:?} {:?}",
            memory.counters,
            memory.ledger,
            memory.slots,
            memory.reclaim.work,
            memory.io.swap.stats()
        );
        (seen, own.swap_usage)
    }

    #[test]
    fn batches_lead_where_page_by_page_does() {
        for name in ["classic", "mglru"] {
            // With slots for all, and for some.
            for slots in [1024, 150] {
                let [batches, by_page] = [false, true]
                    .map(|by_page| after_batches(policy_by_name(name).expect("in the table").build(), slots, by_page));
                assert_eq!(batches, by_page, "{name} {slots}");
                assert!(batches.1 > 50, "{name} {slots}: {}", batches.1);
            }
        }
    }

    #[test]
    fn the_short_way_leads_where_the_long_one_does() {
        for entry in POLICIES.iter().filter(|entry| !entry.build().needs_future()) {
            for device in [DeviceKind::Zram, DeviceKind::Ram] {
                let [short, long] =
                    [evict as Evict, evict_by_steps as Evict].map(|evict| after(entry.build(), device, evict));
                assert_eq!(short, long, "{} {device:?}", entry.name);
            }
        }
    }
}
