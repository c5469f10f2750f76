//! Patches of the series, each observed at its work (docs/spec/mglru.md#s16); the others are observed in `tests.rs`.

use super::ageing::Effort;
use super::tests::{ROOT, bed, bed_with};
use super::*;
use crate::counters::Counter;
use crate::reclaim::Scan;
use crate::reclaim::driver::{Attempt, ReclaimStep};
use crate::swap::device::DeviceKind;
use crate::testkit::{Testbed, Touch};

/// Patch 02: in sparsely used regions the bits of 2 MiB entries save most entries, and a forced walk promotes the same pages.
#[test]
fn upper_bits_save_entries_and_promote_the_same_pages() {
    let walk = |upper_bits, effort| {
        let features = Features { upper_bits, bloom_filter: false, ..Features::default() };
        let mut bed = bed_with(MglruConfig { features, ..MglruConfig::default() }, 8192, DeviceKind::Nvme);
        let space = bed.space(CgroupId::ROOT, 8192);
        (0..8000).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        bed.insert();
        // Three walks let all get old; the last of them clears the bits of tables.
        bed.age(Effort::Forced);
        (0..2).for_each(|_| {
            bed.memory.space_mut(space).used = u64::MAX;
            bed.age(Effort::Heuristic);
        });
        (0..8).for_each(|page| assert_eq!(bed.read(space, 512 + page * 40), Touch::Hit));
        let before = bed.memory.reclaim.work.entries_examined;
        bed.age(effort);
        let promoted: Vec<u64> = (0..8000).filter(|&page| bed.seq_at(space, page) == Some(6)).collect();
        (bed.memory.reclaim.work.entries_examined - before, promoted)
    };
    let (few, found) = walk(true, Effort::Heuristic);
    let (all, found_without) = walk(false, Effort::Heuristic);
    let (forced, found_by_force) = walk(true, Effort::Forced);
    assert_eq!((few, all, forced), (512, 8192, 8192), "entries of one table, or of all 16");
    let expected: Vec<u64> = (0..8).map(|page| 512 + page * 40).collect();
    assert_eq!((found, found_without, found_by_force), (expected.clone(), expected.clone(), expected));
}

/// Patch 12: rows are the pages last seen in use at each ageing, and a `-` frees only pages of its rows.
#[test]
fn rows_are_the_truth_and_a_command_frees_its_rows_only() {
    let mut bed = bed(2048, DeviceKind::Zram);
    let space = bed.space(CgroupId::ROOT, 1024);
    (0..1000).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
    bed.insert();
    // Each time fewer pages are used: 1000, 700, 300, 100.
    bed.age(Effort::Forced);
    for used in [700, 300, 100] {
        (0..used).for_each(|page| assert_eq!(bed.read(space, page), Touch::Hit));
        bed.age(Effort::Forced);
    }
    let rows = |bed: &mut Testbed| -> Vec<(u64, u64)> {
        bed.mglru(|mglru, memory| mglru.rows(memory, ROOT)).iter().map(|row| (row.seq, row.anon_pages)).collect()
    };
    // Unused since the first and since the second one lie together: four generations are kept.
    assert_eq!(rows(&mut bed), [(4, 700), (5, 200), (6, 100), (7, 0)]);
    bed.mglru(|mglru, memory| mglru.write_lru_gen(memory, "- 0 0 4 max")).unwrap();
    assert_eq!(rows(&mut bed), [(4, 0), (5, 200), (6, 100), (7, 0)], "row 4 is empty, and no other changed");
    bed.check_lists();
}

/// Patch 06: with the same pages of both types, swappiness decides how the refaults are shared.
#[test]
fn refaults_follow_swappiness() {
    let refaults = |swappiness| {
        let mut bed = bed(700, DeviceKind::Zram);
        bed.memory.config.swappiness = swappiness;
        let file = bed.file("data", 500);
        let space = bed.space(CgroupId::ROOT, 500);
        bed.map_open_file(space, 1000, file, 500, false);
        let mut random = Lot(11);
        for _ in 0..12_000 {
            random.bin();
            let page = random.0 % 1000;
            let touch = if page < 500 { bed.write(space, page) } else { bed.read(space, 500 + page) };
            assert_ne!(touch, Touch::OutOfMemory);
        }
        bed.check_lists();
        (bed.count(Counter::WorkingsetRefaultAnon), bed.count(Counter::WorkingsetRefaultFile))
    };
    let share = |(anon, file): (u64, u64)| anon * 100 / (anon + file);
    let shares = [20, 100, 180].map(|swappiness| share(refaults(swappiness)));
    assert!(shares[0] + 10 < shares[1] && shares[1] <= shares[2], "{shares:?}");
}

/// Patch 09: a direct reclaimer's cost for its 32 pages does not grow with the number of groups.
#[test]
fn direct_reclaim_does_not_pay_for_all_groups() {
    let cost = |groups: u64, ours: bool| {
        let features = Features { group_order: ours, backoff: ours, ..Features::default() };
        let mut bed = bed_with(MglruConfig { features, ..MglruConfig::default() }, 20_000, DeviceKind::Zram);
        bed.memory.cgroups.charge_batch = 1;
        for number in 0..groups {
            let group = bed.group(CgroupId::ROOT, &format!("g{number}"));
            let file = bed.file(&format!("f{number}"), 100);
            (0..100).for_each(|page| _ = bed.cached(group, file, page));
        }
        bed.insert();
        bed.memory.ledger.take();
        let mut scan = Scan::new(Reclaimer::Direct, CgroupId::ROOT, 32, 60);
        scan.priority = 0;
        let node = NodeId::default();
        let mut attempt = Attempt::direct(node);
        if ours {
            bed.mglru(|mglru, memory| mglru.shrink_node(memory, node, &mut scan));
        } else {
            while attempt.step(&mut bed.memory, bed.policy.as_mut()) == ReclaimStep::Again {}
        }
        bed.check_lists();
        bed.memory.ledger.take()
    };
    let (few, many) = (cost(8, true), cost(128, true));
    assert!(many < few * 2, "{few} ns with 8 groups, {many} ns with 128");
    let (few, many) = (cost(8, false), cost(128, false));
    assert!(many > few * 4, "without turns and backoff: {few} ns with 8 groups, {many} ns with 128");
}
