//! The targets themselves: each is documented, has a corpus, and passes a short run with fixed seeds.

use isotherm_fuzz::campaign::{Campaign, Extent};
use isotherm_fuzz::{corpus, groups};
use std::collections::BTreeSet;
use std::path::Path;

/// Inputs of each target, corpus included. A longer run is `cargo xtask fuzz`.
const INPUTS: u64 = 300;

#[test]
fn names_are_unique_and_every_corpus_belongs_to_one() {
    let names: Vec<&str> = groups::targets().map(|target| target.name).collect();
    let unique: BTreeSet<&str> = names.iter().copied().chain(groups::GROUPS.iter().map(|(group, _)| *group)).collect();
    assert_eq!(unique.len(), names.len() + groups::GROUPS.len());
    for name in names {
        assert!(corpus::load(name).is_ok_and(|entries| entries.iter().all(|entry| entry.len() <= 64 << 10)), "{name}");
    }
    for folder in std::fs::read_dir(corpus::folder()).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert_eq!(groups::named(&name).len(), 1, "fuzz/corpus/{name} belongs to no target");
    }
}

#[test]
fn the_documentation_lists_every_target() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/developing.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once("| group | target | reaches |\n|---|---|---|\n").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap_or((table, ""));
    let rows: Vec<&str> = table.trim().lines().collect();
    let wanted: Vec<String> = groups::GROUPS
        .iter()
        .flat_map(|(group, targets)| targets.iter().map(move |target| (group, target)))
        .map(|(group, target)| format!("| {group} | `{}` | {} |", target.name, target.reaches))
        .collect();
    let wanted_text = wanted.join("\n");
    assert_eq!(rows, wanted, "the table should be\n{wanted_text}");
}

#[test]
fn every_target_stands_a_short_run() {
    let kept = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_isotherm-fuzz"));
    let campaign = Campaign { program, seed: 1, input_seconds: 10, kept: kept.path() };
    for target in groups::targets() {
        let outcome = campaign.run(target, Extent::Inputs(INPUTS)).unwrap();
        let faults: Vec<String> = outcome.faults.iter().map(|fault| format!("{} {}", fault.n, fault.kind)).collect();
        assert_eq!(faults, [""; 0], "cargo xtask fuzz {} --seed 1 --count {INPUTS}", target.name);
        assert_eq!(outcome.executions, INPUTS, "{}", target.name);
    }
}

/// Mutating an input that is refused at once would reach little.
#[test]
fn entries_of_the_scenarios_that_were_no_faults_are_read() {
    let mut nr_read = 0;
    for entry in std::fs::read_dir(corpus::folder().join("scenario")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("fault-") {
            let text = std::fs::read_to_string(&path).unwrap();
            isotherm_scenario::parse(&text, name).unwrap_or_else(|error| panic!("{error}"));
            nr_read += 1;
        }
    }
    assert!(nr_read > 5);
}
