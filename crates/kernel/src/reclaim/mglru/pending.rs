//! New pages wait in a batch before they are put on a list (docs/spec/mglru.md#s5-4).
//!
//! The generation that a page enters is decided when its batch is emptied, with the flags of that moment. Linux has a batch for each CPU;
//! here one serves the machine.

use super::Mglru;
use super::page::PageState;
use crate::memory::{Flag, FrameId, Memory};
use crate::reclaim::outcome::page_type;
use crate::reclaim::scan_balance::PageType;
use crate::reclaim::{ListSizes, LruvecId};

/// Pages of a batch: the last one empties it.
pub(crate) const PENDING_MAX: usize = 31;

/// Pages that wait, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending(Vec<(FrameId, LruvecId, PageType)>);

impl Pending {
    /// Pages of an lruvec that wait. They count as inactive.
    pub(super) fn add_sizes(&self, lruvec: LruvecId, sizes: &mut ListSizes) {
        for (_, _, page_type) in self.0.iter().filter(|(_, home, _)| *home == lruvec) {
            match page_type {
                PageType::Anon => sizes.inactive_anon += 1,
                PageType::File => sizes.inactive_file += 1,
            }
        }
    }

    /// Every waiting page is marked so, and no other.
    pub(super) fn check(&self, is_waiting: impl Fn(FrameId) -> bool, nr_waiting: usize) -> Result<(), String> {
        match self.0.iter().find(|(frame, ..)| !is_waiting(*frame)) {
            Some((frame, ..)) => Err(format!("{frame:?} waits for insertion but is not marked")),
            None if nr_waiting != self.0.len() => {
                Err(format!("{nr_waiting} pages are marked as waiting, {} wait", self.0.len()))
            }
            None => Ok(()),
        }
    }
}

impl Mglru {
    /// A new page waits for insertion, in this state. A folio of several pages does not wait: it empties the batch, and goes last
    /// (docs/spec/large-folios.md#f3-1).
    #[inline]
    pub(super) fn put_off(&mut self, memory: &mut Memory, frame: FrameId, state: PageState) {
        debug_assert!(self.pending.0.len() < PENDING_MAX, "a full batch was inserted at once");
        let page_type = page_type(memory, frame);
        self.generations.set_state(&memory.frames, frame, state.of_type(page_type).waiting());
        memory.frames.set(frame, Flag::OnList);
        self.pending.0.push((frame, memory.lruvec_of(frame), page_type));
        if self.pending.0.len() == PENDING_MAX || memory.frames.order(frame) > 0 {
            self.insert_pending(memory);
        }
    }

    /// Puts all waiting pages on their lists.
    pub(super) fn insert_pending(&mut self, memory: &mut Memory) {
        if self.pending.0.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.pending.0);
        for (frame, ..) in waiting.drain(..) {
            debug_assert!(self.generations.state(frame).is_waiting(), "the byte of a page that waits says so");
            let state = self.generations.state(frame).without_generation();
            self.generations.insert_as(memory, frame, state, false);
        }
        self.pending.0 = waiting;
    }

    /// A waiting page is needed no more.
    pub(super) fn stop_waiting(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(self.generations.state(frame).is_waiting(), "only a page that waits can stop");
        self.pending.0.retain(|&(other, ..)| other != frame);
        let state = self.generations.state(frame).without_generation();
        self.generations.set_state(&memory.frames, frame, state);
        memory.frames.clear(frame, Flag::OnList);
    }
}
