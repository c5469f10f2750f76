//! Rows and events of all threads on their way into the file, in the order of virtual time.
//!
//! Records of one thread are in order already, so each thread has a FIFO lane, and only the heads of the lanes are compared. That is done
//! once for each item, which covers at most an epoch of a thread, and not for each row.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use isotherm_trace::PageRun;

use crate::page_cache::FileNumber;
use crate::protocol::Record;

/// Capacity, in rows, that a lane keeps even when it holds fewer.
const SPARE_ROWS: usize = 1 << 10;

/// Sort key: position in the order of all threads, then order of arrival.
type Key = (u64, u64);

/// An item of a lane, without its rows.
pub(crate) enum Item {
    /// This number of rows of one epoch.
    Rows(usize),
    Event(Box<Record>),
    Transfer(Transfer),
}

/// Pages of a file, read or written through a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) file: FileNumber,
    /// Numbers of the file's pages.
    pub(crate) run: PageRun,
}

/// An item with its key.
struct Held {
    key: Key,
    /// CPU time of the thread at the start of its epoch.
    time_ns: u64,
    item: Item,
}

/// The waiting items of one thread.
#[derive(Default)]
struct Lane {
    items: VecDeque<Held>,
    /// The rows of all [`Item::Rows`] in `items`, one after the other.
    rows: VecDeque<PageRun>,
}

/// All lanes.
#[derive(Default)]
pub(crate) struct Queue {
    lanes: BTreeMap<u32, Lane>,
    /// The first item of each lane that has one, by key and uid.
    heads: BinaryHeap<Reverse<(Key, u32)>>,
    next_arrival: u64,
    nr_rows: usize,
    nr_items: usize,
}

/// How far [`Queue::next`] goes.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// While more rows, or more items, than this are held.
    Held(usize),
    /// Rows up to this position in the order of all threads, inclusive.
    Order(u64),
    /// To the end.
    Empty,
}

impl Queue {
    /// Whether more rows, or more items, are held.
    pub(crate) fn exceeds(&self, limit: usize) -> bool {
        self.nr_rows > limit || self.nr_items > limit
    }

    /// Holds the rows of one epoch of a thread.
    pub(crate) fn push_rows(&mut self, uid: u32, order_ns: u64, time_ns: u64, rows: &[PageRun]) {
        if !rows.is_empty() {
            self.nr_rows += rows.len();
            self.push(uid, order_ns, time_ns, Item::Rows(rows.len())).rows.extend(rows);
        }
    }

    /// Holds an event.
    pub(crate) fn push_event(&mut self, uid: u32, order_ns: u64, time_ns: u64, event: Record) {
        self.push(uid, order_ns, time_ns, Item::Event(Box::new(event)));
    }

    /// Holds a read or write of a file by a thread.
    pub(crate) fn push_transfer(&mut self, uid: u32, order_ns: u64, time_ns: u64, transfer: Transfer) {
        self.push(uid, order_ns, time_ns, Item::Transfer(transfer));
    }

    fn push(&mut self, uid: u32, order_ns: u64, time_ns: u64, item: Item) -> &mut Lane {
        let lane = self.lanes.entry(uid).or_default();
        let key = (order_ns, self.next_arrival);
        debug_assert!(lane.items.back().is_none_or(|last| last.key < key), "order never decreases within a thread");
        if lane.items.is_empty() {
            self.heads.push(Reverse((key, uid)));
        }
        self.next_arrival += 1;
        self.nr_items += 1;
        lane.items.push_back(Held { key, time_ns, item });
        lane
    }

