//! Faults on mapped files: fault-around, page cache, read-around and readahead (docs/spec/classic-lru.md#s9-1, #s9-4).

use super::window::{FileWindow, add_file_page, begin_file_window};
use super::{Faulting, Step};
use crate::memory::{CachePage, FileId, Flag, FrameId, KernelRelease, Memory};
use crate::mmu::{Need, OpenFile, SpaceId};
use crate::readahead::file::{
    Advice as Order, FaultAround, FileReadahead, MappingKind, ReadaheadLimits, Window as ReadWindow,
};
use crate::readahead::orders::FolioBounds;
use crate::reclaim::Arrival;
use isotherm_units::PageRange;
use isotherm_units::access::{Advice, Backing, FileKind, Sharing};

/// Pages of the aligned block that fault-around maps (`fault_around_bytes` = 64 KiB).
const FAULT_AROUND_PAGES: u64 = READY_MAX as u64;
/// Most pages of the block that can be ready in the cache.
const READY_MAX: usize = 16;
/// The request size that disks like best (`max_sectors_kb` = 1280, the usual default).
const DEVICE_OPTIMUM_PAGES: u64 = 320;

impl Faulting<'_> {
    /// A fault on a page of a regular file that has no entry yet.
    pub(super) fn file(&mut self, file: FileId, page: u64, sharing: Sharing) -> Step {
        if self.need == Need::Read && self.fault_around(file, page) {
            return Ok(());
        }
        let frame = self.file_page(file, page)?;
        // A fault that had to read is retried, and finds its neighbours in the cache too (`VM_FAULT_RETRY`).
        // So is one that waited for a folio, or went on with readahead, where there are folios: they are mapped whole.
        let is_retried = self.memory.frames.has_folios() || self.current().major;
        if self.need == Need::Read && is_retried && self.fault_around(file, page) {
            return Ok(());
        }
        self.pay_once(self.memory.costs.minor_fault_file_ns);
        match (self.need, sharing) {
            (Need::Read, _) => self.map_file_page((file, page), frame, false),
            (Need::Write, Sharing::Shared) => {
                self.memory.dirty_file_page(frame);
                self.map_file_page((file, page), frame, true);
            }
            (Need::Write, Sharing::Private) => self.map_copy_of(frame)?,
        }
        Ok(())
    }

    /// Maps the ready pages of the aligned block around a page; returns whether that page was among them.
    ///
    /// Entries come young, as x86 makes them.
    pub(super) fn fault_around(&mut self, file: FileId, page: u64) -> bool {
        let block = PageRange::at(self.page - self.page % FAULT_AROUND_PAGES, FAULT_AROUND_PAGES);
        let range = block.intersection(self.vma.pages());
        if self.memory.folio_order_max(file) > 0 {
            return self.fault_around_folios(file, page, range);
        }
        let mut around = FaultAround { tried: self.current().tried, ..FaultAround::default() };
        // First what the table lacks, then what the cache has ready of it: each of both is in few cache lines. Releases before 7.2
        // learn from pages that are mapped already, too.
        let (memory, at) = (&*self.memory, range.start);
        let release = memory.config.release;
        let (backing, frames) = (memory.files.get(file), &memory.frames);
        let of_file = PageRange::at(page - (self.page - at), range.len());
        let lacking = match release {
            KernelRelease::V6_12 | KernelRelease::V6_18 => u64::MAX,
            KernelRelease::V7_2 => memory.space(self.space).table.lacking_around(self.dense, range),
        };
        let mut ready = [(0, FrameId::new(0)); READY_MAX];
        let (mut nr_ready, mut own) = (0, None);
        for (file_page, frame) in backing.frames_among(of_file, lacking) {
            let flags = frames.flags(frame);
            // Locked: on its way to another frame.
            if flags.has_any([Flag::Reading, Flag::Readahead]) || memory.arrival_at(frame).is_some() {
                continue;
            }
            let workingset = flags.has(Flag::Workingset);
            around.ready += u32::from(!workingset);
            if file_page == page {
                own = Some((nr_ready, workingset));
            }
            ready[nr_ready] = (at + (file_page - of_file.start), frame);
            nr_ready += 1;
        }
        if nr_ready == 0 {
            return false;
        }
        let writable = memory.is_shared_memory(&self.vma) && self.sharing() == Sharing::Shared;
        let space = self.memory.space_mut(self.space);
        let mapped = space.table.map_around(self.dense, &ready[..nr_ready], writable);
        let nr_mapped = u64::from(mapped.count_ones());
        space.nr_resident += nr_mapped;
        if let Some((_, workingset)) = own.filter(|(own, _)| mapped >> own & 1 != 0) {
            (around.found, around.workingset) = (true, workingset);
        }
        self.learn_from(file, around, release);
        self.memory.ledger.spend(nr_mapped * self.memory.costs.fault_around_page_ns);
        around.found
    }

    /// Readahead learns from what fault-around found, and a fault that is over pays.
    pub(super) fn learn_from(&mut self, file: FileId, around: FaultAround, release: KernelRelease) {
        // 7.2 learns from the page itself alone.
        if around.found || release < KernelRelease::V7_2 {
            let kind = mapping_kind(&self.vma);
            self.memory.open_file(self.space, file).readahead.fault_around(&around, &kind, release);
        }
        if around.found {
            self.pay_once(self.memory.costs.minor_fault_file_ns);
        }
    }

    /// The page of a regular file in the page cache, up to date; read if it is absent.
    fn file_page(&mut self, file: FileId, page: u64) -> Step<FrameId> {
        let first_look = !std::mem::replace(&mut self.current().tried, true);
        if let CachePage::Frame(frame) = self.memory.files.get(file).page(page) {
            if first_look {
                self.cached_in_file(file, page, frame)?;
            }
            self.wait_for_lock(frame)?;
            return self.when_read(frame);
        }
        self.count_major();
        self.pay_once(self.memory.costs.file_read_fault_ns);
        if !self.reads_alone() {
            self.current().planned = true;
            let kind = mapping_kind(&self.vma);
            let window = self.memory.plan(self.space, file, |readahead, limits, is_cached| {
                Some(readahead.mmap_miss(page, &kind, limits, is_cached))
            });
            self.read_window(file, window)?;
        }
        match self.memory.files.get(file).page(page) {
            CachePage::Frame(frame) => self.when_read(frame),
            _ => {
                self.state.optional = false;
                let cgroup = self.cgroup();
                let (memory, policy) = (&mut *self.memory, &mut *self.policy);
                let frame = add_file_page(memory, policy, self.state, file, page, cgroup, Arrival::FileRead)?;
                self.memory.submit_file_read(file, &[frame]);
                self.when_read(frame)
            }
        }
    }

    /// The first lookup found the page in the cache: readahead learns from it and may go on.
    fn cached_in_file(&mut self, file: FileId, page: u64, frame: FrameId) -> Step {
        let (kind, release) = (mapping_kind(&self.vma), self.memory.config.release);
        // A page under read says nothing about misses, except in 6.12.
        let frame = self.memory.frames.head(frame);
        let order = self.memory.frames.order(frame);
        let reading = self.memory.frames.has(frame, Flag::Reading) && release > KernelRelease::V6_12;
        let marked = !kind.is_random(release) && self.memory.frames.take(frame, Flag::Readahead);
        let window = self.memory.plan(self.space, file, |readahead, limits, is_cached| match reading {
            true if marked => readahead.marked_page(page, order, limits.window_max, limits, is_cached),
            true => None,
            false => readahead.mmap_cached(page, marked.then_some(order), &kind, limits, is_cached),
        });
        self.read_window(file, window)
    }

    fn read_window(&mut self, file: FileId, window: Option<ReadWindow>) -> Step {
        let Some(ReadWindow { range, mark, large }) = window else { return Ok(()) };
        let cgroup = self.cgroup();
        let window = FileWindow { file, pages: range, mark, large, cgroup };
        begin_file_window(self.memory, self.policy, self.state, window)
    }
}

