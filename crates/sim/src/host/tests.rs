//! The behaviours of docs/spec/monitoring.md#s4 and the named tests of docs/spec/page-table-profiling.md#s9-3 that concern the host.

use super::stage::Stage;
use super::*;
use isotherm_kernel::fault::{FaultState, fault};
use isotherm_kernel::mmu::{Cursor, MmuConfig, Need, Pace, Stop, TranslationConfig};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_kernel::testkit::{Trouble, setup};
use isotherm_units::PageRange;
use isotherm_units::access::Run;
use std::ops::{Deref, DerefMut};

const FIRST: TargetId = TargetId(0);
const BLOCK: u64 = 512;
const GIB: u64 = 1 << 18;

/// Accesses go through the translation caches, where the processor has them.
struct Rig(Stage);

impl Deref for Rig {
    type Target = Stage;
    fn deref(&self) -> &Stage {
        &self.0
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut Stage {
        &mut self.0
    }
}

impl Rig {
    /// A space with base pages at 0..4096, blocks of 2 MiB at 1 GiB, and premapped memory of 3 GiB at 1 TiB.
    fn with_space(mmu: MmuConfig) -> (Self, SpaceId) {
        let mut stage = Stage::around("classic", &setup(&[8192], DeviceKind::None, 0), mmu);
        let space = stage.anonymous(4096);
        stage.map_huge(space, PageRange::at(GIB, 8 * BLOCK));
        stage.premap(space, PageRange::at(1024 * GIB, 3 * GIB));
        stage.targets = vec![HostTarget::Space(space), HostTarget::Physical];
        (Self(stage), space)
    }

    fn access(&mut self, space: SpaceId, page: u64, need: Need) {
        let run = if need == Need::Write { Run::write(page, 1) } else { Run::read(page, 1) };
        loop {
            let mut pace = Pace { until_ns: 9, page_ns: 1, ..Pace::default() };
            let owner = self.0.bed.memory.space_mut(space);
            let (table, huge) = (&mut owner.table, &owner.huge_blocks);
            let mut caches = self.0.caches.first_mut();
            if let Some(caches) = &mut caches {
                caches.switch_to(space);
            }
            let stop = table.play_through(caches, huge, &[run], &mut Cursor::default(), &mut pace);
            let Stop::Fault { page, need } = stop else { return };
            assert!(self.fault(space, page, need, &mut Trouble::default()), "out of memory");
        }
    }
    fn write(&mut self, space: SpaceId, page: u64) {
        self.access(space, page, Need::Write);
    }
    fn read(&mut self, space: SpaceId, page: u64) {
        self.access(space, page, Need::Read);
    }

    fn clear(&mut self, page: u64, level: Level) -> (Seen, u8) {
        let (probe, mut results) = (probe(page, level), [ProbeResult::default()]);
        self.host().clear(FIRST, &[probe], &mut results).unwrap();
        (results[0].seen, results[0].level.0)
    }
    fn test(&mut self, page: u64, level: Level) -> (Seen, u8) {
        let (probe, mut results) = (probe(page, level), [ProbeResult::default()]);
        self.host().test(FIRST, &[probe], &mut results).unwrap();
        (results[0].seen, results[0].level.0)
    }
    fn frame(&self, space: SpaceId, page: u64) -> FrameId {
        self.memory.space(space).table.frame_at(page).unwrap()
    }
    fn is_dirty(&self, space: SpaceId, page: u64) -> bool {
        let table = &self.memory.space(space).table;
        table.is_dirty(table.dense(page).unwrap())
    }
    /// Result of a physical probe of a page frame.
    fn physical(&mut self, frame: u64, wish: Wish) -> Seen {
        let (probe, mut results) = (probe(frame, Level::LEAF), [ProbeResult::default()]);
        match wish {
            Wish::Clear => self.host().clear(TargetId(1), &[probe], &mut results).unwrap(),
            Wish::Test => self.host().test(TargetId(1), &[probe], &mut results).unwrap(),
        }
        results[0].seen
    }
}

fn probe(page: u64, level: Level) -> Probe {
    Probe { address: (page << PAGE_SHIFT) + 77, level: HostLevel(level.number()) }
}

#[test]
fn a_page_is_idle_after_a_clear_and_accessed_after_a_use() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    rig.write(space, 5);
    assert_eq!(rig.test(5, Level::LEAF), (Seen::Accessed, 0), "never trust a first read");
    assert_eq!(rig.clear(5, Level::LEAF), (Seen::Accessed, 0));
    assert_eq!(rig.test(5, Level::LEAF), (Seen::Idle, 0));
    rig.read(space, 5);
    assert_eq!(rig.test(5, Level::LEAF), (Seen::Accessed, 0));
    assert_eq!(rig.test(5, Level::LEAF), (Seen::Accessed, 0), "a test leaves it as it is");
    assert_eq!(rig.test(6, Level::LEAF), (Seen::NotMapped, 0));
    assert_eq!(rig.test(1 << 40, Level::LEAF), (Seen::NotMapped, 3), "the walk ends at the top");
    rig.read(space, 7);
    assert_eq!(rig.clear(7, Level::LEAF), (Seen::Idle, 0), "the zero page tells nothing");
    assert_eq!(rig.test(7, Level::LEAF), (Seen::Idle, 0));
}

