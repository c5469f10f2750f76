//! Real kernels versus the simulated machine: the comparison from stored data, and a slice of a real run. Without an emulator, a
//! kernel or the guest's program the latter says so and passes; with `ISOTHERM_REQUIRE_ALL=1` it fails.
#![expect(clippy::print_stdout, reason = "says what is skipped, and what is fetched")]

use isotherm_fidelity::FidelityError;
use isotherm_fidelity::versus::live::Product;
use isotherm_fidelity::versus::live_tenant::{Attack, tenant};
use isotherm_fidelity::versus::{Rig, Stored, compaction, live_kills, live_restores, monitor, promotion, sorting};
use isotherm_guest::fragmenting::Holes;
use isotherm_guest::restoring::RestoreState;
use isotherm_rig::AtHand;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use crate::ONE_AT_A_TIME;

/// Whether there is this number of boots of each of the two kernels.
fn kernels_of<B>(stored: &Stored<B>, release: impl Fn(&B) -> &str, boots: usize) {
    let mut kernels: BTreeMap<String, usize> = BTreeMap::new();
    for boot in &stored.boots {
        *kernels.entry(release(boot).split('.').take(2).collect::<Vec<_>>().join(".")).or_default() += 1;
    }
    assert_eq!(kernels, BTreeMap::from([("6.12".to_owned(), boots), ("7.2".to_owned(), boots)]));
    assert!(stored.command.starts_with("isotherm-lab fidelity-"), "{}", stored.command);
}

#[test]
fn data_of_the_monitor_are_whole() {
    let stored = monitor::stored().unwrap();
    kernels_of(&stored, |boot| &boot.release, 3);
    for boot in &stored.boots {
        let played: Vec<_> = boot.runs.iter().map(|run| (run.pattern.as_str(), run.addresses)).collect();
        let wanted = monitor::PATTERNS.iter().flat_map(|pattern| monitor::ADDRESSES.map(|kind| (pattern.name, kind)));
        assert_eq!(played, wanted.collect::<Vec<_>>());
        assert!(boot.runs.iter().all(|run| run.scores.snapshots >= 10), "{}", boot.release);
        assert!(boot.mappings.len() > 5, "code, data, arena, stack");
    }
}

#[test]
fn our_monitor_finds_what_the_kernel_finds() {
    let stored = monitor::stored().unwrap();
    let wanted = ["hot-set", "warm"];
    let patterns: Vec<_> = monitor::PATTERNS.iter().copied().filter(|pattern| wanted.contains(&pattern.name)).collect();
    let mut done = 0;
    let rows = monitor::compare(&stored, &patterns, 1..=2, &mut || done += 1).unwrap();
    // Two patterns, two kinds of addresses, two kernels; two seeds; six figures.
    assert_eq!((done, rows.len()), (16, 48));
    for row in rows.iter().filter(|row| row.metric.starts_with("often")) {
        assert_eq!(row.met, Some(true), "{row:?}");
        assert!(row.simulated.mean > 0.95 && row.real.mean > 0.95, "{row:?}");
    }
}

#[test]
fn what_is_no_data_is_refused() {
    let error =
        Stored::<monitor::RealBoot>::parse("{\"command\":\"x\",\"boots\":[{", Path::new("cut.json")).unwrap_err();
    assert!(error.to_string().starts_with("cut.json: EOF"), "{error}");
}

