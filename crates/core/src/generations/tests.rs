//! The tools as a whole, on a host whose pages are known.

use super::fake::FakeHost;
use super::*;
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES, Ratio};

const SECOND: Duration = Duration::from_secs(1);

fn seconds(n: u64) -> Instant {
    Instant::START + SECOND.saturating_mul(n)
}

fn estimator(window: u64, targets: &[&str]) -> Estimator {
    let config = EstimatorConfig {
        targets: targets.iter().map(|&target| target.to_owned()).collect(),
        window: Some(SECOND.saturating_mul(window)),
        ..EstimatorConfig::default()
    };
    let mut estimator = Estimator::new(config).expect("allowed");
    estimator.start(Instant::START);
    estimator
}

fn reclaimer(change: impl FnOnce(&mut ReclaimerConfig)) -> Reclaimer {
    let mut config = ReclaimerConfig { threshold: SECOND.saturating_mul(2), ..ReclaimerConfig::default() };
    change(&mut config);
    let mut reclaimer = Reclaimer::new(config).expect("allowed");
    reclaimer.start(Instant::START);
    reclaimer
}

/// Spec 14.3, working-set estimation: a forced ageing every T; pages older than the window are cold, the rest in use.
#[test]
fn pattern_working_set_estimation() {
    let mut host = FakeHost::default();
    host.add("/app", 300, 1000);
    let mut estimator = estimator(2, &["/"]);
    let mut reported = Vec::new();
    for second in 0..6 {
        host.now = seconds(second);
        assert_eq!(estimator.poll_timeout(), Some(seconds(second)));
        let reading = estimator.handle_timeout(host.now, &mut host).expect("due");
        assert_eq!(estimator.handle_timeout(host.now, &mut host), None, "once a time");
        let Estimate { low_pages, high_pages, pages, reported_window_ms, .. } = reading.estimate();
        reported.push((low_pages, high_pages, pages, reported_window_ms));
    }
    // A group younger than the window has used all it has; the rows give one interval from the first on, and two later.
    assert_eq!(reported[..2], [(1300, 1300, 0, None), (1300, 1300, 300, Some(1000))]);
    assert_eq!(reported[2..], [(300, 300, 300, Some(2000)); 4]);
    assert_eq!(host.ageings.len(), 6);
    assert_eq!(host.ageings[5].to_string(), "+ 0 0 8 1", "forced, both types, from the youngest");
    assert_eq!(estimator.why().of(GenerationReason::Aged).times, 6);
}

/// Spec 14.3, ranking: hosts or groups by their cold memory. Cold are the rows of the threshold's age and more (E22).
#[test]
fn pattern_ranking_by_cold_memory() {
    let mut host = FakeHost::default();
    host.add("/a", 10, 200);
    host.add("/b", 10, 900);
    let mut estimator = estimator(1, &["/a", "/b"]);
    let mut reading = None;
    for second in 0..5 {
        host.now = seconds(second);
        reading = estimator.handle_timeout(host.now, &mut host);
    }
    let mut cold: Vec<(u64, String)> = (reading.expect("due").groups.into_iter())
        .map(|group| (cold_pages(&group.listing.rows, 2000), group.listing.path))
        .collect();
    cold.sort_by(|one, other| other.cmp(one));
    assert_eq!(cold, [(900, "/b".to_owned()), (200, "/a".to_owned())]);
}

/// Spec 14.3, proactive reclaim: the youngest row of the threshold's age is evicted with a limit; the rest of the limit goes to the next
/// group.
#[test]
fn pattern_proactive_reclaim() {
    let mut host = FakeHost::default();
    host.add("/a", 10, 200);
    host.add("/b", 10, 900);
    let mut reclaimer = reclaimer(|config| config.budget = Bytes::new(1000 * PAGE_BYTES));
    let mut passes = Vec::new();
    for second in 0..4 {
        host.now = seconds(second);
        let pass = reclaimer.handle_timeout(host.now, &mut host).expect("due");
        passes.push((pass.cold_bytes / PAGE_BYTES, pass.evicted_bytes / PAGE_BYTES));
    }
    // Idle pages are two intervals old in second 2: the larger group first, the other gets what is left of the budget.
    assert_eq!(passes, [(0, 0), (0, 0), (1100, 1000), (100, 100)]);
    let commands: Vec<String> = host.evictions.iter().map(ToString::to_string).collect();
    assert_eq!(commands, ["- 1 0 4 60 900", "- 0 0 4 60 100", "- 0 0 5 60 100"]);
    let why = reclaimer.why();
    assert_eq!(why.of(GenerationReason::BudgetUsed), Times { times: 1, bytes: 100 * PAGE_BYTES });
    assert_eq!(why.of(GenerationReason::Evicted), Times { times: 3, bytes: 1100 * PAGE_BYTES });
    let words = explain_reclaimer(reclaimer.config(), &why).join("\n");
    assert!(words.starts_with("Proactive reclaim evicted 4.30 MiB in 4 passes."), "{words}");
    assert!(words.contains("the budget of 4000KiB a pass was used up"), "{words}");
}

