use super::*;
use crate::cgroup::Knob;
use crate::counters::Counter;
use crate::fault::{self, Shortage};
use crate::memory::watermarks::WatermarkConfig;
use crate::reclaim::classic::Classic;
use crate::swap::device::DeviceKind;
use crate::testkit::{Testbed, Touch};

const ROOT: CgroupId = CgroupId::ROOT;
const NODE: NodeId = NodeId(0);

fn bed(frames: u64, swap: DeviceKind) -> Testbed {
    let mut bed = Testbed::new(Box::new(Classic::new()), frames, swap, 4096);
    bed.memory.cgroups.charge_batch = 1;
    bed
}

#[test]
fn c12_direct_vs_kswapd() {
    // A node of 4 GiB: marks 2048, 3096, 4144.
    let marks = WatermarkConfig::default();
    let mut bed = Testbed::with_watermarks(Box::new(Classic::new()), 1 << 20, DeviceKind::Zram, 64, marks);
    let file = bed.file("data", 3000);
    for page in 0..3000 {
        bed.cached(ROOT, file, page);
    }
    let set_free = |bed: &mut Testbed, free: u64| {
        let used = bed.memory.nodes.nr_used();
        bed.memory.nodes.set_hidden((1 << 20) - used - free);
        assert_eq!(bed.memory.nodes.get(NODE).free(), free);
    };
    let allocate = |bed: &mut Testbed| {
        bed.memory.kswapd_wanted.fill(false);
        let frame = fault::allocate(&mut bed.memory, ROOT, NODE, fault::MemoryPolicy::Local);
        if let Ok(frame) = frame {
            bed.memory.nodes.give(&mut bed.memory.frames, frame);
            bed.memory.cgroups.uncharge(ROOT, 1);
        }
        (frame.map(|_| ()), bed.memory.kswapd_wanted[0])
    };
    bed.memory.cgroups.charge_batch = 1;
    for (free, expected) in [
        (3097, (Ok(()), false)),
        (3096, (Ok(()), true)),
        (2049, (Ok(()), true)),
        (2048, (Err(Shortage::Node(NODE)), true)),
    ] {
        set_free(&mut bed, free);
        assert_eq!(allocate(&mut bed), expected, "{free} free");
    }
    // kswapd goes on until more than 4144 are free; the pages it scans at priority 12 of 3000 are none.
    set_free(&mut bed, 4145);
    assert_eq!(bed.run(Attempt::kswapd(NODE)), ReclaimStep::Done { reclaimed: 0 });
    set_free(&mut bed, 3096);
    let ReclaimStep::Done { reclaimed } = bed.run(Attempt::kswapd(NODE)) else { panic!("kswapd does not fail") };
    let free = bed.memory.nodes.get(NODE).free();
    assert_eq!(free, 3096 + reclaimed);
    assert!((4145..4145 + 800).contains(&free), "{free}: balance is tested between passes");
    assert_eq!((bed.count(Counter::PageOutRun), bed.count(Counter::PgStealKswapd)), (2, reclaimed));
    // Direct reclaim wants 32.
    set_free(&mut bed, 2048);
    let ReclaimStep::Done { reclaimed } = bed.run(Attempt::direct(NODE)) else { panic!("there is enough to reclaim") };
    assert!((32..64).contains(&reclaimed), "{reclaimed}");
    assert_eq!((bed.count(Counter::AllocStall), bed.count(Counter::PgStealDirect)), (1, reclaimed));
}

/// docs/spec/compaction.md#s2-5: kswapd frees pages that need no writing, lowers the boost and asks kcompactd for page
/// blocks.
#[test]
fn a_boost_is_reclaimed_without_swapping_and_handed_to_kcompactd() {
    for has_cache in [true, false] {
        let marks = WatermarkConfig::default();
        let mut bed = Testbed::with_watermarks(Box::new(Classic::new()), 1 << 15, DeviceKind::Zram, 64, marks);
        let space = bed.space(ROOT, 3000);
        for page in 0..3000 {
            bed.write(space, page);
        }
        if has_cache {
            let file = bed.file("data", 20_000);
            for page in 0..20_000 {
                bed.cached(ROOT, file, page);
            }
        }
        let plain = bed.memory.nodes.get(NODE).zones[0].marks;
        bed.memory.nodes.zone_mut(NODE, 0).boost_by_claims(2);
        assert_eq!(bed.memory.nodes.get(NODE).boost(), (plain.high * 3 / 2).clamp(512, 1024));
        assert!(bed.memory.nodes.get(NODE).is_balanced(), "enough is free");
        let ReclaimStep::Done { reclaimed } = bed.run(Attempt::kswapd(NODE)) else { panic!("it ends") };
        assert_eq!(reclaimed > 0, has_cache, "{reclaimed}");
        assert_eq!(bed.count(Counter::PswpOut), 0, "nothing is written for it");
        let zone = &bed.memory.nodes.get(NODE).zones[0];
        assert_eq!((zone.boost(), zone.marks), (0, plain));
        assert_eq!(bed.memory.kcompactd_wanted[NODE.index()], 9);
    }
}

