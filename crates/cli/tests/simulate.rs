//! `isotherm simulate --kernel` from outside: whose rules, and that each output says so.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Random reads of a file with readahead around them: the releases differ in what they read.
const SCENARIO: &str = r#"
name = "small"
policy = "mglru"
limit = "50%"
metrics = ["major_faults", "pages_scanned"]
[[workloads]]
name = "reader"
load = { kind = "hot-cold", footprint = "8MiB", hot = "20%", hot-accesses = "70%", operations = 20000, storage = "mapped-file" }
[[variants]]
name = "usual"
[[variants]]
name = "smaller"
patch.limit = "40%"
"#;

fn simulate(file: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    let Output { status, stdout, stderr } =
        command.arg("simulate").arg(file).args(more).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_release_is_chosen_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    std::fs::write(&file, SCENARIO).unwrap();
    let rows = |more: &[&str]| -> Vec<(String, String, String, String)> {
        let (code, csv, stderr) = simulate(&file, &[&["--format", "csv"], more].concat());
        assert_eq!(code, Some(0), "{stderr}");
        let rows = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        rows.skip(1).map(|row| (row[1].clone(), row[2].clone(), row[3].clone(), row[5].clone())).collect()
    };
    let (usual, new, old) = (rows(&[]), rows(&["--kernel", "7.2"]), rows(&["--kernel", "6.12"]));
    assert_eq!(usual, new, "without the flag 7.2, whatever runs here");
    assert!(new.iter().all(|row| row.1 == "7.2") && old.iter().all(|row| row.1 == "6.12"), "{old:?}");
    let counts = |rows: &[(String, String, String, String)]| rows.iter().map(|row| row.3.clone()).collect::<Vec<_>>();
    assert_ne!(counts(&old), counts(&new), "the rules differ");
    let all = rows(&["--kernel", "all"]);
    let names: Vec<&str> = all.iter().step_by(2).map(|row| row.0.as_str()).collect();
    assert_eq!(names, ["usual on 6.12", "usual on 7.2", "smaller on 6.12", "smaller on 7.2"]);
    let of = |release: &str| all.iter().filter(|row| row.1 == release).cloned().collect::<Vec<_>>();
    assert_eq!((counts(&of("6.12")), counts(&of("7.2"))), (counts(&old), counts(&new)), "as each alone");

    // The key of the scenario counts where there is no flag.
    std::fs::write(&file, format!("{SCENARIO}[machine]\nkernel = \"6.12\"\n")).unwrap();
    assert_eq!(rows(&[]), old);
    assert_eq!(rows(&["--kernel", "7.2"]), new);
    let (_, table, stderr) = simulate(&file, &["--kernel", "all"]);
    assert!(table.contains("reader (mean of 1, rules of Linux 6.12 and 7.2)"), "{table}");
    assert!(stderr.contains("rules of Linux 6.12 and 7.2, side by side"), "{stderr}");
    let (_, json, _) = simulate(&file, &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"][0]["kernel"], "6.12");
}

#[test]
fn other_releases_are_refused() {
    let (code, _, stderr) = simulate(Path::new("policies"), &["--kernel", "6.1"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("there are no rules of Linux `6.1`; allowed: 6.12, 7.2, host, all"), "{stderr}");
}
