//! A number for each touched group of 64 pages: dense, in order of first touch.
//!
//! Analyses keep one machine word, or 64 cells, for each group. Finding the number of a group usually takes one probe of a small cache
//! and one load, without a hash. Programs touch pages all over their memory, so consecutive touches are seldom in the same group.

use std::collections::HashMap;

use super::limit::{Entries, Entry, split_at_shared};
use crate::{PageCacheRange, TraceMeta};

/// Pages in a group: bits of a word.
pub(crate) const WORD_PAGES: u64 = 64;
const WORD_SHIFT: u32 = WORD_PAGES.trailing_zeros();
/// Groups in a span.
const SPAN_WORDS: usize = 64;
const SPAN_SHIFT: u32 = WORD_SHIFT + SPAN_WORDS.trailing_zeros();
const ABSENT: u32 = u32::MAX;
/// Spans that are found without a hash: 32 GiB of contiguous memory, in 128 KiB of a core's cache.
const CACHED_SPANS: usize = 1 << 13;

/// Maps (process, page) to dense numbers of groups. Costs 4 bytes a group if touched pages are adjacent, some 300 at worst (one page in
/// each span of 4096).
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct WordTable {
    /// Indexed by the low bits of the span.
    cache: Vec<(Span, u32)>,
    index_of: HashMap<Span, u32>,
    spans: Vec<Span>,
    /// Indexed by span and position in it.
    words: Vec<[u32; SPAN_WORDS]>,
    len: u32,
    /// Pages that are the same in all processes.
    shared: Option<PageCacheRange>,
}

/// Replaces the process for pages that all processes share.
const EVERYBODY: usize = u32::MAX as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Span {
    process: u32,
    number: u64,
}

/// Means no span: page numbers end at 2^52.
const NO_SPAN: Span = Span { process: u32::MAX, number: u64::MAX };

impl Span {
    fn of(process: usize, page: u64) -> Self {
        Self { process: u32::try_from(process).unwrap_or(u32::MAX), number: page >> SPAN_SHIFT }
    }

    fn place(self) -> usize {
        let mixed = self.number ^ u64::from(self.process).wrapping_mul(0x9e37_79b9);
        usize::try_from(mixed % CACHED_SPANS as u64).expect("below the size of the cache")
    }
}

impl WordTable {
    /// A table in which pages of the page cache are the same for all processes of the trace.
    pub(crate) fn of(meta: &TraceMeta) -> Self {
        Self::sharing(meta.page_cache)
    }

    /// A table in which these pages are the same for all processes.
    pub(crate) fn sharing(shared: Option<PageCacheRange>) -> Self {
        Self { shared, ..Self::apart() }
    }

    /// A table in which no pages are shared between processes.
    pub(crate) fn apart() -> Self {
        Self {
            cache: vec![(NO_SPAN, 0); CACHED_SPANS],
            index_of: HashMap::new(),
            spans: Vec::new(),
            words: Vec::new(),
            len: 0,
            shared: None,
        }
    }

    /// The number of the group of `page`; assigns a new one if it has none.
    ///
    /// # Panics
    /// At 2^32 - 1 groups, which [`super::Limit`] never allows.
    #[inline]
    pub(crate) fn insert(&mut self, process: usize, page: u64) -> u32 {
        let owner = if self.shared.is_some() { self.owner(process, page) } else { process };
        let span = Span::of(owner, page);
        let cached = self.cache[span.place()];
        let index = if cached.0 == span { cached.1 } else { self.index(span) };
        let number = &mut self.words[index as usize][word_place(page)];
        if *number == ABSENT {
            *number = self.len;
            assert!(self.len < ABSENT - 1, "more than 2^32 - 2 groups of pages touched");
            self.len += 1;
        }
        *number
    }

    /// Calls `each` for the pages `start..end`, group by group: the group's number, and a bit for each of the pages.
    #[inline]
    pub(crate) fn for_each_word(&mut self, process: usize, start: u64, end: u64, mut each: impl FnMut(u32, u64)) {
        // A row usually has one page.
        if end - start == 1 {
            return each(self.insert(process, start), 1 << (start % WORD_PAGES));
        }
        let mut at = start;
        while at < end {
            let mut until = (at | (WORD_PAGES - 1)) + 1;
            if let Some(shared) = self.shared {
                // If the page cache starts or ends inside a group, the group is split in two.
                let border = [shared.start, shared.end].into_iter().find(|border| (at + 1..until).contains(border));
                until = border.unwrap_or(until);
            }
            let until = until.min(end);
            let bits = u64::MAX >> (WORD_PAGES - (until - at)) << (at % WORD_PAGES);
            each(self.insert(process, at), bits);
            at = until;
        }
    }

    fn owner(&self, process: usize, page: u64) -> usize {
        if self.shared.is_some_and(|shared| shared.contains(page)) { EVERYBODY } else { process }
    }

    #[cold]
    fn index(&mut self, span: Span) -> u32 {
        let Self { cache, index_of, spans, words, .. } = self;
        let index = *index_of.entry(span).or_insert_with(|| {
            spans.push(span);
            words.push([ABSENT; SPAN_WORDS]);
            u32::try_from(spans.len() - 1).expect("no more spans than groups")
        });
        cache[span.place()] = (span, index);
        index
    }

