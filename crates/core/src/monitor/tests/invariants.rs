//! Properties that hold after every tick, for any mappings, settings and accesses.

use super::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

/// A change of the world between two ticks.
#[derive(Clone, Debug)]
enum Change {
    Map(Vec<(u64, u64)>),
    Touch(Vec<u64>),
    Attributes { samples: u64, min: u32, max: u32, has_goal: bool },
    Ranges(Vec<(u64, u64)>),
    Pause(bool),
    Late(u64),
    Fail(Option<&'static str>),
}

/// Ascending disjoint ranges of whole MiB with gaps between them.
fn layout() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1..2000u64, 1..2000u64), 1..8).prop_map(|pieces| {
        let mut at = 0;
        pieces
            .into_iter()
            .map(|(gap, len)| {
                let start = at + gap * 2 * MIB;
                at = start + len * 2 * MIB;
                (start, at)
            })
            .collect()
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        layout().prop_map(Change::Map),
        prop::collection::vec(0..(16_000 * MIB), 0..200).prop_map(Change::Touch),
        (1..40u64, 3..30u32, 0..300u32, any::<bool>()).prop_map(|(samples, min, more, has_goal)| Change::Attributes {
            samples,
            min,
            max: min + more,
            has_goal
        }),
        layout().prop_map(Change::Ranges),
        any::<bool>().prop_map(Change::Pause),
        (0..50_000_000u64).prop_map(Change::Late),
        prop::option::of(prop::sample::select(vec!["clear", "test", "mappings", "scan_children", "flush"]))
            .prop_map(Change::Fail),
    ]
}

fn config() -> impl Strategy<Value = MonitorConfig> {
    let strategies: Vec<&str> = STRATEGIES.iter().map(|entry| entry.name).collect();
    let flushes = vec![FlushPolicy::None, FlushPolicy::Batched, FlushPolicy::Adaptive];
    (
        prop::sample::select(strategies),
        prop::sample::select(flushes),
        prop::sample::select(vec![Operations::Vaddr, Operations::Fvaddr]),
        prop::sample::select(vec![Baseline::V6_6, Baseline::V7_2]),
        1..30u64,
        any::<bool>(),
    )
        .prop_map(|(strategy, flush, operations, baseline, samples, is_batch)| MonitorConfig {
            operations,
            sampling: if is_batch && strategy != "ptp-descend" && flush != FlushPolicy::Adaptive {
                Sampling::Batch
            } else {
                Sampling::Spread
            },
            strategy: strategy.parse().expect("from the table"),
            flush,
            baseline,
            attributes: Attributes {
                sample_interval: Duration::from_ms(1),
                aggr_interval: Duration::from_ms(samples),
                ops_update_interval: Duration::from_ms(7),
                max_nr_regions: 100,
                ..Attributes::default()
            },
            ..MonitorConfig::default()
        })
}

fn ranges(layout: &[(u64, u64)]) -> Vec<UnitRange> {
    layout.iter().map(|&(start, end)| UnitRange::new(start, end)).collect()
}

