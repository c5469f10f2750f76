//! Folios of several pages: how a window of readahead and a write make them, and how a fault maps them
//! (docs/spec/large-folios.md#f2-6, #f2-8, #f4).

use super::window::{FileWindow, Window, add_file_page};
use super::{FaultOutcome, FaultState, Faulting, Shortage, Step};
use crate::cgroup::{CgroupId, OverLimit};
use crate::memory::{CachePage, FileId, Flag, FrameId, KernelRelease, Mark, Memory, NoBlock, NodeId, PageOwner};
use crate::mmu::{Entry, Need};
use crate::readahead::file::{FaultAround, Window as ReadWindow};
use crate::readahead::orders::{FolioBounds, Placed, Placement};
use crate::readahead::write;
use crate::reclaim::{Arrival, ReclaimPolicy};
use isotherm_units::{PAGE_BYTES, PageRange};
use std::cell::Cell;

/// Pages under one table of entries.
const TABLE_PAGES: u64 = 512;

/// Why there is no folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoFolio {
    /// `memory.max` of this group leaves no room for all of it.
    Limit(CgroupId),
    /// No block of this size is free.
    NoBlock,
}

/// A block of 2^`order` frames of `node`, charged in one go. The caller has single pages to fall back on, so nothing is compacted.
///
/// # Errors
/// What is missing; nothing is taken then.
fn allocate(memory: &mut Memory, cgroup: CgroupId, node: NodeId, order: u32) -> Result<FrameId, NoFolio> {
    let Memory { nodes, frames, kswapd_wanted, .. } = memory;
    let found = nodes.take_block(frames, node, order, Mark::Low).or_else(|why| {
        if why == NoBlock::Watermark {
            kswapd_wanted[node.index()] = true;
        }
        nodes.take_block(frames, node, order, Mark::Min)
    });
    let head = found.map_err(|_| NoFolio::NoBlock)?;
    match memory.cgroups.charge_folio(cgroup, 1 << order) {
        Ok(charge) => memory.charged += charge.charged,
        Err(OverLimit(over)) => {
            memory.give_target(head, order);
            return Err(NoFolio::Limit(over));
        }
    }
    if let Some(ground_truth) = &mut memory.ground_truth {
        for at in 0..1 << order {
            let frame = FrameId::new(head.index_u32() + at);
            ground_truth.forget(frame, memory.frames.cgroup(frame));
        }
    }
    Ok(head)
}

/// Makes 2^`order` frames from `head` on, charged to `cgroup`, the pages of `file` from `page` on, none of which is cached: one folio, and
/// one member of the policy's lists. It holds no data yet.
pub(crate) fn put_folio(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    (head, order): (FrameId, u32),
    (file, page): (FileId, u64),
    cgroup: CgroupId,
    arrival: Arrival,
) {
    let range = PageRange::at(page, 1 << order);
    let shadow = if arrival == Arrival::FileWrite { None } else { memory.last_shadow(file, range) };
    let frames: Vec<FrameId> = (0..1 << order).map(|at| FrameId::new(head.index_u32() + at)).collect();
    for (&frame, page) in frames.iter().zip(range.start..range.end) {
        let owner = PageOwner::File { file, page: u32::try_from(page).expect("files are below 16 TiB") };
        memory.frames.assign(frame, owner, cgroup);
    }
    memory.frames.join(head, order);
    let lruvec = memory.lruvec_of(head);
    memory.files.fill(file, page, &frames, lruvec);
    policy.added(memory, head, arrival, shadow);
}

/// Takes a folio for the pages of `file` from `page` on, charges it and puts it into the page cache.
fn add_folio(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    state: &FaultState,
    (file, page, order): (FileId, u64, u32),
    cgroup: CgroupId,
    arrival: Arrival,
) -> Result<FrameId, NoFolio> {
    let head = allocate(memory, cgroup, state.node, order)?;
    memory.ledger.spend(memory.costs.page_cache_add_ns);
    put_folio(memory, policy, (head, order), (file, page), cgroup, arrival);
    Ok(head)
}

/// A window of a file whose folios may have several pages, as far as it is not read.
#[derive(Clone, Debug)]
pub(super) struct FolioWindow {
    file: FileId,
    cgroup: CgroupId,
    placement: Placement,
    /// The folio that found no room under a limit, once.
    short: Option<Placed>,
}

