//! The policy on small machines.

use super::ageing::Effort;
use super::evict::Queue;
use super::generations::list_of;
use super::*;
use crate::cgroup::Knob;
use crate::counters::Counter;
use crate::memory::{CachePage, FileId};
use crate::mmu::SpaceId;
use crate::reclaim::Scan;
use crate::reclaim::classic::shadow_layout;
use crate::reclaim::driver::{Attempt, ReclaimStep, effective_protection};
use crate::reclaim::scan_balance::{Lru, PageType};
use crate::swap::device::DeviceKind;
use crate::testkit::{Testbed, Touch};
use isotherm_units::access::{Advice, LayoutChange};
use isotherm_units::{Duration, PageRange};

pub(super) const ROOT: LruvecId = LruvecId(0);
const SWAP: u64 = 4096;

pub(super) fn bed_with(config: MglruConfig, frames: u64, swap: DeviceKind) -> Testbed {
    Testbed::new(Box::new(Mglru::with_config(config)), frames, swap, SWAP)
}

pub(super) fn bed(frames: u64, swap: DeviceKind) -> Testbed {
    bed_with(MglruConfig::default(), frames, swap)
}

impl Testbed {
    pub(super) fn mglru<T>(&mut self, with: impl FnOnce(&mut Mglru, &mut Memory) -> T) -> T {
        with(self.policy.as_mglru().expect("generations"), &mut self.memory)
    }

    pub(super) fn age(&mut self, effort: Effort) {
        self.mglru(|mglru, memory| mglru.age(memory, ROOT, 60, effort));
    }

    pub(super) fn insert(&mut self) {
        self.mglru(Mglru::insert_pending);
    }

    /// An empty lruvec whose generations have these numbers.
    pub(super) fn set_seqs(&mut self, max_seq: u64, min_seq: [u64; 2]) {
        self.mglru(|mglru, _| {
            let own = mglru.generations.get_mut(ROOT);
            (own.max_seq, own.min_seq) = (max_seq, min_seq);
        });
    }

    pub(super) fn state(&mut self, frame: FrameId) -> PageState {
        self.mglru(|mglru, _| mglru.generations.state(frame))
    }

    /// The generation of a page; `None` while it waits.
    pub(super) fn seq(&mut self, frame: FrameId) -> Option<u64> {
        self.mglru(|mglru, memory| {
            let own = mglru.generations.get(memory.lruvec_of(frame));
            let at = mglru.generations.state(frame).generation()?;
            (own.max_seq.saturating_sub(3)..=own.max_seq).find(|&seq| list_of(seq) == at)
        })
    }

    pub(super) fn seq_at(&mut self, space: SpaceId, page: u64) -> Option<u64> {
        let frame = self.frame(space, page).expect("resident");
        self.seq(frame)
    }

    pub(super) fn page_out(&mut self, space: SpaceId, pages: PageRange) {
        let change = LayoutChange::Advise(pages, Advice::PageOut);
        self.change(space, change);
        self.settle();
        self.evict(64, 200); // those that were written while they stayed
    }

    /// Evicts up to `wanted` pages of the root's oldest generation.
    pub(super) fn evict(&mut self, wanted: u64, swappiness: u32) -> Scan {
        let mut scan = Scan::new(Reclaimer::Proactive, CgroupId::ROOT, wanted, swappiness);
        self.mglru(|mglru, memory| mglru.evict_batch(memory, ROOT, wanted, swappiness, Queue::Ignored, &mut scan));
        scan
    }

    /// Pages of `file` in the page cache that were never used.
    pub(super) fn read_ahead(&mut self, file: FileId, pages: std::ops::Range<u32>) -> Vec<FrameId> {
        let frames = pages.map(|page| self.cached(CgroupId::ROOT, file, page)).collect();
        self.insert();
        frames
    }
}

