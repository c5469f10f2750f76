//! The harness finds planted faults, reports their kind, makes them small and replays them.

use isotherm_fuzz::campaign::{Campaign, Extent};
use isotherm_fuzz::faults::{Kind, Replayer};
use isotherm_fuzz::groups;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_isotherm-fuzz");

/// The first fault of a planted target, its kept input, and the result of replaying that.
fn find(name: &str, inputs: u64) -> (Kind, Vec<u8>, Option<Kind>) {
    let kept = tempfile::tempdir().unwrap();
    let [target] = groups::named(name).try_into().unwrap();
    let campaign = Campaign { program: Path::new(PROGRAM), seed: 1, input_seconds: 1, kept: kept.path() };
    let outcome = campaign.run(target, Extent::Inputs(inputs)).unwrap();
    let fault = outcome.faults.first().unwrap_or_else(|| panic!("{} inputs found nothing", outcome.executions));
    let bytes = std::fs::read(&fault.input).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let replayer =
        Replayer { program: Path::new(PROGRAM), target: target.name, scratch: scratch.path(), input_seconds: 1 };
    let again = replayer.replay(&bytes).unwrap();
    (fault.kind.clone(), bytes, again)
}

#[test]
fn a_panic_is_found_with_its_place_and_made_small() {
    let (kind, bytes, again) = find("planted-panic", 2000);
    let Kind::Panic { place, message } = &kind else { panic!("{kind}") };
    assert!(place.contains("planted.rs:") && message.ends_with("of them"), "{kind}");
    assert!(bytes.starts_with(b"size=") && bytes.len() <= 9, "{}", String::from_utf8_lossy(&bytes));
    assert!(again.unwrap().is_like(&kind));
}

#[test]
fn memory_work_and_recursion_without_a_bound_are_found() {
    for (name, inputs, kind) in
        [("planted-memory", 2000, Kind::Memory), ("planted-stack", 4000, Kind::Stack), ("planted-time", 8, Kind::Time)]
    {
        let (found, _, again) = find(name, inputs);
        assert_eq!((&found, again.as_ref()), (&kind, Some(&kind)), "{name}");
    }
}

#[test]
fn what_cannot_be_run_is_said() {
    let said = |words: &[&str]| {
        let done = std::process::Command::new(PROGRAM).args(words).output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, text) = said(&["nothing-like-it"]);
    assert!(code == Some(2) && text.contains("`nothing-like-it` is no target"), "{text}");
    let (code, text) = said(&["size", "time", "--input", "x"]);
    assert!(code == Some(2) && text.contains("one target"), "{text}");
    let (code, text) = said(&["size", "--input", "absent"]);
    assert!(code == Some(2) && text.contains("absent"), "{text}");
}
