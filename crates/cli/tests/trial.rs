//! `isotherm daemon trial`, on a tree of files that represents a machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const WEB: &str = "/app.slice/web-1.service";
const B: &str = "[[targets]]\nname = \"web\"\ncgroup = \"/app.slice/web-*.service\"\n";

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let calm = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        for (path, text) in [
            ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            ("proc/pressure/memory", calm),
            ("proc/sys/kernel/random/boot_id", "b1\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ("p99", "12.5\n"),
        ] {
            machine.write(path, text);
        }
        machine.write(&format!("sys/fs/cgroup{WEB}/memory.current"), "40000000\n");
        machine.write(&format!("sys/fs/cgroup{WEB}/memory.pressure"), calm);
        machine.write("b.toml", B);
        fs::set_permissions(machine.path("b.toml"), fs::Permissions::from_mode(0o644)).unwrap();
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
        command.args(["--color", "never", "trial", "none"]).arg(self.path("b.toml"));
        for (key, path) in [("--root", ""), ("--run-dir", "run"), ("--audit", "log/a.jsonl"), ("--journal", "journal")]
        {
            command.arg(key).arg(self.path(path));
        }
        command
            .args(["--block", "3s", "--warm-up", "0s", "--metric"])
            .arg(format!("p99={}", self.path("p99").display()));
        command.args(more);
        command
    }

    fn trial(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_trial_of_equals_says_that_there_is_no_difference() {
    let machine = Machine::new();
    let output =
        machine.trial(&["--pairs", "4", "--yes", "--format", "json", "-o", machine.path("t.json").to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let trial = &document["trial"];
    assert_eq!((&trial["verdict"], &trial["pairs"]), (&"alike".into(), &4.into()), "{document:#}");
    let metrics = trial["metrics"].as_array().unwrap();
    assert_eq!(
        (&metrics[0]["name"], &metrics[0]["comparison"]["mean_b"]),
        (&"p99".into(), &12.5.into()),
        "{document:#}"
    );
    assert_eq!((&metrics[1]["name"], &metrics[1]["comparison"]["mean_a"]), (&"memory".into(), &40e6.into()));
    // The tree has no memory.stat: this is reported, and the other metrics work.
    assert!(metrics[4]["why_missing"].as_str().unwrap().contains("memory.stat"), "{document:#}");
    assert_eq!(fs::read(machine.path("t.json")).unwrap(), output.stdout);
    let audit = fs::read_to_string(machine.path("log/a.jsonl")).unwrap();
    assert_eq!(audit.lines().filter(|line| line.contains("\"ended\"")).count(), 8);
}

#[test]
fn without_yes_the_plan_is_shown_and_nothing_is_done() {
    let machine = Machine::new();
    let output = machine.trial(&["--pairs", "10"]);
    assert!(output.status.success() && said(&output).contains("at most 10 pairs, 1.00 m"), "{}", said(&output));
    assert!(!machine.path("run").exists() && !machine.path("journal").exists() && !machine.path("log").exists());
}

#[test]
fn bad_input_is_refused_with_what_is_allowed() {
    let machine = Machine::new();
    machine.write("words", "fast\n");
    let words = format!("m={}", machine.path("words").display());
    let missing = format!("m={}", machine.path("nowhere").display());
    for (more, expected) in [
        (vec!["--pairs", "3"], "4 and more"),
        (vec!["--for", "20s"], "4 and more"),
        (vec!["--metric", &words], "`fast` is no number"),
        (vec!["--metric", &missing], "No such file"),
        (vec!["--metric", "m"], "NAME=FILE"),
        (vec!["--decide", "speed"], "allowed: p99, memory"),
        (vec!["--cgroup", "/nowhere"], "no group /nowhere"),
        (vec!["--difference", "0%"], "above 0"),
    ] {
        let output = machine.trial(&more);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{more:?}: {}", said(&output));
    }
    let mut long = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    let output = long.args(["trial", "none", "none", "--block", "30s", "--warm-up", "30s"]).output().unwrap();
    assert!(
        output.status.code() == Some(2) && said(&output).contains("nothing is left to measure"),
        "{}",
        said(&output)
    );
}

#[test]
fn pressure_and_a_signal_end_it_and_what_is_known_is_printed() {
    let machine = Machine::new();
    for is_hurt in [false, true] {
        let child = machine.command(&["--yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let start = Instant::now();
        while !machine.path("run/status.json").exists() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(20));
        }
        if is_hurt {
            // All tasks are stalled all the time.
            for turn in 1..=8 {
                let total = turn * 900_000;
                let stall = format!("avg10=9.00 avg60=0.00 avg300=0.00 total={total}");
                machine.write("proc/pressure/memory", &format!("some {stall}\nfull {stall}\n"));
                std::thread::sleep(Duration::from_millis(700));
            }
        } else {
            let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
            assert!(killed.success());
        }
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(4), "{printed}{}", said(&output));
        let expected = if is_hurt { " hurt: all tasks waited" } else { "stopped after 0 whole pairs" };
        assert!(printed.contains(expected), "{printed}");
    }
}

/// The guard of the daemon's loop, by groups.
#[test]
fn a_configuration_whose_group_waits_for_memory_has_hurt() {
    let machine = Machine::new();
    let group = |file: &str| format!("sys/fs/cgroup{WEB}/{file}");
    for (file, text) in [
        ("memory.high", "max\n"),
        ("memory.stat", "anon 4096\nshmem 0\nworkingset_refault_anon 0\nworkingset_refault_file 0\n"),
        ("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"),
    ] {
        machine.write(&group(file), text);
    }
    machine.write("b.toml", "[[limits]]\nname = \"size\"\nenable = true\ntarget = \"/app.slice/web-*.service\"\n");
    let mut child = machine.command(&["--yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let mut total = 0;
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60));
        total += 180_000;
        let stall = format!("avg10=9.00 avg60=0.00 avg300=0.00 total={total}");
        // As a whole: a reader never meets half of it.
        machine.write("new", &format!("some {stall}\nfull {stall}\n"));
        fs::rename(machine.path("new"), machine.path(&group("memory.pressure"))).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = format!("B hurt: all tasks of {WEB} waited for memory for ");
    assert!(output.status.code() == Some(4) && printed.contains(&words), "{printed}{}", said(&output));
    assert!(printed.contains("limits.size"), "{printed}");
}
