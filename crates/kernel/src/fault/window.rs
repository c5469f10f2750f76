//! Reading ahead, page by page: a window that survives shortages.
//!
//! A window is planned once and then read in order. When a page of the window finds no memory, the pages taken so far are submitted and the
//! thread reclaims; the next call goes on where it stopped. Swap windows insist (as the kernel's swap readahead reclaims like any
//! allocation); file windows give up after one reclaim that did not help.

use super::allocate::allocate_at_hand;
use super::folios::{FolioWindow, read_folios};
use super::{FaultOutcome, FaultState, Faulting, Step, allocate};
use crate::cgroup::CgroupId;
use crate::memory::{CachePage, FileId, Flag, FrameId, Memory, PageOwner};
use crate::readahead::file::LargeWindow;
use crate::reclaim::{Arrival, ReclaimPolicy};
use crate::swap::SlotId;
use isotherm_units::PageRange;
use smallvec::SmallVec;

/// Pages of the largest window with the default setting, 128 KiB.
const WINDOW_USUAL: usize = 32;

/// Pages that are still to be read.
#[derive(Clone, Debug)]
pub(super) enum Window {
    /// Slots in swap, in this order; the last ones first.
    Swap(Vec<Planned>),
    File(FileWindow),
    Folios(FolioWindow),
}

/// A slot to read, and whose page it will be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) slot: SlotId,
    pub(super) owner: PageOwner,
    /// Read ahead, not asked for.
    pub(super) neighbour: bool,
}

/// Pages of a file to read where they are not cached.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileWindow {
    pub(super) file: FileId,
    pub(super) pages: PageRange,
    /// Gets the readahead mark.
    pub(super) mark: Option<u64>,
    /// How large its folios may be; `None`: single pages.
    pub(super) large: Option<LargeWindow>,
    pub(super) cgroup: CgroupId,
}

impl Faulting<'_> {
    /// Goes on with the window that an earlier call began.
    pub(super) fn continue_window(&mut self) -> Step {
        continue_window(self.memory, self.policy, self.state)
    }
}

/// Reads the rest of the thread's window, if it has one.
pub(super) fn continue_window(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, state: &mut FaultState) -> Step {
    match state.window.take() {
        None => Ok(()),
        Some(Window::Swap(planned)) => read_slots(memory, policy, state, planned),
        Some(Window::File(window)) => read_pages(memory, policy, state, window),
        Some(Window::Folios(window)) => read_folios(memory, policy, state, window),
    }
}

/// Plans `window` and begins to read it.
pub(super) fn begin_file_window(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    state: &mut FaultState,
    mut window: FileWindow,
) -> Step {
    window.pages.end = window.pages.end.min(memory.files.get(window.file).len());
    state.optional = false;
    if window.large.is_some() {
        let window = FolioWindow::new(memory, &window);
        return read_folios(memory, policy, state, window);
    }
    read_pages(memory, policy, state, window)
}

fn read_slots(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    state: &mut FaultState,
    mut planned: Vec<Planned>,
) -> Step {
    let mut frames = Vec::with_capacity(planned.len());
    let mut outcome = Ok(());
    state.optional = false;
    while let Some(&next) = planned.last() {
        // Reclaim in between may have let other threads read or free the slot.
        if memory.slots.is_used(next.slot) && memory.slots.cached(next.slot).is_none() {
            match add_swap_page(memory, policy, state, next) {
                Ok(frame) => frames.push(frame),
                Err(shortage) => {
                    state.window = Some(Window::Swap(planned));
                    outcome = Err(shortage);
                    break;
                }
            }
        }
        planned.pop();
    }
    memory.submit_swap_read(&frames);
    if frames.len() > 1 {
        policy.insert_waiting(memory);
    }
    outcome
}

/// Puts a page for `planned.slot` into the swap cache and on the policy's lists. The page holds no data yet.
pub(super) fn add_swap_page(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    state: &FaultState,
    planned: Planned,
) -> Step<FrameId> {
    let Planned { slot, owner, neighbour } = planned;
    let cgroup = memory.slots.cgroup(slot);
    let frame = allocate(memory, cgroup, state.node, state.policy).map_err(FaultOutcome::Short)?;
    memory.frames.assign(frame, owner, cgroup);
    memory.frames.set(frame, Flag::SwapBacked);
    if memory.slots.is_shared(slot) {
        memory.frames.set(frame, Flag::Shared);
    }
    if neighbour {
        memory.frames.set(frame, Flag::Readahead);
        memory.ledger.spend(memory.costs.page_cache_add_ns);
    }
    let shadow = memory.slots.shadow(slot);
    memory.slots.set_shadow(slot, None);
    memory.slots.set_cached(slot, frame);
    memory.frames.set_slot(frame, Some(slot));
    policy.added(memory, frame, Arrival::SwapIn, shadow);
    Ok(frame)
}

