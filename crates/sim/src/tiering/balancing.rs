//! NUMA balancing: threads make pages of their own space inaccessible as they run, and the faults that follow show which thread uses which
//! page (docs/spec/promotion.md#s4). All this work is done, and paid for, by the application's own threads.
//!
//! The decisions are in `isotherm_core::promotion::hint_fault`; here are the states of spaces and threads, the marked pages, and
//! the counts of faults.

use super::PageMemory;
use crate::machine::ConfigError;
use isotherm_core::host::{AddressRange, NodeId as HostNode, NodeMemory};
use isotherm_core::promotion::hint_fault::{
    Balancing, FaultStats, Faulter, Headroom, HotControls, HotFilter, LastFault, ScanBudget, ScanPeriod, SpaceClock,
    TaskClock, two_references,
};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::{Flag, FrameId, Memory, NodeId};
use isotherm_kernel::mmu::{DensePage, SpaceId, Vma};
use isotherm_units::access::Backing;
use isotherm_units::{Duration, Instant, PAGE_SHIFT, PageRange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Base pages of a huge page.
const HUGE_PAGES: u64 = 512;
/// Sequences in which an area is scanned by any thread, used by it or not.
const FREE_SEQUENCES: u64 = 2;
/// Scan delays for which the threads that faulted in an area are remembered; threads of the time before are remembered for as long again.
const MEMORY_DELAYS: u64 = 4;

/// Controls of NUMA balancing, under the kernel's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct BalancingConfig {
    /// Neither a space nor a thread is scanned before it has run for this time; whole milliseconds.
    pub scan_delay: Duration,
    /// Mode 2: a page that faults sooner after it was marked is hot, where memory is short; whole milliseconds.
    pub hot_threshold: Duration,
    /// Mode 2: most memory that is promoted a second while memory is short, in 2^20 bytes. 0: none does.
    pub promote_rate_limit_mbps: u64,
}

impl Default for BalancingConfig {
    /// The kernel's.
    fn default() -> Self {
        let HotControls { rate_limit_mbps, hot_threshold_ms, .. } = HotControls::default();
        Self {
            scan_delay: Duration::from_secs(1),
            hot_threshold: Duration::from_ms(hot_threshold_ms),
            promote_rate_limit_mbps: rate_limit_mbps,
        }
    }
}

impl BalancingConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (field, value) in [("scan-delay", self.scan_delay), ("hot-threshold", self.hot_threshold)] {
            let is_whole = value.ns().is_multiple_of(1_000_000);
            if !is_whole || value < Duration::from_ms(1) || value > Duration::from_secs(600) {
                let field = format!("balancing.{field}");
                return Err(ConfigError::new(&field, value, "whole milliseconds from 1ms to 10m"));
            }
        }
        Ok(())
    }
}

/// The thread that faults or scans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Where {
    /// Number of its task.
    pub(crate) task: usize,
    pub(crate) space: SpaceId,
    /// Node of its processor.
    pub(crate) node: NodeId,
    /// Threads of its space that have not ended.
    pub(crate) threads: u64,
}

/// A hint fault, to be ended by [`Balancer::end`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HintFault {
    frame: FrameId,
    from: NodeId,
    /// Where the page is to go; `None`: it stays.
    pub(crate) to: Option<NodeId>,
    /// Base pages of the entry.
    pages: u64,
    is_private: bool,
    /// Whether the fault counts although the page stays.
    counts: bool,
}

/// NUMA balancing of a machine.
#[derive(Debug)]
pub(crate) struct Balancer {
    mode: Balancing,
    scan_delay: Duration,
    controls: HotControls,
    tick: Duration,
    pages: PageMemory,
    /// Filters by node.
    filters: Vec<HotFilter>,
    spaces: BTreeMap<SpaceId, SpaceScan>,
    threads: BTreeMap<usize, ThreadScan>,
    /// CPU time of scans, in threads' own time.
    pub(crate) scan_ns: u64,
    /// CPU time of hint faults, in threads' own time, moves included.
    pub(crate) fault_ns: u64,
}

