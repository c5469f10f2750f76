//! Page numbers in a trace for pages of files that a program reads and writes through descriptors. They are the same for all
//! processes and never move, although a file may grow without end ([`PageCacheRange`]).

use std::collections::{BTreeMap, HashMap};

use isotherm_trace::{MapKind, MapRange, PageCacheRange};

/// A file gets page numbers in pieces that end at multiples of this, so a distant page of a sparse file takes no more.
const BLOCK_PAGES: u64 = 1 << 18;
/// The smallest piece.
const PIECE_PAGES_MIN: u64 = 16;

/// A file of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileNumber(usize);

/// Files and the page numbers of their pages.
#[derive(Debug)]
pub(crate) struct PageCache {
    range: PageCacheRange,
    /// The first page number that is free.
    next: u64,
    files: Vec<File>,
    by_name: HashMap<String, FileNumber>,
    /// By process: end of the mapped part of each piece, by the piece's first page number.
    shown: Vec<HashMap<u64, u64>>,
}

#[derive(Debug)]
struct File {
    name: String,
    in_memory: bool,
    /// Largest known length.
    pages: u64,
    /// Pieces by first page of the file.
    pieces: BTreeMap<u64, Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    place: u64,
    room: u64,
}

/// Pages of a file with consecutive page numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Mapping that the process must record first, if any.
    pub(crate) map: Option<MapRange>,
    pub(crate) page: u64,
    pub(crate) pages: u32,
}

impl PageCache {
    pub(crate) fn new(range: PageCacheRange) -> Self {
        Self { range, next: range.start, files: Vec::new(), by_name: HashMap::new(), shown: Vec::new() }
    }

    /// The next process; a forked one starts with the mappings of its parent.
    pub(crate) fn add_process(&mut self, forked_from: Option<usize>) {
        let shown = forked_from.and_then(|parent| self.shown.get(parent)).cloned().unwrap_or_default();
        self.shown.push(shown);
    }

    /// The file at path `name`, which now has `pages` pages.
    pub(crate) fn file(&mut self, name: String, pages: u64, in_memory: bool) -> FileNumber {
        let number = match self.by_name.get(&name) {
            Some(&number) => number,
            None => {
                let number = FileNumber(self.files.len());
                self.by_name.insert(name.clone(), number);
                self.files.push(File { name, in_memory, pages, pieces: BTreeMap::new() });
                number
            }
        };
        self.reaches(number, pages);
        number
    }

    /// Notes that the file has at least `pages` pages.
    pub(crate) fn reaches(&mut self, file: FileNumber, pages: u64) {
        let file = &mut self.files[file.0];
        file.pages = file.pages.max(pages);
    }

    /// Page numbers of `pages` pages of the file from `page` on, for a process. Pages without a free page number are missing.
    pub(crate) fn places(&mut self, process: usize, file: FileNumber, page: u64, pages: u32) -> Vec<Place> {
        let end = page + u64::from(pages);
        let mut found = Vec::new();
        let mut at = page;
        while at < end {
            let Some((first, piece)) = self.piece_of(file, at) else { break };
            let until = end.min(first + piece.room);
            let pages = u32::try_from(until - at).expect("no more than asked for");
            let map = self.show(process, file, first, piece);
            found.push(Place { map, page: piece.place + (at - first), pages });
            at = until;
        }
        found
    }

    /// The piece that holds a page of the file, with its first page; added if there is none.
    fn piece_of(&mut self, file: FileNumber, page: u64) -> Option<(u64, Piece)> {
        let file = &mut self.files[file.0];
        let before = file.pieces.range(..=page).next_back().map(|(&first, &piece)| (first, piece));
        if let Some((first, piece)) = before
            && page < first + piece.room
        {
            return Some((first, piece));
        }
        let block = page - page % BLOCK_PAGES;
        let first = before.map_or(block, |(first, piece)| block.max(first + piece.room));
        let wanted = (file.pages.max(page + 1) - first).saturating_mul(2).min(BLOCK_PAGES).next_power_of_two();
        let room = wanted.max(PIECE_PAGES_MIN).min(block + BLOCK_PAGES - first);
        if self.range.end - self.next < room {
            return None;
        }
        let piece = Piece { place: self.next, room };
        self.next += room;
        file.pieces.insert(first, piece);
        Some((first, piece))
    }

