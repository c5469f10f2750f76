//! Pages that the next accesses will find absent, looked up together before the first of them faults.

use super::{CHUNK_MASK, CHUNK_SHIFT, Chunk, DIRTY, DensePage, PRESENT, PageTable};
use isotherm_units::access::Run;

impl PageTable {
    /// Puts the pages of `runs` that have a place in the table and are not present to the front of `absent`, and reads what touching
    /// the others takes. How many there are.
    #[inline]
    pub fn absent_among<const N: usize>(&self, runs: &[Run], absent: &mut [DensePage; N]) -> usize {
        let (mut len, mut words) = (0, 0);
        let mut at_hand: Option<(u64, u32, &Chunk)> = None;
        for run in &runs[..runs.len().min(N)] {
            let (page, high) = (run.page(), run.page() >> CHUNK_SHIFT);
            if at_hand.is_none_or(|(at, ..)| at != high) {
                let Some(dense) = self.dense(page) else { continue };
                at_hand = Some((high, dense.0 & !(CHUNK_MASK as u32), &self.chunks[dense.slot()]));
            }
            let Some((_, first, chunk)) = at_hand else { continue };
            let within = (page & CHUNK_MASK) as usize;
            // No branch on what cannot be predicted: it would end the overlap.
            absent[len] = DensePage(first | within as u32);
            len += (!chunk.groups[within / 64][PRESENT] >> (within % 64) & 1) as usize;
            words ^= chunk.stores[within / 64][DIRTY];
        }
        std::hint::black_box(words);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::super::CHUNK_PAGES;
    use super::super::tests::mapped;
    use super::*;

    #[test]
    fn pages_that_are_absent_are_found_together() {
        let table = mapped(&[1, 2, CHUNK_PAGES * 2], true);
        let runs = [1, 3, CHUNK_PAGES * 2 + 1, CHUNK_PAGES, 2, 4].map(|page| Run::write(page, 1));
        let mut absent = [DensePage::from_raw(0); 8];
        let len = table.absent_among(&runs, &mut absent);
        let pages: Vec<u64> = absent[..len].iter().map(|&dense| table.page_of(dense)).collect();
        assert_eq!(pages, [3, CHUNK_PAGES * 2 + 1, 4], "in blocks that there are");
    }
}