#[test]
fn the_two_youngest_generations_are_never_asked_for() {
    let mut host = FakeHost::default();
    host.add("/a", 10, 200);
    let mut reclaimer = reclaimer(|config| (config.threshold, config.interval) = (SECOND, Some(SECOND)));
    for second in 0..3 {
        host.now = seconds(second);
        reclaimer.handle_timeout(host.now, &mut host);
    }
    for eviction in &host.evictions {
        assert!(eviction.min_gen_nr + 2 <= host.groups[0].max_seq, "{eviction}");
    }
    assert_eq!(host.groups[0].idle.iter().sum::<u64>(), 0);
}

#[test]
fn pressure_and_refaults_make_it_wait() {
    let mut host = FakeHost::default();
    host.add("/a", 10, 100_000);
    let budget = Bytes::from_mib(40);
    let mut reclaimer = reclaimer(|config| config.budget = budget);
    let mut pass = |host: &mut FakeHost, second| {
        host.now = seconds(second);
        reclaimer.handle_timeout(host.now, host).expect("due")
    };
    pass(&mut host, 0);
    pass(&mut host, 1);
    assert_eq!(pass(&mut host, 2).evicted_bytes, budget.get());
    host.stall_us += 1001; // more than 0.1 % of a second
    let stalled = pass(&mut host, 3);
    assert_eq!((stalled.held_back, stalled.evicted_bytes), (Some(GenerationReason::Pressure), 0));
    assert_eq!((stalled.stalled_ppm, stalled.budget_bytes), (Some(1001), budget.get() / 2));
    let calm = pass(&mut host, 4);
    assert_eq!((calm.held_back, calm.evicted_bytes), (None, budget.get() * 3 / 4), "a quarter more a calm pass");
    host.refault_bytes += budget.get() * 7 / 4 / 20 + 1; // more than 5 % of the 70 MiB evicted
    let missed = pass(&mut host, 5);
    assert_eq!((missed.held_back, missed.evicted_bytes), (Some(GenerationReason::Refaults), 0));
    host.refault_bytes += budget.get() * 7 / 4 / 20; // just 5 %
    assert_eq!(pass(&mut host, 6).held_back, None);
    let why = reclaimer.why();
    assert_eq!((why.passes.begun, why.passes.pressure, why.passes.refaults), (7, 1, 1));
    let words = explain_reclaimer(reclaimer.config(), &why).join("\n");
    for part in ["stalled by memory for more than 0.1%", "more than 5% of what was evicted came back"] {
        assert!(words.contains(part), "{words}");
    }
}

/// Refaults of a group from before its first reading come from no eviction here.
#[test]
fn refaults_of_a_group_that_appears_are_not_blamed() {
    let mut host = FakeHost::default();
    host.add("/a", 10, 1000);
    let targets = ["/a".to_owned(), "/b".to_owned()];
    let mut reclaimer = reclaimer(|config| config.targets = targets.to_vec());
    let mut pass = |host: &mut FakeHost, second| {
        host.now = seconds(second);
        let pass = reclaimer.handle_timeout(host.now, host).expect("due");
        (pass.refaulted_bytes, pass.held_back)
    };
    (0..3).for_each(|second| assert_eq!(pass(&mut host, second).1, None));
    host.add("/b", 10, 0);
    host.groups[1].refault_bytes = 1 << 40;
    assert_eq!(pass(&mut host, 3), (Some(0), None), "a terabyte of its own past");
    host.groups[1].refault_bytes += 5000 * PAGE_BYTES;
    assert_eq!(pass(&mut host, 4), (Some(5000 * PAGE_BYTES), Some(GenerationReason::Refaults)));
}

