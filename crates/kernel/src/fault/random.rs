//! Random sequences of everything a process can do, under every kind of swap device. [`Rig`] checks all invariants after
//! each step; in the end only the pages and slots of files may be left.

use super::writeback::flush_old;
use crate::memory::{FrameId, Mark, NodeId};
use crate::migrate::MigrateMode;
use crate::mmu::{Entry, SpaceId};
use crate::swap::device::DeviceKind;
use crate::testkit::Rig;
use isotherm_units::access::{Advice, Backing, Channel, FileKind, LayoutChange, Mapping, Run, Sharing};
use isotherm_units::{Duration, PageRange};
use proptest::prelude::*;

/// One step; numbers are taken modulo the number of objects.
#[derive(Clone, Debug)]
enum Step {
    Touch {
        process: usize,
        page: u64,
        write: bool,
    },
    Call {
        process: usize,
        page: u64,
        pages: u32,
        write: bool,
    },
    Reclaim {
        pages: u64,
    },
    Fork {
        process: usize,
    },
    Exit {
        process: usize,
    },
    Unmap {
        process: usize,
        start: u64,
        pages: u64,
    },
    Map {
        process: usize,
        start: u64,
        pages: u64,
        kind: usize,
    },
    Advise {
        process: usize,
        start: u64,
        pages: u64,
        advice: Advice,
    },
    /// Moves pages of a process to other frames, after one page was pinned.
    Migrate {
        process: usize,
        start: u64,
        pages: u64,
        pinned: Option<u64>,
        mode: MigrateMode,
    },
    Pass {
        milliseconds: u64,
    },
    Flush,
}

/// Page ranges that processes use: dense enough to collide, more than one huge block wide.
const PAGES: u64 = 1600;

fn step() -> impl Strategy<Value = Step> {
    let process = 0usize..4;
    let advice = prop::sample::select(vec![
        Advice::Normal,
        Advice::Random,
        Advice::Sequential,
        Advice::DontNeed,
        Advice::Free,
        Advice::WillNeed,
        Advice::Cold,
        Advice::PageOut,
    ]);
    let mode = prop::sample::select(vec![MigrateMode::Async, MigrateMode::SyncLight, MigrateMode::Sync]);
    // Most touches go to few pages, so that they meet what others left there.
    let page = prop_oneof![3 => 0u64..40, 1 => 0..PAGES];
    prop_oneof![
        20 => (process.clone(), page.clone(), any::<bool>())
            .prop_map(|(process, page, write)| Step::Touch { process, page, write }),
        4 => (process.clone(), page.clone(), 1u32..12, any::<bool>())
            .prop_map(|(process, page, pages, write)| Step::Call { process, page, pages, write }),
        5 => (1u64..60).prop_map(|pages| Step::Reclaim { pages }),
        1 => process.clone().prop_map(|process| Step::Fork { process }),
        1 => process.clone().prop_map(|process| Step::Exit { process }),
        1 => (process.clone(), page.clone(), 1u64..600)
            .prop_map(|(process, start, pages)| Step::Unmap { process, start, pages }),
        3 => (process.clone(), page.clone(), 1u64..1100, 0usize..7)
            .prop_map(|(process, start, pages, kind)| Step::Map { process, start, pages, kind }),
        3 => (process.clone(), page.clone(), 1u64..600, advice)
            .prop_map(|(process, start, pages, advice)| Step::Advise { process, start, pages, advice }),
        4 => (process, page, 1u64..100, prop::option::of(0u64..100), mode)
            .prop_map(|(process, start, pages, pinned, mode)| Step::Migrate { process, start, pages, pinned, mode }),
        3 => (0u64..40).prop_map(|milliseconds| Step::Pass { milliseconds }),
        1 => Just(Step::Flush),
    ]
}

