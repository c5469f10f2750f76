//! Marks that scans leave on pages. The kernel's own ones (`PG_idle`, `PG_young`) are not accessible from outside, so they are kept here by
//! address: one byte for each page, in blocks that have any mark.

use isotherm_core::host::{AddressRange, PageMarks};
use std::collections::BTreeMap;

/// Pages in a block.
const BLOCK_PAGES: u64 = 512;

/// Marks of one address space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    blocks: BTreeMap<u64, Box<[u8; 512]>>,
}

impl Marks {
    pub(crate) fn of(&self, page: u64) -> PageMarks {
        let byte = self.blocks.get(&(page / BLOCK_PAGES)).map_or(0, |block| block[place(page)]);
        PageMarks { idle: byte & 1 != 0, young: byte & 2 != 0, referenced: byte & 4 != 0 }
    }

    pub(crate) fn set(&mut self, page: u64, marks: PageMarks) {
        let byte = u8::from(marks.idle) | u8::from(marks.young) << 1 | u8::from(marks.referenced) << 2;
        match self.blocks.get_mut(&(page / BLOCK_PAGES)) {
            Some(block) => block[place(page)] = byte,
            None if byte == 0 => {}
            None => {
                let mut block = Box::new([0; 512]);
                block[place(page)] = byte;
                self.blocks.insert(page / BLOCK_PAGES, block);
            }
        }
    }

    /// Drops the blocks that lie in no area; areas ascend.
    pub(crate) fn keep_only(&mut self, areas: &[AddressRange], page_bytes: u64) {
        let block_bytes = BLOCK_PAGES * page_bytes;
        self.blocks.retain(|block, _| {
            let range = AddressRange::new(block * block_bytes, (block + 1) * block_bytes);
            let at = areas.partition_point(|area| area.end <= range.start);
            areas.get(at).is_some_and(|area| area.overlaps(range))
        });
    }
}

fn place(page: u64) -> usize {
    usize::try_from(page % BLOCK_PAGES).expect("below 512")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stay_until_their_area_goes() {
        let mut marks = Marks::default();
        let idle = PageMarks { idle: true, ..PageMarks::default() };
        let both = PageMarks { young: true, referenced: true, ..PageMarks::default() };
        marks.set(511, idle);
        marks.set(512, both);
        marks.set(5000, PageMarks::default());
        assert_eq!((marks.of(511), marks.of(512), marks.of(513)), (idle, both, PageMarks::default()));
        assert_eq!(marks.blocks.len(), 2, "clear marks take no room");
        marks.keep_only(&[AddressRange::new(0, 4096), AddressRange::new(4096, 8192)], 4096);
        assert_eq!((marks.of(511), marks.of(512)), (idle, PageMarks::default()));
        marks.set(511, PageMarks::default());
        assert_eq!(marks.of(511), PageMarks::default());
    }
}
