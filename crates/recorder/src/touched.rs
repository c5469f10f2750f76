//! Pages that each process has touched. One bit per page, in pieces of 4096 pages. Pieces are found by an open-addressing hash table,
//! because there is a lookup for each row of a recording.

/// Pages in a piece.
const PIECE_PAGES: u64 = 4096;
/// An empty place of the table: no piece of any process.
const EMPTY: u64 = u64::MAX;
/// Page numbers are below 2^52, so numbers of pieces are below 2^40; the process goes above.
const PIECE_BITS: u32 = 40;

/// Sets of pages, by process.
pub(crate) struct Touched {
    pieces: Vec<[u64; 64]>,
    /// Key and index of each piece, in an open-addressing hash table with a power of two of slots and a load factor ≤ 1/2.
    table: Vec<(u64, u32)>,
    /// The piece of the last page, by key: rows often continue in the piece of the previous one.
    last: (u64, u32),
    /// Number of distinct pages so far.
    pages: u64,
}

impl Touched {
    pub(crate) fn new() -> Self {
        Self { pieces: Vec::new(), table: vec![(EMPTY, 0); 64], last: (EMPTY, 0), pages: 0 }
    }

    /// Number of distinct pages of all processes.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Notes `pages` pages from `page` on.
    pub(crate) fn note(&mut self, process: usize, page: u64, pages: u64) {
        let (mut page, end) = (page, page + pages);
        while page < end {
            let piece = self.piece(((process as u64) << PIECE_BITS) | (page / PIECE_PAGES));
            let behind = end.min((page / 64 + 1) * 64);
            let bits = (u64::MAX >> (64 - (behind - page))) << (page % 64);
            let word = &mut piece[(page % PIECE_PAGES / 64) as usize];
            let fresh = u64::from((bits & !*word).count_ones());
            *word |= bits;
            self.pages += fresh;
            page = behind;
        }
    }

    fn piece(&mut self, key: u64) -> &mut [u64; 64] {
        if self.last.0 != key {
            self.last = (key, self.index_of(key));
        }
        &mut self.pieces[self.last.1 as usize]
    }

    /// Index of the piece of `key`; added if there is none.
    fn index_of(&mut self, key: u64) -> u32 {
        let mut place = self.place_of(key);
        if self.table[place].0 == EMPTY {
            if self.pieces.len() * 2 >= self.table.len() {
                let larger = vec![(EMPTY, 0); self.table.len() * 2];
                for entry in std::mem::replace(&mut self.table, larger).into_iter().filter(|entry| entry.0 != EMPTY) {
                    let place = self.place_of(entry.0);
                    self.table[place] = entry;
                }
                place = self.place_of(key);
            }
            self.table[place] = (key, u32::try_from(self.pieces.len()).expect("2^32 pieces are 2 TiB of bits"));
            self.pieces.push([0; 64]);
        }
        self.table[place].1
    }

    /// Slot of `key` in the table, or the slot for inserting it.
    fn place_of(&self, key: u64) -> usize {
        let mask = self.table.len() - 1;
        // Fibonacci hashing: the high bits of the product depend on all bits of the key.
        let mut place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.table[place].0 != key && self.table[place].0 != EMPTY {
            place = (place + 1) & mask;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pages_are_those_of_a_plain_set() {
        let (mut touched, mut plain) = (Touched::new(), BTreeSet::new());
        let mut state = 7u64;
        for _ in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Pages near the borders of words and pieces, in three processes, and in some hundred distant pieces, so that the table
            // grows.
            let process = (state >> 60) as usize % 3;
            let page =
                (state >> 40) % 9000 + if state >> 63 == 0 { 0 } else { (state >> 30) % 300 * 1000 * PIECE_PAGES };
            let pages = 1 + (state >> 20) % 200;
            touched.note(process, page, pages);
            plain.extend((page..page + pages).map(|page| (process, page)));
        }
        assert!(touched.table.len() > 64);
        assert_eq!(touched.pages(), plain.len() as u64);
    }
}