#[test]
fn e5_life_of_a_page() {
    let mut bed = bed(256, DeviceKind::Nvme);
    let space = bed.space(CgroupId::ROOT, 16);
    (0..2).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
    bed.insert();
    let frame = bed.frame(space, 0).unwrap();
    assert_eq!((bed.seq(frame), bed.state(frame).is_referenced()), (Some(2), true));
    bed.age(Effort::Heuristic);
    let state = bed.state(frame);
    assert_eq!((bed.seq(frame), state.is_workingset(), state.is_referenced()), (Some(3), true, false));
    bed.write(space, 1);
    bed.age(Effort::Heuristic);
    assert_eq!(bed.mglru(|mglru, _| mglru.generations.get(ROOT).max_seq), 5);
    assert_eq!(bed.seq(frame), Some(3), "not touched again: third youngest");
    assert_eq!(bed.seq_at(space, 1), Some(4), "touched between the two agings");
    bed.check_lists();
}

/// E15: how much is scanned.
#[test]
fn e15_nr_to_scan() {
    let mut bed = bed(256, DeviceKind::Nvme);
    let table = [(1_000_000, 12, 244), (1_000_000, 6, 15_625), (4095, 12, 0), (4096, 12, 1)];
    for (pages, priority, expected) in table {
        let mut scan = Scan::new(Reclaimer::Kswapd, CgroupId::ROOT, 64, 60);
        scan.priority = priority;
        let nr = bed.mglru(|mglru, memory| {
            mglru.generations.get_mut(ROOT).nr[0][1] = pages;
            assert_eq!(mglru.is_sizable(ROOT, 60, priority), expected > 0);
            mglru.nr_to_scan(memory, ROOT, 60, &mut scan)
        });
        assert_eq!(nr, expected, "{pages} at {priority}");
    }
    let mut left = 244u64;
    let batches = [(); 4].map(|()| {
        let batch = left.min(64);
        left -= batch;
        batch
    });
    assert_eq!((batches, left), ([64, 64, 64, 52], 0));
}

/// E15 and E19: a group that is too small for the priority is skipped twice; one below its `low` once, and then it pays.
#[test]
fn e15_e19_turns_of_groups() {
    let mut bed = bed(1024, DeviceKind::Zram);
    bed.memory.cgroups.charge_batch = 1;
    let (small, low) = (bed.group(CgroupId::ROOT, "small"), bed.group(CgroupId::ROOT, "low"));
    bed.set(low, Knob::Low, 100);
    for group in [small, low] {
        let space = bed.space(group, 80);
        (0..80).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
    }
    bed.insert();
    let mut turn = |group, priority| {
        let mut scan = Scan::new(Reclaimer::Direct, CgroupId::ROOT, 32, 60);
        scan.priority = priority;
        let effective = effective_protection(&bed.memory, CgroupId::ROOT);
        let lruvec = bed.memory.lruvec(group, NodeId::default());
        let to = bed.mglru(|mglru, memory| {
            mglru.meet_groups(memory);
            let to = mglru.shrink_one(memory, lruvec, &effective, &mut scan);
            to.into_iter().for_each(|to| mglru.rotate(memory, lruvec, to));
            to
        });
        bed.check_lists();
        (to, scan.nr_scanned, bed.memory.cgroups.get(group).events.low)
    };
    assert_eq!(turn(small, 12), (Some(Move::Tail), 0, 0));
    assert_eq!(turn(small, 12), (Some(Move::Young), 0, 0));
    assert_eq!(turn(low, 0), (Some(Move::Tail), 0, 0), "passed over");
    assert_eq!(turn(low, 0), (None, 0, 1), "it pays, though only empty generations were there to give up");
    let (to, _, events) = turn(low, 0);
    assert_eq!((to, events), (Some(Move::Young), 2), "it had to age");
}

