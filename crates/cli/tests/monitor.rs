//! `isotherm monitor`, `isotherm report accuracy`, and region records through `import` and `export`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use isotherm_trace::region::{RegionStore, Snapshot};

fn isotherm(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.args(args).env_remove("COLUMNS").env("ISOTHERM_DATA", root).output().expect("it starts")
}

fn said(args: &[&str]) -> String {
    let output = isotherm(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&said(args)).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

fn trace(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.parquet"));
    path.to_str().unwrap().to_owned()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn path(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }
    /// Names of all files.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
    fn snapshots(&self, name: &str) -> Vec<Snapshot> {
        RegionStore::open(self.file(name)).unwrap().read_all().unwrap()
    }
}

#[test]
fn a_replay_is_recorded_and_shown() {
    let folder = Folder::new();
    let record = folder.path("r.parquet");
    // The replaced file was readable for all users; a record is private.
    std::fs::write(&record, "").unwrap();
    std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o644)).unwrap();
    let summary = json(&["monitor", &trace("sqlite"), "-o", &record, "--format", "json"]);
    assert_eq!(std::fs::metadata(&record).unwrap().permissions().mode() & 0o777, 0o600);
    let snapshots = folder.snapshots("r.parquet");
    assert_eq!(summary["snapshots"].as_u64(), Some(snapshots.len() as u64));
    let (checks, cpu_ns) = (summary["checks"].as_u64().unwrap(), summary["cpu_ns"].as_u64().unwrap());
    assert!(checks > 1000 && cpu_ns > 1000, "{summary}");
    assert_eq!(summary["levels"][0]["level"], 0);
    let store = RegionStore::open(&record).unwrap();
    let meta = store.meta();
    assert!(meta.complete && meta.command[0] == "sqlite3", "{meta:?}");
    assert_eq!((meta.targets[0].name.as_str(), meta.targets[0].pid.is_some()), ("sqlite3", true));
    assert_eq!(meta.contexts[0].operations, "vaddr");
    // The same ranges under the same names as in the heatmap of the trace.
    let map = json(&["report", "heatmap", &record, "--bands-of", &trace("sqlite"), "--format", "json"]);
    let labels: Vec<&str> =
        map["bands"].as_array().unwrap().iter().map(|band| band["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"heap") && labels.iter().any(|label| label.starts_with("libc")), "{labels:?}");
    assert!(map["rate_ppm"].as_array().unwrap().iter().any(|rate| rate.as_u64() > Some(0)));
    assert_eq!(folder.names(), ["r.parquet"], "nothing is left behind");
}

#[test]
fn the_same_seed_gives_the_same_record() {
    let folder = Folder::new();
    for (name, seed) in [("a.parquet", "7"), ("b.parquet", "7"), ("c.parquet", "8")] {
        said(&["monitor", &trace("python"), "-o", &folder.path(name), "--seed", seed]);
    }
    assert!(folder.snapshots("a.parquet") == folder.snapshots("b.parquet"));
    assert!(folder.snapshots("a.parquet") != folder.snapshots("c.parquet"));
}

#[test]
fn every_attribute_is_a_flag_and_damo_s_spellings_work() {
    let folder = Folder::new();
    let (ours, damo) = (folder.path("a.parquet"), folder.path("b.parquet"));
    let trace = trace("sqlite");
    let table: [(&[&str], &[&str]); 4] = [
        (
            &["--sample", "2ms", "--aggr", "40ms", "--update", "40ms"],
            &["--monitoring_intervals", "2ms", "40ms", "40ms"],
        ),
        (&["--min-regions", "20", "--max-regions", "50"], &["--monitoring_nr_regions_range", "20", "50"]),
        (&["--min-regions", "20", "--max-regions", "50"], &["--minr", "20", "--maxr", "50"]),
        (&["--intervals-goal", "4%", "3", "5ms", "10s"], &["--monitoring_intervals_goal", "4%", "3", "5ms", "10s"]),
    ];
    for (flags, spellings) in table {
        said(&[&["monitor", &trace, "-o", &ours][..], flags].concat());
        said(&[&["monitor", &trace, "-o", &damo][..], spellings].concat());
        assert!(folder.snapshots("a.parquet") == folder.snapshots("b.parquet"), "{flags:?}");
    }
    for flags in [
        &["--strategy", "ptp-descend", "--flush", "batched"][..],
        &["--strategy", "ptp", "--translation-caches"],
        &["--sampling", "batch", "--baseline", "6.6"],
        &["--ops", "fvaddr", "--ranges", "0x4000000000-0x4001000000,0x4002000000-0x4003000000"],
        &["--ops", "paddr"],
    ] {
        let summary = said(&[&["monitor", &trace, "-o", &ours][..], flags].concat());
        assert!(summary.contains("CPU time") && summary.contains("work by level"), "{flags:?}: {summary}");
        assert!(!folder.snapshots("a.parquet").is_empty(), "{flags:?}");
    }
}

#[test]
fn a_configuration_of_damo_is_taken() {
    let folder = Folder::new();
    let config = r#"{"kdamonds": [{"contexts": [{"ops": "vaddr", "targets": [],
        "intervals": {"sample_us": "2 ms", "aggr_us": "40 ms", "ops_update_us": "40 ms"},
        "nr_regions": {"min": 5, "max": 77},
        "schemes": [{"action": "stat"}]}]}]}"#;
    std::fs::write(folder.file("kdamonds.json"), config).unwrap();
    let (a, b) = (folder.path("a.parquet"), folder.path("b.parquet"));
    let args = ["monitor", &trace("sqlite"), "-o", &a, "--config", &folder.path("kdamonds.json")];
    let output = isotherm(&args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.contains("schemes are not applied"), "{message}");
    let flags = ["--sample", "2ms", "--aggr", "40ms", "--update", "40ms", "--min-regions", "5", "--max-regions", "77"];
    said(&[&["monitor", &trace("sqlite"), "-o", &b][..], &flags].concat());
    assert!(folder.snapshots("a.parquet") == folder.snapshots("b.parquet"));
    let meta = RegionStore::open(&a).unwrap().meta().clone();
    assert_eq!((meta.contexts[0].min_regions, meta.contexts[0].max_regions), (Some(5), Some(77)));
    // A flag takes precedence.
    said(&[&args[..], &["--max-regions", "60"]].concat());
    assert_eq!(RegionStore::open(&a).unwrap().meta().contexts[0].max_regions, Some(60));
}

