//! Pages change their frames, and are out of reach in that time.

use super::{DensePage, PRESENT, PageTable, WRITABLE};
use crate::memory::FrameId;
use crate::mmu::Entry;
use isotherm_units::PageRange;

/// Bits that were taken away.
#[derive(Clone, Debug)]
pub struct MigrationEntries(Vec<(DensePage, bool)>);

impl PageTable {
    /// The page that an entry shows lies in another frame from now on. All bits stay.
    pub(crate) fn replace_frame(&mut self, dense: DensePage, to: FrameId) {
        debug_assert!(self.is_present(dense), "only mapped pages move");
        self.note_unmapped(dense);
        self.chunks[dense.slot()].write(dense.within(), Entry::Frame(to));
        self.note_class(dense, Entry::Frame(to));
    }

    /// Lets no access to these pages through. Nothing but accesses may happen until [`remove_migration_entries`](Self::remove_migration_entries).
    pub fn set_migration_entries(&mut self, ranges: &[PageRange]) -> MigrationEntries {
        let mut taken = Vec::new();
        for page in ranges.iter().flat_map(|range| range.start..range.end) {
            let Some(dense) = self.dense(page) else { continue };
            let (group, bit) = self.group_mut(dense);
            if group[PRESENT] & bit == 0 {
                continue;
            }
            group[PRESENT] &= !bit;
            let (stores, bit) = self.stores_mut(dense);
            let writable = stores[WRITABLE] & bit != 0;
            if writable {
                stores[WRITABLE] &= !bit;
            }
            taken.push((dense, writable));
        }
        MigrationEntries(taken)
    }

    /// Gives all bits back.
    pub fn remove_migration_entries(&mut self, MigrationEntries(taken): MigrationEntries) {
        for (dense, writable) in taken {
            let (group, bit) = self.group_mut(dense);
            debug_assert!(group[PRESENT] & bit == 0, "nothing was mapped there meanwhile");
            group[PRESENT] |= bit;
            if writable {
                self.stores_mut(dense).0[WRITABLE] |= bit;
            }
        }
    }
}
