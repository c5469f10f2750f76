//! `isotherm apply` and `isotherm restore` for units of systemd, with a systemctl that keeps its units in files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

const WEB: &str = "/system.slice/web.service";
const KEPT: &str = "etc/systemd/system.control/web.service.d/50-MemoryHigh.conf";
const LIMIT: &str = "104857600";

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        for (path, text) in [
            ("proc/sys/kernel/random/boot_id", "b1\n"),
            ("proc/meminfo", "MemTotal: 1000000 kB\nSwapTotal: 1048576 kB\nSwapFree: 1048576 kB\n"),
            ("sys/kernel/mm/lru_gen/enabled", "0x0007\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ("run/systemd/system/x", ""),
            ("usr/bin/systemctl", include_str!("machine/systemctl.sh")),
            (
                "advice.toml",
                "name = \"web\"\npolicy = \"mglru\"\nlimit = \"100MiB\"\n\n[[workloads]]\nname = \"web\"\n\
                 load = { kind = \"trace\", path = \"pages.parquet\" }\n",
            ),
        ] {
            machine.write(path, text);
        }
        fs::set_permissions(machine.path("usr/bin/systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
        machine.unit(WEB, "loaded", "no");
        machine
    }

    /// A unit that runs, in its group.
    fn unit(&self, group: &str, load: &str, transient: &str) {
        let name = group.rsplit('/').next().unwrap();
        for (file, text) in [("load", load), ("transient", transient), ("group", group)] {
            self.write(&format!("fake/{name}/{file}"), text);
        }
        self.group(group);
    }

    fn group(&self, group: &str) {
        for (file, text) in [
            ("memory.high", "max\n"),
            ("memory.max", "max\n"),
            ("memory.current", "40000000\n"),
            ("memory.stat", "anon 15000000\nfile 25000000\n"),
        ] {
            self.write(&format!("sys/fs/cgroup{group}/{file}"), text);
        }
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

    fn high(&self) -> String {
        self.read(&format!("sys/fs/cgroup{WEB}/memory.high"))
    }

    /// The property as systemd has it, the group's file, and whether there is a drop-in.
    fn state(&self) -> (String, String, bool) {
        let shown = self.systemctl(&["show", "--property=MemoryHigh", "web.service"]);
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        let property = text.lines().find_map(|line| line.strip_prefix("MemoryHigh=")).unwrap().to_owned();
        (property, self.high(), self.path(KEPT).exists())
    }

    fn systemctl(&self, arguments: &[&str]) -> Output {
        Command::new(self.path("usr/bin/systemctl")).args(arguments).output().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
        command.args(arguments).env_remove("COLUMNS").args(["--color", "never"]);
        command.arg("--root").arg(self.folder.path()).arg("--journal").arg(self.path("journal"));
        command.output().expect("it starts")
    }

    fn apply(&self, more: &[&str]) -> Output {
        let advice = self.path("advice.toml");
        self.run(&[&["apply", advice.to_str().unwrap()], more].concat())
    }

    fn restored(&self, code: i32) -> String {
        let output = self.run(&["restore"]);
        let words = said(&output);
        assert_eq!(output.status.code(), Some(code), "{words}");
        words
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn before() -> (String, String, bool) {
    ("infinity".to_owned(), "max".to_owned(), false)
}

fn limited() -> (String, String, bool) {
    (LIMIT.to_owned(), LIMIT.to_owned(), true)
}

#[test]
fn a_limit_is_set_through_systemd_and_goes_back_without_a_trace() {
    for whose in [&["--cgroup", WEB][..], &["--cgroup", "web"], &["--unit", "web"], &["--unit", "web.service"]] {
        let machine = Machine::new();
        let listed = machine.apply(&[whose, &["--format", "csv"]].concat());
        assert!(listed.status.success(), "{}", said(&listed));
        assert!(said(&listed).contains(&format!("/{KEPT},infinity,{LIMIT}")), "{}", said(&listed));
        assert_eq!(machine.state(), before());
        let written = machine.apply(&[whose, &["--yes"]].concat());
        assert!(written.status.success(), "{}", said(&written));
        assert_eq!(machine.state(), limited());
        // What `echo` into the group's file would lose.
        machine.systemctl(&["restart", "web.service"]);
        machine.systemctl(&["daemon-reload"]);
        assert_eq!(machine.state(), limited());
        let again = machine.apply(&[whose, &["--yes", "--format", "csv"]].concat());
        assert_eq!(said(&again).matches("was so already").count(), 2, "{}", said(&again));
        assert!(machine.run(&["restore", "--of-daemon"]).status.success());
        assert_eq!(machine.state(), limited(), "the daemon leaves what apply set");
        machine.restored(0);
        assert_eq!(machine.state(), before(), "{whose:?}");
        assert!(!machine.path(KEPT).parent().unwrap().exists(), "its folder goes too");
        assert_eq!(machine.read("fake/calls").lines().next_back().unwrap(), "show --property=MemoryHigh web.service");
        assert!(machine.read("fake/calls").contains("daemon-reload"));
        assert!(said(&machine.run(&["restore"])).contains("no open change"));
    }
}

#[test]
fn the_drop_in_is_where_systemd_puts_it() {
    for (group, transient, more, folder, property) in [
        (WEB, "no", &["--runtime"][..], "run/systemd/system.control", "MemoryHigh"),
        (WEB, "no", &["--max"], "etc/systemd/system.control", "MemoryMax"),
        ("/system.slice/docker-0123456789ab.scope", "yes", &[], "run/systemd/transient", "MemoryHigh"),
        ("/system.slice/system-a.slice/a@1.service", "no", &[], "etc/systemd/system.control", "MemoryHigh"),
        ("/app.slice", "no", &[], "etc/systemd/system.control", "MemoryHigh"),
    ] {
        let machine = Machine::new();
        machine.unit(group, "loaded", transient);
        let name = group.rsplit('/').next().unwrap();
        let written = machine.apply(&[&["--unit", name, "--yes"], more].concat());
        assert!(written.status.success(), "{}", said(&written));
        let path = format!("{folder}/{name}.d/50-{property}.conf");
        assert!(machine.read(&path).ends_with(&format!("{property}={LIMIT}")), "{path}");
        machine.restored(0);
        assert!(!machine.path(&path).exists());
    }
}

#[test]
fn a_drop_in_of_before_has_its_bytes_again() {
    let machine = Machine::new();
    let bytes = "# by the administrator\n[Service]\nMemoryHigh = 300000000\n\n";
    machine.write(KEPT, bytes);
    machine.systemctl(&["daemon-reload"]);
    assert!(machine.apply(&["--unit", "web", "--yes"]).status.success());
    assert_eq!(machine.state(), limited());
    machine.restored(0);
    assert_eq!(fs::read_to_string(machine.path(KEPT)).unwrap(), bytes);
    assert_eq!(machine.state(), ("300000000".to_owned(), "300000000".to_owned(), true));
}

#[test]
fn what_the_administrator_set_since_stays() {
    let machine = Machine::new();
    assert!(machine.apply(&["--unit", "web", "--yes"]).status.success());
    machine.systemctl(&["set-property", "web.service", "MemoryHigh=200000000"]);
    let words = machine.restored(4);
    assert!(words.contains("somebody else wrote `200000000` since"), "{words}");
    assert_eq!(machine.state(), ("200000000".to_owned(), "200000000".to_owned(), true));
    // In a file of theirs.
    let machine = Machine::new();
    assert!(machine.apply(&["--unit", "web", "--yes"]).status.success());
    machine.write("etc/systemd/system/web.service.d/override.conf", "[Service]\nMemoryHigh=200000000\n");
    machine.systemctl(&["daemon-reload"]);
    machine.restored(4);
    assert_eq!(machine.high(), "200000000");
}

#[test]
fn a_kill_at_any_step_is_taken_back() {
    for step in ["before", "after"] {
        let machine = Machine::new();
        machine.write(&format!("fake/kill-{step}"), "");
        let killed = machine.apply(&["--unit", "web", "--yes"]);
        assert_eq!(killed.status.code(), None, "{}", said(&killed));
        fs::remove_file(machine.path(&format!("fake/kill-{step}"))).unwrap();
        machine.restored(0);
        assert_eq!(machine.state(), before(), "{step}");
    }
    for (step, bytes) in [("before", ""), ("after", ""), ("reload", ""), ("after", "[Service]\nMemoryHigh=300000000\n")]
    {
        let machine = Machine::new();
        if !bytes.is_empty() {
            machine.write(KEPT, bytes);
            machine.systemctl(&["daemon-reload"]);
        }
        let first = machine.state();
        assert!(machine.apply(&["--unit", "web", "--yes"]).status.success());
        machine.write(&format!("fake/kill-{step}"), "");
        assert_eq!(machine.run(&["restore"]).status.code(), None);
        fs::remove_file(machine.path(&format!("fake/kill-{step}"))).unwrap();
        machine.restored(0);
        assert_eq!(machine.state(), first, "restore, {step}");
        assert_eq!(fs::read_to_string(machine.path(KEPT)).unwrap_or_default(), bytes);
    }
}

#[test]
fn a_reboot_takes_the_limit_of_the_group_and_not_that_of_the_unit() {
    let machine = Machine::new();
    assert!(machine.apply(&["--unit", "web", "--yes"]).status.success());
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    machine.systemctl(&["restart", "web.service"]);
    let words = machine.restored(0);
    assert!(words.contains("put back") && words.contains("gone with another boot"), "{words}");
    assert_eq!(machine.state(), before());
}

/// A package that was removed leaves the drop-in, which is ours.
#[test]
fn the_drop_in_of_a_unit_that_is_gone_goes_too() {
    let machine = Machine::new();
    assert!(machine.apply(&["--unit", "web", "--yes"]).status.success());
    for gone in ["fake/web.service", "sys/fs/cgroup/system.slice/web.service"] {
        fs::remove_dir_all(machine.path(gone)).unwrap();
    }
    machine.restored(0);
    assert!(!machine.path(KEPT).parent().unwrap().exists());
}

#[test]
fn what_systemd_refuses_or_does_not_do_stays_in_the_journal() {
    let machine = Machine::new();
    machine.write("fake/refuse", "Failed to set unit properties: Access denied\n");
    let refused = machine.apply(&["--unit", "web", "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said(&refused).contains("Access denied") && said(&refused).contains("isotherm restore"),
        "{}",
        said(&refused)
    );
    machine.restored(0);
    assert_eq!(machine.state(), before());
    // It answers, and the group's file keeps another value.
    fs::remove_file(machine.path("fake/refuse")).unwrap();
    assert!(machine.apply(&["--unit", "web", "--yes"]).status.success());
    machine.write("fake/idle", "");
    machine.write("etc/systemd/system/web.service", "MemoryHigh=300000000\n");
    let words = machine.restored(1);
    assert!(words.contains("memory.high") && words.contains("stay in the journal"), "{words}");
}

#[test]
fn what_cannot_be_set_is_refused_before_anything_is_written() {
    let on = |change: &dyn Fn(&Machine), more: &[&str], code: i32, words: &str| {
        let machine = Machine::new();
        change(&machine);
        let refused = machine.apply(&[more, &["--yes"]].concat());
        assert_eq!(refused.status.code(), Some(code), "{}", said(&refused));
        assert!(said(&refused).contains(words), "{words}: {}", said(&refused));
        assert!(!machine.path("journal").exists(), "{words}");
        let calls = fs::read_to_string(machine.path("fake/calls")).unwrap_or_default();
        assert!(!calls.contains("set-property"), "{calls}");
    };
    let nothing = |_: &Machine| {};
    let unit = ["--unit", "web"];
    for name in ["a@.service", "--help.service", "../x.service", "web.timer", "we b.service", ""] {
        on(&nothing, &[&format!("--unit={name}")], 2, "is no name of a unit");
    }
    on(&nothing, &["--unit", "absent"], 1, "systemd has no unit absent.service");
    on(&nothing, &["--unit", "web", "--cgroup", WEB], 2, "cannot be used with");
    on(&nothing, &["--runtime"], 2, "required");
    on(&|machine| machine.write("fake/web.service/load", "masked"), &unit, 1, "is masked");
    on(&|machine| machine.write("fake/web.service/load", "masked"), &["--cgroup", WEB], 2, "is masked");
    on(&|machine| machine.write("fake/web.service/group", ""), &unit, 1, "systemctl start web.service");
    on(&|machine| machine.write("fake/web.service/load", "bad-setting"), &unit, 1, "could not load web.service");
    on(&|machine| fs::remove_file(machine.path("usr/bin/systemctl")).unwrap(), &unit, 3, "no program systemctl");
    on(
        &|machine| fs::remove_file(machine.path("usr/bin/systemctl")).unwrap(),
        &["--cgroup", WEB],
        3,
        "no program systemctl",
    );
    on(&|machine| fs::remove_dir_all(machine.path("run/systemd")).unwrap(), &unit, 3, "systemd does not run here");
    on(&|machine| machine.unit("/system.slice/ssh.service", "loaded", "no"), &["--unit", "ssh"], 2, "left alone");
    on(
        &|machine| machine.write("sys/fs/cgroup/system.slice/web.service/memory.low", "4096\n"),
        &unit,
        2,
        "memory is guaranteed",
    );
    let user = "/user.slice/user-1000.slice/user@1000.service/app.slice/a.service";
    on(&|machine| machine.group(user), &["--cgroup", user], 2, "systemctl --user set-property");
    on(&|machine| machine.group("/build"), &["--cgroup", "/build", "--runtime"], 2, "leave --runtime out");
    let over = "etc/systemd/system/web.service.d/override.conf";
    on(&|machine| machine.write(over, "[Service]\nMemoryHigh=1G\n"), &unit, 2, "override.conf sets MemoryHigh");
    on(
        &|machine| machine.write(KEPT, "[Service]\nMemoryHigh=1G\n"),
        &["--unit", "web", "--runtime"],
        2,
        "in its place",
    );
    on(&|machine| machine.write(KEPT, "[Service]\nExecStart=/x\n"), &unit, 2, "has the line `ExecStart=/x`");
    // An earlier drop-in, and one of another property, do not matter.
    let machine = Machine::new();
    machine.write(over, "[Service]\nMemoryMax=1G\n");
    machine.write("etc/systemd/system/web.service.d/10-a.conf", "[Service]\nMemoryHigh=300000000\n");
    assert!(machine.apply(&["--unit", "web", "--yes"]).status.success());
    assert_eq!(machine.state(), limited());
}

/// Without systemd, and below a service, a group is a group.
#[test]
fn a_group_that_systemd_does_not_manage_is_written_itself() {
    let machine = Machine::new();
    let below = "/system.slice/web.service/x.service";
    machine.group(below);
    assert!(machine.apply(&["--cgroup", below, "--yes"]).status.success());
    assert_eq!(machine.read(&format!("sys/fs/cgroup{below}/memory.high")), LIMIT);
    fs::remove_dir_all(machine.path("run/systemd")).unwrap();
    assert!(machine.apply(&["--cgroup", WEB, "--yes"]).status.success());
    assert_eq!(machine.high(), LIMIT);
    assert!(!machine.path("etc/systemd").exists());
    machine.restored(0);
}

#[test]
fn a_journal_cannot_have_a_program_started() {
    for (path, old) in [
        (format!("/{KEPT}"), "infinity\\n[Service]\\nExecStartPre=/tmp/evil\\n"),
        ("/etc/systemd/system.control/web.service.d/50-ExecStart.conf".to_owned(), "infinity"),
        ("/etc/systemd/system.control/--help.service.d/50-MemoryHigh.conf".to_owned(), "infinity"),
    ] {
        let machine = Machine::new();
        machine.write(
            "journal",
            &format!(
                "{{\"kind\":\"journal\",\"version\":2}}\n{{\"kind\":\"set\",\"number\":1,\"boot\":\"b1\",\"section\":\"apply\",\
                 \"path\":\"{path}\",\"old\":\"{old}\",\"new\":\"{LIMIT}\\n\"}}\n"
            ),
        );
        fs::set_permissions(machine.path("journal"), fs::Permissions::from_mode(0o600)).unwrap();
        machine.restored(1);
        let calls = fs::read_to_string(machine.path("fake/calls")).unwrap_or_default();
        assert!(!calls.contains("set-property") && !calls.contains("reload"), "{calls}");
        assert!(!machine.path("etc/systemd").exists());
    }
}
