//! The cost of taking free memory and giving it back: single pages, from the lists at hand and from the buddy allocator, and
//! blocks of 2 MiB, in zones of 1 and of 100 GiB.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. All of a zone is taken, three pages in four are given back in
//! no order, and then pages in use are exchanged at random: one is given back, one is taken. Without `--bench` it runs small and
//! only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::time::Instant as Clock;

use isotherm_kernel::memory::buddy::{BLOCK_ORDER, Buddy, Fallback, MigrateType, Search};
use isotherm_kernel::memory::watermarks::{WatermarkConfig, Watermarks, ZoneSize};
use isotherm_kernel::memory::{FrameId, Frames, Mark, NodeId, NodeSetup, Nodes};
use isotherm_units::Pages;
use isotherm_units::random::Random;

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let (gib_pages, exchanges, rounds) = if measuring { (1 << 18, 1 << 18, 8) } else { (1 << 11, 1 << 8, 1) };
    for (name, make, order) in ROWS {
        let mut first = None;
        for gib in [1_u32, 100] {
            let pages = if measuring { gib * gib_pages } else { (gib * gib_pages).min(1 << 14) };
            let ns = measure(make(pages), order, pages, exchanges, rounds);
            report(&format!("take and give, {name}, {gib} GiB"), "ns/pair", ns);
            let growth = ns / *first.get_or_insert(ns);
            if gib == 100 {
                report(&format!("take and give, {name}, growth to 100 GiB"), "times", growth);
            }
        }
    }
}

/// Memory of this number of pages.
type Make = fn(u32) -> Box<dyn Memory>;

/// Name, how to make the memory, order of blocks.
const ROWS: [(&str, Make, u32); 3] = [
    ("pages at hand", |pages| Box::new(AtHand::new(pages)), 0),
    ("order 0", |pages| Box::new(Plain::new(pages)), 0),
    ("order 9", |pages| Box::new(Plain::new(pages)), BLOCK_ORDER),
];

trait Memory {
    fn take(&mut self, order: u32) -> Option<FrameId>;
    fn give(&mut self, frame: FrameId, order: u32);
}

struct Plain {
    frames: Frames,
    buddy: Buddy,
}

impl Plain {
    fn new(pages: u32) -> Self {
        let mut frames = Frames::new(pages as usize);
        Self { buddy: Buddy::new(&mut frames, 0, pages), frames }
    }
}

impl Memory for Plain {
    fn take(&mut self, order: u32) -> Option<FrameId> {
        self.buddy.allocate(&mut self.frames, order, MigrateType::Movable, Fallback::Any, &mut Search::default())
    }
    fn give(&mut self, frame: FrameId, order: u32) {
        self.buddy.free(&mut self.frames, frame, order);
    }
}

struct AtHand {
    frames: Frames,
    nodes: Nodes,
}

impl AtHand {
    fn new(pages: u32) -> Self {
        let mut frames = Frames::new(pages as usize);
        let managed = Pages::new(u64::from(pages));
        let marks = Watermarks::new(&WatermarkConfig::default(), &[vec![ZoneSize { managed, movable: false }]]);
        Self { nodes: Nodes::new(&mut frames, &[NodeSetup::new(vec![managed], 100)], &marks), frames }
    }
}

impl Memory for AtHand {
    fn take(&mut self, _: u32) -> Option<FrameId> {
        self.nodes.take(&mut self.frames, NodeId::default(), Mark::Nothing)
    }
    fn give(&mut self, frame: FrameId, _: u32) {
        self.nodes.give(&mut self.frames, frame);
    }
}

/// Nanoseconds for a block given back and one taken, the best round.
fn measure(mut memory: Box<dyn Memory>, order: u32, pages: u32, exchanges: u32, rounds: u32) -> f64 {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut used: Vec<FrameId> = std::iter::from_fn(|| memory.take(order)).collect();
    assert_eq!(used.len(), (pages >> order) as usize, "all of it");
    for at in (1..used.len()).rev() {
        used.swap(at, usize::try_from(random.below(at as u64 + 1)).expect("below a length"));
    }
    let kept = used.len() / 4;
    used.drain(kept..).for_each(|frame| memory.give(frame, order));
    let mut best = f64::INFINITY;
    let mut at = 0;
    for _ in 0..rounds {
        let start = Clock::now();
        // Memory in use lies in random order: taking it in turn is a random choice.
        for _ in 0..exchanges {
            let place = at % kept;
            at += 1;
            memory.give(used[place], order);
            used[place] = memory.take(order).expect("one was given back");
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(exchanges));
    }
    best
}

fn report(name: &str, unit: &str, value: f64) {
    println!(r#"{{"name": "{name}", "unit": "{unit}", "bar": null, "value": {value:.3}, "pass": true}}"#);
}