/// Runs something in the older kernel; `None`, after a message, if a part is missing.
fn in_a_kernel<T>(run: impl FnOnce(&Rig<'_>) -> Result<T, FidelityError>) -> Option<T> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    let is_required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|all| all == "1");
    let found = AtHand::find(target, "6.12", is_required, &|what| println!("{what}")).unwrap()?;
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    Some(run(&Rig { kernel: (found.kernel.0, &found.kernel.1), guest: &found.guest }).unwrap())
}

#[test]
fn a_slice_of_monitoring_in_a_kernel() {
    let Some(boot) = in_a_kernel(|rig| monitor::real(rig, &monitor::PATTERNS[..1], 14)) else { return };
    assert_eq!(boot.runs.len(), 2);
    for run in &boot.runs {
        assert!(run.scores.snapshots >= 4 && run.scores.regions > 5.0, "{run:?}");
    }
    // This kernel begins with one region; with only the arena, it has found the borders after seven aggregations.
    let often = boot.runs[1].scores.often;
    assert!(often.recall.unwrap() > 0.8 && often.precision.unwrap() > 0.6, "{boot:?}");
}

#[test]
fn a_slice_of_sorting_in_a_kernel() {
    // Four seconds: after one the module may not have found anything hot.
    let Some(boot) = in_a_kernel(|rig| sorting::real(rig, &sorting::SORT_WORKLOADS[..1], 200)) else { return };
    let [plain, sorted] = &boot.runs[..] else { panic!("without and with: {boot:?}") };
    assert!(!plain.is_sorted && sorted.is_sorted);
    // The limit drops at once, and a quarter must be evicted.
    assert!(plain.counts.scanned >= 8192 && sorted.counts.scanned >= 8192, "{boot:?}");
    assert_eq!(plain.counts.hot_bytes, 0);
    assert!(sorted.counts.hot_bytes > 0, "{boot:?}");
}

#[test]
fn a_slice_of_compaction_in_a_kernel() {
    // At 20 the score, 90 or 91, is at the mark itself: whether the kernel begins depends on the size of the guest's first process.
    let Some(boot) = in_a_kernel(|rig| compaction::real(rig, &[(Holes::Contiguous, 40)], 2_000)) else { return };
    let [run] = &boot.runs[..] else { panic!("one case: {boot:?}") };
    assert_eq!((run.holes, run.proactiveness), (Holes::Contiguous, 40));
    assert!((250..350).contains(&run.sections), "{run:?}");
    // Four checks are enough to begin.
    assert!(run.alone.get("compact_migrate_scanned").is_some_and(|&pages| pages > 0), "{run:?}");
    assert_eq!(run.asked, run.sections * 3 / 4 * 60 / 100);
}

#[test]
fn a_slice_of_promotion_in_a_kernel() {
    let Some(boot) = in_a_kernel(|rig| promotion::real(rig, &promotion::TIER_CASES[1..2], 200)) else { return };
    let [run] = &boot.runs[..] else { panic!("one case: {boot:?}") };
    assert_eq!(run.tiers, ["memory_tier4: 0", "memory_tier90: 1"]);
    // The first state and one after each hundred passes; the arena begins on the slow node.
    assert_eq!(run.nodes.iter().map(|(passes, _)| *passes).collect::<Vec<_>>(), [0, 100, 200]);
    assert_eq!(run.nodes[0].1, [0, 32_768]);
}

/// isotherm in one file, which `cargo xtask static` builds; `None`, after a message, if it was not built.
fn isotherm() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    let isotherm = target.join("static/isotherm");
    let is_required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|all| all == "1");
    let is_there = isotherm.is_file();
    assert!(is_there || !is_required, "{} is not there: `cargo xtask static` builds it", isotherm.display());
    if !is_there {
        println!("skipped: {} is not there: `cargo xtask static` builds it", isotherm.display());
    }
    is_there.then_some(isotherm)
}

/// `isotherm-lab live --kills 200` kills it more often, on both kernels.
#[test]
fn a_slice_of_killing_the_daemon_in_a_kernel() {
    let Some(isotherm) = isotherm() else { return };
    let mut changed = 0;
    for name in ["damon", "limits"] {
        let way = live_kills::KILL_WAYS.iter().find(|way| way.name == name).unwrap();
        // It does not use the module.
        let product = Product { isotherm: &isotherm, module: Path::new("") };
        let Some(run) = in_a_kernel(|rig| live_kills::kills(rig, product, way, 10, 7)) else { return };
        assert_eq!(run.killed.rounds, [6, 2, 2]);
        changed += run.killed.changed_when_killed;
        assert_eq!(run.knobs_changed, Vec::<String>::new());
        assert!(run.killed.term_longest_ms < 2000, "{run:?}");
    }
    // With one way alone, no kill may meet a changed knob: about one time in thirty.
    assert!(changed >= 1, "it was killed while knobs were changed");
}

