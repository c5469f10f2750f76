//! Description of a workload's accesses for a machine: runs of pages in batches, and the changes between them.
//!
//! A machine plays a [`Program`]: processes with mappings, threads with a [`Stream`] each. Generators and trace replay make programs; the
//! simulated machine and the real-kernel player run them. Calls are dynamic once per batch; a batch is plain data of 16 bytes a run.

use std::sync::Arc;

use crate::{Duration, Instant, PageRange};

pub use crate::forks::Forks;
pub use crate::runs::Runs;

/// How an access reaches memory. Page-table accesses leave an accessed bit that is found later; file-descriptor accesses
/// call into the kernel at once. Policies treat the two differently, so they are kept apart everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A load or store through the page table.
    PageTable,
    /// `read()` or `write()` of file pages, named by a [`Mapping`] of that file in the same address space.
    FileDescriptor,
}

/// Consecutive pages touched in ascending order, and the time the thread computes before it touches the first.
///
/// Pages are virtual page numbers below 2^52; the flags share their word, so that a run takes 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Run {
    tagged_page: u64,
    /// Number of pages, at least 1.
    pub pages: u32,
    /// CPU time spent before the first page, in nanoseconds. Longer times are [`After::Compute`].
    pub think_ns: u32,
}

const WRITE_BIT: u64 = 1 << 63;
const DESCRIPTOR_BIT: u64 = 1 << 62;
const PAGE_MASK: u64 = (1 << 52) - 1;
const _: () = assert!(size_of::<Run>() == 16, "four runs per cache line");

impl Run {
    /// A read of `pages` pages from `page` through the page table, without computing before it.
    #[inline]
    pub const fn read(page: u64, pages: u32) -> Self {
        Self { tagged_page: page & PAGE_MASK, pages, think_ns: 0 }
    }
    /// The same as a write.
    #[inline]
    pub const fn write(page: u64, pages: u32) -> Self {
        Self { tagged_page: page & PAGE_MASK | WRITE_BIT, pages, think_ns: 0 }
    }
    /// This run, through `channel`.
    #[inline]
    pub const fn through(mut self, channel: Channel) -> Self {
        match channel {
            Channel::PageTable => self.tagged_page &= !DESCRIPTOR_BIT,
            Channel::FileDescriptor => self.tagged_page |= DESCRIPTOR_BIT,
        }
        self
    }
    /// This run, after `think_ns` of computing.
    #[inline]
    pub const fn after_ns(mut self, think_ns: u32) -> Self {
        self.think_ns = think_ns;
        self
    }
    /// Number of the first virtual page.
    #[inline]
    pub const fn page(self) -> u64 {
        self.tagged_page & PAGE_MASK
    }
    /// Whether the accesses are stores; otherwise they are loads.
    #[inline]
    pub const fn is_write(self) -> bool {
        self.tagged_page & WRITE_BIT != 0
    }
    /// How the program reaches the memory: through its page table or through a file descriptor.
    #[inline]
    pub const fn channel(self) -> Channel {
        if self.tagged_page & DESCRIPTOR_BIT == 0 { Channel::PageTable } else { Channel::FileDescriptor }
    }
    /// Whether the run is a plain page-table access of exactly one page: the hot case.
    #[inline]
    pub const fn is_single_page(self) -> bool {
        self.pages == 1 && self.tagged_page & DESCRIPTOR_BIT == 0
    }
    /// How far behind `first` the page of a [single-page](Self::is_single_page) run lies, if it is one of the `pages` from there on.
    #[inline(always)]
    pub const fn single_page_from(self, first: u64, pages: u64) -> Option<u64> {
        // Without the bit of stores; with the one of descriptors it is far away.
        let twice = (self.tagged_page << 1).wrapping_sub(first << 1);
        if self.pages == 1 && twice < pages << 1 { Some(twice >> 1) } else { None }
    }
    /// The virtual pages touched, first to last.
    pub const fn range(self) -> PageRange {
        PageRange::at(self.page(), self.pages as u64)
    }
    /// The rest after the first `done` pages; its computing is over.
    #[inline]
    pub const fn rest_after(self, done: u32) -> Self {
        Self { tagged_page: self.tagged_page + done as u64, pages: self.pages - done, think_ns: 0 }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.is_write() { "write" } else { "read" };
        write!(f, "{verb} {}+{} after {} ns ({:?})", self.page(), self.pages, self.think_ns, self.channel())
    }
}

