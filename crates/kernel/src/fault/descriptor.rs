//! `read()` and `write()`: pages of a file through a descriptor (docs/spec/classic-lru.md#s3-1, #s3-2, #s9-4).
//!
//! A file is named by a mapping of the file in the same address space. One call covers one run; its pages are handled in order, so a call
//! that must wait goes on at the page where it stopped.

use super::file::order;
use super::window::{FileWindow, add_file_page, begin_file_window, continue_window};
use super::{Access, Current, FaultOutcome, FaultState, Faulting, Step};
use crate::memory::{CachePage, FileId, Flag, FrameId, Memory};
use crate::mmu::{Need, SpaceId};
use crate::reclaim::{Arrival, ReclaimPolicy};
use isotherm_units::access::{Backing, FileKind, Run};

/// A system call in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The page at which the previous read of this file ended: going on in its folio is not a new use.
    ended_at: Option<u64>,
    /// The last page read.
    last: Option<(FileId, u64)>,
}

/// Handles the rest of a `read()` or `write()`: `run` begins at the first page not done, `done` counts the pages of the call and grows with
/// each. After [`FaultOutcome::Done`] the whole run is done.
///
/// Counts no faults. Reads mark folios accessed, once per folio and call; writes do not.
pub fn descriptor(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    run: Run,
    done: &mut u32,
    state: &mut FaultState,
) -> FaultOutcome {
    for (index, page) in (run.page()..run.page() + u64::from(run.pages)).enumerate() {
        let left = u64::from(run.pages) - index as u64;
        if let Err(outcome) = one_page(memory, policy, space, page, left, run.is_write(), state) {
            if let FaultOutcome::Bad { .. } = outcome {
                state.call = None;
                state.current = None;
            }
            return outcome;
        }
        *done += 1;
    }
    if let Some((file, page)) = state.call.take().and_then(|call| call.last) {
        let open = memory.open_file(space, file);
        open.readahead.read_done(page + 1);
        open.last_read = Some(page);
    }
    FaultOutcome::Done
}

/// Handles one page of a call that has `left` pages to go, this page included.
fn one_page(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    page: u64,
    left: u64,
    write: bool,
    state: &mut FaultState,
) -> Step {
    let bad = FaultOutcome::Bad { page };
    let vma = *memory.space(space).vmas.find(page).ok_or(bad)?;
    let Backing::File { file, first_page, .. } = vma.mapping.backing else { return Err(bad) };
    let file = FileId::from_index(file);
    let file_page = first_page + (page - vma.pages().start);
    if file_page >= memory.files.get(file).len() {
        return Err(bad);
    }
    let dense = memory.space_mut(space).reach(page).ok_or(bad)?;
    if state.call.is_none() {
        state.call = Some(Call { ended_at: memory.open_file(space, file).last_read, last: None });
        memory.ledger.spend(memory.costs.syscall_ns);
    }
    let need = if write { Need::Write } else { Need::Read };
    let access = Access { space, page, need };
    if state.current.is_none_or(|current| current.access != access) {
        state.current = Some(Current { access, major: true, paid: true, tried: false, planned: false });
        state.window = None;
        state.optional = false;
    }
    continue_window(memory, policy, state)?;
    let mut reading =
        Faulting { memory: &mut *memory, policy: &mut *policy, state: &mut *state, space, page, dense, vma, need };
    let shared = reading.memory.files.get(file).kind == FileKind::SharedMemory;
    if write {
        // `read()` accesses pages without their lock.
        if let CachePage::Frame(frame) = reading.memory.files.get(file).page(file_page) {
            reading.wait_for_lock(frame)?;
        }
    }
    let frame = match (shared, write) {
        (true, false) => reading.read_shared(file, file_page)?,
        (true, true) => Some(reading.shared_page(file, file_page)?),
        (false, false) => Some(reading.read_page(file, file_page, left)?),
        (false, true) => Some(reading.write_page(file, file_page, left)?),
    };
    memory.ledger.spend(memory.costs.fd_copy_page_ns);
    let call = state.call.as_mut().expect("begun above");
    let first = frame.map_or(file_page, |frame| memory.first_page_of(file_page, frame));
    let before = call.ended_at.take().or(call.last.filter(|&(last, _)| last == file).map(|(_, page)| page));
    let goes_on = before.is_some_and(|before| (first..=file_page).contains(&before));
    if !write {
        call.last = Some((file, file_page));
    }
    if let Some(frame) = frame {
        if write {
            memory.dirty_file_page(frame);
        }
        // Baselines see every use; Linux neither writes nor reads that go on in the same page.
        if policy.is_exact() || !write && !goes_on {
            let head = memory.frames.head(frame);
            memory.frames.met_use(head);
            policy.mark_accessed(memory, head);
        }
    }
    state.current = None;
    Ok(())
}