/// E16: the cost of fairness across groups for a direct reclaimer, and of stopping at the target.
#[test]
fn e16_old_backoff() {
    let excess = |pages: u64| (pages >> 12) - 32;
    assert_eq!((excess(1 << 28), excess(1 << 30)), (65_504, 262_112));
    let overshoot = |backoff| {
        let features = Features { backoff, ..Features::default() };
        let mut bed = bed_with(MglruConfig { features, ..MglruConfig::default() }, 1024, DeviceKind::Zram);
        let file = bed.file("data", 800);
        bed.read_ahead(file, 0..800);
        let mut scan = Scan::new(Reclaimer::Direct, CgroupId::ROOT, 32, 60);
        scan.priority = 1; // half of the list, as a 4096th of a terabyte is
        let node = NodeId::default();
        bed.mglru(|mglru, memory| mglru.shrink_node(memory, node, &mut scan));
        bed.check_lists();
        scan.nr_reclaimed
    };
    assert_eq!(overshoot(false), 400, "the whole share of the priority");
    assert_eq!(overshoot(true), 64, "one batch");
}

/// E20: pages keep their order on the way into generations, and may not on the way out.
#[test]
fn e20_kill_switch_lists() {
    let mut bed = bed(256, DeviceKind::Nvme);
    let file = bed.file("data", 64);
    bed.set_seqs(6, [3, 3]);
    let oldest = bed.read_ahead(file, 0..2); // 3
    for page in 2..4 {
        let frame = bed.cached(CgroupId::ROOT, file, page);
        bed.policy.mark_accessed(&mut bed.memory, frame);
    }
    bed.insert();
    let CachePage::Frame(used) = bed.memory.files.get(file).page(2) else { panic!("cached") };
    assert_eq!((bed.seq(oldest[0]), bed.seq(used)), (Some(3), Some(4)));
    bed.mglru(|mglru, memory| mglru.write_enabled(memory, "n").unwrap());
    bed.check_lists();
    let listed = bed.mglru(|mglru, memory| {
        let mut pages = Vec::new();
        while let Some(frame) = mglru.classic.give_oldest(memory, ROOT, Lru::InactiveFile) {
            pages.push(frame);
        }
        pages.iter().for_each(|&frame| mglru.classic.adopt(memory, frame, ListEnd::Head));
        pages
    });
    assert_eq!(
        listed[2..],
        oldest[..],
        "list 0 holds generation 4, list 3 generation 3: younger ones are evicted first"
    );
    bed.mglru(|mglru, memory| mglru.write_enabled(memory, "y").unwrap());
    assert_eq!((bed.seq(oldest[0]), bed.seq(used)), (Some(3), Some(4)));
    bed.check_lists();
}

/// E21: commands and their refusals.
#[test]
fn e21_commands() {
    let mut bed = bed(256, DeviceKind::Zram);
    let group = bed.group(CgroupId::ROOT, "a");
    let space = bed.space(group, 200);
    (0..100).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
    bed.insert();
    let lruvec = bed.memory.lruvec(group, NodeId::default());
    let write = |bed: &mut Testbed, text: &str| bed.mglru(|mglru, memory| mglru.write_lru_gen(memory, text));
    for seq in 3..7 {
        assert_eq!(write(&mut bed, &format!("+ 1 0 {seq}")), Ok(()));
    }
    let before = bed.mglru(|mglru, memory| mglru.lru_gen(memory));
    let refusals = [
        ("- 1 0 6", Refusal::Young),
        ("+ 1 0 8", Refusal::Future),
        ("- 1 0 5 202", Refusal::Swappiness),
        ("- 9 0 5", Refusal::Group),
        ("- 1 3 5", Refusal::Node),
        ("what", Refusal::Malformed),
    ];
    for (text, refusal) in refusals {
        assert_eq!(write(&mut bed, text), Err(refusal), "{text}");
    }
    assert_eq!(bed.mglru(|mglru, memory| mglru.lru_gen(memory)), before, "nothing changed");
    assert_eq!(bed.mglru(|mglru, _| mglru.generations.get(lruvec).max_seq), 7);
    assert_eq!(write(&mut bed, "- 1 0 5 max 30; - 1 0 6"), Err(Refusal::Young));
    let left = bed.policy.sizes(lruvec).anon();
    assert_eq!(left, 70, "30 pages at most, and the refusal after it takes nothing back");
    assert_eq!(write(&mut bed, "- 1 0 5"), Ok(()));
    assert_eq!(bed.policy.sizes(lruvec).anon(), 0);
    assert_eq!(
        write(&mut bed, "- 1 0 3\n+ 1 0 4,"),
        Ok(()),
        "older than all: nothing to do; ageing goes from the youngest"
    );
    assert_eq!(bed.mglru(|mglru, _| mglru.generations.get(lruvec).max_seq), 8);
    bed.check_lists();
}

