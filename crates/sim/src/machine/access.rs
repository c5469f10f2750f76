//! The cost of accesses in each class of memory, with and without load.

use super::{MachineConfig, NodeOutcome};
use isotherm_kernel::memory::{CLASSES_MAX, Node, NodeId, Nodes};
use isotherm_kernel::mmu::{Hits, Pace};
use isotherm_units::access::Timing;
use isotherm_units::{Instant, PAGE_BYTES};

/// Bytes that one access moves: a cache line.
const LINE_BYTES: u64 = 64;
/// Load is measured over such a span and sets latencies for the next one.
const WINDOW_NS: u64 = 1_000_000;
/// Load above this, in ppm, does not raise latency further: at 95 % it is twenty times the latency of an idle node.
const LOAD_MAX_PPM: u64 = 950_000;

/// Latencies by class, and the load of each.
#[derive(Clone, Debug)]
pub(super) struct AccessCosts {
    nr_classes: usize,
    /// Pages that each page counts for.
    sample_pages: u64,
    /// The part that a recording holds already: the latency of DRAM.
    held_ns: u64,
    /// Without load.
    idle_ns: [u64; CLASSES_MAX],
    now_ns: [u64; CLASSES_MAX],
    /// Accesses of all programs so far.
    pub(super) hits: Hits,
    /// Cache lines of the accesses.
    lines: Hits,
    load: Option<Load>,
}

/// Loaded latency (docs/spec/promotion.md#s6-3).
#[derive(Clone, Debug, Default)]
struct Load {
    /// Bytes that a class moves in a window; 0: no limit.
    window_bytes: [u64; CLASSES_MAX],
    /// Bytes in this window so far.
    used_bytes: [u64; CLASSES_MAX],
    window_ends_ns: u64,
}

impl AccessCosts {
    pub(super) fn new(config: &MachineConfig, nodes: &Nodes) -> Self {
        let mut idle_ns = [config.nodes[0].latency.ns(); CLASSES_MAX];
        let held_ns = isotherm_kernel::costs::Costs::default().dram_latency_ns();
        let Some(classes) = nodes.classes() else {
            return Self {
                nr_classes: 1,
                sample_pages: u64::from(config.sample),
                held_ns,
                idle_ns,
                now_ns: idle_ns,
                hits: Hits::default(),
                lines: Hits::default(),
                load: None,
            };
        };
        idle_ns[..classes.len()].copy_from_slice(classes.latencies_ns());
        let load = config.tiering.loaded_latency.then(|| {
            let mut load = Load { window_ends_ns: WINDOW_NS, ..Load::default() };
            for (id, node) in nodes.iter() {
                let mb = node.bandwidth_mb_per_s.unwrap_or(0);
                load.window_bytes[usize::from(classes.of_node(id))] = mb * (WINDOW_NS / 1000);
            }
            load
        });
        Self {
            nr_classes: classes.len(),
            sample_pages: u64::from(config.sample),
            held_ns,
            idle_ns,
            now_ns: idle_ns,
            hits: Hits::default(),
            lines: Hits::default(),
            load,
        }
    }

    /// The clock of a thread that plays from `now_ns` to `until_ns`. A recording already includes the latency of DRAM, or of the fastest
    /// memory if that is faster: the thread pays the additional cost of its pages.
    #[inline]
    pub(super) fn pace(&mut self, timing: Timing, now_ns: u64, until_ns: u64) -> Pace {
        self.end_window(now_ns);
        let held_ns = if timing == Timing::Recorded { self.idle_ns[0].min(self.held_ns) } else { 0 };
        let lines = timing.lines() * self.sample_pages;
        let page_ns = (self.now_ns[0] - held_ns) * lines;
        let mut pace = Pace { now_ns, until_ns, page_ns, ..Pace::default() };
        for (slower_ns, ns) in pace.slower_ns.iter_mut().zip(&self.now_ns[1..self.nr_classes]) {
            *slower_ns = ns.wrapping_sub(self.now_ns[0]).wrapping_mul(lines);
        }
        pace
    }

    /// Adds the pages that a thread touched.
    #[inline]
    pub(super) fn count(&mut self, timing: Timing, hits: &Hits) {
        // This is so where all memory costs the same.
        if *hits == Hits::default() {
            return;
        }
        for (class, nr) in hits.iter().enumerate() {
            let lines = nr * timing.lines() * self.sample_pages;
            self.hits[class] += nr;
            self.lines[class] += lines;
            if let Some(load) = &mut self.load {
                load.used_bytes[class] += lines * LINE_BYTES;
            }
        }
    }

    /// Whether a thread's cost stays the same until it touches a page.
    #[inline]
    pub(super) const fn is_steady(&self) -> bool {
        self.load.is_none()
    }

    #[inline]
    fn end_window(&mut self, now_ns: u64) {
        if self.load.is_some() {
            self.end_loaded_window(now_ns);
        }
    }

