//! `isotherm compact`, and `isotherm daemon run` with `[[compaction]]` and `[tiering]`, on a tree of files that represents a machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

const KNOBS: [(&str, &str); 4] = [
    ("proc/sys/vm/compaction_proactiveness", "20"),
    ("proc/sys/kernel/numa_balancing", "1"),
    ("proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", "65536"),
    ("sys/kernel/mm/numa/demotion_enabled", "false"),
];
const FILE: &str = "sys/devices/system/node/node0/compact";

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    /// Two thirds of the free memory lie in single pages.
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let none = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        for (path, text) in [
            ("proc/buddyinfo", "Node 0, zone   Normal   1024 0 0 0 0 0 0 0 0 1 0\n"),
            (
                "proc/zoneinfo",
                "Node 0, zone   Normal\n  pages free     1536\n        min      10\n        low      12\n        high     14\n        present  90000\n",
            ),
            ("proc/vmstat", "pgmigrate_success 100\npgpromote_success 3\npgdemote_kswapd 4\n"),
            ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            ("proc/pressure/memory", none),
            ("proc/pressure/cpu", none),
            ("proc/sys/kernel/random/boot_id", "b1\n"),
            ("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0\n"),
            ("sys/devices/virtual/memory_tiering/memory_tier225/nodelist", "1\n"),
            (FILE, ""),
        ] {
            machine.write(path, text);
        }
        for (path, value) in KNOBS {
            machine.write(path, &format!("{value}\n"));
        }
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap().trim().to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
        command.args(arguments).env_remove("COLUMNS").args(["--color", "never"]);
        command
    }

    fn compact(&self, more: &[&str]) -> Output {
        self.command(&["compact"]).arg("--root").arg(self.folder.path()).args(more).output().unwrap()
    }

    fn config(&self, text: &str) -> PathBuf {
        self.write("isotherm.toml", text);
        let path = self.path("isotherm.toml");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// Runs the daemon for some seconds, and returns the lines of its audit.
    fn run(&self, text: &str, more: &[&str]) -> Vec<serde_json::Value> {
        let audit = self.path("log/actions.jsonl");
        let _ = fs::remove_file(&audit);
        let mut command = self.command(&["run", "--for", "3s"]);
        command.arg(self.config(text)).arg("--root").arg(self.folder.path()).arg("--audit").arg(&audit).args(more);
        command.arg("--journal").arg(self.path("journal")).arg("--run-dir").arg(self.path("run"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let text = fs::read_to_string(audit).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn knobs_are_as_before(&self) {
        for (path, value) in KNOBS {
            assert_eq!(self.read(path), value, "{path}");
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Path and value of each write that was made or reported.
fn writes(lines: &[serde_json::Value], event: &str) -> Vec<(String, String)> {
    let of_event = lines.iter().filter(|line| line["event"] == event);
    of_event.map(|line| (line["path"].as_str().unwrap().into(), line["value"].as_str().unwrap().into())).collect()
}

#[test]
fn the_verb_shows_and_compacts_with_yes_alone() {
    let machine = Machine::new();
    for more in [&[][..], &["--yes", "--dry-run"]] {
        let shown = machine.compact(more);
        assert!(shown.status.success() && said(&shown).contains("nothing was compacted"), "{}", said(&shown));
        assert_eq!(machine.read(FILE), "");
    }
    let json = machine.compact(&["--format", "json"]);
    let rows: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&rows[9]["blocks"], &rows[9]["extfrag"], &rows[0]["extfrag"]), (&1.into(), &66.into(), &0.into()));
    let done = machine.compact(&["--yes"]);
    assert_eq!(done.status.code(), Some(4), "the tree is as scattered as before: {}", said(&done));
    assert!(said(&done).contains("66% before, 66% now") && said(&done).contains("gone through"), "{}", said(&done));
    assert_eq!(machine.read(FILE), "1");
    let enough = machine.compact(&["--yes", "--high", "70", "--low", "70"]);
    assert!(enough.status.success() && said(&enough).contains("not fragmented enough"), "{}", said(&enough));
}

#[test]
fn the_verb_refuses_what_makes_no_sense() {
    let machine = Machine::new();
    for (more, code, words) in [
        (&["--node", "4"][..], 2, "`node` is 4; allowed: 0"),
        (&["--order", "11"], 2, "allowed: 1 to 10"),
        (&["--low", "31"], 2, "allowed: 0 to `high` (30)"),
        (&["--high", "101"], 2, "0 to 100 percent"),
        (&["--node", "x"], 2, "invalid value"),
    ] {
        let refused = machine.compact(more);
        assert_eq!(refused.status.code(), Some(code), "{more:?}: {}", said(&refused));
        assert!(said(&refused).contains(words), "{more:?}: {}", said(&refused));
    }
    fs::remove_file(machine.path(FILE)).unwrap();
    let unable = machine.compact(&["--yes"]);
    assert!(unable.status.code() == Some(3) && said(&unable).contains("nodeN/compact"), "{}", said(&unable));
    machine.write("proc/buddyinfo", "garbage\n");
    let strange = machine.compact(&[]);
    assert!(strange.status.code() == Some(3) && said(&strange).contains("garbage"), "{}", said(&strange));
}

const COMPACTION: &str = "[[compaction]]\nname = \"huge\"\ndesign = \"explicit\"\nevery = \"1s\"\n";

#[test]
fn the_daemon_compacts_a_node_and_tells_what_came_of_it() {
    let machine = Machine::new();
    let lines = machine.run(COMPACTION, &[]);
    assert_eq!(machine.read(FILE), "", "without enable nothing is compacted");
    let would: Vec<_> = lines.iter().filter(|line| line["event"] == "acted").collect();
    assert_eq!((&would[0]["act"]["effect"], would.len()), (&"would".into(), 1), "{lines:?}");
    let acting = format!("{COMPACTION}enable = true\n");
    assert!(machine.run(&acting, &["--dry-run"]).iter().all(|line| line["event"] != "asks"));
    assert_eq!(machine.read(FILE), "");
    let lines = machine.run(&acting, &[]);
    assert_eq!(machine.read(FILE), "1");
    let asked = lines.iter().find(|line| line["event"] == "asks").expect("it is told before");
    assert_eq!(asked["write"], would[0]["act"]["write"], "what a dry run lists is what is written");
    let done = lines.iter().find(|line| line["event"] == "compacted").expect("what came of it");
    assert_eq!((&done["extfrag_before"], &done["why"]), (&66.into(), &"scanners-met".into()));
}

#[test]
fn settings_of_the_kernel_are_told_made_and_put_back() {
    let machine = Machine::new();
    let text = "[[compaction]]\nname = \"k\"\ndesign = \"merged\"\nproactiveness = 60\nenable = true\n\
                [tiering]\npolicy = \"numa-mode-2\"\ndemotion = true\nenable = true\nbalancing = { promote-rate-limit-mbps = 100 }\n";
    let told = writes(&machine.run(text, &["--dry-run"]), "would-write");
    machine.knobs_are_as_before();
    let made = writes(&machine.run(text, &[]), "writes");
    machine.knobs_are_as_before();
    assert_eq!(told, made);
    let expected = [
        ("/proc/sys/vm/compaction_proactiveness", "60"),
        ("/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", "100"),
        ("/sys/kernel/mm/numa/demotion_enabled", "true"),
        ("/proc/sys/kernel/numa_balancing", "2"),
    ];
    assert_eq!(made, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));

    // One tier: refused with a reason, and nothing is written.
    fs::remove_dir_all(machine.path("sys/devices/virtual/memory_tiering/memory_tier225")).unwrap();
    let lines = machine.run("[tiering]\npolicy = \"numa-mode-2\"\nenable = true\n", &[]);
    let why = lines.iter().find(|line| line["event"] == "trouble").expect("why not");
    assert!(why["why"].as_str().unwrap().contains("one node of memory"), "{why}");
    machine.knobs_are_as_before();
}

#[test]
fn contradictions_name_both_places() {
    let machine = Machine::new();
    for (text, words) in [
        (
            "[[compaction]]\nname = \"a\"\ndesign = \"merged\"\n[[compaction]]\nname = \"b\"\ndesign = \"merged\"\n",
            &["isotherm.toml:5:", "isotherm.toml:2:", "compaction_proactiveness"][..],
        ),
        (
            "[[compaction]]\nname = \"a\"\ndesign = \"heat\"\n",
            &["isotherm.toml:", "unknown variant `heat`", "`merged`"],
        ),
        (
            "[[compaction]]\nname = \"a\"\ndesign = \"explicit\"\nlow = 40\n",
            &["isotherm.toml:4:", "allowed: 0 to `high`"],
        ),
        ("[[compaction]]\nname = \"a\"\ndesign = \"explicit\"\nlwo = 4\n", &["isotherm.toml:", "lwo"]),
        ("[[compaction]]\nname = \"a\"\ndesign = \"merged\"\nengine = \"x\"\n", &["isotherm.toml:", "isotherm"]),
        ("[tiering]\npolicy = \"rch\"\n", &["isotherm.toml:1:", "name groups"]),
        ("[tiering]\npolicy = \"numa-mode-2\"\nengine = \"isotherm\"\n", &["isotherm.toml:3:", "policy = \"rch\""]),
        ("[tiering]\nbalancing = { scan-delay = \"1us\" }\n", &["isotherm.toml:2:", "whole milliseconds"]),
    ] {
        let refused = machine.command(&["check"]).arg(machine.config(text)).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{text}: {}", said(&refused));
        for word in words {
            assert!(said(&refused).contains(word), "{text}: {word}: {}", said(&refused));
        }
    }
}
