//! `isotherm record` with engines that are not what they seem, and without any.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Records `sh -c 'exit 3'` with these places of the engines' parts.
fn record(folder: &Path, arguments: &[&str], valgrind: &Path, tracer: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.arg("record").args(arguments).args(["--", "sh", "-c", "exit 3"]).current_dir(folder);
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