#[derive(Debug)]
struct SpaceScan {
    clock: SpaceClock,
    /// Whole passes over the space so far.
    sequence: u64,
    /// Page where the next scan begins.
    offset: u64,
    /// Scans by first page of the mapping.
    areas: BTreeMap<u64, AreaScan>,
}

/// The state of a mapping.
#[derive(Clone, Copy, Debug)]
struct AreaScan {
    old_enough_at: Instant,
    first_sequence: u64,
    /// Number of the last scan that covered it whole.
    scanned: Option<u64>,
    /// Hashed numbers of threads that faulted in it: in the last window, and in this one.
    faulted: [u64; 2],
    window_ends: Instant,
}

#[derive(Debug)]
struct ThreadScan {
    clock: TaskClock,
    sequence: u64,
    stats: FaultStats,
    private: u64,
    shared: u64,
    has_preferred_node: bool,
}

impl Balancer {
    pub(crate) fn new(mode: Balancing, config: &BalancingConfig, memory: &Memory, tick: Duration) -> Self {
        let ms = |span: Duration| span.ns() / 1_000_000;
        Self {
            mode,
            scan_delay: config.scan_delay,
            controls: HotControls {
                rate_limit_mbps: config.promote_rate_limit_mbps,
                hot_threshold_ms: ms(config.hot_threshold),
                ..HotControls::default()
            },
            tick,
            pages: PageMemory::new(memory.frames.len()),
            filters: memory.nodes.ids().map(|_| HotFilter::default()).collect(),
            spaces: BTreeMap::new(),
            threads: BTreeMap::new(),
            scan_ns: 0,
            fault_ns: 0,
        }
    }

    /// The kernel's tick: how often a thread is asked.
    pub(crate) fn tick_length(&self) -> Duration {
        self.tick
    }

    /// A thread begins; the first of a space brings it along.
    pub(crate) fn enter(&mut self, task: usize, space: SpaceId, now: Instant) {
        let is_clone = self.spaces.contains_key(&space);
        let clock = SpaceClock::new(now, self.scan_delay);
        let scan = || SpaceScan { clock, sequence: 0, offset: 0, areas: BTreeMap::new() };
        let sequence = self.spaces.entry(space).or_insert_with(scan).sequence;
        let delay_ms = self.scan_delay.ns() / 1_000_000;
        let clock = if is_clone { TaskClock::of_clone(delay_ms, self.tick) } else { TaskClock::new(delay_ms) };
        let (stats, private, shared) = (FaultStats::default(), 0, 0);
        self.threads.insert(task, ThreadScan { clock, sequence, stats, private, shared, has_preferred_node: false });
    }

    pub(crate) fn thread_ended(&mut self, task: usize) {
        self.threads.remove(&task);
    }

    pub(crate) fn space_ended(&mut self, space: SpaceId) {
        self.spaces.remove(&space);
    }

    /// Called at a tick of a thread that has run for `runtime` in all: returns whether it is to scan now.
    pub(crate) fn is_due(&mut self, who: Where, runtime: Duration, memory: &Memory, now: Instant) -> bool {
        let start_ms = ScanPeriod::start(memory.space(who.space).nr_resident).period_ms;
        let (Some(space), Some(thread)) = (self.spaces.get_mut(&who.space), self.threads.get_mut(&who.task)) else {
            return false;
        };
        thread.clock.tick(runtime, start_ms, now, &space.clock) && thread.clock.begin(&mut space.clock, now, self.tick)
    }

