//! `isotherm apply` for kernel modules and the daemon, on a tree of files that represents a machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

const GROUP: &str = "/app.slice/web.service";
const RECLAIM: &str = "sys/module/damon_reclaim/parameters";

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let listing = format!(
            "memcg     1 /\n node     0\n          0      90000          0          0\n          1      60000          0          0\n\
             memcg    42 {GROUP}\n node     0\n          0      90000       5000       1000\n          1      60000          0          0\n"
        );
        let group = |file: &str| format!("sys/fs/cgroup{GROUP}/{file}");
        for (path, text) in [
            ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"),
            ("proc/sys/kernel/random/boot_id", "b1\n"),
            ("proc/meminfo", "MemTotal: 1000000 kB\nSwapTotal: 1048576 kB\nSwapFree: 1048576 kB\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            (
                "proc/pressure/memory",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            ),
            ("proc/iomem", "00001000-0009ffff : System RAM\n00100000-3fffffff : System RAM\n"),
            ("sys/kernel/mm/lru_gen/enabled", "0x0003\n"),
            ("sys/kernel/debug/lru_gen", listing.as_str()),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ("sys/module/damon_reclaim/parameters/enabled", "N\n"),
            ("sys/module/damon_reclaim/parameters/kdamond_pid", "77\n"),
            ("sys/module/damon_reclaim/parameters/min_age", "120000000\n"),
            ("sys/module/damon_reclaim/parameters/monitor_region_start", "0\n"),
            ("sys/module/damon_reclaim/parameters/monitor_region_end", "0\n"),
            (group("memory.high").as_str(), "max\n"),
            (group("memory.max").as_str(), "max\n"),
            (group("memory.current").as_str(), "40000000\n"),
            (group("memory.stat").as_str(), "anon 15000000\nfile 25000000\n"),
            (group("cgroup.procs").as_str(), "\n"),
        ] {
            machine.write(path, text);
        }
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn file(&self, path: &str) -> String {
        self.path(path).to_str().unwrap().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap().trim().to_owned()
    }

    /// An advice file owned by root, with `rest` after its first lines.
    fn advice(&self, rest: &str) -> String {
        self.write(
            "advice.toml",
            &format!(
                "name = \"web\"\npolicy = \"mglru\"\nlimit = \"100MiB\"\n\n[[workloads]]\nname = \"web\"\n\
                 load = {{ kind = \"trace\", path = \"pages.parquet\" }}\n\n{rest}"
            ),
        );
        fs::set_permissions(self.path("advice.toml"), fs::Permissions::from_mode(0o644)).unwrap();
        self.file("advice.toml")
    }

    fn isotherm(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
        command.args(arguments).env_remove("COLUMNS").args(["--color", "never"]).output().expect("it starts")
    }

    /// Runs a verb below the root of this machine.
    fn on_it(&self, arguments: &[&str]) -> Output {
        let more = ["--root", self.folder.path().to_str().unwrap(), "--journal", &self.file("journal")];
        self.isotherm(&[arguments, &more[..]].concat())
    }

    fn apply(&self, advice: &str, more: &[&str]) -> Output {
        self.on_it(&[&["apply", advice, "--cgroup", GROUP], more].concat())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const PRESET: &str = "[[monitors]]\nname = \"reclaim\"\npreset = { preset = \"reclaim\", min-age = \"30s\" }\n";
const TOOL: &str = "[[generations]]\nname = \"cold\"\nmode = \"reclaim\"\nthreshold = \"200ms\"\n";

/// One program's advice does not switch the policy of a whole machine.
#[test]
fn the_policy_of_the_machine_is_switched_on_request_alone() {
    let machine = Machine::new();
    machine.write("sys/kernel/mm/lru_gen/enabled", "0x0000\n");
    let advice = machine.advice("");
    let refused = machine.apply(&advice, &["--yes"]);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(said(&refused).contains("this machine runs classic") && said(&refused).contains("--switch-policy"));
    assert_eq!(machine.read(&format!("sys/fs/cgroup{GROUP}/memory.high")), "max");
    let switched = machine.apply(&advice, &["--yes", "--switch-policy"]);
    assert!(switched.status.success(), "{}", said(&switched));
    assert_eq!(machine.read("sys/kernel/mm/lru_gen/enabled"), "0x0007");
    assert!(machine.on_it(&["restore"]).status.success());
    assert_eq!(machine.read("sys/kernel/mm/lru_gen/enabled"), "0x0000");
    // The same policy, with other parts of it switched on: left as they are.
    machine.write("sys/kernel/mm/lru_gen/enabled", "0x0001\n");
    assert!(machine.apply(&advice, &["--yes"]).status.success());
    assert_eq!(machine.read("sys/kernel/mm/lru_gen/enabled"), "0x0001");
}

#[test]
fn a_preset_becomes_parameters_of_the_module_and_goes_back() {
    let machine = Machine::new();
    let advice = machine.advice(PRESET);
    let listed = machine.apply(&advice, &["--format", "json"]);
    assert!(listed.status.success(), "{}", said(&listed));
    assert!(said(&listed).contains("--daemon-config FILE keeps its schemes to the group"), "{}", said(&listed));
    assert_eq!(
        (machine.read(&format!("{RECLAIM}/enabled")), machine.path("journal").exists()),
        ("N".to_owned(), false)
    );
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let last = rows.last().unwrap();
    assert_eq!((last["path"].as_str().unwrap(), last["new"].as_str().unwrap()), (&*format!("/{RECLAIM}/enabled"), "Y"));
    assert_eq!(last["scope"], "the whole machine");
    let written = machine.apply(&advice, &["--yes"]);
    assert!(written.status.success(), "{}", said(&written));
    let held = ["min_age", "enabled", "monitor_region_end"].map(|file| machine.read(&format!("{RECLAIM}/{file}")));
    assert_eq!(held, ["30000000", "Y", &0x4000_0000u64.to_string()]);
    let again = machine.apply(&advice, &["--yes", "--format", "csv"]);
    assert!(again.status.success(), "{}", said(&again));
    let again = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.lines().skip(1).all(|row| row.contains("was so already")), "{again}");
    let restored = machine.on_it(&["restore"]);
    assert!(restored.status.success(), "{}", said(&restored));
    let held = ["min_age", "enabled", "monitor_region_end"].map(|file| machine.read(&format!("{RECLAIM}/{file}")));
    assert_eq!(held, ["120000000", "N", "0"]);
}