/// A mapping of one of the kinds there are. Two files of each kind are mapped again and again.
fn mapping(rig: &mut Rig, pages: PageRange, kind: usize) -> Mapping {
    let (name, file_kind) = if kind < 5 { ("data", FileKind::Regular) } else { ("shm", FileKind::SharedMemory) };
    let file = rig.memory.files.open(name, file_kind, PAGES).unwrap().index();
    let sharing = if kind.is_multiple_of(2) { Sharing::Private } else { Sharing::Shared };
    let backing =
        if kind < 2 { Backing::Anonymous } else { Backing::File { file, first_page: pages.start % 16, sharing } };
    Mapping { pages, backing, executable: kind == 4, huge: kind == 1 }
}

struct World {
    rig: Rig,
    alive: Vec<SpaceId>,
}

impl World {
    fn new(device: DeviceKind, limit: u64) -> Self {
        let slots = if device == DeviceKind::None { 0 } else { 300 };
        let mut rig = Rig::with(device, slots, |_| {});
        rig.limit(limit);
        rig.memory.cgroups.charge_batch = 64;
        let mut world = Self { rig, alive: Vec::new() };
        world.start();
        world
    }

    fn start(&mut self) {
        let space = self.rig.space();
        for kind in 0..7 {
            let pages = PageRange::at(kind * 230, 200);
            let mapping = mapping(&mut self.rig, pages, usize::try_from(kind).unwrap());
            self.rig.map(space, mapping);
        }
        self.alive.push(space);
    }

    fn pick(&self, process: usize) -> SpaceId {
        self.alive[process % self.alive.len()]
    }

