//! Many replays in one boot of a real kernel. Without an emulator, a kernel or the guest's program this says so and passes; with
//! `ISOTHERM_REQUIRE_ALL=1` it fails.
#![expect(clippy::print_stdout, reason = "says what is skipped, and what is fetched")]

use isotherm_rig::job::{Play, SeriesRun, Setting};
use isotherm_rig::script::{Action, CONDUCTOR, Operation, ScriptFile};
use isotherm_rig::{AtHand, Clock, FileSystem, Machine, Script, SeriesPlay};
use std::path::Path;

/// The rig; `None`, after a message, if a part is missing.
fn rig() -> Option<AtHand> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    let is_required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|all| all == "1");
    AtHand::find(target, "6.12", is_required, &|what| println!("{what}")).unwrap()
}

/// 2048 anonymous pages written and 1024 pages of a file read.
fn script() -> Script {
    let of = |process, action| Operation { process, action };
    let (first, file_at) = (1 << 27, 1 << 28);
    let file = Action::MapFile { page: file_at, pages: 1024, file: 0, file_page: 0, shared: true, executable: false };
    Script {
        files: vec![ScriptFile { pages: 1024, shared_memory: false }],
        watched: vec![(0, first, 2048), (0, file_at, 1024)],
        operations: vec![
            of(CONDUCTOR, Action::Start { process: 0 }),
            of(0, Action::MapAnonymous { page: first, pages: 2048 }),
            of(0, file),
            of(0, Action::Touch { page: first, pages: 2048, write: true }),
            of(0, Action::Touch { page: file_at, pages: 1024, write: false }),
            of(CONDUCTOR, Action::Mark { number: 1 }),
            of(0, Action::Finish),
        ],
    }
}

/// A run without swap that does not fit is killed by the kernel; those before and after it are unaffected.
#[test]
fn a_run_that_is_killed_does_not_spoil_the_next() {
    let Some(AtHand { kernel: (_, kernel), guest }) = rig() else { return };
    let run = |limit_bytes, zram_bytes, subgroups: &[u16]| SeriesRun {
        script: 0,
        settings: Vec::new(),
        zram_bytes,
        play: Play { limit_bytes, read_stat_every: 256, seconds_max: 60 },
        subgroups: subgroups.to_vec(),
    };
    let zram = Some(64 << 20);
    let runs =
        [run(None, zram, &[]), run(Some(4 << 20), None, &[]), run(None, zram, &[]), run(Some(8 << 20), zram, &[3])];
    let machine = Machine { clock: Clock::Instructions, ..Machine::default() };
    let settings = [Setting {
        path: "/sys/kernel/mm/transparent_hugepage/enabled".to_owned(),
        value: "never".to_owned(),
        optional: false,
    }];
    let script = script();
    let series = SeriesPlay {
        kernel: &kernel,
        machine: &machine,
        guest: &guest,
        file_system: &FileSystem::SINGLE,
        settings: &settings,
        scripts: &[&script],
        runs: &runs,
    };
    let outcome = series.go(&|_| ()).unwrap();
    let seen = |index: usize| outcome.runs[index].as_ref().unwrap();
    for index in [0, 2] {
        assert_eq!(seen(index).anonymous[0].ranges, [(1 << 27, 2048)], "run {index}");
        assert_eq!(seen(index).cached[0].ranges, [(0, 1024)], "run {index}");
        assert_eq!(seen(index).nr_in_large_folios, 0, "run {index}");
    }
    let error = outcome.runs[1].as_ref().unwrap_err();
    assert!(error.starts_with("process 0 was killed at operation "), "{error}");
    // 2048 pages for 3072, in a group below the one with the limit, whose statistics include it.
    assert!(seen(3).memory_stat["pgsteal"] >= 1000, "{:?}", seen(3).memory_stat);
}
