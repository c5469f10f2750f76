//! Random sequences of moves between nodes, demotion, reclaim, programs and failures: after each step every page is on exactly
//! one node, results say what happened, and the counters are their sums.

use super::stage::Stage;
use isotherm_core::host::{MoveOrder, NodeId as HostNode, PageMove, TargetId, Tiering};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::{FrameId, NodeId};
use isotherm_kernel::mmu::{Need, SpaceId};
use isotherm_kernel::reclaim::driver::Attempt;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{FileKind, Sharing};
use isotherm_units::{Duration, PageRange};
use proptest::prelude::*;

/// Pages that processes use: base pages, two huge blocks, a file.
const PAGES: u64 = 1700;

#[derive(Clone, Debug)]
enum Step {
    Touch {
        process: usize,
        page: u64,
        pages: u64,
        write: bool,
    },
    Move {
        process: usize,
        page: u64,
        pages: u64,
        apart: u64,
        to: u32,
        filter: bool,
        careful: bool,
        together: u32,
    },
    /// Failures to come: the page cannot be moved until it is let go.
    Pin {
        process: usize,
        page: u64,
    },
    LetGo,
    Demotion(bool),
    PromoWatermark(bool),
    Kswapd(u8),
    Direct(u8),
    Reclaim(u64),
    /// Takes free memory of a node away, or gives it all back.
    Hoard {
        node: u8,
        pages: u64,
    },
    Fork {
        process: usize,
    },
    Exit {
        process: usize,
    },
    Pass {
        us: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let process = 0usize..3;
    let page = prop_oneof![3 => 0u64..300, 2 => 512..PAGES, 1 => 0..PAGES];
    let moves = (process.clone(), page.clone(), 1u64..400, 1u64..4, 0u32..3, any::<bool>(), any::<bool>(), 1u32..600);
    prop_oneof![
        8 => (process.clone(), page.clone(), 1u64..300, any::<bool>())
            .prop_map(|(process, page, pages, write)| Step::Touch { process, page, pages, write }),
        10 => moves.prop_map(|(process, page, pages, apart, to, filter, careful, together)| {
            Step::Move { process, page, pages, apart, to, filter, careful, together }
        }),
        3 => (process.clone(), page).prop_map(|(process, page)| Step::Pin { process, page }),
        1 => Just(Step::LetGo),
        1 => any::<bool>().prop_map(Step::Demotion),
        1 => any::<bool>().prop_map(Step::PromoWatermark),
        2 => (0u8..3).prop_map(Step::Kswapd),
        2 => (0u8..3).prop_map(Step::Direct),
        2 => (1u64..200).prop_map(Step::Reclaim),
        2 => (0u8..3, 0u64..900).prop_map(|(node, pages)| Step::Hoard { node, pages }),
        1 => process.clone().prop_map(|process| Step::Fork { process }),
        1 => process.prop_map(|process| Step::Exit { process }),
        3 => (0u64..3000).prop_map(|us| Step::Pass { us }),
    ]
}

struct World {
    stage: Stage,
    alive: Vec<(SpaceId, u32)>,
    pinned: Vec<FrameId>,
}

impl World {
    fn new(policy: &str, swap: DeviceKind) -> Self {
        let mut world =
            Self { stage: Stage::with_nodes(policy, swap, &[2048, 1500, 2048]), alive: Vec::new(), pinned: Vec::new() };
        world.stage.memory.tiers.demotion = true;
        world.start();
        world
    }

    fn start(&mut self) {
        let (space, target) = self.stage.process(512);
        self.stage.map_huge(space, PageRange::at(512, 1024));
        self.stage.map_file(space, "data", 1600, 100, Sharing::Shared, FileKind::Regular);
        self.alive.push((space, target));
    }

    fn node(&self, node: u8) -> NodeId {
        self.stage.memory.nodes.ids().nth(usize::from(node)).expect("three nodes")
    }

    fn play(&mut self, step: Step) {
        let of = |process: usize, alive: &[(SpaceId, u32)]| alive[process % alive.len()];
        match step {
            Step::Touch { process, page, pages, write } => {
                let (space, _) = of(process, &self.alive);
                for page in page..page + pages {
                    // Where nothing can be swapped, more than half of memory is not used.
                    let has_room = self.stage.memory.slots.total() > 0 || self.stage.memory.nodes.nr_used() < 2500;
                    if has_room && self.stage.memory.space(space).vmas.find(page).is_some() {
                        self.stage.touch(space, page, if write { Need::Write } else { Need::Read });
                    }
                }
            }
            Step::Move { process, page, pages, apart, to, filter, careful, together } => {
                let (space, target) = of(process, &self.alive);
                let pages: Vec<u64> = (0..pages).map(|at| (page + at * apart) << 12).collect();
                let order = MoveOrder {
                    pages: &pages,
                    to: HostNode(to),
                    together,
                    keeps_high_watermark: filter,
                    only_active: false,
                    leaves_shared: careful,
                    only_promotes: careful,
                };
                self.carry_out(space, target, &order);
            }
            Step::Pin { process, page } => {
                let (space, _) = of(process, &self.alive);
                if let Some(frame) = self.stage.frame(space, page) {
                    self.stage.memory.frames.pin(frame);
                    self.pinned.push(frame);
                }
            }
            Step::LetGo => self.let_go(),
            Step::Demotion(wanted) => self.stage.memory.tiers.demotion = wanted,
            Step::PromoWatermark(wanted) => self.stage.memory.nodes.set_promo_watermark(wanted),
            Step::Kswapd(node) => drop(self.stage.bed.run(Attempt::kswapd(self.node(node)))),
            Step::Direct(node) => drop(self.stage.bed.run(Attempt::direct(self.node(node)))),
            Step::Reclaim(pages) => self.stage.reclaim(pages),
            Step::Hoard { node, pages } => {
                // Compressed swap hides free pages, of the first nodes first.
                let hidden = if node == 0 { 0 } else { pages };
                self.stage.memory.nodes.set_hidden(hidden);
            }
            Step::Fork { process } => {
                if self.alive.len() < 3 {
                    let (space, _) = of(process, &self.alive);
                    let child = self.stage.fork(space);
                    self.alive.push(child);
                }
            }
            Step::Exit { process } => {
                self.let_go();
                let (space, _) = self.alive.remove(process % self.alive.len());
                self.stage.exit(space);
                if self.alive.is_empty() {
                    self.start();
                }
            }
            Step::Pass { us } => {
                let until = self.stage.memory.now + Duration::from_us(us);
                self.stage.pass_time(until);
            }
        }
        self.check();
    }