    /// Pages that a machine without swap cannot reclaim: keep well below the limit.
    fn has_room(&mut self) -> bool {
        let room = self.rig.memory.cgroups.get(self.rig.cgroup).max.pages().unwrap();
        if self.rig.usage() + 80 < room {
            return true;
        }
        self.rig.memory.wake_flusher();
        self.rig.settle();
        self.rig.reclaim(200);
        self.rig.settle();
        self.rig.reclaim(200);
        self.rig.memory.cgroups.drain_stock(self.rig.cgroup);
        self.rig.usage() + 80 < room
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Touch { process, page, write } => {
                let space = self.pick(process);
                if self.has_room() {
                    if write {
                        self.rig.write(space, page)
                    } else {
                        self.rig.read(space, page)
                    };
                }
            }
            Step::Call { process, page, pages, write } => {
                let space = self.pick(process);
                let run = if write { Run::write(page, pages) } else { Run::read(page, pages) };
                if self.has_room() {
                    self.rig.state = super::FaultState::default();
                    self.rig.call(space, run.through(Channel::FileDescriptor));
                }
            }
            Step::Reclaim { pages } => {
                self.rig.reclaim(pages);
            }
            Step::Fork { process } if self.alive.len() < 6 => {
                let child = self.rig.fork(self.pick(process));
                self.alive.push(child);
            }
            Step::Exit { process } => {
                let space = self.alive.remove(process % self.alive.len());
                self.rig.exit(space);
                if self.alive.is_empty() {
                    self.start();
                }
            }
            Step::Fork { .. } => {}
            Step::Unmap { process, start, pages } => {
                let space = self.pick(process);
                self.rig.change(space, LayoutChange::Unmap(PageRange::at(start, pages)));
            }
            Step::Map { process, start, pages, kind } => {
                let space = self.pick(process);
                let mapping = mapping(&mut self.rig, PageRange::at(start, pages), kind);
                self.rig.map(space, mapping);
                self.rig.check();
            }
            Step::Advise { process, start, pages, advice } => {
                let space = self.pick(process);
                self.rig.change(space, LayoutChange::Advise(PageRange::at(start, pages), advice));
            }
            Step::Migrate { process, start, pages, pinned, mode } => {
                let space = self.pick(process);
                self.migrate(space, PageRange::at(start, pages), pinned, mode);
            }
            Step::Pass { milliseconds } => {
                let until = self.rig.memory.now + Duration::from_ms(milliseconds);
                self.rig.pass_time(until);
            }
            Step::Flush => {
                let until = self.rig.memory.now + Duration::from_secs(40);
                self.rig.pass_time(until);
                flush_old(&mut self.rig.memory);
                self.rig.check();
            }
        }
    }

    /// Each resident page of the range goes to another frame or gives a reason; no page is lost on the way.
    fn migrate(&mut self, space: SpaceId, pages: PageRange, pinned: Option<u64>, mode: MigrateMode) {
        let rig = &mut self.rig;
        let frame_at = |rig: &Rig, page| rig.memory.space(space).table.frame_at(page);
        let mut from: Vec<FrameId> = (pages.start..pages.end).filter_map(|page| frame_at(rig, page)).collect();
        from.sort_unstable();
        from.dedup();
        let pinned = pinned.and_then(|at| from.get(usize::try_from(at).unwrap()).copied());
        if let Some(frame) = pinned {
            rig.memory.frames.pin(frame);
        }
        let is_huge = |frame| rig.memory.huge_page_of(frame) == Some(frame);
        let orders: Vec<u32> = from.iter().map(|&frame| if is_huge(frame) { 9 } else { 0 }).collect();
        let node = NodeId::default();
        let mut moves = Vec::new();
        let mut taken = Vec::new();
        for (&frame, &order) in from.iter().zip(&orders) {
            let target = match order {
                0 => rig.memory.take_target(node, Mark::Nothing),
                _ => rig.memory.take_huge_target(node, Mark::Nothing).ok(),
            };
            if let Some(target) = target {
                moves.push((frame, target));
                taken.push(order);
            }
        }
        let before = (rig.usage(), rig.memory.nodes.nr_used());
        let moved = rig.memory.migrate_batch(&mut rig.policy, &moves, mode);
        let failed: Vec<usize> = moved.failed.iter().map(|&(at, _)| at).collect();
        for &at in &failed {
            rig.memory.give_target(moves[at].1, taken[at]);
        }
        if let Some(frame) = pinned {
            assert!(!moves.iter().enumerate().any(|(at, &(from, _))| from == frame && !failed.contains(&at)), "pinned");
            rig.memory.frames.unpin(frame);
        }
        let moved_pages: u64 = (0..moves.len()).filter(|at| !failed.contains(at)).map(|at| 1 << taken[at]).sum();
        assert_eq!(moved.pages, moved_pages);
        let targets: u64 = taken.iter().map(|&order| 1 << order).sum();
        assert_eq!((rig.usage(), rig.memory.nodes.nr_used()), (before.0, before.1 - targets), "as many as before");
        rig.memory.ledger.take();
        rig.check();
    }

    /// All processes end: only files keep pages and slots.
    fn end(mut self) {
        for space in std::mem::take(&mut self.alive) {
            self.rig.exit(space);
        }
        self.rig.settle();
        let (mut nr_cached, mut nr_slots) = (0, 0);
        for (_, file) in self.rig.memory.files.iter() {
            nr_cached += file.nr_cached;
            nr_slots +=
                file.known_pages().filter(|(_, known)| matches!(known, crate::memory::CachePage::Swap(_))).count();
            assert!(file.mappings.is_empty());
        }
        // A swapped page of shared memory may also be in the swap cache.
        let slots = &self.rig.memory.slots;
        let nr_swap_cached = slots.used_slots().filter(|&slot| slots.cached(slot).is_some()).count() as u64;
        assert_eq!(self.rig.usage(), nr_cached + nr_swap_cached);
        assert_eq!(self.rig.memory.slots.used(), nr_slots as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn no_page_slot_or_charge_is_ever_lost(
        device in prop::sample::select(DeviceKind::ALL.to_vec()),
        limit in 700u64..1400,
        workingset: bool,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut world = World::new(device, limit);
        world.rig.policy.workingset = workingset;
        for step in steps {
            world.play(step);
        }
        world.end();
    }
}

#[test]
fn the_zero_page_is_nobodys() {
    let mut rig = Rig::new(DeviceKind::None);
    let space = rig.anonymous(100);
    (0..100).for_each(|page| {
        rig.read(space, page);
    });
    let child = rig.fork(space);
    assert_eq!((rig.entry(child, 5), rig.usage(), rig.memory.space(child).nr_resident), (Entry::Zero, 0, 0));
    rig.write(child, 5);
    assert_eq!((rig.entry(space, 5), rig.usage()), (Entry::Zero, 1));
}
