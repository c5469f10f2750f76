//! Steps of a tick, their times, and the reports.

use super::*;
use crate::host::{Attribute, Level};
use isotherm_units::{Bytes, Ratio};

fn no_goal_reached() -> Option<IntervalsGoal> {
    // Nothing is accessed, and the sampling interval is at its upper bound: tuning runs and changes nothing.
    Some(IntervalsGoal { max_sample_interval: Duration::from_ms(5), ..IntervalsGoal::default() })
}

/// docs/spec/monitoring.md#s17, example 46.
#[test]
fn aggregations_updates_and_tunings_have_their_ticks() {
    let mut bench = Bench::fixed(&[(0, GIB)], |config| config.attributes.intervals_goal = no_goal_reached());
    assert_eq!(bench.monitor.schedule.next_update, 12_000, "example 46");
    assert_eq!(bench.monitor.schedule.next_tuning, 60, "example 46");
    assert_eq!(bench.aggregations_in(61), [20, 40, 60], "example 46");
    assert_eq!(bench.monitor.schedule.next_tuning, 120, "example 46");
    assert_eq!(bench.monitor.schedule.next_update, 12_000, "not armed again: no interval changed");
}

/// docs/spec/monitoring.md#s17, example 47.
#[test]
fn tuning_arms_all_schedules_again() {
    let mut bench = Bench::fixed(&[(0, GIB)], |config| {
        config.attributes.intervals_goal = Some(IntervalsGoal::default());
    });
    assert_eq!(bench.aggregations_in(60), [20, 40, 60]);
    // Nothing was accessed: score 0, twice the interval.
    assert_eq!(bench.monitor.attributes().sample_interval, Duration::from_ms(10), "example 47");
    let schedule = bench.monitor.schedule;
    let armed = (schedule.next_aggregation, schedule.next_tuning, schedule.next_update);
    assert_eq!(armed, (80, 120, 60 + 6000), "example 47");
    assert_eq!(
        bench.monitor.snapshot().aggr_interval,
        Duration::from_ms(200),
        "the snapshot is stated in new intervals"
    );
    let tuned = Event::Tuned { sample_interval: Duration::from_ms(10), aggr_interval: Duration::from_ms(200) };
    assert_eq!(bench.events, [tuned]);
}

/// docs/spec/monitoring.md#s17, example 50.
#[test]
fn tuning_switched_on_late_catches_up_at_every_aggregation() {
    let mut bench = Bench::fixed(&[(0, GIB)], |_| {});
    bench.aggregations_in(1199);
    bench.commit_attributes(|attributes| attributes.intervals_goal = no_goal_reached());
    let mut tunings = Vec::new();
    for _ in 1200..=1940 {
        let before = bench.monitor.schedule.next_tuning;
        bench.tick();
        if bench.monitor.schedule.next_tuning != before {
            tunings.push(bench.monitor.schedule.tick);
        }
    }
    let mut expected: Vec<u64> = (1200..=1800).step_by(20).collect();
    assert_eq!(expected.len(), 31);
    expected.extend([1860, 1920]);
    assert_eq!(tunings, expected, "example 50");
}

/// docs/spec/monitoring.md#s3: a snapshot is taken after merging and before the reset.
#[test]
fn hot_and_cold_are_told_apart() {
    let mut bench = Bench::fixed(&[(0, 100 * 4096)], |_| {});
    bench.world.space(0).hot = (0..40).map(|page| page * 4096).collect();
    let mut snapshot = Snapshot::default();
    for _ in 0..20 {
        snapshot = bench.aggregate().clone();
    }
    assert_eq!((snapshot.number, snapshot.nr_accesses_max, snapshot.elapsed), (20, 20, Duration::from_ms(100)));
    let hot: u64 =
        snapshot.regions.iter().filter(|region| region.nr_accesses == 20).map(|region| region.range.len()).sum();
    assert_eq!(hot / 4096, 40, "{:?}", snapshot.regions);
    assert!(snapshot.regions.iter().any(|region| region.nr_accesses == 0 && region.age > 10));
    let tests: u64 = snapshot.levels.iter().map(|level| level.tests).sum();
    assert!(tests >= 20 * 10 && snapshot.levels[0].accessed > 0);
}

