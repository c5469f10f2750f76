//! Tools over generations in whole machines: their estimates are compared with the pages really used.

use super::kdamond_tests::hot_set;
use super::tests::config;
use super::*;
use isotherm_core::generations::{EstimatorConfig, GenerationReason, ReclaimerConfig, Swappiness, ToolConfig};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::{Bytes, PAGE_BYTES, PageRange};

const ALL: PageRange = PageRange { start: 70_001, end: 73_001 };
/// New pages wait in batches of 31: the last 24 never get to a generation.
const FILED: u64 = ALL.end - ALL.start - 24;
const HOT: PageRange = PageRange { start: 71_001, end: 71_301 };

/// 12 MiB on a machine of 64 MiB; a tenth of the memory is used, one page a microsecond.
fn play(policy: &str, tools: &[(&str, ToolConfig)], run: Duration) -> Outcome {
    play_on(MachineConfig::default().cpus, policy, tools, run)
}

fn play_on(cpus: u32, policy: &str, tools: &[(&str, ToolConfig)], run: Duration) -> Outcome {
    let nodes = vec![NodeConfig { memory: Bytes::from_mib(64), ..NodeConfig::default() }];
    let config = MachineConfig { cpus, nodes, ..config(Bytes::from_mib(64), DeviceKind::Zram) };
    let policy = isotherm_kernel::reclaim::policy_by_name(policy).unwrap().build();
    let mut builder = MachineBuilder::new(&config, policy).unwrap();
    builder.ground_truth();
    let group = builder.add_cgroup(CgroupId::ROOT, "app").unwrap();
    let id = builder.add_program(hot_set(ALL, HOT, 1000), group).unwrap();
    builder.start_at(id, Instant::START);
    for (name, tool) in tools {
        builder.generations(name, tool.clone()).unwrap();
    }
    builder.build().run(Instant::START + run).unwrap()
}

fn estimator() -> ToolConfig {
    ToolConfig::Estimate(EstimatorConfig {
        targets: vec!["/app".to_owned()],
        interval: Duration::from_ms(100),
        ..EstimatorConfig::default()
    })
}

fn reclaimer(change: impl FnOnce(&mut ReclaimerConfig)) -> ToolConfig {
    let mut config = ReclaimerConfig {
        targets: vec!["/app".to_owned()],
        threshold: Duration::from_ms(200),
        swappiness: Swappiness::Of(200),
        ..ReclaimerConfig::default()
    };
    change(&mut config);
    ToolConfig::Reclaim(config)
}

/// Spec 14.3 and E22 on a whole machine: right after an ageing the estimate is the truth, page for page, except pages that
/// belong to no generation yet.
#[test]
fn the_working_set_is_told_page_for_page() {
    let outcome = play("mglru", &[("wss", estimator())], Duration::from_secs(1));
    let reported = &outcome.generations[0];
    assert_eq!((reported.samples.len(), reported.missed, reported.why.of(GenerationReason::Aged).times), (11, 0, 11));
    // The first walk at 0 finds nothing; the second all pages, by the bits that their faults set: they were used.
    let pages: Vec<u64> = reported.samples.iter().skip(1).map(|sample| sample.estimate.pages).collect();
    assert_eq!(pages, [FILED, 300, 300, 300, 300, 300, 300, 300, 300, 300]);
    for sample in &reported.samples[1..] {
        let used = sample.used.expect("ground truth");
        let waiting = if sample.estimate.pages == FILED { ALL.len() - FILED } else { 0 };
        assert_eq!((used.present_pages, used.touched_pages), (sample.estimate.pages + waiting, used.present_pages));
        assert_eq!(
            (sample.estimate.low_pages, sample.estimate.high_pages),
            (sample.estimate.pages, sample.estimate.pages)
        );
    }
    assert_eq!((reported.mean_estimate_pages(), reported.mean_used_pages()), (Some(567), Some(570)));
    assert!(reported.cpu_ns > 11 * 3000 && reported.cpu_ns < 20_000_000, "walks are paid for: {}", reported.cpu_ns);
}

