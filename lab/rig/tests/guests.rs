//! Boots real kernels. Without an emulator, a kernel or the guest's program these tests say so and pass; with
//! `ISOTHERM_REQUIRE_ALL=1` they fail.
#![expect(clippy::print_stdout, reason = "says what is skipped, and what is fetched")]

use isotherm_rig::job::{Play, Setting};
use isotherm_rig::script::{Action, Advice, CONDUCTOR, Operation, ScriptFile};
use isotherm_rig::{AtHand, Extras, Job, Machine, Observation, RigError, Run, RunResult, Script, Task};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::ONE_AT_A_TIME;

/// The rig; `None`, after a message, if a part is missing.
fn rig() -> Option<&'static AtHand> {
    static RIG: OnceLock<Option<AtHand>> = OnceLock::new();
    RIG.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
        let is_required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|all| all == "1");
        AtHand::find(target, "6.12", is_required, &|what| println!("{what}")).unwrap()
    })
    .as_ref()
}

fn boot() -> Job {
    Job { settings: Vec::new(), zram_bytes: None, files_device: None, task: Task::Boot }
}

fn run(rig: &AtHand, machine: &Machine, job: &Job, script: Option<&Script>) -> Result<RunResult, RigError> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Run { kernel: &rig.kernel.1, machine, guest: &rig.guest, job, script, extras: &Extras::default() }.go()
}

#[test]
fn a_guest_boots_and_says_what_it_is() {
    let Some(rig) = rig() else { return };
    let result = run(rig, &Machine::default(), &boot(), None).unwrap();
    assert_eq!(result.kernel, rig.kernel.1.release);
}

#[test]
fn a_guest_that_does_not_end_is_stopped() {
    let Some(rig) = rig() else { return };
    let machine = Machine { time_limit: Duration::from_millis(200), ..Machine::default() };
    let error = run(rig, &machine, &boot(), None).unwrap_err().to_string();
    assert!(error.starts_with("the guest did not end within 0 s and was stopped"), "{error}");
}

#[test]
fn a_kernel_that_panics_ends_the_run_with_the_tail_of_its_console() {
    let Some(rig) = rig() else { return };
    let mut job = boot();
    // It crashes on request, before it has reported on its task.
    job.settings.push(Setting { path: "/proc/sysrq-trigger".to_owned(), value: "c".to_owned(), optional: false });
    let error = run(rig, &Machine::default(), &job, None).unwrap_err().to_string();
    assert!(error.contains("panicked: sysrq triggered crash"), "{error}");
    assert!(error.contains("Kernel Offset: "), "the tail of the console: {error}");
}

fn play(limit_bytes: Option<u64>) -> Job {
    let knob = |path: &str, value: &str, optional| Setting { path: path.to_owned(), value: value.to_owned(), optional };
    Job {
        settings: vec![
            knob("/sys/kernel/mm/transparent_hugepage/enabled", "never", false),
            knob("/sys/kernel/mm/lru_gen/enabled", "n", true),
        ],
        zram_bytes: Some(256 << 20),
        files_device: None,
        task: Task::Play(Play { limit_bytes, read_stat_every: 256, seconds_max: 60 }),
    }
}

/// Two processes, the second a copy of the first; a file on a disk, mapped and read; the state marked twice.
fn two_processes() -> Script {
    let (first, file_at, pages) = (1 << 27, 1 << 28, 8192);
    let of = |process, action| Operation { process, action };
    let file = Action::MapFile { page: file_at, pages: 512, file: 0, file_page: 0, shared: false, executable: false };
    Script {
        files: vec![ScriptFile { pages: 1024, shared_memory: false }, ScriptFile { pages: 64, shared_memory: true }],
        watched: vec![(0, first, u64::from(pages)), (0, file_at, 512)],
        operations: vec![
            of(CONDUCTOR, Action::Start { process: 0 }),
            of(0, Action::MapAnonymous { page: first, pages }),
            of(0, file),
            of(0, Action::Touch { page: first, pages, write: true }),
            of(0, Action::Touch { page: file_at, pages: 1, write: false }),
            of(0, Action::Transfer { file: 0, page: 1000, pages: 1, write: false }),
            of(0, Action::Transfer { file: 1, page: 3, pages: 2, write: true }),
            of(CONDUCTOR, Action::Mark { number: 1 }),
            of(0, Action::Start { process: 1 }),
            of(1, Action::Touch { page: first, pages: 16, write: true }),
            of(1, Action::Finish),
            of(0, Action::Advise { page: first, pages: 4096, advice: Advice::DontNeed }),
            of(CONDUCTOR, Action::Mark { number: 2 }),
            of(0, Action::Finish),
        ],
    }
}

