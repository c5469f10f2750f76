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
        if arguments[0] == "apply" {
            command.arg("--switch-policy");
        }
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

/// Runs a script in a mount namespace of its own; `None` if this user may not.
fn in_own_mounts(script: &str, machine: &Machine) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_isotherm")]).current_dir(machine.folder.path());
    let output = command.output().ok()?;
    (output.status.code() != Some(99) && !said(&output).contains("unshare failed")).then_some(output)
}

/// A journal on a disk that is full, or that can only be read: all knobs are put back, and nothing stops the second time.
#[test]
fn a_disk_that_takes_no_line_keeps_no_knob_changed() {
    for (spoil, mend, why) in [
        ("head -c 1M /dev/zero > disk/rest", "rm disk/rest", "No space left"),
        ("mount -o remount,ro disk", "mount -o remount,rw disk", "read-only filesystem"),
    ] {
        let machine = Machine::new();
        let before = machine.knobs();
        let advice = machine.advice(&scenario(LIMITED));
        let limit = machine.run(&["apply", &advice, "--cgroup", "/app.slice/web.service", "--yes"]);
        assert!(limit.status.success(), "{}", said(&limit));
        assert_ne!(machine.knobs(), before);
        fs::create_dir(machine.path("disk")).unwrap();
        // The journal fills whole pages, so that not one more byte fits.
        let script = format!(
            "mount -t tmpfs -o size=8k,mode=700 none disk || exit 99
             journal=disk/journal; cp -p journal $journal
             printf '{{\"kind\":\"closed\",\"number\":9,\"why\":\"%s\"}}\n' $(head -c $((4096 - $(stat -c %s journal) - 38)) /dev/zero | tr '\\0' x) >> $journal
             stat -c 'size %s' $journal
             {spoil}
             restore() {{ $1 restore --root . --journal $journal --color never $2; echo code $?; }}
             restore $1 --dry-run; restore $1; cat {GROUP}/memory.high; restore $1; {mend} 2>&1; restore $1; restore $1"
        );
        let Some(output) = in_own_mounts(&script, &machine) else {
            return crate::roots::skip("only root can mount a disk that fills");
        };
        let (out, error) = (String::from_utf8_lossy(&output.stdout).into_owned(), said(&output));
        assert_eq!(machine.knobs(), before, "{out}\n{error}");
        let codes: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("code ")).collect();
        assert_eq!(codes, ["0", "4", "4", "0", "0"], "{out}\n{error}");
        assert!(error.contains(why) && error.contains("could not note it"), "{error}");
        assert!(out.contains("size 4096") || why.starts_with("read"), "{out}");
        assert!(error.ends_with("has no open change\n"), "{error}");
    }
}

/// What systemd calls when the daemon has ended.
#[test]
fn restoring_what_the_daemon_changed_keeps_what_was_applied() {
    let machine = Machine::new();
    let advice = machine.advice(&scenario(LIMITED));
    assert!(machine.run(&["apply", &advice, "--cgroup", "/app.slice/web.service", "--yes"]).status.success());
    let applied = machine.knobs();
    let none = machine.run(&["restore", "--of-daemon"]);
    assert!(none.status.success() && said(&none).contains("no open change of the daemon"), "{}", said(&none));
    assert_eq!(machine.knobs(), applied);
    let unit = include_str!("../../../contrib/systemd/isotherm.service");
    assert!(unit.contains("ExecStopPost=/usr/bin/isotherm restore --of-daemon\n"), "{unit}");
}

/// A journal that was cut off by a power cut, with zeros in place of its last bytes.
#[test]
fn zeros_behind_the_journal_are_no_part_of_it() {
    let machine = Machine::new();
    let before = machine.knobs();
    machine.write("journal", &"\0".repeat(4096));
    fs::set_permissions(machine.path("journal"), fs::Permissions::from_mode(0o600)).unwrap();
    let advice = machine.advice(&scenario(LIMITED));
    let applied = machine.run(&["apply", &advice, "--cgroup", "/app.slice/web.service", "--yes"]);
    assert!(applied.status.success(), "{}", said(&applied));
    assert!(!fs::read(machine.path("journal")).unwrap().contains(&0));
    let restored = machine.run(&["restore"]);
    assert!(restored.status.success(), "{}", said(&restored));
    assert_eq!(machine.knobs(), before);
}

/// The group of a service that was restarted holds what its unit says.
#[test]
fn a_group_that_was_made_again_is_not_the_one_that_was_limited() {
    let machine = Machine::new();
    let advice = machine.advice(&scenario(LIMITED));
    assert!(machine.run(&["apply", &advice, "--cgroup", "/app.slice/web.service", "--yes"]).status.success());
    let limited = machine.read(&format!("{GROUP}/memory.high"));
    assert_eq!(limited, "104857600");
    let place = machine.path(GROUP);
    let again = place.with_extension("again");
    fs::create_dir(&again).unwrap();
    for entry in fs::read_dir(&place).unwrap().flatten() {
        fs::copy(entry.path(), again.join(entry.file_name())).unwrap();
    }
    fs::remove_dir_all(&place).unwrap();
    fs::rename(&again, &place).unwrap();
    let restored = machine.run(&["restore"]);
    assert!(restored.status.success(), "{}", said(&restored));
    assert!(String::from_utf8_lossy(&restored.stdout).contains("gone with its group"));
    assert_eq!(machine.read(&format!("{GROUP}/memory.high")), limited, "its unit says so");
}

/// Whatever a journal says, no other file is written.
#[test]
fn a_journal_cannot_have_another_file_written() {
    let machine = Machine::new();
    machine.write("etc/secret", "kept\n");
    let link = machine.path("sys/fs/cgroup/app.slice/web.service/memory.high");
    for (path, link_to) in
        [("/etc/secret", None), ("/sys/fs/cgroup/app.slice/web.service/memory.high", Some("etc/secret"))]
    {
        if let Some(target) = link_to {
            fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(machine.path(target), &link).unwrap();
        }
        let line = format!(
            "{{\"kind\":\"journal\",\"version\":1}}\n{{\"kind\":\"set\",\"number\":1,\"boot\":\"b1\",\"section\":\"apply\",\
             \"path\":\"{path}\",\"old\":\"max\",\"new\":\"kept\"}}\n"
        );
        machine.write("journal", &line);
        fs::set_permissions(machine.path("journal"), fs::Permissions::from_mode(0o600)).unwrap();
        let restored = machine.run(&["restore"]);
        assert_eq!(restored.status.code(), Some(1), "{path}: {}", said(&restored));
        assert_eq!(machine.read("etc/secret"), "kept", "{path}");
    }
}

const NOBODY: u32 = 65_534;

/// As root: for another user, who may not look, no answer is an error.
#[test]
fn another_user_is_told_that_nothing_can_be_seen() {
    let machine = Machine::new();
    for (file, text) in [("journal", ""), ("run/lock", "1 1")] {
        machine.write(file, text);
        fs::set_permissions(machine.path(file), fs::Permissions::from_mode(0o600)).unwrap();
    }
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
