//! Schemes in a running monitor: when they run, which regions they get, and what is recorded.

use super::*;
use crate::host::HostError;
use crate::schemes::{
    AccessPattern, Action, Age, Bounds, Frequency, Goal, Quotas, Reason, Scheme, SchemeReport, Stats, Watermarks,
};
use isotherm_units::{Bytes, Ratio};
use proptest::prelude::*;

const HOT: Frequency = Frequency::Samples(15);

fn bench(ranges: &[(u64, u64)], schemes: Vec<Scheme>) -> Bench {
    Bench::fixed(ranges, |config| config.schemes = schemes)
}

fn stats(bench: &Bench, scheme: usize) -> Stats {
    report(bench, scheme).stats
}

fn report(bench: &Bench, scheme: usize) -> SchemeReport {
    bench.monitor.scheme_reports().swap_remove(scheme)
}

fn older_than(age: u32) -> AccessPattern {
    AccessPattern { age: Bounds::from(Age::Aggregations(age)), ..AccessPattern::default() }
}

fn at_marks(scheme: Scheme) -> Scheme {
    Scheme { watermarks: Watermarks::free_mem_rate(Duration::from_secs(5), 200, 150, 50), ..scheme }
}

fn set_free(bench: &mut Bench, percent: u64) {
    (bench.world.machine.free, bench.world.machine.total) = (percent, 100);
}

/// docs/spec/schemes.md#s15, example 45.
#[test]
fn schemes_run_as_often_as_they_ask_for() {
    let often = Scheme { apply_interval: Duration::from_us(10_000), ..Scheme::default() };
    let mut bench = bench(&[(0, GIB)], vec![Scheme::default(), often]);
    bench.aggregations_in(400);
    let (seldom, often) = (stats(&bench, 0).nr_tried, stats(&bench, 1).nr_tried);
    assert!(often >= 9 * seldom && seldom > 0, "example 45: {seldom}, {often}");
    assert_eq!(report(&bench, 0).all_passes.passes, 20);
    assert_eq!(report(&bench, 1).all_passes.passes, 200);
}

/// docs/spec/schemes.md#s15, example 46.
#[test]
fn a_quota_holds_over_all_reports() {
    let scheme = Scheme {
        access_pattern: AccessPattern { nr_accesses: Bounds::from(HOT), ..AccessPattern::default() },
        quotas: Quotas { size: Some(Bytes::from_mib(1)), reset_interval: Duration::from_ms(100), ..Quotas::default() },
        ..Scheme::default()
    };
    let mut bench = bench(&[(0, 10 * MIB), (20 * MIB, 30 * MIB)], vec![scheme]);
    bench.world.space(0).hot = (0..30 * MIB).step_by(4096).collect();
    let (mut before, mut nr_full) = (0, 0);
    for _ in 0..50 {
        bench.aggregate();
        let tried = stats(&bench, 0).sz_tried;
        assert!(tried - before <= MIB, "example 46: {before} to {tried}");
        nr_full += u64::from(tried - before == MIB);
        before = tried;
    }
    bench.aggregate();
    assert!(nr_full > 20, "example 46: {nr_full} reports hit the limit");
    assert!(stats(&bench, 0).qt_exceeds >= nr_full, "example 46");
}

/// docs/spec/monitoring.md#s3: schemes run before the record.
#[test]
fn tried_regions_are_recorded_with_age_0() {
    let mut bench = bench(
        &[(0, GIB)],
        vec![Scheme { action: Action::Willneed, access_pattern: older_than(4), ..Scheme::default() }],
    );
    let ages: Vec<u32> = (0..12).map(|_| bench.aggregate().regions[0].age).collect();
    assert_eq!(ages, [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0]);
    assert_eq!(stats(&bench, 0).sz_applied, 3 * GIB);
}

