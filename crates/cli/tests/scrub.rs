//! `isotherm convert scrub`: no name of the machine is left, and the data stay the same.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use isotherm_trace::group::{GroupMeta, GroupReader, GroupWriter, Look};
use isotherm_trace::region::{RecordMeta, Region, RegionStore, RegionWriter, Snapshot};
use isotherm_trace::{EventKind, MapRange, ProcessMeta, TraceMeta, TraceReader, TraceRow, TraceWriter};

const SECRETS: [&str; 5] = ["shop", "checkout", "payments", "mine-host", "secret"];
/// A PID, whose digits may also be part of a time.
const PROCESS: &str = "4711";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn scrub(&self, input: &str, output: &str) -> Output {
        isotherm(&["scrub", self.path(input).to_str().unwrap(), "-o", self.path(output).to_str().unwrap()])
    }

    /// Scrubs a file; this must succeed, and the output must be private.
    fn scrubbed(&self, input: &str, output: &str) -> Vec<u8> {
        let done = self.scrub(input, output);
        assert!(done.status.success(), "{}", said(&done));
        let path = self.path(output);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::read(path).unwrap()
    }
}

fn isotherm(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.args(arguments).env_remove("COLUMNS").args(["--color", "never"]).output().expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn holds_none(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let mut numbers = text.split(|letter: char| !letter.is_ascii_digit());
    assert!(numbers.all(|number| number != PROCESS), "{PROCESS}: {text}");
}

#[test]
fn traces_and_records_keep_their_rows() {
    let folder = Folder::new();
    let mut meta = TraceMeta::single("checkout");
    meta.command = vec!["/opt/shop/checkout".to_owned(), "--key=secret".to_owned()];
    meta.host = "mine-host".to_owned();
    meta.notes = vec!["checkout was slow".to_owned()];
    meta.processes[0] = ProcessMeta { pid: 4711, ..meta.processes[0].clone() };
    let mut writer = TraceWriter::create(folder.path("t.parquet"), meta).unwrap();
    for file in ["/opt/shop/lib.so", "/srv/payments.db", "/opt/shop/lib.so"] {
        let range = MapRange { start: 16, end: 32, file: Some(file.to_owned()), ..MapRange::default() };
        writer.event(0, 0, EventKind::Map(range)).unwrap();
    }
    writer.push(TraceRow { time_ns: 0, thread: 0, page: 20, pages: 1, write: false, kernel: false }).unwrap();
    let before = writer.finish().unwrap();
    folder.scrubbed("t.parquet", "t2.parquet");
    let after = TraceReader::open(folder.path("t2.parquet")).unwrap().meta().clone();
    holds_none(&format!("{after:?}"));
    assert_eq!((after.rows, after.accesses, after.complete), (before.rows, before.accesses, before.complete));
    assert_eq!((after.processes[0].pid, &*after.command[0], &*after.host), (2, "command-1", "host-1"));
    assert!(format!("{:?}", after.events).contains("mapping-"), "{:?}", after.events);

    let mut meta = RecordMeta::single("vaddr", "/shop.slice/checkout.service");
    (meta.targets[0].pid, meta.host) = (Some(4711), "mine-host".to_owned());
    let mut writer = RegionWriter::create(folder.path("r.parquet"), meta).unwrap();
    let snapshot = Snapshot {
        time_ns: 5,
        regions: vec![Region { start: 4096, end: 8192, ..Region::default() }],
        ..Snapshot::default()
    };
    writer.push(&snapshot).unwrap();
    writer.finish().unwrap();
    folder.scrubbed("r.parquet", "r2.parquet");
    let [mut one, mut two] = ["r.parquet", "r2.parquet"].map(|name| RegionStore::open(folder.path(name)).unwrap());
    assert_eq!(one.read_all().unwrap(), two.read_all().unwrap(), "addresses stay");
    holds_none(&format!("{:?}", two.meta()));
    assert_eq!(two.meta().targets[0].name, "/group-2/group-1");

    let meta = GroupMeta {
        group: "/shop.slice/checkout.service".to_owned(),
        host: "mine-host".to_owned(),
        kernel: "7.2.13".to_owned(),
        ..GroupMeta::default()
    };
    let mut writer = GroupWriter::create(folder.path("g.parquet"), meta).unwrap();
    writer.push(&Look { time_ns: 7, ..Look::default() }).unwrap();
    writer.finish().unwrap();
    folder.scrubbed("g.parquet", "g2.parquet");
    let [mut one, mut two] = ["g.parquet", "g2.parquet"].map(|name| GroupReader::open(folder.path(name)).unwrap());
    assert_eq!(one.read_all().unwrap(), two.read_all().unwrap());
    holds_none(&format!("{:?}", two.meta()));
    assert_eq!((&*two.meta().group, &*two.meta().kernel), ("/group-2/group-1", "7.2.13"));
}

/// A tree with some groups with secret names, and a tape and an audit of a daemon over them.
fn taped(folder: &Folder, config: &str, groups: &[&str], more: &[&str]) {
    let mut listing =
        "memcg     1 /\n node     0\n          0      90000          0          0\n          1      60000          0          0\n"
            .to_owned();
    for (number, group) in (42..).zip(groups) {
        listing += &format!(
            "memcg    {number} {group}\n node     0\n          0      90000       5000       1000\n          1      60000          0          0\n          \
             2      30000        100          0\n          3          0        200          0\n"
        );
        folder.write(&format!("sys/fs/cgroup{group}/memory.current"), "40000000\n");
        folder.write(&format!("sys/fs/cgroup{group}/cgroup.procs"), "4711\n");
        folder.write(&format!("sys/fs/cgroup{group}/memory.high"), "max\n");
        folder.write(&format!("sys/fs/cgroup{group}/memory.pressure"), PRESSURE);
        folder.write(&format!("sys/fs/cgroup{group}/memory.events"), "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n");
        let stat = "anon 4096\nshmem 0\nworkingset_refault_anon 0\nworkingset_refault_file 0\n";
        folder.write(&format!("sys/fs/cgroup{group}/memory.stat"), stat);
    }
    for (path, text) in [
        ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n"),
        ("proc/pressure/memory", PRESSURE),
        ("sys/kernel/mm/lru_gen/enabled", "0x0007\n"),
        ("proc/sys/kernel/random/boot_id", "b1\n"),
        ("sys/kernel/debug/lru_gen", listing.as_str()),
        ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
        ("isotherm.toml", config),
    ] {
        folder.write(path, text);
    }
    let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    let [config, root, audit, run, tape] = ["isotherm.toml", "", "actions.jsonl", "run", "daemon.tape"].map(path);
    let journal = folder.path("journal").to_str().unwrap().to_owned();
    let arguments = ["run", "--for", "8s", &config, "--root", &root, "--audit", &audit, "--journal", &journal];
    let ran = isotherm(&[&arguments[..], &["--run-dir", &run, "--tape", &tape], more].concat());
    assert!(ran.status.success(), "{}", said(&ran));
}

const PRESSURE: &str =
    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
const TWO: [&str; 2] = ["/shop.slice/checkout-1.service", "/shop.slice/payments.service"];

const CONFIG: &str = "\
[daemon]
protect = [\"/shop.slice/payments.service\"]

[[targets]]
name = \"shop\"
cgroup = \"/shop.slice/checkout-*.service\"

[[generations]]
name = \"secret\"
mode = \"reclaim\"
targets = [\"shop\", \"/shop.slice/payments.service\"]
threshold = \"2s\"
";

#[test]
fn a_scrubbed_tape_comes_to_the_same_decisions() {
    let folder = Folder::new();
    taped(&folder, CONFIG, &TWO, &["--dry-run"]);
    let tape = String::from_utf8(folder.scrubbed("daemon.tape", "tape2")).unwrap();
    holds_none(&tape);
    let played = |name: &str| {
        let output = isotherm(&["replay", folder.path(name).to_str().unwrap(), "--format", "json"]);
        assert!(output.status.success(), "{}", said(&output));
        output.stdout
    };
    assert_eq!(played("daemon.tape"), played("tape2"));
    let audit = String::from_utf8(folder.scrubbed("actions.jsonl", "audit2")).unwrap();
    holds_none(&audit);
    let before = fs::read_to_string(folder.path("actions.jsonl")).unwrap();
    let events = |text: &str| -> Vec<(String, String)> {
        let values = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        values.map(|line| (line["event"].to_string(), line["time"].to_string())).collect()
    };
    assert_eq!(events(&before), events(&audit));
    assert!(audit.contains("\"generations.section-1\"") && audit.contains("/group-"), "{audit}");
    // A second run gives the same bytes.
    assert_eq!(folder.scrubbed("actions.jsonl", "audit3"), audit.as_bytes());
    // A torn line is left out.
    fs::write(folder.path("torn"), &before[..before.trim_end().len() - 3]).unwrap();
    let torn = folder.scrub("torn", "torn2");
    assert!(torn.status.success() && said(&torn).contains("torn"), "{}", said(&torn));
    let lines = fs::read_to_string(folder.path("torn2")).unwrap().lines().count();
    assert_eq!(lines + 1, before.lines().count());
}

const LIMITS: &str = "\
[daemon]
protect = [\"/shop.slice/payments.service\"]

[[limits]]
name = \"secret\"
enable = true
target = \"/shop.slice/*\"
floor = \"1MiB\"
interval = \"1s\"
";

/// The journal names the limit of each group by the section and the group.
#[test]
fn a_scrubbed_tape_of_limits_comes_to_the_same_decisions() {
    let groups =
        [TWO[0], TWO[1], "/shop.slice/checkout-10.service", "/shop.slice/checkout \u{fc} \"x\"", "/shop.slice/a"];
    for (more, is_acting) in [(&[][..], true), (&["--dry-run"][..], false)] {
        let folder = Folder::new();
        taped(&folder, LIMITS, &groups, more);
        let before = fs::read_to_string(folder.path("daemon.tape")).unwrap();
        assert_eq!(
            before.contains("[\"set-often\",[\"limits.secret /shop.slice/checkout-1.service\","),
            is_acting,
            "{before}"
        );
        assert_eq!(before.contains("[\"put-back\",[\"limits.secret /shop.slice/a\","), is_acting, "{before}");
        assert!(
            before.contains("[\"full-stall-of\",\"/shop.slice/a\",") == is_acting && before.contains("memory.high")
        );
        let tape = String::from_utf8(folder.scrubbed("daemon.tape", "tape2")).unwrap();
        holds_none(&tape);
        assert!(!tape.contains("\u{fc}") && !tape.contains("/shop.slice/a\""), "{tape}");
        let played = |name: &str| {
            let output = isotherm(&["replay", folder.path(name).to_str().unwrap(), "--format", "json"]);
            assert!(output.status.success(), "{}", said(&output));
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
        };
        let (one, other) = (played("daemon.tape"), played("tape2"));
        assert_eq!(one, other);
        assert!(one["lines"].as_u64() > Some(8) && one["left"] == 0, "{one}");
        holds_none(&String::from_utf8(folder.scrubbed("actions.jsonl", "audit2")).unwrap());
    }
}

#[test]
fn what_it_cannot_scrub_is_refused_and_nothing_is_written() {
    let folder = Folder::new();
    let tape = "{\"isotherm-tape\":3,\"build\":\"x\",\"config\":{},\"length\":null}\n";
    for (name, text, words) in [
        ("empty", "", "is empty"),
        ("garbage", "garbage\n", "scrub takes page traces"),
        ("nul", "\0\0\0\0", "scrub takes page traces"),
        ("audit", "{\"event\":\"paused\",\"why\":\"x\"}\n[1]\n", "audit:2: a line of the audit"),
        ("half", "{\"event\":\"paused\",\"why\":\"x\"}\n{\"event\n", "half:2: it is no line of JSON"),
        ("tape", &format!("{tape}[\"now\",null]\n"), "tape:2: a line of a tape"),
        ("later", &tape.replace(":3,", ":9,"), "version 9"),
        ("wrong", &tape.replace("\"config\":{}", "\"config\":{\"x\":1}"), "unknown field"),
    ] {
        folder.write(name, text);
        let refused = folder.scrub(name, "out");
        assert!(!refused.status.success() && said(&refused).contains(words), "{name}: {}", said(&refused));
        assert!(!folder.path("out").exists(), "{name}");
    }
    let itself = folder.scrub("audit", "audit");
    assert!(itself.status.code() == Some(2) && said(&itself).contains("would be written over"), "{}", said(&itself));
    let nothing = folder.scrub("nowhere", "out");
    assert!(!nothing.status.success() && said(&nothing).contains("cannot read"), "{}", said(&nothing));
    let names: Vec<PathBuf> =
        fs::read_dir(folder.0.path()).unwrap().map(|entry| Path::new(&entry.unwrap().file_name()).to_owned()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{names:?}");
}
