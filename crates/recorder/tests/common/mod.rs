//! What tests of recordings share: engines that can be had here, and programs.
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use isotherm_recorder::{EngineEntry, engine_named};

/// Says why a test does nothing, or fails where all must run.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_none_or(|value| value != "1"), "{why}");
    eprintln!("skipped: {why}");
}

pub(crate) fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

/// The engine, if it can be had here. Builds its part once, because tests of this crate do not depend on it.
pub(crate) fn engine(name: &str) -> Option<&'static EngineEntry> {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--package", "isotherm-tracer"]).current_dir(&root);
        assert!(command.status().expect("cargo runs").success(), "the tracer does not build");
        // Where Valgrind's headers are missing it says so, and the engine is skipped.
        let made = Command::new("make").args(["--silent", "recorder"]).current_dir(&root).status();
        assert!(made.is_ok_and(|status| status.success()), "`make recorder` fails");
    });
    let entry = engine_named(name).expect("it is registered");
    match entry.probe() {
        Ok(()) => Some(entry),
        Err(error) => {
            skip(&format!("{name} does not record here: {error}"));
            None
        }
    }
}

/// Each test under each engine.
macro_rules! under_each_engine {
    ($($engine:ident)*: $tests:tt) => { $(under_each_engine!(@one $engine $tests);)* };
    (@one $engine:ident [$($test:ident)*]) => {
        mod $engine {
            $(#[test]
            fn $test() {
                crate::common::engine(stringify!($engine)).into_iter().for_each(super::$test);
            })*
        }
    };
}
pub(crate) use under_each_engine;

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
