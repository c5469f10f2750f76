//! Slots of the swap device.
//!
//! A slot is held by page-table entries (after swap-out) and by the swap cache (a resident page that keeps its slot). It
//! is free when neither holds it.

use crate::cgroup::CgroupId;
use crate::memory::FrameId;

/// Index of a swap slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(u32);

impl SlotId {
    /// The slot with this number (below 2^31).
    pub const fn new(index: u32) -> Self {
        Self(index)
    }
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// As stored.
    pub const fn index_u32(self) -> u32 {
        self.0
    }
}

/// Sketch: 16 bytes, so that a slot never lies on two cache lines; a fault reads one that nothing has read for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    /// Packed shadow of the page's eviction + 1, 0 = none; [`SHARED`].
    shadow: u64,
    /// Frame + 1 of the page in the swap cache, 0 = not cached; [`ZERO_FILLED`].
    cached: u32,
    /// Page-table entries that refer to it (a file's page of shared memory counts as one).
    users: u16,
    cgroup: u16,
}

const _: () = assert!(size_of::<Slot>() == 16, "four slots per cache line");
/// The page was shared by fork: the remaining entry does not own it exclusively.
const SHARED: u64 = 1 << 63;
/// All bytes zero: no I/O.
const ZERO_FILLED: u32 = 1 << 31;

impl Slot {
    #[inline]
    const fn cached(self) -> u32 {
        self.cached & !ZERO_FILLED
    }
    #[inline]
    const fn shadow(self) -> Option<u64> {
        (self.shadow & !SHARED).checked_sub(1)
    }
    #[inline]
    fn set_shadow(&mut self, shadow: Option<u64>) {
        self.shadow = self.shadow & SHARED | pack_shadow(shadow);
    }
    #[inline]
    const fn is_used(self) -> bool {
        self.users != 0 || self.cached() != 0
    }
}

#[derive(Clone, Debug, Default)]
pub struct Slots {
    slots: Vec<Slot>,
    /// Where the search for a free slot goes on: neighbours in eviction order become neighbours on the device.
    cursor: usize,
    /// Slots given back before the cursor wrapped around.
    nr_used: u64,
    total: u64,
}

impl Slots {
    /// A device of `total` slots (at most 2^31 - 2). Slots cost memory as they come to be used.
    pub fn new(total: u64) -> Self {
        Self { slots: Vec::new(), cursor: 0, nr_used: 0, total: total.min((1 << 31) - 2) }
    }
    /// Slots of the device.
    pub fn total(&self) -> u64 {
        self.total
    }
    /// Slots in use, including slots of resident pages.
    #[inline]
    pub fn used(&self) -> u64 {
        self.nr_used
    }
    /// Free slots.
    #[inline]
    pub fn free(&self) -> u64 {
        self.total - self.nr_used
    }

    /// Takes the next free slot after the last one taken, held by the swap cache page `frame`, paid by `cgroup`.
    pub fn take(&mut self, frame: FrameId, cgroup: CgroupId) -> Option<SlotId> {
        self.take_as(Slot { cached: frame.index_u32() + 1, cgroup: cgroup.0, ..Slot::default() })
    }

    /// The same for a page in no swap cache, which leaves `shadow`: one page-table entry refers to the slot.
    #[inline]
    pub fn take_for_entry(&mut self, cgroup: CgroupId, shadow: Option<u64>) -> Option<SlotId> {
        self.take_as(Slot { shadow: pack_shadow(shadow), users: 1, cgroup: cgroup.0, ..Slot::default() })
    }

    #[inline]
    fn take_as(&mut self, slot: Slot) -> Option<SlotId> {
        if self.free() == 0 {
            return None;
        }
        if let Some(next) = self.slots.get_mut(self.cursor).filter(|next| !next.is_used()) {
            *next = slot;
            self.nr_used += 1;
            self.cursor += 1;
            return Some(SlotId(u32::try_from(self.cursor - 1).expect("below 2^31")));
        }
        self.search(slot)
    }