fn read_pages(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    state: &mut FaultState,
    mut window: FileWindow,
) -> Step {
    let mut frames = SmallVec::<[FrameId; WINDOW_USUAL]>::new();
    let mut outcome = Ok(());
    while !window.pages.is_empty() {
        let nr_added = add_at_hand(memory, policy, state, &window, &mut frames);
        if nr_added > 0 {
            window.pages.start += nr_added as u64;
            state.optional = false;
            continue;
        }
        let page = window.pages.start;
        let (CachePage::Absent | CachePage::Shadow(_)) = memory.files.get(window.file).page(page) else {
            memory.ledger.spend(memory.costs.readahead_look_ns);
            window.pages.start += 1;
            continue;
        };
        match add_file_page(memory, policy, state, window.file, page, window.cgroup, Arrival::FileRead) {
            Ok(frame) => {
                if window.mark == Some(page) {
                    memory.frames.set(frame, Flag::Readahead);
                }
                frames.push(frame);
                window.pages.start += 1;
                state.optional = false;
            }
            Err(_) if state.optional => {
                state.optional = false; // reclaim did not help: no more pages for guesses
                break;
            }
            Err(shortage) => {
                state.optional = true;
                state.window = Some(Window::File(window));
                outcome = Err(shortage);
                break;
            }
        }
    }
    memory.submit_file_read(window.file, &frames);
    outcome
}

/// Does the same as [`add_file_page`] for the first pages of a window, as far as they follow each other, need no memory but what is at
/// hand, and fit a batch. Returns how many, and appends their frames.
fn add_at_hand(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    state: &FaultState,
    window: &FileWindow,
    frames: &mut SmallVec<[FrameId; WINDOW_USUAL]>,
) -> usize {
    let &FileWindow { file, pages: PageRange { start, .. }, mark, cgroup, .. } = window;
    let nr_absent = memory.files.get(file).shadows_before_cached(window.pages).take(WINDOW_USUAL).count();
    let before = frames.len();
    allocate_at_hand(memory, cgroup, state.node, nr_absent, frames);
    let taken = &frames[before..];
    let Some(&first) = taken.first() else { return 0 };
    let mut added = SmallVec::<[(FrameId, Option<u64>); WINDOW_USUAL]>::new();
    let shadows = memory.files.get(file).shadows_before_cached(window.pages);
    for ((&frame, page), shadow) in taken.iter().zip(start..).zip(shadows) {
        let owner = PageOwner::File { file, page: u32::try_from(page).expect("files are below 16 TiB") };
        memory.frames.assign(frame, owner, cgroup);
        added.push((frame, shadow));
    }
    let lruvec = memory.lruvec_of(first);
    memory.files.fill(file, start, taken, lruvec);
    memory.ledger.spend(taken.len() as u64 * memory.costs.page_cache_add_ns);
    policy.added_all(memory, &added, Arrival::FileRead);
    let marked = mark.and_then(|mark| taken.get(usize::try_from(mark.checked_sub(start)?).ok()?));
    if let Some(&frame) = marked {
        memory.frames.set(frame, Flag::Readahead);
    }
    taken.len()
}

/// Puts a new page of a file into the page cache and on the policy's lists. The page holds no data yet.
pub(super) fn add_file_page(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    state: &FaultState,
    file: FileId,
    page: u64,
    cgroup: CgroupId,
    arrival: Arrival,
) -> Step<FrameId> {
    let frame = allocate(memory, cgroup, state.node, state.policy).map_err(FaultOutcome::Short)?;
    memory.ledger.spend(memory.costs.page_cache_add_ns);
    put_file_page(memory, policy, frame, (file, page), cgroup, arrival);
    Ok(frame)
}