/// The next accesses of one thread, in order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The accesses in program order.
    pub runs: Runs,
    /// Operations (requests, transactions) that are complete when the last run is done; the unit of throughput.
    pub operations: u64,
}

impl Batch {
    /// Removes all runs and sets `operations` to 0; keeps the allocated memory.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.operations = 0;
    }
}

/// Action of a thread after the present batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Asks for the next batch.
    Continue,
    /// Changes its address space, then continues.
    Change(LayoutChange),
    /// Computes without touching new pages, then continues.
    Compute(Duration),
    /// Sleeps (not runnable), then continues.
    Sleep(Duration),
    /// Asks the page allocator for memory outside its address space, as a driver or a file system does, then continues.
    Kernel(KernelCall),
    /// Starts the thread with this index in [`Program::threads`], then continues. The first thread of a process that
    /// is not alive brings the process to life.
    Start(usize),
    /// Ends. When the last thread of a process ends, its memory is freed.
    Finish,
}

/// A stream that cannot go on, for example because its file is damaged.
pub type StreamError = Box<dyn std::error::Error + Send + Sync>;

/// The accesses of one thread.
pub trait Stream: Send {
    /// Appends the next accesses to `batch` (handed in empty) and returns the thread's next action. `now` is the thread's current time:
    /// workloads whose phases last a given time need it, all others ignore it.
    ///
    /// An empty batch with [`After::Continue`] is allowed but should be rare. Not called again after
    /// [`After::Finish`] or an error.
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError>;

    /// The span of the thread's CPU time in which it names a page once, however often it uses it; `None`: it names each use.
    fn epoch(&self) -> Option<Duration> {
        None
    }

    /// A second stream that goes on from here as this one does, for a second machine; `None`: there can be one only.
    fn fork(&self, _forks: &mut Forks) -> Option<Box<dyn Stream>> {
        None
    }
}

/// Backing of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Private memory without a file: heap, stack, anonymous `mmap`.
    Anonymous,
    /// Pages of a file in [`Program::files`].
    File {
        /// Index of the file in [`Program::files`].
        file: usize,
        /// The file page behind the first page of the mapping.
        first_page: u64,
        /// Private mappings copy a page at the first write and are anonymous from then on.
        sharing: Sharing,
    },
}

/// Effect of a write to a file mapping: `MAP_SHARED` or `MAP_PRIVATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Writes change the file, and others see them.
    Shared,
    /// The first write to a page copies it; the file does not change.
    Private,
}

/// A range of an address space with its backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The virtual pages of the mapping, page numbers of 4 KiB.
    pub pages: PageRange,
    /// Where the contents of the pages come from.
    pub backing: Backing,
    /// Whether code runs from it: such file pages are kept longer by reclaim.
    pub executable: bool,
    /// Whether 2 MiB pages are used where the range covers a whole aligned block (anonymous memory only).
    pub huge: bool,
}

impl Mapping {
    /// Private anonymous memory of base pages.
    pub const fn anonymous(pages: PageRange) -> Self {
        Self { pages, backing: Backing::Anonymous, executable: false, huge: false }
    }
}

/// A change of an address space, as by a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutChange {
    /// `mmap`: maps a range, in place of earlier mappings.
    Map(Mapping),
    /// `munmap`; pages of the range that are not mapped are skipped.
    Unmap(PageRange),
    /// `madvise` on a range.
    Advise(PageRange, Advice),
    /// Pins the pages of the range that are there now, as a device does that reads or writes them: they stay in their frames
    /// until they are freed. The holder stays unknown.
    Pin(PageRange),
}

/// The request of [`After::Kernel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCall {
    /// Takes blocks, one after the other.
    Take(BlockRequest),
    /// Gives back blocks that the program took under `tag`: `count` blocks, or all if there are fewer, the oldest first. Blocks that are
    /// never given back stay in use, also when the program has ended.
    Give {
        /// The name under which the blocks were taken: [`BlockRequest::tag`].
        tag: u32,
        count: u64,
    },
    /// Reads the kernel's counts of its group (`memory.stat`), for which the kernel adds up the counts of its processors. That
    /// costs no time here.
    ReadStatistics,
}

