//! `isotherm convert`, and windows of `isotherm report`, on a bundled recording and on region records.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn recording() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.parquet").to_str().expect("UTF-8").to_owned()
}

fn isotherm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isotherm")).args(args).env_remove("COLUMNS").output().expect("it starts")
}

/// Standard output and standard error of a successful run.
fn said(args: &[&str]) -> (String, String) {
    let output = isotherm(args);
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{args:?}: {stderr}");
    (String::from_utf8(output.stdout).expect("UTF-8"), stderr)
}

fn refused(args: &[&str]) -> (Option<i32>, String) {
    let output = isotherm(args);
    assert!(output.stdout.is_empty(), "{args:?} printed {}", String::from_utf8_lossy(&output.stdout));
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }
}

/// All reports of a file as JSON, without the file's own length.
fn reports(file: &str, part: &[&str]) -> Vec<serde_json::Value> {
    let report = |kind: &str| {
        let mut args = vec!["report", kind, file, "--format", "json"];
        args.extend(part);
        let mut json: serde_json::Value = serde_json::from_str(&said(&args).0).expect(kind);
        for key in ["file_bytes", "milli_bytes_per_access"] {
            json.as_object_mut().expect("an object").remove(key);
        }
        json
    };
    ["info", "wss", "mrc", "hot", "heatmap"].map(report).into()
}

#[test]
fn a_report_of_a_window_is_that_of_the_cut() {
    let folder = Folder::new();
    let (trace, cut, filtered) = (recording(), folder.path("cut.parquet"), folder.path("filtered.parquet"));
    let window = ["--from", "500ms", "--to", "50%"];
    let (stdout, stderr) = said(&[&["trace", "cut", &trace, "-o", &cut][..], &window].concat());
    assert!(
        stdout.is_empty() && stderr.contains("page accesses") && stderr.contains("cut to trace time 500ms to"),
        "{stderr}"
    );
    assert_eq!(reports(&trace, &window), reports(&cut, &[]));
    let duration = reports(&cut, &[])[0]["duration_ns"].as_u64().expect("a number");
    let whole = reports(&trace, &[])[0]["duration_ns"].as_u64().expect("a number");
    assert_eq!(duration, whole / 2 - 500_000_000, "as long as the window");

    let (_, stderr) = said(&["trace", "filter", &cut, "--mapping", "orders.db", "--mapping", "heap", "-o", &filtered]);
    assert!(stderr.contains("filtered to mapping orders.db or heap"), "{stderr}");
    let places = ["--mapping", "heap", "--mapping", "orders.db"];
    let (of_cut, of_filtered) = (reports(&cut, &places), reports(&filtered, &[]));
    assert_eq!(of_cut[1..], of_filtered[1..]);
    assert_eq!(of_cut[0]["accesses"], of_filtered[0]["accesses"]);
    assert_eq!(of_filtered[0]["duration_ns"].as_u64(), Some(duration), "rows are dropped, time is not");
    let mappings = of_filtered[3]["mappings"].as_array().expect("a list");
    let labels: std::collections::BTreeSet<_> = mappings.iter().filter_map(|one| one["label"].as_str()).collect();
    assert_eq!(labels, ["file orders.db", "heap"].into());
}

#[test]
fn ranges_are_addresses() {
    let folder = Folder::new();
    let (trace, out) = (recording(), folder.path("range.parquet"));
    let hot = &reports(&trace, &[])[3]["ranges"][0];
    let bytes = |key: &str| hot[key].as_u64().expect("a page") * 4096;
    let range = format!("{:#x}-{:#x}", bytes("start"), bytes("end"));
    said(&["trace", "filter", &trace, "--range", &range, "-o", &out]);
    let found = &reports(&out, &[])[3];
    assert_eq!(found["accesses"], hot["accesses"]);
    let page = |range: &serde_json::Value, key: &str| range[key].as_u64().expect("a page");
    let inside = |range| page(range, "start") >= page(hot, "start") && page(range, "end") <= page(hot, "end");
    assert!(found["ranges"].as_array().expect("a list").iter().all(inside), "{found}");
    assert_eq!(&reports(&trace, &["--range", &range])[3], found);
}

