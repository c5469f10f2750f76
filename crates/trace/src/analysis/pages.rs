//! A number for each touched page: dense, in order of first touch.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::limit::{Entries, split_at_shared};
use crate::{PageCacheRange, TraceMeta};

const LEAF_SHIFT: u32 = 4;
const LEAF_PAGES: usize = 1 << LEAF_SHIFT;
const ABSENT: u32 = u32::MAX;

/// Maps (process, page) to dense numbers. Costs 4 bytes a page if touched pages are adjacent, some 110 at worst (one page
/// in each block of 16).
#[derive(Debug, Default)]
pub(crate) struct PageTable {
    leaf_of: HashMap<LeafKey, u32, BuildHasherDefault<FastHasher>>,
    keys: Vec<LeafKey>,
    leaves: Vec<[u32; LEAF_PAGES]>,
    last: Option<(LeafKey, u32)>,
    len: u32,
    /// Pages that are the same in all processes.
    shared: Option<PageCacheRange>,
}

/// Replaces the process for pages that all processes share.
const EVERYBODY: usize = u32::MAX as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LeafKey {
    process: u32,
    number: u64,
}

impl LeafKey {
    fn of(process: usize, page: u64) -> Self {
        Self { process: u32::try_from(process).unwrap_or(u32::MAX), number: page >> LEAF_SHIFT }
    }
    fn page(self, at: usize) -> u64 {
        self.number << LEAF_SHIFT | at as u64
    }
}

/// Multiplication as a hash: the keys are page numbers of the user's own traces, and order is never taken from the map.
#[derive(Clone, Copy, Debug, Default)]
struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl PageTable {
    /// A table in which pages of the page cache are the same for all processes of the trace.
    pub(crate) fn of(meta: &TraceMeta) -> Self {
        Self { shared: meta.page_cache, ..Self::default() }
    }

    fn owner(&self, process: usize, page: u64) -> usize {
        if self.shared.is_some_and(|shared| shared.contains(page)) { EVERYBODY } else { process }
    }

    /// Number of pages with numbers.
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.len)
    }

    /// The number of a page; assigns a new one if it has none.
    ///
    /// # Panics
    /// At 2^32 - 1 pages, which [`super::Limit`] never allows.
    #[inline]
    pub(crate) fn insert(&mut self, process: usize, page: u64) -> u32 {
        let key = LeafKey::of(self.owner(process, page), page);
        let leaf = match self.last {
            Some((last, leaf)) if last == key => leaf,
            _ => {
                let leaf = self.leaf(key);
                self.last = Some((key, leaf));
                leaf
            }
        };
        let number = &mut self.leaves[leaf as usize][Self::place(page)];
        if *number == ABSENT {
            *number = self.len;
            assert!(self.len < ABSENT - 1, "more than 2^32 - 2 pages touched");
            self.len += 1;
        }
        *number
    }

    fn place(page: u64) -> usize {
        usize::try_from(page & (LEAF_PAGES as u64 - 1)).expect("below 16")
    }

    fn leaf(&mut self, key: LeafKey) -> u32 {
        let Self { leaf_of, keys, leaves, .. } = self;
        *leaf_of.entry(key).or_insert_with(|| {
            keys.push(key);
            leaves.push([ABSENT; LEAF_PAGES]);
            u32::try_from(leaves.len() - 1).expect("no more leaves than pages")
        })
    }

    /// Calls `each` with the numbers of pages that `process` touched in `start..end`, a range of one mapping, including
    /// shared pages.
    pub(crate) fn for_each_touched(&self, process: usize, start: u64, end: u64, each: impl FnMut(u32)) {
        self.for_each_in(self.owner(process, start), start, end, each);
    }

    /// Calls `each` with the numbers of all pages in `start..end` that `process` alone has. Order is not by page.
    pub(crate) fn for_each_in(&self, process: usize, start: u64, end: u64, mut each: impl FnMut(u32)) {
        if start >= end {
            return;
        }
        let (first, last) = (LeafKey::of(process, start), LeafKey::of(process, end - 1));
        let mut leaf = |key: LeafKey, leaf: u32| {
            for (at, &number) in self.leaves[leaf as usize].iter().enumerate() {
                if number != ABSENT && (start..end).contains(&key.page(at)) {
                    each(number);
                }
            }
        };
        if last.number - first.number < self.keys.len() as u64 {
            for number in first.number..=last.number {
                let key = LeafKey { number, ..first };
                if let Some(&found) = self.leaf_of.get(&key) {
                    leaf(key, found);
                }
            }
        } else {
            for (index, &key) in self.keys.iter().enumerate() {
                if (first..=last).contains(&key) {
                    leaf(key, u32::try_from(index).expect("no more leaves than pages"));
                }
            }
        }
    }

    /// All pages as (process, page, number), sorted.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (usize, u64, u32)> + '_ {
        let mut order: Vec<u32> = (0u32..).take(self.keys.len()).collect();
        order.sort_unstable_by_key(|&index| self.keys[index as usize]);
        order.into_iter().flat_map(|index| {
            let key = self.keys[index as usize];
            let pages = self.leaves[index as usize].iter().enumerate().filter(|(_, number)| **number != ABSENT);
            pages.map(move |(at, &number)| (key.process as usize, key.page(at), number))
        })
    }
}

impl Entries for PageTable {
    fn held(&self) -> u64 {
        self.len()
    }

    fn missing(&self, process: usize, start: u64, end: u64) -> u64 {
        let mut present = 0;
        for (start, end) in split_at_shared(self.shared, start, end) {
            self.for_each_touched(process, start, end, |_| present += 1);
        }
        end - start - present
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn equals_a_map(
            pages in proptest::collection::vec((0usize..3, prop_oneof![0u64..100, 0u64..(1 << 52)]), 0..300),
            start in 0u64..200, len in prop_oneof![0u64..100, 0u64..(1 << 51)],
        ) {
            let mut table = PageTable::default();
            let mut model = BTreeMap::new();
            for (process, page) in pages {
                let next = u32::try_from(model.len()).unwrap();
                let expected = *model.entry((process, page)).or_insert(next);
                prop_assert_eq!(table.insert(process, page), expected);
            }
            let sorted: Vec<_> = model.iter().map(|(&(process, page), &number)| (process, page, number)).collect();
            prop_assert_eq!(table.sorted().collect::<Vec<_>>(), sorted);
            let touched = model.range((1, start)..(1, start + len)).count() as u64;
            prop_assert_eq!(table.missing(1, start, start + len), len - touched);
            let mut found = Vec::new();
            table.for_each_in(1, start, start + len, |number| found.push(number));
            found.sort_unstable();
            let mut expected: Vec<_> = model.range((1, start)..(1, start + len)).map(|(_, &number)| number).collect();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
