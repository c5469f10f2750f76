//! `isotherm apply` and `isotherm restore`, on a tree of files that represents a machine.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const GROUP: &str = "sys/fs/cgroup/app.slice/web.service";
const SSH: &str = "sys/fs/cgroup/system.slice/ssh.service";

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        for (path, text) in [
            ("proc/mounts", mounts),
            ("proc/self/mounts", mounts),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"),
            ("proc/sys/kernel/random/boot_id", "b1\n"),
            ("proc/meminfo", "MemTotal: 1000000 kB\nSwapTotal: 1048576 kB\nSwapFree: 1048576 kB\n"),
            ("sys/kernel/mm/lru_gen/enabled", "0x0003\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
        ] {
            machine.write(path, text);
        }
        for group in [GROUP, SSH] {
            for (file, text) in [
                ("memory.high", "max\n"),
                ("memory.max", "max\n"),
                ("memory.current", "200000000\n"),
                ("memory.stat", "anon 150000000\nfile 50000000\n"),
                ("cgroup.procs", "\n"),
            ] {
                machine.write(&format!("{group}/{file}"), text);
            }
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
    /// All knobs.
    fn knobs(&self) -> BTreeMap<String, String> {
        let group = |file: &str| format!("{GROUP}/{file}");
        let paths = [group("memory.high"), group("memory.max"), "sys/kernel/mm/lru_gen/enabled".to_owned()];
        paths.map(|path| (path.clone(), self.read(&path))).into()
    }
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
        command.args(arguments).env_remove("COLUMNS").args(["--color", "never"]);
        command.arg("--root").arg(self.folder.path()).arg("--journal").arg(self.path("journal"));
        command
    }
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it starts")
    }
    fn advice(&self, text: &str) -> String {
        let path = self.path("advice.toml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Vec<serde_json::Value> {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn scenario(rest: &str) -> String {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/redis.parquet");
    format!(
        "name = \"redis\"\n{rest}\n[[workloads]]\nname = \"redis\"\nload = {{ kind = \"trace\", path = {:?} }}\n",
        trace.display().to_string()
    )
}

const LIMITED: &str = "policy = \"mglru\"\nlimit = \"100MiB\"";