#[test]
fn the_input_is_never_the_output() {
    let folder = Folder::new();
    let path = folder.path("t.parquet");
    std::fs::copy(recording(), &path).expect("a copy");
    for arguments in [
        &["trace", "cut", &path, "--to", "100ms", "-o", &path][..],
        &["trace", "filter", &path, "--mapping", "stack", "-o", &path],
        &["export", &path, "-o", &path],
        &["monitor", &path, "-o", &path],
        &["report", "heatmap", &path, "--html", &path],
        &["advise", &path, "--config", &path],
        &["scrub", &path, "-o", &path],
    ] {
        let (code, said) = refused(arguments);
        assert!(code == Some(2) && said.contains("would be written over"), "{arguments:?}: {said}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(recording()).unwrap());
}

#[test]
fn a_merge_holds_what_each_has() {
    let folder = Folder::new();
    let (trace, a, b) = (recording(), folder.path("a.parquet"), folder.path("b.parquet"));
    let (both, back) = (folder.path("both.parquet"), folder.path("back.parquet"));
    said(&["trace", "cut", &trace, "--to", "200ms", "-o", &a]);
    said(&["trace", "cut", &trace, "--from", "1s", "--to", "1.3s", "-o", &b]);
    let (_, stderr) = said(&["trace", "merge", &a, &b, "-o", &both]);
    assert!(stderr.contains("process 1 is merged from b.parquet (sqlite3"), "{stderr}");
    said(&["trace", "filter", &both, "--process", "1", "-o", &back]);
    let of = |file: &str| {
        let all = reports(file, &[]);
        let part = |index: usize, key: &str| all[index][key].clone();
        (part(0, "accesses"), part(0, "touched_pages"), part(0, "duration_ns"), part(1, "windows"), part(2, "points"))
    };
    assert_eq!(of(&back), of(&b));
}

/// Ten snapshots of 100 ms each, of two targets.
fn record(path: &str) {
    use isotherm_trace::region::{Intervals, RecordMeta, Region, RegionWriter, Snapshot, TargetMeta};
    const MS: u64 = 1_000_000;
    let mut meta = RecordMeta::single("vaddr", "redis");
    meta.targets.push(TargetMeta { id: Some(1), name: "sh".to_owned(), ..TargetMeta::default() });
    let mut writer = RegionWriter::create_finished(PathBuf::from(path), meta).expect("a record");
    for number in 1..=10 {
        for target in [0, 1] {
            let region = Region { start: 1 << 20, end: 3 << 20, nr_accesses: 4, age: Some(1), ..Region::default() };
            let snapshot = Snapshot {
                target,
                time_ns: number * 100 * MS,
                duration_ns: Some(100 * MS),
                intervals: Intervals::new(5 * MS, 100 * MS, 1000 * MS),
                regions: vec![region],
                ..Snapshot::default()
            };
            writer.push(&snapshot).expect("a snapshot");
        }
    }
    writer.finish().expect("a record");
}

/// Recordings made inside QEMU stay readable, although that engine no longer exists: the bundled recordings come from it.
#[test]
fn recordings_of_an_engine_that_is_gone_are_described_as_ever() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/gcc.parquet");
    let (text, _) = said(&["report", "info", recording, "--format", "json"]);
    let info: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&info["recorder"], &info["rows"]), (&"qemu-user plugin".into(), &737_549.into()));
    let (text, _) = said(&["report", "info", recording]);
    assert!(text.contains("qemu-user plugin"), "{text}");
}

#[test]
fn records_are_cut_filtered_and_merged() {
    let folder = Folder::new();
    let (r, cut, json) = (folder.path("r.parquet"), folder.path("cut.parquet"), folder.path("r.json"));
    record(&r);
    let count = |file: &str, part: &[&str]| {
        let (text, _) = said(&[&["report", "info", file, "--format", "json"][..], part].concat());
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        json["snapshots"].as_u64().expect("a number")
    };
    let (_, stderr) = said(&["trace", "cut", &r, "--from", "30%", "--to", "500ms", "-o", &cut]);
    assert!(stderr.contains("4 snapshots, 4 regions"), "{stderr}");
    assert_eq!((count(&cut, &[]), count(&r, &["--from", "300ms", "--to", "50%"])), (4, 4));
    said(&["export", &r, "-o", &json]);
    let (_, stderr) = said(&["trace", "filter", &json, "--target", "1", "--range", "2MiB-1GiB", "-o", &cut]);
    assert!(stderr.contains("10 snapshots, 10 regions") && stderr.contains("filtered to range 0x200000"), "{stderr}");
    let (_, stderr) = said(&["trace", "merge", &r, &json, "-o", &cut]);
    assert!(stderr.contains("40 snapshots, 40 regions"), "{stderr}");
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::new();
    let (trace, r, out) = (recording(), folder.path("r.parquet"), folder.path("out.parquet"));
    record(&r);
    let csv = folder.path("out.csv");
    let table: [(&[&str], i32, &str); 19] = [
        (&["trace", "cut", &trace, "-o", &out], 2, "--from, --to"),
        (&["trace", "cut", &trace, "--from", "500s", "-o", &out], 1, "nothing is left"),
        (&["trace", "cut", &trace, "--from", "2s", "--to", "1s", "-o", &out], 2, "not before --to"),
        (&["trace", "cut", &trace, "--from", "101%", "-o", &out], 2, "100 %"),
        (&["trace", "cut", &trace, "--from", "5", "-o", &out], 2, "25%"),
        (&["trace", "cut", &trace, "--from", "1s", "-o", &csv], 2, "isotherm convert export"),
        (&["trace", "cut", &trace, "--from", "1s", "--aggr", "1s", "-o", &out], 2, "--aggr is for region records"),
        (&["trace", "cut", "no-such-file", "--from", "1s", "-o", &out], 1, "no-such-file"),
        (&["trace", "filter", &trace, "-o", &out], 2, "nothing to filter by"),
        (&["trace", "filter", &trace, "--process", "nginx", "-o", &out], 2, "no process `nginx`; the trace has 0"),
        (&["trace", "filter", &trace, "--range", "5-6", "-o", &out], 2, "no address"),
        (&["trace", "filter", &trace, "--target", "0", "-o", &out], 2, "--target is for region records"),
        (&["trace", "filter", &r, "--mapping", "heap", "-o", &out], 2, "--mapping is for page traces"),
        (&["trace", "merge", &trace, "-o", &out], 2, "2 values required"),
        (&["trace", "merge", &trace, &r, "-o", &out], 2, "merge one kind only"),
        (&["report", "wss", &r, "--mapping", "heap"], 2, "--mapping is for page traces"),
        (&["report", "wss", &trace, "--target", "0"], 2, "--target is for region records"),
        (&["report", "mrc", &trace, "--sample", "1/3"], 2, "1/2, 1/4, 1/8"),
        (&["report", "heatmap", &trace, "--from", "500s"], 1, "nothing is left"),
    ];
    for (args, code, words) in table {
        let (found, message) = refused(args);
        assert!(found == Some(code) && message.contains(words), "{args:?}: {found:?} {message}");
    }
    assert_eq!(std::fs::read_dir(folder.0.path()).expect("a folder").count(), 1, "nothing is left of what failed");
}
