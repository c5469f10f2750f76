//! Transfers between memory and devices: transfers in flight, their ends, and how they are begun.
//!
//! A page in flight has [`Flag::Reading`] or [`Flag::Writeback`] and keeps its frame until
//! [`complete_io`](crate::fault::complete_io) has seen the completion; a thread that needs it earlier waits until
//! [`Io::due`].

use super::{Flag, FrameId, Memory};
use crate::counters::Counter;
use crate::swap::SlotId;
use crate::swap::device::{Device, DeviceModel, Transfer};
use isotherm_units::{Duration, Instant, Pages};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A transfer that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Completion {
    /// A page was read from its swap slot.
    SwapRead(FrameId),
    /// A page was written to its swap slot.
    SwapWrite(FrameId),
    /// A file page was read.
    FileRead(FrameId),
    /// A file page was written back.
    FileWrite(FrameId),
}

impl Completion {
    pub const fn frame(self) -> FrameId {
        match self {
            Self::SwapRead(frame) | Self::SwapWrite(frame) | Self::FileRead(frame) | Self::FileWrite(frame) => frame,
        }
    }
}

/// Contents of a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    SwapRead,
    SwapWrite,
    FileRead,
    FileWrite,
}

impl Kind {
    const fn of(self, frame: FrameId) -> Completion {
        match self {
            Self::SwapRead => Completion::SwapRead(frame),
            Self::SwapWrite => Completion::SwapWrite(frame),
            Self::FileRead => Completion::FileRead(frame),
            Self::FileWrite => Completion::FileWrite(frame),
        }
    }

    const fn is_write(self) -> bool {
        matches!(self, Self::SwapWrite | Self::FileWrite)
    }
}

/// Pages that are read or written together: their transfers end at one time, one behind the other.
///
/// Requests are ordered by end, then by the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    at: Instant,
    number: u64,
    kind: Kind,
    pages: RequestPages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequestPages {
    One(FrameId),
    /// Frames of a list, at least two.
    Many(usize),
}

/// The request whose pages are handed out at present.
#[derive(Clone, Copy, Debug)]
struct Ending {
    request: Request,
    /// Pages handed out.
    done: usize,
}

/// Writes that the queue of the swap device holds before further submitters wait: the magnitude of `nr_requests` of the
/// block layer (64 to 256 with a scheduler).
const SWAP_QUEUE_PAGES: u64 = 256;

/// Devices and the transfers in flight.
#[derive(Clone, Debug)]
pub struct Io {
    /// Where swap slots lie.
    pub swap: Device,
    /// The disk under all files.
    pub storage: Device,
    reads: BinaryHeap<Reverse<Request>>,
    writes: BinaryHeap<Reverse<Request>>,
    ending: Option<Ending>,
    /// Pages of requests of several; lists that belong to no request are empty.
    lists: Vec<Vec<FrameId>>,
    /// and are known here.
    free_lists: Vec<usize>,
    nr_in_flight: usize,
    nr_writes: u64,
    nr_submitted: u64,
    nr_swap_writes: u64,
    /// Time of the latest submission. CPUs may be a step apart; a device's clock never goes back.
    latest: Instant,
}

/// Whether a write is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The slot holds the page (synchronous device, or zeroes only): the frame can be freed at once.
    Now,
    /// The page is under write-back until the given time.
    At(Instant),
}

impl Io {
    /// Idle devices.
    pub fn new(swap: Device, storage: Device) -> Self {
        Self {
            swap,
            storage,
            reads: BinaryHeap::new(),
            writes: BinaryHeap::new(),
            ending: None,
            lists: Vec::new(),
            free_lists: Vec::new(),
            nr_in_flight: 0,
            nr_writes: 0,
            nr_submitted: 0,
            nr_swap_writes: 0,
            latest: Instant::START,
        }
    }

    /// When the next transfer ends.
    #[inline]
    pub fn next_completion(&self) -> Option<Instant> {
        if self.nr_in_flight == 0 {
            return None;
        }
        self.ending.map(|ending| ending.request.at).or_else(|| self.first().map(|request| request.at))
    }

    /// The request that ends first, among requests that were not handed out even in part.
    fn first(&self) -> Option<&Request> {
        let [read, write] = [&self.reads, &self.writes].map(|queue| queue.peek().map(|Reverse(request)| request));
        match (read, write) {
            (Some(read), Some(write)) => Some(read.min(write)),
            (first, None) | (None, first) => first,
        }
    }

