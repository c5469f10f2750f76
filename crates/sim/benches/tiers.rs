//! The cost of tiers for the simulator: scans of accessed bits, moves, and how both grow.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. Times are those of the program that simulates, not simulated
//! ones. Without `--bench` it runs small and only checks that it works.

mod setup;

use std::time::Instant as Clock;

use isotherm_core::host::{MoveOrder, NodeId as HostNode, PageMove, TargetId, Tiering};
use isotherm_core::promotion::{Mode, Promotion, PromotionConfig, Thread};
use isotherm_kernel::fault::{self, FaultOutcome, FaultState};
use isotherm_kernel::memory::{Memory, NodeSetup};
use isotherm_kernel::mmu::{Need, SpaceId};
use isotherm_kernel::pressure::Pressure;
use isotherm_kernel::reclaim::{ReclaimPolicy, policy_by_name};
use isotherm_kernel::tick::TickRate;
use isotherm_sim::host::{HostTarget, MemoryHost, ProbeCounts};
use isotherm_units::{Instant, Pages};

const GIB: u64 = 1 << 18;

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let pages = if measuring { 8 * GIB } else { 1 << 12 };

    let mut world = World::new(pages, pages, 1);
    let (first, seen) = world.scan();
    assert!(seen >= pages, "{seen} of {pages} pages shown");
    report("first scan, all pages", "ms per GiB", None, per_gib(first, pages));
    let (second, _) = world.scan();
    report("scan, no page used", "ms per GiB", None, per_gib(second, pages));
    for together in [1, 512] {
        let ns = world.migrate(together, pages / 4);
        let name = format!("moving a page, {together} together");
        report(&name, "ns per page", None, ns);
    }

    // The same 8 GiB of pages in ever more address space: 2 MiB of each GiB and more.
    let mut least = None;
    for (name, spread) in [("8 GiB", 1), ("64 GiB", 8), ("1 TiB", 128)] {
        let touched = pages / 8;
        let mut world = World::new(touched, touched * spread, spread);
        world.scan();
        let (ms, _) = world.scan();
        let ms = per_gib(ms, touched);
        report(&format!("scan of a space of {name}, 1 GiB of it used"), "ms per GiB used", None, ms);
        let growth = ms / *least.get_or_insert(ms);
        if spread == 128 {
            report("scan, growth from 8 GiB to 1 TiB of space", "times", measuring.then_some(8.0), growth);
        }
    }
}

fn per_gib(ms: f64, pages: u64) -> f64 {
    ms * GIB as f64 / pages as f64
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    setup::report(&format!("tiers, {name}"), unit, bar, value);
}

/// A process whose pages are on the slow node.
struct World {
    memory: Memory,
    policy: Box<dyn ReclaimPolicy>,
    pressure: Pressure,
    targets: Vec<HostTarget>,
    space: SpaceId,
    /// Where its pages are: `touched` of them, 512 in a row, the rows `apart`.
    pages: Vec<u64>,
    promotion: Promotion,
}

impl World {
    /// `touched` pages in a space of `mapped` pages: one row of 512 in `spread`.
    fn new(touched: u64, mapped: u64, spread: u64) -> Self {
        let zone = |pages: u64| vec![Pages::new(pages + pages / 8 + 4096)];
        let nodes = vec![NodeSetup::new(zone(touched), 100), NodeSetup::slow(zone(touched), 250)];
        let mut policy = policy_by_name("classic").expect("in the table").build();
        let (mut memory, space) = setup::assemble(&setup::memory_setup(nodes), policy.as_mut(), mapped);
        let slow = memory.nodes.ids().last().expect("two nodes");
        let mut state = FaultState::bound_to(slow);
        let pages: Vec<u64> = (0..touched).map(|page| page / 512 * 512 * spread + page % 512).collect();
        for &page in &pages {
            let outcome = fault::fault(&mut memory, policy.as_mut(), space, page, Need::Write, &mut state);
            assert_eq!(outcome, FaultOutcome::Done);
        }
        let pressure = Pressure::new(Instant::START, 1, TickRate::default());
        let targets = vec![HostTarget::Space(space)];
        let mut counts = ProbeCounts::default();
        let host = MemoryHost::new(&mut memory, policy.as_mut(), &pressure, &mut [], &targets, &mut counts);
        // One mapping: a scan of this mode walks all of it.
        let config = PromotionConfig { split_thp_on_scan: Some(false), ..PromotionConfig::of_mode(Mode::V3) };
        let mut promotion = Promotion::new(config, 1, &host).expect("two tiers");
        promotion.enter(TargetId(0), None, Instant::START).expect("once");
        Self { memory, policy, pressure, targets, space, pages, promotion }
    }

    /// Milliseconds of the daemon's next scan that reads pages, and the number of pages it was shown. After a scan that reached
    /// its budget with the last mapping comes one that reads none (docs/spec/promotion.md#s1-5). What it would move stays.
    fn scan(&mut self) -> (f64, u64) {
        (0..3).map(|_| self.next_scan()).find(|(_, seen)| *seen > 0).expect("one of two in a row looks at pages")
    }

    fn next_scan(&mut self) -> (f64, u64) {
        let before = self.promotion.counters().scanned;
        let mut counts = ProbeCounts::default();
        let mut at = self.promotion.poll_timeout(Thread::Scan).expect("there is a space");
        let mut host = MemoryHost::new(
            &mut self.memory,
            self.policy.as_mut(),
            &self.pressure,
            &mut [],
            &self.targets,
            &mut counts,
        );
        let begun = Clock::now();
        loop {
            if self.promotion.handle_timeout(Thread::Scan, at, &mut host).scan.is_some() {
                break;
            }
            at = self.promotion.poll_timeout(Thread::Scan).expect("in a scan").max(at);
        }
        let ms = begun.elapsed().as_secs_f64() * 1000.0;
        (ms, self.promotion.counters().scanned - before)
    }

    /// Nanoseconds to move a page to the fast node, over this number of pages; then they go back.
    fn migrate(&mut self, together: u32, nr_pages: u64) -> f64 {
        let nr_pages = usize::try_from(nr_pages).expect("fits");
        let addresses: Vec<u64> = self.pages[..nr_pages].iter().map(|page| page << 12).collect();
        let mut counts = ProbeCounts::default();
        let mut ns = 0.0;
        for to in [0, 1] {
            let mut host = MemoryHost::new(
                &mut self.memory,
                self.policy.as_mut(),
                &self.pressure,
                &mut [],
                &self.targets,
                &mut counts,
            );
            let begun = Clock::now();
            for pages in addresses.chunks(512) {
                let mut results = vec![PageMove::NotPresent; pages.len()];
                let order = MoveOrder {
                    pages,
                    to: HostNode(to),
                    together,
                    keeps_high_watermark: to == 0,
                    only_active: false,
                    leaves_shared: true,
                    only_promotes: false,
                };
                host.migrate(TargetId(0), &order, &mut results).expect("a process that lives");
                assert!(results.iter().all(|result| matches!(result, PageMove::Moved(1))), "{results:?}");
            }
            if to == 0 {
                ns = begun.elapsed().as_nanos() as f64 / nr_pages as f64;
            }
            // Pages in flight have arrived.
            let spent = self.memory.ledger.take();
            self.memory.now = Instant::from_ns(self.memory.now.ns() + spent);
        }
        assert!(self.memory.space(self.space).nr_resident >= nr_pages as u64);
        ns
    }
}
