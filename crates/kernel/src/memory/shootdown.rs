//! Flushing translations on other processors: its cost to the requester, and which processors it interrupts
//! (docs/spec/promotion.md#s5-4).
//!
//! The interrupt goes to all processors that run the space at that time. Processors that ran it before and are idle, or run a kernel thread
//! since, flush when they come back to it. The requester waits for the answers. Each asked processor takes an interrupt, in the time of its
//! present task: the machine charges its next stretch for the interrupts in between. So threads that flush at once delay each other, and a
//! thread that flushes alone waits for none.

use super::Memory;
use crate::mmu::SpaceId;

impl Memory {
    /// Flushes translations of these spaces, each given once. Returns the requester's cost in ns; it is not spent yet.
    pub fn shoot_down(&mut self, spaces: impl IntoIterator<Item = SpaceId>) -> u64 {
        let mut others = 0;
        for id in spaces {
            let is_own = self.running == Some(id);
            let space = self.space_mut(id);
            debug_assert!(!is_own || space.running_cpus > 0, "who asks runs on a CPU");
            space.shootdowns += 1;
            others += u64::from(space.running_cpus) - u64::from(is_own);
        }
        self.costs.tlb_flush_ns + others * self.costs.tlb_flush_cpu_ns
    }
}