#[test]
fn early_calls_do_nothing_and_late_ones_count_what_was_missed() {
    let mut bench = Bench::fixed(&[(0, GIB)], |_| {});
    let before = bench.monitor.activity;
    assert_eq!(bench.monitor.handle_timeout(Instant::from_ns(4_999_999), &mut bench.world), Tick::default());
    assert_eq!(bench.monitor.activity, before);
    let late = Instant::from_ns(5_000_000 + 17_000_000);
    assert_eq!(bench.monitor.handle_timeout(late, &mut bench.world).missed, 3);
    assert_eq!((bench.monitor.activity.ticks, bench.monitor.activity.missed_ticks), (1, 3));
    assert_eq!(bench.monitor.poll_timeout(), Some(late + Duration::from_ms(5)), "from here on, without catching up");
}

#[test]
fn a_target_that_ends_is_dropped_and_told() {
    let mut bench = Bench::fixed(&[(0, GIB)], |_| {});
    bench.world.map(TargetId(1), &[(0, GIB)]);
    bench.monitor.add_target(TargetId(1), &[UnitRange::new(0, GIB)], &bench.world).unwrap();
    bench.tick();
    bench.world.spaces.remove(&TargetId(0));
    bench.tick();
    assert_eq!(bench.events, [Event::TargetGone(TargetId(0))]);
    assert_eq!(bench.monitor.targets().collect::<Vec<_>>(), [TargetId(1)]);
    bench.world.spaces.clear();
    bench.tick();
    assert_eq!(bench.events[1..], [Event::TargetGone(TargetId(1)), Event::Stopped]);
    assert_eq!(bench.monitor.poll_timeout(), None);
}

#[test]
fn what_the_host_refuses_is_told_and_costs_one_sample() {
    for call in ["clear", "test", "mappings", "scan_children", "flush"] {
        let mut bench = Bench::fixed(&[(0, 64 * GIB)], |config| {
            config.operations = Operations::Vaddr;
            config.attributes.ops_update_interval = Duration::ZERO;
            config.strategy = "ptp-descend".parse().unwrap();
            config.flush = FlushPolicy::Batched;
        });
        bench.world.space(0).hot = vec![5 * GIB];
        bench.events.clear();
        bench.world.failing = Some(call);
        for _ in 0..200 {
            bench.tick();
        }
        let reported = bench
            .events
            .iter()
            .any(|event| matches!(event, Event::HostFailed { call: reported, .. } if *reported == call));
        assert!(reported, "{call}: {:?}", bench.events);
        bench.world.failing = None;
        bench.tick();
        bench.events.clear();
        bench.tick();
        let is_failure = |event: &Event| matches!(event, Event::HostFailed { .. });
        assert!(!bench.events.iter().any(is_failure), "{call}: over once it works again");
    }
}

/// docs/spec/monitoring.md#s9: ranges follow the mappings, given ones last until the first update.
#[test]
fn regions_of_a_process_follow_its_mappings() {
    let mut bench = Bench::fixed(&[(0, MIB), (4 * GIB, 5 * GIB), (9 * GIB, 10 * GIB)], |config| {
        config.operations = Operations::Vaddr;
        config.attributes.ops_update_interval = Duration::from_ms(10);
    });
    let covered = |bench: &Bench| {
        let regions = bench.monitor.regions(TargetId(0)).unwrap();
        (regions[0].range.start, regions[regions.len() - 1].range.end, regions.iter().map(Region::len).sum::<u64>())
    };
    assert_eq!(covered(&bench), (0, 10 * GIB, MIB + 2 * GIB));
    bench.world.map(TargetId(0), &[(4 * GIB, 4 * GIB + MIB), (5 * GIB, 6 * GIB), (20 * GIB, 21 * GIB)]);
    bench.tick();
    bench.tick();
    assert_eq!(covered(&bench), (4 * GIB, 21 * GIB, MIB + 2 * GIB));
    // A shrunken layout without two gaps: regions stay, and it is reported.
    bench.world.map(TargetId(0), &[(4 * GIB, 5 * GIB)]);
    bench.tick();
    bench.tick();
    assert_eq!(covered(&bench), (4 * GIB, 21 * GIB, MIB + 2 * GIB));
    assert!(matches!(bench.events.last(), Some(Event::NoLayout { why: RangesError::TooFewGaps, .. })));
}

