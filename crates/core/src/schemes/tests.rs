//! Whole passes on regions given by hand.

mod explained;
mod invariants;
mod naive;
mod promises;

use super::engine::Engine;
use super::fake::Machine;
use super::*;
use crate::host::{AddressRange, HostError, TargetId};
use crate::monitor::{Attributes, HIT_BP, Region, Target};
use crate::vocabulary::UnitRange;
use isotherm_units::{Bytes, Duration, Instant};

const SECOND: u64 = 1_000_000_000;

/// Schemes, regions and a machine; each pass is a second later, and all schemes are due at each.
struct Rig {
    engine: Engine,
    targets: Vec<Target>,
    machine: Machine,
    attributes: Attributes,
    is_physical: bool,
    /// Page and smallest region.
    page: u64,
    size_max: u64,
    /// Bytes of an address unit.
    unit: u64,
    passes: u64,
}

impl Rig {
    /// Regions of each target as (start, end, count, age); pages and smallest regions of one byte.
    fn new(schemes: &[Scheme], targets: &[&[(u64, u64, u32, u32)]]) -> Self {
        let region = |&(start, end, nr, age): &(u64, u64, u32, u32)| Region {
            nr_accesses: nr,
            nr_accesses_bp: nr * HIT_BP,
            age,
            ..Region::new(UnitRange::new(start, end))
        };
        let target = |(id, regions): (u32, &&[(u64, u64, u32, u32)])| {
            let mut target = Target::for_test(regions.iter().map(region).collect());
            target.id = TargetId(id);
            target
        };
        Self {
            engine: Engine::new(schemes),
            targets: (0..).zip(targets).map(target).collect(),
            machine: Machine { page: 1, ..Machine::default() },
            attributes: Attributes::default(),
            is_physical: true,
            page: 1,
            size_max: 1 << 40,
            unit: 1,
            passes: 0,
        }
    }

    /// One pass; the actions applied in it, as (target, start, end).
    fn pass(&mut self) -> Vec<(u32, u64, u64)> {
        self.run();
        self.machine.applied.drain(..).map(|(target, _, range)| (target, range.start, range.end)).collect()
    }

    fn run(&mut self) -> Outcome {
        let pass = Pass {
            now: Instant::from_ns(self.passes * SECOND),
            tick: self.passes * 200,
            attributes: &self.attributes,
            is_physical: self.is_physical,
            unit: Bytes::new(self.unit),
            size_min: self.page,
            size_max: self.size_max,
            page_bytes: self.page,
        };
        self.passes += 1;
        self.engine.run(&pass, &mut self.targets, &mut Vec::new(), &mut self.machine)
    }

    fn report(&self, scheme: usize) -> SchemeReport {
        self.engine.reports(self.page).swap_remove(scheme)
    }

    fn bounds(&self) -> Vec<(u64, u64)> {
        let regions = self.targets.iter().flat_map(|target| &target.regions);
        regions.map(|region| (region.range.start, region.range.end)).collect()
    }
}

fn sized(action: Action, bytes: u64) -> Scheme {
    let quotas = Quotas { size: Some(Bytes::new(bytes)), reset_interval: Duration::from_secs(1), ..Quotas::default() };
    Scheme { action, quotas, ..Scheme::default() }
}

/// docs/spec/schemes.md#s15, example 30. Neighbours count as one: equal pieces join between windows.
#[test]
fn a_quota_goes_round_through_the_addresses() {
    let mut rig = Rig::new(&[sized(Action::LruPrio, 30)], &[&[(0, 40, 1, 5), (40, 100, 1, 5)]]);
    // Equal scores: the weights are 0, and the cut-off lets all through.
    let expected: [&[(u32, u64, u64)]; 5] =
        [&[(0, 0, 30)], &[(0, 30, 40), (0, 40, 60)], &[(0, 60, 90)], &[(0, 90, 100)], &[(0, 0, 30)]];
    for (window, expected) in expected.into_iter().enumerate() {
        let merged = |applied: Vec<(u32, u64, u64)>| {
            let mut merged: Vec<(u32, u64, u64)> = Vec::new();
            for (target, start, end) in applied {
                match merged.last_mut() {
                    Some(last) if last.0 == target && last.2 == start => last.2 = end,
                    _ => merged.push((target, start, end)),
                }
            }
            merged
        };
        assert_eq!(merged(rig.pass()), merged(expected.to_vec()), "example 30, window {}", window + 1);
        let exceeds = [0, 1, 2, 3, 3][window];
        assert_eq!(rig.report(0).stats.qt_exceeds, exceeds, "example 30, window {}", window + 1);
    }
}