#[test]
fn tasks_wait_for_kswapd_below_half_of_the_reserve() {
    let marks = WatermarkConfig::default();
    let mut bed = Testbed::with_watermarks(Box::new(Classic::new()), 1 << 20, DeviceKind::Zram, 64, marks);
    let file = bed.file("data", 64);
    for page in 0..64 {
        bed.cached(ROOT, file, page);
    }
    let set_free = |bed: &mut Testbed, free: u64| {
        let used = bed.memory.nodes.nr_used();
        bed.memory.nodes.set_hidden((1 << 20) - used - free);
    };
    set_free(&mut bed, 1024); // half of min, 2048
    let mut attempt = Attempt::direct(NODE);
    for _ in 0..2 {
        let step = attempt.step(&mut bed.memory, bed.policy.as_mut());
        assert_eq!(step, ReclaimStep::Wait(Duration::from_ms(1)));
        assert!(std::mem::take(&mut bed.memory.kswapd_wanted[0]));
    }
    assert_eq!((bed.count(Counter::PgScanDirectThrottle), bed.count(Counter::AllocStall)), (1, 0));
    set_free(&mut bed, 1025);
    assert_eq!(attempt.step(&mut bed.memory, bed.policy.as_mut()), ReclaimStep::Again);
    assert_eq!(bed.count(Counter::AllocStall), 1);
}

#[test]
fn kswapd_gives_up_after_16_runs_in_vain_until_something_is_reclaimed() {
    let marks = WatermarkConfig { min_free_kib: Some(64), scale_factor: 1000, ..WatermarkConfig::default() };
    let mut bed = Testbed::with_watermarks(Box::new(Classic::new()), 100, DeviceKind::None, 0, marks);
    bed.memory.cgroups.charge_batch = 1;
    let space = bed.space(ROOT, 100);
    let mut page = 0;
    while bed.write(space, page) == Touch::Minor {
        page += 1; // ends with direct reclaim failing: nothing can be swapped
    }
    for run in 1..=16 {
        assert!(!bed.memory.is_hopeless(NODE), "run {run}");
        assert_eq!(bed.run(Attempt::kswapd(NODE)), ReclaimStep::Done { reclaimed: 0 });
    }
    assert!(bed.memory.is_hopeless(NODE));
    let file = bed.file("data", 8);
    for page in 0..8 {
        bed.cached(ROOT, file, page);
    }
    assert!(matches!(bed.run(Attempt::kswapd(NODE)), ReclaimStep::Done { reclaimed: 1.. }));
    assert!(!bed.memory.is_hopeless(NODE));
}

#[test]
fn a_charge_fails_after_all_retries_and_counts_its_event() {
    let mut bed = bed(64, DeviceKind::None);
    let group = bed.group(ROOT, "g");
    bed.set(group, Knob::Max, 8);
    let space = bed.space(group, 16);
    (0..8).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
    assert_eq!(bed.write(space, 8), Touch::OutOfMemory);
    // The first run, one more after the stocks are drained, and 16 retries.
    assert_eq!(bed.memory.cgroups.get(group).events.max, 18);
    assert_eq!(bed.memory.cgroups.get(ROOT).events.max, 18);
    bed.check_lists();
}

#[test]
fn stocks_are_drained_before_anybody_is_killed() {
    let mut bed = bed(256, DeviceKind::None);
    bed.memory.cgroups.charge_batch = 64;
    let group = bed.group(ROOT, "g");
    let (a, b) = (bed.group(group, "a"), bed.group(group, "b"));
    bed.set(group, Knob::Max, 64);
    let (in_a, in_b) = (bed.space(a, 4), bed.space(b, 4));
    assert_eq!(bed.write(in_a, 0), Touch::Minor);
    assert_eq!((bed.memory.cgroups.get(a).stock, bed.memory.cgroups.get(group).usage), (63, 64));
    assert_eq!(bed.write(in_b, 0), Touch::Minor);
    assert_eq!(bed.memory.cgroups.get(a).stock, 0);
    bed.check_lists();
}