impl Memory {
    /// `file` as `space` has it open: all its mappings and descriptors in one space are one open file.
    pub(super) fn open_file(&mut self, space: SpaceId, file: FileId) -> &mut OpenFile {
        self.space_mut(space).open_files.entry(file).or_default()
    }

    /// What device and file allow.
    pub(super) fn readahead_limits(&self, file: FileId) -> ReadaheadLimits {
        ReadaheadLimits {
            window_max: self.config.readahead_pages,
            device_optimum: DEVICE_OPTIMUM_PAGES,
            file_pages: self.files.get(file).len(),
            folios: FolioBounds::new(0, self.folio_order_max(file)),
            release: self.config.release,
        }
    }

    /// Asks readahead for a window; [`FileKind::SharedMemory`] has none.
    pub(super) fn plan(
        &mut self,
        space: SpaceId,
        file: FileId,
        ask: impl FnOnce(&mut FileReadahead, &ReadaheadLimits, &dyn Fn(u64) -> bool) -> Option<ReadWindow>,
    ) -> Option<ReadWindow> {
        if self.files.get(file).kind == FileKind::SharedMemory {
            return None;
        }
        let (limits, backing) = (self.readahead_limits(file), self.files.get(file));
        let readahead = &mut self.spaces[space.index()].open_files.entry(file).or_default().readahead;
        let is_cached = |page| matches!(backing.page(page), CachePage::Frame(_));
        ask(readahead, &limits, &is_cached)
    }
}