/// docs/spec/monitoring.md#s4: the use that a clear removes is left to reclaim.
#[test]
fn reclaim_does_not_lose_what_a_monitor_cleared() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    rig.write(space, 5);
    let frame = rig.frame(space, 5);
    rig.clear(5, Level::LEAF);
    assert!(rig.memory.frames.take_young(frame), "reclaim counts this as a use");
    assert!(!rig.memory.frames.take_young(frame), "once");
    rig.clear(5, Level::LEAF);
    assert!(!rig.memory.frames.take_young(frame), "it was not used since");
    rig.read(space, 5);
    let mut words = Vec::new();
    rig.host().scan_children(FIRST, probe(0, Level::PMD), &mut words).unwrap();
    assert_eq!(words, [1 << 5, 0, 0, 0, 0, 0, 0, 0]);
    assert!(rig.memory.frames.take_young(frame), "a scan leaves it as well");
    assert_eq!(rig.test(5, Level::LEAF), (Seen::Idle, 0));
}

/// docs/spec/monitoring.md#s4: a page also counts as accessed if a use of it was met since it was marked.
#[test]
fn a_use_through_a_descriptor_is_seen() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    let file = rig.file("file", 64);
    rig.map_open_file(space, 9000, file, 64, false);
    rig.read(space, 9003);
    let frame = rig.frame(space, 9003);
    rig.clear(9003, Level::LEAF);
    assert_eq!(rig.test(9003, Level::LEAF).0, Seen::Idle);
    let run = Run::read(9003, 1).through(isotherm_units::access::Channel::FileDescriptor);
    assert_eq!(rig.call(space, run), Trouble::default());
    assert_eq!(rig.test(9003, Level::LEAF).0, Seen::Accessed);
    // Unmapped, only the mark shows it.
    rig.physical(u64::from(frame.index_u32()), Wish::Clear);
    rig.unmap(space, PageRange::at(9000, 64));
    assert_eq!(rig.physical(u64::from(frame.index_u32()), Wish::Test), Seen::Idle);
    rig.memory.frames.met_use(frame);
    assert_eq!(rig.physical(u64::from(frame.index_u32()), Wish::Test), Seen::Accessed);
}

#[test]
fn physical_memory_is_probed_through_every_mapping() {
    let (mut rig, parent) = Rig::with_space(MmuConfig::default());
    rig.write(parent, 5);
    let (child, _) = rig.fork(parent);
    rig.read(child, 5);
    let frame = u64::from(rig.frame(parent, 5).index_u32());
    assert_eq!(rig.physical(frame, Wish::Clear), Seen::Accessed);
    assert_eq!(rig.physical(frame, Wish::Test), Seen::Idle);
    for space in [parent, child] {
        let table = &rig.memory.space(space).table;
        assert!(!table.is_young(table.dense(5).unwrap()), "cleared in both");
    }
    rig.read(child, 5);
    assert_eq!(rig.physical(frame, Wish::Test), Seen::Accessed, "one use is enough");
    assert_eq!(rig.physical(frame + 4000, Wish::Test), Seen::NotMapped, "a free frame stands on no list");
    assert_eq!(rig.physical(1 << 40, Wish::Test), Seen::NotMapped, "there is no such memory");
    let frame = FrameId::new(u32::try_from(frame).unwrap());
    rig.0.bed.policy.removed(&mut rig.0.bed.memory, frame);
    assert_eq!(rig.physical(u64::from(frame.index_u32()), Wish::Test), Seen::NotMapped, "off its list");
    assert_eq!(rig.clear(5, Level::LEAF).0, Seen::Unknown, "passed over");
    assert_eq!(rig.test(5, Level::LEAF).0, Seen::Idle, "the mark of the last clear");
}

