//! Runs every command that a page of the documentation shows, in a folder with a reader's files. Exceptions are listed
//! here with the reason.

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Commands that are not run, by prefix, with the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("record", "the tutorial's own test and the recorder's record programs"),
    ("daemon run", "needs a machine: tests/daemon.rs"),
    ("restore", "needs a machine: tests/live.rs"),
    ("daemon trial", "needs a machine: tests/trial.rs"),
    ("verify", "needs a machine: tests/natively.rs"),
    ("calibrate", "needs a machine: tests/natively.rs"),
    ("apply", "needs a machine: tests/apply.rs"),
    ("top --capture", "needs a machine: tests/live.rs"),
    ("top --replay redis.regions.parquet --speed", "waits for keys"),
    ("top --replay redis.regions.parquet --from", "waits for keys"),
    ("daemon replay", "needs the tape of a machine: tests/daemon.rs"),
    ("convert scrub isotherm.tape", "needs the tape of a machine: tests/scrub.rs"),
    ("convert scrub /var/log", "needs the audit of a machine: tests/scrub.rs"),
    ("advise traces/sqlite.parquet --verify", "boots a kernel: tests/verify.rs"),
    ("report accuracy traces/redis.parquet --advise", "half a minute: tests/monitor.rs"),
    ("advise traces/sqlite.parquet --kernel all", "half a minute: tests/advise.rs"),
    ("advise traces/sqlite.parquet --storage", "half a minute: tests/advise.rs"),
    ("advise traces/redis.parquet --fast", "half a minute: tests/advise.rs"),
    ("simulate mglru-matrix", "half a minute: crates/scenario/tests"),
    ("advise traces/redis.parquet --config", "the README's, with another name"),
    ("advise app.parquet --kernel", "the tutorial's own test"),
    (
        "convert filter app.parquet --process redis-server --mapping heap",
        "redis has no heap of this name: tests/trace.rs",
    ),
    ("convert import perf.txt", "needs the output of perf: tests/trace.rs"),
    ("daemon check", "needs a live configuration: tests/daemon.rs"),
    ("simulate shop.toml", "shows a mistake: crates/scenario/tests/places.rs"),
    ("report explain result.json", "needs a result of `my-service.toml` with schemes: tests/explain.rs"),
    ("convert export my-service.toml", "tests/simulate.rs"),
    ("simulate my-service.toml", "stands for a scenario of the reader's"),
    ("simulate ptp", "three minutes: crates/scenario/tests"),
    ("simulate plrus", "a minute: crates/scenario/tests"),
    ("report explain plrus", "half a minute: tests/explain.rs"),
    ("simulate mglru --format", "a minute: crates/scenario/tests"),
    ("simulate mglru-tenants", "half a minute: crates/scenario/tests"),
    ("simulate promotion-policies", "half a minute: crates/scenario/tests"),
    ("simulate compaction", "a minute: crates/scenario/tests"),
    ("sweep space.toml -o runs --ray", "needs Ray: python/tests/test_sweep_ray.py"),
];
/// Commands that are not run alone; their longer forms are run.
const NOT_RUN_ALONE: &[(&str, &str)] = &[("top", "waits for keys"), ("simulate promotion", "half a minute")];
/// These also exit with 3 or 4 if the machine lacks a feature that they check.
const OF_THIS_MACHINE: [&str; 2] = ["doctor", "compact"];

/// Adds the pages below a folder.
fn add_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            add_pages(&path, pages);
        } else if path.extension().is_some_and(|end| end == "md") {
            pages.push(path);
        }
    }
}

/// Adds the commands of a page that are not in `found` yet, without `$ isotherm `.
fn commands(page: &Path, found: &mut Vec<String>) {
    let text = std::fs::read_to_string(page).unwrap().replace("\\\n", " ");
    for line in text.lines() {
        let Some(line) = line.strip_prefix("$ isotherm ").or_else(|| line.strip_prefix("$ sudo isotherm ")) else {
            continue;
        };
        let line = line.split(" # ").next().unwrap_or(line);
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if !found.contains(&line) {
            found.push(line);
        }
    }
}