    /// Calls `each` for all groups that `process` alone has in `start..end`: number, and a bit for each page in the range. Order is not
    /// by page.
    pub(crate) fn for_each_in(&self, process: usize, start: u64, end: u64, mut each: impl FnMut(u32, u64)) {
        if start >= end {
            return;
        }
        let (first, last) = (Span::of(process, start), Span::of(process, end - 1));
        let mut visit = |index: u32| {
            let from = self.spans[index as usize].number << SPAN_SHIFT;
            for (place, &number) in (0u64..).zip(&self.words[index as usize]) {
                let page = from + place * WORD_PAGES;
                if number == ABSENT || page >= end || page + WORD_PAGES <= start {
                    continue;
                }
                let below = start.saturating_sub(page);
                let above = (page + WORD_PAGES).saturating_sub(end);
                each(number, u64::MAX << below & u64::MAX >> above);
            }
        };
        if last.number - first.number < self.spans.len() as u64 {
            for number in first.number..=last.number {
                if let Some(&index) = self.index_of.get(&Span { number, ..first }) {
                    visit(index);
                }
            }
        } else {
            for (index, &span) in (0u32..).zip(&self.spans) {
                if (first..=last).contains(&span) {
                    visit(index);
                }
            }
        }
    }

    /// All groups as (process, first page, number), sorted.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (usize, u64, u32)> + '_ {
        let mut order: Vec<u32> = (0u32..).take(self.spans.len()).collect();
        order.sort_unstable_by_key(|&index| self.spans[index as usize]);
        order.into_iter().flat_map(|index| {
            let Span { process, number } = self.spans[index as usize];
            let groups = (0u64..).zip(&self.words[index as usize]).filter(|(_, word)| **word != ABSENT);
            groups.map(move |(place, &word)| (process as usize, (number << SPAN_SHIFT) + place * WORD_PAGES, word))
        })
    }
}

impl Entry {
    /// One group in a [`WordTable`], with up to 36 bytes of the analysis. A short row touches two at most.
    pub(crate) const GROUP: Self = Self { pages: WORD_PAGES, bytes: 40, per_row: 2, numbers: (1 << 32) - 64 };
}

impl Entries for WordTable {
    fn held(&self) -> u64 {
        u64::from(self.len)
    }

    fn missing(&self, process: usize, start: u64, end: u64) -> u64 {
        let mut missing = 0;
        for (start, end) in split_at_shared(self.shared, start, end).into_iter().filter(|(start, end)| start < end) {
            let mut present = 0;
            self.for_each_in(self.owner(process, start), start, end, |_, _| present += 1);
            missing += (end - 1) / WORD_PAGES - start / WORD_PAGES + 1 - present;
        }
        missing
    }
}

/// Position of a page's group in its span.
fn word_place(page: u64) -> usize {
    usize::try_from(page >> WORD_SHIFT).unwrap_or(usize::MAX) % SPAN_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a map by group, and a set of pages for ranges.
        #[test]
        fn equals_a_map(
            runs in proptest::collection::vec(
                (0usize..3, prop_oneof![0u64..9000, 0u64..(1 << 51)], prop_oneof![Just(1u64), 1u64..300]), 0..200),
            start in 0u64..9000, len in prop_oneof![0u64..500, 0u64..(1 << 51)],
            shared in prop_oneof![Just(None), (0u64..500, 1u64..500).prop_map(Some)],
        ) {
            let range = shared.map(|(start, len)| PageCacheRange { start, end: start + len });
            let mut table = WordTable { shared: range, ..WordTable::apart() };
            let mut touched: Vec<u64> = Vec::new();
            let mut model = BTreeMap::new();
            let mut pages = std::collections::BTreeSet::new();
            for (process, first, len) in runs {
                let mut seen = 0;
                table.for_each_word(process, first, first + len, |number, bits| {
                    touched.resize(touched.len().max(number as usize + 1), 0);
                    touched[number as usize] |= bits;
                    seen += u64::from(bits.count_ones());
                });
                prop_assert_eq!(seen, len);
                for page in first..first + len {
                    let owner = if range.is_some_and(|range| range.contains(page)) { EVERYBODY } else { process };
                    let next = u32::try_from(model.len()).unwrap();
                    let expected = *model.entry((owner, page / 64)).or_insert(next);
                    prop_assert_eq!(table.insert(process, page), expected);
                    pages.insert((owner, page));
                }
            }
            let sorted: Vec<_> = model.iter().map(|(&(process, word), &number)| (process, word * 64, number)).collect();
            prop_assert_eq!(table.sorted().collect::<Vec<_>>(), sorted);
            prop_assert_eq!(touched.iter().map(|word| u64::from(word.count_ones())).sum::<u64>(), pages.len() as u64);
            // A group with shared pages in its middle is counted on both sides of them.
            let (held, missing) = (table.held(), table.missing(1, start, start + len.max(1)));
            if len < 500 {
                let mut tried = table.clone();
                tried.for_each_word(1, start, start + len.max(1), |_, _| ());
                let added = tried.held() - held;
                prop_assert!((added..=added + 1).contains(&missing), "{} for {}", missing, added);
            }
            let mut found = 0;
            table.for_each_in(1, start, start + len, |number, bits| {
                found += (touched[number as usize] & bits).count_ones() as usize;
            });
            prop_assert_eq!(found, pages.range((1, start)..(1, start + len)).count());
        }
    }
}