/// E23: where a page enters is decided when its batch is emptied.
#[test]
fn e23_batch_drain() {
    let mut random = bed(256, DeviceKind::Nvme);
    random.set_seqs(7, [4, 4]);
    let file = random.file("data", 64);
    let frames: Vec<FrameId> = (0..31)
        .map(|page| {
            let frame = random.cached(CgroupId::ROOT, file, page);
            random.policy.mark_accessed(&mut random.memory, frame);
            frame
        })
        .collect();
    for (index, &frame) in frames.iter().enumerate() {
        let expected = if index < 30 { 5 } else { 4 };
        assert_eq!((random.seq(frame), random.state(frame).refs()), (Some(expected), 1), "page {index}");
    }
    let mut window = bed(256, DeviceKind::Nvme);
    window.set_seqs(7, [4, 4]);
    let file = window.file("data", 64);
    let frames: Vec<FrameId> = (0..31).map(|page| window.cached(CgroupId::ROOT, file, page)).collect();
    frames.iter().for_each(|&frame| window.policy.mark_accessed(&mut window.memory, frame));
    assert!(frames.iter().all(|&frame| window.seq(frame) == Some(4)));

    for (device, on_read, on_write) in [(DeviceKind::Zram, 6, 5), (DeviceKind::Nvme, 5, 5)] {
        let mut swapping = bed(256, device);
        let space = swapping.space(CgroupId::ROOT, 64);
        (0..2).for_each(|page| assert_eq!(swapping.write(space, page), Touch::Minor));
        swapping.page_out(space, PageRange::new(0, 2));
        swapping.set_seqs(7, [4, 4]);
        assert_eq!(swapping.read(space, 0), Touch::Major);
        assert_eq!(swapping.write(space, 1), Touch::Major);
        swapping.insert();
        assert_eq!((swapping.seq_at(space, 0), swapping.seq_at(space, 1)), (Some(on_read), Some(on_write)), "{device}");
    }
}

/// E24: contents of a shadow when its batch empties a generation, and when it does not.
#[test]
fn e24_shadow_lifetime() {
    let mut bed = bed(512, DeviceKind::Nvme);
    bed.set_seqs(6, [4, 4]);
    let file = bed.file("data", 128);
    bed.read_ahead(file, 0..100);
    let layout = shadow_layout(&bed.memory);
    let token = |bed: &Testbed, page| match bed.memory.files.get(file).page(page) {
        CachePage::Shadow(shadow) => layout.unpack(shadow).token,
        other => panic!("{other:?}"),
    };
    assert_eq!(bed.evict(64, 0).nr_reclaimed, 64);
    assert_eq!(token(&bed, 0) >> 2, 4, "generation 4 is not empty");
    assert_eq!(bed.evict(64, 0).nr_reclaimed, 36);
    assert_eq!(token(&bed, 99) >> 2, 5, "this batch emptied it");
    let refaults = |bed: &mut Testbed, max_seq, page| {
        bed.set_seqs(max_seq, [max_seq - 1, max_seq - 1]);
        let before = bed.mglru(|mglru, _| mglru.generations.get(ROOT).history[1].refaulted[0]);
        bed.cached(CgroupId::ROOT, file, page);
        bed.mglru(|mglru, _| mglru.generations.get(ROOT).history[1].refaulted[0]) - before
    };
    let found = [(7, 0), (8, 1), (8, 98), (9, 99)].map(|(max_seq, page)| refaults(&mut bed, max_seq, page));
    assert_eq!(found, [1, 0, 1, 0]);
    assert_eq!(bed.count(Counter::WorkingsetRefaultFile), 4, "counted whether recent or not");
}