impl FolioWindow {
    /// All of `window`.
    pub(super) fn new(memory: &Memory, &FileWindow { file, pages, mark, large, cgroup }: &FileWindow) -> Self {
        let window = ReadWindow { range: pages, mark, large };
        Self { file, cgroup, placement: Placement::new(&window, &memory.readahead_limits(file)), short: None }
    }

    /// The folio to make next.
    fn next(&mut self, memory: &mut Memory) -> Option<Placed> {
        let known = memory.files.get(self.file);
        let looks = Cell::new(0);
        let is_cached = |page| {
            let is_cached = matches!(known.page(page), CachePage::Frame(_));
            looks.set(looks.get() + u64::from(is_cached));
            is_cached
        };
        let placed = match self.short.take() {
            // Reclaim in between may have let another thread read it.
            Some(short) if (short.pages().start..short.pages().end).any(is_cached) => {
                self.placement.met(short);
                self.placement.next(is_cached)
            }
            Some(short) => Some(short),
            None => self.placement.next(is_cached),
        };
        memory.ledger.spend(looks.get() * memory.costs.readahead_look_ns);
        placed
    }
}

/// Reads the folios of a window that are left. Where one leaves no room under a limit, its thread reclaims once; if that does not help, or
/// no block is free, or a page is cached by now, the rest of the window has single pages.
pub(super) fn read_folios(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    state: &mut FaultState,
    mut window: FolioWindow,
) -> Step {
    let FolioWindow { file, cgroup, .. } = window;
    let mut heads = Vec::new();
    let mut outcome = Ok(());
    while let Some(placed) = window.next(memory) {
        let Placed { first, order, marked } = placed;
        let added = match order {
            0 => match add_file_page(memory, policy, state, file, first, cgroup, Arrival::FileRead) {
                Ok(frame) => Ok(frame),
                Err(FaultOutcome::Short(shortage)) => Err(Some(shortage)),
                Err(_) => Err(None),
            },
            _ => match add_folio(memory, policy, state, (file, first, order), cgroup, Arrival::FileRead) {
                Ok(head) => Ok(head),
                Err(NoFolio::Limit(over)) => Err(Some(Shortage::Limit(over))),
                Err(NoFolio::NoBlock) => Err(None),
            },
        };
        match added {
            Ok(head) => {
                if marked {
                    memory.frames.set(head, Flag::Readahead);
                }
                heads.push(head);
                state.optional = false;
            }
            Err(Some(shortage)) if !state.optional => {
                (state.optional, state.pages_short) = (true, 1 << order);
                window.short = Some(placed);
                outcome = Err(FaultOutcome::Short(shortage));
                break;
            }
            Err(_) => {
                state.optional = false;
                window.placement.refuse(placed);
            }
        }
    }
    memory.submit_file_read(file, &heads);
    if outcome.is_err() {
        state.window = Some(Window::Folios(window));
    }
    outcome
}