    /// Removes the first item of all lanes, with its thread and CPU time: an event, a transfer, or rows that are appended to `rows`. `None`
    /// when `until` is reached.
    pub(crate) fn next(&mut self, until: Until, rows: &mut Vec<PageRun>) -> Option<(u32, u64, Item)> {
        let mut head = self.heads.peek_mut()?;
        let Reverse(((order_ns, _), uid)) = *head;
        let goes_on = match until {
            Until::Held(limit) => self.nr_rows > limit || self.nr_items > limit,
            Until::Order(last_ns) => order_ns <= last_ns,
            Until::Empty => true,
        };
        if !goes_on {
            return None;
        }
        let lane = self.lanes.get_mut(&uid).expect("a head has a lane");
        let Held { time_ns, item, .. } = lane.items.pop_front().expect("a head is an item");
        self.nr_items -= 1;
        if let Item::Rows(count) = item {
            self.nr_rows -= count;
            let (first, second) = lane.rows.as_slices();
            let from_first = count.min(first.len());
            rows.extend_from_slice(&first[..from_first]);
            rows.extend_from_slice(&second[..count - from_first]);
            lane.rows.drain(..count);
        }
        match lane.items.front() {
            Some(next) => *head = Reverse((next.key, uid)),
            None => {
                std::collections::binary_heap::PeekMut::pop(head);
            }
        }
        Some((uid, time_ns, item))
    }

    /// Frees memory of lanes that once held much more than now, so that many threads that were busy one after the other do not add up.
    pub(crate) fn trim(&mut self) {
        self.lanes.retain(|_, lane| {
            let few = |held: usize, room: usize| room > SPARE_ROWS && room / 4 > held;
            if few(lane.rows.len(), lane.rows.capacity()) {
                lane.rows.shrink_to((2 * lane.rows.len()).max(SPARE_ROWS));
            }
            if few(lane.items.len(), lane.items.capacity()) {
                lane.items.shrink_to((2 * lane.items.len()).max(SPARE_ROWS));
            }
            !lane.items.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(page: u64) -> PageRun {
        PageRun { page, pages: 1, write: false, kernel: false }
    }

    fn all(queue: &mut Queue, until: Until) -> Vec<(u32, u64)> {
        let mut out = Vec::new();
        let mut rows = Vec::new();
        while let Some((uid, _, item)) = queue.next(until, &mut rows) {
            if matches!(item, Item::Event(_)) {
                out.push((uid, u64::MAX));
            }
            out.extend(rows.drain(..).map(|row| (uid, row.page)));
        }
        out
    }

    #[test]
    fn items_of_all_threads_come_out_as_if_they_were_sorted() {
        let mut state = 3u64;
        let mut draw = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let (mut queue, mut plain, mut order) = (Queue::default(), Vec::new(), [0; 5]);
        for index in 0..3000 {
            let uid = draw(5);
            let at = &mut order[usize::try_from(uid).unwrap()];
            *at += draw(3); // equal positions: ordered by arrival
            let uid = u32::try_from(uid).unwrap();
            if draw(4) == 0 {
                queue.push_event(uid, *at, 0, Record::Idle { ns: 1 });
                plain.push((*at, index, uid, vec![u64::MAX]));
            } else {
                let rows: Vec<u64> = (0..1 + draw(9)).map(|row| index * 100 + row).collect();
                queue.push_rows(uid, *at, 0, &rows.iter().map(|&page| run(page)).collect::<Vec<_>>());
                plain.push((*at, index, uid, rows));
            }
        }
        plain.sort();
        let expected: Vec<_> =
            plain.into_iter().flat_map(|(_, _, uid, rows)| rows.into_iter().map(move |row| (uid, row))).collect();
        let mut seen = all(&mut queue, Until::Order(100));
        seen.extend(all(&mut queue, Until::Held(500)));
        assert!(!queue.exceeds(500) && queue.exceeds(400));
        queue.trim();
        seen.extend(all(&mut queue, Until::Empty));
        assert_eq!(seen, expected);
        assert!(!queue.exceeds(0));
    }

    #[test]
    fn memory_of_lanes_that_were_busy_once_is_given_back() {
        let mut queue = Queue::default();
        for uid in 0..50 {
            queue.push_rows(uid, 0, 0, &vec![run(1); 100_000]);
            all(&mut queue, Until::Empty);
            queue.push_rows(uid, 1, 0, &[run(2)]);
            queue.trim();
        }
        let room: usize = queue.lanes.values().map(|lane| lane.rows.capacity()).sum();
        assert!(room <= 50 * SPARE_ROWS, "{room} rows");
        all(&mut queue, Until::Empty);
        queue.trim();
        assert!(queue.lanes.is_empty());
    }
}