/// The advice of `madvise`, in readahead's terms.
pub(super) fn order(advice: Advice) -> Order {
    match advice {
        Advice::Random => Order::Random,
        Advice::Sequential => Order::Sequential,
        _ => Order::Normal,
    }
}

fn mapping_kind(vma: &crate::mmu::Vma) -> MappingKind {
    let first_page = match vma.mapping.backing {
        Backing::File { first_page, .. } => first_page,
        Backing::Anonymous => 0,
    };
    let pages = PageRange::at(first_page, vma.pages().len());
    MappingKind { advice: order(vma.order), executable: vma.mapping.executable, huge: false, pages }
}

#[cfg(test)]
mod tests {
    use super::super::{FaultOutcome, FaultState, fault};
    use super::*;
    use crate::counters::Counter::{PgFault, PgMajFault};
    use crate::reclaim::Hint;
    use crate::swap::device::{DeviceKind, DeviceModel};
    use crate::testkit::{Rig, Trouble};
    use isotherm_units::access::LayoutChange;

    const NONE: Trouble = Trouble { waits: 0, memstalls: 0, shortages: 0, bad: false };
    const ONE_WAIT: Trouble = Trouble { waits: 1, ..NONE };

    /// A process that maps a file of 1000 pages from page 0 on.
    fn mapped(sharing: Sharing) -> (Rig, SpaceId) {
        let mut rig = Rig::new(DeviceKind::Zram);
        let space = rig.space();
        rig.map_file(space, "data", 0, 1000, sharing, FileKind::Regular);
        (rig, space)
    }

    fn cached(rig: &Rig, page: u64) -> Option<FrameId> {
        match rig.memory.files.get(FileId::from_index(0)).page(page) {
            CachePage::Frame(frame) => Some(frame),
            _ => None,
        }
    }

    fn marks(rig: &Rig) -> Vec<u64> {
        let marked = |&page: &u64| cached(rig, page).is_some_and(|frame| rig.memory.frames.has(frame, Flag::Readahead));
        (0..1000).filter(marked).collect()
    }

    /// Section 9.1, rows 5 and 7; C14, the two faults.
    #[test]
    fn c14_a_miss_reads_around_and_maps_its_block() {
        let (mut rig, space) = mapped(Sharing::Shared);
        assert_eq!(rig.read(space, 100), ONE_WAIT);
        let resident: Vec<u64> = (0..1000).filter(|&page| cached(&rig, page).is_some()).collect();
        assert_eq!(resident, (84..116).collect::<Vec<_>>());
        assert_eq!(marks(&rig), [108]);
        assert_eq!((rig.count(PgFault), rig.count(PgMajFault)), (1, 1));
        // The aligned block 96..112 is mapped, except the marked page.
        let mapped: Vec<u64> = (0..1000).filter(|&page| rig.frame(space, page).is_some()).collect();
        assert_eq!(mapped, (96..112).filter(|&page| page != 108).collect::<Vec<_>>());
        assert_eq!(rig.memory.space(space).nr_resident, 15);
        rig.read(space, 5);
        assert_eq!(marks(&rig), [24, 108], "0..32, mark at 24");
    }

