//! Shared memory and tmpfs: pages of a file that go to swap (spec classic-lru 9.2).
//!
//! A page lives in the page cache or, swapped out, in a slot that the file holds in its place. While it is in the swap
//! cache it is in no page cache; the first touch moves it back and gives its slot up.

use super::window::add_file_page;
use super::{FaultOutcome, Faulting, Step};
use crate::memory::{CachePage, FileId, Flag, FrameId, Memory, PageOwner};
use crate::mmu::{Need, Vma};
use crate::reclaim::Arrival;
use isotherm_units::access::{Backing, FileKind, Sharing};

impl Faulting<'_> {
    /// A fault on a page of shared memory.
    pub(super) fn shared_memory(&mut self, file: FileId, page: u64, sharing: Sharing) -> Step {
        let write = self.need == Need::Write;
        if !write && self.fault_around(file, page) {
            return Ok(());
        }
        let frame = self.shared_page(file, page)?;
        self.pay_once(self.memory.costs.minor_fault_file_ns);
        match (sharing, write) {
            (Sharing::Shared, _) => self.map_here(frame, true),
            (Sharing::Private, false) => self.map_here(frame, false),
            (Sharing::Private, true) => self.map_copy_of(frame)?,
        }
        Ok(())
    }

    /// The page in the page cache, up to date: found, made of zeroes, or brought back from swap.
    pub(super) fn shared_page(&mut self, file: FileId, page: u64) -> Step<FrameId> {
        match self.memory.files.get(file).page(page) {
            CachePage::Frame(frame) => Ok(frame),
            CachePage::Absent | CachePage::Shadow(_) => {
                self.state.optional = false;
                let cgroup = self.cgroup();
                let (memory, policy) = (&mut *self.memory, &mut *self.policy);
                let frame = add_file_page(memory, policy, self.state, file, page, cgroup, Arrival::Anonymous)?;
                self.memory.frames.set(frame, Flag::Dirty);
                self.pay_once(self.memory.costs.minor_fault_anon_ns + self.memory.costs.page_zero_ns);
                Ok(frame)
            }
            CachePage::Swap(slot) => {
                let owner = PageOwner::File { file, page: u32::try_from(page).expect("files are below 16 TiB") };
                let frame = self.slot_up_to_date(slot, owner)?;
                if let (true, Some(until)) = (self.memory.frames.has(frame, Flag::Writeback), self.memory.io.due(frame))
                {
                    return Err(FaultOutcome::Wait { until, memstall: false });
                }
                self.memory.frames.adopt(frame, owner);
                self.memory.files.get_mut(file).set_page(page, CachePage::Frame(frame));
                self.memory.drop_swap_entry(slot);
                self.memory.release_slot(frame);
                Ok(frame)
            }
        }
    }
}

impl Memory {
    /// Whether the mapping shows shared memory.
    pub(super) fn is_shared_memory(&self, vma: &Vma) -> bool {
        match vma.mapping.backing {
            Backing::File { file, .. } => self.files.get(FileId::from_index(file)).kind == FileKind::SharedMemory,
            Backing::Anonymous => false,
        }
    }
}
