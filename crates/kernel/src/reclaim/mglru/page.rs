//! The policy's state of a page: one byte (docs/spec/mglru.md#s2 and #s2-1).

use crate::reclaim::scan_balance::PageType;

/// Generations of a type at least: the two youngest are never evicted.
pub(crate) const MIN_NR_GENS: u64 = 2;
/// Generations of a type at most.
pub(crate) const MAX_NR_GENS: u64 = 4;
/// Lists by generation.
pub(crate) const NR_GENS: usize = 4;
/// Tiers of a generation.
pub(crate) const NR_TIERS: usize = 4;
/// Bits of a word: pages of an eviction batch, entries of a look-around, number of refaults below which a tier is noise.
pub(crate) const MIN_LRU_BATCH: u64 = 64;

const GEN_MASK: u8 = 0b111;
const WAITING: u8 = 0b111;
const REFS_SHIFT: u32 = 3;
const REFS_MASK: u8 = 0b11 << REFS_SHIFT;
const REFERENCED: u8 = 1 << 5;
const WORKINGSET: u8 = 1 << 6;
const FILE: u8 = 1 << 7;

/// Generation of a page and how often it was used.
///
/// Bits 0..3: its generation + 1, 0 when it is on no list, 7 while it waits for insertion. Bits 3 and 4: further uses. Bit 5:
/// referenced. Bit 6: working set. Bit 7: it counts as a file page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageState(u8);

/// The effect of a use through a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// The first use: only recorded.
    First,
    /// The page is to become young.
    Again,
}

impl PageState {
    /// A page that is on no list, of this type.
    pub(crate) const fn new(page_type: PageType) -> Self {
        Self(match page_type {
            PageType::Anon => 0,
            PageType::File => FILE,
        })
    }

    /// Index of the generation's list, if it is on one.
    #[inline]
    pub(crate) const fn generation(self) -> Option<usize> {
        match self.0 & GEN_MASK {
            0 | WAITING => None,
            stored => Some(stored as usize - 1),
        }
    }
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "modulo four")]
    pub(crate) const fn with_generation(self, generation: usize) -> Self {
        Self(self.0 & !GEN_MASK | ((generation % NR_GENS) as u8 + 1))
    }
    pub(crate) const fn without_generation(self) -> Self {
        Self(self.0 & !GEN_MASK)
    }
    /// Whether the page waits for insertion.
    pub(crate) const fn is_waiting(self) -> bool {
        self.0 & GEN_MASK == WAITING
    }
    pub(crate) const fn waiting(self) -> Self {
        debug_assert!(self.generation().is_none(), "a page that waits is of no generation");
        Self(self.0 | WAITING)
    }

    #[inline]
    pub(crate) const fn page_type(self) -> PageType {
        if self.0 & FILE == 0 { PageType::Anon } else { PageType::File }
    }
    pub(crate) const fn of_type(self, page_type: PageType) -> Self {
        Self(self.0 & !FILE | Self::new(page_type).0)
    }

    pub(crate) const fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }
    pub(crate) const fn is_workingset(self) -> bool {
        self.0 & WORKINGSET != 0
    }
    pub(crate) const fn with_referenced(self) -> Self {
        Self(self.0 | REFERENCED)
    }
    pub(crate) const fn without_referenced(self) -> Self {
        Self(self.0 & !REFERENCED)
    }
    pub(crate) const fn with_workingset(self) -> Self {
        Self(self.0 | WORKINGSET)
    }
    /// The state without the referenced mark and further uses. The working set is sticky.
    pub(crate) const fn without_refs(self) -> Self {
        Self(self.0 & !(REFS_MASK | REFERENCED))
    }
    /// State of a page that was never used.
    pub(crate) const fn cold(self) -> Self {
        Self(self.0 & !(REFS_MASK | REFERENCED | WORKINGSET))
    }
    /// The state with this number of uses beyond the first, at most 3.
    pub(crate) fn with_further_uses(self, uses: u64) -> Self {
        let uses = u8::try_from(uses.min(3)).expect("at most 3");
        Self(self.0 & !REFS_MASK | uses << REFS_SHIFT)
    }
    /// Forgets further uses of a page that is not referenced: they are meaningless without the first.
    pub(crate) const fn settled(self) -> Self {
        if self.is_referenced() { self } else { Self(self.0 & !REFS_MASK) }
    }

    /// Uses beyond the first that the field holds: 0 to 3.
    pub(crate) const fn further_uses(self) -> u8 {
        (self.0 & REFS_MASK) >> REFS_SHIFT
    }

    /// Uses that are remembered: 0 to 4.
    pub(crate) const fn refs(self) -> u64 {
        if self.is_referenced() { self.further_uses() as u64 + 1 } else { 0 }
    }

    /// The tier: log2 of the uses, 3 for the working set.
    #[inline]
    pub(crate) const fn tier(self) -> usize {
        if self.is_workingset() { NR_TIERS - 1 } else { tier_of_refs(self.refs()) }
    }

    /// Used often enough through descriptors that the next pass over the oldest generation spares it without asking.
    pub(crate) const fn is_lazily_promotable(self) -> bool {
        self.is_workingset() && self.refs() == 4
    }

    /// State after a use through a descriptor. It never moves the page.
    pub(crate) const fn used_by_descriptor(self) -> Self {
        if !self.is_referenced() {
            return Self(self.0 & !REFS_MASK | REFERENCED);
        }
        if self.further_uses() == 3 { self.with_workingset() } else { Self(self.0 + (1 << REFS_SHIFT)) }
    }

    /// A walk over page tables saw it used.
    #[inline]
    pub(crate) const fn seen_by_walk(self) -> (Self, ProbeResult) {
        if self.0 & (REFERENCED | WORKINGSET) == 0 {
            return (Self(self.0 & !REFS_MASK | REFERENCED), ProbeResult::First);
        }
        (self.without_refs().with_workingset(), ProbeResult::Again)
    }

    /// The reverse map found it used.
    pub(crate) const fn seen_by_rmap(self) -> (Self, ProbeResult) {
        if self.0 & (REFERENCED | WORKINGSET) == 0 {
            return (Self(self.0 & !REFS_MASK | REFERENCED), ProbeResult::First);
        }
        let after = if self.refs() > 1 { self.without_refs().with_workingset() } else { self.used_by_descriptor() };
        (after, ProbeResult::Again)
    }

    /// The state as an index into tables.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
    /// The state in its stored form.
    #[inline]
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }
    pub(crate) const fn from_index(index: u8) -> Self {
        Self(index)
    }
}