    #[test]
    fn a_cached_page_is_a_minor_fault_that_maps_its_block() {
        let (mut rig, space) = mapped(Sharing::Shared);
        rig.read(space, 100);
        rig.memory.ledger.take();
        assert_eq!(rig.read(space, 90), NONE);
        assert_eq!((rig.count(PgFault), rig.count(PgMajFault)), (2, 1));
        // 84..96 of the block 80..96 are cached.
        assert_eq!(rig.memory.space(space).nr_resident, 15 + 12);
        let costs = rig.memory.costs;
        assert_eq!(rig.memory.ledger.take(), costs.minor_fault_file_ns + 12 * costs.fault_around_page_ns);
    }

    #[test]
    fn touching_the_marked_page_reads_the_next_window() {
        let (mut rig, space) = mapped(Sharing::Shared);
        rig.read(space, 100); // 84..116, mark at 108, async 8
        assert_eq!(rig.read(space, 108), NONE, "minor, no wait");
        assert_eq!(rig.count(PgMajFault), 1);
        assert_eq!(marks(&rig), [116], "116..148 in flight, async = size");
        assert!(cached(&rig, 147).is_some() && cached(&rig, 148).is_none());
        rig.settle();
        assert_eq!(rig.read(space, 120), NONE);
    }

    /// Section 9.1, row 6; P14.
    #[test]
    fn p14_a_page_in_flight_is_minor_and_waits() {
        let (mut rig, space) = mapped(Sharing::Shared);
        let (mut one, mut other) = (FaultState::default(), FaultState::default());
        let touch = |rig: &mut Rig, page, state: &mut FaultState| {
            fault(&mut rig.memory, &mut rig.policy, space, page, Need::Read, state)
        };
        assert!(matches!(touch(&mut rig, 100, &mut one), FaultOutcome::Wait { memstall: false, .. }));
        assert!(matches!(touch(&mut rig, 101, &mut other), FaultOutcome::Wait { memstall: false, .. }));
        assert_eq!((rig.count(PgFault), rig.count(PgMajFault)), (2, 1));
        let frame = cached(&rig, 101).unwrap();
        rig.memory.frames.set(frame, Flag::Workingset);
        assert!(matches!(touch(&mut rig, 101, &mut other), FaultOutcome::Wait { memstall: true, .. }));
        assert_eq!(rig.count(PgFault), 2, "the same fault");
    }

    #[test]
    fn p14_an_evicted_page_comes_back_with_its_shadow_as_one_major_fault() {
        let (mut rig, space) = mapped(Sharing::Shared);
        rig.read(space, 100);
        rig.evict(space, 100);
        let majors = rig.count(PgMajFault);
        assert_eq!(rig.read(space, 100), ONE_WAIT);
        assert_eq!(rig.count(PgMajFault) - majors, 1);
        let refaults =
            rig.policy.arrivals.iter().filter(|(arrival, shadow)| *arrival == Arrival::FileRead && shadow.is_some());
        assert_eq!(refaults.count(), 1);
    }

    #[test]
    fn a_shared_write_faults_once_and_dirties_the_page() {
        let (mut rig, space) = mapped(Sharing::Shared);
        rig.read(space, 100);
        assert!(!rig.is_writable(space, 100));
        rig.write(space, 100);
        assert!(rig.is_writable(space, 100) && rig.has(space, 100, Flag::Dirty));
        assert_eq!(rig.count(PgFault), 2);
        rig.write(space, 100);
        assert_eq!((rig.count(PgFault), rig.memory.flusher.nr_dirty()), (2, 1));
        rig.write(space, 500); // at once
        assert!(rig.has(space, 500, Flag::Dirty));
        assert_eq!((rig.count(PgFault), rig.count(PgMajFault)), (3, 2));
    }

    #[test]
    fn a_private_write_copies_and_leaves_the_file_alone() {
        let (mut rig, space) = mapped(Sharing::Private);
        rig.read(space, 100);
        let original = rig.frame(space, 100);
        rig.write(space, 100);
        let copy = rig.frame(space, 100).unwrap();
        assert!(original != Some(copy) && cached(&rig, 100) == original);
        assert!(!rig.memory.frames.has(copy, Flag::FileOwned) && rig.memory.flusher.nr_dirty() == 0);
        let resident = rig.memory.space(space).nr_resident;
        rig.write(space, 200); // read and copied in one fault
        assert_eq!(rig.memory.space(space).nr_resident, resident + 1);
        assert_eq!(rig.count(PgMajFault), 2);
        // Forked, both kinds of pages are shared.
        let child = rig.fork(space);
        assert_eq!(rig.frame(child, 100), Some(copy));
        rig.write(child, 100);
        assert_eq!(rig.frame(space, 100), Some(copy));
        rig.exit(space);
        rig.exit(child);
        assert_eq!(rig.usage(), rig.memory.files.get(FileId::from_index(0)).nr_cached);
    }

