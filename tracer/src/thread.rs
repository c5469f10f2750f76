// SPDX-License-Identifier: GPL-2.0-or-later

//! One thread of the traced program: its instruction count, its epoch, its filter and its chunk.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::files::LastFile;
use crate::filter::{Filter, PageRun};
use crate::record::{Origin, Record};
use crate::spool::{Chunk, Spool, Stamp};
use crate::sys;
use crate::syscall::Pending;

/// How long an epoch is, in both measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpochLength {
    /// Instructions in one epoch; not 0.
    pub(crate) instructions: u64,
    /// The time they stand for, in nanoseconds.
    pub(crate) ns: u64,
}

/// Chunks are sent after so many epochs even when they are not full, so that the recorder can put threads in order.
const EPOCHS_PER_CHUNK: u64 = 64;

/// How often the memory layout of this process has changed, and the latest place in the order at which it did. A thread
/// that meets a new page after a change by another thread must come after it in the trace, whatever its own clock says.
static LAYOUT_GENERATION: AtomicU64 = AtomicU64::new(0);
static LAYOUT_ORDER_NS: AtomicU64 = AtomicU64::new(0);
/// Whether this process has ever had a second thread.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);

/// What is recorded of one thread. Used by that thread alone (and by the exit hook, when all others have stopped).
pub(crate) struct Thread {
    filter: Filter,
    /// Instructions begun so far.
    pub(crate) instructions: u64,
    /// When [`Thread::at_boundary`] is due; 0 before the first instruction.
    pub(crate) boundary: u64,
    epoch: u64,
    sent_at_epoch: u64,
    /// [`LAYOUT_GENERATION`] when this thread last looked.
    layout_generation: u64,
    /// Nothing that follows comes before this, in the order of all threads.
    order_floor_ns: u64,
    /// Where the touches that were not handed out began, in the order of all threads.
    block_order_ns: u64,
    length: EpochLength,
    pub(crate) uid: u32,
    started_by: Option<u32>,
    origin: Origin,
    /// Virtual time at which the thread began, in nanoseconds.
    start_ns: u64,
    /// How long it has slept, in nanoseconds.
    idle_ns: u64,
    chunk: Option<Chunk>,
    pub(crate) pending: Pending,
    pub(crate) last_file: LastFile,
}

impl Thread {
    pub(crate) fn new(
        spool: &Spool,
        length: EpochLength,
        uid: u32,
        origin: Origin,
        started_by: Option<u32>,
        start_ns: u64,
    ) -> Self {
        if origin == Origin::Thread {
            HAS_THREADS.store(true, Ordering::Relaxed);
        }
        Self {
            filter: Filter::new(),
            instructions: 0,
            boundary: 0,
            epoch: 0,
            sent_at_epoch: 0,
            layout_generation: LAYOUT_GENERATION.load(Ordering::Acquire),
            order_floor_ns: start_ns,
            block_order_ns: start_ns,
            length,
            uid,
            started_by,
            origin,
            start_ns,
            idle_ns: 0,
            chunk: Chunk::create(spool, uid).map_err(|error| warn_unrecorded(uid, &error)).ok(),
            pending: Pending::default(),
            last_file: LastFile::default(),
        }
    }

    /// A block of `instructions` on code page `page` is about to run. `false`: call [`Thread::block_slowly`].
    #[inline(always)]
    pub(crate) fn block(&mut self, instructions: u64, page: u64) -> bool {
        self.instructions += instructions;
        self.instructions < self.boundary && self.filter.is_known(page, 0)
    }

    /// What [`Thread::block`] could not do at once: an epoch's end, a new code page, a block that runs into the next page.
    #[inline(never)]
    pub(crate) fn block_slowly(&mut self, spool: &Spool, page: u64, crosses: bool) {
        if self.instructions >= self.boundary {
            self.at_boundary(spool);
        }
        self.touch(spool, page, false);
        if crosses {
            self.touch(spool, page + 1, false);
        }
    }

    /// Whether an access to `page` has nothing new. `store` is 0 or 1.
    #[inline(always)]
    pub(crate) fn is_known(&self, page: u64, store: u64) -> bool {
        self.filter.is_known(page, store)
    }

