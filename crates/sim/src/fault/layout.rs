//! System calls that change an address space: `mmap`, `munmap`, `madvise`, exit.

use super::{advise, huge, release};
use crate::memory::{FileId, FileMapping, Memory};
use crate::mmu::{DensePage, PageTable, SpaceId, Vma};
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
    }
}

/// `mmap`: replaces what was there. The file of `mapping` is the machine's number ([`FileId::index`]); a file shorter than
/// the mapping grows.
///
/// # Errors
/// See [`change_layout`]. What was mapped there is gone then, too.
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
    memory.space_mut(space).table.reserve(pages)?;
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

/// `munmap`: frees the pages and slots of `range` that nobody else needs. Parts that are not mapped are passed over.
pub fn unmap(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) {
    huge::split_range(memory, space, range);
    for vma in memory.space_mut(space).vmas.remove(range) {
        zap_range(memory, policy, space, vma.pages());
        let start = vma.pages().start;
        memory.space_mut(space).swap_readahead.remove(&start);
        if let Backing::File { file, .. } = vma.mapping.backing {
            memory.files.get_mut(FileId::from_index(file)).unmap(space, vma.pages());
        }
    }
}

/// Empties all entries of `range`, which has no huge entries.
pub(super) fn zap_range(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) {
    let populated: Vec<DensePage> = memory.space(space).table.populated_in(range).collect();
    for dense in populated {
        release::zap(memory, policy, space, dense);
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
