//! Verbs that the Python package does: choice of the interpreter, its requirements, and its
//! arguments.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// An interpreter that lacks `missing`, and otherwise prints its arguments and exits with `code`.
fn interpreter(folder: &Path, missing: &str, code: u8) -> std::path::PathBuf {
    let path = folder.join("python");
    let script = format!("#!/bin/sh\nif [ \"$1\" = -c ]; then echo {missing}; exit 0; fi\necho \"$@\"\nexit {code}\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Exit code, standard output, standard error.
fn run(python: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    let output = command.args(arguments).env("ISOTHERM_PYTHON", python).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn flags_arrive_as_they_are_and_the_exit_code_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let python = interpreter(folder.path(), "", 4);
    let (code, printed, said) =
        run(&python, &["tune", "a.parquet", "--objective", "memory", "--constraint", "runtime <= 2 %"]);
    assert_eq!((code, said.as_str()), (Some(4), ""));
    assert_eq!(printed, "-m isotherm.tune a.parquet --objective memory --constraint runtime <= 2 % --color=auto\n");
    let space = folder.path().join("s.toml");
    std::fs::write(&space, "scenario = 'policies'\n").unwrap();
    let space = space.to_str().unwrap();
    let (_, printed, _) = run(&python, &["--quiet", "sweep", space, "-o", "out", "--ray", "local", "--retry-failed"]);
    let rest = "--ray local --output out --limit 10000 --retry-failed --quiet --color=auto";
    assert_eq!(printed, format!("-m isotherm.sweep {space} {rest}\n"));
}

#[test]
fn what_is_missing_is_told_with_what_installs_it() {
    let folder = tempfile::tempdir().unwrap();
    let python = interpreter(folder.path(), "optuna", 0);
    let (code, printed, said) = run(&python, &["tune", "a.parquet"]);
    assert_eq!((code, printed.as_str()), (Some(3), ""));
    assert!(said.contains("has no module `optuna`") && said.contains("pip install 'isotherm[tune]'"), "{said}");
    let (code, _, said) = run(Path::new("/bin/false"), &["tune", "a.parquet"]);
    assert!(
        code == Some(3) && said.contains("/bin/false ends with exit status: 1") && said.contains("ISOTHERM_PYTHON"),
        "{said}"
    );
    let (code, _, said) = run(&folder.path().join("none"), &["tune", "a.parquet"]);
    assert!(code == Some(3) && said.contains("cannot run") && said.contains("ISOTHERM_PYTHON"), "{said}");
}
