//! Lists of page numbers in rings: the tail is the oldest, the head the youngest.

/// A list whose pages leave at the tail only.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    at: Vec<u32>,
    head: usize,
    tail: usize,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self { at: vec![0; 1024], head: 0, tail: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> u64 {
        (self.head - self.tail) as u64
    }

    #[inline]
    pub(super) fn push(&mut self, page: u32) {
        if self.head - self.tail == self.at.len() {
            self.grow();
        }
        let index = self.head & (self.at.len() - 1);
        self.at[index] = page;
        self.head += 1;
    }

    /// The page with `younger` pages between it and the tail.
    #[inline]
    pub(super) fn oldest(&self, younger: usize) -> u32 {
        self.at[(self.tail + younger) & (self.at.len() - 1)]
    }

    /// The oldest pages leave.
    #[inline]
    pub(super) fn pop(&mut self, pages: usize) {
        debug_assert!(pages as u64 <= self.len(), "only what is there leaves");
        self.tail += pages;
    }

    pub(super) fn clear(&mut self) {
        self.tail = self.head;
    }

    #[cold]
    fn grow(&mut self) {
        let pages: Vec<u32> = (0..self.head - self.tail).map(|younger| self.oldest(younger)).collect();
        (self.tail, self.head) = (0, pages.len());
        self.at = pages;
        self.at.resize(self.head.next_power_of_two() * 2, 0);
    }
}

/// Lists of which any page may leave: its entry goes stale, and is skipped when the tail reaches it.
#[derive(Clone, Debug)]
pub(super) struct LazyRings<const N: usize> {
    rings: [Ring; N],
}

/// A place in one of the rings, as it is stored for a page.
pub(super) const NOWHERE: u32 = u32::MAX;
const INDEX_BITS: u32 = 29;

#[inline]
fn place(list: usize, index: usize) -> u32 {
    (list as u32) << INDEX_BITS | index as u32
}

impl<const N: usize> LazyRings<N> {
    pub(super) fn new() -> Self {
        Self { rings: std::array::from_fn(|_| Ring::new()) }
    }

    /// Puts a page at the young end of a list. `places`: by page.
    #[inline]
    pub(super) fn push(&mut self, places: &mut [u32], list: usize, page: u32) {
        if self.rings[list].head - self.rings[list].tail >= self.rings[list].at.len() - 1 {
            self.make_room(places, list);
        }
        let ring = &mut self.rings[list];
        let index = ring.head & (ring.at.len() - 1);
        ring.at[index] = page;
        ring.head += 1;
        places[page as usize] = place(list, index);
    }

    /// Puts a page at the old end.
    pub(super) fn push_old(&mut self, places: &mut [u32], list: usize, page: u32) {
        if self.rings[list].head - self.rings[list].tail >= self.rings[list].at.len() - 1 || self.rings[list].tail == 0
        {
            self.make_room(places, list);
        }
        let ring = &mut self.rings[list];
        ring.tail -= 1;
        let index = ring.tail & (ring.at.len() - 1);
        ring.at[index] = page;
        places[page as usize] = place(list, index);
    }

    /// The oldest page of a list.
    #[inline]
    pub(super) fn tail(&mut self, places: &[u32], list: usize) -> Option<u32> {
        let ring = &mut self.rings[list];
        while ring.tail != ring.head {
            let index = ring.tail & (ring.at.len() - 1);
            let page = ring.at[index];
            if places[page as usize] == place(list, index) {
                return Some(page);
            }
            ring.tail += 1;
        }
        None
    }

    /// The oldest page, which [`tail`](Self::tail) has just named, leaves.
    #[inline]
    pub(super) fn unlink_tail(&mut self, places: &mut [u32], list: usize, page: u32) {
        self.rings[list].tail += 1;
        places[page as usize] = NOWHERE;
    }

    /// Pages at the old end as far as the list goes, stale ones included.
    #[inline]
    pub(super) fn oldest(&self, list: usize, most: u64) -> impl Iterator<Item = u32> + '_ {
        let ring = &self.rings[list];
        (0..ring.len().min(most) as usize).map(|younger| ring.oldest(younger))
    }

    pub(super) fn clear(&mut self) {
        self.rings.iter_mut().for_each(Ring::clear);
    }

    /// Throws stale entries out. The ring has room for as many entries more, at both ends.
    #[cold]
    fn make_room(&mut self, places: &mut [u32], list: usize) {
        let ring = &mut self.rings[list];
        let mask = ring.at.len() - 1;
        let is_live = |&index: &usize| places[ring.at[index] as usize] == place(list, index);
        let live: Vec<u32> =
            (ring.tail..ring.head).map(|at| at & mask).filter(is_live).map(|index| ring.at[index]).collect();
        let len = (live.len() * 2).next_power_of_two().max(1024) * 2;
        ring.at = vec![0; len];
        ring.tail = len;
        ring.head = len + live.len();
        for (index, &page) in live.iter().enumerate() {
            ring.at[index] = page;
            places[page as usize] = place(list, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_units::random::Random;
    use std::collections::VecDeque;

    #[test]
    fn a_ring_is_a_queue() {
        let (mut ring, mut queue, mut random) = (Ring::new(), VecDeque::new(), Random::new(1));
        for page in 0..20_000 {
            ring.push(page);
            queue.push_back(page);
            let nr = random.below(4).min(ring.len()) as usize;
            (0..nr).for_each(|younger| assert_eq!(ring.oldest(younger), queue[younger]));
            ring.pop(nr / 2);
            queue.drain(..nr / 2);
        }
        assert_eq!(ring.len(), queue.len() as u64);
    }

    #[test]
    fn pages_leave_lists_anywhere() {
        const PAGES: u32 = 3000;
        let (mut rings, mut places) = (LazyRings::<4>::new(), vec![NOWHERE; PAGES as usize]);
        let mut lists: [VecDeque<u32>; 4] = Default::default();
        let mut random = Random::new(2);
        for _ in 0..60_000 {
            let (page, list) = (random.below(PAGES.into()) as u32, random.below(4) as usize);
            // It leaves the list that it is on.
            lists.iter_mut().for_each(|list| list.retain(|&other| other != page));
            places[page as usize] = NOWHERE;
            match random.below(8) {
                0 => {}
                1 => {
                    rings.push_old(&mut places, list, page);
                    lists[list].push_front(page);
                }
                _ => {
                    rings.push(&mut places, list, page);
                    lists[list].push_back(page);
                }
            }
            let oldest = rings.tail(&places, list);
            assert_eq!(oldest, lists[list].front().copied());
            if let Some(oldest) = oldest.filter(|_| random.below(3) == 0) {
                rings.unlink_tail(&mut places, list, oldest);
                lists[list].pop_front();
            }
        }
    }
}
