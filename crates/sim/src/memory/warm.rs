//! Reading ahead of time what is about to be needed, so that the misses of the host's caches overlap.
//!
//! A fault and an eviction each read a handful of records, every one at the end of a chain: the log names a frame, the frame
//! names a page, the page's entry names a slot. Followed one page after the other, each link waits for main memory. Where
//! the next pages are known (the old end of a list, the next accesses of a batch, all pages of a process that ends), their
//! chains are followed link by link together. Nothing depends on it but time.

use super::{Flag, FrameId, Memory, PageOwner};
use crate::mmu::{DensePage, Entry, SpaceId};

/// Pages whose chains are followed together: their records fit the first-level cache.
const TOGETHER: usize = 64;

/// What names a page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Warm {
    Frame(FrameId),
    /// Its place in an address space.
    Page(SpaceId, DensePage),
}

impl Memory {
    /// Reads what handling `pages`, at most 64 of them, will read.
    pub(crate) fn warm_up(&self, pages: impl Iterator<Item = Warm>) {
        let mut links = [Warm::Frame(FrameId::new(0)); TOGETHER];
        let mut len = 0;
        let mut sum = 0;
        for (link, page) in links.iter_mut().zip(pages) {
            sum ^= self.read_first(page);
            *link = page;
            len += 1;
        }
        for link in &mut links[..len] {
            let Warm::Frame(frame) = *link else { continue };
            if let PageOwner::Anonymous { space, page } = self.frames.owner(frame) {
                sum ^= self.space(space).table.read_all(page);
            }
        }
        for link in &mut links[..len] {
            let Warm::Page(space, page) = *link else { continue };
            sum ^= match self.space(space).table.entry(page) {
                Entry::Frame(frame) => {
                    *link = Warm::Frame(frame);
                    u64::from(self.frames.has(frame, Flag::Dirty)) ^ self.frames.read_links(frame)
                }
                Entry::Swap(slot) => self.slots.read_all(slot),
                Entry::None | Entry::Zero => 0,
            };
        }
        for link in &links[..len] {
            let &Warm::Frame(frame) = link else { continue };
            let (previous, next) = self.frames.link(frame);
            sum ^= previous.into_iter().chain(next).fold(0, |sum, frame| sum ^ self.frames.read_links(frame));
        }
        std::hint::black_box(sum);
    }

    /// Reads what judging and evicting `frames` will read, which are off their lists.
    pub(crate) fn warm_up_isolated(&self, frames: &[FrameId]) {
        let mut sum = 0;
        for together in frames.chunks(TOGETHER) {
            sum = together.iter().fold(sum, |sum, &frame| sum ^ u64::from(self.frames.has(frame, Flag::Dirty)));
            for &frame in together {
                if let PageOwner::Anonymous { space, page } = self.frames.owner(frame) {
                    sum ^= self.space(space).table.read_all(page);
                }
            }
        }
        std::hint::black_box(sum);
    }

    #[inline]
    fn read_first(&self, page: Warm) -> u64 {
        match page {
            Warm::Frame(frame) => u64::from(self.frames.has(frame, Flag::Dirty)),
            Warm::Page(space, page) => self.space(space).table.read_all(page),
        }
    }
}