/// ceil(log2(refs)).
pub(crate) const fn tier_of_refs(refs: u64) -> usize {
    match refs {
        0 | 1 => 0,
        2 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E1: accesses through descriptors against tiers.
    #[test]
    fn e1_tiers() {
        let mut page = PageState::new(PageType::File);
        let tiers: Vec<usize> = (0..7)
            .map(|_| {
                let tier = page.tier();
                page = page.used_by_descriptor();
                tier
            })
            .collect();
        assert_eq!(tiers, [0, 0, 1, 2, 2, 3, 3]);
        let five = (0..5).fold(PageState::new(PageType::File), |page, _| page.used_by_descriptor());
        assert_eq!((five.refs(), five.is_workingset(), five.is_lazily_promotable()), (4, true, true));
        let four = (0..4).fold(PageState::new(PageType::File), |page, _| page.used_by_descriptor());
        assert_eq!((four.refs(), four.is_workingset(), four.is_lazily_promotable()), (4, false, false));
    }

    #[test]
    fn a_walk_promotes_at_the_second_sight_or_after_a_fault() {
        let read_ahead = PageState::new(PageType::File);
        let (once, result) = read_ahead.seen_by_walk();
        assert_eq!((once.refs(), result), (1, ProbeResult::First));
        let (twice, result) = once.seen_by_walk();
        assert_eq!((twice.refs(), twice.is_workingset(), result), (0, true, ProbeResult::Again));
    }

    #[test]
    fn the_reverse_map_counts_a_use_until_there_were_several() {
        let (once, result) = PageState::default().seen_by_rmap();
        assert_eq!((once.refs(), result), (1, ProbeResult::First));
        let (twice, result) = once.seen_by_rmap();
        assert_eq!((twice.refs(), twice.is_workingset(), result), (2, false, ProbeResult::Again));
        let (often, result) = twice.seen_by_rmap();
        assert_eq!((often.refs(), often.is_workingset(), result), (0, true, ProbeResult::Again));
    }

    #[test]
    fn the_parts_of_the_byte_do_not_disturb_each_other() {
        let page = PageState::new(PageType::File).with_generation(3).used_by_descriptor().used_by_descriptor();
        assert_eq!((page.generation(), page.page_type(), page.refs()), (Some(3), PageType::File, 2));
        assert_eq!(page.without_generation().waiting().generation(), None);
        assert!(page.without_generation().waiting().is_waiting());
        assert_eq!(page.of_type(PageType::Anon).with_generation(4).generation(), Some(0));
        assert_eq!(page.with_further_uses(9).refs(), 4);
        assert_eq!(page.without_refs().with_further_uses(2).settled().with_further_uses(0), page.without_refs());
    }
}