/// docs/spec/schemes.md#s15, example 31.
#[test]
fn a_quota_that_ends_with_the_target_costs_a_pass() {
    let mut rig = Rig::new(&[sized(Action::LruPrio, 100)], &[&[(0, 40, 1, 5), (40, 100, 2, 5)]]);
    let all = [(0, 0, 40), (0, 40, 100)];
    assert_eq!(rig.pass(), all, "example 31");
    assert_eq!(rig.pass(), [], "example 31");
    assert_eq!(rig.pass(), all, "example 31");
    let why = rig.report(0).all_passes;
    assert_eq!(why.of(Reason::BeforeResume), Tally { regions: 2, bytes: 100 });
}

/// docs/spec/schemes.md#s15, example 32.
#[test]
fn a_quota_goes_on_in_the_next_target() {
    let mut rig = Rig::new(&[sized(Action::LruPrio, 30)], &[&[(0, 50, 1, 5)], &[(100, 150, 1, 5)]]);
    rig.is_physical = false;
    rig.engine = Engine::new(&[sized(Action::MigrateHot, 30)]);
    let expected: [&[(u32, u64, u64)]; 5] =
        [&[(0, 0, 30)], &[(0, 30, 50), (1, 100, 110)], &[(1, 110, 140)], &[(1, 140, 150)], &[(0, 0, 30)]];
    for (window, expected) in expected.into_iter().enumerate() {
        assert_eq!(rig.pass(), expected, "example 32, window {}", window + 1);
    }
}

/// docs/spec/schemes.md#s15, example 48.
#[test]
fn an_allowing_core_filter_keeps_page_filters_out() {
    let target = Filter { target_idx: Some(0), ..Filter::new(FilterType::Target, true, true) };
    let scheme = |core_filters| Scheme {
        core_filters,
        ops_filters: vec![Filter::new(FilterType::Anon, true, false)],
        ..Scheme { action: Action::Pageout, ..Scheme::default() }
    };
    for (core_filters, applied) in [(vec![target], 10), (vec![], 0)] {
        let mut rig = Rig::new(&[scheme(core_filters)], &[&[(0, 10, 0, 5)]]);
        rig.machine.holds = vec![(PageTest::Anon, AddressRange::new(0, 10))];
        rig.pass();
        let report = rig.report(0);
        assert_eq!((report.stats.sz_applied, report.stats.sz_tried), (applied, 10), "example 48");
        let stopped: u64 = report.last_pass.page_filter_bytes.iter().sum();
        assert_eq!(stopped, 10 - applied);
    }
}

/// docs/spec/schemes.md#s15, example 49.
#[test]
fn an_address_filter_cuts_inside_the_try() {
    let inside =
        Filter { address_range: Some(FilterRange { start: 2, end: 6 }), ..Filter::new(FilterType::Addr, true, true) };
    for (action, sz_tried) in [(Action::Stat, [8, 16]), (Action::LruPrio, [8, 12])] {
        let scheme = Scheme { action, core_filters: vec![inside.clone()], ..Scheme::default() };
        let mut rig = Rig::new(&[scheme], &[&[(0, 10, 1, 5)]]);
        for sz_tried in sz_tried {
            assert!(rig.engine.start_walk());
            let walked = rig.run().walked.expect("one pass is enough");
            let ranges: Vec<AddressRange> = walked.iter().map(|tried| tried.range).collect();
            assert_eq!(ranges, [AddressRange::new(2, 6)], "example 49: {action}");
            assert_eq!(rig.report(0).stats.sz_tried, sz_tried, "example 49: {action}");
        }
        assert_eq!(rig.report(0).all_passes.tried().bytes, 8, "counts by reason have the size after the cut");
    }
}

