//! The baselines against their definitions (`docs/mechanism/reclaim.md#baselines`): page by page, on a group of `n` pages.

use super::driver::{Attempt, ReclaimStep};
use super::{PolicyError, baselines, policy_by_name};
use crate::cgroup::{CgroupId, Knob};
use crate::counters::Counter;
use crate::mmu::SpaceId;
use crate::swap::device::DeviceKind;
use crate::testkit::{Testbed, Touch};
use isotherm_units::access::{Future, Owner};
use isotherm_units::{PageRange, Pages};
use proptest::prelude::*;

/// A group of `n` pages with a process of its own.
fn group_of(policy: &str, n: u64, swap: DeviceKind) -> (Testbed, CgroupId, SpaceId) {
    let entry = policy_by_name(policy).unwrap();
    let mut bed = Testbed::new(entry.build(), 64, swap, 1024);
    let group = bed.group(CgroupId::ROOT, "judged");
    bed.set(group, Knob::Max, n);
    let space = bed.space(group, 256);
    (bed, group, space)
}

fn future_of(requests: &[u64]) -> Future {
    let ranges = vec![(Owner::Process(0), PageRange::new(0, 256))];
    let built = Future::build::<()>(ranges, |each| {
        requests.iter().for_each(|&page| each(Owner::Process(0), page));
        Ok(())
    });
    built.unwrap().unwrap()
}

/// Requests that miss.
fn misses(policy: &str, n: u64, swap: DeviceKind, requests: &[u64]) -> Vec<bool> {
    let (mut bed, group, space) = group_of(policy, n, swap);
    if bed.policy.needs_future() {
        bed.policy.set_future(0, future_of(requests), &[]).unwrap();
    }
    let missed: Vec<bool> = requests.iter().map(|&page| bed.write(space, page) != Touch::Hit).collect();
    bed.settle();
    bed.check_lists();
    let evicted = missed.iter().filter(|&&miss| miss).count() as u64;
    let resident = bed.memory.cgroups.get(group).usage;
    assert_eq!(bed.count(Counter::PgStealAnon), evicted - resident, "one eviction for each page needed");
    missed
}

/// The definitions, as slow as they read.
fn model(policy: &str, n: usize, requests: &[u64]) -> Vec<bool> {
    let mut queue: Vec<(u64, bool)> = Vec::new(); // oldest first, with the reference bit
    let mut missed = Vec::new();
    for (now, &page) in requests.iter().enumerate() {
        let at = queue.iter().position(|&(other, _)| other == page);
        missed.push(at.is_none());
        if let Some(at) = at {
            match policy {
                "lru" => {
                    let hit = queue.remove(at);
                    queue.push(hit);
                }
                "clock" => queue[at].1 = true,
                _ => {}
            }
            continue;
        }
        if queue.len() == n {
            while policy == "clock" && queue[0].1 {
                let (spared, _) = queue.remove(0);
                queue.push((spared, false));
            }
            let next_use = |page| requests[now..].iter().position(|&other| other == page).unwrap_or(usize::MAX);
            let farthest = (0..n).max_by_key(|&at| next_use(queue[at].0)).unwrap();
            queue.remove(if policy == "opt" { farthest } else { 0 });
        }
        queue.push((page, false));
    }
    missed
}