#[test]
fn records_go_to_damo_and_back() {
    let folder = Folder::new();
    let own = folder.path("own.parquet");
    said(&["monitor", &trace("sqlite"), "-o", &own]);
    said(&["monitor", &trace("sqlite"), "-o", &folder.path("direct.json")]);
    said(&["export", &own, "-o", &folder.path("x"), "--to", "json"]);
    said(&["export", &own, "-o", &folder.path("x.json")]);
    let read = |name: &str| std::fs::read(folder.file(name)).unwrap();
    assert!(read("x") == read("x.json") && read("x") == read("direct.json"), "written at once as by way of our own");
    said(&["import", &folder.path("x.json"), "-o", &folder.path("back.parquet")]);
    let regions = |name: &str| {
        // damo's format has no levels.
        let all = folder.snapshots(name).into_iter().flat_map(|snapshot| snapshot.regions);
        all.map(|region| (region.start, region.end, region.nr_accesses, region.age)).collect::<Vec<_>>()
    };
    assert!(regions("back.parquet") == regions("own.parquet"));
    // damo's other formats are only imported: files that damo made from one record.
    let mut all = Vec::new();
    for (name, from) in [("record.json", "json"), ("record.data", "json_compressed"), ("record.txt", "perf_script")] {
        let theirs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/damo").join(name);
        let back = folder.path("back.parquet");
        let import = ["import", theirs.to_str().unwrap(), "-o", &back, "--from", from];
        said(&[&import[..], &["--sample", "5ms", "--aggr", "100ms"]].concat());
        all.push(regions("back.parquet"));
    }
    assert!(all[0].len() == 18 && all[1] == all[0] && all[2] == all[0]);
    assert!(!folder.names().iter().any(|name| name.ends_with(".part")));
}

