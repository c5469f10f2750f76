//! A zone: its free memory, lists of single pages at hand, and watermarks.

use super::buddy::{Bits, Buddy, Fallback, MAX_ORDER, MigrateType, Search};
use super::watermarks::ZoneWatermarks;
use super::{FrameId, Frames};
use crate::compaction::ZoneCompaction;
use std::collections::VecDeque;

/// How deep an allocation may go into the reserve of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Fast path: free memory stays above the low watermark.
    Low,
    /// Slow path: above the min watermark.
    Min,
    /// Reclaimers and victims of the out-of-memory killer: everything.
    Nothing,
}

/// A zone: frames `first..first + managed`.
#[derive(Clone, Debug)]
pub struct Zone {
    pub(super) first: u32,
    managed: u32,
    buddy: Buddy,
    at_hand: AtHand,
    /// Pages that leave the list at hand while much memory is given back, until all such pages are known.
    settling: Option<Settling>,
    /// Frames taken without identity: memory of compressed swap.
    pub(super) hidden: u64,
    /// Free pages that compaction holds for others to move into: neither free nor in use.
    set_aside: u64,
    /// Watermarks in pages, boost included.
    pub marks: ZoneWatermarks,
    /// The watermarks without the boost.
    unboosted: ZoneWatermarks,
    boost: u64,
    /// It was raised since this was last read.
    is_boosted_anew: bool,
    /// State of the zone that compaction keeps.
    pub compaction: ZoneCompaction,
}

impl Zone {
    pub(super) fn new(frames: &mut Frames, first: u32, managed: u32, marks: ZoneWatermarks) -> Self {
        let buddy = Buddy::new(frames, first, first + managed);
        let compaction = ZoneCompaction::new(first, first + managed);
        Self {
            first,
            managed,
            buddy,
            at_hand: AtHand::new(managed, marks.high),
            settling: None,
            hidden: 0,
            set_aside: 0,
            marks,
            unboosted: marks,
            boost: 0,
            is_boosted_anew: false,
            compaction,
        }
    }

    /// Frames of the zone.
    pub fn managed(&self) -> u64 {
        u64::from(self.managed)
    }

    /// Free pages, including the ones at hand.
    #[inline]
    pub fn free(&self) -> u64 {
        self.all_free().saturating_sub(self.hidden)
    }

    #[inline]
    fn all_free(&self) -> u64 {
        let settling = self.settling.as_ref().map_or(0, |settling| settling.count);
        self.buddy.free_pages() + self.at_hand.pages.len() as u64 + settling
    }

    /// Frames in use; pages of compressed swap are not counted.
    pub(super) fn used(&self) -> u64 {
        self.managed() - self.all_free() - self.set_aside
    }

    /// Free pages in blocks: compared with watermarks of compaction (`NR_FREE_PAGES`).
    pub fn free_in_blocks(&self) -> u64 {
        self.buddy.free_pages().saturating_sub(self.hidden)
    }

    /// Pages by which claims of parts of page blocks have raised the marks, until kswapd has freed as many.
    pub const fn boost(&self) -> u64 {
        self.boost
    }

    /// Whether the boost was raised since the last call: kswapd is to be woken (`ZONE_BOOSTED_WATERMARK`).
    pub(crate) const fn take_boosted_anew(&mut self) -> bool {
        std::mem::replace(&mut self.is_boosted_anew, false)
    }

    /// kswapd has dealt with `pages` of the boost.
    pub(crate) const fn lower_boost(&mut self, pages: u64) {
        self.boost = self.boost.saturating_sub(pages);
        self.marks = self.unboosted.boosted(self.boost);
    }

    /// Claims of parts of page blocks, successful or not, raise the marks. `before` is the number of claims when the allocation began.
    fn boost_for_claims_since(&mut self, before: u64) {
        let attempts = self.buddy.effort().boosts - before;
        if attempts > 0 {
            let boost = self.unboosted.boost_after(self.boost, attempts, self.managed());
            self.is_boosted_anew |= boost > 0;
            debug_assert!(boost >= self.boost, "claims raise marks only");
            self.boost = boost;
            self.marks = self.unboosted.boosted(boost);
        }
    }

    /// Frames of the zone.
    pub fn range(&self) -> std::ops::Range<u32> {
        self.buddy.range()
    }

