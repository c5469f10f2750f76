//! The epoch filter: turns single references into rows.

use crate::{PAGE_LIMIT, TraceRow};

/// Keeps of all references of a thread in an epoch one per page: the first touch, a write if any was.
///
/// Rows of an epoch come out together when it ends, in the order of first touches, neighbours folded into runs. Feed it
/// in program order of each thread; threads may be mixed. It never holds more than one epoch of each thread.
#[derive(Debug)]
pub struct EpochFilter {
    epoch_ns: u64,
    threads: Vec<ThreadEpoch>,
}

#[derive(Debug, Default)]
struct ThreadEpoch {
    /// Start of the current epoch.
    start_ns: u64,
    /// First touches in order, with the written flag.
    touched: Vec<(u64, bool)>,
    set: PageSet,
    last: Option<(u64, bool)>,
}

impl EpochFilter {
    /// A filter with epochs of `epoch_ns` nanoseconds of a thread's CPU time; 0 is taken as 1.
    pub fn new(epoch_ns: u64) -> Self {
        Self { epoch_ns: epoch_ns.max(1), threads: Vec::new() }
    }

    /// Thread `thread` touches `page` (below [`PAGE_LIMIT`]; others are dropped) at its CPU time `time_ns`, which must
    /// not decrease. When this begins an epoch, the rows of the thread's epoch before go to `out`.
    #[inline]
    pub fn touch(&mut self, thread: u32, time_ns: u64, page: u64, write: bool, out: &mut impl FnMut(TraceRow)) {
        let index = thread as usize;
        if index >= self.threads.len() {
            self.threads.resize_with(index + 1, ThreadEpoch::default);
        }
        let epoch_ns = self.epoch_ns;
        let state = &mut self.threads[index];
        if time_ns.wrapping_sub(state.start_ns) >= epoch_ns && time_ns >= state.start_ns {
            state.emit(thread, out);
            state.start_ns = time_ns - time_ns % epoch_ns;
        }
        state.touch(page, write);
    }

    /// Hands out what `thread` has touched so far in its epoch: call it before an event of that thread (a mapping, an
    /// unmapping, its end), so that the event follows the touches before it. A page touched again in the same epoch
    /// then appears again.
    pub fn flush_thread(&mut self, thread: u32, out: &mut impl FnMut(TraceRow)) {
        if let Some(state) = self.threads.get_mut(thread as usize) {
            state.emit(thread, out);
        }
    }

    /// Hands out everything, in order of threads: at the end, and before an event that concerns all threads.
    pub fn flush(&mut self, out: &mut impl FnMut(TraceRow)) {
        for (index, state) in self.threads.iter_mut().enumerate() {
            state.emit(u32::try_from(index).expect("made from a u32"), out);
        }
    }
}

impl ThreadEpoch {
    #[inline]
    fn touch(&mut self, page: u64, write: bool) {
        // Most references go to the page of the one before.
        if let Some((last_page, last_written)) = self.last
            && last_page == page
            && (last_written || !write)
        {
            return;
        }
        if page >= PAGE_LIMIT {
            return;
        }
        let next = self.touched.len();
        let index = self.set.insert(page, next, &self.touched);
        let written = if index == next {
            self.touched.push((page, write));
            write
        } else {
            self.touched[index].1 |= write;
            self.touched[index].1
        };
        self.last = Some((page, written));
    }

    fn emit(&mut self, thread: u32, out: &mut impl FnMut(TraceRow)) {
        let mut run: Option<TraceRow> = None;
        for &(page, write) in &self.touched {
            match &mut run {
                Some(row) if row.page + u64::from(row.pages) == page && row.write == write && row.pages < u32::MAX => {
                    row.pages += 1;
                }
                _ => {
                    let next = TraceRow { time_ns: self.start_ns, thread, page, pages: 1, write, kernel: false };
                    if let Some(row) = run.replace(next) {
                        out(row);
                    }
                }
            }
        }
        if let Some(row) = run {
            out(row);
        }
        self.touched.clear();
        self.set.clear();
        self.last = None;
    }
}

/// Where in `touched` each page is: an open-addressing table of indices that forgets everything in one step.
#[derive(Debug, Default)]
struct PageSet {
    /// Generation in the upper half, index in the lower; the number of slots is a power of two.
    slots: Vec<u64>,
    generation: u32,
    len: usize,
}

const SLOTS_MIN: usize = 256;

impl PageSet {
    /// The index of `page` in `touched`, or `next` after recording that as its index.
    #[inline]
    fn insert(&mut self, page: u64, next: usize, touched: &[(u64, bool)]) -> usize {
        if self.len * 2 >= self.slots.len() {
            self.grow(touched);
        }
        let mask = self.slots.len() - 1;
        let mut at = Self::hash(page) & mask;
        loop {
            let slot = self.slots[at];
            if slot >> 32 != u64::from(self.generation) {
                self.slots[at] = u64::from(self.generation) << 32 | next as u64;
                self.len += 1;
                return next;
            }
            let index = usize::try_from(slot & 0xffff_ffff).expect("32 bits");
            if touched[index].0 == page {
                return index;
            }
            at = (at + 1) & mask;
        }
    }

