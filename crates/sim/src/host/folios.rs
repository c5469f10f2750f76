//! Facts about a folio that filters may ask for.

use super::{MemoryHost, Wish};
use isotherm_core::host::{PageTest, Seen};
use isotherm_kernel::memory::{Flag, FrameId, Memory};
use isotherm_kernel::mmu::{Level, SpaceId};
use isotherm_units::PAGE_SHIFT;
use std::collections::BTreeMap;

/// A page, or the huge page that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Folio {
    /// The frame at hand.
    frame: FrameId,
    /// The aligned 2 MiB block that one entry maps.
    pub(super) block: Option<(SpaceId, u64)>,
}

/// Huge pages that were asked whether they are young, with the answer: it holds for all their frames, and asking cleared the accessed bit.
pub(super) type YoungBlocks = BTreeMap<(SpaceId, u64), bool>;

impl Folio {
    pub(super) fn of(memory: &Memory, frame: FrameId) -> Self {
        let block = memory.sole_mapper(frame).and_then(|(space, page)| {
            let owner = memory.space(space);
            if owner.huge_blocks.is_empty() {
                return None;
            }
            let block = owner.table.page_of(page) >> Level::PMD.span_shift();
            owner.huge_blocks.contains(&block).then_some((space, block))
        });
        Self { frame, block }
    }

    pub(super) fn bytes(&self) -> u64 {
        let level = if self.block.is_some() { Level::PMD } else { Level::LEAF };
        level.span_pages() << PAGE_SHIFT
    }
}

impl MemoryHost<'_> {
    /// Whether the folio is as asked.
    pub(super) fn holds(&mut self, folio: &Folio, test: PageTest, young: &mut YoungBlocks) -> bool {
        let frame = folio.frame;
        match test {
            PageTest::Anon => !self.memory.frames.has(frame, Flag::FileOwned),
            PageTest::Active => self.policy.is_active(self.memory, frame),
            PageTest::Memcg(group) => group == Some(self.memory.frames.cgroup(frame).index() as u64),
            PageTest::Young => self.is_young(folio, young),
            PageTest::FolioBytes { min, max } => (min..=max).contains(&folio.bytes()),
            PageTest::Unmapped => self.memory.sole_mapper(frame).is_none() && self.memory.mappers(frame).is_empty(),
        }
    }

    /// Whether it was accessed since any caller made it old last; a young one is made old. A folio that was never tested counts as young.
    fn is_young(&mut self, folio: &Folio, young: &mut YoungBlocks) -> bool {
        let number = u64::from(folio.frame.index_u32());
        if let Some(known) = folio.block.and_then(|block| young.get(&block).copied()) {
            if known {
                self.memory.frames.mark_idle(folio.frame);
            }
            return known;
        }
        let is_young = self.probe_leaf(Wish::Test, number) == Seen::Accessed;
        if is_young {
            self.probe_leaf(Wish::Clear, number);
        }
        if let Some(block) = folio.block {
            young.insert(block, is_young);
        }
        is_young
    }
}
