//! Pages that were found and have not moved yet: a list a space, and the turn of the spaces.
//!
//! The first versions of the series have one list of all pages, and each process that exits searches it. Here a space that ends takes its
//! own list along; lists of other spaces stay.

use super::mode::Turn;
use crate::vocabulary::Run;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A space, numbered by its order of arrival. A number is never used twice, so that pages queued for an ended space cannot be taken for
/// another's.
pub(super) type SlotKey = u64;

#[derive(Clone, Debug)]
pub(super) struct MigrationList {
    turn: Turn,
    spaces: BTreeMap<SlotKey, SpaceList>,
    /// The space whose turn it is, and for how many folios. Spaces that have ended, or whose list was cleared, are skipped.
    turns: VecDeque<(SlotKey, u64)>,
    /// Spaces that have a turn, where one is enough.
    waiting: BTreeSet<SlotKey>,
}

/// Queued pages of one space.
#[derive(Clone, Debug, Default)]
struct SpaceList {
    runs: VecDeque<Run>,
    folios: u64,
}

/// Folios of one space to be moved in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) key: SlotKey,
    /// A byte address each.
    pub(super) pages: Vec<u64>,
}

impl MigrationList {
    pub(super) fn new(turn: Turn) -> Self {
        Self { turn, spaces: BTreeMap::new(), turns: VecDeque::new(), waiting: BTreeSet::new() }
    }

    /// Folios queued, of all spaces.
    pub(super) fn folios(&self) -> u64 {
        self.spaces.values().map(|list| list.folios).sum()
    }

    /// Folios that a space has queued.
    pub(super) fn folios_of(&self, key: SlotKey) -> u64 {
        self.spaces.get(&key).map_or(0, |list| list.folios)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    /// Queues the findings of a scan. Returns how many folios that is.
    pub(super) fn splice(&mut self, key: SlotKey, runs: &[Run]) -> u64 {
        let folios: u64 = runs.iter().map(|run| u64::from(run.folios)).sum();
        if folios == 0 {
            return 0;
        }
        let list = self.spaces.entry(key).or_default();
        list.runs.extend(runs);
        list.folios += folios;
        match (self.turn, self.turns.back_mut()) {
            (Turn::Found, Some((last, turn))) if *last == key => *turn += folios,
            (Turn::Found, _) => self.turns.push_back((key, folios)),
            (Turn::Space | Turn::Batch, _) if self.waiting.insert(key) => self.turns.push_back((key, folios)),
            (Turn::Space | Turn::Batch, _) => {}
        }
        folios
    }

    /// Takes away all that a space has queued. Returns how many folios.
    pub(super) fn clear(&mut self, key: SlotKey) -> u64 {
        self.spaces.remove(&key).map_or(0, |list| list.folios)
    }

    /// Takes the next folios of one space, at most `most` of them and at most `pages_most` base pages without the first.
    pub(super) fn take(&mut self, most: u32, pages_most: u64) -> Option<Batch> {
        let (key, turn) = loop {
            let &(key, turn) = self.turns.front()?;
            if turn > 0 && self.spaces.contains_key(&key) {
                break (key, turn);
            }
            self.turns.pop_front();
            self.waiting.remove(&key);
        };
        let list = self.spaces.get_mut(&key).expect("looked up above");
        let most = match self.turn {
            Turn::Found => u64::from(most).min(turn),
            Turn::Space | Turn::Batch => u64::from(most),
        };
        let pages = list.take(most, pages_most);
        let taken = u64::try_from(pages.len()).expect("a batch");
        let is_empty = list.folios == 0;
        if is_empty {
            self.spaces.remove(&key);
        }
        match self.turn {
            Turn::Found => self.turns[0].1 -= taken,
            // An empty list's turn is skipped at the next call.
            Turn::Space => {}
            Turn::Batch => self.turns.rotate_left(1),
        }
        Some(Batch { key, pages })
    }
}

impl SpaceList {
    fn take(&mut self, most: u64, pages_most: u64) -> Vec<u64> {
        let mut taken = Vec::new();
        let mut pages = 0;
        while let Some(run) = self.runs.front_mut() {
            let is_first = taken.is_empty();
            let count = u64::try_from(taken.len()).expect("a batch");
            if count >= most || (!is_first && pages + u64::from(run.folio_pages) > pages_most) {
                break;
            }
            taken.push(run.address);
            pages += u64::from(run.folio_pages);
            self.folios -= 1;
            run.address += run.step();
            run.folios -= 1;
            if run.folios == 0 {
                self.runs.pop_front();
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(page: u64, folios: u32) -> Run {
        Run { address: page << 12, folios, folio_pages: 1 }
    }

    /// Space and pages of each batch of at most `most`.
    fn batches(list: &mut MigrationList, most: u32) -> Vec<(SlotKey, Vec<u64>)> {
        let take = || list.take(most, u64::MAX);
        let pages = |pages: Vec<u64>| pages.iter().map(|page| page >> 12).collect();
        std::iter::from_fn(take).map(|batch| (batch.key, pages(batch.pages))).collect()
    }

    #[test]
    fn turns_are_by_find_by_space_or_by_batch() {
        type Row = (Turn, &'static [(SlotKey, &'static [u64])]);
        let table: [Row; 3] = [
            (Turn::Found, &[(1, &[10, 11]), (1, &[12]), (2, &[20]), (1, &[13])]),
            (Turn::Space, &[(1, &[10, 11]), (1, &[12, 13]), (2, &[20])]),
            (Turn::Batch, &[(1, &[10, 11]), (2, &[20]), (1, &[12, 13])]),
        ];
        for (turn, expected) in table {
            let mut list = MigrationList::new(turn);
            for (key, found) in [(1, run(10, 3)), (2, run(20, 1)), (1, run(13, 1))] {
                list.splice(key, &[found]);
            }
            assert_eq!(list.folios(), 5);
            let expected: Vec<(SlotKey, Vec<u64>)> =
                expected.iter().map(|(key, pages)| (*key, pages.to_vec())).collect();
            assert_eq!(batches(&mut list, 2), expected, "{turn:?}");
            assert!(list.is_empty());
        }
    }

    #[test]
    fn a_space_that_goes_takes_its_own_along_and_leaves_the_others() {
        for turn in [Turn::Found, Turn::Space, Turn::Batch] {
            let mut list = MigrationList::new(turn);
            list.splice(1, &[run(10, 3)]);
            list.splice(2, &[run(20, 2)]);
            assert_eq!((list.clear(1), list.clear(1), list.folios_of(2)), (3, 0, 2), "{turn:?}");
            list.splice(1, &[run(30, 1)]);
            let mut left = batches(&mut list, 9);
            left.sort();
            assert_eq!(left, [(1, vec![30]), (2, vec![20, 21])], "{turn:?}: cleared, queued again");
        }
    }

    #[test]
    fn huge_folios_fill_a_batch_by_their_pages() {
        let mut list = MigrationList::new(Turn::Batch);
        list.splice(1, &[Run { address: 0, folios: 3, folio_pages: 512 }]);
        let pages = |batch: Option<Batch>| batch.map(|batch| batch.pages);
        assert_eq!(pages(list.take(512, 100)), Some(vec![0]), "the first goes in any case");
        assert_eq!(pages(list.take(512, 1024)), Some(vec![2 << 20, 4 << 20]));
        assert_eq!(list.take(512, 1024), None);
    }
}
