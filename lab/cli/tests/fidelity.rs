//! Tests of the comparisons with real kernels through the command: the existing ones, and usage errors before anything is
//! simulated or booted.

use std::process::{Command, Stdio};

/// Exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm-lab"));
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    command.args(arguments).env("ISOTHERM_DATA", data).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn all_comparisons_are_verbs() {
    let (code, listed, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in [
        "fidelity",
        "fidelity-advice",
        "fidelity-folios",
        "fidelity-monitor",
        "fidelity-sorting",
        "fidelity-compaction",
        "fidelity-promotion",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
        let (code, help, _) = run(&[name, "--help"]);
        assert!(code == Some(0) && help.contains("--refresh"), "{name}");
    }
}

#[test]
fn bad_input_is_a_usage_error_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let missing = folder.path().join("missing.json").to_str().unwrap().to_owned();
    let torn = file("torn.json", "{\"command\":\"x\",\"boots\":[{");
    let empty = file("empty.json", "{\"command\":\"x\",\"boots\":[]}");
    let no_runs = folder.path().to_str().unwrap();
    let table: &[(&[&str], &str)] = &[
        (&["fidelity", "--kernel", "5.4"], "no kernel of the comparison is called `5.4`; there are 7.2, 6.12"),
        (&["fidelity", "--limit", "75.9%"], "no limit in percent is called `75.9%`; there are 90, 75, 50"),
        (&["fidelity", "--limit", "74%"], "no limit in percent is called `74`; there are 90, 75, 50"),
        (&["fidelity", "--workload", "zipf", "--limit", "75%", "--data", no_runs], "no stored runs of this selection"),
        (&["fidelity-advice", "--kernel", "5.4"], "no kernel of the comparison is called `5.4`; there are 7.2, 6.12"),
        (&["fidelity-advice", "--program", "oracle"], "no program is called `oracle`; there are sqlite, redis"),
        (&["fidelity-advice", "--refresh", "hold", "--data", no_runs], "there are no answers to play: "),
        (&["fidelity-folios", "--folios", "btrfs"], "no kind of folios is called `btrfs`; there are single, ext4, xfs"),
        (&["fidelity-folios", "--workload", "anon-scan", "--data", no_runs], "no stored runs of this selection"),
        (&["fidelity-sorting", "--data", &missing], "missing.json: "),
        (&["fidelity-compaction", "--data", &torn], "torn.json: EOF"),
        (&["fidelity-promotion", "--data", &empty], "empty.json has no boots to compare with; make some"),
        (&["fidelity-monitor", "--data", &empty], "empty.json has no boots to compare with; make some"),
        (&["fidelity-monitor", "--boots", "2"], "--refresh"),
        (&["fidelity-sorting", "--refresh", "--kernel", "5.4"], "no kernel of the comparison is called `5.4`"),
        (&["fidelity-sorting", "--refresh", "--kernel", "6.12", "--data", &torn], "torn.json: EOF"),
    ];
    for (arguments, expected) in table {
        let (code, results, talk) = run(arguments);
        assert!(talk.contains(expected), "{arguments:?}: {talk}");
        assert_eq!((code, results.as_str()), (Some(2), ""), "{arguments:?}");
    }
}
