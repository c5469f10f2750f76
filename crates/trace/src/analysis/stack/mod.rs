//! The LRU stack: exact stack distances, with removal of pages.
//!
//! Pages occupy slots in order of their last access, one bit for each occupied slot. The stack distance of an access is the number of
//! occupied slots from the page's own to the top (Mattson et al., 1970; Bennett and Kruskal, 1975). When the slots run out, they are
//! renumbered densely.
//!
//! Accesses are recorded at once, but counted in batches. The slot that an access empties does not depend on any distance. So a batch is
//! sorted by slot, and a sweep from the top down counts for each access the slots above it that were occupied before the batch. Changes by
//! the batch itself follow from the accesses that the sweep has passed: the earlier ones emptied a slot above this access. They are counted
//! in a small set by position in the batch ([`ranks::Ranks`]), which stays in a core's cache, while the sweep visits the slots in order. A
//! tree over all slots would miss the cache several times an access. Each step is a separate loop over the batch: in a short loop the
//! processor overlaps many cache misses.
//!
//! The two halves share only the batches, so that they can run on two threads. [`Places`] knows the slot of each page, makes batches and
//! renumbers. [`Distances`] knows which slots are occupied, and counts.
//!
//! A removed page leaves a *hole*: caches that held it now have room for one page, and the others do not. The next page that comes from
//! below the topmost hole, or from outside, fills that hole: the pages above move down into it, those below stay, and the old slot of the
//! page becomes the hole. So each cache size keeps its own number of free places, and one stack still represents all sizes.

mod batch;
mod distances;
mod occupied;
mod packing;
mod places;
mod ranks;

pub(crate) use batch::Batch;
pub(crate) use distances::Distances;
pub(crate) use places::Places;

/// Both halves on one thread.
#[derive(Debug, Default)]
pub(crate) struct LruStack {
    places: Places,
    distances: Distances,
}

impl LruStack {
    /// Pages are accessed, one after the other. `hit` is called with distances ([`Distances::count`]) of these accesses and earlier ones.
    /// Returns the number of accesses to absent pages, which have no distance.
    pub(crate) fn access(&mut self, pages: &[u32], mut hit: impl FnMut(&[u32])) -> u64 {
        let Self { places, distances } = self;
        places.access(pages, |batch| hit(distances.count(batch)))
    }

    /// Removes page `page`: every cache that held it has a free place.
    pub(crate) fn forget(&mut self, page: u32) {
        self.places.forget(page);
    }

    /// Counts the distances of all accesses so far.
    pub(crate) fn settle(&mut self, mut hit: impl FnMut(&[u32])) {
        let Self { places, distances } = self;
        places.settle(|batch| hit(distances.count(batch)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An LRU cache of `places` pages, most recent first.
    fn naive_misses(places: usize, steps: &[(bool, u32)]) -> u64 {
        let mut cache: Vec<u32> = Vec::new();
        let mut misses = 0;
        for &(access, page) in steps {
            let at = cache.iter().position(|&held| held == page);
            if let Some(at) = at {
                cache.remove(at);
            }
            if access {
                misses += u64::from(at.is_none());
                cache.insert(0, page);
                cache.truncate(places);
            }
        }
        misses
    }

    /// Number of accesses with each distance, [0] for accesses without one; counted after each `settle_every` steps.
    fn distances(steps: &[(bool, u32)], settle_every: usize) -> Vec<u64> {
        let mut stack = LruStack::default();
        let mut found = vec![0];
        let mut hit = |distances: &[u32]| {
            for &distance in distances {
                found.resize(found.len().max(distance as usize + 1), 0);
                found[distance as usize] += 1;
            }
        };
        let mut absent = 0;
        for (number, &(access, page)) in steps.iter().enumerate() {
            if access {
                absent += stack.access(&[page], &mut hit);
            } else {
                stack.forget(page);
            }
            if number % settle_every == 0 {
                stack.settle(&mut hit);
            }
        }
        stack.settle(&mut hit);
        found[0] = absent;
        found
    }

    #[test]
    fn distances_by_hand() {
        // a b c b a: b is below c (2), a below b and c (3). Then c is below a and b (3), and c again on top (1).
        let steps = [0, 1, 2, 1, 0, 2, 2].map(|page| (true, page));
        for settle_every in 1..8 {
            assert_eq!(distances(&steps, settle_every), [3, 1, 1, 2], "{settle_every}");
        }
    }

    #[test]
    fn a_forgotten_page_frees_a_place_only_where_it_was_held() {
        // a b c, forget b, d, a. A cache of 3 held b: d takes its place, and a is still cached. A cache of 2 held b and c: d takes b's
        // place; a was evicted by c.
        let steps = [(true, 0), (true, 1), (true, 2), (false, 1), (true, 3), (true, 0)];
        assert_eq!(distances(&steps, 100), [4, 0, 0, 1]);
        assert_eq!((naive_misses(2, &steps), naive_misses(3, &steps)), (5, 4));
    }

    #[test]
    fn a_long_run_over_many_pages_is_renumbered_and_stays_exact() {
        // A cyclic scan over 3000 pages: each access is to the least recently used one. Over 200,000 accesses the slots run out often.
        let steps: Vec<_> = (0..200_000).map(|number| (true, number % 3000)).collect();
        let found = distances(&steps, usize::MAX);
        assert_eq!((found[0], found[3000], found.len()), (3000, 197_000, 3001));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// All sizes at once give the same result as one simulated cache of each size, for any division into batches.
        #[test]
        fn equals_caches_of_every_size(
            steps in proptest::collection::vec((prop::bool::weighted(0.85), 0u32..24), 0..9000),
            settle_every in prop_oneof![1usize..30, Just(usize::MAX)],
        ) {
            let found = distances(&steps, settle_every);
            for places in 1..=26 {
                let further: u64 = found.iter().skip(places + 1).sum();
                prop_assert_eq!(found[0] + further, naive_misses(places, &steps), "{} places", places);
            }
        }
    }
}