fn reason(line: &str) -> Option<&'static str> {
    let begins = |&&(start, _): &&(&str, &str)| {
        line == start || line.strip_prefix(start).is_some_and(|rest| rest.starts_with([' ', '.', '/', '-']))
    };
    let alone = NOT_RUN_ALONE.iter().find(|(whole, _)| line == *whole);
    NOT_RUN.iter().find(begins).or(alone).map(|(_, why)| *why)
}

/// The folder of a reader who follows the pages: recordings of the repository, and of own programs.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for shared in ["traces", "crates", "scenarios"] {
        std::os::unix::fs::symlink(Path::new(ROOT).join(shared), folder.path().join(shared)).unwrap();
    }
    std::fs::create_dir_all(folder.path().join("docs/pictures")).unwrap();
    for (of, own) in [("redis", "app"), ("redis", "redis"), ("redis", "backup")] {
        let recording = Path::new(ROOT).join(format!("traces/{of}.parquet"));
        std::fs::copy(recording, folder.path().join(format!("{own}.parquet"))).unwrap();
    }
    // A smaller space than on the page, where it has thousands of runs.
    let space = "scenario = 'base.toml'\n[[axes]]\nkey = 'policy'\nvalues = ['classic', 'mglru']\n";
    let base = "name = 'base'\n[[workloads]]\nname = 'w'\nload = { kind = 'scan', footprint = '4MiB' }\n";
    std::fs::write(folder.path().join("space.toml"), space).unwrap();
    std::fs::write(folder.path().join("base.toml"), base).unwrap();
    run(folder.path(), "monitor traces/redis.parquet -o redis.regions.parquet");
    run(folder.path(), "simulate policies --format json > after.json");
    folder
}

/// Runs a command with the parts of shell syntax that pages use: quotes, and redirection to a file.
fn run(folder: &Path, line: &str) {
    let (command, output) = line.split_once(" > ").map_or((line, None), |(command, file)| (command, Some(file)));
    let words: Vec<&str> = command.split(' ').map(|word| word.trim_matches('\'')).collect();
    let done = Command::new(env!("CARGO_BIN_EXE_isotherm")).args(&words).current_dir(folder).output().unwrap();
    let code = done.status.code();
    let is_good = code == Some(0) || OF_THIS_MACHINE.contains(&words[0]) && matches!(code, Some(3 | 4));
    let said = String::from_utf8_lossy(&done.stderr);
    // If a scenario does not meet its expectations, its page says so, and the exit code shows it.
    let is_told = code == Some(1) && said.contains("expectations of the scenario are missed");
    assert!(is_good || is_told, "isotherm {line}: {code:?}\n{said}");
    assert!(
        !done.stdout.is_empty() || !done.stderr.is_empty() || words.contains(&"-q"),
        "isotherm {line} says nothing"
    );
    if let Some(file) = output {
        std::fs::write(folder.join(file), &done.stdout).unwrap();
    }
}

/// Verbs whose commands run whole workloads: seconds to minutes each.
const PLAYING: &[&str] =
    &["advise", "report accuracy", "report explain", "report results", "simulate", "sweep", "tune"];

#[test]
fn commands_of_all_pages_that_play_nothing_run() {
    assert!(run_shown(|line| !PLAYING.iter().any(|verb| format!("{line} ").starts_with(&format!("{verb} ")))) > 20);
}

#[test]
#[ignore = "nightly: plays every experiment that a page shows"]
fn commands_of_all_pages_run() {
    assert!(run_shown(|_| true) > 40);
}

/// Runs the commands that `is_wanted` accepts, and returns their number.
fn run_shown(is_wanted: impl Fn(&str) -> bool) -> usize {
    let mut pages = vec![Path::new(ROOT).join("README.md")];
    add_pages(&Path::new(ROOT).join("docs"), &mut pages);
    pages.sort();
    let mut shown = Vec::new();
    pages.iter().for_each(|page| commands(page, &mut shown));
    assert!(shown.len() > 60, "{}", shown.len());
    for (start, _) in NOT_RUN.iter().chain(NOT_RUN_ALONE) {
        let is_used = shown.iter().any(|line| line.starts_with(start));
        assert!(is_used, "no page shows `isotherm {start}`: take it off the list");
    }
    let folder = folder();
    let mut nr_run = 0;
    for line in shown.iter().filter(|line| reason(line).is_none() && is_wanted(line)) {
        run(folder.path(), line);
        nr_run += 1;
    }
    nr_run
}
