// SPDX-License-Identifier: GPL-2.0-or-later

//! The epoch filter: which pages a thread has touched in its current epoch, asked at every load and store.
//!
//! Two tables per thread answer. The front is small, of fixed size and direct-mapped: one load and one comparison for nearly
//! every access. Behind it an open-addressed table knows all pages of the epoch exactly. An entry of either is one word:
//! the page, the epoch's stamp and a written bit. An entry with another stamp counts as empty, so that a new epoch costs
//! nothing.

/// Bits of an entry below the page: the stamp and the written bit.
const STAMP_BITS: u32 = 29;
/// Stamps count in twos; bit 0 is the written bit.
const STAMP_STEP: u64 = 2;
const STAMP_END: u64 = 1 << STAMP_BITS;
const WRITTEN: u64 = 1;
/// Of an entry of `touched`, below the page: the written bit, and whether only the kernel touched it.
const BY_KERNEL: u64 = 2;
const TOUCH_BITS: u32 = 2;
/// User addresses have 47 bits, their pages 35, which fills a word together with the stamp.
const PAGE_MASK: u64 = (1 << (64 - STAMP_BITS)) - 1;
/// 2^64 divided by the golden ratio, odd: neighbouring pages spread evenly.
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST_BITS: u32 = 12;
/// 16 KiB of front: half of a first-level cache, and more pages than most programs touch in a millisecond.
const FRONT_BITS: u32 = 11;

/// The first touches of one epoch in order, and the table that finds repeats.
pub(crate) struct Filter {
    stamp: u64,
    front: [u64; 1 << FRONT_BITS],
    table: Box<[u64]>,
    /// Where the page of a table entry stands in `touched`; valid where the entry is.
    places: Box<[u32]>,
    shift: u32,
    /// The page, whether by the kernel, whether written (two bits), or 0 for a page forgotten since.
    touched: Vec<u64>,
    /// Touches below this place were handed out.
    handed_out: usize,
}

/// Pages that follow each other in order of first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRun {
    pub(crate) page: u64,
    pub(crate) pages: u64,
    pub(crate) write: bool,
    /// Only the kernel touched them, for the program.
    pub(crate) kernel: bool,
}

impl Filter {
    pub(crate) fn new() -> Self {
        Self::with_bits(FIRST_BITS)
    }