    /// Latencies follow the load of the window that has ended; an idle window in between lets them fall back.
    fn end_loaded_window(&mut self, now_ns: u64) {
        let Some(load) = self.load.as_mut().filter(|load| now_ns >= load.window_ends_ns) else { return };
        let was_idle_since = now_ns - load.window_ends_ns >= WINDOW_NS;
        for class in 0..self.nr_classes {
            let used = if was_idle_since { 0 } else { load.used_bytes[class] };
            self.now_ns[class] = loaded_ns(self.idle_ns[class], used, load.window_bytes[class]);
        }
        load.used_bytes = [0; CLASSES_MAX];
        load.window_ends_ns = now_ns - now_ns % WINDOW_NS + WINDOW_NS;
    }
}

/// `idle_ns / (1 - min(used / most, 95 %))`, rounded down; `most` 0 is no limit.
fn loaded_ns(idle_ns: u64, used: u64, most: u64) -> u64 {
    let load_ppm = (u128::from(used) * 1_000_000).checked_div(u128::from(most)).unwrap_or(0);
    let load_ppm = u64::try_from(load_ppm).unwrap_or(u64::MAX).min(LOAD_MAX_PPM);
    idle_ns * 1_000_000 / (1_000_000 - load_ppm)
}

impl super::Machine {
    /// The results of each node; none on a machine with one.
    pub(super) fn node_outcomes(&self) -> Vec<NodeOutcome> {
        let memory = &self.memory;
        if memory.nodes.len() == 1 {
            return Vec::new();
        }
        let outcome = |(id, node): (NodeId, &Node)| {
            let [moved_in_pages, moved_out_pages] = memory.node_moves[id.index()];
            let accesses = memory.nodes.classes().and_then(|classes| {
                let class = classes.of_node(id);
                let is_alone = memory.nodes.ids().filter(|&other| classes.of_node(other) == class).count() == 1;
                is_alone.then(|| [&self.access.hits, &self.access.lines].map(|of| of[usize::from(class)]))
            });
            let moved_bytes = (moved_in_pages + moved_out_pages) * PAGE_BYTES;
            let counters = memory.node_counters[id.index()].iter().filter(|(_, n)| *n > 0);
            NodeOutcome {
                node: id.index(),
                tier: memory.tiers.tier(id),
                is_top_tier: memory.tiers.is_top(id),
                managed_pages: node.managed(),
                free_pages: node.free(),
                accesses: accesses.map(|[accesses, _]| accesses),
                moved_in_pages,
                moved_out_pages,
                traffic_bytes: accesses.map(|[_, lines]| lines * LINE_BYTES + moved_bytes),
                counters: counters.map(|(counter, n)| (counter.name(), n)).collect(),
            }
        };
        memory.nodes.iter().map(outcome).collect()
    }

    /// The clock of a thread of `program`.
    pub(super) fn pace(&mut self, program: usize, now: Instant, until: Instant) -> Pace {
        self.access.pace(self.programs[program].program.timing, now.ns(), until.ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{MemoryKind, NodeConfig, TieringConfig};
    use isotherm_units::Bytes;

    fn costs(loaded_latency: bool) -> AccessCosts {
        let nodes =
            [MemoryKind::Dram, MemoryKind::Cxl].map(|kind| NodeConfig::of_kind(kind, Bytes::from_mib(16))).to_vec();
        let tiering = TieringConfig { loaded_latency, ..TieringConfig::default() };
        let config = MachineConfig { nodes, tiering, ..MachineConfig::default() };
        let memory = isotherm_kernel::memory::Memory::assemble(&config.memory_setup()).unwrap();
        AccessCosts::new(&config, &memory.nodes)
    }

    #[test]
    fn recordings_pay_the_difference_to_the_fastest_memory() {
        let mut costs = costs(false);
        let of = |costs: &mut AccessCosts, timing| {
            let pace = costs.pace(timing, 5, 9);
            (pace.page_ns, pace.slower_ns[0])
        };
        assert_eq!(of(&mut costs, Timing::Modelled), (100, 150));
        assert_eq!(of(&mut costs, Timing::Recorded), (0, 150));
    }

    /// docs/spec/promotion.md#s6-3: `L = L0 / (1 - min(u, 0.95))`.
    #[test]
    fn latency_follows_the_load_of_the_window_before() {
        let table = [(0, 250), (12_500_000, 500), (22_500_000, 2500), (23_750_000, 5000), (99_000_000, 5000)];
        for (used, expected) in table {
            assert_eq!(loaded_ns(250, used, 25_000_000), expected, "{used} bytes of 25 MB in a millisecond");
        }
        assert_eq!(loaded_ns(100, u64::MAX, 0), 100, "no limit");
        let mut costs = costs(true);
        let slower = |costs: &mut AccessCosts, at| costs.pace(Timing::Modelled, at, at).slower_ns[0];
        assert_eq!(slower(&mut costs, 0), 150);
        costs.count(Timing::Modelled, &[0, 12_500_000 / 64, 0, 0]); // half of what it moves in a millisecond
        assert_eq!(slower(&mut costs, WINDOW_NS - 1), 150, "the window has not ended");
        assert_eq!(slower(&mut costs, WINDOW_NS), 399, "195 312 lines of 64 bytes: a hair below one half");
        assert_eq!(slower(&mut costs, 2 * WINDOW_NS), 150);
        costs.count(Timing::Modelled, &[0, 1 << 30, 0, 0]);
        assert_eq!(slower(&mut costs, 9 * WINDOW_NS), 150, "long ago");
    }
}