/// A page read ahead by `read()` must be found accessed twice, a page that a fault brought in once.
#[test]
fn pages_of_faults_are_promoted_at_the_first_sight() {
    let mut bed = bed(256, DeviceKind::Nvme);
    bed.set_seqs(5, [3, 3]);
    let file = bed.file("data", 64);
    let space = bed.space(CgroupId::ROOT, 8);
    bed.map_open_file(space, 1000, file, 16, false);
    let cached = bed.cached(CgroupId::ROOT, file, 0);
    bed.read(space, 1000); // a minor fault: it never counts as a use
    bed.read(space, 1010); // a major one
    bed.insert();
    assert_eq!((bed.seq(cached), bed.seq_at(space, 1010)), (Some(3), Some(3)));
    bed.age(Effort::Heuristic);
    assert_eq!((bed.seq_at(space, 1010), bed.seq(cached), bed.state(cached).refs()), (Some(5), Some(3), 1));
    bed.read(space, 1000);
    bed.age(Effort::Heuristic);
    assert_eq!(bed.seq(cached), Some(6));
    bed.check_lists();
}

/// Walks skip spaces that did not run, tables that were not entered and tables that were hardly used; forced walks scan
/// everything.
#[test]
fn walks_pass_over_what_is_idle() {
    for bloom_filter in [true, false] {
        let features = Features { bloom_filter, ..Features::default() };
        let mut bed = bed_with(MglruConfig { features, ..MglruConfig::default() }, 4096, DeviceKind::Nvme);
        let spaces = [bed.space(CgroupId::ROOT, 1024), bed.space(CgroupId::ROOT, 1024)];
        for space in spaces {
            (0..1024).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        }
        bed.insert();
        let examined = |bed: &mut Testbed, effort| {
            let before = bed.memory.reclaim.work.entries_examined;
            bed.age(effort);
            bed.memory.reclaim.work.entries_examined - before
        };
        assert_eq!(examined(&mut bed, Effort::Heuristic), 4 * 512, "new spaces are always walked");
        assert_eq!(examined(&mut bed, Effort::Heuristic), 0, "neither ran since");
        bed.read(spaces[0], 3);
        assert_eq!(examined(&mut bed, Effort::Heuristic), 1024, "a forced walk leaves the bits of tables set");
        bed.read(spaces[0], 3);
        let expected = if bloom_filter { 0 } else { 512 };
        assert_eq!(
            examined(&mut bed, Effort::Heuristic),
            expected,
            "one table was entered, and one entry is not worth it"
        );
        assert_eq!(examined(&mut bed, Effort::Forced), 4 * 512);
        bed.check_lists();
    }
}

/// Pages that a look-around finds are promoted, and their table is part of the next walk.
#[test]
fn look_around_promotes_neighbours_and_feeds_the_filter() {
    for (look_around, walks) in [(true, 1), (false, 64)] {
        let features = Features { look_around, ..Features::default() };
        let mut bed = bed_with(MglruConfig { features, ..MglruConfig::default() }, 1024, DeviceKind::Nvme);
        let space = bed.space(CgroupId::ROOT, 64);
        (0..64).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        bed.insert();
        bed.age(Effort::Forced);
        bed.age(Effort::Forced);
        (0..64).for_each(|page| assert_eq!(bed.write(space, page), Touch::Hit));
        bed.mglru(|mglru, _| mglru.has_walk_context = true);
        bed.evict(64, 200); // those that the first walk promoted move to their list
        let found = bed.evict(1, 200);
        assert_eq!((found.nr_scanned, found.nr_reclaimed), (1, 0), "it was used");
        bed.evict(63, 200);
        bed.evict(63, 200);
        assert_eq!(bed.memory.reclaim.work.rmap_walks, walks);
        bed.check_lists();
    }
}