#[test]
fn a_script_is_played_and_the_kernel_counts_it() {
    let Some(rig) = rig() else { return };
    let result = run(rig, &Machine::default(), &play(None), Some(&two_processes())).unwrap();
    let seen: Vec<&Observation> = result.observations().collect();
    assert_eq!(seen.iter().map(|seen| seen.mark).collect::<Vec<_>>(), [1, 2]);
    // Everything is resident: all of the anonymous memory, and at least the touched page of the file.
    let ranges = &seen[0].resident[0].ranges;
    assert_eq!(ranges[0], (1 << 27, 8192));
    assert_eq!(ranges[1].0, 1 << 28);
    assert!(seen[0].memory_stat["anon"] >= 8192 * 4096, "{:?}", seen[0].memory_stat);
    assert!(seen[0].memory_stat["shmem"] == 2 * 4096, "{:?}", seen[0].memory_stat);
    let covers =
        |ranges: &[(u64, u64)], page| ranges.iter().any(|&(first, pages)| (first..first + pages).contains(&page));
    assert!(covers(&seen[0].cached[0].ranges, 0) && covers(&seen[0].cached[0].ranges, 1000));
    assert_eq!(seen[0].cached[1].ranges, [(3, 2)]);
    // The child's copies are gone with it; half of the parent's memory was given back.
    assert_eq!(seen[1].resident[0].ranges[0], ((1 << 27) + 4096, 4096));
}

#[test]
fn a_limit_makes_the_kernel_reclaim() {
    let Some(rig) = rig() else { return };
    let (first, pages) = (1 << 27, 16384);
    let sweep = |write| Operation { process: 0, action: Action::Touch { page: first, pages, write } };
    let operations = vec![
        Operation { process: CONDUCTOR, action: Action::Start { process: 0 } },
        Operation { process: 0, action: Action::MapAnonymous { page: first, pages } },
        sweep(true),
        sweep(false),
        Operation { process: CONDUCTOR, action: Action::Mark { number: 1 } },
        Operation { process: 0, action: Action::Finish },
    ];
    let script = Script { watched: vec![(0, first, u64::from(pages))], operations, ..Script::default() };
    let result = run(rig, &Machine::default(), &play(Some(32 << 20)), Some(&script)).unwrap();
    let seen = result.observations().next().unwrap();
    let resident: u64 = seen.resident[0].ranges.iter().map(|(_, pages)| pages).sum();
    assert!((4096..=8192).contains(&resident), "{resident} pages of 8192 at most");
    // A sweep over twice the limit misses nearly always.
    assert!(seen.vmstat["pgmajfault"] > 12_000, "{:?}", seen.vmstat);
    assert!(seen.memory_stat["workingset_refault_anon"] > 12_000, "{:?}", seen.memory_stat);
}

#[test]
fn what_the_guest_cannot_do_comes_back_in_words() {
    let Some(rig) = rig() else { return };
    let mut job = boot();
    job.settings.push(Setting { path: "/proc/sys/vm/no_such_knob".to_owned(), value: "1".to_owned(), optional: false });
    let error = run(rig, &Machine::default(), &job, None).unwrap_err().to_string();
    assert!(error.contains("failed: cannot write `1` to /proc/sys/vm/no_such_knob: "), "{error}");
    // A process that touches unmapped memory is killed; the operation is named.
    let operations = vec![
        Operation { process: CONDUCTOR, action: Action::Start { process: 0 } },
        Operation { process: 0, action: Action::Touch { page: 1 << 27, pages: 1, write: true } },
    ];
    let script = Script { operations, ..Script::default() };
    let error = run(rig, &Machine::default(), &play(None), Some(&script)).unwrap_err().to_string();
    assert!(error.contains("process 0 was killed at operation 1"), "{error}");
}