#[test]
fn the_documented_example() {
    let requests: Vec<u64> = [1, 2, 3, 1, 4, 1, 2, 5, 3, 1, 2, 4, 5, 1].repeat(3);
    // docs/mechanism/reclaim.md#baselines: misses at N = 2, 3, 4.
    let table = [("lru", [37, 34, 20]), ("fifo", [37, 37, 17]), ("clock", [35, 31, 20]), ("opt", [28, 20, 12])];
    for (policy, expected) in table {
        let counted =
            [2, 3, 4].map(|n| misses(policy, n, DeviceKind::Zram, &requests).into_iter().filter(|&miss| miss).count());
        assert_eq!(counted, expected, "{policy}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]
    #[test]
    fn each_baseline_misses_where_its_definition_does(
        requests in prop::collection::vec(0u64..24, 1..160),
        n in 1u64..16,
        swap in prop::sample::select(vec![DeviceKind::Zram, DeviceKind::Nvme, DeviceKind::Disk]),
    ) {
        for policy in baselines().map(|entry| entry.name) {
            let missed = misses(policy, n, swap, &requests);
            // Ties of opt lie between pages that are not used again, so the sequence is unique there too.
            prop_assert_eq!(missed, model(policy, usize::try_from(n).expect("small"), &requests), "{}", policy);
        }
    }
}

#[test]
fn a_monitor_that_clears_accessed_bits_changes_nothing() {
    let mut seed = 1u64;
    let mut random = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    let requests: Vec<(u64, u64)> = (0..3000).map(|_| (random(24), random(24))).collect();
    let pages: Vec<u64> = requests.iter().map(|&(page, _)| page).collect();
    for policy in ["lru", "clock"] {
        let (mut bed, _, space) = group_of(policy, 9, DeviceKind::Zram);
        let mut missed = Vec::new();
        for &(page, watched) in &requests {
            missed.push(bed.write(space, page) != Touch::Hit);
            // What the host does for a monitor (`crates/sim/src/host/virtual_space.rs`).
            let memory = &mut bed.memory;
            let dense = memory.space(space).table.dense(watched);
            if let Some(frame) = memory.space(space).table.frame_at(watched)
                && memory.space_mut(space).table.test_and_clear_young(dense.expect("mapped"))
            {
                memory.frames.leave_young(frame);
            }
        }
        bed.check_lists();
        assert_eq!(missed, model(policy, 9, &pages), "{policy}");
    }
}

#[test]
fn opt_never_misses_more_often_and_long_logs_are_compacted() {
    // 20 000 requests with some locality, 40 pages in all: logs and heaps are compacted on the way.
    let mut seed = 1u64;
    let requests: Vec<u64> = (0..20_000)
        .map(|i| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let spread = if seed >> 60 == 0 { 40 } else { 12 };
            (seed >> 33) % spread + (i / 4000)
        })
        .collect();
    let count = |policy| misses(policy, 8, DeviceKind::Zram, &requests).into_iter().filter(|&miss| miss).count();
    let floor = count("opt");
    for policy in baselines().map(|entry| entry.name) {
        let model = model(policy, 8, &requests).into_iter().filter(|&miss| miss).count();
        assert_eq!(count(policy), model, "{policy}");
        assert!(floor <= model, "{policy}: {model} below {floor}");
    }
}

#[test]
fn the_oldest_page_of_a_subtree_goes_wherever_it_lies() {
    for policy in ["lru", "fifo", "clock"] {
        let (mut bed, outer, _) = group_of(policy, 4, DeviceKind::Zram);
        let (a, b) = (bed.group(outer, "a"), bed.group(outer, "b"));
        let (in_a, in_b) = (bed.space(a, 8), bed.space(b, 8));
        bed.write(in_b, 0);
        bed.write(in_a, 0);
        bed.write(in_b, 1);
        bed.write(in_a, 1);
        bed.write(in_a, 2);
        assert_eq!(bed.frame(in_b, 0), None, "{policy}: the oldest of both groups");
        bed.set(a, Knob::Max, 3);
        bed.write(in_a, 3);
        assert_eq!(bed.frame(in_a, 0), None, "{policy}: the oldest of the group at its limit");
        assert!(bed.frame(in_b, 1).is_some(), "{policy}: another group's page");
        bed.check_lists();
    }
}

#[test]
fn a_locked_page_is_passed_over_and_found_nothing_is_failure() {
    for entry in baselines() {
        let (mut bed, group, space) = group_of(entry.name, 2, DeviceKind::Zram);
        bed.write(space, 0);
        bed.write(space, 1);
        let locked = bed.frame(space, 0).unwrap();
        bed.lock(locked);
        bed.write(space, 2);
        assert_eq!((bed.frame(space, 0), bed.frame(space, 1)), (Some(locked), None), "{}", entry.name);
        let other = bed.frame(space, 2).unwrap();
        bed.lock(other);
        assert_eq!(bed.write(space, 3), Touch::OutOfMemory, "{}", entry.name);
        assert_eq!(bed.run(Attempt::once(group, 1)), ReclaimStep::Done { reclaimed: 0 }, "{}", entry.name);
        bed.check_lists();
    }
}

/// Each page that cannot go moves to the young end; a page that keeps its place must not make the search start over.
#[test]
fn a_search_that_finds_nothing_reads_each_page_a_few_times() {
    for policy in ["lru", "fifo", "clock"] {
        let (mut bed, group, space) = group_of(policy, 200, DeviceKind::None);
        (0..200).for_each(|page| _ = bed.write(space, page));
        bed.lock(bed.frame(space, 0).unwrap());
        let before = super::order_log::READS.get();
        assert_eq!(bed.run(Attempt::once(group, 1)), ReclaimStep::Done { reclaimed: 0 }, "{policy}");
        let reads = super::order_log::READS.get() - before;
        assert!(reads < 200 * 20, "{policy}: {reads}");
        bed.check_lists();
    }
}

#[test]
fn without_swap_only_file_pages_go() {
    for entry in baselines() {
        let (mut bed, _, space) = group_of(entry.name, 6, DeviceKind::None);
        let file = bed.file("data", 32);
        bed.map_open_file(space, 1000, file, 32, false);
        for page in 0..4 {
            bed.write(space, page);
        }
        for page in 0..32 {
            assert_ne!(bed.read(space, 1000 + page), Touch::OutOfMemory, "{}", entry.name);
        }
        assert!((0..4).all(|page| bed.frame(space, page).is_some()), "{}", entry.name);
        assert_eq!(bed.count(Counter::PgStealFile), 30, "{}: two fit beside the four", entry.name);
        bed.check_lists();
        bed.write(space, 4);
        bed.write(space, 5);
        assert_eq!(bed.write(space, 6), Touch::OutOfMemory, "{}", entry.name);
        bed.check_lists();
    }
}

#[test]
fn a_dirty_file_page_is_written_and_its_frame_is_free_at_once() {
    for entry in baselines() {
        let (mut bed, _, space) = group_of(entry.name, 1, DeviceKind::None);
        let file = bed.file("data", 4);
        bed.map_open_file(space, 1000, file, 4, false);
        for page in [0, 1, 0] {
            assert_eq!(bed.write(space, 1000 + page), Touch::Major, "{}", entry.name);
        }
        assert_eq!(bed.memory.io.storage.stats().pages_written, 2, "{}", entry.name);
        bed.check_lists();
    }
}

#[test]
fn opt_counts_a_page_shared_by_fork_at_its_nearest_use() {
    let (mut bed, _, parent) = group_of("opt", 3, DeviceKind::Zram);
    let ranges = vec![(Owner::Process(0), PageRange::new(0, 8)), (Owner::Process(1), PageRange::new(0, 8))];
    // The parent uses 0, 1, 2; the child uses 0 soon, and neither uses 1 again.
    let uses = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (0, 2)];
    let future = Future::build::<()>(ranges, |each| {
        uses.iter().for_each(|&(process, page)| each(Owner::Process(process), page));
        Ok(())
    });
    bed.policy.set_future(0, future.unwrap().unwrap(), &[]).unwrap();
    (0..3).for_each(|page| assert_eq!(bed.write(parent, page), Touch::Minor));
    let child = bed.fork(parent);
    bed.write(parent, 3);
    assert_eq!(bed.frame(parent, 1), None, "not used by anybody again");
    assert_eq!(bed.read(child, 0), Touch::Hit);
    assert_eq!(bed.read(parent, 2), Touch::Hit);
    bed.check_lists();
}

