//! Lists whose members need not know which one they are on.
//!
//! A page that changes its generation keeps its place until a scan meets it, so its flags do not tell in which list it is linked. Only the
//! ends of a list know more than their neighbours: a page that is taken out is searched among the ends, and only if it has no neighbour on
//! a side.

use super::{FrameId, Frames};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// Youngest: pages enter here.
    Head,
    /// Oldest: reclaim takes from here.
    Tail,
}

/// A list without a length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    head: Option<FrameId>,
    tail: Option<FrameId>,
}

impl Chain {
    /// An empty one.
    pub const fn new() -> Self {
        Self { head: None, tail: None }
    }
    /// Whether no frame is on it.
    pub const fn is_empty(&self) -> bool {
        self.tail.is_none()
    }
    /// The youngest.
    pub const fn head(&self) -> Option<FrameId> {
        self.head
    }
    /// The oldest.
    pub const fn tail(&self) -> Option<FrameId> {
        self.tail
    }

    /// Begins to read ahead from the old end.
    pub const fn read_ahead(&self) -> ReadAhead {
        ReadAhead { next: self.tail }
    }

    /// Adds a frame that is on no list.
    #[inline]
    pub fn push(&mut self, frames: &mut Frames, frame: FrameId, end: ListEnd) {
        debug_assert!(self.head.is_none() == self.tail.is_none(), "a chain has both ends or none");
        debug_assert!(self.head != Some(frame) && self.tail != Some(frame), "a frame is on one list at most");
        match end {
            ListEnd::Head => {
                frames.set_links(frame, None, self.head);
                match self.head {
                    Some(head) => frames.set_previous(head, Some(frame)),
                    None => self.tail = Some(frame),
                }
                self.head = Some(frame);
            }
            ListEnd::Tail => {
                frames.set_links(frame, self.tail, None);
                match self.tail {
                    Some(tail) => frames.set_next(tail, Some(frame)),
                    None => self.head = Some(frame),
                }
                self.tail = Some(frame);
            }
        }
    }

    /// Turns the chain so that `last` is its tail; older frames come to the head.
    pub fn turn_to_tail(&mut self, frames: &mut Frames, last: FrameId) {
        let (Some(head), Some(tail)) = (self.head, self.tail) else { return };
        debug_assert!(frames.link(head).0.is_none() && frames.link(tail).1.is_none(), "nothing lies beyond the ends");
        let Some(after) = frames.link(last).1 else { return };
        frames.set_next(tail, Some(head));
        frames.set_previous(head, Some(tail));
        frames.set_next(last, None);
        frames.set_previous(after, None);
        (self.head, self.tail) = (Some(after), Some(last));
    }

    /// Ends the chain with `last`; what was behind it was taken out.
    #[inline]
    pub(super) fn cut_behind(&mut self, frames: &mut Frames, last: Option<FrameId>) {
        self.tail = last;
        match last {
            Some(last) => frames.set_next(last, None),
            None => self.head = None,
        }
    }

    /// Takes a frame out that is on this chain.
    #[inline]
    pub fn remove(&mut self, frames: &mut Frames, frame: FrameId) {
        debug_assert!(!self.is_empty(), "a frame that leaves a chain was on it");
        let sides = join_neighbours(frames, frame);
        self.close(sides);
    }

    /// Takes a frame out that is on one of `chains`.
    #[inline]
    pub fn unlink<'a>(chains: impl Iterator<Item = &'a mut Self>, frames: &mut Frames, frame: FrameId) {
        let sides = join_neighbours(frames, frame);
        if let (Some(_), Some(_)) = sides {
            return;
        }
        let is_end = |chain: &&mut Self| chain.head == Some(frame) || chain.tail == Some(frame);
        let chain = { chains }.find(is_end).expect("an end of one of them");
        chain.close(sides);
    }

    /// Closes the gap after a frame between `previous` and `next` was removed.
    #[inline]
    fn close(&mut self, (previous, next): (Option<FrameId>, Option<FrameId>)) {
        if previous.is_none() {
            self.head = next;
        }
        if next.is_none() {
            self.tail = previous;
        }
        debug_assert!(self.head.is_none() == self.tail.is_none(), "a chain has both ends or none");
    }

    /// Frames from the oldest to the youngest.
    pub fn from_tail<'a>(&self, frames: &'a Frames) -> impl Iterator<Item = FrameId> + 'a {
        std::iter::successors(self.tail, move |&frame| frames.link(frame).0)
    }
}

/// Reads records of a list before they are needed: one for each page of a batch that is judged, so that the next batch need not be waited
/// for record by record, each of which names the next. Only time depends on it.
#[derive(Debug)]
pub struct ReadAhead {
    next: Option<FrameId>,
}

impl ReadAhead {
    /// Goes on by one frame, if there is one, and returns it.
    #[inline(always)]
    pub fn step(&mut self, frames: &Frames) -> Option<FrameId> {
        self.next = frames.link(self.next?).0;
        self.next
    }

    /// Ends; the reads are not left out although nothing comes of them.
    #[inline]
    pub fn end(self) {
        std::hint::black_box(self.next);
    }
}

/// Links the neighbours of `frame` to each other and returns them.
#[inline]
fn join_neighbours(frames: &mut Frames, frame: FrameId) -> (Option<FrameId>, Option<FrameId>) {
    let (previous, next) = frames.link(frame);
    debug_assert!(
        previous.is_none_or(|previous| frames.link(previous).1 == Some(frame)),
        "the younger neighbour knows the frame"
    );
    debug_assert!(next.is_none_or(|next| frames.link(next).0 == Some(frame)), "the older neighbour knows the frame");
    if let Some(previous) = previous {
        frames.set_next(previous, next);
    }
    if let Some(next) = next {
        frames.set_previous(next, previous);
    }
    (previous, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn three_chains_agree_with_three_deques(operations in prop::collection::vec((0usize..3, 0u8..3, 0u32..8), 0..80)) {
            let mut frames = Frames::new(8);
            let mut chains = [Chain::new(); 3];
            let mut models: [VecDeque<u32>; 3] = Default::default(); // front = head
            for (which, operation, number) in operations {
                let frame = FrameId::new(number);
                let on = models.iter().position(|model| model.contains(&number));
                match (operation, on) {
                    (0, None) => { chains[which].push(&mut frames, frame, ListEnd::Head); models[which].push_front(number) }
                    (1, None) => { chains[which].push(&mut frames, frame, ListEnd::Tail); models[which].push_back(number) }
                    (_, Some(on)) => {
                        Chain::unlink(chains.iter_mut(), &mut frames, frame);
                        models[on].retain(|&other| other != number);
                    }
                    _ => {}
                }
                for (chain, model) in chains.iter().zip(&models) {
                    let order: Vec<u32> = chain.from_tail(&frames).map(FrameId::index_u32).collect();
                    prop_assert_eq!(&order, &model.iter().rev().copied().collect::<Vec<_>>());
                    prop_assert_eq!(chain.tail().map(FrameId::index_u32), model.back().copied());
                }
            }
        }
    }
}