    /// Forgets which page blocks compaction need not scan, if a run asked for that.
    pub(crate) fn flush_hints(&mut self, frames: &Frames) {
        let Self { buddy, compaction, .. } = self;
        compaction.flush_hints(buddy, frames);
    }

    pub(crate) fn buddy_mut(&mut self) -> &mut Buddy {
        &mut self.buddy
    }

    /// Takes the free block that begins at a frame, for pages to move into, if that leaves more than the min mark. Returns its order.
    /// Source: `__isolate_free_page`.
    pub(crate) fn set_aside(&mut self, frames: &mut Frames, block: FrameId) -> Option<u32> {
        let order = self.buddy.order_at(block)?;
        // The raw mark: a boost is meant to get pages moved.
        if self.free_in_blocks() <= self.unboosted.min + (1 << order) {
            return None;
        }
        self.set_aside += 1 << order;
        Some(self.buddy.take_at(frames, block))
    }

    /// Pages that were set aside are in use from now on.
    pub(crate) fn use_aside(&mut self, pages: u64) {
        debug_assert!(pages <= self.set_aside, "only what was set aside is used");
        self.set_aside -= pages;
    }

    /// Gives back the unused part of a block that was set aside.
    pub(crate) fn give_aside(&mut self, frames: &mut Frames, block: FrameId, order: u32) {
        debug_assert!(1 << order <= self.set_aside, "only what was set aside is given back");
        self.set_aside -= 1 << order;
        self.buddy.free(frames, block, order);
    }

    /// From now on no pages are kept at hand: all are in blocks, as in the worked examples of docs/spec/compaction.md.
    #[cfg(test)]
    pub(crate) fn keep_none_at_hand(&mut self, frames: &mut Frames) {
        self.drain(frames);
        (self.at_hand.high, self.at_hand.batch) = (0, 1);
    }

    /// Boosts the marks as this number of claims of parts of page blocks would.
    #[cfg(test)]
    pub(crate) fn boost_by_claims(&mut self, attempts: u64) {
        self.boost = self.unboosted.boost_after(self.boost, attempts, self.managed());
        self.marks = self.unboosted.boosted(self.boost);
    }

    /// Free blocks: what `/proc/buddyinfo` shows. Pages at hand are not in it, and cannot be joined with their neighbours.
    pub fn buddy(&self) -> &Buddy {
        &self.buddy
    }

    /// Pages that an allocation at `mark` leaves free.
    #[inline]
    pub(super) fn keeps(&self, mark: Mark, is_highest: bool) -> u64 {
        let reserve = if is_highest { 0 } else { self.marks.lowmem_reserve };
        match mark {
            Mark::Low => self.marks.low + reserve,
            Mark::Min => self.marks.min + reserve,
            Mark::Nothing => 0,
        }
    }

    /// Takes a page.
    #[inline]
    pub(super) fn take(&mut self, frames: &mut Frames) -> Option<FrameId> {
        if self.free() == 0 {
            return None;
        }
        if self.at_hand.pages.is_empty() {
            self.refill(frames);
        }
        self.at_hand.pages.pop_back().map(FrameId::new)
    }

    /// Pages at hand that can be taken one after the other, at most `most`, with more than `keep` free before each.
    #[inline]
    pub(super) fn several_at_hand(&self, most: usize, keep: u64) -> usize {
        let above = usize::try_from(self.free().saturating_sub(keep)).unwrap_or(usize::MAX);
        most.min(above).min(self.at_hand.pages.len())
    }

    /// Takes the top page of those at hand.
    #[inline]
    pub(super) fn take_at_hand(&mut self) -> Option<FrameId> {
        self.at_hand.pages.pop_back().map(FrameId::new)
    }

    /// Takes a block of `order`, if there is one. Pages at hand are not given up for it: call [`drain`](Self::drain) before for
    /// that.
    pub(crate) fn take_block(&mut self, frames: &mut Frames, order: u32, kind: MigrateType) -> Option<FrameId> {
        if order > MAX_ORDER || self.free() < 1 << order {
            return None;
        }
        let before = self.buddy.effort().boosts;
        let block = self.buddy.allocate(frames, order, kind, Fallback::Any, &mut Search::default());
        self.boost_for_claims_since(before);
        block
    }