    /// When the transfer of `frame` ends; `None` if it is not in flight. Takes longer the more is in flight.
    pub fn due(&self, frame: FrameId) -> Option<Instant> {
        self.in_flight().find(|(_, one)| *one == frame).map(|(at, _)| at)
    }

    /// All pages in flight, and when their transfers end, in no order.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (Instant, FrameId)> + '_ {
        let ending = self.ending.iter().flat_map(|ending| self.pages_of(ending.request).skip(ending.done));
        let waiting = self.reads.iter().chain(&self.writes).flat_map(|Reverse(request)| self.pages_of(*request));
        ending.chain(waiting)
    }

    fn pages_of(&self, Request { at, pages, .. }: Request) -> impl Iterator<Item = (Instant, FrameId)> + '_ {
        let (one, many) = match pages {
            RequestPages::One(frame) => (Some(frame), &[][..]),
            RequestPages::Many(list) => (None, &self.lists[list][..]),
        };
        one.into_iter().chain(many.iter().copied()).map(move |frame| (at, frame))
    }

    /// Pages being written, to any device.
    pub fn writes_in_flight(&self) -> u64 {
        self.nr_writes
    }

    /// When the next write to any device ends; `None` without writes in flight.
    pub fn next_write_completion(&self) -> Option<Instant> {
        let ending = self.ending.map(|ending| ending.request).filter(|request| request.kind.is_write());
        ending.or_else(|| self.writes.peek().map(|Reverse(request)| *request)).map(|request| request.at)
    }

    /// Whether the queue of the swap device takes no more writes: a reclaimer waits for its turn, as in the block layer.
    pub fn swap_queue_is_full(&self) -> bool {
        self.nr_swap_writes >= SWAP_QUEUE_PAGES
    }

    /// When the queue of the swap device takes a write again; `None` if it does now.
    pub fn swap_queue_has_room_at(&self) -> Option<Instant> {
        if !self.swap_queue_is_full() {
            return None;
        }
        let swap_writes = self.writes.iter().filter(|Reverse(request)| request.kind == Kind::SwapWrite);
        let mut ends: Vec<Instant> =
            swap_writes.flat_map(|Reverse(request)| self.pages_of(*request)).map(|(at, _)| at).collect();
        ends.sort_unstable();
        let nr_too_many = usize::try_from(self.nr_swap_writes - SWAP_QUEUE_PAGES).expect("as many as there are");
        ends.get(nr_too_many).copied()
    }

    /// Pages in flight.
    pub fn nr_in_flight(&self) -> usize {
        self.nr_in_flight
    }

    /// Whether swapped pages are read and written by the CPU while the caller waits (compressed memory).
    #[inline]
    pub fn swap_is_synchronous(&self) -> bool {
        self.swap.model().is_synchronous()
    }

    /// Whether the swap device has heads to move: readahead goes by slots, not by virtual pages.
    pub fn swap_is_rotational(&self) -> bool {
        self.swap.model().is_rotational()
    }

    /// The next transfer that ended at `now` or before.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Completion> {
        let (kind, frame) = match &mut self.ending {
            Some(ending) => {
                let RequestPages::Many(list) = ending.request.pages else { unreachable!("one page ends at once") };
                let (kind, frame) = (ending.request.kind, self.lists[list][ending.done]);
                ending.done += 1;
                if ending.done == self.lists[list].len() {
                    self.lists[list].clear();
                    self.free_lists.push(list);
                    self.ending = None;
                }
                (kind, frame)
            }
            None => {
                let request = self.pop_request(now)?;
                let frame = match request.pages {
                    RequestPages::One(frame) => frame,
                    RequestPages::Many(list) => {
                        self.ending = Some(Ending { request, done: 1 });
                        self.lists[list][0]
                    }
                };
                (request.kind, frame)
            }
        };
        self.nr_in_flight -= 1;
        self.nr_writes -= u64::from(kind.is_write());
        self.nr_swap_writes -= u64::from(kind == Kind::SwapWrite);
        Some(kind.of(frame))
    }

    /// If a read of pages of a file ended next, at `now` or before, calls `each` with its pages in order. How many there were.
    pub(crate) fn end_file_read(&mut self, now: Instant, mut each: impl FnMut(FrameId)) -> usize {
        let is_next = |request: &Request| request.kind == Kind::FileRead && request.at <= now;
        if self.ending.is_some() || !self.first().is_some_and(is_next) {
            return 0;
        }
        let Reverse(request) = self.reads.pop().expect("it is the first");
        let nr_pages = match request.pages {
            RequestPages::One(frame) => {
                each(frame);
                1
            }
            RequestPages::Many(list) => {
                let nr_pages = self.lists[list].len();
                self.lists[list].drain(..).for_each(each);
                self.free_lists.push(list);
                nr_pages
            }
        };
        self.nr_in_flight -= nr_pages;
        nr_pages
    }

    fn pop_request(&mut self, now: Instant) -> Option<Request> {
        let &Request { at, kind, .. } = self.first()?;
        if at > now {
            return None;
        }
        let queue = if kind.is_write() { &mut self.writes } else { &mut self.reads };
        queue.pop().map(|Reverse(request)| request)
    }

    /// The time of a submission at `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Pages were transferred to or from a swap device that is memory, the last of them at `now`; their CPU time is paid.
    pub(crate) fn moved_at_once(&mut self, now: Instant, transfer: Transfer, pages: u64) {
        self.advance(now);
        self.swap.move_pages(transfer, pages);
    }

    fn push_one(&mut self, at: Instant, kind: Kind, frame: FrameId) {
        self.push(at, kind, RequestPages::One(frame), 1);
    }

    /// The transfers of all `frames` end at `at`, one behind the other.
    pub(super) fn push_all(&mut self, at: Instant, kind: Kind, frames: impl ExactSizeIterator<Item = FrameId>) {
        match frames.len() {
            0 => {}
            1 => frames.for_each(|frame| self.push_one(at, kind, frame)),
            pages => {
                let list = self.free_lists.pop().unwrap_or_else(|| {
                    self.lists.push(Vec::new());
                    self.lists.len() - 1
                });
                self.lists[list].extend(frames);
                self.push(at, kind, RequestPages::Many(list), pages);
            }
        }
    }

    fn push(&mut self, at: Instant, kind: Kind, pages: RequestPages, nr_pages: usize) {
        debug_assert!(at >= self.latest, "nothing ends before it was submitted");
        self.nr_submitted += 1;
        let request = Request { at, number: self.nr_submitted, kind, pages };
        let queue = if kind.is_write() { &mut self.writes } else { &mut self.reads };
        queue.push(Reverse(request));
        self.nr_in_flight += nr_pages;
        self.nr_writes += if kind.is_write() { nr_pages as u64 } else { 0 };
        self.nr_swap_writes += if kind == Kind::SwapWrite { nr_pages as u64 } else { 0 };
    }
}