/// Pages that are read again and again through descriptors stay while a stream passes.
#[test]
fn tiers_that_come_back_are_spared() {
    let refaults = |tiers| {
        let features = Features { tiers, ..Features::default() };
        let mut bed = bed_with(MglruConfig { features, ..MglruConfig::default() }, 600, DeviceKind::Nvme);
        let (hot, stream) = (bed.file("hot", 200), bed.file("stream", 40_000));
        let mut at = 0;
        for _ in 0..60 {
            for (file, pages) in [(hot, 0..200), (stream, at..at + 250)] {
                for page in pages {
                    let frame = loop {
                        if let CachePage::Frame(frame) = bed.memory.files.get(file).page(u64::from(page)) {
                            break frame;
                        }
                        if bed.memory.nodes.get(NodeId::default()).free() > 0 {
                            break bed.cached(CgroupId::ROOT, file, page);
                        }
                        assert!(matches!(bed.run(Attempt::direct(NodeId::default())), ReclaimStep::Done { .. }));
                    };
                    for _ in 0..if file == hot { 2 } else { 1 } {
                        bed.policy.mark_accessed(&mut bed.memory, frame);
                    }
                }
            }
            at += 250;
        }
        bed.check_lists();
        bed.count(Counter::WorkingsetRefaultFile)
    };
    let (with, without) = (refaults(true), refaults(false));
    assert!(with * 3 < without * 2, "{with} refaults with tiers, {without} without");
}

/// With a time to live the daemon asks for a victim rather than evict pages used a moment ago.
#[test]
fn young_pages_are_guarded_by_killing() {
    let wanted = |min_ttl_ms: u64, idle_ms| {
        let config = MglruConfig { min_ttl: Duration::from_ms(min_ttl_ms), ..MglruConfig::default() };
        let mut bed = bed_with(config, 8192, DeviceKind::Zram);
        let space = bed.space(CgroupId::ROOT, 5000);
        (0..5000).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        bed.insert();
        let until = bed.memory.now + Duration::from_ms(idle_ms);
        bed.pass_time(until);
        let mut scan = Scan::new(Reclaimer::Kswapd, CgroupId::ROOT, 32, 60);
        bed.policy.age_node(&mut bed.memory, NodeId::default(), &mut scan);
        std::mem::take(&mut bed.memory.reclaim.kill_wanted)
    };
    assert!(!wanted(0, 0), "off");
    assert!(wanted(1000, 900) && !wanted(1000, 1100));
}

/// Without accessed bits set by the processor nothing is walked, and pages still age.
#[test]
fn without_hardware_bits_only_the_reverse_map_looks() {
    let mut bed = bed(256, DeviceKind::Zram);
    bed.memory.mmu.leaf_accessed = false;
    let space = bed.space(CgroupId::ROOT, 200);
    (0..200).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
    assert_eq!(bed.mglru(|mglru, memory| mglru.switches().text(memory)), "0x0005\n");
    let reclaimed = |bed: &mut Testbed| match bed.run(Attempt::proactive(CgroupId::ROOT, 64, 60)) {
        ReclaimStep::Done { reclaimed } => reclaimed,
        other => panic!("{other:?}"),
    };
    assert!(reclaimed(&mut bed) + reclaimed(&mut bed) > 32);
    let work = bed.memory.reclaim.work;
    assert!(work.rmap_walks > 0 && work.tables_tested == 0);
    bed.check_lists();
}