    fn search(&mut self, slot: Slot) -> Option<SlotId> {
        let total = usize::try_from(self.total).expect("below 2^31");
        loop {
            if self.cursor >= total {
                self.cursor = 0;
            }
            let at = self.cursor;
            self.cursor += 1;
            if at >= self.slots.len() {
                self.slots.resize(at + 1, Slot::default());
            }
            if !self.slots[at].is_used() {
                self.slots[at] = slot;
                self.nr_used += 1;
                return Some(SlotId(u32::try_from(at).expect("below 2^31")));
            }
        }
    }

    #[inline]
    fn get(&self, slot: SlotId) -> &Slot {
        debug_assert!(self.slots[slot.index()].is_used(), "{slot:?} is free");
        &self.slots[slot.index()]
    }
    #[inline]
    fn get_mut(&mut self, slot: SlotId) -> &mut Slot {
        debug_assert!(self.slots[slot.index()].is_used(), "{slot:?} is free");
        &mut self.slots[slot.index()]
    }

    /// The page in the swap cache.
    pub fn cached(&self, slot: SlotId) -> Option<FrameId> {
        self.get(slot).cached().checked_sub(1).map(FrameId::new)
    }
    /// The packed shadow of the eviction.
    #[inline]
    pub fn shadow(&self, slot: SlotId) -> Option<u64> {
        self.get(slot).shadow()
    }
    /// Reads the record; see [`Memory::warm_up`](crate::memory::Memory::warm_up).
    #[inline]
    pub(crate) fn read_all(&self, slot: SlotId) -> u64 {
        self.slots.get(slot.index()).map_or(0, |slot| u64::from(slot.users))
    }
    pub fn cgroup(&self, slot: SlotId) -> CgroupId {
        CgroupId(self.get(slot).cgroup)
    }
    /// Page-table entries that refer to it.
    pub fn users(&self, slot: SlotId) -> u16 {
        self.get(slot).users
    }
    /// Whether the slot is only marked as zeroes.
    pub fn is_zero_filled(&self, slot: SlotId) -> bool {
        self.get(slot).cached & ZERO_FILLED != 0
    }
    /// Whether the slot exists and is in use.
    pub fn is_used(&self, slot: SlotId) -> bool {
        self.slots.get(slot.index()).is_some_and(|slot| slot.is_used())
    }
    /// Marks it as zeroes, or not.
    pub fn set_zero_filled(&mut self, slot: SlotId, zero_filled: bool) {
        let slot = self.get_mut(slot);
        slot.cached = slot.cached() | if zero_filled { ZERO_FILLED } else { 0 };
    }
    /// Stores the shadow of the eviction.
    #[inline]
    pub fn set_shadow(&mut self, slot: SlotId, shadow: Option<u64>) {
        self.get_mut(slot).set_shadow(shadow);
    }
    /// Puts a page into the swap cache at this slot.
    pub fn set_cached(&mut self, slot: SlotId, frame: FrameId) {
        let slot = self.get_mut(slot);
        slot.cached = slot.cached & ZERO_FILLED | (frame.index_u32() + 1);
    }
    /// Whether its page was ever shared by fork.
    pub fn is_shared(&self, slot: SlotId) -> bool {
        self.get(slot).shadow & SHARED != 0
    }
    /// Notes that its page was shared by fork.
    pub fn set_shared(&mut self, slot: SlotId) {
        self.get_mut(slot).shadow |= SHARED;
    }
    /// All slots in use, ascending.
    pub fn used_slots(&self) -> impl Iterator<Item = SlotId> + '_ {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_used());
        used.map(|(index, _)| SlotId(u32::try_from(index).expect("below 2^31")))
    }
    /// Adds a page-table reference to the slot.
    pub fn add_user(&mut self, slot: SlotId) {
        let slot = self.get_mut(slot);
        slot.users += 1;
        if slot.users > 1 {
            slot.shadow |= SHARED;
        }
    }
    /// Removes a page-table reference to the slot. Returns whether the slot is free now (then the caller uncharges its group).
    pub fn remove_user(&mut self, slot: SlotId) -> bool {
        self.get_mut(slot).users -= 1;
        self.free_if_unused(slot)
    }
    /// The page leaves the swap cache. Returns whether the slot is free now.
    pub fn remove_cached(&mut self, slot: SlotId) -> bool {
        let entry = self.get_mut(slot);
        entry.cached &= ZERO_FILLED;
        self.free_if_unused(slot)
    }
    /// The only user of a slot that is in no swap cache: its group and shadow. `None`: it has others, its page was shared, or is in
    /// the swap cache.
    #[inline]
    pub fn sole_use(&self, slot: SlotId) -> Option<(CgroupId, Option<u64>)> {
        let slot = self.get(slot);
        let is_sole = slot.users == 1 && slot.cached() == 0 && slot.shadow & SHARED == 0;
        is_sole.then(|| (CgroupId(slot.cgroup), slot.shadow()))
    }
    /// Frees a slot of [one user](Self::sole_use), which needs it no more.
    #[inline]
    pub fn free_sole(&mut self, slot: SlotId) {
        debug_assert!(self.sole_use(slot).is_some(), "somebody else needs the slot");
        let slot = self.get_mut(slot);
        (slot.users, slot.shadow) = (0, 0);
        self.nr_used -= 1;
    }
    #[inline]
    fn free_if_unused(&mut self, slot: SlotId) -> bool {
        let is_unused = !self.slots[slot.index()].is_used();
        self.nr_used -= u64::from(is_unused);
        is_unused
    }
}

