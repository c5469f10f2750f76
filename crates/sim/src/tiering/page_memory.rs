//! The history of hint faults of each page, in the word in which the kernel keeps the last processor and thread.

use isotherm_core::host::NodeId;
use isotherm_core::promotion::hint_fault::LastFault;
use isotherm_kernel::memory::FrameId;
use isotherm_units::Instant;

/// Bits for the time of a mark: as many as a kernel for many processors has left in the word. It wraps after 35 minutes.
pub(crate) const TIME_BITS: u32 = 21;
const TIME_MASK: u32 = (1 << TIME_BITS) - 1;
const IS_TIME: u32 = 1 << 31;
const IS_FAULT: u32 = 1 << 30;

/// Memory by frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageMemory(Vec<u32>);

impl PageMemory {
    /// Memory of this number of frames. Fresh zero pages: only pages of used frames are ever touched.
    pub(crate) fn new(frames: usize) -> Self {
        Self(vec![0; frames])
    }

    /// The page was marked: the word holds the time from now on.
    pub(crate) fn mark(&mut self, frame: FrameId, now: Instant) {
        self.0[frame.index()] = IS_TIME | ms(now);
    }

    /// Milliseconds since the page was marked, as far as the word can hold; the time of this fault takes its place. A page that
    /// was never marked counts as marked at the start.
    pub(crate) fn latency_ms(&mut self, frame: FrameId, now: Instant) -> u64 {
        let word = std::mem::replace(&mut self.0[frame.index()], IS_TIME | ms(now));
        u64::from(ms(now).wrapping_sub(word & TIME_MASK) & TIME_MASK)
    }

    /// The thread that faulted last; this fault takes its place.
    pub(crate) fn exchange(&mut self, frame: FrameId, node: NodeId, thread: u8) -> LastFault {
        let now = IS_FAULT | node.0 << 8 | u32::from(thread);
        match std::mem::replace(&mut self.0[frame.index()], now) {
            0 => LastFault::Unset,
            word if word & IS_TIME != 0 => LastFault::Invalid,
            word => LastFault::By { node: NodeId((word & !IS_FAULT) >> 8), thread: (word & 0xff) as u8 },
        }
    }

    /// The page moved to another tier: no thread has faulted on it there.
    pub(crate) fn reset(&mut self, frame: FrameId) {
        self.0[frame.index()] = 0;
    }

    /// The page moved within its tier.
    pub(crate) fn carry(&mut self, from: FrameId, to: FrameId) {
        self.0[to.index()] = std::mem::take(&mut self.0[from.index()]);
    }
}

fn ms(at: Instant) -> u32 {
    u32::try_from((at.ns() / 1_000_000) & u64::from(TIME_MASK)).expect("masked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_holds_a_time_or_a_thread() {
        let mut memory = PageMemory::new(3);
        let frame = FrameId::new(1);
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        memory.mark(frame, at(1000));
        assert_eq!((memory.latency_ms(frame, at(1999)), memory.latency_ms(frame, at(2100))), (999, 101));
        memory.mark(frame, at(2_097_000));
        assert_eq!(memory.latency_ms(frame, at(2_097_200)), 200, "section 4.2: 21 bits wrap after 2,097,152 ms");
        assert_eq!(memory.exchange(frame, NodeId(2), 7), LastFault::Invalid, "a time names no processor");
        assert_eq!(memory.exchange(frame, NodeId(0), 9), LastFault::By { node: NodeId(2), thread: 7 });
        memory.carry(frame, FrameId::new(2));
        assert_eq!(memory.exchange(frame, NodeId(0), 1), LastFault::Unset);
        assert_eq!(memory.exchange(FrameId::new(2), NodeId(0), 1), LastFault::By { node: NodeId(0), thread: 9 });
        memory.reset(frame);
        assert_eq!(memory.exchange(frame, NodeId(0), 1), LastFault::Unset);
    }
}
