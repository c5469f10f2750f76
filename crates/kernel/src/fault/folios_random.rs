//! Random sequences of calls, faults and reclaim on files with folios of several pages, under both policies that take them and by the rules
//! of both releases. All invariants are checked after each step.

use super::writeback::flush_old;
use super::{FaultState, advise};
use crate::cgroup::CgroupId;
use crate::memory::{CachePage, FileSystem, KernelRelease};
use crate::mmu::SpaceId;
use crate::reclaim::driver::Attempt;
use crate::reclaim::{PolicySettings, policy_by_name};
use crate::swap::device::DeviceKind;
use crate::testkit::{Testbed, setup};
use isotherm_units::access::{Advice, Channel, LayoutChange, Run, Sharing};
use isotherm_units::access::{FileKind, Mapping};
use isotherm_units::{Duration, PageRange};
use proptest::prelude::*;

/// Pages of each of two files.
const PAGES: u64 = 700;

#[derive(Clone, Debug)]
enum Step {
    Call { process: usize, page: u64, pages: u32, write: bool },
    Touch { process: usize, page: u64, write: bool },
    Advise { process: usize, start: u64, pages: u64, advice: Advice },
    Remap { process: usize, start: u64, pages: u64, private: bool },
    Reclaim { pages: u64 },
    Limit { pages: u64 },
    Pass { milliseconds: u64 },
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let process = 0usize..2;
    let page = prop_oneof![2 => 0u64..64, 2 => 0..2 * PAGES];
    let advice = prop::sample::select(vec![
        Advice::Sequential,
        Advice::Normal,
        Advice::DontNeed,
        Advice::WillNeed,
        Advice::Cold,
        Advice::PageOut,
    ]);
    prop_oneof![
        8 => (process.clone(), page.clone(), 1u32..200, prop::bool::weighted(0.3))
            .prop_map(|(process, page, pages, write)| Step::Call { process, page, pages, write }),
        16 => (process.clone(), page.clone(), prop::bool::weighted(0.3))
            .prop_map(|(process, page, write)| Step::Touch { process, page, write }),
        3 => (process.clone(), page.clone(), 1u64..300, advice)
            .prop_map(|(process, start, pages, advice)| Step::Advise { process, start, pages, advice }),
        1 => (process, page, 1u64..300, any::<bool>())
            .prop_map(|(process, start, pages, private)| Step::Remap { process, start, pages, private }),
        3 => (1u64..200).prop_map(|pages| Step::Reclaim { pages }),
        1 => (250u64..1200).prop_map(|pages| Step::Limit { pages }),
        3 => (0u64..40).prop_map(|milliseconds| Step::Pass { milliseconds }),
        1 => Just(Step::Flush),
    ]
}

struct World {
    bed: Testbed,
    spaces: Vec<SpaceId>,
}

impl World {
    fn new(policy: &str, release: KernelRelease, file_system: FileSystem) -> Self {
        let mut setup = setup(&[4096], DeviceKind::Zram, 4096);
        (setup.config.file_system, setup.config.release) = (Some(file_system), release);
        setup.config.readahead_pages = 64;
        let mut settings = PolicySettings::default();
        settings.mglru.baseline = Some(release.into());
        let policy = policy_by_name(policy).expect("in the table").build_with(&settings);
        let mut bed = Testbed::assemble(&setup, policy);
        bed.cgroup = bed.group(CgroupId::ROOT, "test");
        bed.limit(600);
        bed.memory.cgroups.charge_batch = 64;
        let spaces = [0, 1].map(|_| {
            let space = bed.process_of(bed.cgroup);
            for (name, at) in [("one", 0), ("two", PAGES)] {
                bed.map_file(space, name, at, PAGES, Sharing::Shared, FileKind::Regular);
            }
            space
        });
        Self { bed, spaces: spaces.to_vec() }
    }

    /// Dirty pages cannot go at once: the flusher makes room.
    fn make_room(&mut self) {
        self.bed.memory.wake_flusher();
        self.bed.settle();
    }

    fn play(&mut self, step: Step) {
        let bed = &mut self.bed;
        match step {
            Step::Call { process, page, pages, write } => {
                let most = u32::try_from(2 * PAGES - page).expect("few").min(pages);
                let run = if write { Run::write(page, most) } else { Run::read(page, most) };
                bed.state = FaultState::default();
                // The state of a call that met bad memory is of no use to the next.
                bed.call(self.spaces[process], run.through(Channel::FileDescriptor));
                self.make_room();
            }
            Step::Touch { process, page, write } => {
                let space = self.spaces[process];
                if write {
                    bed.write(space, page)
                } else {
                    bed.read(space, page)
                };
                self.make_room();
            }
            Step::Advise { process, start, pages, advice } => {
                let change = LayoutChange::Advise(PageRange::at(start, pages), advice);
                bed.change(self.spaces[process], change);
            }
            Step::Remap { process, start, pages, private } => {
                let range = PageRange::at(start, pages.min(2 * PAGES - start));
                bed.unmap(self.spaces[process], range);
                bed.check_lists();
                let sharing = if private { Sharing::Private } else { Sharing::Shared };
                let file = bed.memory.files.open("one", FileKind::Regular, PAGES).expect("few").index();
                let backing = isotherm_units::access::Backing::File { file, first_page: start % 100, sharing };
                bed.map(self.spaces[process], Mapping { backing, ..Mapping::anonymous(range) });
            }
            Step::Reclaim { pages } => {
                bed.run(Attempt::limit(bed.cgroup, pages));
            }
            Step::Limit { pages } => {
                bed.limit(pages);
                bed.memory.cgroups.charge_batch = 64;
                self.make_room();
                let bed = &mut self.bed;
                bed.run(Attempt::limit(bed.cgroup, 1));
            }
            Step::Pass { milliseconds } => {
                let until = bed.memory.now + Duration::from_ms(milliseconds);
                bed.pass_time(until);
            }
            Step::Flush => {
                let until = bed.memory.now + Duration::from_secs(40);
                bed.pass_time(until);
                flush_old(&mut bed.memory);
            }
        }
        self.bed.check_lists();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn no_folio_is_lost_or_counted_wrongly(
        policy in prop::sample::select(vec!["classic", "mglru"]),
        release in prop::sample::select(KernelRelease::ALL.to_vec()),
        file_system in prop::sample::select(vec![FileSystem::Ext4, FileSystem::Xfs]),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new(policy, release, file_system);
        for step in steps {
            world.play(step);
        }
    }
}

/// Only what a folio is large enough for is advised: a part of one stays as it is.
#[test]
fn advice_for_a_part_leaves_the_folio_alone() {
    for policy in ["classic", "mglru"] {
        let mut world = World::new(policy, KernelRelease::V7_2, FileSystem::Xfs);
        let file = world.bed.file("one", PAGES);
        let group = world.bed.cgroup;
        world.bed.cached_folio(group, file, 32, 4);
        let space = world.spaces[0];
        world.bed.read(space, 40);
        let nr_cached = |world: &World| world.bed.memory.files.get(file).nr_cached;
        let page_out = |world: &mut World, pages| {
            let Testbed { memory, policy, .. } = &mut world.bed;
            advise(memory, policy.as_mut(), space, pages, Advice::PageOut);
            world.bed.check_lists();
        };
        page_out(&mut world, PageRange::new(32, 47));
        assert_eq!(nr_cached(&world), 16, "{policy}");
        page_out(&mut world, PageRange::new(30, 50));
        assert_eq!(nr_cached(&world), 0, "{policy}");
        assert!(matches!(world.bed.memory.files.get(file).page(47), CachePage::Shadow(_)));
    }
}
