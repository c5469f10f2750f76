//! Which pages each process has touched. One bit a page, in pieces of 4096 pages; the piece is found by a small direct-mapped table
//! in front of the exact one, because this is asked for each row of a recording.

use std::collections::HashMap;

/// Pages of a piece.
const PIECE_PAGES: u64 = 4096;
/// Entries of the table in front; a power of two.
const FRONT: usize = 256;

/// A process of the file, and the number of a piece in its memory.
type Key = (usize, u64);

/// Sets of pages, by process.
pub(crate) struct Touched {
    pieces: Vec<[u64; 64]>,
    places: HashMap<Key, usize>,
    front: Box<[Option<(Key, usize)>; FRONT]>,
    /// Different pages so far.
    pages: u64,
}

impl Touched {
    pub(crate) fn new() -> Self {
        Self { pieces: Vec::new(), places: HashMap::new(), front: Box::new([None; FRONT]), pages: 0 }
    }

    /// Different pages of all processes.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Notes `pages` pages from `page` on.
    pub(crate) fn note(&mut self, process: usize, page: u64, pages: u64) {
        let (mut page, end) = (page, page + pages);
        while page < end {
            let piece = self.piece((process, page / PIECE_PAGES));
            let behind = end.min((page / 64 + 1) * 64);
            let bits = (u64::MAX >> (64 - (behind - page))) << (page % 64);
            let word = &mut piece[(page % PIECE_PAGES / 64) as usize];
            let fresh = u64::from((bits & !*word).count_ones());
            *word |= bits;
            self.pages += fresh;
            page = behind;
        }
    }

    fn piece(&mut self, key: Key) -> &mut [u64; 64] {
        let hash = (key.1 ^ (key.0 as u64).wrapping_mul(31)) % FRONT as u64;
        let slot = usize::try_from(hash).expect("below FRONT");
        let place = match self.front[slot] {
            Some((known, place)) if known == key => place,
            _ => {
                let place = *self.places.entry(key).or_insert_with(|| {
                    self.pieces.push([0; 64]);
                    self.pieces.len() - 1
                });
                self.front[slot] = Some((key, place));
                place
            }
        };
        &mut self.pieces[place]
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
            // Near the borders of words and pieces, in three processes, and one piece far away that shares a front entry.
            let process = (state >> 60) as usize % 3;
            let page = (state >> 40) % 9000 + if state >> 63 == 0 { 0 } else { FRONT as u64 * PIECE_PAGES };
            let pages = 1 + (state >> 20) % 200;
            touched.note(process, page, pages);
            plain.extend((page..page + pages).map(|page| (process, page)));
        }
        assert_eq!(touched.pages(), plain.len() as u64);
    }
}