/// A monitored program gets less done where there is no idle processor: less by the daemon's CPU time.
#[test]
fn the_daemon_competes_for_processors() {
    let run = Duration::from_ms(500);
    let computed = |cpus, tools: &[(&str, ToolConfig)]| {
        let outcome = play_on(cpus, "mglru", tools, run);
        (outcome.programs[0].time.compute_ns, outcome.generations.iter().map(|tool| tool.cpu_ns).sum::<u64>())
    };
    let often = ToolConfig::Estimate(EstimatorConfig { interval: Duration::from_ms(10), ..EstimatorConfig::default() });
    let both: Vec<(&str, ToolConfig)> = vec![("one", often.clone()), ("two", often)];
    let (beside, taken) = computed(1, &both);
    assert!(taken > 1_000_000, "the daemons cost something: {taken}");
    let lost = run.ns() - beside;
    assert!(lost >= taken / 2 && lost <= taken * 2, "{lost} ns are lost to daemons that take {taken}");
    let (with_room, _) = computed(4, &both);
    assert!(with_room > beside, "idle processors take them: {with_room} {beside}");
}

/// Spec 14.3: unused memory goes to swap before it is needed elsewhere; memory in use stays.
#[test]
fn cold_memory_is_evicted_and_hot_memory_stays() {
    let outcome = play("mglru", &[("reclaim", reclaimer(|_| {}))], Duration::from_secs(1));
    let done = &outcome.generations[0];
    let cold = (FILED - HOT.len()) * PAGE_BYTES;
    assert_eq!(done.evicted_bytes, cold, "{:?}", done.words);
    assert_eq!(outcome.cgroup("/app").unwrap().lists.anon(), HOT.len() + ALL.len() - FILED);
    assert_eq!(outcome.kernel.kswapd_ns + outcome.kernel.direct_ns, 0, "nobody else had to");
    let words = done.words.join("\n");
    assert!(words.starts_with("Proactive reclaim evicted 10.5 MiB in 11 passes."), "{words}");
    // Compressing a page takes 6 µs, and the daemon pays for it.
    assert!(done.cpu_ns > 2700 * 6000, "{}", done.cpu_ns);
}

#[test]
fn a_budget_spreads_it_over_passes() {
    let budget = Bytes::new(500 * PAGE_BYTES);
    let outcome = play("mglru", &[("reclaim", reclaimer(|config| config.budget = budget))], Duration::from_secs(2));
    let done = &outcome.generations[0];
    for sample in &done.samples {
        let pass = sample.pass.as_ref().expect("it reclaims");
        assert!(pass.evicted_bytes <= budget.get() + 64 * PAGE_BYTES, "{pass:?}");
    }
    assert!(done.why.of(GenerationReason::BudgetUsed).times >= 5);
    assert_eq!(done.evicted_bytes, (FILED - HOT.len()) * PAGE_BYTES);
}

#[test]
fn without_generations_it_says_so_and_changes_nothing() {
    let plain = play("classic", &[], Duration::from_ms(500));
    let outcome = play("classic", &[("reclaim", reclaimer(|_| {}))], Duration::from_ms(500));
    let done = &outcome.generations[0];
    assert_eq!((done.evicted_bytes, done.samples.len()), (0, 0));
    assert!(done.words.join("\n").contains("needs mglru"), "{:?}", done.words);
    assert_eq!(outcome.cgroup("/app").unwrap().lists, plain.cgroup("/app").unwrap().lists);
}

#[test]
fn a_set_up_that_makes_no_sense_is_refused() {
    let policy = isotherm_kernel::reclaim::policy_by_name("mglru").unwrap().build();
    let mut builder = MachineBuilder::new(&MachineConfig::default(), policy).unwrap();
    let error = builder.generations("g", reclaimer(|config| config.budget = Bytes::ZERO)).unwrap_err().to_string();
    assert_eq!(error, "generations `g`: `budget` is 0B; allowed: a page (4KiB) and more");
}