/// A scheme's hints under generations (docs/spec/classic-lru.md#s3-6, mglru trap 10).
#[test]
fn hints_move_pages_as_new_ones_are_placed() {
    let mut bed = bed(256, DeviceKind::Nvme);
    let space = bed.space(CgroupId::ROOT, 64);
    let file = bed.file("data", 64);
    bed.write(space, 0);
    bed.insert();
    let anon = bed.frame(space, 0).unwrap();
    bed.age(Effort::Forced);
    bed.age(Effort::Forced);
    bed.age(Effort::Forced);
    assert_eq!(bed.seq(anon), Some(3), "max_seq is 6: the oldest but for the walk");
    let hint = |bed: &mut Testbed, frame, hint| bed.policy.hint(&mut bed.memory, frame, hint);
    assert!(hint(&mut bed, anon, Hint::Prioritise));
    assert_eq!(bed.seq(anon), Some(6), "it is of the working set");
    assert!(hint(&mut bed, anon, Hint::Deprioritise));
    assert_eq!((bed.seq(anon), bed.state(anon).refs(), bed.state(anon).is_workingset()), (Some(5), 0, false));
    assert!(hint(&mut bed, anon, Hint::Prioritise));
    assert_eq!(bed.seq(anon), Some(5), "not of the working set any more");
    let page = bed.read_ahead(file, 0..1)[0];
    assert!(hint(&mut bed, page, Hint::Prioritise));
    assert_eq!(bed.seq(page), Some(5));
    assert!(hint(&mut bed, page, Hint::Deprioritise));
    assert_eq!(bed.seq(page), Some(3));
    assert!(hint(&mut bed, anon, Hint::LazyFree));
    assert_eq!((bed.seq(anon), bed.state(anon).page_type()), (Some(3), PageType::File));
    bed.check_lists();
}

/// Toggled 1000 times at random points under load, the switch loses no page and doubles none, in either release. `check` walks
/// all lists, compares them with their counts, and finds every frame in use on exactly one.
#[test]
fn the_kill_switch_loses_no_page() {
    for baseline in [Baseline::V7_2, Baseline::V6_12] {
        let mut bed =
            bed_with(MglruConfig { baseline: Some(baseline), ..MglruConfig::default() }, 128, DeviceKind::Nvme);
        let group = bed.group(CgroupId::ROOT, "a");
        let file = bed.file("data", 80);
        let spaces = [bed.space(CgroupId::ROOT, 100), bed.space(group, 100)];
        spaces.into_iter().for_each(|space| bed.map_open_file(space, 1000, file, 80, false));
        let mut random = Lot(7);
        let mut draw = move |below: u64| {
            random.bin();
            random.0 % below
        };
        let (mut toggles, mut was_on, mut evicted) = (0, true, 0);
        while toggles < 1000 {
            for _ in 0..draw(12) {
                let (space, page) = (spaces[usize::try_from(draw(2)).unwrap()], draw(180));
                let page = if page < 100 { page } else { 900 + page };
                let touch = if draw(3) == 0 { bed.write(space, page) } else { bed.read(space, page) };
                assert_ne!(touch, Touch::OutOfMemory, "toggle {toggles}");
                if page >= 1000 && draw(2) == 0 {
                    let frame = bed.frame(space, page).expect("just touched");
                    bed.policy.mark_accessed(&mut bed.memory, frame);
                }
            }
            let text = ["y", "n", "1", "3", "5", "0x6"][usize::try_from(draw(6)).unwrap()];
            bed.mglru(|mglru, memory| mglru.write_enabled(memory, text).unwrap());
            let is_on = bed.mglru(|mglru, _| mglru.switches().has_core());
            toggles += u32::from(std::mem::replace(&mut was_on, is_on) != is_on);
            bed.check_lists();
            evicted = bed.count(Counter::PgStealDirect);
        }
        assert!(evicted > 1000, "under load: {evicted}");
    }
}

