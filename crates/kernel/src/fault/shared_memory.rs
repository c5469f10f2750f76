//! Shared memory and tmpfs: pages of a file that go to swap (docs/spec/classic-lru.md#s9-2).
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
                let lruvec = self.memory.lruvec_of(frame);
                self.memory.files.set_page(file, page, CachePage::Frame(frame), lruvec);
                self.memory.drop_swap_entry(slot);
                self.memory.release_slot(frame);
                Ok(frame)
            }
        }
    }
}

impl Memory {
    /// Whether the mapping shows shared memory.
    pub(crate) fn is_shared_memory(&self, vma: &Vma) -> bool {
        match vma.mapping.backing {
            Backing::File { file, .. } => self.files.get(FileId::from_index(file)).kind == FileKind::SharedMemory,
            Backing::Anonymous => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter::{PgFault, PgMajFault, PswpIn, PswpOut};
    use crate::mmu::SpaceId;
    use crate::swap::device::DeviceKind;
    use crate::testkit::{Rig, Trouble};

    fn two_processes(device: DeviceKind) -> (Rig, SpaceId, SpaceId) {
        let mut rig = Rig::new(device);
        let (one, other) = (rig.space(), rig.space());
        rig.map_file(one, "shm", 0, 64, Sharing::Shared, FileKind::SharedMemory);
        rig.map_file(other, "shm", 1000, 64, Sharing::Shared, FileKind::SharedMemory);
        (rig, one, other)
    }

    #[test]
    fn pages_are_made_of_zeroes_and_seen_by_all() {
        let (mut rig, one, other) = two_processes(DeviceKind::Nvme);
        assert_eq!(rig.read(one, 5), Trouble::default());
        assert!(rig.is_writable(one, 5) && rig.has(one, 5, Flag::SwapBacked));
        assert_eq!(rig.read(other, 1005), Trouble::default());
        assert_eq!((rig.frame(other, 1005), rig.usage()), (rig.frame(one, 5), 1));
        assert_eq!((rig.count(PgFault), rig.count(PgMajFault)), (2, 0));
    }

    #[test]
    fn pages_go_to_swap_and_come_back_without_their_slot() {
        for (device, nr_waits) in [(DeviceKind::Nvme, 1), (DeviceKind::Zram, 0), (DeviceKind::Disk, 1)] {
            let (mut rig, one, other) = two_processes(device);
            (0..20).for_each(|page| {
                rig.write(one, page);
            });
            rig.read(other, 1005);
            (0..20).for_each(|page| rig.evict(one, page));
            assert_eq!((rig.usage(), rig.memory.slots.used(), rig.memory.space(other).nr_resident), (0, 20, 0));
            assert_eq!(rig.read(other, 1005).waits, nr_waits, "{device}");
            assert_eq!((rig.count(PgMajFault), rig.memory.slots.used()), (1, 19), "{device}");
            assert!(rig.has(other, 1005, Flag::Dirty) && rig.has(other, 1005, Flag::FileOwned), "{device}");
            let window = if device == DeviceKind::Zram { 1 } else { 8 };
            assert_eq!(rig.count(PswpIn), window, "{device}: by slot");
            // A neighbour read ahead: minor, moves back into the page cache.
            let majors = u64::from(device == DeviceKind::Zram);
            rig.read(one, 6);
            assert_eq!((rig.count(PgMajFault), rig.memory.slots.used()), (1 + majors, 18), "{device}");
            let writes = rig.count(PswpOut);
            rig.evict(one, 6);
            assert_eq!(rig.count(PswpOut) - writes, 1, "{device}: the slot was given up");
            rig.exit(one);
            rig.exit(other);
            assert_eq!(rig.memory.slots.used(), 19, "{device}: contents stay with the file");
        }
    }

    #[test]
    fn a_page_being_swapped_out_is_waited_for() {
        let (mut rig, one, _) = two_processes(DeviceKind::Nvme);
        rig.write(one, 5);
        let frame = rig.frame(one, 5).unwrap();
        rig.evict_frame(frame);
        let trouble = rig.read(one, 5);
        assert_eq!((trouble.waits, rig.frame(one, 5), rig.count(PgMajFault)), (1, Some(frame), 0));
    }
}
