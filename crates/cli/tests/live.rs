//! Verbs over running processes on this machine: our own children, and processes that cannot be monitored. No knob of the
//! machine is written.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn isotherm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isotherm")).args(arguments).stdin(Stdio::null()).output().expect("it was built")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writable and readable files below these folders.
fn knobs() -> BTreeMap<String, String> {
    fn below(folder: &Path, depth: u32, knobs: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let kind = entry.file_type();
            if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) && depth > 0 {
                below(&path, depth - 1, knobs);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                knobs.insert(path.display().to_string(), text);
            }
        }
    }
    let mut knobs = BTreeMap::new();
    below(Path::new("/proc/sys/vm"), 0, &mut knobs);
    below(Path::new("/sys/kernel/mm/lru_gen"), 0, &mut knobs);
    below(Path::new("/sys/kernel/mm/transparent_hugepage"), 0, &mut knobs);
    for module in ["damon_stat", "damon_reclaim", "damon_lru_sort"] {
        let path = format!("/sys/module/{module}/parameters/enabled");
        knobs.extend(std::fs::read_to_string(&path).ok().map(|text| (path, text)));
    }
    knobs.extend(
        std::fs::read_to_string("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds")
            .ok()
            .map(|text| ("kdamonds".to_owned(), text)),
    );
    knobs
}

#[test]
fn a_command_is_watched_by_clear_refs() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r.parquet");
    let record = record.to_str().unwrap();
    let before = knobs();
    let output = isotherm(&[
        "monitor",
        "--source",
        "clear-refs",
        "--for",
        "30s",
        "-o",
        record,
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        // Long enough for two sweeps on a busy machine.
        "i=0; while [ $i -lt 7 ]; do sleep 1; i=$((i+1)); done",
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (summary["source"].as_str(), summary["ended"].as_str()),
        (Some("clear-refs"), Some("all that was watched has ended"))
    );
    assert!(summary["snapshots"].as_u64().unwrap() >= 2, "{summary}");
    assert!(summary["watched_bytes"].as_u64().unwrap() > 0);
    let info = isotherm(&["report", "info", record]);
    assert!(info.status.success(), "{}", said(&info));
    assert_eq!(knobs(), before, "nothing is changed");
}

#[test]
fn what_cannot_be_watched_is_said_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.parquet");
    let file = file.to_str().unwrap();
    let missing_group = ["--cgroup", "/isotherm-no-such-group"];
    let table: &[(&[&str], i32, &str)] = &[
        (&["monitor", "-o", file, "--pid", "2"], 2, "kernel thread"),
        (&["monitor", "-o", file, "--pid", "4194303"], 1, "there is no process 4194303"),
        (&["monitor", "-o", file], 2, "nothing to watch"),
        (&["monitor", "-o", file, "--pid", "1", "--for", "0s"], 2, "--for is 0"),
        (&["monitor", "-o", file, "--pid", "1", "--max-cpu", "0%"], 2, "--max-cpu is 0"),
        (&["monitor", "-o", file, "--pid", "1", "--process", "2"], 2, "--process is for replays"),
        (&["monitor", "-o", file, "--pid", "1", "--physical"], 2, "cannot be used with"),
        (&["monitor", "-o", file, "trace.parquet", "--for", "5s"], 2, "--for is for what runs now"),
        (&["monitor", "-o", file, "--source", "generations", "--pid", "1"], 2, "give --cgroup"),
        (&["monitor", "-o", file, missing_group[0], missing_group[1]], 3, "cgroup"),
        (&["monitor", "-o", file, "--", "/no/such/program"], 1, "cannot start `/no/such/program`"),
        (&["record", "-o", file, "--pid", "2"], 2, "kernel thread"),
        (&["record", "-o", file, "--pid", "1", "--epoch", "1ms"], 2, "allowed for running processes: 10ms to 1m"),
        (&["record", "-o", file, "--for", "5s", "--", "true"], 2, "--for is for what runs now"),
        (&["advise", missing_group[0], missing_group[1]], 3, "cgroup"),
        (&["advise", "trace.parquet", "--for", "5s"], 2, "--for is for what runs now"),
    ];
    for (arguments, code, words) in table {
        let output = isotherm(arguments);
        let said = said(&output);
        // Without cgroup v2 the host lacks groups; with it this group does not exist.
        let is_group = *code == 3 && output.status.code() == Some(1);
        assert!(output.status.code() == Some(*code) || is_group, "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(!Path::new(file).exists(), "{arguments:?} leaves a file");
    }
}

#[test]
fn without_the_module_that_is_said() {
    if Path::new("/dev/isotherm").exists() {
        return;
    }
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id().to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.parquet");
    let file = file.to_str().unwrap();
    let outputs = [
        isotherm(&["monitor", "-o", file, "--pid", &pid, "--source", "module"]),
        isotherm(&["record", "-o", file, "--pid", &pid]),
        isotherm(&["monitor", "-o", file, "--pid", &pid, "--source", "clear-refs", "--strategy", "ptp"]),
    ];
    child.kill().unwrap();
    child.wait().unwrap();
    for output in outputs {
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert!(said(&output).contains("module"), "{}", said(&output));
    }
}

#[test]
fn the_doctor_tries_and_changes_nothing() {
    let before = knobs();
    let output = isotherm(&["doctor", "--format", "json"]);
    assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{}", said(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let finding =
        |name: &str| findings.iter().find(|finding| finding["name"] == name).unwrap_or_else(|| panic!("{name}"));
    // Every kernel that runs the tests has these two.
    assert_ne!(finding("pagemap")["state"], "missing", "{:?}", finding("pagemap"));
    assert!(finding("kernel")["words"].as_str().unwrap().starts_with("Linux "));
    for finding in findings {
        let is_explained = finding["state"] == "works" || !finding["words"].as_str().unwrap().is_empty();
        assert!(is_explained, "{finding}");
    }
    assert_eq!(knobs(), before);
    let table = isotherm(&["doctor"]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("isotherm monitor"), "{table:?}");
    let nothing = tempfile::tempdir().unwrap();
    let output = isotherm(&["doctor", "--root", nothing.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_screen_of_this_machine_needs_no_terminal() {
    // A filter, because other processes may fill the visible rows.
    let screen = isotherm(&["top", "--capture", "80x24", "--keys", "/isotherm<enter>"]);
    let text = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.status.success(), "{}", said(&screen));
    assert!(text.lines().next().is_some_and(|line| line.contains("this machine")), "{text}");
    // The command itself is a process with memory. A capture of a running machine is not marked as its end.
    assert!(
        text.lines().skip(2).any(|line| line.contains("isotherm") && line.contains(" MiB ") && line.contains(" 0 B")),
        "{text}"
    );
    assert!(!text.contains(" END"), "{text}");
    assert_eq!(text.lines().count(), 24, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let refused = isotherm(&["top"]);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(said(&refused).contains("isotherm monitor"), "{}", said(&refused));
}