    /// The part of the piece that the file fills and the process has not mapped yet.
    fn show(&mut self, process: usize, file: FileNumber, first: u64, piece: Piece) -> Option<MapRange> {
        let file = &self.files[file.0];
        let end = piece.place + piece.room.min(file.pages.saturating_sub(first));
        let shown = self.shown[process].entry(piece.place).or_insert(piece.place);
        if *shown >= end {
            return None;
        }
        let start = std::mem::replace(shown, end);
        let what = if file.in_memory { MapKind::Shared } else { MapKind::PageCache };
        let file_page = first + (start - piece.place);
        Some(MapRange { start, end, what, file: Some(file.name.clone()), file_page, shared: true, executable: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> PageCache {
        let mut cache = PageCache::new(PageCacheRange { start: 1 << 30, end: (1 << 30) + (1 << 20) });
        cache.add_process(None);
        cache
    }

    fn spans(places: &[Place]) -> Vec<(u64, u32)> {
        places.iter().map(|place| (place.page - (1 << 30), place.pages)).collect()
    }

    fn maps(places: &[Place]) -> Vec<(u64, u64, u64)> {
        let maps = places.iter().filter_map(|place| place.map.as_ref());
        maps.map(|map| (map.start - (1 << 30), map.end - (1 << 30), map.file_page)).collect()
    }

    #[test]
    fn a_file_stands_in_one_place_and_is_shown_once() {
        let mut cache = cache();
        let file = cache.file("/a".into(), 10, false);
        let first = cache.places(0, file, 2, 3);
        assert_eq!((spans(&first), maps(&first)), (vec![(2, 3)], vec![(0, 10, 0)]));
        let map = first[0].map.clone().unwrap();
        assert_eq!((map.what, map.file.as_deref(), map.shared), (MapKind::PageCache, Some("/a"), true));
        let again = cache.places(0, file, 9, 1);
        assert_eq!((spans(&again), maps(&again)), (vec![(9, 1)], vec![]));
        let other = cache.file("/b".into(), 1, true);
        let there = cache.places(0, other, 0, 1);
        assert_eq!(spans(&there), [(32, 1)], "the first has room for twice its pages");
        assert_eq!(there[0].map.as_ref().unwrap().what, MapKind::Shared);
        assert_eq!(cache.file("/a".into(), 3, false), file, "it was longer once");
    }

    #[test]
    fn a_file_that_grows_keeps_the_places_it_has() {
        let mut cache = cache();
        let file = cache.file("/a".into(), 0, false);
        let mut seen = BTreeMap::new();
        for page in 0..5000 {
            cache.reaches(file, page + 1);
            for place in cache.places(0, file, page, 1) {
                assert!(seen.insert(place.page, page).is_none(), "page {page} got a place that is taken");
            }
        }
        assert_eq!(seen.len(), 5000);
        let mut again = Vec::new();
        for place in cache.places(0, file, 0, 5000) {
            assert_eq!(place.map, None);
            again.extend((0..u64::from(place.pages)).map(|page| place.page + page));
        }
        let first_time: Vec<u64> = {
            let mut pages: Vec<_> = seen.iter().map(|(&place, &page)| (page, place)).collect();
            pages.sort_unstable();
            pages.into_iter().map(|(_, place)| place).collect()
        };
        assert_eq!(again, first_time);
    }

    #[test]
    fn processes_show_for_themselves_and_forks_inherit() {
        let mut cache = cache();
        let file = cache.file("/a".into(), 10, false);
        cache.places(0, file, 0, 1);
        cache.add_process(Some(0));
        cache.add_process(None);
        assert_eq!(cache.places(1, file, 0, 1)[0].map, None);
        assert_eq!(maps(&cache.places(2, file, 5, 1)), [(0, 10, 0)]);
        cache.reaches(file, 12);
        assert_eq!(maps(&cache.places(1, file, 11, 1)), [(10, 12, 10)], "only what is new");
    }

    #[test]
    fn a_page_far_out_takes_one_block_and_a_full_range_is_the_end() {
        let mut cache = cache();
        let sparse = cache.file("/sparse".into(), 1 << 50, false);
        let far = cache.places(0, sparse, (1 << 50) - 1, 1);
        assert_eq!(spans(&far), [(BLOCK_PAGES - 1, 1)]);
        let across = cache.places(0, sparse, BLOCK_PAGES - 1, 2);
        assert_eq!(spans(&across), [(2 * BLOCK_PAGES - 1, 1), (2 * BLOCK_PAGES, 1)]);
        assert_eq!(cache.places(0, sparse, 5 * BLOCK_PAGES, 1).len(), 1);
        assert_eq!(cache.places(0, sparse, 6 * BLOCK_PAGES, 1), [], "four blocks fill the range");
    }
}
