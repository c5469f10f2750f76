//! Random sequences of actions of schemes, programs and reclaim, under every policy and swap device: all invariants hold after each step,
//! and in the end only pages and slots of files are left.

use super::stage::{FRAMES, PHYSICAL, Stage};
use isotherm_core::host::{Action, AddressRange, Gauge, Gauging, HostError, NodeId, PageFilter, PageFilters, PageTest};
use isotherm_core::schemes::ACTIONS;
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::mmu::{Need, SpaceId};
use isotherm_kernel::reclaim::POLICIES;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{FileKind, Sharing};
use isotherm_units::{Duration, PageRange};
use proptest::prelude::*;

/// Pages that processes use: base pages, two huge blocks, a file, shared memory.
const PAGES: u64 = 1900;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Touch { process: usize, page: u64, write: bool },
    Act { target: u32, action: Action, start: u64, pages: u64, filters: Vec<(PageTest, bool, bool)> },
    Reclaim { pages: u64 },
    Limit { pages: u64 },
    Fork { process: usize },
    Exit { process: usize },
    Pass { us: u64 },
    Settle,
}

fn filter() -> impl Strategy<Value = (PageTest, bool, bool)> {
    let test = prop_oneof![
        Just(PageTest::Anon),
        Just(PageTest::Active),
        Just(PageTest::Memcg(Some(1))),
        Just(PageTest::Young),
        Just(PageTest::FolioBytes { min: 8192, max: u64::MAX }),
        Just(PageTest::Unmapped),
    ];
    (test, any::<bool>(), any::<bool>())
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let process = 0usize..4;
    let page = prop_oneof![3 => 0u64..60, 2 => 1500..PAGES, 1 => 0..PAGES];
    let actions = ACTIONS.iter().map(|entry| entry.action).collect::<Vec<_>>();
    let acts =
        (0u32..6, prop::sample::select(actions), page.clone(), 1u64..1200, prop::collection::vec(filter(), 0..3));
    prop_oneof![
        12 => (process.clone(), page, any::<bool>()).prop_map(|(process, page, write)| Step::Touch { process, page, write }),
        8 => acts.prop_map(|(target, action, start, pages, filters)| Step::Act { target, action, start, pages, filters }),
        1 => (1u64..200).prop_map(|pages| Step::Reclaim { pages }),
        1 => (300u64..2000).prop_map(|pages| Step::Limit { pages }),
        1 => process.clone().prop_map(|process| Step::Fork { process }),
        1 => process.prop_map(|process| Step::Exit { process }),
        3 => (0u64..3000).prop_map(|us| Step::Pass { us }),
        1 => Just(Step::Settle),
    ]
}

pub(super) struct World {
    pub(super) stage: Stage,
    alive: Vec<SpaceId>,
    has_swap: bool,
}

impl World {
    pub(super) fn new(policy: &str, swap: DeviceKind) -> Self {
        let mut stage = Stage::with_nodes(policy, swap, &[FRAMES / 2, FRAMES / 2]);
        stage.target_nid = Some(NodeId(1));
        let mut world = Self { stage, alive: Vec::new(), has_swap: swap != DeviceKind::None };
        world.start();
        world
    }

    fn start(&mut self) {
        let (space, _) = self.stage.process(512);
        self.stage.map_huge(space, PageRange::at(512, 1024));
        self.stage.map_file(space, "data", 1600, 100, Sharing::Shared, FileKind::Regular);
        self.stage.map_file(space, "shared", 1750, 100, Sharing::Shared, FileKind::SharedMemory);
        self.alive.push(space);
    }

    fn pick(&self, process: usize) -> SpaceId {
        self.alive[process % self.alive.len()]
    }