#[test]
fn what_a_dry_run_lists_is_what_is_written_and_taken_back() {
    let machine = Machine::new();
    let before = machine.knobs();
    let advice = machine.advice(&scenario(LIMITED));
    let asked = ["apply", &advice, "--cgroup", "/app.slice/web.service", "--format", "json"];
    let listed = json(&machine.run(&asked));
    assert_eq!(machine.knobs(), before, "nothing is written without --yes");
    assert!(!machine.path("journal").exists());
    let both = [&asked[..], &["--yes", "--dry-run"]].concat();
    assert_eq!(json(&machine.run(&both)), listed);
    assert_eq!(machine.knobs(), before);
    let written = json(&machine.run(&[&asked[..], &["--yes"]].concat()));
    let list = |writes: &[serde_json::Value]| -> Vec<(String, String)> {
        let text = |write: &serde_json::Value, key: &str| write[key].as_str().unwrap().to_owned();
        writes.iter().map(|write| (text(write, "path"), text(write, "new"))).collect()
    };
    assert_eq!(list(&listed), list(&written));
    for (path, new) in list(&written) {
        assert_eq!(machine.read(path.trim_start_matches('/')), new);
    }
    assert_eq!(machine.read(&format!("{GROUP}/memory.high")), (100u64 << 20).to_string());
    // Again: all values are set already, so the journal gets no line.
    let again = json(&machine.run(&[&asked[..], &["--yes"]].concat()));
    assert!(again.iter().all(|write| write["result"] == "was so already"), "{again:?}");
    let would = json(&machine.run(&["restore", "--dry-run", "--format", "json"]));
    assert!(would.len() == 2 && would.iter().all(|row| row["result"] == "to be put back"), "{would:?}");
    let restored = json(&machine.run(&["restore", "--format", "json"]));
    assert!(restored.iter().all(|row| row["result"] == "put back"), "{restored:?}");
    assert_eq!(machine.knobs(), before);
    let nothing = machine.run(&["restore"]);
    assert!(nothing.status.success() && said(&nothing).contains("nothing to put back"), "{}", said(&nothing));
    assert_eq!(fs::metadata(machine.path("journal")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_cannot_be_applied_is_refused_in_words() {
    let machine = Machine::new();
    let before = machine.knobs();
    let group = ["--cgroup", "/app.slice/web.service", "--yes"];
    let cases: &[(&str, &[&str], i32, &str)] = &[
        (LIMITED, &["--yes"], 2, "say which control group it is for, --cgroup PATH"),
        (LIMITED, &["--cgroup", "/nowhere", "--yes"], 1, "there is no cgroup /nowhere"),
        (LIMITED, &["--cgroup", "/system.slice/ssh.service", "--yes"], 2, "is left alone: people come in through it"),
        (LIMITED, &["--cgroup", "/", "--yes"], 2, "it is the whole machine"),
        ("policy = \"mglru\"", &group, 2, "has no `limit`"),
        ("policy = \"fifo\"\nlimit = \"1GiB\"", &group, 3, "the policy `fifo` is no kernel's"),
        ("policy = \"mglru\"\nlimit = \"50%\"", &group, 2, "is a share of a peak"),
        ("policy = \"mglru\"\nlimit = \"1KiB\"", &group, 2, "`limit` is 1KiB; allowed: 128KiB"),
        ("polcy = \"mglru\"", &group, 2, "polcy"),
    ];
    for (text, arguments, code, words) in cases {
        let advice = machine.advice(&scenario(text));
        let output = machine.run(&[&["apply", &advice], *arguments].concat());
        assert_eq!(output.status.code(), Some(*code), "{text} {arguments:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{text} {arguments:?}: {}", said(&output));
    }
    let advice = machine.advice(&scenario(LIMITED));
    let apply = [&["apply", &advice][..], &group[..]].concat();
    // No room in swap for the pages to evict.
    machine.write("proc/meminfo", "MemTotal: 1000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
    let refused = machine.run(&apply);
    assert_eq!(refused.status.code(), Some(3));
    assert!(said(&refused).contains("add swap, or allow the group more"), "{}", said(&refused));
    machine.write("proc/meminfo", "MemTotal: 1000000 kB\nSwapTotal: 1048576 kB\nSwapFree: 1048576 kB\n");
    // A file that others can write is refused.
    fs::set_permissions(&advice, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = machine.run(&apply);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("can be written by others"), "{}", said(&refused));
    fs::set_permissions(&advice, fs::Permissions::from_mode(0o644)).unwrap();
    // An invalid journal.
    machine.write("journal", "garbage\n");
    for arguments in [&apply[..], &["restore"]] {
        let refused = machine.run(arguments);
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        assert!(said(&refused).contains("line 1 of the journal is damaged"), "{}", said(&refused));
    }
    fs::remove_file(machine.path("journal")).unwrap();
    // A kernel without the Multi-Gen LRU.
    fs::remove_file(machine.path("sys/kernel/mm/lru_gen/enabled")).unwrap();
    let refused = machine.run(&apply);
    assert_eq!(refused.status.code(), Some(3));
    assert!(said(&refused).contains("no Multi-Gen LRU"), "{}", said(&refused));
    machine.write("sys/kernel/mm/lru_gen/enabled", "0x0003\n");
    assert_eq!(machine.knobs(), before);
}

#[test]
fn what_somebody_else_wrote_since_is_left_alone() {
    let machine = Machine::new();
    let advice = machine.advice(&scenario(LIMITED));
    json(&machine.run(&["apply", &advice, "--cgroup", "/app.slice/web.service", "--yes", "--format", "json"]));
    machine.write(&format!("{GROUP}/memory.high"), "12345\n");
    let restored = machine.run(&["restore"]);
    assert_eq!(restored.status.code(), Some(4), "{}", said(&restored));
    assert_eq!(machine.read(&format!("{GROUP}/memory.high")), "12345");
    assert_eq!(machine.read("sys/kernel/mm/lru_gen/enabled"), "0x0003");
    // Another boot: knobs have their boot values, and the journal's changes are closed.
    json(&machine.run(&["apply", &advice, "--cgroup", "/app.slice/web.service", "--yes", "--format", "json"]));
    let applied = machine.knobs();
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    let rows = json(&machine.run(&["restore", "--format", "json"]));
    assert!(!rows.is_empty() && rows.iter().all(|row| row["result"] == "gone with another boot"), "{rows:?}");
    assert_eq!(machine.knobs(), applied);
}

/// Neither is "nothing to put back".
#[test]
fn a_journal_that_is_missing_or_of_another_user_is_no_empty_one() {
    let machine = Machine::new();
    let missing = machine.run(&["restore"]);
    assert!(missing.status.code() == Some(2) && said(&missing).contains("there is no journal"), "{}", said(&missing));
    machine.write("journal", "");
    let empty = machine.run(&["restore"]);
    assert!(empty.status.success() && said(&empty).contains("has no open change"), "{}", said(&empty));
    let before = machine.knobs();
    let advice = machine.advice(&scenario(LIMITED));
    let applied = machine.run(&["apply", &advice, "--cgroup", "/app.slice/web.service", "--yes"]);
    assert!(applied.status.success(), "{}", said(&applied));
    let after = machine.knobs();
    assert_ne!(after, before);
    // Only root can give a file away.
    if std::os::unix::fs::chown(machine.path("journal"), Some(NOBODY), None).is_ok() {
        let refused = machine.run(&["restore"]);
        assert!(said(&refused).contains("belongs to another user") && !refused.status.success(), "{}", said(&refused));
        assert_eq!(machine.knobs(), after, "nothing of it is carried out");
        std::os::unix::fs::chown(machine.path("journal"), Some(0), None).unwrap();
    }
    assert!(machine.run(&["restore"]).status.success());
    assert_eq!(machine.knobs(), before);
}

const NOBODY: u32 = 65_534;

/// As root: for another user, who may not look, no answer is an error.
#[test]
fn another_user_is_told_that_nothing_can_be_seen() {
    let machine = Machine::new();
    machine.write("journal", "");
    machine.write("run/lock", "1 1");
    fs::set_permissions(machine.path("run/lock"), fs::Permissions::from_mode(0o600)).unwrap();
    if std::os::unix::fs::chown(machine.path("journal"), Some(0), Some(0)).is_err() {
        return crate::roots::skip("only root can be another user");
    }
    // Where the tests are built another user may not even start a program.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("isotherm");
    fs::copy(env!("CARGO_BIN_EXE_isotherm"), &program).unwrap();
    let run = machine.path("run");
    for arguments in [&["restore"][..], &["restore", "--dry-run"], &["daemon", "status"], &["daemon", "stop"]] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).args(arguments);
        if arguments[0] == "restore" {
            command.arg("--journal").arg(machine.path("journal"));
        } else {
            command.arg("--run-dir").arg(&run);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("run it as root"), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn a_group_that_was_removed_takes_its_limit_with_it() {
    let machine = Machine::new();
    let advice = machine.advice(&scenario(LIMITED));
    json(&machine.run(&["apply", &advice, "--cgroup", "/app.slice/web.service", "--yes", "--format", "json"]));
    fs::remove_dir_all(machine.path(GROUP)).unwrap();
    let rows = json(&machine.run(&["restore", "--format", "json"]));
    let of_group = rows.iter().find(|row| row["path"].as_str().unwrap().contains("web.service")).unwrap();
    assert_eq!(of_group["result"], "gone with its group or module");
    assert_eq!(machine.read("sys/kernel/mm/lru_gen/enabled"), "0x0003");
    assert_eq!(json(&machine.run(&["restore", "--format", "json"])).len(), 0);
}

/// `kill -9` at any moment of `apply`: afterwards `restore` restores all knobs.
#[test]
fn a_kill_at_any_moment_can_be_taken_back() {
    let machine = Machine::new();
    let before = machine.knobs();
    let advice = machine.advice(&scenario(LIMITED));
    let asked = ["apply", &advice, "--cgroup", "/app.slice/web.service", "--yes", "-q"];
    // Up to 1.5 times the time that it takes here.
    let start = std::time::Instant::now();
    assert!(machine.run(&asked).status.success() && machine.run(&["restore"]).status.success());
    let step = start.elapsed() / 80;
    for moment in 0..60u32 {
        let mut child = machine.command(&asked).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(step * moment);
        child.kill().unwrap();
        child.wait().unwrap();
        let restored = machine.run(&["restore"]);
        assert!(restored.status.success(), "at {moment}: {}", said(&restored));
        assert_eq!(machine.knobs(), before, "at {moment}");
    }
}
