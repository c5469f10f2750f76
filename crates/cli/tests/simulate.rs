//! `isotherm simulate --kernel` from outside: the release whose rules apply, and that each output
//! names it.

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

    // The scenario's key applies if there is no flag.
    std::fs::write(&file, format!("{SCENARIO}[machine]\nkernel = \"6.12\"\n")).unwrap();
    assert_eq!(rows(&[]), old);
    assert_eq!(rows(&["--kernel", "7.2"]), new);
    let (_, table, stderr) = simulate(&file, &["--kernel", "all"]);
    assert!(table.contains("reader (one run, rules of Linux 6.12 and 7.2)"), "{table}");
    assert!(stderr.contains("rules of Linux 6.12 and 7.2, side by side"), "{stderr}");
    let (_, json, _) = simulate(&file, &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"][0]["kernel"], "6.12");
}

#[test]
fn other_releases_are_refused() {
    let (code, _, stderr) = simulate(Path::new("policies"), &["--kernel", "6.1"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("there are no rules of Linux `6.1`; allowed: 6.12, 6.18, 7.2, host, all"), "{stderr}");
}

/// Exit code, standard output and standard error.
fn isotherm(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    let Output { status, stdout, stderr } = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn tables_fit_a_screen_and_have_intervals_and_ratios() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    let whole =
        SCENARIO.replace("metrics = [\"major_faults\", \"pages_scanned\"]\n", "against = \"usual\"\nrepeats = 3\n");
    std::fs::write(&file, &whole).unwrap();
    let (code, table, stderr) = simulate(&file, &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(table.contains("reader (mean of 3 runs ± half of the 95 % interval, rules of Linux 7.2)"), "{table}");
    assert!(table.contains("reader: ratio to usual with 95 % interval, pairs of equal seed"), "{table}");
    assert!(table.contains("runtime") && table.contains("major faults") && table.contains("mean "), "{table}");
    assert!(table.contains(" ±") && table.contains("–"), "{table}");
    assert!(stderr.contains("more metrics: --metrics all"), "{stderr}");
    let (_, two, stderr) = simulate(&file, &["--metrics", "pages_scanned,peak_bytes"]);
    assert!(two.contains("pages scanned") && two.contains("peak") && !two.contains("runtime"), "{two}");
    assert!(!stderr.contains("more metrics"), "{stderr}");
    let (_, csv, _) = simulate(&file, &["--metrics", "runtime_ns", "--format", "csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() == 3 && lines[0].ends_with(",against,ratio,ratio_low,ratio_high"), "{csv}");
    assert!(lines[2].contains(",usual,"), "{csv}");
    let (code, _, stderr) = simulate(&file, &["--metrics", "runtim_ns"]);
    assert!(code == Some(2) && stderr.contains("did you mean `runtime_ns`?"), "{stderr}");
}

#[test]
fn a_missed_expectation_is_a_failure_and_a_kill_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    let expected = "[[expectations]]\nworkload = \"reader\"\nvariant = \"usual\"\nmetric = \"major_faults\"\nat-most = 1\nsource = \"nobody\"\n";
    std::fs::write(&file, format!("{SCENARIO}{expected}")).unwrap();
    let (code, table, stderr) = simulate(&file, &[]);
    assert!(code == Some(1) && stderr.contains("1 of 1 expectations of the scenario are missed"), "{stderr}");
    assert!(table.contains("missed"), "{table}");
    assert_eq!(simulate(&file, &["--allow-missed"]).0, Some(0));
    let tight = SCENARIO.replace("hot-cold", "scan").replace(
        "hot = \"20%\", hot-accesses = \"70%\", operations = 20000, storage = \"mapped-file\"",
        "storage = \"anonymous\"",
    );
    std::fs::write(&file, format!("{tight}[machine]\nswap = {{ device = \"none\" }}\n")).unwrap();
    let (code, _, stderr) = simulate(&file, &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("reader under usual: killed for lack of memory in 1 of 1 runs"), "{stderr}");
}

#[test]
fn a_recording_is_no_scenario() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/sqlite.parquet");
    let (code, _, stderr) = isotherm(&["simulate", trace]);
    assert!(code == Some(2) && stderr.contains("is a recording and no scenario: `isotherm advise"), "{stderr}");
}

#[test]
fn what_is_no_text_is_named_by_every_verb_that_reads_toml() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, words) in [
        ("perf.data", &b"PERFILE2h\0\0\0"[..], "a binary file of perf record"),
        ("base.toml.gz", b"\x1f\x8b\x08\0", "gunzip -c FILE"),
        ("base.toml", b"name = \"a\xff\"", "byte 9 is not UTF-8"),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let (file, out) = (file.to_str().unwrap(), folder.path().join("out"));
        for verb in [&["simulate"][..], &["sweep", "-o", out.to_str().unwrap()], &["apply"], &["daemon", "check"]] {
            let (code, _, stderr) = isotherm(&[verb, &[file]].concat());
            assert!(code.is_some_and(|code| code > 0) && stderr.contains(words), "{verb:?} {name}: {stderr}");
        }
    }
}

#[test]
fn two_results_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, limit) in [("a.json", "50%"), ("b.json", "40%"), ("c.json", "50%")] {
        std::fs::write(&file, SCENARIO.replace("limit = \"50%\"", &format!("limit = \"{limit}\"\nrepeats = 3")))
            .unwrap();
        let (code, json, stderr) = simulate(&file, &["--format", "json"]);
        assert_eq!(code, Some(0), "{stderr}");
        std::fs::write(folder.path().join(name), json).unwrap();
    }
    let (a, b, c) = (path("a.json"), path("b.json"), path("c.json"));
    let (code, table, stderr) = isotherm(&["compare", &a, &b]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(table.contains("usual") && !table.contains("smaller"), "only one variant differs: {table}");
    assert!(table.contains("what differs (rules of Linux 7.2)"), "{table}");
    assert!(isotherm(&["compare", &a, &c]).1.contains("no difference in 4 rows"));
    let (_, csv, _) = isotherm(&["compare", &a, &c, "--all", "--metrics", "major_faults", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 3, "{csv}");
    std::fs::write(folder.path().join("cut.json"), &std::fs::read(&a).unwrap()[..200]).unwrap();
    for (file, words) in
        [("cut.json", "it is cut off"), ("absent.json", "cannot read it"), ("small.toml", "is no result")]
    {
        let (code, _, stderr) = isotherm(&["compare", &a, &path(file)]);
        assert!(code == Some(1) && stderr.contains(words), "{file}: {stderr}");
    }
}