    /// A load or store of a page that may be new.
    pub(crate) fn touch(&mut self, spool: &Spool, page: u64, write: bool) {
        if LAYOUT_GENERATION.load(Ordering::Relaxed) != self.layout_generation {
            self.see_layout(spool);
        }
        if write { self.filter.write(page) } else { self.filter.read(page) }
    }

    /// Another thread changed the layout: what was touched so far came before, what follows comes after.
    #[cold]
    fn see_layout(&mut self, spool: &Spool) {
        self.hand_out(spool);
        self.layout_generation = LAYOUT_GENERATION.load(Ordering::Acquire);
        self.order_floor_ns = self.order_floor_ns.max(LAYOUT_ORDER_NS.load(Ordering::Relaxed));
        self.block_order_ns = self.order_ns();
    }

    /// This moment's place in the order of all threads.
    fn order_ns(&self) -> u64 {
        self.order_floor_ns.max(self.now_ns())
    }

    /// The kernel touched `[address, address + bytes)` for the program.
    pub(crate) fn touch_buffer(&mut self, spool: &Spool, address: u64, bytes: u64, write: bool) {
        if bytes == 0 {
            return;
        }
        if LAYOUT_GENERATION.load(Ordering::Relaxed) != self.layout_generation {
            self.see_layout(spool);
        }
        for page in address >> 12..=address.saturating_add(bytes - 1) >> 12 {
            self.filter.kernel_touch(page, write);
        }
    }

    /// Number of the current epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The thread read or wrote pages of a file, which `named` says. What it touched before is written first.
    pub(crate) fn transfer(&mut self, spool: &Spool, file: u64, named: &Record<'_>, run: PageRun) {
        self.hand_out(spool);
        let stamp = Stamp { epoch: self.epoch, order_ns: self.order_ns() };
        if let Some(chunk) = &mut self.chunk {
            chunk.push_transfer(spool, stamp, file, named, run);
        }
        self.block_order_ns = stamp.order_ns;
    }

    /// The first instruction, or the first of a new epoch.
    #[cold]
    #[inline(never)]
    fn at_boundary(&mut self, spool: &Spool) {
        if self.boundary == 0 {
            self.boundary = self.length.instructions;
            self.say_hello(spool);
            if matches!(self.origin, Origin::Program | Origin::Exec) {
                crate::layout::initial(|record| self.push(spool, record));
            }
            return;
        }
        self.hand_out(spool);
        self.filter.next_epoch();
        self.epoch = self.instructions / self.length.instructions;
        self.boundary = (self.epoch + 1) * self.length.instructions;
        self.block_order_ns = self.order_ns();
        self.advance_frontier(spool);
        if self.epoch - self.sent_at_epoch >= EPOCHS_PER_CHUNK {
            self.send(spool);
        }
    }

    fn say_hello(&mut self, spool: &Spool) {
        let (pid, tid) = sys::pid_and_tid();
        let name = crate::layout::program_name();
        let (started_by, origin, start_ns) = (self.started_by, self.origin, self.start_ns);
        self.push(spool, &Record::Hello { pid, tid, started_by, origin, start_ns, name: &name });
        self.send(spool);
    }

    /// Writes the touches of the current epoch that are not written yet.
    fn hand_out(&mut self, spool: &Spool) {
        if let Some(chunk) = &mut self.chunk
            && self.filter.has_news()
        {
            let stamp = Stamp { epoch: self.epoch, order_ns: self.block_order_ns };
            self.filter.hand_out(|run| chunk.push_row(spool, stamp, run));
        }
    }

    /// Writes an event; what was touched before it is written first.
    pub(crate) fn event(&mut self, spool: &Spool, record: &Record<'_>) {
        self.hand_out(spool);
        self.push(spool, record);
        self.block_order_ns = self.order_ns();
    }

    /// Writes a change of the process's memory layout. It comes after whatever any thread has begun to touch, because the
    /// others have used the old layout until now.
    pub(crate) fn layout_event(&mut self, spool: &Spool, record: &Record<'_>) {
        self.advance_frontier(spool);
        self.order_floor_ns = self.order_floor_ns.max(spool.control.frontier_ns.load(Ordering::Relaxed));
        self.event(spool, record);
        let after = self.order_ns() + 1;
        LAYOUT_ORDER_NS.fetch_max(after, Ordering::Relaxed);
        self.order_floor_ns = after;
        let before = LAYOUT_GENERATION.fetch_add(1, Ordering::Release);
        if before == self.layout_generation {
            self.layout_generation += 1; // nobody else's change is in between
        }
        if HAS_THREADS.load(Ordering::Relaxed) {
            self.send(spool); // or others' rows that come after it would be written before it arrives
        }
    }

