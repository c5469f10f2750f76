//! Reading data before it is needed, so that the misses of the host's caches overlap.
//!
//! A fault and an eviction each read a handful of records, every one at the end of a chain: the log names a frame, the frame
//! names a page, the page's entry names a slot. Followed one page after the other, each link waits for main memory. Where
//! the next pages are known (the old end of a list, the next accesses of a batch, all pages of a process that ends), their
//! chains are followed link by link together. Only time depends on it.

use super::{Flag, FrameId, Memory, PageOwner};
use crate::cgroup::CgroupId;
use crate::mmu::{DensePage, Entry, SpaceId, Taken};
use isotherm_units::access::Run;

/// Pages whose chains are followed together: their records fit the first-level cache.
const TOGETHER: usize = 64;

/// Name of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Warm {
    Frame(FrameId),
    /// Place of the page in an address space.
    Page(SpaceId, DensePage),
}

/// Pages whose records, some 46 bytes each, the host's second-level cache holds: they are read as they are needed.
const IN_CACHE: u64 = 1 << 15;

impl Memory {
    /// Whether there is so little memory in use that nothing is worth reading before it is needed.
    #[inline]
    fn is_small(&self) -> bool {
        let root = self.cgroups.get(CgroupId::ROOT);
        root.usage + root.swap_usage <= IN_CACHE
    }

    /// Reads the data for taking the pages of `entries` off their lists and freeing them.
    pub(crate) fn warm_up(&self, entries: &[Taken]) {
        if self.is_small() {
            return;
        }
        let frames = entries.iter().filter_map(|taken| match taken.entry {
            Entry::Frame(frame) => Some(frame),
            Entry::None | Entry::Zero | Entry::Swap(_) => None,
        });
        let mut sum = frames.clone().fold(0, |sum, frame| sum ^ self.frames.read_all(frame));
        for taken in entries {
            if let Entry::Swap(slot) = taken.entry {
                sum ^= self.slots.read_all(slot);
            }
        }
        // Pages of files stay on their lists.
        for frame in frames.filter(|&frame| !self.frames.has(frame, Flag::FileOwned)) {
            let (previous, next) = self.frames.link(frame);
            sum ^= previous.into_iter().chain(next).fold(0, |sum, frame| sum ^ self.frames.read_all(frame));
        }
        std::hint::black_box(sum);
    }

    /// Reads ahead the data that the accesses `runs` of a thread, and the faults among them, will read from run `at` on, unless that was
    /// done up to `looked_ahead`.
    #[inline]
    pub fn look_ahead(&self, space: SpaceId, runs: &[Run], at: usize, looked_ahead: &mut usize) {
        if at < *looked_ahead {
            return;
        }
        let runs = &runs[at..];
        let runs = &runs[..runs.len().min(TOGETHER)];
        *looked_ahead = at + runs.len();
        if !self.is_small() {
            let mut pages = [DensePage::from_raw(0); TOGETHER];
            let len = self.space(space).table.absent_among(runs, &mut pages);
            self.warm_up_absent(space, &pages[..len]);
        }
    }

    /// Reads the data for faults at `pages`, none of which is present.
    fn warm_up_absent(&self, space: SpaceId, pages: &[DensePage]) {
        let table = &self.space(space).table;
        let mut sum = 0;
        for together in pages.chunks(TOGETHER) {
            let mut entries = [0; TOGETHER];
            for (entry, &page) in entries.iter_mut().zip(together) {
                *entry = table.packed_entry(page);
            }
            // No branch on what cannot be predicted: it would end the overlap.
            for &entry in &entries[..together.len()] {
                sum ^= self.slots.read_all(Entry::slot_or_first(entry));
            }
        }
        std::hint::black_box(sum);
    }

    /// Reads the data for evicting pages of lists without links.
    pub(crate) fn warm_up_named(&self, pages: impl Iterator<Item = Warm> + Clone) {
        let mut sum = pages.clone().fold(0, |sum, page| sum ^ self.read_first(page));
        for page in pages {
            sum ^= match page {
                Warm::Frame(frame) => match self.frames.owner(frame) {
                    PageOwner::Anonymous { space, page } => self.space(space).table.read_all(page),
                    PageOwner::File { .. } => 0,
                },
                Warm::Page(space, page) => {
                    self.space(space).table.frame_of(page).map_or(0, |frame| self.frames.read_all(frame))
                }
            };
        }
        std::hint::black_box(sum);
    }

    /// Reads the data for judging and evicting `frames`, which are off their lists.
    pub(crate) fn warm_up_isolated(&self, frames: &[FrameId]) {
        if self.is_small() {
            return;
        }
        let mut sum = 0;
        for together in frames.chunks(TOGETHER) {
            sum = together.iter().fold(sum, |sum, &frame| sum ^ self.frames.read_all(frame));
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
            Warm::Frame(frame) => self.frames.read_all(frame),
            Warm::Page(space, page) => self.space(space).table.read_all(page),
        }
    }
}