#[test]
fn accuracy_is_told_for_every_definition() {
    let report = json(&["accuracy", &trace("python"), "--format", "json"]);
    let definitions = report["scores"]["definitions"].as_array().unwrap();
    let names: Vec<&str> = definitions.iter().map(|one| one["definition"].as_str().unwrap()).collect();
    for name in ["author", "strict", "recent", "stable", "score"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let recall = definitions[0]["accessed"]["recall"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&recall) && recall > 0.2, "{recall}");
    assert!(report["cpu_ns"].as_u64() > Some(0) && report["regions_mean"].as_f64() > Some(1.0));
    let text = said(&["accuracy", &trace("python")]);
    for word in
        ["author", "precision", "recall", "F1", "error of nr_accesses", "90/90 after", "checks a second", "CPU share"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    let csv = said(&["accuracy", &trace("python"), "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + names.len());
    assert!(csv.starts_with("hot_if,precision_ppm,recall_ppm,f1_ppm"), "{csv}");
}

#[test]
fn advice_names_the_cheapest_setting_that_is_good() {
    // Three seconds of requests to 40 of 400 pages: short, so that many settings are tried quickly.
    let folder = Folder::new();
    let page = |request: u32| 1000 + if request < 400 { request } else { request * 7 % 40 };
    let pages: String = (0..3000).map(|request| format!("{} w\n", page(request))).collect();
    std::fs::write(folder.file("pages.txt"), pages).unwrap();
    let hot = folder.path("hot.parquet");
    said(&["import", &folder.path("pages.txt"), "-o", &hot, "--time-per-request", "1ms"]);
    let run = |threads: &str| {
        said(&["accuracy", &hot, "--ops", "fvaddr", "--advise", "--threads", threads, "--format", "json"])
    };
    let text = run("2");
    assert!(text == run("1"), "the same on any number of threads");
    let search: serde_json::Value = serde_json::from_str(&text).unwrap();
    let tried = search["tried"].as_array().unwrap();
    assert!(tried.len() > 36);
    let share = |one: &serde_json::Value, what: &str| one["detection"][what].as_f64().unwrap();
    let cost = |one: &serde_json::Value| one["monitor"]["cpu_ns"].as_u64().unwrap();
    let good: Vec<_> =
        tried.iter().filter(|one| share(one, "precision") >= 0.9 && share(one, "recall") >= 0.9).map(cost).collect();
    let named = search["cheapest"].as_u64().map(|index| cost(&tried[usize::try_from(index).unwrap()]));
    assert!(named.is_some() && named == good.into_iter().min(), "{named:?}");
    let text = said(&["accuracy", &hot, "--ops", "fvaddr", "--advise"]);
    assert!(text.contains("Cheapest with 90 % precision and 90 % recall: "), "{text}");
}

/// A scenario with one mapping does not have three ranges to monitor; it works with given ranges, or with
/// those at its start.
#[test]
fn runs_of_scenarios_are_monitored() {
    let folder = Folder::new();
    let scenario = r#"
name = "small"
[[workloads]]
name = "app"
premapped = true
[workloads.load]
kind = "hot-cold"
footprint = "64MiB"
hot = "10%"
hot-pieces = 1
hot-accesses = "100%"
accesses-per-second = 1000000
duration = "4s"
"#;
    std::fs::write(folder.file("small.toml"), scenario).unwrap();
    let (toml, record) = (folder.path("small.toml"), folder.path("r.parquet"));
    for args in [&["monitor", &toml, "-o", &record][..], &["accuracy", &toml]] {
        let run = isotherm(args);
        let message = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{args:?}: {message}");
        let is_told = message.contains("mappings in 1 of the three separate places");
        assert_eq!(is_told, args[0] == "monitor", "{args:?}: {message}");
    }
    said(&["monitor", &toml, "-o", &record, "--ops", "fvaddr"]);
    let last = folder.snapshots("r.parquet").pop().unwrap();
    assert_eq!(last.total_len(), 64 << 20);
    let report = json(&["accuracy", &toml, "--ops", "fvaddr", "--format", "json"]);
    let stated = &report["scores"]["definitions"][0]["stated"];
    assert!(stated["precision"].as_f64() > Some(0.9) && stated["recall"].as_f64() > Some(0.9), "{stated}");
    assert!(report["scores"]["converge_ns"].as_u64() < Some(3_000_000_000));
}

#[test]
fn an_ending_that_no_record_has_is_refused() {
    let folder = Folder::new();
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/sqlite.parquet");
    for (name, more, words) in [
        ("r.data", &[trace][..], "allowed: .parquet, .json,"),
        ("r.json", &["--pid", "1"][..], "`isotherm convert export` makes .json"),
    ] {
        let run = isotherm(&[&["monitor", "-o", &folder.path(name)][..], more].concat());
        let message = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(2) && message.contains(words), "{name}: {message}");
        assert!(!folder.file(name).exists());
    }
}

#[test]
fn bad_settings_are_refused_before_anything_is_written() {
    let folder = Folder::new();
    let output = folder.path("r.parquet");
    std::fs::write(folder.file("bad.json"), r#"{"kdamonds": [{"contexts": [{"ops": "vaddr", "nr_regions": 5}]}]}"#)
        .unwrap();
    std::fs::write(folder.file("none.json"), r#"{"kdamonds": []}"#).unwrap();
    std::fs::write(folder.file("garbage"), [0, 159, 146, 150]).unwrap();
    let (bad, none, garbage) = (folder.path("bad.json"), folder.path("none.json"), folder.path("garbage"));
    let table: [(&[&str], i32, &str); 22] = [
        (&["--sample", "0ms"], 2, "sample-interval"),
        (&["--sample", "200ms"], 2, "aggr-interval"),
        (&["--aggr", "0ms"], 2, "aggr-interval"),
        (&["--min-regions", "2"], 2, "min-nr-regions"),
        (&["--min-regions", "50", "--max-regions", "20"], 2, "max-nr-regions"),
        (&["--ranges", "0x2000-0x1000"], 2, "not above its start"),
        (&["--ranges", "0x1000-0x1000"], 2, "not above its start"),
        (&["--ranges", "0x1000-0x3000,0x2000-0x4000"], 2, "overlap"),
        (&["--ranges", "everything"], 2, "START-END"),
        (&["--strategy", "guess"], 2, "ptp-aligned"),
        (&["--strategy", "ptp-descend", "--sampling", "batch"], 2, "allowed: spread"),
        (&["--min-region-size", "5000B"], 2, "power of two"),
        (&["--intervals-goal", "4%", "0", "5ms", "10s"], 2, "aggrs"),
        (&["--intervals-goal", "4%", "3", "10s", "5ms"], 2, "sample-interval"),
        (&["--monitoring_intervals", "5ms", "100ms"], 2, "3 values"),
        (&["--config", &bad], 2, "nr_regions"),
        (&["--config", &none], 2, "no context"),
        (&["--config", &garbage], 2, "UTF-8"),
        (&["--config", "no-such-file.json"], 1, "no-such-file.json"),
        (&["--process", "9"], 2, "allowed: 0 to 0"),
        (&["--variant", "x"], 2, "--variant is for scenarios"),
        (&["--aggr", "1m"], 1, "shorter --aggr"),
    ];
    let sqlite = trace("sqlite");
    for (flags, code, words) in table {
        let args = [&["monitor", &sqlite, "-o", &output][..], flags].concat();
        let run = isotherm(&args);
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{flags:?}: {message}");
        assert!(message.contains(words), "{flags:?}: {message}");
        assert!(run.stdout.is_empty() && !folder.file("r.parquet").exists(), "{flags:?}");
    }
    for (args, code, words) in [
        (&["accuracy", &trace("sqlite"), "--ops", "paddr"][..], 2, "--ops vaddr"),
        (&["accuracy", &trace("sqlite"), "--period", "0ms"], 2, "above 0"),
        (&["accuracy", &trace("sqlite"), "--period", "1h"], 1, "shorter --period"),
        (&["monitor", "no-such-scenario", "-o", &output], 1, "no-such-scenario"),
        (&["monitor", "policies", "-o", &output, "--workload", "nobody"], 2, "nobody"),
        (&["monitor", &trace("sqlite"), "-o", "no-such-folder/r.parquet"], 1, "no-such-folder"),
        (&["export", &trace("sqlite"), "-o", &output, "--to", "json"], 2, "isotherm monitor"),
        (&["import", &garbage, "-o", &output, "--sample", "5ms", "--aggr", "1s"], 2, "--sample is for region records"),
    ] {
        let run = isotherm(args);
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains(words) && run.stdout.is_empty(), "{args:?}: {message}");
        assert!(!folder.file("r.parquet").exists(), "{args:?}");
    }
}
