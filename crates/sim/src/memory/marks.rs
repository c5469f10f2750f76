//! What those who clear accessed bits leave for each other: the *young* and *idle* marks of pages (docs/spec/monitoring.md#s4).
//!
//! A monitor that clears an accessed bit takes away what reclaim would have read. It leaves the page *young* instead, and
//! reclaim counts that like a set bit. The *idle* mark tells whether anybody met a use of the page since it was set: whoever
//! does clears it. Two bits a frame, in memory that is not there before the first mark.

use super::{FrameId, Frames};

#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    young: Vec<u64>,
    idle: Vec<u64>,
    /// Held by somebody who knows where they are: a device, mostly.
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

    /// The page in `from` is in `to` from now on. A pinned one stays where it is.
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
    /// A use of the page was found by one who cleared its accessed bit, and is kept for reclaim.
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
    /// From now on the page counts as unused until somebody meets a use of it.
    pub fn mark_idle(&mut self, frame: FrameId) {
        let len = self.len();
        set(&mut self.marks.idle, frame, len);
    }
    /// Whether nobody met a use of the page since it was marked.
    pub fn is_idle(&self, frame: FrameId) -> bool {
        self.marks.idle.get(frame.index() / 64).is_some_and(|word| word >> (frame.index() % 64) & 1 != 0)
    }
    /// Somebody holds the page where it is, as a device does that reads or writes it.
    pub fn pin(&mut self, frame: FrameId) {
        let len = self.len();
        set(&mut self.marks.pinned, frame, len);
    }
    /// Nobody holds it any more; whether somebody did.
    pub fn unpin(&mut self, frame: FrameId) -> bool {
        take(&mut self.marks.pinned, frame)
    }
    /// Whether the page must stay where it is.
    #[inline]
    pub fn is_pinned(&self, frame: FrameId) -> bool {
        self.marks.pinned.get(frame.index() / 64).is_some_and(|word| word >> (frame.index() % 64) & 1 != 0)
    }
    /// The page is freed: who held it has let go.
    #[inline]
    pub(crate) fn forget_pin(&mut self, frame: FrameId) {
        if !self.marks.pinned.is_empty() {
            take(&mut self.marks.pinned, frame);
        }
    }
    /// Somebody met a use of the page.
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