/// A reading that failed once costs that reading; generations switched off cost all that was known.
#[test]
fn history_outlives_a_failed_look() {
    let after = |trouble: fn(&mut FakeHost, bool)| {
        let mut host = FakeHost::default();
        host.add("/a", 50, 1000);
        let mut estimator = estimator(8, &["/"]);
        let mut cold = ColdBounds::default();
        for second in 0..12 {
            host.now = seconds(second);
            trouble(&mut host, second == 9);
            let reading = estimator.handle_timeout(host.now, &mut host);
            assert_eq!(reading.is_none(), second == 9);
            cold = reading.map_or(cold, |reading| reading.groups[0].cold);
        }
        cold.at_least_pages
    };
    assert_eq!(after(|host, now| host.is_failing = now), 750, "all but what five ageings may have added");
    assert_eq!(after(|host, now| host.is_classic = now), 0, "known for two seconds");
}

#[test]
fn what_cannot_be_read_is_taken_as_calm_and_told() {
    let mut host = FakeHost { is_blind: true, ..FakeHost::default() };
    host.add("/a", 10, 100);
    let mut reclaimer = reclaimer(|_| {});
    for second in 0..3 {
        host.now = seconds(second);
        let pass = reclaimer.handle_timeout(host.now, &mut host).expect("due");
        assert_eq!((pass.stalled_ppm, pass.refaulted_bytes), (None, None));
    }
    assert_eq!(reclaimer.why().passes.unread, 3);
    assert_eq!(host.groups[0].idle, [0; 4]);
}

#[test]
fn pages_that_stay_are_told() {
    let mut host = FakeHost::default();
    host.add("/a", 10, 100);
    host.groups[0].stuck = 60;
    let mut reclaimer = reclaimer(|_| {});
    for second in 0..3 {
        host.now = seconds(second);
        reclaimer.handle_timeout(host.now, &mut host);
    }
    let why = reclaimer.why();
    assert_eq!(why.of(GenerationReason::StillThere), Times { times: 1, bytes: 60 * PAGE_BYTES });
    assert!(explain_reclaimer(reclaimer.config(), &why).join("\n").contains("in use after all"));
}

#[test]
fn a_host_without_generations_is_told_and_harmless() {
    let mut host = FakeHost { is_classic: true, ..FakeHost::default() };
    host.add("/a", 10, 100);
    let mut reclaimer = reclaimer(|_| {});
    let mut estimator = estimator(1, &["/"]);
    for second in 0..3 {
        host.now = seconds(second);
        assert_eq!(reclaimer.handle_timeout(host.now, &mut host), None);
        assert_eq!(estimator.handle_timeout(host.now, &mut host), None);
    }
    assert_eq!(reclaimer.why().of(GenerationReason::NotHere).times, 3);
    let words = explain_reclaimer(reclaimer.config(), &reclaimer.why()).join("\n");
    assert!(words.contains("3 times this host cannot do it: not available here: needs mglru."), "{words}");
    let words = explain_estimator(estimator.config(), estimator.why()).join("\n");
    assert!(words.contains("needs mglru"), "{words}");
}

#[test]
fn targets_stand_for_what_lies_below_them() {
    let mut host = FakeHost::default();
    for path in ["/app", "/app/db", "/apple", "/other"] {
        host.add(path, 10, 0);
    }
    let mut estimator = estimator(1, &["/app"]);
    let reading = estimator.handle_timeout(Instant::START, &mut host).expect("due");
    let paths: Vec<&str> = reading.groups.iter().map(|group| group.listing.path.as_str()).collect();
    assert_eq!(paths, ["/app", "/app/db"]);
    let mut nobody = self::estimator(1, &["/nobody"]);
    assert_eq!(nobody.handle_timeout(Instant::START, &mut host).expect("due").groups, []);
    assert_eq!(nobody.why().of(GenerationReason::NoGroup).times, 1);
}