    fn hash(page: u64) -> usize {
        usize::try_from(page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).expect("32 bits")
    }

    #[cold]
    fn grow(&mut self, touched: &[(u64, bool)]) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        self.slots = vec![0; slots];
        self.generation = 1;
        for (index, &(page, _)) in touched.iter().enumerate() {
            let mut at = Self::hash(page) & (slots - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = 1 << 32 | index as u64;
        }
    }

    fn clear(&mut self) {
        self.len = 0;
        self.generation = self.generation.checked_add(1).unwrap_or_else(|| {
            self.slots.fill(0);
            1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn filter(epoch_ns: u64, touches: &[(u32, u64, u64, bool)]) -> Vec<TraceRow> {
        let mut rows = Vec::new();
        let mut filter = EpochFilter::new(epoch_ns);
        for &(thread, time_ns, page, write) in touches {
            filter.touch(thread, time_ns, page, write, &mut |row| rows.push(row));
        }
        filter.flush(&mut |row| rows.push(row));
        rows
    }
    fn row(time_ns: u64, page: u64, pages: u32, write: bool) -> TraceRow {
        TraceRow { time_ns, thread: 0, page, pages, write, kernel: false }
    }

    #[test]
    fn worked_example() {
        // Epochs of 10. First: 5, 6 (then written), 7, 5 again, 9. Second: 6, 5.
        let touches = [
            (0, 5, false),
            (1, 6, false),
            (2, 7, true),
            (3, 6, true),
            (4, 5, false),
            (9, 9, true),
            (10, 6, false),
            (25, 5, false),
        ]
        .map(|(time, page, write)| (0, time, page, write));
        let expected =
            [row(0, 5, 1, false), row(0, 6, 2, true), row(0, 9, 1, true), row(10, 6, 1, false), row(20, 5, 1, false)];
        assert_eq!(filter(10, &touches), expected);
    }

    #[test]
    fn descending_pages_do_not_fold() {
        assert_eq!(filter(10, &[(0, 0, 7, false), (0, 0, 6, false)]), [row(0, 7, 1, false), row(0, 6, 1, false)]);
    }

    #[test]
    fn a_flush_puts_an_event_in_its_place() {
        let mut rows = Vec::new();
        let mut filter = EpochFilter::new(10);
        filter.touch(0, 0, 1, false, &mut |row| rows.push(row));
        filter.flush_thread(0, &mut |row| rows.push(row));
        filter.touch(0, 1, 1, true, &mut |row| rows.push(row));
        filter.flush(&mut |row| rows.push(row));
        assert_eq!(rows, [row(0, 1, 1, false), row(0, 1, 1, true)]);
    }

    proptest! {
        /// Against a model that sorts each thread's epoch by first touch.
        #[test]
        fn equals_a_naive_model(
            steps in proptest::collection::vec((0u32..3, 0u64..4, prop_oneof![0u64..40, 0u64..3000], any::<bool>()), 0..3000),
            epoch_ns in 1u64..2000,
        ) {
            let mut clocks = [0u64; 3];
            let touches: Vec<_> = steps.into_iter().map(|(thread, step, page, write)| {
                clocks[thread as usize] += step;
                (thread, clocks[thread as usize], page, write)
            }).collect();
            let mut model: BTreeMap<(u32, u64), Vec<(u64, bool)>> = BTreeMap::new();
            for &(thread, time, page, write) in &touches {
                let epoch = model.entry((thread, time / epoch_ns * epoch_ns)).or_default();
                match epoch.iter_mut().find(|(known, _)| *known == page) {
                    Some((_, written)) => *written |= write,
                    None => epoch.push((page, write)),
                }
            }
            let mut found: BTreeMap<(u32, u64), Vec<(u64, bool)>> = BTreeMap::new();
            let rows = filter(epoch_ns, &touches);
            for row in &rows {
                let epoch = found.entry((row.thread, row.time_ns)).or_default();
                epoch.extend((0..u64::from(row.pages)).map(|page| (row.page + page, row.write)));
            }
            prop_assert_eq!(found, model);
            for pair in rows.windows(2) {
                let joins = pair[0].thread == pair[1].thread && pair[0].time_ns == pair[1].time_ns
                    && pair[0].write == pair[1].write && pair[0].page + u64::from(pair[0].pages) == pair[1].page;
                prop_assert!(!joins, "rows that should have been one: {:?}", pair);
            }
        }
    }
}