#[test]
fn lru_keeps_the_order_of_pages_that_a_fork_shares() {
    let (mut bed, _, parent) = group_of("lru", 4, DeviceKind::Zram);
    (0..4).for_each(|page| assert_eq!(bed.write(parent, page), Touch::Minor));
    assert_eq!(bed.read(parent, 0), Touch::Hit);
    let child = bed.fork(parent);
    bed.check_lists();
    assert_eq!(bed.read(child, 1), Touch::Hit);
    bed.exit(parent);
    bed.check_lists();
    // Oldest first: 2, 3, 0 (read by the parent), 1 (by the child).
    for (new, gone) in [(10, 2), (11, 3), (12, 0), (13, 1)] {
        bed.write(child, new);
        assert_eq!(bed.frame(child, gone), None, "{gone} goes for {new}");
        bed.check_lists();
    }
}

#[test]
fn opt_refuses_a_second_future() {
    let mut opt = policy_by_name("opt").unwrap().build();
    opt.set_future(0, Future::default(), &[]).unwrap();
    assert_eq!(opt.set_future(0, Future::default(), &[]), Ok(()), "the same program again");
    let refused = opt.set_future(1, Future::default(), &[]).unwrap_err();
    assert_eq!(refused, PolicyError::SeveralFutures { first: 0, second: 1 });
}

#[test]
fn a_lowered_limit_is_reached_exactly() {
    for entry in baselines() {
        let (mut bed, group, space) = group_of(entry.name, 16, DeviceKind::Nvme);
        (0..16).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        assert_eq!(bed.run(Attempt::once(group, 5)), ReclaimStep::Done { reclaimed: 5 }, "{}", entry.name);
        assert_eq!(bed.memory.cgroups.get(group).usage, 11, "{}", entry.name);
        assert_eq!(Pages::new(bed.count(Counter::PswpOut)), Pages::new(5), "{}", entry.name);
        bed.check_lists();
    }
}