    /// Gives a page back.
    #[inline]
    pub(super) fn give(&mut self, frames: &mut Frames, frame: FrameId) {
        debug_assert!(self.range().contains(&frame.index_u32()), "a frame goes back to its zone");
        debug_assert!(self.at_hand.pages.back() != Some(&frame.index_u32()), "a page is given back once");
        self.at_hand.pages.push_back(frame.index_u32());
        if self.at_hand.pages.len() > self.at_hand.high {
            self.flush(frames, self.at_hand.batch);
        }
    }

    /// Up to `pages` single pages are about to be given back. If they are many for the zone, pages that do not stay at hand are collected
    /// until [`settle`](Self::settle), where neighbours go back together. In the order in which an ending process leaves them, each would
    /// wait for main memory.
    pub(super) fn expect(&mut self, pages: u64) {
        // A bit is read for every frame of the zone: a word for each page that is expected.
        if self.settling.is_none() && pages >= self.managed() / 64 {
            self.settling = Some(Settling { pages: Bits::new(self.managed), count: 0 });
        }
    }

    /// Puts the pages collected since [`expect`](Self::expect) among free blocks.
    pub(super) fn settle(&mut self, frames: &mut Frames) {
        let Some(settling) = self.settling.take() else { return };
        for run in settling.pages.runs() {
            self.buddy.free_run(frames, self.first + run.start..self.first + run.end);
        }
    }

    /// Gives a block back that [`take_block`](Self::take_block) gave.
    pub(super) fn give_block(&mut self, frames: &mut Frames, frame: FrameId, order: u32) {
        debug_assert!(self.range().contains(&frame.index_u32()), "a block goes back to its zone");
        self.buddy.free(frames, frame, order);
    }

    /// Puts all pages at hand back among free blocks, where they can be joined. How many there were.
    pub(crate) fn drain(&mut self, frames: &mut Frames) -> usize {
        let count = self.at_hand.pages.len();
        self.flush(frames, count);
        self.settle(frames);
        count
    }

    /// A batch of pages; the one taken first lies on top.
    #[cold]
    fn refill(&mut self, frames: &mut Frames) {
        debug_assert!(self.at_hand.pages.is_empty(), "pages are fetched when none is left");
        self.settle(frames);
        let before = self.buddy.effort().boosts;
        let Self { buddy, at_hand: AtHand { pages, batch, .. }, .. } = self;
        let batch = u32::try_from(*batch).expect("at most 63");
        let taken = buddy.take_pages(frames, batch, |run| run.for_each(|page| pages.push_front(page)));
        let mut search = Search::default();
        for _ in taken..batch {
            let page = buddy.allocate(frames, 0, MigrateType::Movable, Fallback::Any, &mut search);
            let Some(page) = page else { break };
            pages.push_front(page.index_u32());
        }
        self.boost_for_claims_since(before);
    }

    /// The pages given back longest ago go first.
    #[cold]
    fn flush(&mut self, frames: &mut Frames, count: usize) {
        let Self { first, buddy, at_hand, settling, .. } = self;
        let pages = at_hand.pages.drain(..count);
        match settling {
            Some(settling) => {
                pages.for_each(|page| settling.pages.set(page - *first));
                settling.count += count as u64;
            }
            None => pages.for_each(|page| buddy.free(frames, FrameId::new(page), 0)),
        }
    }

    /// Checks the invariants of free memory.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn check(&self, frames: &Frames) -> Result<(), String> {
        self.buddy.check(frames)?;
        if let Some(settling) = self.settling.as_ref().filter(|settling| settling.count > 0) {
            return Err(format!("{} free pages are not among free blocks", settling.count));
        }
        let mut pages: Vec<u32> = self.at_hand.pages.iter().copied().collect();
        pages.sort_unstable();
        let twice = pages.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        let freed = pages.iter().copied().find(|&page| self.buddy.is_free(FrameId::new(page)));
        match twice.or(freed) {
            Some(page) => Err(format!("frame {page:#x} is free twice")),
            None => Ok(()),
        }
    }

    /// Frames that are free after they were used.
    pub(super) fn given_back<'a>(&'a self, frames: &'a Frames) -> impl Iterator<Item = FrameId> + 'a {
        self.buddy.used_before(frames).chain(self.at_hand.pages.iter().copied().map(FrameId::new))
    }
}

/// Pages on their way to free blocks, counted from the zone's first frame.
#[derive(Clone, Debug)]
struct Settling {
    pages: Bits,
    count: u64,
}