/// Refused writes change nothing: the switch, the lists, the time to live, and text that is no command.
#[test]
fn what_is_refused_changes_nothing() {
    let mut bed = bed(256, DeviceKind::Zram);
    let space = bed.space(CgroupId::ROOT, 100);
    (0..100).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
    bed.insert();
    let state = |bed: &mut Testbed| {
        bed.mglru(|mglru, memory| {
            (mglru.lru_gen_full(memory), mglru.switches().text(memory), mglru.min_ttl_ms_text(), memory.nodes.nr_used())
        })
    };
    let before = state(&mut bed);
    let table = [
        (ControlFile::LruGen, "+", Refusal::Malformed),
        (ControlFile::LruGen, "+ 0 0", Refusal::Malformed),
        (ControlFile::LruGen, "+ 0 0 3 60 1 1", Refusal::Malformed),
        (ControlFile::LruGen, "+ 0 0 three", Refusal::Malformed),
        (ControlFile::LruGen, "+ 0 0 0x3", Refusal::Malformed),
        (ControlFile::LruGen, "+ 0 0 99999999999999999999", Refusal::Malformed),
        (ControlFile::LruGen, "? 0 0 3", Refusal::Malformed),
        (ControlFile::LruGen, "+ 0 0 4", Refusal::Future),
        (ControlFile::LruGen, "- 0 0 2", Refusal::Young),
        (ControlFile::LruGen, "- 0 0 18446744073709551615", Refusal::Young),
        (ControlFile::LruGen, "+ 1 0 3", Refusal::Group),
        (ControlFile::LruGen, "+ 18446744073709551615 0 3", Refusal::Group),
        (ControlFile::LruGen, "+ 0 1 3", Refusal::Node),
        (ControlFile::LruGen, "+ 0 0 3 202", Refusal::Swappiness),
        (ControlFile::LruGen, "- 0 0 1 -1", Refusal::Malformed),
        (ControlFile::Enabled, "", Refusal::Invalid),
        (ControlFile::Enabled, "on", Refusal::Invalid),
        (ControlFile::MinTtlMs, "-1", Refusal::Number),
        (ControlFile::MinTtlMs, "4294967296", Refusal::Number),
    ];
    for (file, text, refusal) in table {
        assert_eq!(
            bed.mglru(|mglru, memory| mglru.write(memory, file, text)),
            Err(refusal),
            "{} {text:?}",
            file.name()
        );
        assert_eq!(state(&mut bed), before, "{} {text:?}", file.name());
        let words = refusal.to_string();
        assert!(words.starts_with("EINVAL: ") && words.len() > 20, "{words}");
    }
    bed.mglru(|mglru, memory| mglru.write_enabled(memory, "n").unwrap());
    let off = bed.mglru(|mglru, memory| mglru.write_lru_gen(memory, "+ 0 0 3"));
    assert_eq!(off, Err(Refusal::Off));
    bed.check_lists();
}

/// A time to live with no process to kill: the daemon asks without effect, and pages stay where they are.
#[test]
fn a_time_to_live_without_a_victim_changes_nothing() {
    let config = MglruConfig { min_ttl: Duration::from_ms(1000), ..MglruConfig::default() };
    let mut bed = bed_with(config, 256, DeviceKind::Zram);
    let file = bed.file("data", 100);
    bed.read_ahead(file, 0..100);
    let before = bed.mglru(|mglru, memory| mglru.lru_gen_full(memory));
    let mut scan = Scan::new(Reclaimer::Kswapd, CgroupId::ROOT, 32, 60);
    bed.policy.age_node(&mut bed.memory, NodeId::default(), &mut scan);
    assert!(bed.memory.reclaim.kill_wanted);
    assert_eq!(bed.mglru(|mglru, memory| mglru.lru_gen_full(memory)), before);
    assert_eq!(scan.nr_reclaimed, 0);
    bed.check_lists();
}
