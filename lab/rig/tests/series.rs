//! Many replays in one boot of a real kernel. Without an emulator, a kernel or the guest's program this says so and passes; with
//! `ISOTHERM_REQUIRE_ALL=1` it fails.
#![expect(clippy::print_stdout, reason = "says what is skipped, and what is fetched")]

use isotherm_rig::job::{Play, SeriesRun, Setting};
use isotherm_rig::script::{Action, CONDUCTOR, Operation, ScriptFile};
use isotherm_rig::{AtHand, Clock, FileSystem, Kernel, Machine, Script, SeriesOutcome, SeriesPlay};
use std::path::Path;
use std::time::Duration;

use crate::ONE_AT_A_TIME;

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

/// Plays the script's runs in one boot, with huge pages off and `more` settings.
fn play(
    kernel: &Kernel,
    guest: &Path,
    file_system: &FileSystem,
    more: &[Setting],
    runs: &[SeriesRun],
) -> SeriesOutcome {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // A boot takes a minute and more where others use the processors too.
    let time_limit = Duration::from_secs(600);
    let machine = Machine { clock: Clock::Instructions, time_limit, ..Machine::default() };
    let mut settings = vec![knob("enabled", "never")];
    settings.extend_from_slice(more);
    let script = script();
    let series =
        SeriesPlay { kernel, machine: &machine, guest, file_system, settings: &settings, scripts: &[&script], runs };
    series.go(&|_| ()).unwrap()
}

fn knob(name: &str, value: &str) -> Setting {
    let path = format!("/sys/kernel/mm/transparent_hugepage/{name}");
    Setting { path, value: value.to_owned(), optional: false }
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
    let outcome = play(&kernel, &guest, &FileSystem::SINGLE, &[], &runs);
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

/// Linux 6.12 reads around a fault on XFS in folios of four pages (docs/spec/large-folios.md#f2-7), and has none on ext4.
#[test]
fn the_file_system_and_the_sizes_make_the_folios() {
    let Some(AtHand { kernel: (_, kernel), guest }) = rig() else { return };
    let play_once = Play { limit_bytes: None, read_stat_every: 256, seconds_max: 60 };
    let runs =
        [SeriesRun { script: 0, settings: Vec::new(), zram_bytes: None, play: play_once, subgroups: Vec::new() }];
    let sizes = [knob("hugepages-64kB/enabled", "always")];
    // Each eighth page is read: 2048 anonymous ones, and those of the file that are mapped.
    let table = [
        (FileSystem::EXT4, [].as_slice(), 0..=0),
        (FileSystem::EXT4, &sizes, 256..=256),
        (FileSystem::XFS, &[], 100..=128),
    ];
    for (file_system, more, expected) in table {
        let outcome = play(&kernel, &guest, &file_system, more, &runs);
        let found = outcome.runs[0].as_ref().unwrap().nr_in_large_folios;
        assert!(expected.contains(&found), "{} {more:?}: {found} of {expected:?}", file_system.name);
    }
}
