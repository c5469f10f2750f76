//! `opt`: Belady's MIN. The page whose next use lies farthest in the future goes (`docs/mechanism/reclaim.md#baselines`).
//!
//! Each page has a chain of positions at which it is used; each use goes on to the next one. Pages wait in a heap by their next
//! position, one heap an lruvec. A use pushes the new position and leaves the old entry behind as stale. (Positions only grow, so
//! a heap with the farthest on top never hides a fresh entry under a stale one.) A heap four times as large as needed is cleaned.
//!
//! A page shared by processes after a fork has a future in each process; the nearest counts.

use super::order_log::{evict_exactly, grow_for, is_pinned};
use super::outcome::{self, count_on, free_lazily};
use super::scan_balance::PageType;
use super::{Arrival, Hint, ListSizes, LruvecId, PolicyEntry, PolicyError, ReclaimPolicy, Scan, Touches};
use crate::cgroup::CgroupId;
use crate::memory::{FileId, Flag, FrameId, Memory, NodeId, PageOwner};
use crate::mmu::{DensePage, Entry, SpaceId};
use isotherm_units::access::{Future, Owner, Run};
use std::collections::BinaryHeap;

/// Position of a page that is not used again.
const NEVER: u32 = Future::NEVER;
/// Next position of a frame without a page: no entry of a heap matches.
const ABSENT: u32 = u32::MAX - 1;
/// Smaller heaps are not worth cleaning.
const HEAP_MIN: usize = 4096;

/// Entry in the table of policies.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "opt",
    summary: "Belady's MIN: knows the future, the fewest misses possible (baseline)",
    runs_on_linux: false,
    make: |_| Box::new(Opt::new()),
};

/// Belady's MIN. Needs [`ReclaimPolicy::set_future`].
#[derive(Clone, Debug, Default)]
pub struct Opt {
    known: Option<Known>,
    /// The page that was added last.
    newest: Option<FrameId>,
    /// Position of the next use, by frame.
    next_use: Vec<u32>,
    /// Heaps by lruvec.
    heaps: Vec<Heap>,
}

/// The future of one program.
#[derive(Clone, Debug)]
struct Known {
    program: usize,
    future: Future,
    /// By dense page: the position of its next use.
    next: Vec<u32>,
    /// For [`Future::dense_next`].
    latest: usize,
    /// The program's file by the machine's file number.
    files: Vec<Option<usize>>,
}

/// Resident pages of an lruvec, the farthest next use on top.
#[derive(Clone, Debug, Default)]
struct Heap {
    entries: BinaryHeap<(u32, FrameId)>,
    clean_at: usize,
    sizes: ListSizes,
}

impl Opt {
    /// A policy without pages and without a future.
    pub fn new() -> Self {
        Self::default()
    }

    /// The page is used now, or is added for a use that follows (`consume` false). Finds its next use.
    fn update(&mut self, memory: &Memory, frame: FrameId, by: Option<(SpaceId, DensePage)>, consume: bool) {
        debug_assert!(memory.frames.has(frame, Flag::OnList), "only resident pages are used");
        let next = self.known.as_mut().map_or(NEVER, |known| known.next_use(memory, frame, by, consume));
        self.next_use[frame.index()] = next;
        if !can_ever_go(memory, frame) {
            return;
        }
        let lruvec = memory.lruvec_of(frame);
        let heap = &mut self.heaps[lruvec.index()];
        if heap.entries.len() >= heap.clean_at.max(HEAP_MIN) {
            heap.entries.retain(|&(next, frame)| is_valid(memory, &self.next_use, lruvec, next, frame));
            heap.clean_at = 4 * heap.entries.len();
        }
        heap.entries.push((next, frame));
    }

    fn insert(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(!memory.frames.has(frame, Flag::OnList), "already known");
        memory.frames.set(frame, Flag::OnList);
        grow_for(&mut self.next_use, memory, frame, ABSENT);
        debug_assert_eq!(self.next_use[frame.index()], ABSENT, "a page that left has no next use");
        *self.size(memory, frame) += 1;
        self.newest = Some(frame);
        self.update(memory, frame, None, false);
    }

    fn forget(&mut self, memory: &mut Memory, frame: FrameId) {
        if memory.frames.take(frame, Flag::OnList) {
            debug_assert!(*self.size(memory, frame) > 0, "a page that leaves was counted");
            *self.size(memory, frame) -= 1;
            self.next_use[frame.index()] = ABSENT;
        }
    }