    /// One scan, in the time of the thread. The CPU time is in the ledger afterwards, and is given to [`worked`](Self::worked).
    pub(crate) fn scan(&mut self, who: Where, memory: &mut Memory, now: Instant) {
        let Some(space) = self.spaces.get_mut(&who.space) else { return };
        let areas: Vec<Vma> = memory.space(who.space).vmas.iter().copied().collect();
        let mut index = areas.partition_point(|vma| vma.pages().end <= space.offset);
        if index == areas.len() {
            (space.sequence, space.offset, index) = (space.sequence + 1, 0, 0);
        }
        let mut budget = ScanBudget::default();
        let marks = Marks { mode: self.mode, who, now };
        let first = index;
        let mut was_skipped = false;
        while let Some(vma) = areas.get(index) {
            index += 1;
            if !is_watched(vma) || space.is_young(vma, now, self.scan_delay) {
                continue;
            }
            if space.areas[&vma.pages().start].scanned == Some(space.sequence) {
                space.offset = vma.pages().end;
                continue;
            }
            if !space.is_used_by(vma, who) {
                was_skipped = true;
                continue;
            }
            if !space.scan_area(vma, &mut budget, &marks, &mut self.pages, memory) {
                return;
            }
        }
        // No other thread may ever come to areas that this one does not use: take one such area, so that the sequence ends.
        if was_skipped {
            let is_left = |vma: &&Vma| {
                let area = space.areas.get(&vma.pages().start);
                is_watched(vma) && area.is_some_and(|area| area.scanned != Some(space.sequence))
            };
            if let Some(vma) = areas[first..].iter().find(is_left) {
                space.scan_area(vma, &mut budget, &marks, &mut self.pages, memory);
                return;
            }
        }
        (space.sequence, space.offset) = (space.sequence + 1, 0);
    }

    /// A scan took this CPU time of the thread.
    pub(crate) fn worked(&mut self, task: usize, used: Duration) {
        self.scan_ns += used.ns();
        if let Some(thread) = self.threads.get_mut(&task) {
            thread.clock.worked(used);
        }
    }

    /// A thread has touched the marked page `dense`, which shows `frame`: makes it accessible and decides whether it moves.
    pub(crate) fn fault(
        &mut self,
        who: Where,
        dense: DensePage,
        frame: FrameId,
        memory: &mut Memory,
        now: Instant,
    ) -> HintFault {
        let from = memory.nodes.of(frame);
        let pages = restore(memory, who.space, dense);
        memory.ledger.spend(memory.costs.hint_fault_ns());
        let cgroup = memory.space(who.space).cgroup;
        memory.count(Counter::NumaHintFaults, cgroup, 1);
        if from == who.node {
            memory.count(Counter::NumaHintFaultsLocal, cgroup, 1);
        }
        let thread_bits = u8::try_from(who.task & 0xff).expect("8 bits");
        let is_slow = !memory.tiers.is_top(from);
        let (last, wants, counts, is_private) = if is_slow && self.mode.is_tiering() {
            (LastFault::Invalid, self.is_hot(who.node, frame, pages, memory, now), false, true)
        } else {
            let last = match self.pages.exchange(frame, host_node(who.node), thread_bits) {
                LastFault::Unset if is_slow => LastFault::Invalid, // names no processor either
                last => last,
            };
            let thread = self.threads.get(&who.task);
            let faulter = Faulter {
                node: host_node(who.node),
                thread: thread_bits,
                has_preferred_node: thread.is_some_and(|thread| thread.has_preferred_node),
                scan_sequence: self.spaces.get(&who.space).map_or(0, |space| space.sequence),
            };
            let wants = from != who.node && two_references(last, faulter, is_slow);
            let is_private = matches!(last, LastFault::Unset)
                || matches!(last, LastFault::By { thread, .. } if thread == thread_bits);
            (last, wants, !is_slow || last != LastFault::Invalid, is_private)
        };
        debug_assert!(last != LastFault::Unset || !is_slow, "slow pages have no such word");
        self.note_user(who, memory.space(who.space).table.page_of(dense), memory);
        let to = (wants && from != who.node).then_some(who.node);
        HintFault { frame, from, to, pages, is_private, counts }
    }

