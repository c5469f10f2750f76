//! Doubly linked lists of frames through the frame table: no allocation, removal from the middle in constant time.

use super::{FrameId, Frames};

/// Which end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// Youngest: pages enter here.
    Head,
    /// Oldest: reclaim takes from here.
    Tail,
}

/// A list of frames. A frame is on at most one list; the caller knows on which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    head: Option<FrameId>,
    tail: Option<FrameId>,
    len: u64,
}

impl List {
    /// An empty list.
    pub const fn new() -> Self {
        Self { head: None, tail: None, len: 0 }
    }
    /// How many frames are on it.
    pub const fn len(&self) -> u64 {
        self.len
    }
    /// Whether no frame is on it.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The youngest.
    pub const fn head(&self) -> Option<FrameId> {
        self.head
    }
    /// The oldest.
    pub const fn tail(&self) -> Option<FrameId> {
        self.tail
    }

    /// Adds a frame that is on no list.
    #[inline]
    pub fn push(&mut self, frames: &mut Frames, frame: FrameId, end: ListEnd) {
        match end {
            ListEnd::Head => {
                frames.set_previous(frame, None);
                frames.set_next(frame, self.head);
                match self.head {
                    Some(head) => frames.set_previous(head, Some(frame)),
                    None => self.tail = Some(frame),
                }
                self.head = Some(frame);
            }
            ListEnd::Tail => {
                frames.set_next(frame, None);
                frames.set_previous(frame, self.tail);
                match self.tail {
                    Some(tail) => frames.set_next(tail, Some(frame)),
                    None => self.head = Some(frame),
                }
                self.tail = Some(frame);
            }
        }
        self.len += 1;
    }

    /// Takes a frame out that is on this list.
    #[inline]
    pub fn remove(&mut self, frames: &mut Frames, frame: FrameId) {
        let (previous, next) = frames.link(frame);
        match previous {
            Some(previous) => frames.set_next(previous, next),
            None => self.head = next,
        }
        match next {
            Some(next) => frames.set_previous(next, previous),
            None => self.tail = previous,
        }
        self.len -= 1;
    }

    /// Takes the oldest out.
    pub fn pop_tail(&mut self, frames: &mut Frames) -> Option<FrameId> {
        let tail = self.tail?;
        self.remove(frames, tail);
        Some(tail)
    }

    /// The frame before `frame` towards the head (younger).
    pub fn younger(frames: &Frames, frame: FrameId) -> Option<FrameId> {
        frames.link(frame).0
    }

    /// From the oldest to the youngest.
    pub fn from_tail<'a>(&self, frames: &'a Frames) -> impl Iterator<Item = FrameId> + 'a {
        std::iter::successors(self.tail, move |&frame| frames.link(frame).0)
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
                    _ => prop_assert_eq!(list.pop_tail(&mut frames).map(FrameId::index_u32), model.pop_back()),
                }
                let order: Vec<u32> = list.from_tail(&frames).map(FrameId::index_u32).collect();
                prop_assert_eq!(&order, &model.iter().rev().copied().collect::<Vec<_>>());
                prop_assert_eq!(list.len(), model.len() as u64);
            }
        }
    }
}