/// `isotherm-lab tenant` lasts longer, with more groups. CPU time and time of the metrics are not judged: an emulated processor is slow.
#[test]
fn a_slice_of_a_hostile_tenant_in_a_kernel() {
    let Some(isotherm) = isotherm() else { return };
    let product = Product { isotherm: &isotherm, module: Path::new("") };
    let attack = Attack { seconds: 90, groups: 200, groups_at_a_time: 200, connections: 200, seed: 1 };
    let Some(run) = in_a_kernel(|rig| tenant(rig, product, &attack)) else { return };
    assert_eq!((run.misses(), &run.tenanted.knobs_changed), (Vec::new(), &Vec::<String>::new()), "{run:?}");
    assert!(run.tenanted.churn.made >= 50 && run.tenanted.churn.connected >= 1000, "he attacked: {run:?}");
}

/// `isotherm-lab kills --moments 40` does more, on both kernels.
#[test]
fn a_slice_of_restoring_on_a_machine_that_changed() {
    let Some(isotherm) = isotherm() else { return };
    let product = Product { isotherm: &isotherm, module: Path::new("") };
    // The fourth moment of a state is the first one in which a limit can be in place and the state begins before the kill.
    let restores = |rig: &Rig<'_>| live_restores::restores(rig, product, &RestoreState::ALL, 4, 7);
    let Some(runs) = in_a_kernel(restores) else { return };
    let states: Vec<RestoreState> = runs.iter().map(|run| run.restored.state).collect();
    assert_eq!(states, RestoreState::ALL);
    for run in runs.iter().map(|run| &run.restored) {
        assert_eq!(run.knobs_changed, Vec::<String>::new());
        assert_eq!(run.codes_wrong, Vec::<String>::new());
        assert_eq!((run.as_before, run.others_untouched), (4, 4), "{run:?}");
        let codes: Vec<&str> = run.codes.keys().map(String::as_str).collect();
        match run.state {
            // A full disk has room where the journal does not need another page.
            RestoreState::DiskFull => assert!(codes.iter().all(|code| ["0", "4"].contains(code)), "{run:?}"),
            // What `isotherm apply` changed is there in each moment, and cannot be noted as restored.
            RestoreState::ReadOnly => assert_eq!(codes, ["4"], "{run:?}"),
            _ => assert_eq!(codes, ["0"], "{run:?}"),
        }
    }
    let changed: u64 = runs.iter().map(|run| run.restored.changed_when_killed).sum();
    assert!(changed >= 5, "it was killed while knobs were changed: {runs:?}");
}

#[test]
fn data_of_sorting_are_whole_and_the_table_computes() {
    let stored = sorting::stored().unwrap();
    assert!(stored.command.starts_with("isotherm-lab fidelity-sorting --refresh "), "{}", stored.command);
    let of = |release: &str| stored.boots.iter().filter(|boot| boot.release.starts_with(release)).count();
    assert_eq!((of("7.2."), of("6.12.") > 0), (5, true));
    for boot in &stored.boots {
        let played: Vec<_> = boot.runs.iter().map(|run| (run.workload.as_str(), run.is_sorted)).collect();
        let wanted =
            sorting::SORT_WORKLOADS.iter().flat_map(|workload| [false, true].map(|sorted| (workload.name, sorted)));
        assert_eq!(played, wanted.collect::<Vec<_>>());
        let hot = |is_sorted| -> u64 {
            boot.runs.iter().filter(|run| run.is_sorted == is_sorted).map(|run| run.counts.hot_bytes).sum()
        };
        assert!(hot(false) == 0 && hot(true) > 0, "LRU_SORT works where it is on: {boot:?}");
    }
    let mut done = 0;
    let rows = sorting::compare(&stored, 1..=1, &mut || done += 1).unwrap();
    // Four workloads; two kernels; eleven figures, and no ratio has a base of 0.
    assert_eq!((done, rows.len()), (4, 88));
    for row in rows.iter().filter(|row| row.metric == "major_faults_ratio") {
        let simulated = row.simulated.unwrap();
        assert!(row.real.low > 0.0 && row.real.low <= row.real.mean && row.real.mean <= row.real.high, "{row:?}");
        assert!(simulated.mean > 0.0, "{row:?}");
    }
}