/// The devices of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Swap,
    Storage,
}

impl Memory {
    /// Submits one request, after the CPU time that the caller has spent so far and what the request itself takes. `None`: it has ended, because its device
    /// is memory. Such a disk ends a read before its submission returns, so that pages are never seen under way; writes end later.
    pub(super) fn request(&mut self, to: Target, position: u64, pages: u64, transfer: Transfer) -> Option<Instant> {
        let Self { io, ledger, costs, now, .. } = self;
        let device = if to == Target::Swap { &mut io.swap } else { &mut io.storage };
        if device.model().is_synchronous() && (to == Target::Swap || transfer == Transfer::Read) {
            io.latest = io.latest.max(*now);
            ledger.spend(device.submit_at(io.latest, position, pages, transfer).since(io.latest).ns());
            return None;
        }
        let wake_ns = if device.in_flight(io.latest.max(*now)) == 0 { costs.block_wake_ns } else { 0 };
        ledger.spend(costs.block_submit_ns + wake_ns);
        io.latest = io.latest.max(*now + Duration::from_ns(ledger.peek()));
        Some(device.submit_at(io.latest, position, pages, transfer))
    }

    /// Reads pages in the swap cache from their slots. Slots that follow each other go in one request. Pages of zero-filled
    /// slots and of a synchronous device are up to date at once; the latter cost CPU time.
    pub fn submit_swap_read(&mut self, frames: &[FrameId]) {
        if let &[frame] = frames {
            return self.submit_swap_read_of_one(frame);
        }
        let mut from_device = Vec::with_capacity(frames.len());
        for &frame in frames {
            debug_assert!(
                !self.frames.has(frame, Flag::Reading) && !self.frames.has(frame, Flag::Writeback),
                "one transfer a page"
            );
            let slot = self.frames.slot(frame).expect("read from its slot");
            if !self.slots.is_zero_filled(slot) {
                from_device.push((u64::from(slot.index_u32()), frame));
                let cgroup = self.frames.cgroup(frame);
                self.count(Counter::PswpIn, cgroup, 1);
            }
        }
        from_device.sort_unstable();
        for request in consecutive(&from_device) {
            let Some(at) = self.request(Target::Swap, request[0].0, request.len() as u64, Transfer::Read) else {
                continue;
            };
            request.iter().for_each(|&(_, frame)| self.frames.set(frame, Flag::Reading));
            self.io.push_all(at, Kind::SwapRead, request.iter().map(|&(_, frame)| frame));
        }
    }