#[test]
fn tried_regions_are_collected_over_one_pass_of_each_scheme() {
    let seldom = Scheme { apply_interval: Duration::from_ms(200), ..Scheme::default() };
    let mut bench = bench(&[(0, GIB)], vec![Scheme::default(), seldom]);
    assert!(bench.monitor.start_walk());
    assert!(!bench.monitor.start_walk(), "one at a time");
    bench.aggregations_in(41);
    let walked = bench.events.iter().find_map(|event| match event {
        Event::TriedRegions(tried) => Some(tried.clone()),
        _ => None,
    });
    let bytes = |scheme| -> u64 {
        let of_scheme = walked.iter().flatten().filter(|tried| tried.scheme == scheme);
        of_scheme.map(|tried| tried.range.len()).sum()
    };
    assert_eq!((bytes(0), bytes(1)), (GIB, GIB));

    assert!(bench.monitor.start_walk());
    bench.monitor.set_paused(true);
    bench.tick();
    assert_eq!(bench.events.last(), Some(&Event::WalkCancelled));
    assert!(!Bench::fixed(&[(0, GIB)], |_| {}).monitor.start_walk(), "nothing to wait for");
}

/// docs/spec/schemes.md#s9.
#[test]
fn without_a_scheme_at_work_the_monitor_sleeps() {
    let mut bench = bench(&[(0, GIB)], vec![at_marks(Scheme::default())]);
    set_free(&mut bench, 10);
    bench.aggregate();
    let (ticks, tried) = (bench.monitor.activity().ticks, stats(&bench, 0).nr_tried);
    assert!(tried > 0);
    set_free(&mut bench, 30);
    bench.tick();
    let slept_from = bench.monitor.poll_timeout().expect("it wakes");
    set_free(&mut bench, 16);
    assert!(bench.monitor.start_walk());
    for naps in 1..=3 {
        bench.tick();
        assert_eq!(
            bench.monitor.poll_timeout(),
            Some(slept_from + Duration::from_secs(5 * naps)),
            "16% is not below 15%"
        );
    }
    assert!(bench.events.contains(&Event::WalkCancelled));
    assert_eq!(bench.monitor.activity().ticks, ticks + 1, "nothing is sampled meanwhile");
    assert!(!report(&bench, 0).is_active);
    set_free(&mut bench, 14);
    bench.tick();
    bench.aggregate();
    assert!(report(&bench, 0).is_active && stats(&bench, 0).nr_tried > tried);
}

/// docs/spec/schemes.md#s9: an inactive scheme among active ones is skipped.
#[test]
fn watermarks_switch_one_scheme_among_others() {
    let mut bench = bench(&[(0, GIB)], vec![at_marks(Scheme::default()), Scheme::default()]);
    set_free(&mut bench, 90);
    for _ in 0..3 {
        bench.aggregate();
    }
    let off = report(&bench, 0);
    assert_eq!((off.stats.nr_tried, off.all_passes.inactive_passes, off.free_permil), (0, 2 + 1, Some(900)));
    assert_eq!(report(&bench, 1).all_passes.passes, 3);
    // Unlike in the kernel, a commit that does not touch a scheme leaves it switched off.
    let config = bench.monitor.config().clone();
    bench.monitor.commit(config, None, &bench.world).expect("as before");
    bench.aggregate();
    assert_eq!(stats(&bench, 0).nr_tried, 0);
}

#[test]
fn a_commit_changes_schemes_at_the_next_tick() {
    let mut bench = bench(&[(0, GIB)], vec![Scheme::default()]);
    bench.aggregate();
    let before = stats(&bench, 0);
    let mut config = bench.monitor.config().clone();
    config.schemes.push(Scheme { action: Action::Willneed, ..Scheme::default() });
    bench.monitor.commit(config.clone(), None, &bench.world).expect("a good one");
    bench.aggregate();
    assert!(stats(&bench, 0).nr_tried > before.nr_tried);
    bench.tick();
    assert!(stats(&bench, 1).nr_applied > 0, "an aggregation after its first tick");
    config.schemes.clear();
    bench.monitor.commit(config.clone(), None, &bench.world).expect("none");
    bench.tick();
    assert!(bench.monitor.scheme_reports().is_empty());
    config.schemes = vec![Scheme { action: Action::MigrateHot, ..Scheme::default() }];
    let refused = bench.monitor.commit(config, None, &bench.world).unwrap_err().to_string();
    assert!(refused.starts_with("schemes[0]: `target-nid` is not given; allowed: a node"), "{refused}");
}