/// The stored form of a shadow.
#[inline]
fn pack_shadow(shadow: Option<u64>) -> u64 {
    debug_assert!(shadow.is_none_or(|shadow| shadow < SHARED - 1), "shadows leave the top bit free");
    shadow.map_or(0, |shadow| shadow + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_when_neither_entries_nor_cache_hold_it() {
        let mut slots = Slots::new(2);
        let frame = FrameId::new(7);
        let first = slots.take(frame, CgroupId::ROOT).unwrap();
        slots.add_user(first);
        assert!(!slots.remove_cached(first), "an entry refers to it");
        assert_eq!((slots.cached(first), slots.used()), (None, 1));
        let second = slots.take(frame, CgroupId::ROOT).unwrap();
        assert_eq!(slots.take(frame, CgroupId::ROOT), None);
        assert!(slots.remove_user(first));
        assert_eq!(slots.take(frame, CgroupId::ROOT), Some(first), "the cursor wraps");
        assert_ne!(first, second);
    }

    #[test]
    fn what_a_slot_holds_does_not_disturb_the_rest() {
        let mut slots = Slots::new(4);
        let slot = slots.take_for_entry(CgroupId(65_535), Some((1 << 63) - 3)).unwrap();
        let seen = |slots: &Slots| {
            (
                slots.shadow(slot),
                slots.cached(slot),
                slots.users(slot),
                slots.is_zero_filled(slot),
                slots.is_shared(slot),
            )
        };
        let shadow = Some((1 << 63) - 3);
        assert_eq!(seen(&slots), (shadow, None, 1, false, false));
        assert_eq!(slots.sole_use(slot), Some((CgroupId(65_535), shadow)));
        slots.set_zero_filled(slot, true);
        slots.set_shared(slot);
        assert_eq!(seen(&slots), (shadow, None, 1, true, true));
        assert_eq!(slots.sole_use(slot), None, "its page was shared");
        let last = FrameId::new((1 << 31) - 3);
        slots.set_cached(slot, last);
        slots.set_shadow(slot, Some(7));
        assert_eq!(seen(&slots), (Some(7), Some(last), 1, true, true));
        slots.set_zero_filled(slot, false);
        assert!(!slots.remove_user(slot));
        assert_eq!(seen(&slots), (Some(7), Some(last), 0, false, true));
        assert!(slots.remove_cached(slot) && !slots.is_used(slot));
    }
}