/// docs/spec/page-table-profiling.md#s7-3: an upper entry says of a frame that it was not used, and never that it was.
#[test]
fn upper_entries_rule_frames_out() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    let pages = [5, 600, 5 * BLOCK];
    pages.iter().for_each(|&page| rig.write(space, page));
    let number = u64::from(rig.frame(space, 5).index_u32());
    let ask = |rig: &mut Rig, wish| {
        let (probe, mut results) = (probe(number, Level::P4D), [ProbeResult::default()]);
        let before = rig.counts;
        match wish {
            Wish::Clear => rig.host().clear(TargetId(1), &[probe], &mut results).unwrap(),
            Wish::Test => rig.host().test(TargetId(1), &[probe], &mut results).unwrap(),
        }
        let ended = (0..5).find(|&level| rig.counts.tests[level] > before.tests[level]);
        (results[0].seen, results[0].level.0, ended)
    };
    assert_eq!(ask(&mut rig, Wish::Clear), (Seen::Accessed, 0, None));
    assert_eq!(ask(&mut rig, Wish::Test), (Seen::Idle, 0, Some(3)), "nothing below 512 GiB was used");
    rig.read(space, 5 * BLOCK);
    assert_eq!(ask(&mut rig, Wish::Test), (Seen::Idle, 0, Some(1)), "another block of the same 1 GiB");
    rig.read(space, 6);
    assert_eq!(ask(&mut rig, Wish::Test), (Seen::Idle, 0, Some(0)), "a neighbour in the same table: the leaf decides");
    rig.read(space, 5);
    assert_eq!(ask(&mut rig, Wish::Test), (Seen::Accessed, 0, Some(0)));

    // Through one mapping of two.
    let (child, _) = rig.fork(space);
    assert_eq!(ask(&mut rig, Wish::Clear).0, Seen::Accessed);
    rig.read(child, 5);
    assert_eq!(ask(&mut rig, Wish::Test), (Seen::Accessed, 0, Some(0)), "the other ruled out its own mapping only");
}

/// With the filter the answers are those of leaves alone, for any accesses in between.
#[test]
fn ruling_out_changes_no_answer() {
    let mut random = 1u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..40 {
        let (mut by_leaf, space) = Rig::with_space(MmuConfig::default());
        let (mut filtered, _) = Rig::with_space(MmuConfig::default());
        let touched: Vec<u64> = (0..60).map(|_| draw(4096)).collect();
        for rig in [&mut by_leaf, &mut filtered] {
            touched.iter().for_each(|&page| rig.write(space, page));
        }
        for _ in 0..6 {
            let numbers: Vec<u64> =
                touched.iter().map(|&page| u64::from(by_leaf.frame(space, page).index_u32())).collect();
            let probes = |level: Level| numbers.iter().map(|&number| probe(number, level)).collect::<Vec<_>>();
            let used: Vec<u64> = (0..draw(4)).map(|_| touched[usize::try_from(draw(60)).unwrap()]).collect();
            let answers = [(&mut by_leaf, Level::LEAF), (&mut filtered, Level::P4D)].map(|(rig, level)| {
                let probes = probes(level);
                let mut results = vec![ProbeResult::default(); probes.len()];
                rig.host().clear(TargetId(1), &probes, &mut results).unwrap();
                used.iter().for_each(|&page| rig.read(space, page));
                rig.host().test(TargetId(1), &probes, &mut results).unwrap();
                results
            });
            assert_eq!(answers[0], answers[1]);
            let accessed = answers[0].iter().filter(|result| result.seen == Seen::Accessed).count();
            assert_eq!(accessed == 0, used.is_empty());
        }
        assert!(filtered.counts.tests[0] < by_leaf.counts.tests[0], "some were ruled out above the leaf");
    }
}

#[test]
fn a_page_that_is_being_read_is_locked() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    let file = rig.file("file", 64);
    rig.map_open_file(space, 9000, file, 64, false);
    let mut state = FaultState::default();
    fault(&mut rig.0.bed.memory, rig.0.bed.policy.as_mut(), space, 9000, Need::Read, &mut state);
    let cached = rig.memory.files.get(file).known_pages().next().unwrap().1;
    let isotherm_kernel::memory::CachePage::Frame(frame) = cached else { panic!("{cached:?}") };
    assert!(rig.memory.frames.has(frame, Flag::Reading));
    let number = u64::from(frame.index_u32());
    assert_eq!((rig.physical(number, Wish::Clear), rig.physical(number, Wish::Test)), (Seen::Unknown, Seen::Idle));
}