/// Makes `frame`, which is charged to `cgroup`, a page of a file that is absent, without cost.
pub(crate) fn put_file_page(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    frame: FrameId,
    (file, page): (FileId, u64),
    cgroup: CgroupId,
    arrival: Arrival,
) {
    let shadow = match memory.files.get(file).page(page) {
        CachePage::Shadow(shadow) if arrival != Arrival::FileWrite => Some(shadow),
        CachePage::Absent | CachePage::Shadow(_) => None,
        CachePage::Frame(_) | CachePage::Swap(_) => unreachable!("only absent pages are added"),
    };
    let owner = PageOwner::File { file, page: u32::try_from(page).expect("files are below 16 TiB") };
    memory.frames.assign(frame, owner, cgroup);
    if arrival == Arrival::Anonymous {
        memory.frames.set(frame, Flag::SwapBacked);
    }
    let lruvec = memory.lruvec_of(frame);
    memory.files.set_page(file, page, CachePage::Frame(frame), lruvec);
    policy.added(memory, frame, arrival, shadow);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reclaim::POLICIES;
    use crate::swap::device::DeviceKind;
    use crate::testkit::{Testbed, setup};
    use isotherm_units::access::{Channel, FileKind, Run, Sharing};

    /// As [`read_pages`], by [`add_file_page`] alone.
    fn read_one_by_one(bed: &mut Testbed, window: FileWindow) -> Step {
        let Testbed { memory, policy, state, .. } = bed;
        let (mut frames, mut outcome) = (Vec::new(), Ok(()));
        for page in window.pages.start..window.pages.end {
            if matches!(memory.files.get(window.file).page(page), CachePage::Frame(_)) {
                memory.ledger.spend(memory.costs.readahead_look_ns);
                continue;
            }
            let FileWindow { file, cgroup, mark, .. } = window;
            match add_file_page(memory, policy.as_mut(), state, file, page, cgroup, Arrival::FileRead) {
                Ok(frame) => {
                    if mark == Some(page) {
                        memory.frames.set(frame, Flag::Readahead);
                    }
                    frames.push(frame);
                }
                Err(shortage) => {
                    outcome = Err(shortage);
                    break;
                }
            }
        }
        memory.submit_file_read(window.file, &frames);
        outcome
    }

    /// Pages that were here before and new ones, some of them cached; with room for all and for a part, as far as the limit and as far as
    /// the watermark.
    #[test]
    fn a_window_is_read_as_page_by_page() {
        for entry in POLICIES {
            let mut bed = Testbed::assemble(&setup(&[1024], DeviceKind::Zram, 100), entry.build());
            let Some(_) = bed.policy.fork().filter(|policy| !policy.needs_future()) else { continue };
            bed.cgroup = bed.group(CgroupId::ROOT, "test");
            let space = bed.process_of(bed.cgroup);
            bed.map_file(space, "data", 0, 1500, Sharing::Shared, FileKind::Regular);
            bed.limit(100);
            for first in [0, 300, 120] {
                bed.call(space, Run::read(first, 150).through(Channel::FileDescriptor));
            }
            bed.settle();
            for (limit, pages) in [(5000, 90..350), (130, 90..350), (5000, 0..1500), (90, 0..10)] {
                bed.limit(limit);
                let pages = PageRange::new(pages.start, pages.end);
                let window = FileWindow {
                    file: FileId::from_index(0),
                    pages,
                    mark: Some(pages.start + 5),
                    large: None,
                    cgroup: bed.cgroup,
                };
                let read = |together: bool| {
                    let mut copy = Testbed::assemble(&setup(&[1024], DeviceKind::Zram, 100), entry.build());
                    (copy.memory, copy.policy) = (bed.memory.clone(), bed.policy.fork().expect("it did above"));
                    let outcome = if together {
                        begin_file_window(&mut copy.memory, copy.policy.as_mut(), &mut copy.state, window)
                    } else {
                        read_one_by_one(&mut copy, window)
                    };
                    let memory = &mut copy.memory;
                    let cached = memory.files.get(window.file).frames_among(PageRange::new(90, 154), u64::MAX);
                    let flags: Vec<_> = cached.map(|(page, frame)| (page, memory.frames.flags(frame))).collect();
                    let mut in_flight: Vec<_> = memory.io.in_flight().collect();
                    in_flight.sort_unstable();
                    let state = format!("{:?} {:?}", memory.files, memory.cgroups);
                    let counts = (memory.counters, memory.charged, memory.ledger.take(), memory.kswapd_wanted.clone());
                    copy.check_lists();
                    (outcome.is_ok(), flags, in_flight, state, counts)
                };
                assert!(read(true) == read(false), "{} {limit} {pages:?}", entry.name);
            }
        }
    }
}