/// Blocks that a program wants. Each is asked for by itself: the time that one attempt costs passes before the next. It is reported
/// with the results of the program. The thread goes on when it has `count`, or has failed `failures` times; successes in
/// between do not reset that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// A name for these blocks within the program.
    pub tag: u32,
    /// log2 of the pages of a block, 0 to 10.
    pub order: u32,
    /// Kind of the blocks; decides their migrate type.
    pub kind: BlockKind,
    /// How hard the page allocator tries before it gives up.
    pub effort: BlockEffort,
    pub count: u64,
    /// How many may fail; at least 1.
    pub failures: u64,
}

/// Kind of a block: the migrate type of its allocation. The pages themselves are never moved, for any kind, because no page table maps
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Kernel memory proper: page tables, buffers of drivers.
    Unmovable,
    /// Caches of the kernel that it gives back when asked: inodes, dentries. Here only the program gives them back.
    Reclaimable,
    /// Memory that a driver takes as if it were a program's: huge pages.
    Movable,
}

/// How hard the page allocator tries to find a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEffort {
    /// Takes a free block at once: neither compaction nor reclaim, and no daemon is woken (`GFP_TRANSHUGE_LIGHT`).
    Light,
    /// The same, and if that fails once more with compaction and reclaim (`GFP_TRANSHUGE | __GFP_RETRY_MAYFAIL`): the loop of the original
    /// driver.
    LightThenFallback,
    /// As any kernel memory: kswapd is woken, and direct reclaim and compaction run if that is not enough (`GFP_KERNEL`).
    Normal,
}

/// `madvise` values that a machine understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Forget earlier advice on access order.
    Normal,
    /// Expect random access: no readahead.
    Random,
    /// Expect sequential access: readahead in full windows.
    Sequential,
    /// Drop the contents now; the next access finds zeroes or the file (`MADV_DONTNEED`).
    DontNeed,
    /// Contents may be dropped when memory is short (`MADV_FREE`).
    Free,
    /// Start to read the range in now (`MADV_WILLNEED`).
    WillNeed,
    /// Deactivate the pages, so that reclaim takes them first (`MADV_COLD`).
    Cold,
    /// Reclaim the pages now (`MADV_PAGEOUT`).
    PageOut,
}

/// Kind of object of a [`FileSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file on a disk: clean pages are dropped, dirty ones written back.
    Regular,
    /// Shared anonymous memory, tmpfs: swap-backed.
    SharedMemory,
}

/// A file that programs map or read. Files of equal name are one file to a machine, also across programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Path of the file, or any name. Files of equal name are one file.
    pub name: String,
    /// Length of the file in pages of 4 KiB.
    pub pages: u64,
    /// Where its pages go when they are evicted.
    pub kind: FileKind,
}

/// An address space that a program will create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub name: String,
    /// Index of the process whose memory it inherits copy-on-write when its first thread starts.
    pub forked_from: Option<usize>,
    /// Mappings at its start, in addition to inherited ones.
    pub layout: Vec<Mapping>,
}

/// When a thread begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadStart {
    WithProgram,
    /// When another thread starts it with [`After::Start`].
    ByThread,
}

/// One thread of a program.
pub struct Thread {
    /// Index of its process in [`Program::processes`].
    pub process: usize,
    /// When the thread begins to run.
    pub start: ThreadStart,
    /// The accesses of the thread.
    pub stream: Box<dyn Stream>,
}

/// How the time of accesses is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// [`Run::think_ns`] already holds everything but faults: a recording.
    Recorded,
    /// Each page touched costs the latency of the memory it lies in, on top of [`Run::think_ns`]: a generator.
    Modelled,
    /// The same, but this number of cache lines of a touched page are used, one after the other, and each line costs that latency.
    Lines(u32),
}

impl Timing {
    /// Cache lines used of a touched page, as far as is known; else 1.
    pub fn lines(self) -> u64 {
        match self {
            Self::Recorded | Self::Modelled => 1,
            Self::Lines(lines) => u64::from(lines),
        }
    }

    /// The cost of a touch of a page where an access takes `latency_ns`.
    pub fn page_ns(self, latency_ns: u64) -> u64 {
        match self {
            Self::Recorded => 0,
            Self::Modelled => latency_ns,
            Self::Lines(lines) => latency_ns.saturating_mul(u64::from(lines)),
        }
    }
}

