//! Work at the end of transfers.

use super::release::free_if_unused;
use crate::memory::{Completion, Flag, FrameId, Memory};
use crate::reclaim::ReclaimPolicy;
use isotherm_units::Instant;

/// Processes all transfers that ended at `now` or before, in the order in which they ended.
pub fn complete_io(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, now: Instant) {
    loop {
        // Most transfers: the page cache keeps these pages whether anybody needs them or not.
        let Memory { io, frames, .. } = memory;
        let nr_read = io.end_file_read(now, |frame| {
            debug_assert!(frames.has(frame, Flag::FileOwned), "pages of files stay theirs while they are read");
            frames.clear(frame, Flag::Reading);
        });
        if nr_read > 0 {
            memory.ledger.spend(nr_read as u64 * memory.costs.block_complete_ns);
            continue;
        }
        let Some(completion) = memory.io.pop_due(now) else { return };
        memory.ledger.spend(memory.costs.block_complete_ns);
        match completion {
            Completion::SwapRead(frame) | Completion::FileRead(frame) => {
                memory.frames.clear(frame, Flag::Reading);
                free_if_unused(memory, policy, frame);
            }
            Completion::SwapWrite(frame) | Completion::FileWrite(frame) => write_ended(memory, policy, frame),
        }
    }
}

fn write_ended(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, frame: FrameId) {
    memory.frames.clear(frame, Flag::Writeback);
    let reclaim = memory.frames.take(frame, Flag::Reclaim);
    if !free_if_unused(memory, policy, frame) && reclaim {
        policy.writeback_ended(memory, frame);
    }
}