/// docs/spec/schemes.md#s3: any change of attributes resets the times of all next passes.
#[test]
fn new_attributes_arm_schemes_again() {
    let second = Scheme { apply_interval: Duration::from_secs(1), ..Scheme::default() };
    let mut bench = bench(&[(0, GIB)], vec![second]);
    bench.aggregations_in(150);
    bench.commit_attributes(|attributes| attributes.max_nr_regions = 500);
    bench.aggregations_in(200);
    assert_eq!(report(&bench, 0).all_passes.passes, 0);
    bench.aggregations_in(2);
    assert_eq!(report(&bench, 0).all_passes.passes, 1);
}

#[test]
fn schemes_stand_in_the_file_of_their_monitor() {
    let text = "
        operations = \"vaddr\"
        [[schemes]]
        action = \"cold\"
        access-pattern.age.min = \"2m\"
        [[schemes]]
        action = \"pageout\"
    ";
    let config: MonitorConfig = toml::from_str(text).expect("a good file");
    assert_eq!(config.schemes.len(), 2);
    assert_eq!(toml::from_str::<MonitorConfig>(&toml::to_string(&config).expect("plain")).expect("ours"), config);
    assert_eq!(toml::to_string(&MonitorConfig::default()).expect("plain").find("schemes"), None);
}

#[test]
fn what_the_host_lacks_is_refused_before_the_run() {
    let mut world = World::new(&[(0, GIB)]);
    world.machine.lacks = vec![Action::Cold];
    let schemes = vec![Scheme::default(), Scheme { action: Action::Cold, ..Scheme::default() }];
    let config = MonitorConfig { operations: Operations::Fvaddr, schemes, ..MonitorConfig::default() };
    let mut monitor = Monitor::new(config, 1).expect("a good configuration");
    let error = monitor.add_target(TargetId(0), &[UnitRange::new(0, GIB)], &world).unwrap_err().to_string();
    assert!(error.starts_with("schemes[1]: `action` is cold, which is not available here"), "{error}");
}

#[test]
fn what_the_host_refuses_is_told_once_a_pass() {
    let mut bench = bench(&[(0, GIB)], vec![Scheme { action: Action::Cold, ..Scheme::default() }]);
    bench.world.machine.refusal = Some(HostError::NotHere("lists"));
    bench.aggregate();
    let refused = Event::HostFailed { target: TargetId(0), call: "apply", error: HostError::NotHere("lists") };
    assert_eq!(bench.events, [refused]);
    assert!(report(&bench, 0).last_pass.of(Reason::NotHere).regions > 1);
    bench.world.machine.refusal = Some(HostError::Gone(TargetId(0)));
    bench.aggregate_or_stop();
    assert_eq!(bench.events[1..], [Event::TargetGone(TargetId(0)), Event::Stopped]);
    assert!(!bench.monitor.is_running());
}

#[test]
fn user_input_steers_a_quota() {
    let goal = Goal { target_value: 10_000, current_value: 10_000, ..Goal::default() };
    let quotas = Quotas { goals: vec![goal], reset_interval: Duration::from_ms(100), ..Quotas::default() };
    let mut bench = bench(&[(0, GIB)], vec![Scheme { quotas, ..Scheme::default() }]);
    assert!(bench.monitor.report_goal_value(0, 0, 0));
    assert!(!bench.monitor.report_goal_value(0, 1, 0) && !bench.monitor.report_goal_value(1, 0, 0));
    let quota = |bench: &mut Bench| {
        bench.aggregate();
        report(bench, 0).effective_quota_bytes.expect("it has a goal")
    };
    let rising: Vec<u64> = (0..4).map(|_| quota(&mut bench)).collect();
    assert_eq!(rising, [2, 4, 8, 16]);
    bench.monitor.report_goal_value(0, 0, 20_000);
    assert_eq!(quota(&mut bench), 1);
}

