//! Shared by tests of recordings: the engine, and programs.
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use isotherm_recorder::probe_engine;

/// Reports why a test is skipped, or fails if all tests must run.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_none_or(|value| value != "1"), "{why}");
    eprintln!("skipped: {why}");
}

pub(crate) fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

/// Whether the engine records here. Builds it once, because tests of this crate do not depend on it.
pub(crate) fn engine_works() -> bool {
    static WORKS: OnceLock<Result<(), String>> = OnceLock::new();
    let works = WORKS.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        // If Valgrind's headers are missing, the build says so, and the tests are skipped.
        let made = Command::new("make").args(["--silent", "recorder"]).current_dir(&root).status();
        assert!(made.is_ok_and(|status| status.success()), "`make recorder` fails");
        probe_engine().map_err(|error| error.to_string())
    });
    works.as_ref().map_err(|why| skip(&format!("nothing is recorded here: {why}"))).is_ok()
}

/// Compiles a C program; `None` without a compiler.
pub(crate) fn compile(directory: &Path, source: &str) -> Option<PathBuf> {
    if !has("cc") {
        skip("no C compiler");
        return None;
    }
    let (file, program) = (directory.join("p.c"), directory.join("p"));
    std::fs::write(&file, source).unwrap();
    let status = Command::new("cc").arg("-O1").arg("-pthread").arg("-o").arg(&program).arg(&file).status().unwrap();
    assert!(status.success());
    Some(program)
}