    fn with_bits(bits: u32) -> Self {
        Self {
            stamp: STAMP_STEP,
            front: [0; 1 << FRONT_BITS],
            table: vec![0; 1 << bits].into_boxed_slice(),
            places: vec![0; 1 << bits].into_boxed_slice(),
            shift: 64 - bits,
            touched: Vec::with_capacity(1 << (bits - 1)),
            handed_out: 0,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the shift leaves as many bits as the table has")]
    fn slot(&self, page: u64) -> usize {
        (page.wrapping_mul(HASH) >> self.shift) as usize
    }

    /// Whether the front knows that nothing is to be recorded for this access. `store` is 0 or 1.
    #[inline(always)]
    pub(crate) fn is_known(&self, page: u64, store: u64) -> bool {
        let difference = self.front[front_slot(page)] ^ (page << STAMP_BITS | self.stamp | WRITTEN);
        // A load does not care about the written bit.
        difference & (!WRITTEN | store) == 0
    }

    /// A load from `page`.
    #[inline]
    pub(crate) fn read(&mut self, page: u64) {
        if !self.is_known(page, 0) {
            self.touch(page, false);
        }
    }

    /// A store to `page`.
    #[inline]
    pub(crate) fn write(&mut self, page: u64) {
        if !self.is_known(page, 1) {
            self.touch(page, true);
        }
    }

    /// What the front could not answer: a new page, a read page that is written now, or one that lost its place in front.
    #[cold]
    #[inline(never)]
    fn touch(&mut self, page: u64, write: bool) {
        let page = page & PAGE_MASK;
        if page == 0 {
            return; // never mapped; its value marks forgotten touches
        }
        let written = self.note(page, write, false);
        self.front[front_slot(page)] = page << STAMP_BITS | self.stamp | u64::from(written);
    }

    /// The kernel touches a page for the program. The front does not hear of it, so that the program's own first touch is seen.
    pub(crate) fn kernel_touch(&mut self, page: u64, write: bool) {
        let page = page & PAGE_MASK;
        if page != 0 && !self.is_known(page, u64::from(write)) {
            self.note(page, write, true);
        }
    }

    /// Takes in a touch; whether the page is a written one.
    fn note(&mut self, page: u64, write: bool, kernel: bool) -> bool {
        let tag = page << STAMP_BITS | self.stamp;
        let mut slot = self.slot(page);
        loop {
            let entry = self.table[slot];
            if entry | WRITTEN == tag | WRITTEN {
                self.touch_again(slot, page, write, kernel);
                return write || entry & WRITTEN != 0;
            }
            if entry & (STAMP_END - STAMP_STEP) != self.stamp {
                self.table[slot] = tag | u64::from(write);
                self.append(slot, page, write, kernel);
                return write;
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
    }

    /// A page that was touched in this epoch is now written, or touched by the program for the first time.
    fn touch_again(&mut self, slot: usize, page: u64, write: bool, kernel: bool) {
        let place = self.places[slot] as usize;
        let is_first_write = write && self.table[slot] & WRITTEN == 0;
        let is_first_own = !kernel && self.touched[place] & BY_KERNEL != 0;
        if !is_first_write && !is_first_own {
            return;
        }
        self.table[slot] |= u64::from(write);
        if place < self.handed_out {
            // What was touched is out already, so this is a touch of its own.
            self.append(slot, page, write, kernel);
            return;
        }
        self.touched[place] |= u64::from(write);
        if !kernel {
            self.touched[place] &= !BY_KERNEL;
        }
    }

    fn append(&mut self, slot: usize, page: u64, write: bool, kernel: bool) {
        self.places[slot] = place_of(self.touched.len());
        self.touched.push(page << TOUCH_BITS | if kernel { BY_KERNEL } else { 0 } | u64::from(write));
        if self.touched.len() * 2 > self.table.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let bits = 64 - self.shift + 1;
        self.shift = 64 - bits;
        self.table = vec![0; 1 << bits].into_boxed_slice();
        self.places = vec![0; 1 << bits].into_boxed_slice();
        for (place, &touch) in self.touched.iter().enumerate() {
            let (page, written) = (touch >> TOUCH_BITS, touch & WRITTEN);
            if page == 0 {
                continue;
            }
            let tag = page << STAMP_BITS | self.stamp;
            let mut slot = self.slot(page);
            while self.table[slot] != 0 && self.table[slot] | WRITTEN != tag | WRITTEN {
                slot = (slot + 1) & (self.table.len() - 1);
            }
            // A page handed out as read and written later stands here twice; the later place counts.
            self.table[slot] = tag | written;
            self.places[slot] = place_of(place);
        }
    }

    /// Hands out the touches since the last call, folded into runs, and keeps the pages in the filter: within this epoch
    /// they do not appear again.
    pub(crate) fn hand_out(&mut self, mut sink: impl FnMut(PageRun)) {
        let mut open: Option<PageRun> = None;
        for &touch in &self.touched[self.handed_out..] {
            let (page, write, kernel) = (touch >> TOUCH_BITS, touch & WRITTEN != 0, touch & BY_KERNEL != 0);
            if page == 0 {
                continue;
            }
            match &mut open {
                Some(run) if run.page + run.pages == page && (run.write, run.kernel) == (write, kernel) => {
                    run.pages += 1
                }
                _ => {
                    if let Some(run) = open.replace(PageRun { page, pages: 1, write, kernel }) {
                        sink(run);
                    }
                }
            }
        }
        if let Some(run) = open {
            sink(run);
        }
        self.handed_out = self.touched.len();
    }

    /// Whether there are touches that were not handed out.
    pub(crate) fn has_news(&self) -> bool {
        self.handed_out < self.touched.len()
    }

    /// Begins the next epoch: every page counts as untouched again. Touches not handed out are lost.
    pub(crate) fn next_epoch(&mut self) {
        self.touched.clear();
        self.handed_out = 0;
        self.stamp += STAMP_STEP;
        if self.stamp == STAMP_END {
            self.table.fill(0);
            self.front.fill(0);
            self.stamp = STAMP_STEP;
        }
    }

    /// Makes pages of `[start, end)` count as untouched, because other memory is there from now on. Hand out first.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        for place in 0..self.touched.len() {
            let page = self.touched[place] >> TOUCH_BITS;
            if page == 0 || page < start || page >= end {
                continue;
            }
            self.touched[place] = 0;
            self.front[front_slot(page)] = 0;
            let tag = page << STAMP_BITS | self.stamp;
            let mut slot = self.slot(page);
            while self.table[slot] & (STAMP_END - STAMP_STEP) == self.stamp {
                if self.table[slot] | WRITTEN == tag | WRITTEN {
                    // Page 0 with the current stamp: not empty, so that later entries of the chain are found.
                    self.table[slot] = self.stamp;
                    break;
                }
                slot = (slot + 1) & (self.table.len() - 1);
            }
        }
    }
}

#[inline(always)]
fn front_slot(page: u64) -> usize {
    // Mappings start at round addresses, so the higher bits must count too.
    ((page ^ page >> FRONT_BITS) & ((1 << FRONT_BITS) - 1)) as usize
}

fn place_of(index: usize) -> u32 {
    u32::try_from(index).expect("an epoch has fewer than 2^32 touches: its instructions are fewer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(filter: &mut Filter) -> Vec<(u64, u64, bool)> {
        let mut out = Vec::new();
        filter.hand_out(|run| out.push((run.page, run.pages, run.write)));
        out
    }

    #[test]
    fn each_page_appears_once_in_order_of_first_touch() {
        let mut filter = Filter::new();
        for page in [7, 3, 7, 9, 3, 7] {
            filter.read(page);
        }
        assert_eq!(runs(&mut filter), [(7, 1, false), (3, 1, false), (9, 1, false)]);
        filter.read(9);
        assert!(!filter.has_news(), "handed out, still in the filter");
        filter.next_epoch();
        filter.read(9);
        assert_eq!(runs(&mut filter), [(9, 1, false)]);
    }

    #[test]
    fn a_later_write_marks_the_first_touch() {
        let mut filter = Filter::new();
        filter.read(5);
        filter.read(6);
        filter.write(5);
        filter.read(5);
        assert_eq!(runs(&mut filter), [(5, 1, true), (6, 1, false)]);
        filter.write(6);
        filter.write(6);
        assert_eq!(runs(&mut filter), [(6, 1, true)], "its read is out, so the write is a row of its own");
    }

    #[test]
    fn ascending_pages_of_one_kind_fold() {
        let mut filter = Filter::new();
        (100..104).for_each(|page| filter.read(page));
        (104..106).for_each(|page| filter.write(page));
        filter.read(99);
        assert_eq!(runs(&mut filter), [(100, 4, false), (104, 2, true), (99, 1, false)]);
    }

    #[test]
    fn touches_by_the_kernel_alone_are_told_apart() {
        let mut filter = Filter::new();
        let kernel = |filter: &mut Filter| {
            let mut out = Vec::new();
            filter.hand_out(|run| out.push((run.page, run.pages, run.write, run.kernel)));
            out
        };
        filter.kernel_touch(5, true);
        filter.kernel_touch(6, true);
        filter.kernel_touch(7, false);
        filter.read(7);
        filter.read(8);
        filter.kernel_touch(8, false);
        assert_eq!(kernel(&mut filter), [(5, 2, true, true), (7, 2, false, false)]);
        // What is out is not changed any more: the program's own touch is another row.
        filter.read(5);
        filter.read(5);
        filter.kernel_touch(8, true);
        assert_eq!(kernel(&mut filter), [(5, 1, false, false), (8, 1, true, true)]);
        filter.kernel_touch(5, true);
        assert!(!filter.has_news());
    }

    #[test]
    fn forgotten_pages_count_as_new() {
        let mut filter = Filter::new();
        (10..20).for_each(|page| filter.write(page));
        assert_eq!(runs(&mut filter), [(10, 10, true)]);
        filter.forget(12, 14);
        (10..20).for_each(|page| filter.read(page));
        assert_eq!(runs(&mut filter), [(12, 2, false)]);
    }

    #[test]
    fn a_tiny_table_agrees_with_a_plain_set() {
        // Two to sixteen entries: every probe collides and the table grows. 40 pages, fixed pseudo-random walk.
        let mut filter = Filter::with_bits(1);
        let mut state = 12_345u64;
        for _epoch in 0..200 {
            let mut naive: Vec<(u64, bool)> = Vec::new();
            for _ in 0..60 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Pages 2048 apart share a place in front.
                let page = 1 + (state >> 33) % 10 + (((state >> 50) % 4) << FRONT_BITS);
                let write = state >> 63 == 1;
                if write {
                    filter.write(page)
                } else {
                    filter.read(page)
                }
                match naive.iter_mut().find(|(seen, _)| *seen == page) {
                    Some((_, written)) => *written |= write,
                    None => naive.push((page, write)),
                }
            }
            let mut flat = Vec::new();
            filter.hand_out(|run| flat.extend((run.page..run.page + run.pages).map(|page| (page, run.write))));
            assert_eq!(flat, naive);
            filter.next_epoch();
        }
    }

    #[test]
    fn stamps_wrap_around() {
        let mut filter = Filter::with_bits(4);
        filter.read(3);
        filter.stamp = STAMP_END - STAMP_STEP;
        filter.touched.clear();
        filter.read(4);
        filter.next_epoch();
        assert_eq!(filter.stamp, STAMP_STEP);
        filter.read(3);
        filter.read(4);
        assert_eq!(runs(&mut filter), [(3, 2, false)]);
    }

    #[test]
    fn highest_user_page_and_page_zero() {
        let mut filter = Filter::new();
        filter.read(0);
        assert!(!filter.has_news(), "page 0 is never mapped");
        filter.write((1 << 35) - 1);
        assert_eq!(runs(&mut filter), [((1 << 35) - 1, 1, true)]);
    }
}