#[test]
fn ground_has_physical_addresses_and_attributes() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    let first = rig.memory.premapped[0].first_frame;
    assert_eq!((first, rig.memory.nr_page_frames()), (8192, 8192 + 3 * GIB));
    rig.read(space, 1024 * GIB + 9);
    assert_eq!(rig.physical(first + 9, Wish::Clear), Seen::Accessed);
    assert_eq!(rig.physical(first + 9, Wish::Test), Seen::Idle);
    rig.write(space, 5);
    let frame = u64::from(rig.frame(space, 5).index_u32());
    let addresses = [first + 9, frame, frame + 1, first + 3 * GIB].map(|number| number << PAGE_SHIFT);
    for (attribute, expected) in [(Attribute::Anon, true), (Attribute::Memcg(0), true), (Attribute::Memcg(7), false)] {
        let mut out = [Some(true); 4];
        rig.host().has_attribute(TargetId(1), attribute, &addresses, &mut out).unwrap();
        assert_eq!(out, [Some(expected), Some(expected), None, None], "{attribute:?}");
    }
    assert!(matches!(rig.host().has_attribute(FIRST, Attribute::Anon, &[], &mut []), Err(HostError::NotHere(_))));
}

/// T1: clearing the accessed bit never loses a store, for any kind of entry.
#[test]
fn t1_a_clear_keeps_the_dirty_bit() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    for page in [5, GIB + 5] {
        rig.write(space, page);
        rig.clear(page, Level::LEAF);
        assert!(rig.is_dirty(space, page));
        rig.write(space, page);
        rig.clear(page, Level::PMD);
        rig.host().scan_children(FIRST, probe(page, Level::PMD), &mut Vec::new()).unwrap();
        assert!(rig.is_dirty(space, page));
    }
}

/// T2: a huge page in a region that asks for any level is found, at its own level where it is above the wanted one.
#[test]
fn t2_huge_pages_answer_at_their_own_level() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    rig.write(space, GIB + 7);
    for level in [Level::LEAF, Level::PMD] {
        rig.clear(GIB + 3, level);
        assert_eq!(rig.test(GIB + 400, level), (Seen::Idle, 1));
        rig.read(space, GIB + 200);
        assert_eq!(rig.test(GIB + 400, level), (Seen::Accessed, 1), "one bit for 2 MiB");
    }
    rig.clear(GIB, Level::PUD);
    assert_eq!(rig.test(GIB, Level::PUD), (Seen::Idle, 2));
    rig.read(space, GIB + 200);
    assert_eq!(rig.test(GIB + 900, Level::PUD), (Seen::Accessed, 2));
    let table = &rig.memory.space(space).table;
    assert!(table.is_young(table.dense(GIB + 200).unwrap()), "what reclaim reads stays");
    let mut words = Vec::new();
    rig.host().scan_children(FIRST, probe(GIB, Level::PMD), &mut words).unwrap();
    assert_eq!(words, [u64::MAX; 8], "one bit for all");
    assert_eq!(rig.test(GIB, Level::LEAF), (Seen::Idle, 1));
}

/// T3: a probe holds its level, so that an edit of its region between clear and test cannot mix two entries.
#[test]
fn t3_levels_are_cleared_and_tested_apart() {
    let (mut rig, _) = Rig::with_space(MmuConfig::default());
    let page = 1024 * GIB + 5;
    rig.clear(page, Level::PMD);
    assert_eq!(rig.test(page, Level::PMD), (Seen::Idle, 1));
    assert_eq!(rig.test(page, Level::PUD), (Seen::Accessed, 2), "never cleared: the preset bit");
    assert_eq!(rig.clear(page, Level::PUD), (Seen::Accessed, 2));
    assert_eq!(rig.test(page, Level::PUD), (Seen::Idle, 2));
}