/// Section 4: tried regions begin a new age, for any result; not with `stat`.
#[test]
fn a_try_resets_the_age() {
    for (action, refusal, age) in [
        (Action::Stat, None, 5),
        (Action::LruDeprio, None, 0),
        (Action::LruDeprio, Some(HostError::NotHere("a list")), 0),
        (Action::LruDeprio, Some(HostError::Failed("broken".to_owned())), 0),
        (Action::LruDeprio, Some(HostError::Gone(TargetId(0))), 5),
    ] {
        let mut rig = Rig::new(&[Scheme { action, ..Scheme::default() }], &[&[(0, 10, 0, 5)]]);
        rig.machine.refusal = refusal.clone();
        let outcome = rig.run();
        assert_eq!(rig.targets[0].regions[0].age, age, "{action}, {refusal:?}");
        match refusal {
            Some(HostError::Gone(target)) => {
                assert_eq!((outcome.ended, rig.report(0).stats), (vec![target], Stats::default()))
            }
            Some(error) => assert_eq!(outcome.refusals, [(TargetId(0), "apply", error)]),
            None => assert_eq!(outcome, Outcome::default()),
        }
    }
}

/// Section 7: only regions from the cut-off score on, in the order of their addresses.
#[test]
fn the_hottest_go_first() {
    let mut scheme = sized(Action::LruPrio, 30);
    scheme.quotas.weights = Weights { sz: 0, nr_accesses: 1, age: 0 };
    let regions: &[(u64, u64, u32, u32)] = &[(0, 20, 5, 0), (20, 40, 20, 0), (40, 60, 10, 0), (60, 80, 20, 0)];
    let mut rig = Rig::new(&[scheme], &[regions]);
    assert_eq!(rig.pass(), [(0, 20, 40), (0, 60, 70)]);
    let why = rig.report(0).last_pass;
    assert_eq!(why.of(Reason::LowPriority), Tally { regions: 2, bytes: 40 });
    assert_eq!(why.of(Reason::QuotaFull), Tally { regions: 1, bytes: 10 });
    assert_eq!(rig.report(0).min_score, 99);
}

/// Sections 4 and 5: pieces that a quota cut off join again where their ages allow.
#[test]
fn what_stat_cuts_off_joins_again() {
    let mut rig = Rig::new(&[sized(Action::Stat, 30)], &[&[(0, 100, 1, 5)]]);
    rig.pass();
    assert_eq!(rig.bounds(), [(0, 100)]);
    let mut rig = Rig::new(&[sized(Action::LruPrio, 30)], &[&[(0, 100, 1, 5)]]);
    rig.pass();
    assert_eq!(rig.bounds(), [(0, 30), (30, 100)]);
    let mut rig = Rig::new(&[sized(Action::Stat, 30)], &[&[(0, 100, 1, 5)]]);
    rig.size_max = 99;
    rig.pass();
    assert_eq!(rig.bounds(), [(0, 30), (30, 100)]);
}

/// Section 4: a scheme sees the region as earlier schemes left it.
#[test]
fn schemes_see_one_another() {
    let old = AccessPattern { age: Bounds::from(Age::Aggregations(1)), ..AccessPattern::default() };
    let scheme = |action| Scheme { action, access_pattern: old, ..Scheme::default() };
    let mut rig = Rig::new(&[scheme(Action::LruPrio), scheme(Action::LruDeprio)], &[&[(0, 10, 0, 5)]]);
    rig.run();
    assert_eq!(rig.machine.applied.len(), 1);
    assert_eq!(rig.report(1).last_pass.of(Reason::TooYoung).bytes, 10);
}

