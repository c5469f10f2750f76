//! The frame table.
//!
//! Sketch: one record of links 4 + 4 B, owner 2 + 4 B, flags 2 B and cgroup 2 B, because taking a page off the end of a list
//! reads all of it: one cache line, seldom two. 18 B a frame; with the page table's 4.5 B a resident page costs 22.5 B. The swap
//! slot of pages in the swap cache lies in a column that is untouched memory until swap is used, and so does the order of folios.

use super::marks::Marks;
use crate::cgroup::CgroupId;
use crate::memory::FileId;
use crate::mmu::{DensePage, SpaceId};
use crate::swap::SlotId;

/// Index of a page frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(u32);

impl FrameId {
    /// The frame with this number.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// As stored.
    #[inline]
    pub const fn index_u32(self) -> u32 {
        self.0
    }
}

/// The owner of a frame's page: the start of its reverse map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageOwner {
    /// Anonymous page, first mapped here. Further mappers after fork: the space's family, same page
    /// ([`Flag::Shared`]).
    Anonymous {
        /// Address space.
        space: SpaceId,
        page: DensePage,
    },
    /// Page of a file (or of shared memory); mappers: [`Files`](super::Files).
    File { file: FileId, page: u32 },
}

/// A flag of a page, one bit each. Meanings as in the kernel's page flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Flag {
    /// The owner is a file.
    FileOwned = 1 << 0,
    /// Goes to swap when evicted: anonymous memory and shared memory; lazily freed pages lose it.
    SwapBacked = 1 << 1,
    /// The page is on an active list.
    Active = 1 << 2,
    /// Second-chance bit in software.
    Referenced = 1 << 3,
    /// Was active before reclaim deactivated it.
    Workingset = 1 << 4,
    /// Contents differ from the contents on the device.
    Dirty = 1 << 5,
    /// Being written to its device.
    Writeback = 1 << 6,
    /// Being read from its device: not up to date.
    Reading = 1 << 7,
    /// The page moves to the inactive tail when write-back ends.
    Reclaim = 1 << 8,
    /// Read ahead and not touched yet (swap), or the mark that starts the next window (file).
    Readahead = 1 << 9,
    /// The page is in the swap cache: it has a slot.
    SwapCache = 1 << 10,
    /// Mapped by more than one address space after fork.
    Shared = 1 << 11,
    /// Locked in memory.
    Unevictable = 1 << 12,
    /// The page is on one of the policy's lists.
    OnList = 1 << 13,
    /// All bytes zero: swapped out by marking the slot.
    ZeroFilled = 1 << 14,
    /// Taken off its list by a reclaim pass in progress.
    Isolated = 1 << 15,
}

/// The flags of a page as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// The flags of a frame of a folio that is not its head.
    pub(super) const fn of_tail() -> Self {
        Self(Flag::FileOwned as u16)
    }
    /// Whether the flag was set.
    #[inline]
    pub const fn has(self, flag: Flag) -> bool {
        self.0 & flag as u16 != 0
    }
    /// Whether any of the flags was set.
    #[inline]
    pub const fn has_any<const N: usize>(self, flags: [Flag; N]) -> bool {
        self.0 & mask_of(flags) != 0
    }
}

const fn mask_of<const N: usize>(flags: [Flag; N]) -> u16 {
    let (mut mask, mut at) = (0, 0);
    while at < N {
        mask |= flags[at] as u16;
        at += 1;
    }
    mask
}

const NONE: u32 = u32::MAX;

/// All data of a frame, side by side because most paths read most of it: the two halves of each neighbour in a list, owner,
/// flags, group, and the two halves of the page number. An array of integers, so that fresh zero pages of the operating system
/// are valid as they are; of 16 bits, so that there is no padding between two frames.
type Record = [u16; 9];
const PREVIOUS: usize = 0;
const NEXT: usize = 2;
/// From here on columns describe the page, before it a list.
const OWNER: usize = 4;
const FLAGS: usize = 5;
const CGROUP: usize = 6;
const PLACE: usize = 7;
const _: () = assert!(size_of::<Record>() == 18, "with 4.5 bytes of page table a resident page costs 22.5");

/// All frames of the machine.
#[derive(Clone, Debug)]
pub struct Frames {
    records: Vec<Record>,
    slot: Vec<u32>,
    pub(super) marks: Marks,
    /// By frame: order of its folio. Empty where all are single.
    pub(super) orders: Vec<u8>,
}