/// T4: the answer to one probe does not depend on the one before it.
#[test]
fn t4_probes_of_one_batch_do_not_share_results() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    let page = 1024 * GIB + 700;
    rig.clear(page, Level::PMD);
    rig.read(space, page);
    let holes = [(600 * GIB, Level::PUD), (page, Level::PMD), (page + BLOCK, Level::PMD), (page, Level::PMD)];
    let probes = holes.map(|(page, level)| probe(page, level));
    rig.clear(page + BLOCK, Level::PMD);
    let mut results = [ProbeResult::default(); 4];
    rig.host().test(FIRST, &probes, &mut results).unwrap();
    let seen = results.map(|result| result.seen);
    assert_eq!(seen, [Seen::NotMapped, Seen::Accessed, Seen::Idle, Seen::Accessed]);
}

/// T5: with page-table isolation the walks of a program set the top bit in its own copy of the table.
#[test]
fn t5_with_isolation_the_top_level_is_not_used() {
    for (levels, top) in [(4, Level::P4D), (5, Level::PGD)] {
        let mmu = MmuConfig { levels, page_table_isolation: true, ..MmuConfig::default() };
        let (mut rig, space) = Rig::with_space(mmu);
        let page = 1024 * GIB + 5;
        assert_eq!(rig.host().capabilities(FIRST).highest_level.0, top.number() - 1);
        assert_eq!(rig.clear(page, top), (Seen::Unknown, top.number()), "refused, not cold");
        let table = &mut rig.memory.space_mut(space).table;
        assert!(table.take_entry_young(top, page), "preset");
        rig.read(space, page);
        assert!(!rig.memory.space(space).table.is_entry_young(top, page), "the copy that the kernel sees stays clear");
        let below = Level::new(top.number() - 1).unwrap();
        assert_eq!((rig.clear(page, below).0, rig.test(page, below).0), (Seen::Accessed, Seen::Idle));
        rig.read(space, page);
        assert_eq!(rig.test(page, below).0, Seen::Accessed);
    }
}

#[test]
fn without_bits_above_the_leaf_only_leaves_are_probed() {
    let (mut rig, space) = Rig::with_space(MmuConfig { nonleaf_accessed: false, ..MmuConfig::default() });
    assert_eq!(rig.host().capabilities(FIRST).highest_level, HostLevel::LEAF);
    rig.write(space, 5);
    assert_eq!(rig.clear(5, Level::PMD), (Seen::Unknown, 1));
    assert_eq!(rig.clear(5, Level::LEAF), (Seen::Accessed, 0));
    rig.write(space, GIB);
    rig.clear(GIB, Level::LEAF);
    assert_eq!(rig.test(GIB, Level::LEAF), (Seen::Idle, 1), "a huge page is a leaf");
    let mut words = Vec::new();
    assert!(rig.host().scan_children(FIRST, probe(0, Level::PUD), &mut words).is_err());
    rig.host().scan_children(FIRST, probe(0, Level::PMD), &mut words).unwrap();
    assert_eq!(words.len(), 8);
}

/// T6: first read after populating, and after a clear; four and five levels.
#[test]
fn t6_new_tables_read_accessed_until_they_are_cleared() {
    for levels in [4, 5] {
        let (mut rig, space) = Rig::with_space(MmuConfig { levels, ..MmuConfig::default() });
        rig.write(space, 5);
        for level in (1..levels).map(|number| Level::new(number).unwrap()) {
            // Both lie under one entry of 256 TiB.
            for page in [5, 1024 * GIB + 5].into_iter().take(if level == Level::PGD { 1 } else { 2 }) {
                let (first, after) = (rig.clear(page, level), rig.test(page, level));
                assert_eq!((first.0, after.0), (Seen::Accessed, Seen::Idle), "{page:#x} {level:?}");
            }
        }
        let capabilities = rig.host().capabilities(FIRST);
        assert_eq!((capabilities.shifts.len(), capabilities.highest_level.0), (usize::from(levels), levels - 1));
        assert_eq!(rig.test(5, Level::PGD).0, if levels == 4 { Seen::Unknown } else { Seen::Idle });
    }
    let (mut rig, _) = Rig::with_space(MmuConfig { preset_accessed: false, ..MmuConfig::default() });
    assert_eq!(rig.test(1024 * GIB, Level::PUD).0, Seen::Idle);
}

/// T8: an entry that turns from leaf to table, or back, between clear and test says nothing.
#[test]
fn t8_an_entry_that_changed_its_kind_is_unknown() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    rig.write(space, GIB);
    rig.clear(GIB + 9, Level::PMD);
    let dense = rig.memory.space(space).table.dense(GIB).unwrap();
    rig.memory.split_huge(space, dense);
    assert_eq!(rig.test(GIB + 9, Level::PMD), (Seen::Unknown, 1));
    assert_eq!(rig.test(GIB + 9, Level::LEAF), (Seen::Unknown, 0));
    rig.clear(GIB + 9, Level::PMD);
    assert_eq!(rig.test(GIB + 9, Level::PMD), (Seen::Idle, 1), "cleared anew");
}