    pub(super) fn play(&mut self, step: Step) {
        match step {
            Step::Touch { process, page, write } => {
                let space = self.pick(process);
                let usage = self.stage.memory.cgroups.get(self.stage.cgroup).usage;
                let is_mapped = self.stage.memory.space(space).vmas.find(page).is_some();
                // Without swap, little can be given back.
                if is_mapped && (self.has_swap || usage < 1500) {
                    let need = if write { Need::Write } else { Need::Read };
                    self.stage.touch(space, page, need);
                }
            }
            Step::Act { target, action, start, pages, filters } => self.act(target, action, start, pages, filters),
            Step::Reclaim { pages } => self.stage.reclaim(pages),
            Step::Limit { pages } => self.stage.limit(if self.has_swap { pages } else { 4000 }),
            Step::Fork { process } => {
                if self.alive.len() < 4 {
                    let (child, _) = self.stage.fork(self.pick(process));
                    self.alive.push(child);
                }
            }
            Step::Exit { process } => {
                let space = self.alive.remove(process % self.alive.len());
                self.stage.exit(space);
                if self.alive.is_empty() {
                    self.start();
                }
            }
            Step::Pass { us } => {
                let until = self.stage.memory.now + Duration::from_us(us);
                self.stage.pass_time(until);
            }
            Step::Settle => self.stage.settle(),
        }
        self.stage.check();
    }

    fn act(&mut self, target: u32, action: Action, start: u64, pages: u64, filters: Vec<(PageTest, bool, bool)>) {
        let filters: Vec<PageFilter> =
            filters.into_iter().map(|(test, matching, allow)| PageFilter { test, matching, allow }).collect();
        let rejects = filters.last().is_some_and(|filter| filter.allow);
        let mut filter = PageFilters::new(filters, rejects);
        let range = PageRange::at(start, pages);
        let offers = self.stage.offers(target);
        self.check_counts();
        let nr_used = self.stage.memory.nodes.nr_used();
        let result = self.stage.order(target, action, range, &mut filter, &mut None);
        match result {
            Ok(applied) => {
                assert!(offers.actions.contains(&action), "{action} is done, but not told");
                // A huge page that is partly in the range moves as a whole.
                let reach = if action.migrates() { (2 * 511) << 12 } else { 0 };
                assert!(applied.bytes <= (range.len() << 12) + reach, "{action}: {} bytes of {range:?}", applied.bytes);
                let is_physical = target == PHYSICAL;
                assert!(
                    !is_physical || action.migrates() || applied.bytes <= filter.passed_bytes(),
                    "{action}: more than passed"
                );
                if is_physical && action == Action::Pageout {
                    let freed = nr_used - self.stage.memory.nodes.nr_used();
                    assert_eq!(freed << 12, applied.bytes, "freed is what is gone");
                }
                assert!(action != Action::Stat || applied.bytes == 0);
            }
            Err(HostError::NotHere(_)) => assert!(!offers.actions.contains(&action), "{action} is told, but not done"),
            Err(error) => assert!(matches!(error, HostError::Gone(_) | HostError::Failed(_)), "{action}: {error}"),
        }
    }

    /// Pages on lists, counted frame by frame, are the pages that a goal sees for the root group.
    fn check_counts(&mut self) {
        let all = AddressRange::new(0, u64::MAX);
        let by_node = self.stage.node_bytes(PHYSICAL, &[all]).unwrap();
        for (node, bytes) in by_node {
            let gauge = Gauge::MemcgBytes { node: NodeId(node), memcg: CgroupId::ROOT.index() as u64 };
            assert_eq!(self.stage.gauge(gauge), Ok(Some(bytes)), "node {node}");
        }
    }

    fn end(mut self) {
        for space in std::mem::take(&mut self.alive) {
            self.stage.exit(space);
        }
        self.stage.settle();
        self.stage.check();
        let memory = &self.stage.memory;
        let nr_cached: u64 = memory.files.iter().map(|(_, file)| file.nr_cached).sum();
        let slots = &memory.slots;
        let nr_swap_cached = slots.used_slots().filter(|&slot| slots.cached(slot).is_some()).count() as u64;
        assert_eq!(memory.nodes.nr_used(), nr_cached + nr_swap_cached, "only files keep pages");
        assert!(self.stage.host().memcg("/app").is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn no_action_loses_a_page(
        policy in prop::sample::select(POLICIES.iter().map(|entry| entry.name).collect::<Vec<_>>()),
        swap in prop::sample::select(DeviceKind::ALL.to_vec()),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(policy, swap);
        for step in steps {
            world.play(step);
        }
        world.end();
    }
}