    fn submit_swap_read_of_one(&mut self, frame: FrameId) {
        debug_assert!(
            !self.frames.has(frame, Flag::Reading) && !self.frames.has(frame, Flag::Writeback),
            "one transfer a page"
        );
        let slot = self.frames.slot(frame).expect("read from its slot");
        let cgroup = self.frames.cgroup(frame);
        if let Some(at) = self.read_slot(slot, cgroup) {
            self.frames.set(frame, Flag::Reading);
            self.io.push_one(at, Kind::SwapRead, frame);
        }
    }

    /// When the read of one slot ends; `None` if it has ended.
    fn read_slot(&mut self, slot: SlotId, cgroup: crate::cgroup::CgroupId) -> Option<Instant> {
        if self.slots.is_zero_filled(slot) {
            return None;
        }
        self.count(Counter::PswpIn, cgroup, 1);
        self.request(Target::Swap, u64::from(slot.index_u32()), 1, Transfer::Read)
    }

    /// Writes a page in the swap cache to its slot; it is clean from now on.
    pub fn submit_swap_write(&mut self, frame: FrameId) -> Written {
        debug_assert!(
            !self.frames.has(frame, Flag::Reading) && !self.frames.has(frame, Flag::Writeback),
            "one transfer a page"
        );
        let slot = self.frames.slot(frame).expect("written to its slot");
        self.frames.clear(frame, Flag::Dirty);
        let zero_filled = self.frames.has(frame, Flag::ZeroFilled);
        self.slots.set_zero_filled(slot, zero_filled);
        if zero_filled {
            return Written::Now;
        }
        let cgroup = self.frames.cgroup(frame);
        match self.write_slot(slot, cgroup) {
            Some(at) => {
                self.frames.set(frame, Flag::Writeback);
                self.io.push_one(at, Kind::SwapWrite, frame);
                Written::At(at)
            }
            None => Written::Now,
        }
    }

    /// Writes a slot whose page gives its frame back at once: baselines do not wait for write-back. The device is busy
    /// as with [`submit_swap_write`](Self::submit_swap_write), and the counters move.
    pub fn submit_swap_write_detached(&mut self, frame: FrameId) {
        debug_assert!(
            !self.frames.has(frame, Flag::Reading) && !self.frames.has(frame, Flag::Writeback),
            "one transfer a page"
        );
        let slot = self.frames.slot(frame).expect("written to its slot");
        self.frames.clear(frame, Flag::Dirty);
        let cgroup = self.frames.cgroup(frame);
        self.write_slot(slot, cgroup);
    }

    /// Writes slots on a synchronous device, one by one. The caller [updates](Self::update_hidden) the memory that the device
    /// occupies.
    #[inline]
    pub(crate) fn write_slots_at_once(&mut self, cgroup: crate::cgroup::CgroupId, slots: u64) {
        debug_assert!(self.io.swap_is_synchronous(), "other devices take their time");
        self.count(Counter::PswpOut, cgroup, slots);
        self.io.advance(self.now);
        self.ledger.spend(self.io.swap.move_pages(Transfer::Write, slots).ns());
    }

