//! System calls that change an address space: `mmap`, `munmap`, `madvise`, exit.

use super::release::{Recency, zap_taken};
use super::{advise, huge};
use crate::memory::{FileId, FileMapping, Memory};
use crate::mmu::{Entry, PageTable, SpaceId, Vma};
use crate::reclaim::ReclaimPolicy;
use isotherm_units::PageRange;
use isotherm_units::access::{Advice, Backing, LayoutChange, Mapping};

/// Carries out a change. `files` are the machine's numbers of the program's files, which mappings in `change` name by
/// their index in the program.
///
/// # Errors
/// The first virtual page that cannot be mapped: the space is spread too widely ([`PageTable::reserve`]), or the mapping
/// reaches past file page 2^32.
///
/// # Panics
/// When a mapping names a file that is not in `files`.
pub fn change_layout(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    change: LayoutChange,
    files: &[FileId],
) -> Result<(), u64> {
    memory.ledger.spend(memory.costs.syscall_ns);
    match change {
        LayoutChange::Map(mut mapping) => {
            if let Backing::File { file, first_page, sharing } = mapping.backing {
                mapping.backing = Backing::File { file: files[file].index(), first_page, sharing };
            }
            map(memory, policy, space, mapping)
        }
        LayoutChange::Unmap(range) => {
            unmap(memory, policy, space, range);
            Ok(())
        }
        LayoutChange::Advise(range, advice) => {
            advise::advise(memory, policy, space, range, advice);
            Ok(())
        }
        LayoutChange::Pin(range) => {
            pin(memory, space, range);
            Ok(())
        }
    }
}

/// `mmap`: replaces earlier mappings of the range. The file of `mapping` is the machine's number ([`FileId::index`]); a file shorter than
/// the mapping grows.
///
/// # Errors
/// See [`change_layout`]. Earlier mappings of the range are gone then, too.
pub fn map(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, mapping: Mapping) -> Result<(), u64> {
    let pages = mapping.pages;
    if pages.is_empty() {
        return Ok(());
    }
    unmap(memory, policy, space, pages);
    if let Backing::File { file, first_page, .. } = mapping.backing {
        let end = first_page.checked_add(pages.len()).filter(|&end| end <= u64::from(u32::MAX)).ok_or(pages.start)?;
        memory.files.get_mut(FileId::from_index(file)).ensure_len(end);
    }
    add_vma(memory, space, Vma { mapping, order: Advice::Normal });
    Ok(())
}

/// Enters a range into the space and, for files, into the reverse map.
pub(super) fn add_vma(memory: &mut Memory, space: SpaceId, vma: Vma) {
    memory.space_mut(space).vmas.insert(vma);
    if let Backing::File { file, first_page, .. } = vma.mapping.backing {
        let Mapping { pages, executable, .. } = vma.mapping;
        let file = FileId::from_index(file);
        memory.files.get_mut(file).mappings.push(FileMapping { space, pages, first_page, executable });
    }
}

/// `munmap`: frees the pages and slots of `range` that no other process needs. Parts that are not mapped are skipped.
pub fn unmap(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) {
    huge::split_range(memory, space, range);
    memory.space_mut(space).table.cut_premapped(range);
    for vma in memory.space_mut(space).vmas.remove(range) {
        zap_range(memory, policy, space, &vma, vma.pages());
        let start = vma.pages().start;
        memory.space_mut(space).swap_readahead.remove(&start);
        if let Backing::File { file, .. } = vma.mapping.backing {
            memory.files.get_mut(FileId::from_index(file)).unmap(space, vma.pages());
        }
    }
}

/// Empties all entries of `range`, a part of `vma` without huge entries.
pub(super) fn zap_range(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    vma: &Vma,
    range: PageRange,
) {
    let recency = Recency::of(vma);
    let populated = memory.space(space).table.populated_words(range);
    memory.nodes.expect(populated.iter().map(|word| u64::from(word.nr_pages())).sum());
    let mut taken = Vec::with_capacity(64);
    for word in populated {
        memory.space_mut(space).table.take_word(word, &mut taken);
        memory.warm_up(&taken);
        zap_taken(memory, policy, space, &taken, recency);
        taken.clear();
    }
    memory.nodes.settle(&mut memory.frames);
}

/// Pages of `range` that are there stay in their frames until they are freed.
fn pin(memory: &mut Memory, space: SpaceId, range: PageRange) {
    for dense in memory.space(space).table.collect_populated(range) {
        if let Entry::Frame(frame) = memory.space(space).table.entry(dense) {
            memory.frames.pin(frame);
        }
    }
}