/// Single movable pages kept out of the buddy allocator, so that most allocations do not touch it: the kernel's lists per CPU
/// (docs/spec/compaction.md#s2-6), here one list for all CPUs, with the page given back last on top.
#[derive(Clone, Debug)]
struct AtHand {
    /// Taken from and given to the back.
    pages: VecDeque<u32>,
    /// With more pages, a batch goes back.
    high: usize,
    /// Pages moved at once.
    batch: usize,
}

impl AtHand {
    /// The kernel's limit for each CPU lies between its share of the low mark and of an eighth of the zone, and grows with use. Here it is
    /// twice the high mark: a run of kswapd frees as much as that mark, and the freed pages are taken again at once.
    fn new(managed: u32, high_mark: u64) -> Self {
        let batch = batch(u64::from(managed));
        let high = (2 * high_mark).max(4 * batch);
        let count = |pages: u64| usize::try_from(pages).expect("fewer than 2^32 pages");
        Self { pages: VecDeque::new(), high: count(high), batch: count(batch) }
    }
}

/// Pages moved at once between a CPU's list and the buddy allocator. Source: `zone_batchsize`.
const fn batch(managed: u64) -> u64 {
    let pages = managed >> 12;
    let pages = if pages > 64 { 64 } else { pages };
    if pages <= 1 {
        return 1;
    }
    let half_more = pages + pages / 2;
    (1 << half_more.ilog2()) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// docs/spec/compaction.md#s11, E13: batches. With two CPUs the kernel's limits for each are 9798 and 311296; the one list
    /// here is longer than two of the former and shorter than two of the latter.
    #[test]
    fn e13_batches_and_limits() {
        assert_eq!((batch(3840), batch(772_917), batch(4_980_736)), (1, 63, 63));
        let normal = AtHand::new(4_980_736, 24_576);
        assert!((2 * 9798..2 * 311_296).contains(&normal.high), "{}", normal.high);
        assert_eq!(AtHand::new(4_980_736, 0).high, 252);
    }

    #[test]
    fn pages_at_hand_are_free_but_in_no_block() {
        let mut frames = Frames::new(1 << 20);
        let mut zone = Zone::new(&mut frames, 0, 1 << 20, ZoneWatermarks { high: 150, ..ZoneWatermarks::default() });
        let taken: Vec<u32> = (0..400).map(|_| zone.take(&mut frames).expect("free").index_u32()).collect();
        assert_eq!(taken, (0..400).collect::<Vec<_>>(), "in the order of addresses");
        assert_eq!((zone.used(), zone.free()), (400, (1 << 20) - 400));
        assert_eq!(zone.buddy().free_pages(), (1 << 20) - 7 * 63, "seven batches");
        for page in taken.into_iter().rev() {
            zone.give(&mut frames, FrameId::new(page));
        }
        assert_eq!((zone.used(), zone.free()), (0, 1 << 20));
        assert!(zone.buddy().blocks().counts()[10] < 1024, "some cannot be joined");
        assert_eq!(zone.take(&mut frames), Some(FrameId::new(0)), "what was given back last");
        zone.give(&mut frames, FrameId::new(0));
        zone.drain(&mut frames);
        assert_eq!(zone.buddy().blocks().counts()[10], 1024);
        zone.check(&frames).unwrap();
        zone.give(&mut frames, FrameId::new(0));
        assert_eq!(zone.check(&frames), Err("frame 0x0 is free twice".to_owned()), "a fault that is found");
    }

    #[test]
    fn blocks_are_taken_whole() {
        let mut frames = Frames::new(2048);
        let mut zone = Zone::new(&mut frames, 0, 2048, ZoneWatermarks::default());
        let single = zone.take(&mut frames).unwrap();
        let blocks: Vec<_> = std::iter::from_fn(|| zone.take_block(&mut frames, 9, MigrateType::Movable)).collect();
        assert_eq!((blocks.len(), zone.used()), (3, 1 + 3 * 512));
        zone.give(&mut frames, single);
        assert_eq!(zone.take_block(&mut frames, 9, MigrateType::Movable), None, "one page is at hand");
        zone.drain(&mut frames);
        assert!(zone.take_block(&mut frames, 9, MigrateType::Movable).is_some());
        blocks.into_iter().for_each(|block| zone.give_block(&mut frames, block, 9));
        zone.hidden = 1025;
        assert_eq!(zone.take_block(&mut frames, 9, MigrateType::Movable), None, "compressed swap has the rest");
    }

    /// docs/spec/compaction.md#s2-5: parts of page blocks that are claimed, or tried, raise the marks; whole ones do not.
    #[test]
    fn claims_of_parts_of_page_blocks_boost_the_marks() {
        let mut frames = Frames::new(8 * 512);
        let marks = ZoneWatermarks { min: 10, low: 20, high: 30, ..ZoneWatermarks::default() };
        let mut zone = Zone::new(&mut frames, 0, 8 * 512, marks);
        let mut taken: Vec<FrameId> = std::iter::from_fn(|| zone.take(&mut frames)).collect();
        taken.sort_unstable();
        zone.keep_none_at_hand(&mut frames);
        // The first page block has a free half, the second a free page.
        taken.drain(..256).for_each(|frame| zone.give_block(&mut frames, frame, 0));
        let single = taken.remove(256);
        zone.give_block(&mut frames, single, 0);
        assert_eq!((zone.boost(), zone.take_boosted_anew()), (0, false));
        assert!(zone.take_block(&mut frames, 0, MigrateType::Unmovable).is_some());
        assert_eq!(zone.buddy().page_blocks(MigrateType::Unmovable), 1, "claimed: half of it was free");
        assert_eq!((zone.boost(), zone.marks.min, zone.marks.low, zone.marks.high), (512, 522, 532, 542));
        assert!(zone.take_boosted_anew() && !zone.take_boosted_anew(), "told once");
        let free = zone.free_in_blocks();
        assert!(zone.set_aside(&mut frames, single).is_some(), "pages may move down to the raw mark: {free} free");
        zone.give_aside(&mut frames, single, 0);
        zone.lower_boost(512);
        assert_eq!((zone.boost(), zone.marks), (0, marks));
        zone.check(&frames).unwrap();
    }

    /// A zone that begins and ends within a largest block, some of it of another type; returns it and what was taken, mixed up.
    fn used_zone(seed: u64) -> (Frames, Zone, Vec<FrameId>) {
        let mut frames = Frames::new(8000);
        let mut zone = Zone::new(&mut frames, 700, 7000, ZoneWatermarks { high: 20, ..ZoneWatermarks::default() });
        let fixed = zone.take_block(&mut frames, 10, MigrateType::Unmovable).expect("free");
        let mut taken: Vec<FrameId> = std::iter::from_fn(|| zone.take(&mut frames)).collect();
        taken.extend((0..1024).map(|at| FrameId::new(fixed.index_u32() + at)));
        taken.sort_by_key(|frame| (u64::from(frame.index_u32()) + 1).wrapping_mul(seed | 1).rotate_right(17));
        (frames, zone, taken)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Pages that settle together leave the same pages at hand, and the same free blocks, as one after the other.
        #[test]
        fn many_pages_settle_as_single_ones_do(seed: u64, share in 1usize..=16) {
            let after = |expected: u64| {
                let (mut frames, mut zone, taken) = used_zone(seed);
                let given = taken.len() * share / 16;
                zone.expect(expected);
                taken[..given].iter().for_each(|&page| zone.give(&mut frames, page));
                assert_eq!((zone.free(), zone.used()), (given as u64, 7000 - given as u64));
                assert_eq!(zone.check(&frames).is_err(), expected > 0 && given > zone.at_hand.high, "while they settle");
                zone.settle(&mut frames);
                zone.check(&frames).unwrap();
                assert_eq!(zone.free(), given as u64);
                let mut blocks: Vec<_> = zone.buddy().free_blocks(&frames).collect();
                blocks.sort_unstable_by_key(|&(start, order, kind)| (start, order, kind as u8));
                (zone.at_hand.pages, blocks)
            };
            prop_assert_eq!(after(7000), after(0));
        }

        #[test]
        fn pages_that_settle_can_be_taken(seed: u64) {
            let (mut frames, mut zone, mut taken) = used_zone(seed);
            zone.expect(7000);
            taken.iter().for_each(|&page| zone.give(&mut frames, page));
            let mut again: Vec<FrameId> = std::iter::from_fn(|| zone.take(&mut frames)).collect();
            taken.sort_unstable();
            again.sort_unstable();
            prop_assert_eq!(taken, again);
        }
    }
}
