//! Memory outside of processes and files: blocks that the kernel or a driver took for itself.

use super::buddy::MigrateType;
use super::{FrameId, Memory};
use std::collections::BTreeMap;

/// Blocks in use outside of address spaces and files. Nothing maps them, so that they never move, and they are charged to no
/// group.
#[derive(Clone, Debug, Default)]
pub struct KernelPages {
    /// By first frame: log2 of the pages, and the type that was asked for.
    blocks: BTreeMap<FrameId, (u32, MigrateType)>,
    pages: u64,
    /// Huge pages that the kernel and its drivers asked for, obtained or not.
    huge_wanted: u64,
}

impl KernelPages {
    /// Pages in use.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Huge pages that others than faults asked for, obtained or not.
    pub const fn huge_wanted(&self) -> u64 {
        self.huge_wanted
    }

    /// A huge page was asked for.
    pub const fn note_huge_wanted(&mut self) {
        self.huge_wanted += 1;
    }

    /// All blocks: first frame, log2 of the pages, and type.
    pub fn blocks(&self) -> impl Iterator<Item = (FrameId, u32, MigrateType)> + '_ {
        self.blocks.iter().map(|(&first, &(order, kind))| (first, order, kind))
    }
}

impl Memory {
    /// Whether a frame is the kernel's.
    pub fn is_kernels(&self, frame: FrameId) -> bool {
        let before = self.kernel.blocks.range(..=frame).next_back();
        before.is_some_and(|(first, (order, _))| frame.index_u32() - first.index_u32() < 1 << order)
    }

    /// A block that was taken from its zone is the kernel's from now on.
    pub fn keep_for_kernel(&mut self, block: FrameId, order: u32, kind: MigrateType) {
        debug_assert!(block.index_u32().is_multiple_of(1 << order), "blocks begin at multiples of their size");
        let before = self.kernel.blocks.insert(block, (order, kind));
        debug_assert_eq!(before, None, "taken twice");
        self.kernel.pages += 1 << order;
        if let Some(ground_truth) = &mut self.ground_truth {
            for at in 0..1 << order {
                let frame = FrameId::new(block.index_u32() + at);
                ground_truth.forget(frame, self.frames.cgroup(frame));
            }
        }
    }

    /// A block of the kernel gets another owner; `false` if it has none there.
    pub(crate) fn take_from_kernel(&mut self, block: FrameId) -> bool {
        let Some((order, _)) = self.kernel.blocks.remove(&block) else { return false };
        debug_assert!(self.kernel.pages >= 1 << order, "each block was counted when the kernel took it");
        self.kernel.pages -= 1 << order;
        true
    }

    /// The kernel gives a block back; `false` if it has none there.
    pub fn give_from_kernel(&mut self, block: FrameId) -> bool {
        let Some((order, _)) = self.kernel.blocks.remove(&block) else { return false };
        debug_assert!(self.kernel.pages >= 1 << order, "each block was counted when the kernel took it");
        self.kernel.pages -= 1 << order;
        let Self { nodes, frames, ledger, costs, .. } = self;
        ledger.spend(costs.free_page_ns);
        nodes.give_block(frames, block, order);
        true
    }
}