    /// The page of `lruvec` with the farthest next use; stale entries above it are dropped.
    fn farthest_of(&mut self, memory: &Memory, lruvec: LruvecId) -> Option<(u32, FrameId)> {
        let entries = &mut self.heaps[lruvec.index()].entries;
        loop {
            let &(next, frame) = entries.peek()?;
            if is_valid(memory, &self.next_use, lruvec, next, frame) {
                return Some((next, frame));
            }
            entries.pop();
        }
    }

    fn size(&mut self, memory: &Memory, frame: FrameId) -> &mut u64 {
        let sizes = &mut self.heaps[memory.lruvec_of(frame).index()].sizes;
        match outcome::page_type(memory, frame) {
            PageType::Anon => &mut sizes.inactive_anon,
            PageType::File => &mut sizes.inactive_file,
        }
    }
}

/// Whether an entry of the heap of `lruvec` is up to date. Positions alone do not decide it, because many pages have "never": the frame may
/// hold another page by now.
fn is_valid(memory: &Memory, next_use: &[u32], lruvec: LruvecId, next: u32, frame: FrameId) -> bool {
    next_use[frame.index()] == next && memory.lruvec_of(frame) == lruvec && can_ever_go(memory, frame)
}

/// Without a swap device anonymous pages stay; they are not searched.
fn can_ever_go(memory: &Memory, frame: FrameId) -> bool {
    memory.slots.total() > 0 || memory.frames.is_file_lru(frame)
}

impl Known {
    /// The next position at which the page is used. `by`: the user, if it is known.
    fn next_use(&mut self, memory: &Memory, frame: FrameId, by: Option<(SpaceId, DensePage)>, consume: bool) -> u32 {
        match memory.frames.owner(frame) {
            PageOwner::File { file, page } => {
                let Some(&Some(file)) = self.files.get(file.index()) else { return NEVER };
                self.position(Owner::File(file), u64::from(page), consume)
            }
            PageOwner::Anonymous { space, page } => {
                let (space, page) = by.unwrap_or((space, page));
                let next = self.of_space(memory, space, page, consume);
                if !memory.frames.has(frame, Flag::Shared) {
                    return next;
                }
                let sharers = memory.mappers(frame);
                let others = sharers.iter().map(|sharer| self.of_space(memory, sharer.space, sharer.page, false));
                others.min().map_or(next, |other| next.min(other))
            }
        }
    }

    fn of_space(&mut self, memory: &Memory, space: SpaceId, page: DensePage, consume: bool) -> u32 {
        let space = memory.space(space);
        let (program, process) = space.process;
        if program != self.program {
            return NEVER;
        }
        self.position(Owner::Process(process), space.table.page_of(page), consume)
    }

    fn position(&mut self, owner: Owner, page: u64, consume: bool) -> u32 {
        let Some(dense) = self.future.dense_next(owner, page, &mut self.latest) else { return NEVER };
        let next = &mut self.next[dense];
        if consume {
            *next = self.future.use_after(*next);
        }
        *next
    }
}

