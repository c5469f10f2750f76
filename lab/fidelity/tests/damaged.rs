//! Damaged input of guests and the lab: scripts, jobs, reports, stored runs. It may be refused; nothing may panic.

use isotherm_fidelity::advice::Store;
use isotherm_fidelity::versus::{self, Stored};
use isotherm_guest::job::{Job, Report, Task};
use isotherm_guest::script::{Action, Advice, CONDUCTOR, Operation, Script, ScriptFile};
use proptest::prelude::*;
use proptest::sample::Index;
use std::path::Path;

const JOBS: [&[u8]; 3] = [
    include_bytes!("damaged/guest-job/boot.json"),
    include_bytes!("damaged/guest-job/live.json"),
    include_bytes!("damaged/guest-job/play.json"),
];
const REPORTS: [&[u8]; 1] = [include_bytes!("damaged/guest-report/booted.json")];
const STORED: [&[u8]; 1] = [include_bytes!("damaged/lab-stored/advice.json")];

/// A valid input with some bytes replaced and a range left out; unchanged ones are among them.
fn damaged<const N: usize>(valid: [Vec<u8>; N]) -> impl Strategy<Value = Vec<u8>> {
    let replaced = proptest::collection::vec((any::<Index>(), any::<u8>()), 0..6);
    let left_out = proptest::option::of(any::<(Index, Index)>());
    (any::<Index>(), replaced, left_out).prop_map(move |(which, replaced, left_out)| {
        let mut bytes = valid[which.index(N)].clone();
        for (place, byte) in replaced {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some((one, other)) = left_out {
            let (one, other) = (one.index(bytes.len() + 1), other.index(bytes.len() + 1));
            bytes.drain(one.min(other)..one.max(other));
        }
        bytes
    })
}

/// Each action once.
fn script() -> Script {
    let (page, pages) = (0x7f00, 3);
    let actions = [
        Action::Start { process: 0 },
        Action::MapAnonymous { page, pages: 100 },
        Action::MapFile { page: 0x8000, pages, file: 0, file_page: 1, shared: true, executable: false },
        Action::Touch { page, pages, write: true },
        Action::Transfer { file: 0, page: 0, pages, write: false },
        Action::Advise { page, pages, advice: Advice::Cold },
        Action::Limit { pages: 50 },
        Action::Unmap { page, pages },
        Action::Mark { number: 1 },
        Action::Finish,
    ];
    let by_conductor =
        |action: &Action| matches!(action, Action::Start { .. } | Action::Limit { .. } | Action::Mark { .. });
    let operations =
        actions.map(|action| Operation { process: if by_conductor(&action) { CONDUCTOR } else { 0 }, action });
    Script {
        files: vec![ScriptFile { pages: 10, shared_memory: false }],
        watched: vec![(0, page, 100)],
        operations: operations.into(),
    }
}

fn take_job(input: &[u8]) -> bool {
    let job = serde_json::from_slice::<Job>(input);
    if let Ok(Job { task: Task::Live(live), .. }) = &job {
        live.workloads.iter().filter_map(|workload| workload.pattern.flaw()).count();
    }
    job.is_ok()
}

fn take_reports(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let reports: Vec<Report> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for report in &reports {
        if let Report::Lived(lived) = report {
            lived.outputs.keys().filter_map(|path| lived.output(path)).count();
        }
    }
    !reports.is_empty()
}

fn take_stored(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let store = Store::parse(&text, "damaged");
    if let Ok(store) = &store {
        store.plays().count();
    }
    let _ = Stored::<versus::monitor::RealBoot>::parse(&text, Path::new("damaged"));
    store.is_ok()
}

/// Damaging an input that is refused anyway would reach little.
#[test]
fn undamaged_input_is_taken() {
    assert_eq!(Script::decode(&script().encode()), Ok(script()));
    assert!(JOBS.into_iter().all(take_job));
    assert!(REPORTS.into_iter().all(take_reports));
    assert!(STORED.into_iter().all(take_stored));
}

proptest! {
    #[test]
    fn damaged_scripts_do_no_harm(input in damaged([script().encode()])) {
        if let Ok(script) = Script::decode(&input) {
            prop_assert_eq!(Script::decode(&script.encode()), Ok(script));
        }
    }

    #[test]
    fn damaged_jobs_do_no_harm(input in damaged(JOBS.map(<[u8]>::to_vec))) {
        take_job(&input);
    }

    #[test]
    fn damaged_reports_do_no_harm(input in damaged(REPORTS.map(<[u8]>::to_vec))) {
        take_reports(&input);
    }

    #[test]
    fn damaged_stores_do_no_harm(input in damaged(STORED.map(<[u8]>::to_vec))) {
        take_stored(&input);
    }
}