/// Everything a machine needs to play a workload once.
pub struct Program {
    pub name: String,
    /// Files that mappings and accesses refer to by index.
    pub files: Vec<FileSpec>,
    /// The address spaces, in the order of their indices.
    pub processes: Vec<Process>,
    pub threads: Vec<Thread>,
    /// Whether the time of accesses is part of the stream, or computed by the machine.
    pub timing: Timing,
    /// When each page will be used, if the workload knows: what Belady's MIN needs.
    pub future: Option<Future>,
}

/// The owner of a page: pages of a file are the same page wherever they are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// Private memory of the process with this index.
    Process(usize),
    /// The file with this index in [`Program::files`].
    File(usize),
}

/// For each page the positions, in the order of the whole program, at which it is used.
///
/// A reader goes from one position of a page to the next each time the page is touched. So the position of a page's next use is known for
/// any order in which threads run. Costs 4 bytes a use and 4 bytes a page, which copies share. A use leads to the next use of its page:
/// going through all uses in the order of the program reads the list from one end to the other.
#[derive(Clone, Debug, Default)]
pub struct Future {
    /// Sorted by `(owner, pages.start)`, disjoint.
    ranges: Arc<[FutureRange]>,
    /// By dense page: position of its first use.
    first: Arc<[u32]>,
    /// By position: position of the next use of the same page.
    next: Arc<[u32]>,
}

#[derive(Clone, Copy, Debug)]
struct FutureRange {
    owner: Owner,
    pages: PageRange,
    first_dense: u32,
}

impl FutureRange {
    #[inline]
    fn dense(&self, owner: Owner, page: u64) -> Option<usize> {
        (self.owner == owner && self.pages.contains(page))
            .then(|| self.first_dense as usize + usize::try_from(page - self.pages.start).expect("checked in build"))
    }
}

impl Future {
    /// Position of a page that is not used again.
    pub const NEVER: u32 = u32::MAX;

    /// Builds the table. `ranges`: all pages that may be used (overlaps are merged). `uses` calls its argument once for each
    /// use in program order; it is run twice and must make the same calls both times. Uses outside the ranges are not
    /// kept.
    ///
    /// # Errors
    /// When there are 2^32 uses or pages or more.
    pub fn build<E>(
        mut ranges: Vec<(Owner, PageRange)>,
        mut uses: impl FnMut(&mut dyn FnMut(Owner, u64)) -> Result<(), E>,
    ) -> Result<Result<Self, FutureTooLarge>, E> {
        ranges.retain(|(_, pages)| !pages.is_empty());
        ranges.sort_unstable();
        let mut merged: Vec<FutureRange> = Vec::new();
        let mut pages_in_all = 0u64;
        for (owner, pages) in ranges {
            match merged.last_mut() {
                Some(last) if last.owner == owner && pages.start <= last.pages.end => {
                    pages_in_all += pages.end.saturating_sub(last.pages.end);
                    last.pages.end = last.pages.end.max(pages.end);
                }
                _ => {
                    let Ok(first_dense) = u32::try_from(pages_in_all) else { return Ok(Err(FutureTooLarge)) };
                    pages_in_all += pages.len();
                    merged.push(FutureRange { owner, pages, first_dense });
                }
            }
        }
        let Some(dense_len) = usize::try_from(pages_in_all).ok().filter(|_| pages_in_all < u64::from(u32::MAX)) else {
            return Ok(Err(FutureTooLarge));
        };
        let mut future = Self { ranges: merged.into(), ..Self::default() };
        let (mut nr_uses, mut near) = (0u64, 0);
        uses(&mut |owner, page| nr_uses += u64::from(future.dense_next(owner, page, &mut near).is_some()))?;
        let Some(len) = usize::try_from(nr_uses).ok().filter(|_| nr_uses < u64::from(u32::MAX)) else {
            return Ok(Err(FutureTooLarge));
        };
        let mut first = vec![Self::NEVER; dense_len];
        // By dense page: the latest position so far.
        let mut latest = first.clone();
        let mut next = vec![Self::NEVER; len];
        let mut position = 0u32;
        uses(&mut |owner, page| {
            if let Some(dense) = future.dense_next(owner, page, &mut near) {
                match next.get_mut(latest[dense] as usize) {
                    Some(next) => *next = position,
                    None => first[dense] = position,
                }
                latest[dense] = position;
                position += 1;
            }
        })?;
        (future.first, future.next) = (first.into(), next.into());
        Ok(Ok(future))
    }