impl ReclaimPolicy for Opt {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        let len = self.heaps.len().max(lruvec.index() + 1);
        self.heaps.resize_with(len, Heap::default);
    }
    fn added(&mut self, memory: &mut Memory, frame: FrameId, _arrival: Arrival, _shadow: Option<u64>) {
        self.insert(memory, frame);
    }
    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.forget(memory, frame);
    }
    fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId) {
        if memory.frames.has(frame, Flag::OnList) {
            self.update(memory, frame, None, true);
        }
    }
    fn hint(&mut self, memory: &mut Memory, frame: FrameId, hint: Hint) -> bool {
        hint == Hint::LazyFree
            && free_lazily(memory, frame, |memory, is_on| {
                count_on(self.size(memory, frame), is_on);
                if is_on {
                    self.update(memory, frame, None, false);
                }
            })
    }
    fn shrink_lruvec(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) {
        self.shrink_exactly(memory, &[lruvec], scan);
    }
    fn shrink_exactly(&mut self, memory: &mut Memory, lruvecs: &[LruvecId], scan: &mut Scan) {
        // Pages that cannot go now are set aside while the search goes on.
        let mut passed_over = Vec::new();
        // Among pages that are not used again the newest goes last. That changes no later hit, and a fault that needs two
        // pages at once (copy on write) does not lose the first to the second.
        let mut newest = None;
        loop {
            let farthest = lruvecs.iter().filter_map(|&lruvec| {
                let (next, frame) = self.farthest_of(memory, lruvec)?;
                Some((next, frame, lruvec))
            });
            let (next, frame, lruvec) = match (farthest.max(), newest.take()) {
                (None, None) => break,
                (None, Some(newest)) => newest,
                (Some((next, ..)), Some(newest)) if next < NEVER => newest,
                (Some(farthest), kept) => {
                    newest = kept;
                    let (next, frame, lruvec) = farthest;
                    self.heaps[lruvec.index()].entries.pop();
                    if next == NEVER && self.newest == Some(frame) {
                        newest = Some(farthest);
                        self.next_use[frame.index()] = ABSENT; // duplicates of the entry are stale from here on
                        continue;
                    }
                    farthest
                }
            };
            if is_pinned(memory, frame) {
                passed_over.push((next, frame, lruvec));
                self.next_use[frame.index()] = ABSENT;
                continue;
            }
            debug_assert!(
                memory.frames.has(frame, Flag::OnList),
                "entries that are up to date are those of listed pages"
            );
            self.forget(memory, frame);
            if evict_exactly(memory, self, frame, scan) {
                break;
            }
            memory.frames.set(frame, Flag::OnList);
            *self.size(memory, frame) += 1;
            passed_over.push((next, frame, memory.lruvec_of(frame)));
        }
        for (next, frame, lruvec) in passed_over.into_iter().chain(newest) {
            self.next_use[frame.index()] = next;
            self.heaps[lruvec.index()].entries.push((next, frame));
        }
    }
    fn age_node(&mut self, _memory: &mut Memory, _node: NodeId, _scan: &mut Scan) {}
    fn reclaim_ended(&mut self, _memory: &mut Memory, _node: Option<NodeId>, _scan: &Scan) {}
    fn writeback_ended(&mut self, _memory: &mut Memory, _frame: FrameId) {}
    fn shadow_of(&mut self, _memory: &mut Memory, _frame: FrameId, _root: CgroupId) -> Option<u64> {
        None
    }
    fn sizes(&self, lruvec: LruvecId) -> ListSizes {
        self.heaps[lruvec.index()].sizes
    }
    fn check(&self, memory: &Memory) -> Result<(), String> {
        for (index, heap) in self.heaps.iter().enumerate() {
            let lruvec = LruvecId(u32::try_from(index).expect("few lruvecs"));
            let valid = |&&(next, frame): &&(u32, FrameId)| is_valid(memory, &self.next_use, lruvec, next, frame);
            let mut frames: Vec<FrameId> = heap.entries.iter().filter(valid).map(|&(_, frame)| frame).collect();
            frames.sort_unstable();
            frames.dedup();
            if let Some(frame) = frames.iter().find(|&&frame| !memory.frames.has(frame, Flag::OnList)) {
                return Err(format!("{frame:?} is in a heap but has no list flag"));
            }
            let listed = heap.sizes.file() + if memory.slots.total() > 0 { heap.sizes.anon() } else { 0 };
            if frames.len() as u64 != listed {
                return Err(format!("heap {index} holds {} pages, {listed} expected", frames.len()));
            }
        }
        Ok(())
    }
    fn wanted_touches(&self) -> Touches {
        Touches::All
    }
    fn touched(&mut self, memory: &mut Memory, space: SpaceId, runs: &[Run]) {
        let table = &memory.space(space).table;
        for run in runs {
            for page in run.page()..run.page() + u64::from(run.pages) {
                let Some(dense) = table.dense(page) else { continue };
                match table.entry(dense) {
                    Entry::Frame(frame) => self.update(memory, frame, Some((space, dense)), true),
                    // The shared zero page: a use without a page that could be evicted.
                    Entry::Zero => {
                        if let Some(known) = &mut self.known {
                            known.of_space(memory, space, dense, true);
                        }
                    }
                    Entry::None | Entry::Swap(_) => {}
                }
            }
        }
    }
    fn is_exact(&self) -> bool {
        true
    }
    fn needs_future(&self) -> bool {
        true
    }
    fn set_future(&mut self, program: usize, future: Future, files: &[FileId]) -> Result<(), PolicyError> {
        if let Some(known) = self.known.as_ref().filter(|known| known.program != program) {
            return Err(PolicyError::SeveralFutures { first: known.program, second: program });
        }
        let mut by_machine = vec![None; files.iter().map(|file| file.index() + 1).max().unwrap_or(0)];
        for (index, file) in files.iter().enumerate() {
            by_machine[file.index()] = Some(index);
        }
        let next = future.first_uses().to_vec();
        self.known = Some(Known { program, future, next, latest: 0, files: by_machine });
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn ReclaimPolicy>> {
        Some(Box::new(self.clone()))
    }
}