impl Frames {
    /// `len` free frames. The memory is untouched until frames are used.
    pub fn new(len: usize) -> Self {
        Self { records: vec![[0; 9]; len], slot: vec![0; len], marks: Marks::default(), orders: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the machine has no memory at all.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Makes `frame` the page of `owner`, paid by `cgroup`, with only the flags that follow from the owner.
    #[inline(always)]
    pub fn assign(&mut self, frame: FrameId, owner: PageOwner, cgroup: CgroupId) {
        debug_assert!(!self.has(frame, Flag::OnList), "a frame left its list before it got another page");
        let (id, place, flags) = match owner {
            PageOwner::Anonymous { space, page } => (space.0, page.raw(), Flag::SwapBacked as u16),
            PageOwner::File { file, page } => (file.0, page, Flag::FileOwned as u16),
        };
        let (low, high) = halves(place);
        self.records[frame.index()][OWNER..].copy_from_slice(&[id, flags, cgroup.0, low, high]);
        self.marks.forget(frame);
    }

    /// The page that the frame holds.
    #[inline]
    pub fn owner(&self, frame: FrameId) -> PageOwner {
        let identity = &self.records[frame.index()];
        let place = joined(identity, PLACE);
        if identity[FLAGS] & Flag::FileOwned as u16 != 0 {
            PageOwner::File { file: FileId(identity[OWNER]), page: place }
        } else {
            PageOwner::Anonymous { space: SpaceId(identity[OWNER]), page: DensePage::from_raw(place) }
        }
    }

    /// Flags, space and page of a frame that holds an anonymous page; `None`: it holds one of a file.
    #[inline]
    pub(crate) fn anonymous(&self, frame: FrameId) -> Option<(Flags, SpaceId, DensePage)> {
        let record = &self.records[frame.index()];
        let flags = Flags(record[FLAGS]);
        let place = DensePage::from_raw(joined(record, PLACE));
        (!flags.has(Flag::FileOwned)).then_some((flags, SpaceId(record[OWNER]), place))
    }

    /// All flags at once, for paths that ask for many.
    #[inline]
    pub fn flags(&self, frame: FrameId) -> Flags {
        Flags(self.records[frame.index()][FLAGS])
    }

    /// Hands an anonymous page to another mapper (its first owner unmapped it).
    pub fn reassign_anonymous(&mut self, frame: FrameId, space: SpaceId, page: DensePage) {
        debug_assert!(!self.has(frame, Flag::FileOwned), "pages of files have no first mapper");
        self.set_owner(frame, space.0, page.raw());
    }

    /// Makes a page that nothing maps the page of `owner`, and keeps all else: swap readahead by slot reads pages before it knows
    /// their owners.
    pub fn adopt(&mut self, frame: FrameId, owner: PageOwner) {
        debug_assert!(
            self.has(frame, Flag::SwapCache),
            "only a page that was read from its slot may wait for its owner"
        );
        match owner {
            PageOwner::Anonymous { space, page } => {
                self.clear(frame, Flag::FileOwned);
                self.set_owner(frame, space.0, page.raw());
            }
            PageOwner::File { file, page } => {
                self.set(frame, Flag::FileOwned);
                self.set_owner(frame, file.0, page);
            }
        }
    }

    /// The page in `from` is in `to` from now on: owner, flags, group, slot, marks. `from` is empty afterwards.
    pub(crate) fn relocate(&mut self, from: FrameId, to: FrameId) {
        debug_assert!(from != to, "a page moves to another frame");
        let page: [u16; 5] = self.records[from.index()][OWNER..].try_into().expect("half of a record");
        self.records[to.index()][OWNER..].copy_from_slice(&page);
        self.records[from.index()][OWNER..].fill(0);
        if self.has(to, Flag::SwapCache) {
            self.slot[to.index()] = self.slot[from.index()];
        }
        self.marks.relocate(from, to);
    }

    fn set_owner(&mut self, frame: FrameId, owner: u16, place: u32) {
        let identity = &mut self.records[frame.index()];
        (identity[PLACE], identity[PLACE + 1]) = halves(place);
        identity[OWNER] = owner;
    }

    /// The group that pays for the page.
    #[inline]
    pub fn cgroup(&self, frame: FrameId) -> CgroupId {
        CgroupId(self.records[frame.index()][CGROUP])
    }

    /// Whether the flag is set.
    #[inline]
    pub fn has(&self, frame: FrameId, flag: Flag) -> bool {
        self.records[frame.index()][FLAGS] & flag as u16 != 0
    }
    #[inline]
    pub fn set(&mut self, frame: FrameId, flag: Flag) {
        self.records[frame.index()][FLAGS] |= flag as u16;
    }
    #[inline]
    pub fn clear(&mut self, frame: FrameId, flag: Flag) {
        self.records[frame.index()][FLAGS] &= !(flag as u16);
    }
    /// Clears some flags and sets others in one go. Returns all as they are now.
    #[inline]
    pub fn update<const C: usize, const S: usize>(
        &mut self,
        frame: FrameId,
        clear: [Flag; C],
        set: [Flag; S],
    ) -> Flags {
        let flags = &mut self.records[frame.index()][FLAGS];
        *flags = *flags & !mask_of(clear) | mask_of(set);
        Flags(*flags)
    }
    /// Reads and clears the flag.
    #[inline]
    pub fn take(&mut self, frame: FrameId, flag: Flag) -> bool {
        let was = self.has(frame, flag);
        self.clear(frame, flag);
        was
    }
    /// Whether its list is a file list: everything that is not swap-backed, lazily freed pages included.
    #[inline]
    pub fn is_file_lru(&self, frame: FrameId) -> bool {
        !self.has(frame, Flag::SwapBacked)
    }

    /// The slot of a page in the swap cache.
    pub fn slot(&self, frame: FrameId) -> Option<SlotId> {
        self.has(frame, Flag::SwapCache).then(|| SlotId::new(self.slot[frame.index()]))
    }
    /// Puts the page into the swap cache with `slot`, or takes it out.
    pub fn set_slot(&mut self, frame: FrameId, slot: Option<SlotId>) {
        debug_assert!(slot.is_some() != self.has(frame, Flag::SwapCache), "a page has one slot, and leaves it once");
        match slot {
            Some(slot) => {
                self.slot[frame.index()] = slot.index_u32();
                self.set(frame, Flag::SwapCache);
            }
            None => self.clear(frame, Flag::SwapCache),
        }
    }

    /// Reads the record; see [`Memory::warm_up`](super::Memory::warm_up).
    #[inline]
    pub(super) fn read_all(&self, frame: FrameId) -> u64 {
        self.records.get(frame.index()).map_or(0, |record| u64::from(record[PREVIOUS] ^ record[PLACE]))
    }

    #[inline]
    pub(super) fn link(&self, frame: FrameId) -> (Option<FrameId>, Option<FrameId>) {
        let decode = |raw: u32| (raw != NONE).then_some(FrameId(raw));
        let record = &self.records[frame.index()];
        (decode(joined(record, PREVIOUS)), decode(joined(record, NEXT)))
    }
    /// Marks a page as taken off its list; returns the younger neighbour.
    #[inline]
    pub(super) fn isolate(&mut self, frame: FrameId) -> Option<FrameId> {
        let record = &mut self.records[frame.index()];
        record[FLAGS] = record[FLAGS] & !(Flag::OnList as u16) | Flag::Isolated as u16;
        let previous = joined(record, PREVIOUS);
        (previous != NONE).then_some(FrameId(previous))
    }
    #[inline]
    pub(super) fn set_links(&mut self, frame: FrameId, previous: Option<FrameId>, next: Option<FrameId>) {
        let record = &mut self.records[frame.index()];
        put(record, PREVIOUS, previous);
        put(record, NEXT, next);
    }
    #[inline]
    pub(super) fn set_previous(&mut self, frame: FrameId, to: Option<FrameId>) {
        put(&mut self.records[frame.index()], PREVIOUS, to);
    }
    #[inline]
    pub(super) fn set_next(&mut self, frame: FrameId, to: Option<FrameId>) {
        put(&mut self.records[frame.index()], NEXT, to);
    }
}

/// The number whose halves are at `at`.
#[inline]
fn joined(record: &Record, at: usize) -> u32 {
    u32::from(record[at + 1]) << 16 | u32::from(record[at])
}

#[inline]
fn put(record: &mut Record, at: usize, to: Option<FrameId>) {
    (record[at], record[at + 1]) = halves(to.map_or(NONE, |to| to.0));
}

/// Low and high half.
#[expect(clippy::cast_possible_truncation, reason = "halves are meant")]
const fn halves(place: u32) -> (u16, u16) {
    (place as u16, (place >> 16) as u16)
}