    /// Reads a slot of a synchronous device.
    #[inline]
    pub(crate) fn read_slot_at_once(&mut self, slot: SlotId, cgroup: crate::cgroup::CgroupId) {
        debug_assert!(self.io.swap_is_synchronous(), "other devices take their time");
        self.io.advance(self.now);
        if !self.slots.is_zero_filled(slot) {
            self.count(Counter::PswpIn, cgroup, 1);
            self.ledger.spend(self.io.swap.move_pages(Transfer::Read, 1).ns());
        }
    }

    /// When the write of the slot ends; `None` if it has ended.
    fn write_slot(&mut self, slot: SlotId, cgroup: crate::cgroup::CgroupId) -> Option<Instant> {
        self.count(Counter::PswpOut, cgroup, 1);
        let at = self.request(Target::Swap, u64::from(slot.index_u32()), 1, Transfer::Write);
        if at.is_none() {
            self.update_hidden();
        }
        at
    }

    /// Reports to the nodes how much memory the pages on a compressed device occupy.
    #[inline]
    pub fn update_hidden(&mut self) {
        if let DeviceModel::Zram(zram) = self.io.swap.model() {
            self.nodes.set_hidden(zram.memory(Pages::new(self.slots.used())).get());
        }
    }
}

/// Cuts sorted `(position, frame)` pairs where positions do not follow each other.
fn consecutive(pages: &[(u64, FrameId)]) -> impl Iterator<Item = &[(u64, FrameId)]> {
    pages.chunk_by(|before, after| before.0 + 1 == after.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Costs;
    use crate::swap::device::{DeviceKind, DeviceModel};
    use crate::testkit::Rig;

    fn io() -> Io {
        let device = |kind| Device::new(DeviceModel::preset(kind, &Costs::default())).unwrap();
        Io::new(device(DeviceKind::Ssd), device(DeviceKind::Nvme))
    }
    fn us(us: u64) -> Instant {
        Instant::START + Duration::from_us(us)
    }

    /// An idle device must be woken by the first request; the second begins when the processor has submitted the first.
    #[test]
    fn a_request_begins_after_the_work_before_it_and_wakes_an_idle_device() {
        let mut rig = Rig::new(DeviceKind::Nvme);
        let memory = &mut rig.memory;
        (memory.costs.block_wake_ns, memory.costs.block_submit_ns) = (40_000, 6_000);
        memory.ledger.spend(5_000);
        let ends = [0, 100].map(|position| memory.request(Target::Storage, position, 1, Transfer::Read));
        assert_eq!(memory.ledger.take(), 5_000 + 40_000 + 2 * 6_000);
        // 85 us, and 0.63 us of transfer, which are part of the 85.
        let [Some(first), Some(second)] = ends else { panic!("the disk is no memory") };
        assert_eq!((first.ns(), second.since(first).ns()), (5_000 + 46_000 + 85_000, 6_000));
    }

    #[test]
    fn transfers_end_by_time_and_then_in_the_order_of_submission() {
        let mut io = io();
        let frames: Vec<FrameId> = (0..5).rev().map(FrameId::new).collect();
        io.push_one(us(9), Kind::SwapRead, frames[0]);
        io.push_one(us(5), Kind::FileRead, frames[1]);
        io.push_one(us(5), Kind::SwapWrite, frames[2]);
        io.push_one(us(7), Kind::FileWrite, frames[3]);
        assert_eq!((io.next_completion(), io.next_write_completion()), (Some(us(5)), Some(us(5))));
        assert_eq!((io.writes_in_flight(), io.due(frames[3])), (2, Some(us(7))));
        assert_eq!(io.pop_due(us(4)), None);
        assert_eq!(io.pop_due(us(5)), Some(Completion::FileRead(frames[1])));
        assert_eq!(io.pop_due(us(8)), Some(Completion::SwapWrite(frames[2])));
        assert_eq!((io.writes_in_flight(), io.next_write_completion()), (1, Some(us(7))));
        assert_eq!(io.pop_due(us(8)), Some(Completion::FileWrite(frames[3])));
        assert_eq!((io.pop_due(us(8)), io.nr_in_flight(), io.next_write_completion()), (None, 1, None));
        assert_eq!(io.due(frames[3]), None);
    }

    #[test]
    fn reads_of_files_end_together_in_their_turn() {
        let mut io = io();
        let frames: Vec<FrameId> = (0..7).map(FrameId::new).collect();
        let push = |io: &mut Io, at, kind, range: std::ops::Range<usize>| {
            io.push_all(us(at), kind, frames[range].iter().copied())
        };
        push(&mut io, 5, Kind::FileRead, 0..3);
        push(&mut io, 5, Kind::SwapRead, 3..5);
        push(&mut io, 6, Kind::FileRead, 5..6);
        push(&mut io, 8, Kind::FileRead, 6..7);
        let (mut one_by_one, mut ended) = (io.clone(), Vec::new());
        loop {
            let before = ended.len();
            let nr_read = io.end_file_read(us(7), |frame| ended.push(Completion::FileRead(frame)));
            assert_eq!(nr_read, ended.len() - before);
            if nr_read == 0 {
                let Some(completion) = io.pop_due(us(7)) else { break };
                ended.push(completion);
            }
        }
        assert_eq!(ended, std::iter::from_fn(|| one_by_one.pop_due(us(7))).collect::<Vec<_>>());
        assert_eq!((io.nr_in_flight(), io.next_completion()), (1, Some(us(8))));
        assert_eq!((one_by_one.nr_in_flight(), &io.free_lists), (1, &one_by_one.free_lists));
    }

    #[test]
    fn the_pages_of_a_request_end_one_behind_the_other() {
        let mut io = io();
        let frames = |range: std::ops::Range<u32>| range.map(FrameId::new).collect::<Vec<_>>();
        io.push_all(us(5), Kind::FileWrite, frames(0..3).into_iter());
        io.push_all(us(5), Kind::FileRead, frames(3..5).into_iter());
        io.push_all(us(4), Kind::FileRead, frames(5..6).into_iter());
        io.push_all(us(3), Kind::FileRead, frames(0..0).into_iter());
        assert_eq!((io.nr_in_flight(), io.writes_in_flight()), (6, 3));
        let next = |io: &mut Io| io.pop_due(us(5)).map(|completion| completion.frame().index());
        assert_eq!([(); 2].map(|()| next(&mut io)), [Some(5), Some(0)]);
        // In the middle of the first request.
        assert_eq!((io.next_completion(), io.next_write_completion()), (Some(us(5)), Some(us(5))));
        let due = [0, 1, 2, 3].map(|frame| io.due(FrameId::new(frame)));
        assert_eq!(due, [None, Some(us(5)), Some(us(5)), Some(us(5))]);
        assert_eq!((io.nr_in_flight(), io.writes_in_flight()), (4, 2));
        assert_eq!([(); 5].map(|()| next(&mut io)), [Some(1), Some(2), Some(3), Some(4), None]);
        assert_eq!((io.nr_in_flight(), io.writes_in_flight(), io.next_write_completion()), (0, 0, None));
        // Its list is taken again.
        io.push_all(us(7), Kind::SwapRead, frames(7..9).into_iter());
        assert_eq!((io.lists.len(), io.in_flight().count()), (2, 2));
    }

    #[test]
    fn only_swap_writes_fill_the_swap_queue() {
        let mut io = io();
        for index in 0..300 {
            io.push_one(us(1), Kind::FileWrite, FrameId::new(index));
        }
        for index in 300..555 {
            io.push_one(us(2), Kind::SwapWrite, FrameId::new(index));
        }
        assert!(!io.swap_queue_is_full());
        assert_eq!(io.swap_queue_has_room_at(), None);
        io.push_one(us(3), Kind::SwapWrite, FrameId::new(555));
        assert!(io.swap_queue_is_full());
        assert_eq!(io.swap_queue_has_room_at(), Some(us(2)));
        while io.pop_due(us(2)).is_some() {}
        assert!(!io.swap_queue_is_full() && io.nr_in_flight() == 1);
    }

    #[test]
    fn runs_of_neighbours_are_one_request() {
        let pages: Vec<(u64, FrameId)> = [3, 4, 5, 9, 11, 12].map(|at| (at, FrameId::new(0))).to_vec();
        let lengths: Vec<usize> = consecutive(&pages).map(<[_]>::len).collect();
        assert_eq!(lengths, [3, 1, 2]);
    }

    #[test]
    fn a_cpu_that_is_behind_does_not_turn_a_devices_clock_back() {
        let mut io = io();
        assert_eq!(io.advance(us(50)), us(50));
        assert_eq!(io.advance(us(20)), us(50));
    }
}
