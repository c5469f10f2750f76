//! `fork`: a child shares its parent's anonymous pages until one of them writes (docs/spec/classic-lru.md#s9-1).

use super::huge;
use super::layout::add_vma;
use crate::memory::{Flag, FrameId, Memory};
use crate::mmu::{DensePage, Entry, SpaceId, Vma};
use crate::swap::SlotId;
use isotherm_units::PageRange;
use isotherm_units::access::{Backing, Sharing};

/// Gives `child`, a new empty space, all mappings of `parent`.
///
/// Anonymous pages and swap slots are shared, read-only on both sides. File pages are not mapped for the child, which
/// faults on them (they are cached). If their mapping holds private copies too, its entries are copied whole, as in
/// Linux. Huge entries of the parent are split first: shared huge pages are not modelled.
///
/// # Errors
/// The first page that the child's table cannot hold.
pub fn fork(memory: &mut Memory, parent: SpaceId, child: SpaceId) -> Result<(), u64> {
    huge::split_range(memory, parent, PageRange::new(0, u64::MAX));
    let vmas: Vec<Vma> = memory.space(parent).vmas.iter().copied().collect();
    for vma in vmas {
        add_vma(memory, child, vma);
        copy_entries(memory, parent, child, &vma)?;
    }
    join_family(memory, parent, child);
    Ok(())
}

fn copy_entries(memory: &mut Memory, parent: SpaceId, child: SpaceId, vma: &Vma) -> Result<(), u64> {
    if let Backing::File { sharing: Sharing::Shared, .. } = vma.mapping.backing {
        return Ok(());
    }
    let populated: Vec<DensePage> = memory.space(parent).table.populated_in(vma.pages()).collect();
    let is_anonymous = |dense: &DensePage| match memory.space(parent).table.entry(*dense) {
        Entry::Frame(frame) => !memory.frames.has(frame, Flag::FileOwned),
        Entry::Swap(_) => true,
        Entry::None | Entry::Zero => false,
    };
    let has_copies = vma.mapping.backing == Backing::Anonymous || populated.iter().any(is_anonymous);
    if !has_copies {
        return Ok(());
    }
    for dense in populated {
        let page = memory.space(parent).table.page_of(dense);
        memory.space_mut(child).table.reserve(PageRange::at(page, 1))?;
        let to = memory.space(child).table.dense(page).expect("just reserved");
        memory.ledger.spend(memory.costs.pte_scan_ns);
        match memory.space(parent).table.entry(dense) {
            Entry::None => {}
            Entry::Zero => memory.space_mut(child).table.set_present(to, Entry::Zero, false, false, false),
            Entry::Frame(frame) => share_frame(memory, frame, (parent, dense), (child, to)),
            Entry::Swap(slot) => share_slot(memory, slot, (child, to)),
        }
    }
    Ok(())
}

fn share_frame(memory: &mut Memory, frame: FrameId, from: (SpaceId, DensePage), to: (SpaceId, DensePage)) {
    let table = &mut memory.space_mut(from.0).table;
    let dirty = table.is_dirty(from.1);
    if !memory.frames.has(frame, Flag::FileOwned) {
        memory.space_mut(from.0).table.protect(from.1);
        memory.frames.set(frame, Flag::Shared);
    }
    let child = memory.space_mut(to.0);
    child.table.set_present(to.1, Entry::Frame(frame), false, false, dirty);
    child.nr_resident += 1;
}

fn share_slot(memory: &mut Memory, slot: SlotId, to: (SpaceId, DensePage)) {
    memory.slots.add_user(slot);
    if let Some(frame) = memory.slots.cached(slot) {
        memory.frames.set(frame, Flag::Shared);
    }
    let child = memory.space_mut(to.0);
    child.table.set_absent(to.1, Entry::Swap(slot));
    child.nr_swapped += 1;
}

/// Lists the child with its relatives: where sharers of a page are searched.
fn join_family(memory: &mut Memory, parent: SpaceId, child: SpaceId) {
    if memory.space(parent).family.is_empty() {
        memory.space_mut(parent).family.push(parent);
    }
    let mut family = memory.space(parent).family.clone();
    family.push(child);
    for &relative in &family {
        memory.space_mut(relative).family.clone_from(&family);
    }
}