/// Section 11: a pass over the last region of each target is a snapshot.
#[test]
fn snapshots_run_out() {
    let scheme = Scheme { max_nr_snapshots: 3, ..Scheme::default() };
    let mut rig = Rig::new(&[scheme], &[&[(0, 10, 0, 5), (10, 20, 9, 5)], &[(0, 10, 0, 5)]]);
    let snapshots: Vec<(u64, u64)> = (0..4)
        .map(|_| {
            rig.run();
            let stats = rig.report(0).stats;
            (stats.nr_snapshots, stats.nr_tried)
        })
        .collect();
    assert_eq!(snapshots, [(2, 3), (3, 5), (3, 5), (3, 5)]);
    assert_eq!(rig.report(0).last_pass.of(Reason::SnapshotsUsedUp).regions, 3);
}

/// Section 8: `pageout` of physical memory spares young pages, unless the user has a filter on them.
#[test]
fn pageout_spares_young_pages() {
    let young = Filter::new(FilterType::Young, true, true);
    for (ops_filters, is_physical, applied) in [(vec![], true, 6), (vec![], false, 10), (vec![young], true, 4)] {
        let scheme = Scheme { action: Action::Pageout, ops_filters, ..Scheme::default() };
        let mut rig = Rig::new(&[scheme], &[&[(0, 10, 0, 5)]]);
        rig.is_physical = is_physical;
        rig.machine.holds = vec![(PageTest::Young, AddressRange::new(0, 4))];
        rig.run();
        assert_eq!(rig.report(0).stats.sz_applied, applied);
    }
}

/// Section 6: the goal of memory on a node uses the pattern, not filters. The fake reports no nodes: reported once.
#[test]
fn a_goal_that_cannot_be_read_is_told() {
    let mut scheme = sized(Action::LruPrio, 30);
    scheme.quotas.goals =
        vec![Goal { metric: Metric::NodeEligibleMemBp, target_value: 5000, nid: Some(0), ..Goal::default() }];
    let mut rig = Rig::new(&[scheme], &[&[(0, 10, 0, 5)]]);
    let outcome = rig.run();
    assert_eq!(outcome.refusals.len(), 1);
    assert_eq!(outcome.refusals[0].1, "gauges");
    let report = rig.report(0);
    assert_eq!((report.last_pass.goal_unread_passes, report.last_pass.quota_too_small_passes), (1, 1));
    assert_eq!(report.stats.nr_tried, 0, "nothing is done on a quota that nobody tuned");
}

/// Section 5: where the quota ran out is forgotten with its target.
#[test]
fn a_place_in_a_target_that_is_gone_holds_nothing_up() {
    let mut rig = Rig::new(&[sized(Action::LruPrio, 30)], &[&[(0, 50, 1, 5)], &[(100, 150, 1, 5)]]);
    rig.pass();
    rig.targets.remove(0);
    assert_eq!(rig.pass(), [(1, 100, 130)]);
}

/// Quotas, filters and statistics are in bytes for any unit of addresses.
#[test]
fn address_units_are_told_in_bytes() {
    let mut scheme = sized(Action::LruPrio, 60);
    let inside = FilterRange { start: 40, end: 1000 };
    scheme.core_filters = vec![Filter { address_range: Some(inside), ..Filter::new(FilterType::Addr, true, true) }];
    let mut rig = Rig::new(&[scheme], &[&[(0, 100, 1, 5)]]);
    (rig.unit, rig.machine.page) = (2, 2);
    assert_eq!(rig.pass(), [(0, 40, 100)]);
    assert_eq!(rig.bounds(), [(0, 20), (20, 50), (50, 100)]);
    let report = rig.report(0);
    assert_eq!((report.charged_bytes, report.stats.sz_applied), (60, 60));
    assert_eq!(report.last_pass.shown().bytes, 200);
}