#[test]
fn a_module_that_would_harm_or_is_not_free_is_refused() {
    let machine = Machine::new();
    let short = PRESET.replace("30s", "200ms");
    let refused = machine.apply(&machine.advice(&short), &["--yes"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("`min-age` is 200ms") && said(&refused).contains("--age 2m"), "{}", said(&refused));
    assert!(machine.apply(&machine.advice(&short), &["--age", "2m"]).status.success());
    machine.write("sys/module/damon_stat/parameters/enabled", "Y\n");
    let refused = machine.apply(&machine.advice(PRESET), &["--yes"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(said(&refused).contains("--take-damon-stat"), "{}", said(&refused));
    assert!(machine.apply(&machine.advice(PRESET), &["--take-damon-stat"]).status.success());
    machine.write("sys/module/damon_stat/parameters/enabled", "N\n");
    // The kernel accepts the switch and starts nothing.
    machine.write(&format!("{RECLAIM}/kdamond_pid"), "-1\n");
    let refused = machine.apply(&machine.advice(PRESET), &["--yes"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        said(&refused).contains("does not run") && said(&refused).contains("isotherm restore"),
        "{}",
        said(&refused)
    );
    assert!(machine.on_it(&["restore"]).status.success());
    assert_eq!(machine.read(&format!("{RECLAIM}/enabled")), "N");
    fs::remove_dir_all(machine.path("sys/module/damon_reclaim")).unwrap();
    let refused = machine.apply(&machine.advice(PRESET), &["--yes"]);
    assert!(said(&refused).contains("this kernel has no damon_reclaim"), "{}", said(&refused));
    assert_eq!(machine.read("sys/kernel/mm/lru_gen/enabled"), "0x0003");
}

#[test]
fn what_needs_the_daemon_is_refused_with_the_command_that_does_it() {
    let machine = Machine::new();
    for (rest, table) in [
        (TOOL.to_owned(), "[[generations]]"),
        ("[[limits]]\ntarget = \"/web\"\n".to_owned(), "[[limits]]"),
        (format!("{PRESET}{TOOL}"), "[[monitors]], [[generations]]"),
        ("[[monitors]]\nname = \"m\"\n".to_owned(), "[[monitors]]"),
        ("[[compaction]]\nname = \"h\"\ndesign = \"explicit\"\n".to_owned(), "[[compaction]]"),
        // By isotherm's own engines.
        ("[[monitors]]\nname = \"m\"\nconfig = { strategy = \"ptp\" }\n".to_owned(), "[[monitors]]"),
    ] {
        let advice = machine.advice(&rest);
        let refused = machine.apply(&advice, &["--yes"]);
        assert_eq!(refused.status.code(), Some(2), "{rest}");
        let next = format!(
            "isotherm apply {advice} --cgroup {GROUP} --daemon-config isotherm.toml, then: sudo isotherm daemon run"
        );
        let said = said(&refused);
        assert!(said.contains(table) && said.contains(&next), "{said}");
        // The command carries it out.
        let file = machine.file("isotherm.toml");
        let made = machine.apply(&advice, &["--daemon-config", &file]);
        assert!(made.status.success(), "{rest}: {}", self::said(&made));
        let checked = machine.isotherm(&["check", &file]);
        assert!(checked.status.success(), "{}", self::said(&checked));
        assert!(String::from_utf8_lossy(&checked.stdout).contains(" 0 of which may act"));
    }
    for (rest, more, words) in [
        ("", &["--daemon-config", "x.toml"][..], "has nothing for the daemon"),
        (TOOL, &["--daemon-config", "-", "--yes"], "prints alone"),
        ("[[variants]]\nname = \"v\"\npatch = { policy = \"mglru\" }\n", &[], "several variants"),
        (
            "[[compaction]]\nname = \"h\"\ndesign = \"controller\"\nbudget = { stall = \"1ms\" }\n",
            &["--daemon-config", "-"],
            "allowed: pages, cpu, wall",
        ),
        (
            "[[monitors]]\nname = \"m\"\ntargets = [\"web\"]\nranges = [{ start = 0, end = 4096 }]\n",
            &["--daemon-config", "-"],
            "addresses of a simulated machine",
        ),
    ] {
        let refused = machine.apply(&machine.advice(rest), more);
        assert!(!refused.status.success() && said(&refused).contains(words), "{rest}: {}", said(&refused));
    }
    let advice = machine.advice(TOOL);
    let nobody = machine.on_it(&["apply", &advice, "--daemon-config", "-"]);
    assert!(said(&nobody).contains("say which control group"), "{}", said(&nobody));
    let ssh = machine.on_it(&["apply", &advice, "--daemon-config", "-", "--cgroup", "/system.slice/ssh.service"]);
    assert!(said(&ssh).contains("is left alone"), "{}", said(&ssh));
    // A file that another program wrote stays.
    machine.write("mine.toml", "[daemon]\n");
    let refused = machine.apply(&advice, &["--daemon-config", &machine.file("mine.toml"), "--yes"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(machine.read("mine.toml"), "[daemon]");
}

/// From a recording to a running daemon.
#[test]
fn advice_becomes_a_configuration_that_the_daemon_runs() {
    let machine = Machine::new();
    let pages: String = (0..24_000u32).map(|at| format!("{}\n", at % 600)).collect();
    machine.write("pages.txt", &pages);
    let [source, trace, advice, file] =
        ["pages.txt", "pages.parquet", "redis.toml", "isotherm.toml"].map(|file| machine.file(file));
    let imported = machine.isotherm(&["import", &source, "-o", &trace, "--from", "text"]);
    assert!(imported.status.success(), "{}", said(&imported));
    let advised =
        machine.isotherm(&["advise", &trace, "--memory", "100%", "--kernel", "7.2", "--config", &advice, "-q"]);
    assert!(advised.status.success(), "{}", said(&advised));
    // Adds a tool over generations, whatever was recommended for such a small recording.
    let mut text = fs::read_to_string(&advice).unwrap();
    if !text.contains("[[generations]]") {
        text.push_str(TOOL);
    }
    fs::write(&advice, text).unwrap();
    fs::set_permissions(&advice, fs::Permissions::from_mode(0o644)).unwrap();
    let made = machine.apply(&advice, &["--daemon-config", &file]);
    assert!(made.status.success(), "{}", said(&made));
    let words = said(&made);
    assert!(
        words.contains("enable = false until --yes") && words.contains(&format!("isotherm daemon check {file}")),
        "{words}"
    );
    assert!(words.contains("`threshold` is 200ms, fitted to the length of the recording"), "{words}");
    assert!(!machine.path("journal").exists());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // It replaces its own file; with --yes the sections act, and limit and policy are set.
    let made = machine.apply(&advice, &["--daemon-config", &file, "--age", "2s", "--yes"]);
    assert!(made.status.success(), "{}", said(&made));
    assert_ne!(machine.read(&format!("sys/fs/cgroup{GROUP}/memory.high")), "max");
    let text = machine.read("isotherm.toml");
    assert!(text.contains("threshold = \"2s\"") && text.contains(&format!("cgroup = \"{GROUP}\"")), "{text}");
    let checked = machine.isotherm(&["check", &file]);
    assert!(checked.status.success(), "{}", said(&checked));
    let words = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(words.contains("1 sections, 1 of which may act"), "{words}");
    let [audit, run] = ["actions.jsonl", "run"].map(|file| machine.file(file));
    let ran = machine.on_it(&["run", "--dry-run", "--for", "5s", &file, "--audit", &audit, "--run-dir", &run]);
    assert!(ran.status.success(), "{}", said(&ran));
    let audit = machine.read("actions.jsonl");
    assert!(audit.contains("\"event\":\"came\"") && audit.contains(GROUP), "{audit}");
}