/// The last thread of a process has ended: all its memory goes, and its page table with it.
pub fn exit(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId) {
    unmap(memory, policy, space, PageRange::new(0, u64::MAX));
    for relative in std::mem::take(&mut memory.space_mut(space).family) {
        memory.space_mut(relative).family.retain(|&other| other != space);
    }
    let gone = memory.space_mut(space);
    debug_assert_eq!((gone.nr_resident, gone.nr_swapped), (0, 0), "everything was mapped by a range");
    gone.alive = false;
    gone.table = PageTable::new();
    gone.open_files.clear();
    gone.swap_readahead.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Rig;
    use isotherm_units::access::{FileKind, Sharing};

    #[test]
    fn unmapping_a_part_frees_its_pages_and_slots() {
        let mut rig = Rig::new(DeviceKind::Nvme);
        let space = rig.anonymous(64);
        rig.write_all(space, PageRange::new(0, 20));
        (10..20).for_each(|page| rig.evict(space, page));
        rig.change(space, LayoutChange::Unmap(PageRange::new(5, 15)));
        assert_eq!((rig.usage(), rig.memory.slots.used()), (5, 5));
        assert!(rig.read(space, 7).bad);
        rig.change(space, LayoutChange::Map(Mapping::anonymous(PageRange::new(0, 64))));
        rig.assert_empty();
    }

    #[test]
    fn pages_that_are_there_are_pinned_until_they_are_freed() {
        let mut rig = Rig::new(DeviceKind::Nvme);
        let space = rig.anonymous(16);
        rig.write(space, 3);
        rig.change(space, LayoutChange::Pin(PageRange::new(0, 8)));
        rig.write(space, 4);
        let frames: Vec<_> = [3, 4].map(|page| rig.frame(space, page).expect("written")).to_vec();
        let pinned = |rig: &Rig| frames.iter().map(|&frame| rig.memory.frames.is_pinned(frame)).collect::<Vec<_>>();
        assert_eq!(pinned(&rig), [true, false], "not what comes later");
        rig.change(space, LayoutChange::Unmap(PageRange::new(0, 16)));
        assert_eq!(pinned(&rig), [false, false]);
    }

    #[test]
    fn a_page_in_flight_outlives_its_process() {
        for device in [DeviceKind::Nvme, DeviceKind::Disk] {
            let mut rig = Rig::new(device);
            let space = rig.anonymous(64);
            rig.write_all(space, PageRange::new(0, 40));
            (0..20).for_each(|page| rig.evict(space, page));
            let frame = rig.frame(space, 30).unwrap();
            rig.evict_frame(frame); // being written
            let state = &mut super::super::FaultState::default();
            let (memory, policy) = (&mut rig.memory, &mut rig.policy);
            super::super::fault(memory, policy, space, 10, crate::mmu::Need::Read, state); // being read, with neighbours
            rig.exit(space);
            assert!(rig.usage() > 1, "{device}: the pages in flight");
            rig.assert_empty();
        }
    }

    #[test]
    fn mappings_that_do_not_fit_are_refused() {
        let mut rig = Rig::new(DeviceKind::None);
        let space = rig.space();
        let mut map_it = |mapping| map(&mut rig.memory, &mut rig.policy, space, mapping);
        let far = PageRange::at(1 << 51, 4);
        assert_eq!(map_it(Mapping::anonymous(far)), Ok(()), "page tables come with the first touch");
        let backing = Backing::File { file: 0, first_page: u64::MAX - 2, sharing: Sharing::Shared };
        assert_eq!(map_it(Mapping { backing, ..Mapping::anonymous(PageRange::new(8, 16)) }), Err(8));
        assert_eq!(map_it(Mapping::anonymous(PageRange::new(8, 8))), Ok(()), "nothing to do");
        assert_eq!(rig.memory.space_mut(space).reach(far.start), None, "beyond 57 bits");
    }

    #[test]
    fn a_file_is_named_by_its_number_in_the_program_and_grows_with_its_mappings() {
        let mut rig = Rig::new(DeviceKind::None);
        let space = rig.space();
        rig.memory.files.open("other", FileKind::Regular, 1).unwrap();
        let file = rig.memory.files.open("mine", FileKind::Regular, 4).unwrap();
        let backing = Backing::File { file: 0, first_page: 2, sharing: Sharing::Shared };
        let mapping = Mapping { backing, ..Mapping::anonymous(PageRange::new(0, 8)) };
        change_layout(&mut rig.memory, &mut rig.policy, space, LayoutChange::Map(mapping), &[file]).unwrap();
        assert_eq!(rig.memory.files.get(file).len(), 10);
        rig.read(space, 7);
        assert!(rig.memory.files.get(file).nr_cached > 0);
    }
}