    /// The page of a fault has moved to `moved`, or stays where it was.
    pub(crate) fn end(&mut self, who: Where, fault: HintFault, moved: Option<FrameId>, memory: &mut Memory) {
        let cgroup = memory.space(who.space).cgroup;
        if let Some(frame) = moved {
            memory.count(Counter::NumaPagesMigrated, cgroup, fault.pages);
            let is_promotion = !memory.tiers.is_top(fault.from) && memory.tiers.is_top(who.node);
            if is_promotion && self.mode.is_tiering() {
                self.pages.reset(frame);
            } else {
                self.pages.carry(fault.frame, frame);
            }
        }
        if !fault.counts && moved.is_none() {
            return;
        }
        let Some(thread) = self.threads.get_mut(&who.task) else { return };
        let Some(space) = self.spaces.get_mut(&who.space) else { return };
        if thread.sequence != space.sequence {
            thread.sequence = space.sequence;
            let period = ScanPeriod::start(memory.space(who.space).nr_resident);
            let mut period = ScanPeriod { period_ms: thread.clock.period_ms, ..period };
            let waits = period.adapt(&mut thread.stats, thread.private, thread.shared);
            thread.has_preferred_node |= thread.private + thread.shared > 0;
            (thread.private, thread.shared) = (0, 0);
            thread.clock.period_ms = period.period_ms;
            if waits {
                space.clock.next_scan = memory.now + Duration::from_ms(period.period_ms);
            }
        }
        let is_local = fault.from == who.node;
        *if is_local { &mut thread.stats.local } else { &mut thread.stats.remote } += fault.pages;
        *if fault.is_private { &mut thread.private } else { &mut thread.shared } += fault.pages;
        if fault.to.is_some() && moved.is_none() {
            thread.stats.failed += fault.pages;
        }
    }

    /// Pages that were found hot, and pages that were promoted because there was room for all: `pgpromote_candidate`,
    /// `pgpromote_candidate_nrl`.
    pub(crate) fn candidates(&self) -> (u64, u64) {
        self.filters
            .iter()
            .fold((0, 0), |(hot, ample), filter| (hot + filter.candidates, ample + filter.candidates_ample))
    }

    fn is_hot(&mut self, to: NodeId, frame: FrameId, pages: u64, memory: &Memory, now: Instant) -> bool {
        let latency_ms = self.pages.latency_ms(frame, now);
        let headroom = Headroom::of(node_memory(memory, to));
        self.filters[to.index()].decide(pages, latency_ms, headroom, &self.controls, now).promotes()
    }

    /// The thread uses the mapping.
    fn note_user(&mut self, who: Where, page: u64, memory: &Memory) {
        let Some(space) = self.spaces.get_mut(&who.space) else { return };
        let Some(vma) = memory.space(who.space).vmas.find(page) else { return };
        if let Some(area) = space.areas.get_mut(&vma.pages().start) {
            area.faulted[1] |= user_bit(who.task);
        }
    }
}

impl SpaceScan {
    /// Whether a mapping is too young to be scanned. Forgets its users of long ago.
    fn is_young(&mut self, vma: &Vma, now: Instant, delay: Duration) -> bool {
        let first_sequence = self.sequence;
        let window = delay.saturating_mul(MEMORY_DELAYS);
        let area = self.areas.entry(vma.pages().start).or_insert_with(|| AreaScan {
            old_enough_at: now + delay,
            first_sequence,
            scanned: None,
            faulted: [0; 2],
            window_ends: now + delay + window,
        });
        if self.sequence == 0 {
            return false;
        }
        if now < area.old_enough_at {
            return true;
        }
        if now > area.window_ends {
            area.window_ends += window;
            area.faulted = [area.faulted[1], 0];
        }
        false
    }

    /// Whether the thread is to scan the mapping: it uses it, or that is not known yet, or no other thread has come for long.
    fn is_used_by(&self, vma: &Vma, who: Where) -> bool {
        let area = &self.areas[&vma.pages().start];
        self.sequence - area.first_sequence < FREE_SEQUENCES
            || (area.faulted[0] | area.faulted[1]) & user_bit(who.task) != 0
            || self.offset > vma.pages().start
            || area.scanned.is_some_and(|scanned| self.sequence > scanned + who.threads)
    }