#[test]
fn partial_walks_share_the_burden() {
    let mut bed = bed(1024, DeviceKind::Zram);
    let parent = bed.group(ROOT, "parent");
    let groups = ["a", "b", "c"].map(|name| bed.group(parent, name));
    let file = bed.file("data", 900);
    for (index, group) in (0u32..).zip(groups) {
        for page in 0..300 {
            bed.cached(group, file, index * 300 + page);
        }
    }
    // At priority 2 a quarter of a list is scanned: one group is enough for 32 pages.
    let hit: Vec<usize> = (0..4)
        .map(|_| {
            let before = groups.map(|group| bed.memory.cgroups.get(group).usage);
            let mut scan = Scan::new(Reclaimer::Limit, parent, 32, 60);
            scan.priority = 2;
            walk::shrink_node(&mut bed.memory, bed.policy.as_mut(), NODE, &mut scan, walk::Extent::Partial);
            assert!((32..=64).contains(&scan.nr_reclaimed), "{}", scan.nr_reclaimed);
            let changed = |&at: &usize| bed.memory.cgroups.get(groups[at]).usage != before[at];
            let hit: Vec<usize> = (0..3).filter(changed).collect();
            assert_eq!(hit.len(), 1, "{hit:?}");
            hit[0]
        })
        .collect();
    assert_eq!(hit, [0, 1, 2, 0], "each walk begins after the group where the one before it met its goal");
    bed.check_lists();
}

#[test]
fn low_is_broken_only_when_nothing_else_is_left() {
    let mut bed = bed(128, DeviceKind::Zram);
    let parent = bed.group(ROOT, "parent");
    let (kept, taken) = (bed.group(parent, "kept"), bed.group(parent, "taken"));
    bed.set(kept, Knob::Low, 40);
    let file = bed.file("data", 100);
    for page in 0..40 {
        bed.cached(kept, file, page);
    }
    for page in 40..80 {
        bed.cached(taken, file, page);
    }
    let usage = |bed: &Testbed, group| bed.memory.cgroups.get(group).usage;
    while usage(&bed, taken) > 0 {
        assert_ne!(bed.run(Attempt::once(parent, 8)), ReclaimStep::Done { reclaimed: 0 });
        assert_eq!((usage(&bed, kept), bed.memory.cgroups.get(kept).events.low), (40, 0));
    }
    assert_ne!(bed.run(Attempt::once(parent, 8)), ReclaimStep::Done { reclaimed: 0 });
    assert!(usage(&bed, kept) < 40 && bed.memory.cgroups.get(kept).events.low > 0);
    // `min` is never broken, and the target's own protection does not count.
    for page in 80..100 {
        bed.cached(kept, file, page);
    }
    let left = usage(&bed, kept);
    bed.set(kept, Knob::Min, 40);
    assert_eq!(bed.run(Attempt::once(parent, 8)), ReclaimStep::Done { reclaimed: 0 });
    assert_eq!(usage(&bed, kept), left);
    assert_ne!(bed.run(Attempt::once(kept, 1)), ReclaimStep::Done { reclaimed: 0 });
    bed.check_lists();
}

#[test]
fn reclaim_waits_for_a_full_device_queue_and_for_writes_before_it_fails() {
    let mut bed = bed(2048, DeviceKind::Disk);
    let space = bed.space(ROOT, 1024);
    for page in 0..1024 {
        bed.write(space, page);
        let table = &mut bed.memory.space_mut(space).table;
        let dense = table.dense(page).unwrap();
        table.test_and_clear_young(dense);
    }
    let mut attempt = Attempt::once(ROOT, 1024);
    let mut waits = 0;
    let Testbed { memory, policy, .. } = &mut bed;
    loop {
        match attempt.step(memory, policy.as_mut()) {
            ReclaimStep::Again => assert!(memory.io.writes_in_flight() < 256 + 32, "the queue is bounded"),
            ReclaimStep::Wait(_) => {
                waits += 1;
                memory.now = memory.io.next_completion().expect("it waits for the device");
                let now = memory.now;
                fault::complete_io(memory, policy.as_mut(), now);
            }
            ReclaimStep::Done { reclaimed } => break assert!(reclaimed > 700, "{reclaimed}"),
            ReclaimStep::Failed => panic!("pages were being written"),
        }
    }
    assert!(waits > 0);
    bed.settle();
    bed.check_lists();
}

#[test]
fn proactive_reclaim_has_its_own_counters_and_swappiness() {
    let mut bed = bed(256, DeviceKind::Zram);
    let group = bed.group(ROOT, "g");
    let space = bed.space(group, 64);
    for page in 0..64 {
        bed.write(space, page);
    }
    let file = bed.file("data", 64);
    for page in 0..64 {
        bed.cached(group, file, page);
    }
    assert!(matches!(bed.run(Attempt::proactive(group, 32, 201)), ReclaimStep::Done { reclaimed: 32.. }));
    assert_eq!((bed.count(Counter::PgStealFile), bed.count(Counter::PgStealDirect)), (0, 0));
    let anon = bed.count(Counter::PgStealAnon);
    assert_eq!(bed.count(Counter::PgStealProactive), anon);
    assert!(matches!(bed.run(Attempt::proactive(group, 32, 0)), ReclaimStep::Done { reclaimed: 32.. }));
    assert_eq!(bed.count(Counter::PgStealAnon), anon, "swappiness 0 spares anonymous pages");
    bed.check_lists();
}