/// A group that comes later is aged from the next pass on; a replaced group is found again after a refusal.
#[test]
fn groups_come_and_go() {
    let mut host = FakeHost::default();
    host.add("/a", 10, 0);
    let mut estimator = estimator(1, &["/"]);
    let mut pass = |host: &mut FakeHost, second| {
        host.now = seconds(second);
        estimator.handle_timeout(host.now, host).expect("due")
    };
    pass(&mut host, 0);
    host.add("/b", 20, 0);
    assert_eq!(pass(&mut host, 1).groups.len(), 2);
    assert_eq!((host.groups[0].max_seq, host.groups[1].max_seq), (5, 3));
    pass(&mut host, 2);
    assert_eq!(host.groups[1].max_seq, 4);
    host.groups[0].max_seq = 3; // a new group under the same number
    pass(&mut host, 3);
    assert_eq!(host.groups[0].max_seq, 3, "refused");
    pass(&mut host, 4);
    assert_eq!(host.groups[0].max_seq, 4);
    assert_eq!(estimator.why().of(GenerationReason::Failed).times, 1);
}

#[test]
fn after_a_long_sleep_it_ages_once_and_counts_what_it_missed() {
    let mut host = FakeHost::default();
    host.add("/a", 10, 0);
    let mut estimator = estimator(1, &["/"]);
    estimator.handle_timeout(Instant::START, &mut host);
    host.now = seconds(7) + Duration::from_ms(300);
    assert!(estimator.handle_timeout(host.now, &mut host).is_some());
    assert_eq!((estimator.missed(), host.ageings.len()), (6, 2));
    assert_eq!(estimator.poll_timeout(), Some(seconds(8)));
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let ms = Duration::from_ms;
    let wrong = |change: fn(&mut EstimatorConfig)| {
        let mut config = EstimatorConfig::default();
        change(&mut config);
        Estimator::new(config).expect_err("refused").to_string()
    };
    assert_eq!(wrong(|config| config.interval = Duration::from_ms(5)), "`interval` is 5ms; allowed: 10ms and more");
    assert_eq!(
        wrong(|config| config.window = Some(Duration::from_ms(500))),
        "`window` is 500ms; allowed: from one interval (1s) to 64 (1.06666666666666666666m)"
            .replace("1.06666666666666666666m", "64s")
    );
    for target in ["app", "/app/", "//", ""] {
        let mut config = EstimatorConfig { targets: vec![target.to_owned()], ..EstimatorConfig::default() };
        assert!(Estimator::new(config.clone()).is_err(), "{target}");
        config.targets = Vec::new();
        assert!(Estimator::new(config).is_err());
    }
    let nested = EstimatorConfig { targets: vec!["/a".to_owned(), "/a/b".to_owned()], ..EstimatorConfig::default() };
    assert!(nested.validate().expect_err("nested").to_string().contains("do not lie in each other"));

    let wrong = |change: &dyn Fn(&mut ReclaimerConfig)| {
        let mut config = ReclaimerConfig { threshold: ms(900), ..ReclaimerConfig::default() };
        change(&mut config);
        Reclaimer::new(config).expect_err("refused").key
    };
    assert_eq!(wrong(&|config| config.interval = Some(ms(299))), "threshold");
    assert_eq!(wrong(&|config| config.interval = Some(ms(901))), "threshold");
    assert_eq!(wrong(&|config| config.threshold = ms(18)), "interval");
    assert_eq!(wrong(&|config| config.budget = Bytes::new(4095)), "budget");
    assert_eq!(wrong(&|config| config.pressure = Ratio::from_percent(101)), "pressure");
    assert_eq!(wrong(&|config| config.refaults = Ratio::from_percent(101)), "refaults");
    assert_eq!(wrong(&|config| config.targets = vec!["x".to_owned()]), "targets");
}

#[test]
fn what_is_written_in_files_is_read_back() {
    let text = "threshold = \"30s\"\ninterval = \"10s\"\nswappiness = \"max\"\nbudget = \"1GiB\"\nrefaults = \"1%\"";
    let config: ReclaimerConfig = toml::from_str(text).expect("as in the docs");
    assert_eq!((config.swappiness, config.budget), (Swappiness::AnonOnly, Bytes::from_gib(1)));
    assert_eq!(
        toml::from_str::<ReclaimerConfig>(&toml::to_string(&config).expect("plain")).expect("as written"),
        config
    );
    let error = toml::from_str::<EstimatorConfig>("intervall = \"1s\"").expect_err("unknown").to_string();
    assert!(error.contains("unknown field `intervall`"), "{error}");
}