impl Faulting<'_> {
    /// The folio for a `write()` of `left` pages from `page` on, which is not cached: the largest that fits, is free and leaves room under
    /// the limit, after one reclaim for it. `None`: a single page.
    pub(super) fn write_folio(&mut self, file: FileId, page: u64, left: u64) -> Step<Option<FrameId>> {
        let max = self.memory.folio_order_max(file);
        if max == 0 {
            return Ok(None);
        }
        let (cgroup, may_reclaim) = (self.cgroup(), !std::mem::take(&mut self.state.optional));
        let bounds = FolioBounds::new(0, max);
        let tries = write::tries(page * PAGE_BYTES, Some(left * PAGE_BYTES), bounds);
        for pages in tries.take_while(|pages| pages.len() > 1) {
            let known = self.memory.files.get(file);
            let is_free = (pages.start..pages.end).all(|page| !matches!(known.page(page), CachePage::Frame(_)));
            if !is_free || pages.end > known.len() {
                continue;
            }
            let at = (file, page, pages.len().ilog2());
            match add_folio(self.memory, self.policy, self.state, at, cgroup, Arrival::FileWrite) {
                Ok(head) => return Ok(Some(head)),
                Err(NoFolio::Limit(over)) if may_reclaim => {
                    (self.state.optional, self.state.pages_short) = (true, pages.len());
                    return Err(FaultOutcome::Short(Shortage::Limit(over)));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Fault-around where folios may have several pages: as [`fault_around`](Self::fault_around). From 6.18 on a folio that lies wholly in
    /// the mapping, in one table and before the end of the file is mapped whole.
    pub(super) fn fault_around_folios(&mut self, file: FileId, page: u64, range: PageRange) -> bool {
        let release = self.memory.config.release;
        let mut around = FaultAround { tried: self.current().tried, ..FaultAround::default() };
        let mut ready: Vec<(u64, FrameId)> = Vec::new();
        let mut skip_until = 0;
        for virtual_page in range.start..range.end {
            let file_page = page + virtual_page - self.page;
            let CachePage::Frame(frame) = self.memory.files.get(file).page(file_page) else { continue };
            let flags = self.memory.frames.flags(self.memory.frames.head(frame));
            if flags.has_any([Flag::Reading, Flag::Readahead]) || self.memory.arrival_at(frame).is_some() {
                continue;
            }
            let workingset = flags.has(Flag::Workingset);
            around.ready += u32::from(!workingset);
            if file_page == page {
                around.workingset = workingset;
            }
            if virtual_page < skip_until {
                continue;
            }
            match self.whole_folio(file, page, frame).filter(|_| release > KernelRelease::V6_12) {
                Some((at, head)) => {
                    ready.extend((at.start..at.end).zip(self.memory.frames.folio(head)));
                    skip_until = at.end;
                }
                None => ready.push((virtual_page, frame)),
            }
        }
        let mut nr_mapped = 0;
        for part in ready.chunk_by(|one, other| one.0 / 64 == other.0 / 64) {
            let space = self.memory.space_mut(self.space);
            let dense = space.table.dense(part[0].0).expect("under the table of the fault");
            let mapped = space.table.map_around(dense, part, false);
            nr_mapped += u64::from(mapped.count_ones());
            around.found |= part.iter().enumerate().any(|(at, one)| one.0 == self.page && mapped >> at & 1 != 0);
        }
        self.memory.space_mut(self.space).nr_resident += nr_mapped;
        self.learn_from(file, around, release);
        self.memory.ledger.spend(nr_mapped * self.memory.costs.fault_around_page_ns);
        around.found
    }

    /// Where the mapping shows the folio of `frame`, if that is one of several pages that can be mapped whole, and its head. The fault is at
    /// `page` of the file.
    fn whole_folio(&self, file: FileId, page: u64, frame: FrameId) -> Option<(PageRange, FrameId)> {
        let frames = &self.memory.frames;
        if frames.order(frame) == 0 {
            return None;
        }
        let head = frames.head(frame);
        let PageOwner::File { page: first, .. } = frames.owner(head) else { unreachable!("a page of a file") };
        let (first, pages) = (u64::from(first), frames.nr_pages(head));
        let start = (self.page + first).checked_sub(page)?;
        let shown = PageRange::at(start, pages);
        let is_whole = self.vma.pages().intersection(shown) == shown
            && shown.start / TABLE_PAGES == (shown.end - 1) / TABLE_PAGES
            && first + pages <= self.memory.files.get(file).len();
        is_whole.then_some((shown, head))
    }

    /// Maps `frame`, a page of a file, where nothing is mapped; from 6.18 on with all of its folio, if that can be mapped whole and none of
    /// its entries is there (`finish_fault`, mm/memory.c, Linux 6.12 and 7.2).
    pub(super) fn map_file_page(&mut self, (file, page): (FileId, u64), frame: FrameId, writable: bool) {
        let whole = match self.memory.config.release {
            KernelRelease::V6_12 => None,
            KernelRelease::V6_18 | KernelRelease::V7_2 => self.whole_folio(file, page, frame),
        };
        let Some((shown, head)) = whole else { return self.map_here(frame, writable) };
        let table = &self.memory.space(self.space).table;
        let is_empty = |page| table.dense(page).is_some_and(|dense| table.entry(dense) == Entry::None);
        if !(shown.start..shown.end).all(is_empty) {
            return self.map_here(frame, writable);
        }
        let dirty = writable && self.need == Need::Write;
        for (page, frame) in (shown.start..shown.end).zip(self.memory.frames.folio(head)) {
            let space = self.memory.space_mut(self.space);
            let dense = space.table.dense(page).expect("just looked at");
            space.table.set_present(dense, Entry::Frame(frame), writable, true, dirty);
            space.nr_resident += 1;
        }
        let further = shown.len() - 1;
        self.memory.ledger.spend(further * self.memory.costs.fault_around_page_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmu::SpaceId;
    use crate::reclaim::policy_by_name;
    use crate::testkit::Testbed;
    use isotherm_units::access::{Channel, LayoutChange, Run};

    fn bed(release: KernelRelease) -> Testbed {
        Testbed::with_folios(policy_by_name("classic").expect("in the table").build(), release, 8192)
    }

    /// The folios of pages from `from` on, as the spec writes them.
    fn folios(bed: &Testbed, file: FileId, from: u64) -> String {
        let frames = &bed.memory.frames;
        let mut text = Vec::new();
        for (page, known) in bed.memory.files.get(file).known_pages().filter(|&(page, _)| page >= from) {
            let CachePage::Frame(frame) = known else { continue };
            if frames.head(frame) == frame {
                let mark = if frames.has(frame, Flag::Readahead) { "*" } else { "" };
                text.push(format!("{page}:{}{mark}", frames.order(frame)));
            }
        }
        text.join(" ")
    }

    fn opened(release: KernelRelease, pages: u64) -> (Testbed, SpaceId, FileId) {
        let mut bed = bed(release);
        let file = bed.file("data", pages);
        let space = bed.process_of(CgroupId::ROOT);
        bed.map_open_file(space, 0, file, pages, false);
        (bed, space, file)
    }

    fn call(bed: &mut Testbed, space: SpaceId, run: Run) {
        bed.call(space, run.through(Channel::FileDescriptor));
        bed.settle();
        bed.check_lists();
    }

    /// The rows of L1: after which page what is cached from which page on.
    #[test]
    fn l1_a_stream_of_4_kib() {
        let rows_7_2 = [
            (0, 0, "0:0 1:0* 2:0 3:0"),
            (1, 4, "4:2* 8:2"),
            (4, 12, "12:2*"),
            (12, 16, "16:3*"),
            (16, 24, "24:3*"),
            (24, 32, "32:4*"),
            (32, 48, "48:4*"),
            (48, 64, "64:5*"),
            (64, 96, "96:5*"),
            (192, 224, "224:5"),
        ];
        let rows_6_12 = [
            (0, 0, "0:2 4:2* 8:2"),
            (4, 12, "12:2* 16:3 24:2"),
            (12, 28, "28:2* 32:4 48:3 56:2"),
            (28, 60, "60:2* 64:4 80:3 88:2"),
            (188, 220, "220:2* 224:4 240:3 248:2"),
            (220, 252, "252:2*"),
        ];
        for (release, rows, nr) in [(KernelRelease::V7_2, &rows_7_2[..], 17), (KernelRelease::V6_12, &rows_6_12, 35)] {
            let (mut bed, space, file) = opened(release, 256);
            for page in 0..256 {
                call(&mut bed, space, Run::read(page, 1));
                if let Some((_, from, expected)) = rows.iter().find(|row| row.0 == page) {
                    assert_eq!(&folios(&bed, file, *from), expected, "{release}: after page {page}");
                }
            }
            assert_eq!(folios(&bed, file, 0).split(' ').count(), nr, "{release}");
        }
    }

    #[test]
    fn l4_a_short_file() {
        let (mut bed, space, file) = opened(KernelRelease::V7_2, 10);
        call(&mut bed, space, Run::read(0, 1));
        call(&mut bed, space, Run::read(1, 1));
        assert_eq!(folios(&bed, file, 4), "4:2 8:1");
        let (mut bed, space, file) = opened(KernelRelease::V6_12, 10);
        call(&mut bed, space, Run::read(0, 1));
        assert_eq!(folios(&bed, file, 0), "0:2 4:2* 8:1");
    }

    #[test]
    fn l6_read_around() {
        let (mut bed, space, file) = opened(KernelRelease::V7_2, 4096);
        bed.read(space, 1000);
        let marked = folios(&bed, file, 1008);
        assert!(marked.starts_with("1008:0* 1009:0") && marked.ends_with("1015:0"), "{marked}");
        bed.read(space, 1008);
        assert!(folios(&bed, file, 1016).starts_with("1016:2* 1020:2"));
        bed.settle();
        bed.read(space, 1016);
        assert_eq!(folios(&bed, file, 1048), "1048:3* 1056:4");
        let (mut bed, space, file) = opened(KernelRelease::V6_12, 4096);
        bed.read(space, 1000);
        assert_eq!(folios(&bed, file, 984), "984:2 988:2 992:2 996:2 1000:2 1004:2 1008:2* 1012:2");
        bed.settle();
        bed.read(space, 1008);
        assert_eq!(folios(&bed, file, 1016), "1016:3* 1024:4 1040:3");
        bed.settle();
        bed.check_lists();
    }

    #[test]
    fn l11_l12_writes() {
        let (mut bed, space, file) = opened(KernelRelease::V7_2, 2048);
        call(&mut bed, space, Run::write(1, 50));
        assert_eq!(folios(&bed, file, 0), "1:0 2:1 4:2 8:3 16:4 32:4 48:1 50:0");
        assert_eq!(bed.memory.flusher.nr_dirty(), 50);
        call(&mut bed, space, Run::write(512, 512));
        assert_eq!(folios(&bed, file, 512), "512:9");
        call(&mut bed, space, Run::write(1535, 2));
        assert_eq!(folios(&bed, file, 1024), "1535:0 1536:0");
    }

    #[test]
    fn l19_fault_around() {
        for (release, whole, part) in [(KernelRelease::V6_12, 32..48, 32..48), (KernelRelease::V7_2, 32..64, 32..48)] {
            for (pages, expected) in [(256, whole), (50, part)] {
                let mut bed = bed(release);
                let file = bed.file("data", 256);
                bed.cached_folio(CgroupId::ROOT, file, 32, 5);
                let space = bed.process_of(CgroupId::ROOT);
                bed.map_open_file(space, 0, file, pages, false);
                assert_eq!(bed.read(space, 40), crate::testkit::Touch::Minor);
                let mapped: Vec<u64> = (0..pages).filter(|&page| bed.frame(space, page).is_some()).collect();
                assert_eq!(mapped, expected.clone().collect::<Vec<_>>(), "{release} {pages}");
                let table = &bed.memory.space(space).table;
                assert!(mapped.iter().all(|&page| table.dense(page).is_some_and(|dense| table.is_young(dense))));
                assert_eq!(bed.memory.space(space).nr_resident, expected.end - expected.start);
                bed.check_lists();
            }
        }
        // A marked folio is skipped, readahead goes on, and the retry maps it.
        let (mut bed, space, file) = opened(KernelRelease::V7_2, 256);
        let head = bed.cached_folio(CgroupId::ROOT, file, 32, 5);
        bed.memory.frames.set(head, Flag::Readahead);
        bed.read(space, 40);
        assert_eq!(bed.memory.space(space).nr_resident, 32);
        assert!(bed.memory.files.get(file).nr_cached > 32 && !bed.memory.frames.has(head, Flag::Readahead));
        bed.settle();
        bed.check_lists();
    }

    /// From 6.18 on a write fault on a shared mapping maps the folio whole, for writing; one page of it makes all of it dirty.
    #[test]
    fn a_shared_write_maps_and_dirties_the_folio() {
        for (release, nr_mapped) in [(KernelRelease::V6_12, 1), (KernelRelease::V7_2, 16)] {
            let (mut bed, space, file) = opened(release, 256);
            let head = bed.cached_folio(CgroupId::ROOT, file, 32, 4);
            bed.write(space, 37);
            assert_eq!(bed.memory.space(space).nr_resident, nr_mapped, "{release}");
            assert!(bed.memory.frames.has(head, Flag::Dirty) && bed.is_writable(space, 37));
            bed.check_lists();
            bed.memory.wake_flusher();
            assert!(bed.memory.frames.has(head, Flag::Writeback));
            bed.settle();
            assert!(!bed.memory.frames.flags(head).has_any([Flag::Dirty, Flag::Writeback]));
            bed.check_lists();
            bed.change(space, LayoutChange::Unmap(PageRange::new(30, 40)));
            assert_eq!(bed.memory.files.get(file).nr_cached, 16, "{release}");
            bed.check_lists();
        }
    }

    /// A group near its limit: one reclaim for the folio, and single pages where that does not help.
    #[test]
    fn a_charge_without_room_falls_back_to_single_pages() {
        let (mut bed, space, file) = opened(KernelRelease::V7_2, 1024);
        bed.limit(0);
        bed.memory.cgroups.set(bed.cgroup, crate::cgroup::Knob::Max, crate::cgroup::Limit::Unlimited);
        let group = bed.group(CgroupId::ROOT, "small");
        bed.set(group, crate::cgroup::Knob::Max, 100);
        bed.memory.space_mut(space).cgroup = group;
        for page in 0..1024 {
            call(&mut bed, space, Run::read(page, 1));
            assert!(bed.memory.cgroups.get(group).usage <= 100);
        }
        let cached = folios(&bed, file, 0);
        assert!(cached.contains(":5"), "{cached}");
    }
}