    #[test]
    fn code_is_read_forward_and_random_mappings_one_page() {
        let (mut rig, space) = mapped(Sharing::Private);
        rig.change(space, LayoutChange::Advise(PageRange::new(0, 500), Advice::Random));
        rig.read(space, 100);
        assert_eq!(rig.memory.files.get(FileId::from_index(0)).nr_cached, 1);
        let file = rig.memory.files.open("code", FileKind::Regular, 100).unwrap().index();
        let backing = Backing::File { file, first_page: 0, sharing: Sharing::Private };
        let pages = PageRange::at(5000, 100);
        rig.map(space, isotherm_units::access::Mapping { pages, backing, executable: true, huge: false });
        rig.read(space, 5090);
        let code = rig.memory.files.get(FileId::from_index(1));
        assert!(code.nr_cached == 10 && matches!(code.page(99), CachePage::Frame(_)), "90..100");
    }

    #[test]
    fn unmapping_a_young_or_dirty_entry_tells_the_page() {
        let (mut rig, space) = mapped(Sharing::Shared);
        rig.read(space, 100);
        rig.policy.hints.clear();
        rig.change(space, LayoutChange::Unmap(PageRange::new(100, 101)));
        assert_eq!(rig.policy.hints, [Hint::UnmappedYoung]);
        assert_eq!(rig.read(space, 100), Trouble { bad: true, ..NONE });
        assert!(cached(&rig, 100).is_some(), "stays in the page cache");
        assert_eq!(rig.read(space, 99), NONE);
        assert_eq!(rig.memory.files.get(FileId::from_index(0)).mappings.len(), 2);
    }

    #[test]
    fn file_windows_give_up_when_reclaim_does_not_help() {
        let (mut rig, space) = mapped(Sharing::Shared);
        rig.limit(4);
        // Nothing can be reclaimed while all four pages are being read.
        let trouble = rig.read(space, 100);
        assert!(!trouble.bad && rig.frame(space, 100).is_some(), "{trouble:?}");
        assert_eq!(rig.count(PgMajFault), 1);
    }

    #[test]
    fn a_ram_disk_has_read_when_the_read_was_submitted() {
        for (device, in_flight) in [(DeviceKind::Nvme, 32), (DeviceKind::Ram, 0)] {
            let mut rig = Rig::with(DeviceKind::Zram, 60, |setup| {
                setup.storage = DeviceModel::preset(device, &setup.costs);
            });
            let space = rig.space();
            rig.map_file(space, "data", 0, 1000, Sharing::Shared, FileKind::Regular);
            let mut state = FaultState::default();
            let outcome = fault(&mut rig.memory, &mut rig.policy, space, 100, Need::Read, &mut state);
            assert_eq!(outcome == FaultOutcome::Done, device == DeviceKind::Ram, "{device}");
            assert_eq!(rig.memory.io.nr_in_flight(), in_flight, "{device}");
            assert_eq!(rig.count(PgMajFault), 1);
        }
    }

    /// Linux 7.2, `filemap_map_pages`: the retry of a fault that had to read does not lower `mmap_miss`, so 101 misses in a row
    /// turn read-around off, however fast the device.
    #[test]
    fn a_fault_that_is_begun_anew_is_no_hit() {
        for device in [DeviceKind::Nvme, DeviceKind::Ram] {
            let mut rig = Rig::with(DeviceKind::None, 0, |setup| {
                setup.storage = DeviceModel::preset(device, &setup.costs);
                setup.config.readahead_pages = 2;
            });
            let space = rig.space();
            rig.map_file(space, "data", 0, 1000, Sharing::Shared, FileKind::Regular);
            for miss in 0..100 {
                rig.read(space, 1 + miss * 4);
            }
            // Pages 0 and 1, 4 and 5, …: the neighbours were mapped too.
            assert_eq!(rig.memory.space(space).nr_resident, 200, "{device}");
            rig.read(space, 401);
            assert!(cached(&rig, 401).is_some() && cached(&rig, 400).is_none(), "{device}");
        }
    }
}