impl Faulting<'_> {
    /// The page of a regular file for `read()` with `left` pages to go.
    fn read_page(&mut self, file: FileId, page: u64, left: u64) -> Step<FrameId> {
        let first_look = !std::mem::replace(&mut self.current().tried, true);
        if let CachePage::Frame(frame) = self.memory.files.get(file).page(page) {
            if first_look || self.memory.frames.order(frame) > 0 {
                self.go_on_at(file, page, left, frame)?;
            }
            return self.when_read(frame);
        }
        if !self.reads_alone() {
            self.current().planned = true;
            let advice = order(self.vma.order);
            let window = self.memory.plan(self.space, file, |readahead, limits, is_cached| {
                Some(readahead.read_miss(page, left, advice, limits, is_cached))
            });
            self.read_ahead(file, window)?;
        }
        match self.memory.files.get(file).page(page) {
            CachePage::Frame(frame) => {
                // The folio that holds the page may be the marked one.
                if self.memory.frames.order(frame) > 0 {
                    self.go_on_at(file, page, left, frame)?;
                }
                self.when_read(frame)
            }
            _ => {
                let frame = self.add_page(file, page, Arrival::FileRead)?;
                self.memory.submit_file_read(file, &[frame]);
                self.when_read(frame)
            }
        }
    }

    /// Reads the next window if `frame`, of page `page`, is of a marked folio.
    fn go_on_at(&mut self, file: FileId, page: u64, left: u64, frame: FrameId) -> Step {
        let head = self.memory.frames.head(frame);
        if !self.memory.frames.take(head, Flag::Readahead) {
            return Ok(());
        }
        let (order, first) = (self.memory.frames.order(head), self.memory.first_page_of(page, frame));
        let window = self.memory.plan(self.space, file, |readahead, limits, is_cached| {
            readahead.marked_page(first, order, left + page - first, limits, is_cached)
        });
        self.read_ahead(file, window)
    }

    fn read_ahead(&mut self, file: FileId, window: Option<crate::readahead::file::Window>) -> Step {
        let Some(window) = window else { return Ok(()) };
        let cgroup = self.memory.space(self.space).cgroup;
        let window = FileWindow { file, pages: window.range, mark: window.mark, large: window.large, cgroup };
        begin_file_window(self.memory, self.policy, self.state, window)
    }

    /// The page of a regular file that `write()` fills whole, with `left` pages to go: nothing is read, but a read in progress is waited for.
    fn write_page(&mut self, file: FileId, page: u64, left: u64) -> Step<FrameId> {
        if let CachePage::Frame(frame) = self.memory.files.get(file).page(page) {
            return self.when_read(frame);
        }
        match self.write_folio(file, page, left)? {
            Some(head) => Ok(head),
            None => self.add_page(file, page, Arrival::FileWrite),
        }
    }

    /// The page of shared memory for `read()`; a hole reads as zeroes and stays a hole.
    fn read_shared(&mut self, file: FileId, page: u64) -> Step<Option<FrameId>> {
        match self.memory.files.get(file).page(page) {
            CachePage::Absent | CachePage::Shadow(_) => Ok(None),
            CachePage::Frame(_) | CachePage::Swap(_) => self.shared_page(file, page).map(Some),
        }
    }

    fn add_page(&mut self, file: FileId, page: u64, arrival: Arrival) -> Step<FrameId> {
        self.state.optional = false;
        let cgroup = self.memory.space(self.space).cgroup;
        add_file_page(self.memory, self.policy, self.state, file, page, cgroup, arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter::{PgFault, PgMajFault};
    use crate::memory::PageOwner;
    use crate::swap::device::DeviceKind;
    use crate::testkit::{Rig, Trouble};
    use isotherm_units::access::{Channel, Sharing};

    const FILE: FileId = FileId(0);

    fn opened(kind: FileKind) -> (Rig, SpaceId) {
        let mut rig = Rig::new(DeviceKind::Nvme);
        let space = rig.space();
        rig.map_file(space, "data", 0, 1000, Sharing::Shared, kind);
        (rig, space)
    }
    fn read(page: u64, pages: u32) -> Run {
        Run::read(page, pages).through(Channel::FileDescriptor)
    }
    fn write(page: u64, pages: u32) -> Run {
        Run::write(page, pages).through(Channel::FileDescriptor)
    }
    fn cached_and_marks(rig: &Rig) -> (u64, Vec<u64>) {
        let file = rig.memory.files.get(FILE);
        let marked = file.known_pages().filter(|(_, known)| match known {
            CachePage::Frame(frame) => rig.memory.frames.has(*frame, Flag::Readahead),
            _ => false,
        });
        (file.nr_cached, marked.map(|(page, _)| page).collect())
    }

    #[test]
    fn c14_file_windows() {
        let (mut rig, space) = opened(FileKind::Regular);
        // (page read, cached after it, marks)
        let table = [(0, 4, vec![1]), (1, 12, vec![4]), (2, 12, vec![4]), (4, 28, vec![12]), (12, 60, vec![28])];
        for (page, nr_cached, marks) in table {
            rig.call(space, read(page, 1));
            assert_eq!(cached_and_marks(&rig), (nr_cached, marks), "after page {page}");
        }
        // Random, nothing cached before: one page.
        assert_eq!(rig.call(space, read(500, 1)).waits, 1);
        assert_eq!(cached_and_marks(&rig).0, 61);
        assert_eq!((rig.count(PgFault), rig.count(PgMajFault)), (0, 0), "calls are no faults");
    }

    #[test]
    fn a_call_marks_each_page_once_and_goes_on_in_a_page_without_marking_it_again() {
        let (mut rig, space) = opened(FileKind::Regular);
        let marked = |rig: &mut Rig| {
            let pages = std::mem::take(&mut rig.policy.marked).into_iter().map(|owner| match owner {
                PageOwner::File { page, .. } => page,
                PageOwner::Anonymous { .. } => unreachable!(),
            });
            pages.collect::<Vec<_>>()
        };
        rig.call(space, read(0, 3));
        assert_eq!(marked(&mut rig), [0, 1, 2]);
        rig.call(space, read(2, 2));
        assert_eq!(marked(&mut rig), [3], "page 2 goes on from the read before");
        rig.call(space, read(2, 1));
        assert_eq!(marked(&mut rig), [2]);
        rig.call(space, write(2, 1));
        assert_eq!(marked(&mut rig), [0u32; 0], "writes do not mark");
    }

    #[test]
    fn writes_create_dirty_pages_without_reading() {
        let (mut rig, space) = opened(FileKind::Regular);
        rig.call(space, read(0, 1));
        rig.memory.ledger.take();
        assert_eq!(rig.call(space, write(100, 3)), Trouble::default());
        assert_eq!((rig.memory.flusher.nr_dirty(), rig.policy.arrivals.last()), (3, Some(&(Arrival::FileWrite, None))));
        let costs = rig.memory.costs;
        let expected = costs.syscall_ns + 3 * (costs.fd_copy_page_ns + costs.page_cache_add_ns);
        assert_eq!(rig.memory.ledger.take(), expected);
        rig.call(space, write(100, 3));
        assert_eq!(rig.memory.flusher.nr_dirty(), 3);
    }

    #[test]
    fn shared_memory_reads_holes_as_zeroes() {
        let (mut rig, space) = opened(FileKind::SharedMemory);
        assert_eq!(rig.call(space, read(5, 2)), Trouble::default());
        assert_eq!((rig.usage(), rig.policy.marked.len()), (0, 0));
        rig.call(space, write(5, 1));
        rig.call(space, read(4, 2));
        assert_eq!((rig.usage(), rig.policy.marked.len(), rig.memory.flusher.nr_dirty()), (1, 1, 0));
    }

    #[test]
    fn calls_on_memory_without_a_file_are_bad() {
        let (mut rig, space) = opened(FileKind::Regular);
        assert!(rig.call(space, read(999, 2)).bad, "behind the end");
        let space = rig.anonymous(8);
        assert!(rig.call(space, read(0, 1)).bad);
    }
}
