//! Faults on mapped files: fault-around, page cache, read-around and readahead (spec classic-lru 9.1, 9.4).

use super::window::{FileWindow, add_file_page, begin_file_window};
use super::{Faulting, Step};
use crate::memory::{CachePage, FileId, Flag, FrameId, Memory};
use crate::mmu::{Entry, Need, OpenFile, SpaceId};
use crate::readahead::file::{Advice as Order, FileReadahead, MappingKind, ReadaheadLimits, Window as ReadWindow};
use crate::reclaim::Arrival;
use isotherm_units::PageRange;
use isotherm_units::access::{Advice, Backing, FileKind, Sharing};

/// Pages of the aligned block that fault-around maps (`fault_around_bytes` = 64 KiB).
const FAULT_AROUND_PAGES: u64 = 16;
/// The request size that disks like best (`max_sectors_kb` = 1280, the usual default).
const DEVICE_OPTIMUM_PAGES: u64 = 320;

impl Faulting<'_> {
    /// A fault on a page of a regular file that has no entry yet.
    pub(super) fn file(&mut self, file: FileId, page: u64, sharing: Sharing) -> Step {
        if self.need == Need::Read && self.fault_around(file, page) {
            return Ok(());
        }
        let frame = self.file_page(file, page)?;
        self.pay_once(self.memory.costs.minor_fault_file_ns);
        match (self.need, sharing) {
            (Need::Read, _) => self.map_here(frame, false),
            (Need::Write, Sharing::Shared) => {
                self.memory.dirty_file_page(frame);
                self.map_here(frame, true);
            }
            (Need::Write, Sharing::Private) => self.map_copy_of(frame)?,
        }
        Ok(())
    }

    /// Maps what is ready of the aligned block around a page; whether that page was among it.
    ///
    /// Entries come young, as x86 makes them.
    pub(super) fn fault_around(&mut self, file: FileId, page: u64) -> bool {
        let block = PageRange::at(self.page - self.page % FAULT_AROUND_PAGES, FAULT_AROUND_PAGES);
        let range = block.intersection(self.vma.pages());
        let writable = self.memory.is_shared_memory(&self.vma) && self.sharing() == Sharing::Shared;
        let mut nr_mapped = 0;
        let mut done = false;
        for virtual_page in range.start..range.end {
            // Wraps for pages before the faulting one, and comes back.
            let file_page = page.wrapping_add(virtual_page).wrapping_sub(self.page);
            let CachePage::Frame(frame) = self.memory.files.get(file).page(file_page) else { continue };
            let frames = &self.memory.frames;
            if frames.has(frame, Flag::Reading) || frames.has(frame, Flag::Readahead) {
                continue;
            }
            let space = self.memory.space_mut(self.space);
            let Some(dense) = space.table.dense(virtual_page) else { continue };
            if space.table.entry(dense) != Entry::None {
                continue;
            }
            space.table.set_present(dense, Entry::Frame(frame), writable, true, false);
            space.nr_resident += 1;
            nr_mapped += 1;
            if virtual_page == self.page {
                done = true;
                let workingset = self.memory.frames.has(frame, Flag::Workingset);
                self.memory.open_file(self.space, file).readahead.fault_around(workingset);
            }
        }
        if done {
            self.pay_once(self.memory.costs.minor_fault_file_ns);
        }
        self.memory.ledger.spend(nr_mapped * self.memory.costs.fault_around_page_ns);
        done
    }

    /// The page of a regular file in the page cache, up to date; read if it is absent.
    fn file_page(&mut self, file: FileId, page: u64) -> Step<FrameId> {
        let first_look = !std::mem::replace(&mut self.current().tried, true);
        if let CachePage::Frame(frame) = self.memory.files.get(file).page(page) {
            if first_look {
                self.cached_in_file(file, page, frame)?;
            }
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

    /// The first look found the page in the cache: readahead learns from it and may go on.
    fn cached_in_file(&mut self, file: FileId, page: u64, frame: FrameId) -> Step {
        if self.policy.is_exact() {
            return Ok(());
        }
        let kind = mapping_kind(&self.vma);
        let reading = self.memory.frames.has(frame, Flag::Reading);
        let random = kind.advice == Order::Random && !kind.executable;
        let marked = !random && self.memory.frames.take(frame, Flag::Readahead);
        let window = self.memory.plan(self.space, file, |readahead, limits, is_cached| match reading {
            // A page under read says nothing about misses.
            true if marked => readahead.marked_page(page, limits.window_max, limits, is_cached),
            true => None,
            false => readahead.mmap_cached(page, marked, &kind, limits, is_cached),
        });
        self.read_window(file, window)
    }

    fn read_window(&mut self, file: FileId, window: Option<ReadWindow>) -> Step {
        let Some(ReadWindow { range, mark }) = window else { return Ok(()) };
        let cgroup = self.cgroup();
        let window = FileWindow { file, pages: range, mark, cgroup };
        begin_file_window(self.memory, self.policy, self.state, window)
    }
}

impl Memory {
    /// `file` as `space` has it open: all its mappings and descriptors in one space are one open file.
    pub(super) fn open_file(&mut self, space: SpaceId, file: FileId) -> &mut OpenFile {
        self.space_mut(space).open_files.entry(file).or_default()
    }

    /// Asks readahead for a window; [`FileKind::SharedMemory`] has none.
    pub(super) fn plan(
        &mut self,
        space: SpaceId,
        file: FileId,
        ask: impl FnOnce(&mut FileReadahead, &ReadaheadLimits, &dyn Fn(u64) -> bool) -> Option<ReadWindow>,
    ) -> Option<ReadWindow> {
        let backing = self.files.get(file);
        if backing.kind == FileKind::SharedMemory {
            return None;
        }
        let limits = ReadaheadLimits {
            window_max: self.config.readahead_pages,
            device_optimum: DEVICE_OPTIMUM_PAGES,
            file_pages: backing.len(),
        };
        let readahead = &mut self.spaces[space.index()].open_files.entry(file).or_default().readahead;
        let is_cached = |page| matches!(backing.page(page), CachePage::Frame(_));
        ask(readahead, &limits, &is_cached)
    }
}

/// What `madvise` said, in readahead's words.
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
    MappingKind { advice: order(vma.order), executable: vma.mapping.executable, pages }
}