#[test]
fn data_of_promotion_are_whole_and_the_table_computes() {
    let stored = promotion::stored().unwrap();
    kernels_of(&stored, |boot| &boot.release, 3);
    let one = Stored { command: String::new(), boots: vec![stored.boots[0].clone()] };
    let mut done = 0;
    let rows = promotion::compare(&one, promotion::TIER_CASES, promotion::PASSES, &mut || done += 1).unwrap();
    // Three cases, nine figures; without promotions there is no time until they were done.
    assert_eq!((done, rows.len()), (3, 26));
    let of = |case: &str, metric: &str| {
        let found = rows.iter().find(|row| row.case == case && row.metric == metric);
        found.unwrap_or_else(|| panic!("no row {metric} of {case}"))
    };
    // A quarter of 32768 pages is hot: tiering promotes all of it. The kernel does not count pages moved by locality balancing as
    // promoted; the simulated machine does.
    for range in [of("hot-set, mode 2", "pgpromote_success").real, of("hot-set, mode 2", "fast_pages_end").real] {
        assert!((7800.0..8800.0).contains(&range.low), "{range:?}");
    }
    assert_eq!(of("hot-set, mode 2", "pgpromote_success").simulated.unwrap().mean, 8192.0);
    assert_eq!(of("hot-set, mode 2", "pgpromote_candidate").simulated.unwrap().mean, 8192.0);
    assert!(of("hot-set, mode 1", "pgpromote_success").real.high < 100.0);
    assert_eq!(of("hot-set, mode 1", "numa_hint_faults").simulated.unwrap().mean, 16_384.0);
}

#[test]
fn data_of_compaction_are_whole_and_the_table_computes() {
    let stored = compaction::stored().unwrap();
    kernels_of(&stored, |boot| &boot.release, 1);
    let one = Stored { command: String::new(), boots: vec![stored.boots[0].clone()] };
    let mut done = 0;
    let rows = compaction::compare(&one, &compaction::CASES, &mut || done += 1).unwrap();
    // Four cases, twenty figures.
    assert_eq!((done, rows.len()), (4, 80));
    let of = |case: &str, metric: &str| rows.iter().find(|row| row.case == case && row.metric == metric).unwrap();
    for holes in ["contiguous", "strided"] {
        let (off, on) = (format!("{holes} 0"), format!("{holes} 20"));
        let both = |case: &str, metric: &str| [of(case, metric).real.mean, of(case, metric).simulated.unwrap().mean];
        for world in 0..2 {
            assert!(both(&off, "extfrag_before")[world] > 85.0 && both(&on, "extfrag_before")[world] > 85.0);
            assert!(both(&off, "extfrag_after")[world] > 85.0, "left alone, nothing changes");
        }
        assert!(of(&on, "extfrag_after").real.high < 70.0, "proactive compaction makes room");
        assert!(of(&on, "huge_got").real.low > of(&off, "huge_got").real.high);
        // Ours too, as far as its mark; strided memory is too regular in the simulated machine
        // (docs/evidence/fidelity.md#monitor-and-daemons).
        if holes == "contiguous" {
            assert!((70.0..=85.0).contains(&of(&on, "extfrag_after").simulated.unwrap().mean));
            assert!(
                of(&on, "asking_stalls").simulated.unwrap().mean < of(&off, "asking_stalls").simulated.unwrap().mean
            );
        }
    }
}
