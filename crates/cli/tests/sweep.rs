//! `isotherm sweep` as a user runs it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = "name = 'x'\nlimit = '50 %'\n[[workloads]]\nname = 'w'\n\
    load = { kind = 'scan', footprint = '4MiB', repeat = 3 }\n";

/// A folder with `base.toml` and `space.toml`.
fn folder(space: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), SCENARIO).unwrap();
    std::fs::write(folder.path().join("space.toml"), format!("scenario = 'base.toml'\n{space}")).unwrap();
    folder
}

fn sweep(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.args(["sweep", "space.toml"]).args(arguments).current_dir(folder);
    command
}

/// Exit code, standard output, standard error.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = sweep(folder, arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn files(dataset: &Path) -> BTreeMap<String, Vec<u8>> {
    let runs = std::fs::read_dir(dataset).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = runs.flat_map(|run| std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path()));
    let name = |path: &Path| path.strip_prefix(dataset).unwrap().display().to_string();
    files.map(|path| (name(&path), std::fs::read(&path).unwrap())).collect()
}

const SPACE: &str = "repeats = 2\n[[axes]]\nkey = 'policy'\nvalues = ['lru', 'clock', 'mglru']\n\
    [[axes]]\nkey = 'limit'\nlow = '40 %'\nhigh = '90 %'\n[draws]\npoints = 2\n";

#[test]
fn a_sweep_is_told_played_and_not_played_twice() {
    let folder = folder(SPACE);
    let (code, plan, _) = run(folder.path(), &["--dry-run", "--format", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((code, plan["runs"].as_u64()), (0, Some(12)));
    assert!(plan["columns"].as_array().unwrap().contains(&"policy".into()), "{plan}");
    assert!(!folder.path().join("out").exists(), "nothing is made");

    let (code, told, said) = run(folder.path(), &["-o", "out", "--format", "json"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, told["played"].as_u64(), told["failed"].as_u64()), (0, Some(12), Some(0)), "{said}");
    let (_, again, _) = run(folder.path(), &["-o", "out", "--processes", "1", "--format", "json"]);
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!((again["played"].as_u64(), again["done_before"].as_u64()), (Some(0), Some(12)));
    let (_, table, _) = run(folder.path(), &["-o", "out"]);
    assert!(table.contains("done before") && table.contains("12"), "{table}");
}

#[test]
fn large_spaces_are_asked_about() {
    let folder = folder(SPACE);
    let limited = ["-o", "out", "--limit", "11"];
    let (code, _, said) = run(folder.path(), &limited);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("the space has 12 runs, more than 11; if they are meant, say `--limit 12`"), "{said}");
    for (answer, code) in [("n\n", 2), ("", 2), ("y\n", 0)] {
        // `script` is the terminal. It ends its input with the terminal's end-of-file character.
        let asked = format!("{} sweep space.toml {}", env!("CARGO_BIN_EXE_isotherm"), limited.join(" "));
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command", &asked, "/dev/null"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{answer:?}: {shown}");
        assert!(shown.contains("The space has 12 runs, more than 11. Play them? [y/N]"), "{shown}");
        assert_eq!(folder.path().join("out").exists(), code == 0, "{answer:?}");
    }
    let nine: String = (0..9).map(|n| format!("[[axes]]\nkey = 'seed{n}'\nvalues = [1,2,3,4,5,6,7,8,9,0]\n")).collect();
    let far = self::folder(&nine);
    let (code, _, said) = run(far.path(), &["-o", "out", "--limit", "1000000000"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("the space has 1000000000 runs, and a sweep has at most 1000000; draw points"), "{said}");
}

#[test]
fn whoever_is_killed_in_the_middle_the_dataset_is_the_same_bytes() {
    let folder = folder(&SPACE.replace("repeats = 2", "repeats = 40"));
    assert_eq!(run(folder.path(), &["-o", "whole"]).0, 0);
    let whole = files(&folder.path().join("whole"));
    assert_eq!(whole.len(), 240);

    // A worker process.
    let mut child =
        sweep(folder.path(), &["-o", "worker"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    kill_when_begun(&folder.path().join("worker"), || children_of(child.id()).first().copied());
    assert!(child.wait().unwrap().success());
    assert_eq!(files(&folder.path().join("worker")), whole);

    // The command itself.
    let mut child =
        sweep(folder.path(), &["-o", "driver"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    kill_when_begun(&folder.path().join("driver"), || Some(child.id()));
    assert_eq!(child.wait().unwrap().signal(), Some(9), "it was not over");
    assert!(files(&folder.path().join("driver")).len() < whole.len(), "it was in the middle");
    assert_eq!(run(folder.path(), &["-o", "driver"]).0, 0);
    assert_eq!(files(&folder.path().join("driver")), whole);
}

/// Kills a process once some runs are in the dataset.
fn kill_when_begun(dataset: &Path, who: impl Fn() -> Option<u32>) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        let runs = std::fs::read_dir(dataset).map_or(0, Iterator::count);
        if runs >= 10
            && let Some(process) = who()
        {
            assert!(Command::new("kill").args(["-9", &process.to_string()]).status().unwrap().success());
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("no run in a minute");
}

fn children_of(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().filter_map(Result::ok);
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    children.flat_map(|line| line.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

#[test]
fn what_cannot_be_swept_is_told() {
    for (space, code, words) in [
        ("[[axes]]\nkey = 'polici'\nvalues = ['lru']", 2, "key `polici` = \"lru\": unknown field `polici`"),
        ("[[axes]]\nkey = 'policy'\nfiles = '*.csv'", 2, "no file in"),
        ("[[axis]]\nkey = 'policy'", 2, "unknown field `axis`"),
        ("repeats = 10000\n[[axes]]\nkey = 'machine.cpus'\nvalues = [1, 2]", 2, "say `--limit 20000`"),
    ] {
        let folder = folder(space);
        let (ended, _, said) = run(folder.path(), &["-o", "out"]);
        assert_eq!(ended, code, "{said}");
        assert!(said.contains(words), "{said}");
        assert!(!folder.path().join("out").exists(), "nothing is made");
    }
    let missing = folder("[[axes]]\nkey = 'workloads[0].load'\nvalues = [{ kind = 'trace', path = 'none.parquet' }]");
    let (code, _, said) = run(missing.path(), &["-o", "out"]);
    assert!(code == 1 && said.contains("none.parquet"), "{code} {said}");
    let strange = folder(SPACE);
    let (code, _, said) = run(strange.path(), &["-o", "."]);
    assert!(code == 2 && said.contains("no dataset of a sweep"), "{code} {said}");
    let nobody = sweep(strange.path(), &["-o", "out", "--ray", "local"]).env("ISOTHERM_PYTHON", "/no/python").output();
    let nobody = nobody.unwrap();
    assert_eq!(nobody.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("cannot run /no/python"));
}

#[test]
fn a_run_that_fails_is_a_row() {
    let folder = folder("[[axes]]\nkey = 'policy'\nvalues = ['lru', 'none such']");
    let (code, told, said) = run(folder.path(), &["-o", "out", "--format", "json"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, told["failed"].as_u64(), told["played"].as_u64()), (4, Some(1), Some(2)), "{said}");
    assert!(said.contains("1 of 2 runs failed"), "{said}");
    let names: Vec<String> = files(&folder.path().join("out")).into_keys().collect();
    assert_eq!(names.iter().filter(|name| name.ends_with("failed.parquet")).count(), 1, "{names:?}");
}
