//! Doubly linked lists of frames through the frame table: no allocation, removal from the middle in constant time.

use super::chain::{Chain, ReadAhead};
use super::{FrameId, Frames, ListEnd};

/// A list of folios, by their heads: mostly of single pages. A frame is on at most one list; the caller knows on which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    chain: Chain,
    len: u64,
}

impl List {
    /// An empty list.
    pub const fn new() -> Self {
        Self { chain: Chain::new(), len: 0 }
    }
    /// Pages of the folios on it.
    pub const fn len(&self) -> u64 {
        self.len
    }
    /// Whether no frame is on it.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The youngest.
    pub const fn head(&self) -> Option<FrameId> {
        self.chain.head()
    }
    /// The oldest.
    pub const fn tail(&self) -> Option<FrameId> {
        self.chain.tail()
    }

    /// Adds a frame that is on no list. Returns the pages of its folio.
    #[inline]
    pub fn push(&mut self, frames: &mut Frames, frame: FrameId, end: ListEnd) -> u64 {
        debug_assert!((self.len == 0) == self.chain.is_empty(), "a list without pages has no ends");
        self.chain.push(frames, frame, end);
        let pages = frames.nr_pages(frame);
        self.len += pages;
        pages
    }

    /// Takes a frame out that is on this list. Returns the pages of its folio.
    #[inline]
    pub fn remove(&mut self, frames: &mut Frames, frame: FrameId) -> u64 {
        debug_assert!(self.len > 0, "a page that leaves a list was on it");
        self.chain.remove(frames, frame);
        let pages = frames.nr_pages(frame);
        self.len -= pages;
        pages
    }

    /// Takes the oldest out, oldest first, by a reclaim pass, until `nr` pages are out: a folio goes whole. Returns how many pages are out
    /// (docs/spec/large-folios.md#f3-2).
    pub fn isolate_tail(&mut self, frames: &mut Frames, nr: u64, taken: &mut Vec<FrameId>) -> u64 {
        let nr = nr.min(self.len);
        let (mut next, mut pages) = (self.chain.tail(), nr);
        if frames.has_folios() {
            pages = 0;
            while pages < nr {
                let frame = next.expect("counted");
                pages += frames.nr_pages(frame);
                next = frames.isolate(frame);
                taken.push(frame);
            }
        } else {
            for _ in 0..nr {
                let frame = next.expect("counted");
                next = frames.isolate(frame);
                taken.push(frame);
            }
        }
        self.chain.cut_behind(frames, next);
        self.len -= pages;
        pages
    }

    /// The frame before `frame` towards the head (younger).
    pub fn younger(frames: &Frames, frame: FrameId) -> Option<FrameId> {
        frames.link(frame).0
    }

    /// Begins to read ahead from the old end.
    pub const fn read_ahead(&self) -> ReadAhead {
        self.chain.read_ahead()
    }

    /// Frames from the oldest to the youngest.
    pub fn from_tail<'a>(&self, frames: &'a Frames) -> impl Iterator<Item = FrameId> + 'a {
        self.chain.from_tail(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn agrees_with_a_deque(operations in prop::collection::vec((0u8..3, 0u32..8), 0..60)) {
            let mut frames = Frames::new(8);
            let (mut list, mut model) = (List::new(), VecDeque::<u32>::new()); // front = head
            for (operation, number) in operations {
                let frame = FrameId::new(number);
                let at = model.iter().position(|&other| other == number);
                match (operation, at) {
                    (0, None) => { list.push(&mut frames, frame, ListEnd::Head); model.push_front(number) }
                    (1, None) => { list.push(&mut frames, frame, ListEnd::Tail); model.push_back(number) }
                    (2, Some(at)) => { list.remove(&mut frames, frame); model.remove(at); }
                    _ => {
                        let mut taken = Vec::new();
                        list.isolate_tail(&mut frames, u64::from(number), &mut taken);
                        let oldest = (0..number).map_while(|_| model.pop_back());
                        prop_assert_eq!(taken, oldest.map(FrameId::new).collect::<Vec<_>>());
                    }
                }
                let order: Vec<u32> = list.from_tail(&frames).map(FrameId::index_u32).collect();
                prop_assert_eq!(&order, &model.iter().rev().copied().collect::<Vec<_>>());
                prop_assert_eq!(list.len(), model.len() as u64);
            }
        }
    }
}