#[test]
fn a_process_without_ranges_gets_them_at_the_start() {
    let world = World::new(&[(0, MIB), (4 * GIB, 5 * GIB), (9 * GIB, 10 * GIB)]);
    let mut monitor = Monitor::new(MonitorConfig::default(), 1).unwrap();
    monitor.add_target(TargetId(0), &[], &world).unwrap();
    let bench = Bench { world, monitor, events: Vec::new() }.started();
    let regions = bench.monitor.regions(TargetId(0)).unwrap();
    assert!(regions.len() >= 10, "cut to the fewest allowed");
    assert_eq!(regions.last().unwrap().range.end, 10 * GIB);
}

/// The kernel would monitor nothing; docs/mechanism/monitoring.md.
#[test]
fn a_process_with_few_mappings_is_watched_as_it_is() {
    let world = World::new(&[(GIB, 2 * GIB)]);
    let mut config = MonitorConfig::default();
    config.attributes.ops_update_interval = Duration::from_ms(10);
    let mut monitor = Monitor::new(config, 1).unwrap();
    monitor.add_target(TargetId(0), &[], &world).unwrap();
    let mut bench = Bench { world, monitor, events: Vec::new() }.started();
    let covered = |bench: &Bench| {
        let regions = bench.monitor.regions(TargetId(0)).unwrap();
        (regions[0].range.start, regions.iter().map(Region::len).sum::<u64>())
    };
    assert_eq!(covered(&bench), (GIB, GIB));
    bench.world.map(TargetId(0), &[(GIB, 2 * GIB), (5 * GIB, 6 * GIB)]);
    bench.tick();
    bench.tick();
    assert_eq!(covered(&bench), (GIB, 2 * GIB), "it follows");
    bench.world.map(TargetId(0), &[(GIB, 2 * GIB), (5 * GIB, 6 * GIB), (9 * GIB, 10 * GIB)]);
    bench.tick();
    bench.tick();
    assert_eq!(covered(&bench), (GIB, 3 * GIB), "three ranges, as soon as they can be had");
    bench.world.map(TargetId(0), &[(GIB, 2 * GIB)]);
    bench.tick();
    bench.tick();
    assert_eq!(covered(&bench), (GIB, 3 * GIB), "they stay, as in the kernel");
}

#[test]
fn a_pause_sleeps_in_the_middle_of_a_tick() {
    let mut bench = Bench::fixed(&[(0, GIB)], |_| {});
    bench.aggregations_in(19);
    bench.monitor.set_paused(true);
    for _ in 0..5 {
        assert!(!bench.tick().has_snapshot);
        assert_eq!(bench.monitor.schedule.tick, 20, "ticks do not count on");
    }
    bench.monitor.set_paused(false);
    assert!(bench.tick().has_snapshot, "the tick goes on where it was");
    assert_eq!(bench.aggregations_in(20), [40]);
}