    fn push(&mut self, spool: &Spool, record: &Record<'_>) {
        let stamp = Stamp { epoch: self.epoch, order_ns: self.order_ns() };
        if let Some(chunk) = &mut self.chunk {
            chunk.push(spool, stamp, record);
        }
    }

    /// Sends everything, finished epoch or not.
    pub(crate) fn flush(&mut self, spool: &Spool) {
        self.hand_out(spool);
        self.send(spool);
    }

    fn send(&mut self, spool: &Spool) {
        self.sent_at_epoch = self.epoch;
        if let Some(chunk) = &mut self.chunk {
            chunk.send(spool);
        }
    }

    /// Before a system call that may sleep for long: do not sit on what is recorded.
    pub(crate) fn before_sleep(&mut self, spool: &Spool) {
        let waiting = self.chunk.as_ref().is_some_and(|chunk| !chunk.is_empty());
        if waiting && self.epoch - self.sent_at_epoch >= 4 {
            self.send(spool);
        }
    }

    /// Memory of `[start, end)` (pages) is another one from now on.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        self.filter.forget(start, end);
    }

    /// The thread's point in virtual time: its beginning, its instructions and its sleep, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.start_ns + self.idle_ns + self.computed_ns()
    }

    /// What its instructions took, in nanoseconds.
    fn computed_ns(&self) -> u64 {
        let ran_ns = u128::from(self.instructions) * u128::from(self.length.ns) / u128::from(self.length.instructions);
        u64::try_from(ran_ns).unwrap_or(u64::MAX / 4)
    }

    /// Says how much time the thread has computed.
    pub(crate) fn tell_clock(&mut self, spool: &Spool) {
        self.push(spool, &Record::Clock { ns: self.computed_ns(), instructions: self.instructions });
    }

    /// Lets the others know how far this thread got.
    pub(crate) fn advance_frontier(&self, spool: &Spool) {
        spool.control.frontier_ns.fetch_max(self.now_ns(), Ordering::Relaxed);
    }

    /// The thread was woken after it had asked for `asked_ns` of sleep (0: it waited for somebody). It goes on when that
    /// time is over, and not before what the others have done already.
    pub(crate) fn woken(&mut self, spool: &Spool, asked_ns: u64) {
        let now_ns = self.now_ns();
        let wake_ns = spool.control.frontier_ns.load(Ordering::Relaxed).max(now_ns.saturating_add(asked_ns));
        let ns = wake_ns - now_ns;
        if ns > 0 {
            self.event(spool, &Record::Idle { ns });
            self.idle_ns += ns;
            self.block_order_ns = self.order_ns();
            self.advance_frontier(spool);
        }
    }

    /// This thread is now the only one of a forked process: it begins anew with the uid that its parent announced.
    pub(crate) fn become_child(&mut self, spool: &Spool, uid: u32) {
        let child = Self::new(spool, self.length, uid, Origin::Fork, Some(self.uid), self.now_ns());
        let parent = std::mem::replace(self, child);
        // Its chunk is the parent's: it stays mapped and untouched.
        std::mem::forget(parent.chunk);
        self.boundary = self.length.instructions;
        self.say_hello(spool);
    }

    /// The thread ends, or the process with it.
    pub(crate) fn end(&mut self, spool: &Spool) {
        self.advance_frontier(spool);
        let instructions = self.instructions;
        self.hand_out(spool);
        self.tell_clock(spool);
        self.event(spool, &Record::End { instructions });
        if let Some(chunk) = self.chunk.take() {
            chunk.close(spool);
        }
    }
}

/// Says on the standard error stream, which is all there is here, that a thread goes unrecorded.
fn warn_unrecorded(uid: u32, error: &std::io::Error) {
    crate::warn(&format!("thread {uid} is not recorded: no room for its chunk: {error}"));
}