/// Thresholds in time and shares keep their meaning when tuning changes the intervals.
#[test]
fn ages_in_seconds_follow_tuned_intervals() {
    let age = AccessPattern { age: Bounds::from(Age::Time(Duration::from_secs(1))), ..AccessPattern::default() };
    let share = Bounds::from(Frequency::Share(Ratio::from_percent(20)));
    assert_eq!(share.min.samples(&Attributes::default()), 4);
    let mut bench = Bench::fixed(&[(0, GIB)], |config| {
        config.schemes = vec![Scheme { action: Action::Willneed, access_pattern: age, ..Scheme::default() }];
        config.attributes.intervals_goal = Some(IntervalsGoal::default());
    });
    // Nothing is used: intervals double each three aggregations, and regions reach an age of a second all the same.
    let mut slowest = Duration::ZERO;
    for _ in 0..9 {
        slowest = slowest.max(bench.aggregate().aggr_interval);
    }
    assert!(slowest >= Duration::from_ms(400));
    assert!(stats(&bench, 0).nr_applied > 0);
}

impl Bench {
    /// As `aggregate`, but the monitor may stop instead.
    fn aggregate_or_stop(&mut self) {
        while self.monitor.is_running() && !self.tick().has_snapshot {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn schemes_leave_the_regions_in_order(
        seed: u64, apply_ms in 0..150u64, quota_kib in 0..4000u64, min_age in 0..6u32,
        hot in prop::collection::vec(0..(64 * MIB), 0..100), free in prop::collection::vec(0..40u64, 1..6),
    ) {
        let ranges = [(0, 20 * MIB), (30 * MIB, 64 * MIB)];
        let mut world = World::new(&ranges);
        world.space(0).hot = hot;
        let quotas = Quotas {
            size: (quota_kib > 0).then(|| Bytes::from_kib(quota_kib)),
            reset_interval: Duration::from_ms(300),
            ..Quotas::default()
        };
        let scheme = |action| at_marks(Scheme {
            action,
            access_pattern: older_than(min_age),
            apply_interval: Duration::from_ms(apply_ms),
            quotas: quotas.clone(),
            ..Scheme::default()
        });
        let config = MonitorConfig {
            operations: Operations::Fvaddr,
            schemes: vec![scheme(Action::Cold), scheme(Action::Pageout), scheme(Action::Stat)],
            ..MonitorConfig::default()
        };
        let mut monitor = Monitor::new(config, seed).expect("good");
        let ranges = ranges.map(|(start, end)| UnitRange::new(start, end));
        monitor.add_target(TargetId(0), &ranges, &world).expect("good ranges");
        monitor.start(Instant::START);
        for free in free {
            (world.machine.free, world.machine.total) = (free, 100);
            for _ in 0..80 {
                world.run();
                let at = monitor.poll_timeout().expect("its target never ends");
                monitor.handle_timeout(at, &mut world);
                let regions = monitor.regions(TargetId(0)).expect("still there");
                let total: u64 = regions.iter().map(Region::len).sum();
                prop_assert_eq!(total, 54 * MIB);
                prop_assert!(regions.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
                for report in monitor.scheme_reports() {
                    let limit = report.effective_quota_bytes.unwrap_or(u64::MAX);
                    prop_assert!(report.charged_bytes <= limit);
                    prop_assert!(report.stats.sz_applied <= report.stats.sz_tried);
                }
            }
        }
    }
}