/// Section 5: at a steady speed a limit in time holds from the second window on, when the speed is known.
#[test]
fn a_limit_in_time_holds_at_a_steady_speed() {
    let quotas =
        Quotas { time: Some(Duration::from_ms(1)), reset_interval: Duration::from_secs(1), ..Quotas::default() };
    let scheme = Scheme { action: Action::LruPrio, quotas, ..Scheme::default() };
    let mut rig = Rig::new(&[scheme], &[&[(0, 20_000 * 4096, 1, 5)]]);
    (rig.page, rig.machine.page, rig.machine.page_cost) = (4096, 4096, Duration::from_ns(700));
    let spent_ns: Vec<u64> =
        (0..20).map(|_| rig.pass().iter().map(|(_, start, end)| (end - start) / 4096 * 700).sum()).collect();
    assert_eq!(spent_ns[0], 1024 * 700, "a guess: 1024 pages a millisecond");
    assert!(spent_ns[1..].iter().all(|ns| *ns <= 1_000_000), "{spent_ns:?}");
    assert!(spent_ns[1..8].iter().all(|ns| *ns > 990_000), "{spent_ns:?}");
}

/// docs/spec/schemes.md#s12-4: configurations that the kernel's documentation and samples give.
#[test]
fn configurations_of_the_documentation_are_accepted() {
    let samples = [
        (
            false,
            "action = 'pageout'
            access-pattern = { nr-accesses = { max = 0 }, age = { min = 50 } }",
        ),
        (
            true,
            "action = 'migrate_hot'
            target_nid = 0
            apply_interval_us = '1s'
            access_pattern = { nr_accesses = { min = 1 } }
            quotas = { sz = '200MiB', reset_interval_ms = '1s', weights = { nr_accesses = 100, age = 100 }, \
                goals = [{ metric = 'node_mem_used_bp', nid = 0, target_value = 9970 }] }
            ops_filters = [{ type = 'young', matching = true, allow = true }]",
        ),
        (
            true,
            "action = 'pageout'
            access-pattern = { size = { min = '4KiB', max = '8KiB' }, nr-accesses = { max = 5 }, age = { min = 10, max = 20 } }
            quotas = { time = '10ms', size = '1GiB', reset-interval = '1s', weights = { age = 1 } }
            watermarks = { metric = 'free-mem-rate', interval = '5s', high = '60%', mid = '50%', low = '30%' }",
        ),
    ];
    for (is_physical, text) in samples {
        let scheme: Scheme = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(scheme.validate(&Attributes::default(), is_physical), Ok(()), "{text}");
        assert_eq!(admit(&scheme, TargetId(0), &Machine::default()), Ok(()), "{text}");
    }
}

/// Section 3: a commit keeps counts and charges.
#[test]
fn a_commit_keeps_the_state_of_schemes_at_their_places() {
    let mut rig = Rig::new(&[sized(Action::LruPrio, 30), Scheme::default()], &[&[(0, 100, 1, 5)]]);
    rig.run();
    let before = rig.report(0);
    rig.engine.commit(&[sized(Action::LruPrio, 60)], 0, &rig.attributes);
    let after = rig.report(0);
    assert_eq!((after.stats, after.effective_quota_bytes), (before.stats, Some(30)), "until the window ends");
    rig.run();
    assert_eq!(rig.report(0).effective_quota_bytes, Some(60));
    assert_eq!(rig.engine.reports(1).len(), 1);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let (us, attributes) = (Duration::from_ns(1500), Attributes::default());
    let error = |scheme: Scheme, is_physical| scheme.validate(&attributes, is_physical).unwrap_err().to_string();
    let action = |action| Scheme { action, ..Scheme::default() };
    let cold = "`action` is cold; allowed: stat, pageout, lru-prio, lru-deprio, migrate-hot, migrate-cold, for physical memory";
    assert_eq!(error(action(Action::Cold), true), cold);
    assert_eq!(action(Action::LruPrio).validate(&attributes, false), Ok(()), "lists are sorted for processes too");
    let marks = Scheme { action: Action::LruPrio, marks_accessed: true, ..Scheme::default() };
    assert_eq!(marks.validate(&attributes, true), Ok(()));
    let marks = error(Scheme { action: Action::LruDeprio, ..marks }, true);
    assert_eq!(marks, "`marks-accessed` is true; allowed: false, with `lru-deprio`");
    let nowhere = "`target-nid` is not given; allowed: a node, for `migrate-hot`";
    assert_eq!(error(action(Action::MigrateHot), true), nowhere);
    let lost = Scheme { target_nid: Some(1), ..Scheme::default() };
    assert_eq!(error(lost, true), "`target-nid` is given; allowed: none with `stat`");
    let weightless = vec![Destination { nid: 1, weight: 0 }];
    assert!(
        error(Scheme { dests: weightless, ..action(Action::MigrateCold) }, false)
            .starts_with("`dests` is all of weight 0")
    );
    assert!(error(Scheme { apply_interval: us, ..Scheme::default() }, true).contains("whole microseconds"));
    let mut eligible = sized(Action::Stat, 1);
    eligible.quotas.goals =
        vec![Goal { metric: Metric::NodeEligibleMemBp, target_value: 1, nid: Some(0), ..Goal::default() }];
    assert!(error(eligible, false).starts_with("`quotas.goals[0].metric` is node-eligible-mem-bp"));
}