    /// Marks the rest of a mapping from the offset on. `false`: the budget is spent.
    fn scan_area(
        &mut self,
        vma: &Vma,
        budget: &mut ScanBudget,
        marks: &Marks,
        pages: &mut PageMemory,
        memory: &mut Memory,
    ) -> bool {
        let all = AddressRange::new(vma.pages().start << PAGE_SHIFT, vma.pages().end << PAGE_SHIFT);
        let mut at = all.start.max(self.offset << PAGE_SHIFT);
        while let Some(chunk) = budget.chunk(at, all) {
            let range = PageRange::new(chunk.start >> PAGE_SHIFT, chunk.end >> PAGE_SHIFT);
            let has_changed = marks.put(range, pages, memory);
            budget.charge(chunk, has_changed);
            at = chunk.end;
            self.offset = at >> PAGE_SHIFT;
        }
        if at < all.end {
            return false;
        }
        let sequence = self.sequence;
        if let Some(area) = self.areas.get_mut(&vma.pages().start) {
            area.scanned = Some(sequence);
        }
        !budget.is_spent()
    }
}

/// Marked pages, with the thread and time of each mark.
struct Marks {
    mode: Balancing,
    who: Where,
    now: Instant,
}

impl Marks {
    /// Marks a range; returns whether there were pages to mark.
    fn put(&self, range: PageRange, pages: &mut PageMemory, memory: &mut Memory) -> bool {
        let Self { mode, who, now } = *self;
        let Memory { spaces, frames, nodes, tiers, .. } = memory;
        let is_alone = who.threads == 1 && !mode.is_tiering();
        let space = &mut spaces[who.space.index()];
        let (marked, seen) = space.table.mark(range, |_, frame| {
            let node = nodes.of(frame);
            let is_top = tiers.is_top(node);
            if (is_top && !mode.marks_top_tier()) || (is_alone && node == who.node) {
                return false;
            }
            let flags = frames.flags(frame);
            let is_dirty_file = flags.has(Flag::FileOwned) && flags.has(Flag::Dirty);
            if flags.has(Flag::Shared) || is_dirty_file || frames.is_pinned(frame) {
                return false;
            }
            if mode.is_tiering() && !is_top {
                pages.mark(frame, now);
            }
            true
        });
        let flush = if marked > 0 { memory.shoot_down([who.space]) } else { 0 };
        let costs = &memory.costs;
        memory.ledger.spend(seen * costs.pte_scan_ns() + marked * costs.hint_mark_ns() + flush);
        let cgroup = memory.space(who.space).cgroup;
        memory.count(Counter::NumaPteUpdates, cgroup, marked);
        marked > 0
    }
}

/// Makes a page accessible, with all of the huge page that it is part of. Base pages of the entry.
fn restore(memory: &mut Memory, space: SpaceId, dense: DensePage) -> u64 {
    let space = memory.space_mut(space);
    let page = space.table.page_of(dense);
    if !space.huge_blocks.contains(&(page / HUGE_PAGES)) {
        space.table.restore(dense);
        return 1;
    }
    let block = PageRange::at(page / HUGE_PAGES * HUGE_PAGES, HUGE_PAGES);
    let all: Vec<DensePage> = space.table.present_in(block).collect();
    all.into_iter().for_each(|dense| space.table.restore(dense));
    HUGE_PAGES
}

/// The filter that NUMA balancing and the scan daemon share, as far as mappings here differ: files that are only read stay.
fn is_watched(vma: &Vma) -> bool {
    match vma.mapping.backing {
        Backing::Anonymous => true,
        Backing::File { .. } => !vma.mapping.executable,
    }
}

fn user_bit(task: usize) -> u64 {
    1 << (task % 64)
}

fn host_node(node: NodeId) -> HostNode {
    HostNode(u32::try_from(node.index()).expect("a few nodes"))
}

/// Free memory of a node and its marks, all zones together.
fn node_memory(memory: &Memory, node: NodeId) -> NodeMemory {
    let node = memory.nodes.get(node);
    let sum = |take: fn(&isotherm_kernel::memory::Zone) -> u64| node.zones.iter().map(take).sum();
    NodeMemory {
        present: sum(isotherm_kernel::memory::Zone::managed),
        free: node.free(),
        high: sum(|zone| zone.marks.high),
        promo: sum(|zone| zone.marks.promo),
    }
}