/// docs/spec/monitoring.md#s4: nothing is flushed after a clear, so that accesses through a cached translation are missed.
#[test]
fn cached_translations_hide_accesses_until_a_flush() {
    let mmu = MmuConfig { translation: Some(TranslationConfig::default()), ..MmuConfig::default() };
    let (mut rig, space) = Rig::with_space(mmu);
    for page in [5, GIB + 5, 1024 * GIB + 5] {
        rig.write(space, page);
        for level in [Level::LEAF, Level::PMD, Level::PUD] {
            rig.clear(page, level);
        }
        rig.read(space, page);
        assert_eq!(rig.test(page, Level::LEAF).0, Seen::Idle, "{page:#x}: missed");
        assert!(rig.host().capabilities(FIRST).flush);
        rig.host().flush(FIRST).unwrap();
        rig.read(space, page);
        for level in [Level::LEAF, Level::PMD, Level::PUD] {
            assert_eq!(rig.test(page, level).0, Seen::Accessed, "{page:#x} {level:?}");
        }
    }
    let (mut off, _) = Rig::with_space(MmuConfig::default());
    assert!(matches!(off.host().flush(FIRST), Err(HostError::NotHere(_))));
}

#[test]
fn mappings_are_told_and_a_dead_process_is_gone() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    let mut ranges = Vec::new();
    rig.host().mappings(FIRST, &mut ranges).unwrap();
    let mib = |from: u64, to: u64| AddressRange::new(from << 20, to << 20);
    assert_eq!(ranges, [mib(0, 16), mib(1024, 1040), mib(1 << 20, (1 << 20) + 3072)]);
    assert!(matches!(rig.host().mappings(TargetId(1), &mut ranges), Err(HostError::NotHere(_))));
    assert!(matches!(rig.host().mappings(TargetId(9), &mut ranges), Err(HostError::Failed(_))));
    rig.exit(space);
    let (mut results, probes) = ([ProbeResult::default()], [probe(5, Level::LEAF)]);
    assert_eq!(rig.host().clear(FIRST, &probes, &mut results), Err(HostError::Gone(FIRST)));
    assert_eq!(rig.host().test(FIRST, &probes, &mut results), Err(HostError::Gone(FIRST)));
    assert_eq!(rig.host().mappings(FIRST, &mut ranges), Err(HostError::Gone(FIRST)));
    let first = rig.memory.premapped[0].first_frame;
    assert_eq!(rig.physical(first, Wish::Test), Seen::NotMapped);
}

/// Prices of section 6.5, in ns at 3 GHz.
#[test]
fn looks_are_counted_and_paid_by_level() {
    let (mut rig, space) = Rig::with_space(MmuConfig::default());
    rig.write(space, 5);
    rig.write(space, GIB);
    rig.memory.ledger.take();
    let premapped = 1024 * GIB;
    let checks = [(5, Level::LEAF, 383), (5, Level::PMD, 200), (GIB, Level::PMD, 317), (5, Level::PUD, 117)];
    for (page, level, ns) in checks.into_iter().chain([(premapped, Level::P4D, 90), (premapped, Level::LEAF, 383)]) {
        rig.clear(page, level);
        assert_eq!(rig.memory.ledger.take(), ns, "{page:#x} {level:?}");
        rig.test(page, level);
        assert_eq!(rig.memory.ledger.take(), ns, "{page:#x} {level:?}");
    }
    let counts = rig.counts;
    assert_eq!((counts.clears, counts.tests, counts.checks()), ([2, 2, 1, 1, 0], [2, 2, 1, 1, 0], 12));
    let mut words = Vec::new();
    rig.host().scan_children(FIRST, probe(premapped, Level::PUD), &mut words).unwrap();
    assert_eq!(rig.memory.ledger.take(), 50 + 500 + 1500, "all 512 bits were preset");
    rig.host().scan_children(FIRST, probe(premapped, Level::PUD), &mut words).unwrap();
    assert_eq!(rig.memory.ledger.take(), 550);
    assert_eq!(words, [[u64::MAX; 8], [0; 8]].concat());
    assert_eq!(rig.counts.scans, [0, 0, 2, 0, 0]);
}