    fn let_go(&mut self) {
        for frame in std::mem::take(&mut self.pinned) {
            self.stage.memory.frames.unpin(frame);
        }
    }

    /// Checks that results match the moves.
    fn carry_out(&mut self, space: SpaceId, target: u32, order: &MoveOrder<'_>) {
        let place = |stage: &Stage, address: u64| {
            let frame = stage.frame(space, address >> 12)?;
            Some((stage.memory.huge_page_of(frame).unwrap_or(frame), stage.memory.nodes.of(frame)))
        };
        let before: Vec<_> = order.pages.iter().map(|&address| place(&self.stage, address)).collect();
        let pinned: Vec<bool> =
            before.iter().map(|at| at.is_some_and(|(frame, _)| self.stage.memory.frames.is_pinned(frame))).collect();
        let counts = |stage: &Stage| {
            [Counter::PgPromoteSuccess, Counter::PgMigrateSuccess].map(|counter| stage.memory.counters.get(counter))
        };
        let was = counts(&self.stage);
        let mut results = vec![PageMove::NotPresent; order.pages.len()];
        self.stage.host().migrate(TargetId(target), order, &mut results).unwrap();
        let to = self.node(u8::try_from(order.to.0).unwrap());
        let (mut promoted, mut moved) = (0, 0);
        for (index, (&address, &result)) in order.pages.iter().zip(&results).enumerate() {
            let after = place(&self.stage, address);
            match (result, before[index]) {
                (PageMove::Moved(pages), Some((_, from))) => {
                    assert_eq!(after.map(|(_, node)| node), Some(to));
                    assert!(from != to && !pinned[index], "moved from {from:?} to {to:?}");
                    let tiers = &self.stage.memory.tiers;
                    promoted += if tiers.is_top(to) && !tiers.is_top(from) { u64::from(pages) } else { 0 };
                    moved += u64::from(pages);
                }
                (PageMove::NotPresent, None) => assert_eq!(after, None),
                // A huge page whose other part went before, in another batch.
                (PageMove::SameNode, Some(_)) => assert_eq!(after.map(|(_, node)| node), Some(to)),
                (PageMove::Busy, Some((first, _))) => {
                    let is_again = before[..index].iter().any(|at| at.is_some_and(|(frame, _)| frame == first));
                    assert!(is_again || after == before[index], "busy, and moved by nobody");
                }
                (PageMove::Moved(_), None) => panic!("{address:#x} was not there"),
                (_, at) => assert_eq!(after, at, "{result:?} leaves a page alone"),
            }
        }
        assert_eq!(counts(&self.stage), [was[0] + promoted, was[1] + moved]);
    }

    fn check(&self) {
        self.stage.check();
        let memory = &self.stage.memory;
        let count = |counter: Counter| memory.counters.get(counter);
        let demoted = [Counter::PgDemoteKswapd, Counter::PgDemoteDirect, Counter::PgDemoteProactive].map(count);
        assert!(demoted.iter().sum::<u64>() <= count(Counter::PgMigrateSuccess), "each demotion is a migration");
        let stolen = [Counter::PgStealKswapd, Counter::PgStealDirect, Counter::PgStealProactive].map(count);
        assert!(demoted.iter().zip(stolen).all(|(demoted, stolen)| *demoted <= stolen), "and counts as reclaimed");
    }

    fn end(mut self) {
        self.let_go();
        self.stage.memory.nodes.set_hidden(0);
        for (space, _) in std::mem::take(&mut self.alive) {
            self.stage.exit(space);
        }
        self.stage.settle();
        self.check();
        let memory = &self.stage.memory;
        let nr_cached: u64 = memory.files.iter().map(|(_, file)| file.nr_cached).sum();
        assert_eq!(memory.nodes.nr_used(), nr_cached, "only files keep pages");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn every_page_is_on_one_node_whatever_fails(
        policy in prop::sample::select(vec!["classic", "mglru"]),
        swap in prop::sample::select(vec![DeviceKind::None, DeviceKind::Nvme]),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut world = World::new(policy, swap);
        for step in steps {
            world.play(step);
        }
        world.end();
    }
}