    /// By dense page: position of its first use, or [`NEVER`](Self::NEVER). Dense numbers are below its length.
    pub fn first_uses(&self) -> &[u32] {
        &self.first
    }

    /// The position of the next use of the page that is used at `position`; [`NEVER`](Self::NEVER) after the last one and after that.
    #[inline]
    pub fn use_after(&self, position: u32) -> u32 {
        self.next.get(position as usize).copied().unwrap_or(Self::NEVER)
    }

    /// The dense number of a page, if it is in the table. Numbers of neighbouring pages of a range are neighbours.
    pub fn dense(&self, owner: Owner, page: u64) -> Option<usize> {
        self.range_of(owner, page).and_then(|at| self.ranges[at].dense(owner, page))
    }

    /// The same for queries of page after page: consecutive queries often fall into the same range, which `latest` names. It is 0 at first.
    #[inline]
    pub fn dense_next(&self, owner: Owner, page: u64, latest: &mut usize) -> Option<usize> {
        let near = self.ranges.get(*latest).and_then(|range| range.dense(owner, page));
        near.or_else(|| {
            *latest = self.range_of(owner, page)?;
            self.ranges[*latest].dense(owner, page)
        })
    }

    /// The range that holds the page, or the last one before it.
    fn range_of(&self, owner: Owner, page: u64) -> Option<usize> {
        self.ranges.partition_point(|range| (range.owner, range.pages.start) <= (owner, page)).checked_sub(1)
    }

    /// All positions at which dense page `dense` is used, ascending.
    pub fn uses_of(&self, dense: usize) -> impl Iterator<Item = u32> + '_ {
        let is_use = |&position: &u32| position != Self::NEVER;
        let after = move |&position: &u32| Some(self.use_after(position)).filter(is_use);
        std::iter::successors(Some(self.first[dense]).filter(is_use), after)
    }
}

/// A [`Future`] would not fit its 32-bit positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the workload has 2^32 uses of pages or more; Belady's MIN cannot hold its future")]
pub struct FutureTooLarge;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_keeps_its_parts() {
        let run = Run::write(0xf_ffff_ffff_fff0, 7).after_ns(9).through(Channel::FileDescriptor);
        assert_eq!((run.page(), run.pages, run.think_ns), (0xf_ffff_ffff_fff0, 7, 9));
        assert!(run.is_write() && run.channel() == Channel::FileDescriptor && !run.is_single_page());
        assert_eq!(run.rest_after(3).range(), PageRange::at(0xf_ffff_ffff_fff3, 4));
        assert!(Run::read(1, 1).is_single_page());
    }

    #[test]
    fn the_future_lists_each_pages_uses_in_order() {
        let order = [(0, 10), (0, 11), (1, 10), (0, 10), (0, 99)];
        let ranges = vec![
            (Owner::Process(0), PageRange::new(10, 11)),
            (Owner::Process(1), PageRange::new(10, 12)),
            (Owner::Process(0), PageRange::new(11, 12)),
        ];
        let future = Future::build::<()>(ranges, |each| {
            order.iter().for_each(|&(process, page)| each(Owner::Process(process), page));
            Ok(())
        });
        let future = future.unwrap().unwrap();
        let uses = |process, page| {
            future.dense(Owner::Process(process), page).map(|dense| future.uses_of(dense).collect::<Vec<_>>())
        };
        assert_eq!(uses(0, 10), Some(vec![0, 3]));
        assert_eq!(uses(0, 11), Some(vec![1]));
        assert_eq!(uses(1, 10), Some(vec![2]));
        assert_eq!(uses(1, 11), Some(vec![]));
        assert_eq!(uses(0, 99), None);
        let mut latest = 0;
        for (process, page) in [(1, 11), (1, 10), (0, 11), (0, 12), (2, 10), (0, 10), (0, 9), (1, 11)] {
            let (owner, next) = (Owner::Process(process), &mut latest);
            assert_eq!(future.dense_next(owner, page, next), future.dense(owner, page), "{owner:?} {page}");
        }
        assert_eq!(future.first_uses().len(), 4);
    }
}