#[test]
fn what_the_host_lacks_is_refused_with_what_there_is() {
    let mut machine = Machine { lacks: vec![Action::LruPrio], ..Machine::default() };
    let error = |scheme: &Scheme, host: &dyn crate::host::MonitorHost| {
        admit(scheme, TargetId(0), host).unwrap_err().to_string()
    };
    let prio = Scheme { action: Action::LruPrio, ..Scheme::default() };
    assert!(error(&prio, &machine).starts_with("`action` is lru-prio, which is not available here; available: stat, "));
    let memcg = Filter { memcg_path: Some("/none".to_owned()), ..Filter::new(FilterType::Memcg, true, false) };
    let group = Scheme { action: Action::LruDeprio, ops_filters: vec![memcg], ..Scheme::default() };
    let unknown = "`ops-filters[0].memcg-path` is \"/none\"; there is no memory cgroup of that path here";
    assert_eq!(error(&group, &machine), unknown);
    machine.lacks.clear();
    assert_eq!(admit(&prio, TargetId(0), &machine), Ok(()));
    assert_eq!(admit(&Scheme::default(), TargetId(0), &crate::monitor::World::new(&[])), Ok(()), "stat needs no host");
}

#[test]
fn a_scheme_is_read_in_damos_spelling_and_written_in_ours() {
    let text = "
        action = \"migrate_hot\"
        access_pattern = { sz_bytes = { min = \"4KiB\" }, nr_accesses = { min = \"20%\" }, age = { max = \"10s\" } }
        apply_interval_us = \"1s\"
        quotas = { time_ms = \"10ms\", sz_bytes = \"1MiB\", reset_interval_ms = \"1s\", goal_tuner = \"temporal\", weights = { sz_permil = 0, nr_accesses_permil = 1, age_permil = 1 }, goals = [{ metric = \"node_mem_free_bp\", nid = 0, target_value = 50 }] }
        watermarks = { metric = \"free_mem_rate\", interval_us = \"5s\", high_permil = \"20%\", mid_permil = \"15%\", low_permil = \"5%\" }
        core_filters = [{ filter_type = \"addr\", matching = true, allow = true, address_range = { start = 0, end = 4096 } }]
        ops_filters = [{ filter_type = \"memcg\", memcg_path = \"/group\", matching = true, allow = false }]
        target_nid = 1
        max_nr_snapshots = 5
    ";
    let read: Scheme = toml::from_str(text).expect("damo's spelling");
    assert_eq!(read.validate(&Attributes::default(), true), Ok(()));
    assert_eq!(toml::from_str::<Scheme>(&toml::to_string(&read).expect("plain")).expect("ours"), read);
    assert!(toml::from_str::<Scheme>("acton = \"stat\"").is_err());
}
