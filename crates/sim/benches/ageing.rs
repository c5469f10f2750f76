//! The cost of ageing pages under the Multi-Gen LRU: a walk over the page tables of a process.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. A process maps memory and faults it in; then generations are
//! made with the command that user space has for it, and timed. Without `--bench` it runs small and only checks that it works.

mod setup;

use std::time::Instant as Clock;

use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::fault::{self, FaultOutcome, FaultState};
use isotherm_kernel::memory::watermarks::WatermarkConfig;
use isotherm_kernel::memory::{Memory, NodeId, NodeSetup};
use isotherm_kernel::mmu::{Need, SpaceId};
use isotherm_kernel::reclaim::mglru::{Action, Command};
use isotherm_kernel::reclaim::{Mglru, ReclaimPolicy};
use isotherm_kernel::swap::device::{DeviceKind, DeviceModel};
use isotherm_units::Pages;

/// In which order the pages got their frames.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frames {
    /// Of their addresses.
    InOrder,
    /// No order: as after long use.
    Scattered,
}

/// Pages touched since the walk before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touched {
    /// Every page.
    All,
    /// One page of this number, scattered.
    OneOf(u64),
    /// No page.
    None,
}

/// Name, frames, touched pages, whether the walk may go by what it knows, and the bar in ms for a million pages.
const ROWS: [(&str, Frames, Touched, bool, Option<f64>); 6] = [
    ("no page young", Frames::Scattered, Touched::None, false, Some(0.2)),
    ("1 of 100 young", Frames::Scattered, Touched::OneOf(100), false, Some(0.2)),
    ("1 of 10 young", Frames::Scattered, Touched::OneOf(10), false, None),
    ("all young, frames in order", Frames::InOrder, Touched::All, false, Some(0.2)),
    ("all young, frames scattered", Frames::Scattered, Touched::All, false, None),
    ("1 of 100 young, tables not worth it passed over", Frames::Scattered, Touched::OneOf(100), true, Some(0.2)),
];

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let (pages, rounds) = if measuring { (1 << 20, 8) } else { (1 << 12, 1) };
    for (name, frames, touched, heuristic, bar) in ROWS {
        let best =
            (0..rounds).map(|round| measure(pages, frames, touched, heuristic, round)).fold(f64::INFINITY, f64::min);
        setup::report(&format!("ageing walk, {name}"), "ms per 1 M pages", bar.filter(|_| measuring), best);
    }
}

/// Milliseconds that one walk takes for each 2^20 pages.
fn measure(pages: u64, frames: Frames, touched: Touched, heuristic: bool, round: u64) -> f64 {
    let (mut memory, mut policy, space) = filled(pages, frames);
    let table = &mut memory.space_mut(space).table;
    for page in 0..pages {
        let dense = table.dense(page).expect("mapped");
        table.test_and_clear_young(dense);
    }
    let amount = Some(u64::from(!heuristic));
    // The first walk scans everything, since the process is new to it; the second one counts. Generations that either makes
    // room for are empty, so that no page is moved from list to list.
    touch(&mut memory, space, pages, touched, round);
    age(&mut memory, &mut policy, amount);
    touch(&mut memory, space, pages, touched, round + 1);
    memory.space_mut(space).used = u64::MAX;
    let begun = Clock::now();
    age(&mut memory, &mut policy, amount);
    let ms = begun.elapsed().as_secs_f64() * 1000.0;
    policy.check(&memory).expect("lists and counts agree");
    ms * f64::from(1 << 20) / pages as f64
}

fn age(memory: &mut Memory, policy: &mut Mglru, amount: Option<u64>) {
    let seq = policy.rows(memory, memory.lruvec(CgroupId::ROOT, NodeId::default())).last().expect("generations").seq;
    let command = Command { action: Action::Age, group: 0, node: 0, seq, swappiness: Some(60), amount };
    policy.carry_out(memory, command).expect("a generation that there is");
}

fn filled(pages: u64, frames: Frames) -> (Memory, Mglru, SpaceId) {
    let mut setup = setup::memory_setup(vec![NodeSetup::new(vec![Pages::new(pages + 64)], 80)]);
    setup.watermarks = WatermarkConfig { scale_factor: 0, min_free_kib: Some(0), ..WatermarkConfig::default() };
    setup.swap = (DeviceModel::preset(DeviceKind::Zram, &setup.costs), Pages::new(pages));
    let mut policy = Mglru::new();
    let (mut memory, space) = setup::assemble(&setup, &mut policy, pages);
    let mut state = FaultState::default();
    for index in 0..pages {
        let page = if frames == Frames::InOrder { index } else { index * 0x9e37_79b1 % pages };
        let outcome = fault::fault(&mut memory, &mut policy, space, page, Need::Write, &mut state);
        assert_eq!(outcome, FaultOutcome::Done);
    }
    policy.insert_waiting(&mut memory);
    (memory, policy, space)
}

fn touch(memory: &mut Memory, space: SpaceId, pages: u64, touched: Touched, round: u64) {
    let table = &mut memory.space_mut(space).table;
    let apart = match touched {
        Touched::None => return,
        Touched::All => 1,
        Touched::OneOf(pages) => pages,
    };
    for index in 0..pages / apart {
        let page = index * apart + (index.wrapping_mul(0x9e37_79b9) + round) % apart;
        let dense = table.dense(page).expect("mapped");
        table.mark_touched(dense, Need::Read);
    }
}
