//! Marks that code that clears accessed bits leaves for other code: the *young* and *idle* marks of pages (docs/spec/monitoring.md#s4).
//!
//! A monitor that clears an accessed bit removes what reclaim would have read. It leaves the page *young* instead, and reclaim counts that
//! like a set bit. The *idle* mark is set until a use of the page is met: code that meets a use clears it. Two bits a frame, in memory that
//! is allocated with the first mark.

use super::{FrameId, Frames};

#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    young: Vec<u64>,
    idle: Vec<u64>,
    /// Pinned by a holder of their physical address: a device, mostly.
    pinned: Vec<u64>,
}

impl Marks {
    /// The frame holds another page from now on.
    #[inline]
    pub(super) fn forget(&mut self, frame: FrameId) {
        if !self.idle.is_empty() {
            take(&mut self.young, frame);
            take(&mut self.idle, frame);
        }
        take(&mut self.pinned, frame);
    }

    /// The page in `from` is in `to` from now on. A pinned page stays where it is.
    pub(super) fn relocate(&mut self, from: FrameId, to: FrameId) {
        debug_assert!(
            self.pinned.get(from.index() / 64).is_none_or(|word| word >> (from.index() % 64) & 1 == 0),
            "a pinned page stays where it is"
        );
        for bits in [&mut self.young, &mut self.idle] {
            let was = take(bits, from);
            take(bits, to);
            if was {
                bits[to.index() / 64] |= 1 << (to.index() % 64);
            }
        }
        take(&mut self.pinned, to);
    }
}

impl Frames {
    /// A use of the page was found when its accessed bit was cleared, and is kept for reclaim.
    pub fn leave_young(&mut self, frame: FrameId) {
        let len = self.len();
        set(&mut self.marks.young, frame, len);
    }
    /// Whether any page was ever marked.
    #[inline]
    pub fn are_marked(&self) -> bool {
        !self.marks.young.is_empty()
    }
    /// Whether a use was kept.
    #[inline]
    pub fn is_left_young(&self, frame: FrameId) -> bool {
        self.marks.young.get(frame.index() / 64).is_some_and(|word| word >> (frame.index() % 64) & 1 != 0)
    }
    /// Whether a use was kept; it is taken.
    #[inline]
    pub fn take_young(&mut self, frame: FrameId) -> bool {
        take(&mut self.marks.young, frame)
    }
    /// From now on the page counts as unused until a use of it is found.
    pub fn mark_idle(&mut self, frame: FrameId) {
        let len = self.len();
        set(&mut self.marks.idle, frame, len);
    }
    /// Whether no use of the page was met since it was marked.
    pub fn is_idle(&self, frame: FrameId) -> bool {
        self.marks.idle.get(frame.index() / 64).is_some_and(|word| word >> (frame.index() % 64) & 1 != 0)
    }
    /// The page is pinned where it is, as by a device that reads or writes it.
    pub fn pin(&mut self, frame: FrameId) {
        let len = self.len();
        set(&mut self.marks.pinned, frame, len);
    }
    /// Unpins it; returns whether it was pinned.
    pub fn unpin(&mut self, frame: FrameId) -> bool {
        take(&mut self.marks.pinned, frame)
    }
    /// Whether the page must stay where it is.
    #[inline]
    pub fn is_pinned(&self, frame: FrameId) -> bool {
        self.marks.pinned.get(frame.index() / 64).is_some_and(|word| word >> (frame.index() % 64) & 1 != 0)
    }
    /// The page is freed, and is not pinned any more.
    #[inline]
    pub(crate) fn forget_pin(&mut self, frame: FrameId) {
        if !self.marks.pinned.is_empty() {
            take(&mut self.marks.pinned, frame);
        }
    }
    /// A use of the page was found.
    #[inline]
    pub fn met_use(&mut self, frame: FrameId) {
        take(&mut self.marks.idle, frame);
    }
}

fn set(bits: &mut Vec<u64>, frame: FrameId, len: usize) {
    if bits.is_empty() {
        *bits = vec![0; len.div_ceil(64)];
    }
    bits[frame.index() / 64] |= 1 << (frame.index() % 64);
}

#[inline]
fn take(bits: &mut [u64], frame: FrameId) -> bool {
    let Some(word) = bits.get_mut(frame.index() / 64) else { return false };
    let bit = 1 << (frame.index() % 64);
    let was = *word & bit != 0;
    if was {
        *word &= !bit;
    }
    was
}
