//! A tree of files that represents a machine, and commands of a daemon on it. Not every test uses all of it.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const WEB: &str = "/app.slice/web-1.service";

pub(crate) struct Machine {
    pub(crate) folder: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let listing = format!(
            "memcg     1 /\n node     0\n          0      90000          0          0\n          1      60000          0          0\n\
             memcg    42 {WEB}\n node     0\n          0      90000       5000       1000\n          1      60000          0          0\n          \
             2      30000        100          0\n          3          0        200          0\n"
        );
        for (path, text) in [
            ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            (
                "proc/pressure/memory",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            ),
            ("sys/kernel/mm/lru_gen/enabled", "0x0007\n"),
            ("proc/sys/kernel/random/boot_id", "b1\n"),
            ("sys/module/damon_reclaim/parameters/enabled", "N\n"),
            ("sys/module/damon_reclaim/parameters/min_age", "120000000\n"),
            ("sys/module/damon_reclaim/parameters/monitor_region_start", "0\n"),
            ("sys/module/damon_reclaim/parameters/monitor_region_end", "0\n"),
            ("proc/iomem", "00001000-0009ffff : System RAM\n00100000-3fffffff : System RAM\n"),
            ("sys/module/damon_reclaim/parameters/quota_sz", "134217728\n"),
            ("sys/kernel/debug/lru_gen", listing.as_str()),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
        ] {
            machine.write(path, text);
        }
        machine.write(&format!("sys/fs/cgroup{WEB}/memory.current"), "40000000\n");
        machine
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    pub(crate) fn config(&self, text: &str) -> String {
        self.write("isotherm.toml", text);
        let path = self.path("isotherm.toml");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
        command.args(arguments).env_remove("COLUMNS").args(["--color", "never"]);
        command
    }

    pub(crate) fn check(&self, text: &str) -> Output {
        let config = self.config(text);
        self.command(&["check", &config, "--root", self.folder.path().to_str().unwrap()]).output().unwrap()
    }

    pub(crate) fn daemon(&self, more: &[&str]) -> Child {
        let mut command = self.command(&["run"]);
        command.arg(self.path("isotherm.toml")).arg("--root").arg(self.folder.path());
        command
            .arg("--audit")
            .arg(self.path("log/actions.jsonl"))
            .arg("--journal")
            .arg(self.path("journal"))
            .args(more);
        if !more.contains(&"--run-dir") {
            command.arg("--run-dir").arg(self.path("run"));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn ask(&self, verb: &str, more: &[&str]) -> Output {
        self.command(&[verb, "--run-dir", self.path("run").to_str().unwrap()]).args(more).output().unwrap()
    }

    /// Lines of the audit.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.path("log/actions.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}: {:?}", self.lines());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) const GOOD: &str = "\
[[targets]]
name = \"web\"
cgroup = \"/app.slice/web-*.service\"

[[generations]]
name = \"cold\"
mode = \"reclaim\"
targets = [\"web\"]
threshold = \"2s\"
";