/// docs/spec/monitoring.md#s15, acceptance tests 3 and 5.
#[test]
fn fewer_regions_are_reached_within_an_aggregation_and_no_change_changes_nothing() {
    let mut bench = Bench::fixed(&[(0, 64 * GIB)], |_| {});
    bench.aggregations_in(200);
    bench.commit_attributes(|attributes| (attributes.min_nr_regions, attributes.max_nr_regions) = (3, 7));
    bench.aggregations_in(60);
    assert!(bench.monitor.snapshot().regions.len() <= 7);

    let mut other = bench.monitor.clone();
    let mut other_world = bench.world.clone();
    bench.commit_attributes(|_| {});
    bench.aggregations_in(20);
    for _ in 0..20 {
        other_world.run();
        let at = other.poll_timeout().unwrap();
        other.handle_timeout(at, &mut other_world);
    }
    assert_eq!(bench.monitor.snapshot(), other.snapshot());
}

/// docs/spec/monitoring.md#s11: entries meet targets by their place; section 17, example 21.
#[test]
fn a_commit_matches_targets_by_place() {
    let mut bench = Bench::fixed(&[(0, GIB)], |_| {});
    bench.aggregate();
    let range = |start, end| UnitRange::new(start, end);
    let set = |id, ranges: &[UnitRange]| TargetChange::Set { id: TargetId(id), ranges: ranges.to_vec() };
    let config = bench.monitor.config().clone();
    bench.world.map(TargetId(1), &[(0, GIB)]);
    // Without ranges everything stays; a further entry is a new target.
    let before = bench.monitor.regions(TargetId(0)).unwrap().to_vec();
    let changes = [set(0, &[]), set(1, &[range(0, MIB)])];
    bench.monitor.commit(config.clone(), Some(&changes), &bench.world).unwrap();
    bench.tick();
    let ranges = |regions: &[Region]| regions.iter().map(|region| region.range).collect::<Vec<_>>();
    assert_eq!(ranges(bench.monitor.regions(TargetId(0)).unwrap()), ranges(&before), "example 21");
    assert_eq!(bench.events, [Event::Committed]);
    // The first goes, the second keeps its place and shrinks.
    let changes = [TargetChange::Remove, set(1, &[range(4096, 8192)])];
    bench.monitor.commit(config.clone(), Some(&changes), &bench.world).unwrap();
    bench.tick();
    assert_eq!(bench.monitor.targets().collect::<Vec<_>>(), [TargetId(1)]);
    assert_eq!(ranges(bench.monitor.regions(TargetId(1)).unwrap()), [range(4096, 8192)]);
    // An impossible change is refused whole: also where a smaller unit would make ranges meet.
    let coarse = MonitorConfig { addr_unit: Bytes::ZERO, ..config.clone() };
    assert!(bench.monitor.commit(coarse, None, &bench.world).is_err());
    for (changes, expected) in [
        (vec![set(1, &[]), TargetChange::Remove], "target entry 1 takes away a target, but the context has only 1"),
        (vec![set(1, &[range(5, 5)])], "target 1: range 0 (0x5-0x5) is empty; allowed: an end above the start"),
        (vec![set(1, &[]), set(1, &[])], "target 1 is in this context already"),
        (vec![set(1, &[]), set(2, &[])], "target 2: `fvaddr` needs ranges to monitor"),
    ] {
        let error = bench.monitor.commit(config.clone(), Some(&changes), &bench.world).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    bench.tick();
    assert_eq!(bench.monitor.targets().collect::<Vec<_>>(), [TargetId(1)]);
}

#[test]
fn what_the_host_cannot_do_is_an_error_at_once() {
    let mut world = World::new(&[(0, GIB)]);
    world.capabilities.flush = false;
    world.capabilities.scan_children = false;
    let add = |world: &World, change: fn(&mut MonitorConfig)| {
        let mut config = MonitorConfig { operations: Operations::Fvaddr, ..MonitorConfig::default() };
        change(&mut config);
        let mut monitor = Monitor::new(config, 1).unwrap();
        monitor.add_target(TargetId(0), &[UnitRange::new(0, GIB)], world).map_err(|error| error.to_string())
    };
    assert_eq!(add(&world, |_| {}), Ok(()));
    let error = add(&world, |config| config.flush = FlushPolicy::Adaptive).unwrap_err();
    assert_eq!(error, "target 0: `flush` is not available here: a way to drop cached translations");
    assert!(
        add(&world, |config| config.strategy = "ptp-descend".parse().unwrap())
            .unwrap_err()
            .contains("whole page tables")
    );
    world.capabilities.highest_level = Level::LEAF;
    assert!(add(&world, |config| config.strategy = "ptp".parse().unwrap()).unwrap_err().contains("above the leaves"));

    let mut physical =
        Monitor::new(MonitorConfig { operations: Operations::Paddr, ..MonitorConfig::default() }, 1).unwrap();
    let ranges = [UnitRange::new(0, GIB)];
    assert!(matches!(physical.add_target(TargetId(0), &[], &world), Err(MonitorError::RangesMissing { .. })));
    physical.add_target(TargetId(0), &ranges, &world).unwrap();
    assert_eq!(physical.add_target(TargetId(0), &ranges, &world), Err(MonitorError::TargetTwice(TargetId(0))));
    assert_eq!(physical.add_target(TargetId(1), &ranges, &world), Err(MonitorError::SecondPhysicalTarget(TargetId(1))));
}

/// docs/spec/monitoring.md#s12: probes are counted per sample, reported, and reset.
#[test]
fn attribute_probes_estimate_shares() {
    let filter = ProbeFilter { attribute: Attribute::Anon, matching: true, allow: true };
    let mut bench = Bench::fixed(&[(0, GIB)], |config| {
        config.operations = Operations::Paddr;
        config.addr_unit = Bytes::new(4);
        config.probes = vec![AttributeProbe { filters: vec![filter] }, AttributeProbe::default()];
    });
    bench.world.anon = vec![AddressRange::new(0, 2 * GIB)];
    let snapshot = bench.aggregate().clone();
    assert_eq!(snapshot.regions.last().unwrap().range.end, 4 * GIB, "bytes, not units");
    let (mut anon, mut all) = (0, 0);
    for region in &snapshot.regions {
        let units = region.range.len() / 4;
        anon += u64::from(region.probe_hits[0]) * units;
        all += u64::from(region.probe_hits[1]) * units;
    }
    assert_eq!(all, 20 * GIB, "a probe without filters passes always");
    assert!((anon * 100 / all).abs_diff(50) <= 10, "half of memory is anonymous: {anon} of {all}");
    assert!(bench.monitor.regions(TargetId(0)).unwrap().iter().all(|region| region.probe_hits == [0; PROBES_MAX]));
}

/// Plain samples miss one hot GiB of 1 TiB; entries of 1 GiB do not (docs/spec/page-table-profiling.md#s1).
#[test]
fn upper_entries_find_what_pages_miss() {
    let hot: Vec<u64> = (0..512).map(|entry| 300 * GIB + entry * 2 * MIB).collect();
    let found = |strategy: &str| {
        let mut bench = Bench::fixed(&[(0, 1024 * GIB)], |config| {
            config.strategy = strategy.parse().unwrap();
            config.attributes.aggr_interval = Duration::from_ms(200);
        });
        bench.world.space(0).hot = hot.clone();
        let mut bytes = 0;
        for _ in 0..15 {
            let regions = bench.aggregate().regions.iter();
            let is_hot = |region: &&RegionRecord| {
                region.nr_accesses > 20 && region.range.overlaps(AddressRange::new(300 * GIB, 301 * GIB))
            };
            bytes = regions.filter(is_hot).map(|region| region.range.len()).sum::<u64>();
        }
        (bytes, bench)
    };
    assert_eq!(found("leaf").0, 0);
    for strategy in ["ptp", "ptp-aligned", "flex"] {
        let (bytes, _) = found(strategy);
        assert!((GIB / 2..4 * GIB).contains(&bytes), "{strategy}: {bytes}");
    }
    let (bytes, bench) = found("ptp-descend");
    assert_eq!(bytes, GIB, "cut at its edges");
    let activity = bench.monitor.activity();
    assert!(activity.child_scans > 0 && activity.child_scan_words <= activity.ticks * 8192);
}

/// The walk down finds edges within a few aggregations, at 2 MiB, and stays within its budget.
#[test]
fn a_walk_down_finds_edges_soon() {
    let mut bench = Bench::fixed(&[(0, 512 * GIB)], |config| {
        config.strategy = "ptp-descend".parse().unwrap();
        config.attributes.aggr_interval = Duration::from_ms(200);
    });
    let (start, end) = (100 * GIB + 6 * MIB, 110 * GIB + 700 * MIB);
    bench.world.space(0).hot = (start..end).step_by(2 << 20).collect();
    let is_isolated = |snapshot: &Snapshot| {
        let edges = |edge| snapshot.regions.iter().any(|region| region.range.start == edge);
        edges(start) && edges(end)
    };
    let needed = (1..20).find(|_| {
        bench.aggregate();
        let regions = bench.monitor.regions(TargetId(0)).unwrap();
        [start, end].iter().all(|edge| regions.iter().any(|region| region.range.start == *edge))
    });
    assert!(needed.is_some_and(|needed| needed <= 4), "both edges after {needed:?} aggregations");
    assert!(is_isolated(bench.aggregate()), "merges keep them apart");
}

/// docs/spec/page-table-profiling.md#s3-3: the contradiction is seen, and flushes repair it.
#[test]
fn an_adaptive_flush_repairs_hidden_accesses() {
    let run = |flush, cached_from| {
        let mut bench = Bench::fixed(&[(0, 40 * GIB)], |config| {
            config.strategy = "ptp".parse().unwrap();
            config.flush = flush;
            config.min_region_size = Some(Bytes::from_gib(1));
        });
        let space = bench.world.space(0);
        space.cached_from = cached_from;
        space.hot = (0..40 * GIB).step_by(2 << 20).collect();
        for _ in 0..5 {
            bench.aggregate();
        }
        let counts = bench.monitor.snapshot().regions.iter().map(|region| region.nr_accesses);
        (counts.min().unwrap(), *bench.monitor.activity())
    };
    let (lowest, activity) = run(FlushPolicy::None, Some(2));
    assert_eq!((lowest, activity.flushes), (0, 0), "entries of 1 GiB look cold");
    let (lowest, activity) = run(FlushPolicy::Batched, Some(2));
    assert_eq!(lowest, 20);
    assert_eq!(activity.flushes, activity.ticks + 1, "one after each PREPARE");
    let (lowest, activity) = run(FlushPolicy::Adaptive, Some(2));
    // Each time that flushes end, it takes some ticks until the next contradiction is met.
    assert!(lowest > 0 && activity.flushes < activity.ticks, "{activity:?}");
    assert!(activity.upper_clear_but_leaf_set > 0, "{activity:?}");
    let (_, activity) = run(FlushPolicy::Adaptive, None);
    assert!(activity.consistency_tests > 0, "{activity:?}");
    assert_eq!((activity.upper_clear_but_leaf_set, activity.flushes), (0, 0), "nothing to repair");
}

/// docs/spec/page-table-profiling.md#s9-2, D17: one page in each GiB makes all of it appear used all the time, at that level.
#[test]
fn upper_entries_over_report() {
    let mut bench = Bench::fixed(&[(0, 64 * GIB)], |config| {
        config.strategy = "ptp".parse().unwrap();
        config.attributes.aggr_interval = Duration::from_ms(200);
        // As many regions as there are entries of 1 GiB: each is one.
        (config.attributes.min_nr_regions, config.attributes.max_nr_regions) = (64, 64);
    });
    bench.world.space(0).hot = (0..64).map(|gib| gib * GIB + 5 * MIB).collect();
    let regions = &bench.aggregate().regions;
    assert_eq!(regions.len(), 64);
    assert!(regions.iter().all(|region| (region.nr_accesses, region.level) == (40, Level(2))), "D17");
}

/// docs/spec/page-table-profiling.md#s9-3, T6: bits that were set before monitoring began, as in every new table, mean nothing.
#[test]
fn bits_set_before_are_not_accesses() {
    for entry in STRATEGIES {
        let mut world = World::new(&[(0, 64 * GIB)]);
        world.space(0).hot = (0..64 * GIB).step_by(2 << 20).collect();
        world.run();
        world.space(0).hot.clear();
        let mut config = MonitorConfig { operations: Operations::Fvaddr, ..MonitorConfig::default() };
        config.strategy = entry.name.parse().unwrap();
        let mut monitor = Monitor::new(config, 1).unwrap();
        monitor.add_target(TargetId(0), &[UnitRange::new(0, 64 * GIB)], &world).unwrap();
        let mut bench = Bench { world, monitor, events: Vec::new() }.started();
        for _ in 0..3 {
            let snapshot = bench.aggregate();
            assert!(snapshot.regions.iter().all(|region| region.nr_accesses == 0), "T6: {}", entry.name);
        }
    }
}

/// docs/spec/page-table-profiling.md#s9-3, T8: an entry that changed its kind is no sample, neither hot nor cold.
#[test]
fn an_unknown_sight_is_no_sample() {
    let mut bench = Bench::fixed(&[(0, GIB)], |_| {});
    bench.world.space(0).hot = (0..GIB).step_by(4096).collect();
    bench.aggregate();
    bench.tick();
    let counters = |bench: &Bench| {
        let region = bench.monitor.regions(TargetId(0)).unwrap()[0];
        (region.nr_accesses, region.nr_accesses_bp)
    };
    let before = counters(&bench);
    assert_eq!(before, (1, 200_000));
    bench.world.space(0).is_restless = true;
    bench.tick();
    assert_eq!(counters(&bench), before, "T8");
    assert!(bench.monitor.activity().dropped_samples > 0, "T8");
}

/// docs/spec/page-table-profiling.md#s9-3, T3: regions given between PREPARE and CHECK wait for the end of the CHECK, so that
/// the cleared entries are tested, at the same level.
#[test]
fn regions_do_not_change_between_clear_and_test() {
    let mut bench = Bench::fixed(&[(0, 4 * GIB)], |config| config.strategy = "ptp".parse().unwrap());
    bench.tick();
    let before = bench.monitor.targets[0].probes.clone();
    let set = TargetChange::Set { id: TargetId(0), ranges: vec![UnitRange::new(4096, 8192)] };
    bench.monitor.commit(bench.monitor.config().clone(), Some(&[set]), &bench.world).unwrap();
    assert_eq!(bench.monitor.targets[0].probes, before, "T3");
    let tests = |bench: &Bench| bench.monitor.activity().tests.map(|count| count.tests).iter().sum::<u64>();
    let tests_before = tests(&bench);
    bench.tick();
    assert_eq!(tests(&bench) - tests_before, before.len() as u64, "T3: all that was cleared is tested");
    assert_eq!(bench.monitor.regions(TargetId(0)).unwrap().len(), 1, "T3: then the change is in force");
}

/// docs/spec/page-table-profiling.md#s4-2, B8 and B13: results are not shared between regions, and say at which level they were
/// found.
#[test]
fn results_carry_their_level() {
    let mut bench = Bench::fixed(&[(0, 8 * GIB), (9 * GIB, 9 * GIB + 4096)], |config| {
        config.strategy = "ptp".parse().unwrap();
        config.attributes.min_nr_regions = 4;
    });
    bench.world.space(0).hot = vec![9 * GIB];
    let regions = bench.aggregate().regions.clone();
    let (page, rest) = regions.split_last().unwrap();
    assert_eq!((page.nr_accesses, page.level), (20, Level::LEAF), "T4");
    assert!(rest.iter().all(|region| region.nr_accesses == 0), "T4: a neighbour's result is its own");
    assert!(rest.iter().any(|region| region.level > Level::LEAF));
}

/// docs/spec/page-table-profiling.md#s7-4: one wake-up an aggregation; its schedule stays.
#[test]
fn a_batch_samples_once_an_aggregation() {
    let mut bench = Bench::fixed(&[(0, GIB)], |config| {
        config.sampling = Sampling::Batch;
        config.attributes.ops_update_interval = Duration::from_ms(300);
    });
    bench.world.space(0).hot = (0..GIB).step_by(4096).collect();
    assert_eq!(bench.aggregations_in(3), [20, 40, 60]);
    assert_eq!(bench.monitor.snapshot().at, Instant::START + Duration::from_ms(300));
    assert_eq!(bench.monitor.activity().wakeups, 4);
    assert!(bench.monitor.snapshot().regions.iter().all(|region| region.nr_accesses > 15));
    assert_eq!(bench.monitor.handle_timeout(Instant::from_ns(620_000_000), &mut bench.world).missed, 2);
}

/// docs/spec/monitoring.md#s15, acceptance tests 1 and 2.
#[test]
fn the_number_of_regions_keeps_its_bounds() {
    // (buffers of 1 MiB, every second one hot; fewest, most; at least that many in the middle of 11 snapshots)
    let table = [(14, 10, 1000, 14), (10, 20, 100, 20), (15, 3, 10, 3)];
    for (buffers, fewest, most, expected) in table {
        let mut bench = Bench::fixed(&[(0, buffers * MIB)], |config| {
            (config.attributes.min_nr_regions, config.attributes.max_nr_regions) = (fewest, most);
        });
        let is_hot = |page: &u64| (page * 4096 / MIB).is_multiple_of(2);
        bench.world.space(0).hot = (0..buffers * 256).filter(is_hot).map(|page| page * 4096).collect();
        let mut counts: Vec<usize> = (0..11).map(|_| bench.aggregate().regions.len()).collect();
        let bounds = usize::try_from(fewest).unwrap()..=usize::try_from(most).unwrap();
        assert!(counts.iter().all(|count| bounds.contains(count)), "{fewest} to {most}: {counts:?}");
        counts.sort_unstable();
        assert!(counts[4] >= expected, "{buffers} buffers: {counts:?}");
    }
}

#[test]
fn a_configuration_reads_what_it_writes_and_damos_words() {
    let config = MonitorConfig {
        operations: Operations::Paddr,
        strategy: "flex".parse().unwrap(),
        flush: FlushPolicy::Adaptive,
        baseline: Baseline::V6_6,
        min_region_size: Some(Bytes::from_mib(2)),
        probes: vec![AttributeProbe {
            filters: vec![ProbeFilter { attribute: Attribute::Memcg(7), matching: true, allow: false }],
        }],
        attributes: Attributes { intervals_goal: Some(IntervalsGoal::default()), ..Attributes::default() },
        ..MonitorConfig::default()
    };
    let text = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<MonitorConfig>(&text).unwrap(), config, "{text}");
    let damo = "ops = 'vaddr'\n[attributes]\nsample_us = '100ms'\naggr_us = '2s'\nops_update_us = '20s'\nminr = 20\nmaxr = 500\n\
                [attributes.intervals_goal]\naccess_bp = '4%'\naggrs = 3\nmin_sample_us = '5ms'\nmax_sample_us = '10s'\n";
    let read: MonitorConfig = toml::from_str(damo).unwrap();
    assert_eq!(read.attributes.sample_interval, Duration::from_ms(100));
    assert_eq!((read.attributes.min_nr_regions, read.attributes.max_nr_regions), (20, 500));
    assert_eq!(read.attributes.intervals_goal.unwrap().access, Ratio::from_percent(4));
    assert!(toml::from_str::<MonitorConfig>("sampling = '5ms'").is_err(), "unknown keys are refused");
    let error = toml::from_str::<MonitorConfig>("strategy = 'page'").unwrap_err().to_string();
    assert!(error.contains("allowed: leaf, ptp"), "{error}");
}
