//! What real kernels do beside the simulated machine: the comparison from stored data, and a slice of a real run. Without an emulator,
//! a kernel or the guest's program the latter says so and passes; with `ISOTHERM_REQUIRE_ALL=1` it fails.
#![expect(clippy::print_stdout, reason = "says what is skipped, and what is fetched")]

use isotherm_fidelity::FidelityError;
use isotherm_fidelity::beside::{Rig, Stored, compaction, monitor, promotion};
use isotherm_rig::{KernelEntry, RigError, guest_program};
use std::collections::BTreeMap;
use std::path::Path;

/// Whether there are so many boots of each of the two kernels.
fn kernels_of<B>(stored: &Stored<B>, release: impl Fn(&B) -> &str, boots: usize) {
    let mut kernels: BTreeMap<String, usize> = BTreeMap::new();
    for boot in &stored.boots {
        *kernels.entry(release(boot).split('.').take(2).collect::<Vec<_>>().join(".")).or_default() += 1;
    }
    assert_eq!(kernels, BTreeMap::from([("6.12".to_owned(), boots), ("7.2".to_owned(), boots)]));
    assert!(stored.command.starts_with("isotherm simulate fidelity-"), "{}", stored.command);
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

#[test]
fn a_slice_of_a_real_run() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    let find = || {
        let guest = guest_program(Some(&target.join("guest/isotherm-guest")), None)?;
        let kernel = KernelEntry::named("6.12")?.get(&target.join("kernels"), &|what| println!("rig: {what}"))?;
        let rig = Rig { kernel: ("6.12", &kernel), guest: &guest };
        monitor::real(&rig, &monitor::PATTERNS[..1], 14)
    };
    let boot = match find() {
        Err(FidelityError::Rig(reason)) if reason.is_lack() || matches!(reason, RigError::Fetch { .. }) => {
            assert!(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_none_or(|all| all != "1"), "required: {reason}");
            println!("beside: skipped: {reason}");
            return;
        }
        boot => boot.unwrap(),
    };
    assert_eq!(boot.runs.len(), 2);
    for run in &boot.runs {
        assert!(run.scores.snapshots >= 4 && run.scores.regions > 5.0, "{run:?}");
    }
    // This kernel begins with one region; given the arena alone, it has found the borders after seven aggregations.
    let often = boot.runs[1].scores.often;
    assert!(often.recall.unwrap() > 0.8 && often.precision.unwrap() > 0.6, "{boot:?}");
}

#[test]
fn data_of_promotion_are_whole() {
    let stored = promotion::stored().unwrap();
    kernels_of(&stored, |boot| &boot.release, 3);
    let rows = promotion::rows(&stored);
    // Three cases, two kernels, eight figures.
    assert_eq!(rows.len(), 48);
    let of = |case: &str, metric: &str| {
        rows.iter().filter(|row| row.case == case && row.metric == metric).map(|row| row.real).collect::<Vec<_>>()
    };
    // A quarter of 32768 pages is hot: tiering promotes all of it, balancing by locality nothing.
    assert!(of("hot-set, mode 2", "pgpromote_success").iter().all(|real| (7800.0..8800.0).contains(&real.low)));
    assert!(of("hot-set, mode 1", "pgpromote_success").iter().all(|real| real.high < 100.0));
}

#[test]
fn data_of_compaction_are_whole() {
    let stored = compaction::stored().unwrap();
    let rows = compaction::rows(&stored).unwrap();
    kernels_of(&stored, |boot| &boot.release, 1);
    // Four cases, two kernels, nineteen figures.
    assert_eq!(rows.len(), 152);
    let of = |case: &str, metric: &str| rows.iter().find(|row| row.case == case && row.metric == metric).unwrap().real;
    for holes in ["contiguous", "strided"] {
        let (off, on) = (format!("{holes} 0"), format!("{holes} 20"));
        assert!(of(&off, "extfrag_before").low > 85.0 && of(&on, "extfrag_before").low > 85.0);
        assert!(of(&off, "extfrag_after").low > 85.0, "left alone, nothing changes");
        assert!(of(&on, "extfrag_after").high < 70.0, "proactive compaction makes room");
        assert!(of(&on, "huge_got").low > of(&off, "huge_got").high);
    }
}
