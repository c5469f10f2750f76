//! `isotherm record` with engines that are not what they seem, and without any.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Records `sh -c 'exit 3'` with these places of the engines' parts.
fn record(folder: &Path, arguments: &[&str], valgrind: &Path, tracer: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.arg("record").args(arguments).args(["--", "sh", "-c", "exit 3"]).current_dir(folder);
    // What other tests found about engines is not theirs to know.
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("ISOTHERM_VALGRIND", valgrind).env("ISOTHERM_TRACER", tracer).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A launcher that runs `line` beside a file that is called like the tool.
fn pretender(folder: &Path, line: &str) -> std::path::PathBuf {
    let tool = folder.join("isorec-amd64-linux");
    let launcher = folder.join("isorec-launcher");
    std::fs::write(&tool, "").unwrap();
    std::fs::write(&launcher, format!("#!/bin/sh\n{line}\n")).unwrap();
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755)).unwrap();
    tool
}

#[test]
fn an_engine_that_records_nothing_is_passed_over_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    for line in ["exit 0", "exit 9"] {
        let output = record(folder.path(), &["-o", "t.parquet"], &pretender(folder.path(), line), &nowhere);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains("no engine records programs here: valgrind:"), "{text}");
        assert!(text.contains("before the program began") && text.contains("qemu:"), "{text}");
        assert!(text.contains("apt-get install valgrind"), "the way out: {text}");
        assert!(!folder.path().join("t.parquet").exists());
    }
}

/// Counts its starts in `starts`, sends what an engine would of a program that touches one page, and ends well.
const SENDS_ONE_ROW: &str = r#"echo >> "${0%/*}/starts"
for word; do case $word in --spool=*) spool=${word#--spool=};; esac; done
printf 'iTR1\022\0\0\0\0\0\0\0\0\0\0\0\001\001\011\011\0\0\0\001p\002\0\0\003\310\001\0\013\001' > "$spool/fifo""#;

#[test]
fn an_engine_that_was_found_to_work_is_not_tried_again_until_something_changes() {
    let folder = tempfile::tempdir().unwrap();
    let tool = pretender(folder.path(), SENDS_ONE_ROW);
    std::fs::write(folder.path().join("vgpreload_core-amd64-linux.so"), "").unwrap();
    let starts = || std::fs::read_to_string(folder.path().join("starts")).map_or(0, |lines| lines.len());
    let run = || {
        let output = record(folder.path(), &["-o", "t.parquet"], &tool, &folder.path().join("nowhere"));
        (output.status.code(), said(&output))
    };
    for starts_now in [2, 3, 4] {
        let (code, text) = run();
        assert_eq!((code, starts()), (Some(0), starts_now), "tried once: {text}");
        assert!(text.contains("recording with valgrind") && text.contains("1 rows"), "{text}");
    }
    std::fs::write(&tool, "another").unwrap();
    assert_eq!((run().0, starts()), (Some(0), 6), "another file is tried");
    std::fs::remove_dir_all(folder.path().join("cache")).unwrap();
    std::fs::write(folder.path().join("cache"), "no folder").unwrap();
    assert_eq!((run().0, starts()), (Some(0), 8), "without a cache it is tried each time");
    assert_eq!((run().0, starts()), (Some(0), 10));
}

#[test]
fn a_finding_that_does_not_hold_is_said_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    // Works until the file `broken` is there, which no finding can know.
    let line = format!("test -e \"${{0%/*}}/broken\" && exit 9\n{SENDS_ONE_ROW}");
    let tool = pretender(folder.path(), &line);
    std::fs::write(folder.path().join("vgpreload_core-amd64-linux.so"), "").unwrap();
    let run = || {
        let output = record(folder.path(), &["-o", "t.parquet"], &tool, &folder.path().join("nowhere"));
        (output.status.code(), said(&output))
    };
    assert_eq!(run().0, Some(0));
    std::fs::write(folder.path().join("broken"), "").unwrap();
    let (code, text) = run();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("before the program began"), "{text}");
    let (code, text) = run();
    assert_eq!(code, Some(3), "now it is tried first: {text}");
    assert!(text.contains("no engine records programs here: valgrind:"), "{text}");
}

#[test]
fn an_engine_that_hangs_is_given_up_and_killed() {
    let folder = tempfile::tempdir().unwrap();
    let tool = pretender(folder.path(), "sleep 1234567 & echo $! > \"${0%/*}/pid\"; wait");
    let began = std::time::Instant::now();
    let output = record(folder.path(), &["-o", "t.parquet"], &tool, &folder.path().join("nowhere"));
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("did not end within 10 s with a program that does nothing, and was killed"), "{text}");
    assert!(began.elapsed().as_secs() < 1234, "it was not waited for");
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(status.is_empty() || status.contains(") Z "), "what it started is gone too: {status}");
}

#[test]
fn an_engine_that_is_missing_is_said_with_the_places_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let output = record(folder.path(), &["-o", "t.parquet", "--with", "valgrind"], &nowhere, &nowhere);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("isorec-amd64-linux not found; looked at") && text.contains("ISOTHERM_VALGRIND="), "{text}");
}

#[test]
fn a_native_run_needs_no_engine_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let output = record(folder.path(), &["--native-only"], &nowhere, &nowhere);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "the program's own: {text}");
    assert!(text.contains("without recording:") && text.contains("resident"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let refused = record(folder.path(), &["--native-only", "-o", "t.parquet"], &nowhere, &nowhere);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
}
