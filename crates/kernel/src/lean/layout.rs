//! The mappings of a process, and the numbers of their pages.

use crate::memory::Memory;
use crate::mmu::SpaceId;
use isotherm_units::PageRange;
use isotherm_units::access::Backing;

/// Pages under one table of the hardware.
pub(super) const BLOCK_PAGES: u64 = 512;
/// Numbers of pages are below this.
pub(super) const NUMBERS: u64 = 1 << 30;
const SPAN_MAX: u64 = 1 << 28;
/// The span of the mappings is at most this many times as large as the pages that fit memory and swap: each number costs some bytes.
const SPREAD_MAX: u64 = 8;

/// Where the memory of a process lies. The number of a page counts from the first block of the lowest mapping on.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) space: SpaceId,
    /// Virtual page with the number 0.
    pub(super) origin: u64,
    /// Numbers in use are below this.
    pub(super) span: u64,
    /// The mappings by number, in order.
    pub(super) mappings: Vec<PageRange>,
    /// The mapping that was found last.
    last: PageRange,
}

impl Layout {
    /// The layout of a process with private anonymous memory only.
    pub(super) fn of(memory: &Memory, space: SpaceId) -> Option<Self> {
        let owner = memory.space(space);
        let is_plain = owner.vmas.iter().all(|vma| {
            vma.mapping.backing == Backing::Anonymous
                && !vma.mapping.huge
                && !vma.mapping.executable
                && vma.has_recency()
                && !vma.pages().is_empty()
        });
        let is_new = owner.nr_resident == 0 && owner.nr_swapped == 0 && owner.table.nr_present() == 0;
        if !is_plain || !is_new || !owner.family.is_empty() || !owner.huge_blocks.is_empty() || !owner.table.is_plain()
        {
            return None;
        }
        let first = owner.vmas.iter().map(|vma| vma.pages().start).min()?;
        let end = owner.vmas.iter().map(|vma| vma.pages().end).max()?;
        let origin = first / BLOCK_PAGES * BLOCK_PAGES;
        let mut mappings: Vec<PageRange> = owner.vmas.iter().map(|vma| vma.pages()).collect();
        mappings.sort_unstable_by_key(|pages| pages.start);
        mappings.iter_mut().for_each(|pages| *pages = PageRange::new(pages.start - origin, pages.end - origin));
        let span = end - origin;
        if span > SPAN_MAX {
            return None;
        }
        let last = mappings[0];
        Some(Self { space, origin, span, mappings, last })
    }

    /// Whether its numbers are few enough for a machine that holds this number of pages.
    pub(super) fn is_dense(&self, pages: u64) -> bool {
        self.span <= pages.saturating_mul(SPREAD_MAX) + BLOCK_PAGES
    }

    /// Pages that are mapped.
    pub(super) fn pages(&self) -> u64 {
        self.mappings.iter().map(|pages| pages.len()).sum()
    }

    /// The number of a virtual page, if it is mapped.
    #[inline]
    pub(super) fn number(&mut self, page: u64) -> Option<u32> {
        let number = page.wrapping_sub(self.origin);
        if !self.last.contains(number) {
            self.last = self.mapping(number)?;
        }
        u32::try_from(number).ok()
    }

    /// The mapping around a page.
    #[inline]
    pub(super) fn mapping(&self, number: u64) -> Option<PageRange> {
        if self.last.contains(number) {
            return Some(self.last);
        }
        let after = self.mappings.partition_point(|pages| pages.start <= number);
        self.mappings[..after].last().copied().filter(|pages| pages.contains(number))
    }
}
