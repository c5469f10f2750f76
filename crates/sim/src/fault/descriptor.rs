//! `read()` and `write()`: pages of a file through a descriptor (spec classic-lru 3.1, 3.2, 9.4).
//!
//! A file is named by a mapping of it in the same address space. One call is one run; its pages are handled in order, so a
//! call that must wait goes on at the page where it stopped.

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
    /// The page at which the previous read of this file ended: going on in it is not a new use.
    ended_at: Option<u64>,
    /// The last page read.
    last: Option<(FileId, u64)>,
}

/// Handles what is left of a `read()` or `write()`: `run` begins at the first page not done, `done` counts the pages of the
/// call and grows with each. After [`FaultOutcome::Done`] the whole run is done.
///
/// Counts no faults. Reads mark pages accessed, once per page and call; writes do not.
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

/// One page of a call that has `left` pages to go, this one included.
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
    let dense = memory.space(space).table.dense(page).ok_or(bad)?;
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
    let frame = match (shared, write) {
        (true, false) => reading.read_shared(file, file_page)?,
        (true, true) => Some(reading.shared_page(file, file_page)?),
        (false, false) => Some(reading.read_page(file, file_page, left)?),
        (false, true) => Some(reading.write_page(file, file_page)?),
    };
    memory.ledger.spend(memory.costs.fd_copy_page_ns);
    let call = state.call.as_mut().expect("begun above");
    let goes_on = call.ended_at.take() == Some(file_page);
    if !write {
        call.last = Some((file, file_page));
    }
    match frame {
        Some(frame) if write => memory.dirty_file_page(frame),
        Some(frame) if !goes_on => policy.mark_accessed(memory, frame),
        _ => {}
    }
    state.current = None;
    Ok(())
}

impl Faulting<'_> {
    /// The page of a regular file for `read()` with `left` pages to go.
    fn read_page(&mut self, file: FileId, page: u64, left: u64) -> Step<FrameId> {
        let first_look = !std::mem::replace(&mut self.current().tried, true);
        let exact = self.policy.is_exact();
        if let CachePage::Frame(frame) = self.memory.files.get(file).page(page) {
            if first_look && !exact && self.memory.frames.take(frame, Flag::Readahead) {
                let window = self.memory.plan(self.space, file, |readahead, limits, is_cached| {
                    readahead.marked_page(page, left, limits, is_cached)
                });
                self.read_ahead(file, window)?;
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
            CachePage::Frame(frame) => self.when_read(frame),
            _ => {
                let frame = self.add_page(file, page, Arrival::FileRead)?;
                self.memory.submit_file_read(file, &[frame]);
                self.when_read(frame)
            }
        }
    }

    fn read_ahead(&mut self, file: FileId, window: Option<crate::readahead::file::Window>) -> Step {
        let Some(window) = window else { return Ok(()) };
        let cgroup = self.memory.space(self.space).cgroup;
        let window = FileWindow { file, pages: window.range, mark: window.mark, cgroup };
        begin_file_window(self.memory, self.policy, self.state, window)
    }

    /// The page of a regular file that `write()` fills whole: nothing is read, but a read in progress is waited for.
    fn write_page(&mut self, file: FileId, page: u64) -> Step<FrameId> {
        match self.memory.files.get(file).page(page) {
            CachePage::Frame(frame) => self.when_read(frame),
            _ => self.add_page(file, page, Arrival::FileWrite),
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