/// Joins what touches.
fn joined(ranges: impl Iterator<Item = UnitRange>) -> Vec<UnitRange> {
    let mut joined: Vec<UnitRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// The ranges that regions of target 0 are to cover now, if it is known from outside: the fixed ranges.
fn check(monitor: &Monitor, fixed: Option<&[UnitRange]>, nr_max_ever: usize) -> Result<(), TestCaseError> {
    let Some(regions) = monitor.regions(TargetId(0)) else { return Ok(()) };
    for region in regions {
        prop_assert!(!region.is_empty(), "{region:?}");
        prop_assert!(region.nr_accesses_bp <= 10_000 * (2 * monitor.attributes().nr_accesses_max() + 40), "{region:?}");
    }
    for pair in regions.windows(2) {
        prop_assert!(pair[0].range.end <= pair[1].range.start, "{pair:?}");
    }
    if let Some(fixed) = fixed {
        prop_assert_eq!(joined(regions.iter().map(|region| region.range)), joined(fixed.iter().copied()));
    }
    prop_assert!(regions.len() <= nr_max_ever, "{} regions, at most {}", regions.len(), nr_max_ever);
    let activity = monitor.activity();
    prop_assert!(activity.upper_clear_but_leaf_set <= activity.consistency_tests);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn regions_are_sorted_disjoint_and_cover_their_ranges(
        config in config(), first in layout(), seed: u64,
        changes in prop::collection::vec((change(), 1..30usize), 0..8),
    ) {
        let is_fixed = config.operations == Operations::Fvaddr;
        let mut world = World::new(&first);
        let mut fixed = ranges(&first);
        let mut monitor = Monitor::new(config, seed).expect("good");
        monitor.add_target(TargetId(0), &fixed, &world).expect("good ranges");
        monitor.start(Instant::START);
        // Gaps and fixed edges keep regions apart above the maximum: each range adds a few.
        let mut nr_max_ever = 100;
        for (change, nr_ticks) in std::iter::once((Change::Pause(false), 40)).chain(changes) {
            let mut waits = None;
            let mut late_ns = 0;
            match change {
                Change::Map(layout) => world.map(TargetId(0), &layout),
                Change::Touch(addresses) => world.space(0).hot = addresses,
                Change::Attributes { samples, min, max, has_goal } => {
                    let mut config = monitor.config().clone();
                    let goal = IntervalsGoal { min_sample_interval: Duration::from_us(1), ..IntervalsGoal::default() };
                    config.attributes = Attributes {
                        sample_interval: Duration::from_ms(1),
                        aggr_interval: Duration::from_ms(samples),
                        min_nr_regions: min,
                        max_nr_regions: max,
                        intervals_goal: has_goal.then_some(goal),
                        ..config.attributes
                    };
                    nr_max_ever = nr_max_ever.max(usize::try_from(max).expect("small"));
                    monitor.commit(config, None, &world).expect("good");
                }
                Change::Ranges(layout) => {
                    let set = TargetChange::Set { id: TargetId(0), ranges: ranges(&layout) };
                    monitor.commit(monitor.config().clone(), Some(&[set]), &world).expect("good ranges");
                    waits = Some(ranges(&layout));
                }
                Change::Pause(paused) => monitor.set_paused(paused),
                Change::Late(ns) => late_ns = ns,
                Change::Fail(call) => world.failing = call,
            }
            for _ in 0..nr_ticks {
                world.run();
                let at = monitor.poll_timeout().expect("its target never ends");
                let tick = monitor.handle_timeout(at + Duration::from_ns(late_ns), &mut world);
                late_ns = 0;
                if tick.events.contains(&Event::Committed) && let Some(layout) = waits.take() {
                    fixed = layout;
                }
                // Cutting what is too large comes after merging and may add: one piece of each range, besides
                // min_nr.
                let bound = 2 * nr_max_ever + 60;
                check(&monitor, is_fixed.then_some(&fixed), bound)?;
            }
        }
    }

    #[test]
    fn equal_seeds_give_equal_results(config in config(), first in layout(), hot in prop::collection::vec(0..(8000 * MIB), 0..100)) {
        let run = |seed| {
            let mut world = World::new(&first);
            world.space(0).hot = hot.clone();
            let mut monitor = Monitor::new(config.clone(), seed).expect("good");
            monitor.add_target(TargetId(0), &ranges(&first), &world).expect("good ranges");
            monitor.start(Instant::START);
            for _ in 0..100 {
                world.run();
                let at = monitor.poll_timeout().expect("it runs");
                monitor.handle_timeout(at, &mut world);
            }
            (monitor.snapshot().clone(), *monitor.activity())
        };
        prop_assert_eq!(run(7), run(7));
    }
}
