//! `isotherm advise --verify` from outside. A fake replaces `isotherm-lab`, whose own tests run real kernels.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Result of a run of `isotherm advise --verify`: exit code, results and messages.
struct Said {
    code: Option<i32>,
    results: String,
    talk: String,
}

/// Sweeps over 600 pages, half of them used twice as often.
fn trace(folder: &Path) -> PathBuf {
    let mut requests = String::new();
    for sweep in 0..40u32 {
        for page in (0..600u32).filter(|page| *page < 300 || sweep % 2 == 0) {
            writeln!(requests, "{page}").unwrap();
        }
    }
    let (source, trace) = (folder.join("pages.txt"), folder.join("pages.parquet"));
    std::fs::write(&source, requests).unwrap();
    let mut import = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    import.args(["--quiet", "import"]).arg(&source).arg("-o").arg(&trace).args(["--from", "text"]);
    assert!(import.status().unwrap().success());
    trace
}

/// A program that records its arguments, prints a message, and then runs `rest`.
fn stand_in(folder: &Path, rest: &str) -> PathBuf {
    let (lab, calls) = (folder.join("lab"), folder.join("calls"));
    let text = format!("#!/bin/sh\necho \"$@\" >>{}\necho working >&2\n{rest}\n", calls.display());
    // Written by another process: one that a test thread forks now could hold the file open for writing.
    let mut copy = Command::new("sh");
    copy.args(["-c", "cat >\"$0\" && chmod +x \"$0\""]).arg(&lab).stdin(Stdio::piped());
    let mut child = copy.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(lab.metadata().unwrap().permissions().mode() & 0o100, 0o100);
    lab
}

fn advise(folder: &Path, lab: &Path, more: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.arg("advise").arg(trace(folder)).args(["--kernel", "6.12", "--memory", "60%,100%", "--verify"]).args(more);
    let output = command.env("ISOTHERM_LAB", lab).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), results: text(output.stdout), talk: text(output.stderr) }
}

/// For `verify` a row for each run: none, 0, then 4 billion major faults.
const PLAYS: &str = r#"[ "$3" = verify ] || [ "$2" = verify ] || exit 0
echo '{"rows": [
  {"kernel": "6.12", "policy": "x", "memory_bytes": 1, "major_faults": null},
  {"kernel": "6.12", "policy": "x", "memory_bytes": 2, "major_faults": 0},
  {"kernel": "6.12", "policy": "x", "memory_bytes": 3, "major_faults": 4000000000}]}'"#;

#[test]
fn what_kernels_counted_stands_beside_what_was_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let lab = stand_in(folder.path(), PLAYS);
    let said = advise(folder.path(), &lab, &["--format", "json", "--quiet"]);
    assert_eq!(said.code, Some(0), "{}", said.talk);
    let advice: serde_json::Value = serde_json::from_str(&said.results).unwrap();
    let rows = advice["verified"].as_array().unwrap();
    let column = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("of_recommended_permil"), [970, 1000, 1030]);
    assert_eq!(column("real"), [serde_json::Value::Null, 0.into(), 4_000_000_000_u64.into()]);
    assert_eq!(column("holds"), [false, true, false], "a program that was killed does not hold");
    let best = &advice["recommendation"];
    assert_eq!((&rows[1]["memory_bytes"], &rows[1]["candidate"]), (&best["memory_bytes"], &best["candidate"]));
    assert_eq!(rows[1]["predicted"], best["major_faults"]);
    // It got the requirements first, then each size once, in the order of the rows.
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    let policy = best["candidate"].as_str().unwrap().split(" + ").next().unwrap();
    let plays: String = rows.iter().fold(String::new(), |mut plays, row| {
        write!(plays, " --play=6.12/{policy}/{}", row["memory_bytes"]).unwrap();
        plays
    });
    let trace = folder.path().join("pages.parquet");
    let verify = format!("--quiet --color=auto verify --format=json --name=pages{plays} -- {}", trace.display());
    assert_eq!(calls, ["--quiet --color=auto rig ready 6.12", verify.as_str()]);

    let table = advise(folder.path(), &lab, &[]).results;
    assert!(table.contains("Major faults on a real kernel, one boot") && table.contains("4000000000"), "{table}");
}

#[test]
fn a_lab_that_cannot_ends_it_before_anything_is_replayed() {
    for (rest, code, says) in [
        ("echo 'error: no emulator' >&2; exit 3", Some(3), "working\nerror: no emulator\n"),
        ("exit 2", Some(2), "working\n"),
        ("exit 101", Some(1), "broke down (exit status: 101)\n"),
        ("kill -9 $$", Some(1), "broke down (signal: 9 (SIGKILL))\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let lab = stand_in(folder.path(), rest);
        let said = advise(folder.path(), &lab, &[]);
        assert_eq!((said.code, said.results.as_str()), (code, ""), "{rest}: {}", said.talk);
        assert!(said.talk.ends_with(says), "{rest}: {}", said.talk);
        assert_eq!(std::fs::read_to_string(folder.path().join("calls")).unwrap().lines().count(), 1, "{rest}");
    }
}

#[test]
fn results_that_are_none_are_told() {
    for (printed, says) in [
        ("nonsense", "isotherm-lab verify printed what is no result of it: "),
        ("{\"rows\": []}", "isotherm-lab verify printed 0 rows for 3 plays"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let said = advise(folder.path(), &stand_in(folder.path(), &format!("echo '{printed}'")), &[]);
        assert!(said.code == Some(1) && said.talk.contains(says), "{}", said.talk);
    }
}

#[test]
fn a_missing_lab_is_told_with_the_way_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let said = advise(folder.path(), &folder.path().join("nowhere"), &[]);
    assert_eq!((said.code, said.results.as_str()), (Some(3), ""));
    for part in ["--verify plays on real kernels", "ISOTHERM_LAB names", "`make lab`"] {
        assert!(said.talk.contains(part), "{}", said.talk);
    }
}
