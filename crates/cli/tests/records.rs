//! `isotherm report` on region records: every view, every storage format, and requests that a record cannot answer.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use isotherm_trace::region::{Intervals, RecordFormat, RecordMeta, Region, RegionStore, RegionWriter, Snapshot};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
const HEAP: u64 = 0x5555_5575_0000;
const STACK: u64 = 0x7fff_fffd_e000;

fn isotherm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isotherm")).args(args).env_remove("COLUMNS").output().expect("it starts")
}

fn said(args: &[&str]) -> String {
    let output = isotherm(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&said(args)).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

/// Exit code and error text.
fn refused(args: &[&str]) -> (i32, String) {
    let output = isotherm(args);
    assert!(output.stdout.is_empty(), "{args:?} printed {}", String::from_utf8_lossy(&output.stdout));
    (output.status.code().expect("it ended by itself"), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A heap of 16 MiB: 4 MiB are always in use, and the next 4 MiB in the first second. A stack of 64 KiB is in use half of
/// the time; 20 snapshots of 100 ms, 20 checks each. Ages count up from 0.
fn snapshots() -> Vec<Snapshot> {
    let of = |number: u32| {
        let early = number < 10;
        let region = |start, bytes, nr_accesses, age| Region {
            start,
            end: start + bytes,
            nr_accesses,
            age: Some(age),
            ..Region::default()
        };
        Snapshot {
            time_ns: u64::from(number + 1) * 100 * MS,
            duration_ns: Some(100 * MS),
            intervals: Intervals::new(5 * MS, 100 * MS, 1000 * MS),
            regions: vec![
                region(HEAP, 4 * MIB, 20, number),
                region(HEAP + 4 * MIB, 4 * MIB, if early { 10 } else { 0 }, number % 10),
                region(HEAP + 8 * MIB, 4 * MIB, 0, number),
                region(HEAP + 12 * MIB, 4 * MIB, 0, number),
                region(STACK, 64 << 10, 10, number),
            ],
            ..Snapshot::default()
        }
    };
    (0..20).map(of).collect()
}

/// A folder with a record in the file `name`.
struct Stored {
    folder: tempfile::TempDir,
    name: &'static str,
}

impl Stored {
    /// Stores `snapshots`, after `change`.
    fn new(change: impl Fn(&mut Snapshot)) -> Self {
        let stored = Self { folder: tempfile::tempdir().unwrap(), name: "r.parquet" };
        let mut meta = RecordMeta::single("vaddr", "app");
        meta.contexts[0].intervals = Intervals::new(5 * MS, 100 * MS, 1000 * MS);
        meta.command = vec!["app".into(), "--fast".into()];
        meta.complete = true;
        let mut writer = RegionWriter::create_finished(stored.file(), meta).unwrap();
        for mut snapshot in snapshots() {
            change(&mut snapshot);
            writer.push(&snapshot).unwrap();
        }
        writer.finish().unwrap();
        stored
    }

    fn plain() -> Self {
        Self::new(|_| {})
    }

    /// The plain record and its JSON; and a record that damo made, in the formats that are only imported.
    fn in_every_form() -> [Self; 4] {
        let json = Self { name: "r.json", ..Self::plain() };
        let own = json.folder.path().join("r.parquet");
        RegionStore::open(own).unwrap().write(json.file(), RecordFormat::Json).unwrap();
        let theirs = |name| {
            let stored = Self { folder: tempfile::tempdir().unwrap(), name };
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/damo");
            std::fs::copy(data.join(name), stored.file()).unwrap();
            stored
        };
        [Self::plain(), json, theirs("record.data"), theirs("record.txt")]
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    fn path(&self) -> String {
        self.file().to_str().unwrap().to_owned()
    }
}

const VIEWS: [&str; 6] = ["heatmap", "wss", "hot", "idle", "access", "info"];

#[test]
fn every_view_of_every_form_in_every_format() {
    for record in Stored::in_every_form() {
        let (name, path) = (record.name, record.path());
        for view in VIEWS {
            let intervals: &[&str] = if name == "record.txt" { &["--sample", "5ms", "--aggr", "100ms"] } else { &[] };
            let with = |more: &[&'static str]| {
                let mut args = vec!["report", view, &path];
                args.extend(intervals);
                args.extend(more);
                args.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
            };
            let run = |more: &[&'static str]| said(&with(more).iter().map(String::as_str).collect::<Vec<_>>());
            let text = run(&[]);
            assert!(text.lines().count() > 4 && !text.contains('\u{1b}'), "{view} {name}: {text}");
            // One document for each target shown.
            let json = run(&["--format", "json"]);
            let documents = serde_json::Deserializer::from_str(&json).into_iter::<serde_json::Value>();
            let are_objects: Vec<bool> = documents.map(|document| document.expect(view).is_object()).collect();
            assert!(!are_objects.is_empty() && !are_objects.contains(&false), "{view} {name}");
            let csv = run(&["--format", "csv"]);
            let columns = csv.lines().next().expect("a header").split(',').count();
            let all = csv.lines().all(|line| line.split(',').count() == columns);
            assert!(columns >= 4 && csv.lines().count() > 1 && all, "{view} {name}: {csv}");
        }
    }
}

#[test]
fn the_heatmap_has_the_rates_where_and_when_they_were() {
    let record = Stored::plain();
    let args = ["report", "heatmap", &record.path(), "--format", "json", "--width", "20", "--height", "40"];
    let map = json(&args);
    assert_eq!((map["columns"].as_u64(), map["end_ns"].as_u64()), (Some(20), Some(2000 * MS)));
    let bands = map["bands"].as_array().unwrap();
    let places: Vec<(u64, u64)> =
        bands.iter().map(|band| (band["start"].as_u64().unwrap(), band["end"].as_u64().unwrap())).collect();
    assert_eq!(places, [(HEAP, HEAP + 8 * MIB), (STACK, STACK + (64 << 10))], "what is never used is folded away");
    let rates: Vec<u64> = map["rate_ppm"].as_array().unwrap().iter().map(|rate| rate.as_u64().unwrap()).collect();
    let rows = usize::try_from(bands[0]["rows"].as_u64().unwrap()).unwrap();
    let at = |row: usize, column: usize| rates[row * 20 + column];
    assert_eq!((at(0, 0), at(0, 19)), (1_000_000, 1_000_000), "always in use");
    assert_eq!((at(rows - 1, 0), at(rows - 1, 9), at(rows - 1, 10)), (500_000, 500_000, 0), "in the first second");
    assert_eq!(at(rows, 3), 500_000, "the stack");
    let all = json(&[&args[..], &["--all"]].concat());
    assert_eq!(all["bands"][0]["end"], HEAP + 16 * MIB);
    let late = json(&[&args[..], &["--from", "1s"]].concat());
    assert_eq!((late["start_ns"].as_u64(), late["columns"].as_u64()), (Some(1000 * MS), Some(10)));
    assert_eq!(late["bands"][0]["end"], HEAP + 4 * MIB, "only what is busy then");
}

#[test]
fn a_legend_says_what_colours_mean() {
    let record = Stored::plain();
    let text = said(&["report", "heatmap", &record.path()]);
    assert!(text.contains("% of checks found an access") && text.contains("not found accessed"), "{text}");
    assert!(text.contains("app --fast (monitored, checks every 5 ms, counted over 100 ms)"), "{text}");
    assert!(said(&["report", "heatmap", &record.path(), "--color", "always"]).contains('▀'));
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.parquet");
    assert!(said(&["report", "heatmap", trace.to_str().unwrap()]).contains("touches per page and second"));
}

#[test]
fn pictures_are_written() {
    let record = Stored::plain();
    let path = |name: &str| record.folder.path().join(name).to_str().unwrap().to_owned();
    for view in ["heatmap", "wss", "idle"] {
        let (svg, html) = (path("x.svg"), path("x.html"));
        let args = ["report", view, &record.path(), "--svg", &svg, "--html", &html, "--width", "640"];
        assert_eq!(said(&args), "");
        assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg xmlns="), "{view}");
        assert!(std::fs::read_to_string(html).unwrap().contains("app --fast"), "{view}");
    }
}

#[test]
fn working_sets_by_hand() {
    let record = Stored::plain();
    let wss = |more: &[&str]| json(&[&["report", "wss", &record.path(), "--format", "json"], more].concat());
    let sizes = |document: &serde_json::Value| -> Vec<u64> {
        document["points"].as_array().unwrap().iter().map(|point| point["bytes"].as_u64().unwrap()).collect()
    };
    let stack = 64 << 10;
    assert_eq!(sizes(&wss(&[])), [vec![8 * MIB + stack; 10], vec![4 * MIB + stack; 10]].concat());
    assert_eq!(sizes(&wss(&["--min-accesses", "11"])), vec![4 * MIB; 20]);
    assert_eq!(sizes(&wss(&["--skip", "15"])).len(), 5);
    let percentiles = wss(&[])["percentiles"].clone();
    // The sizes, out of 20, at index 0 × 20, 0.5 × 20 and the last one, as damo counts.
    let at = |percent: u64| {
        let found = percentiles.as_array().unwrap().iter().find(|one| one["percent"] == percent).cloned();
        found.unwrap()["bytes"].as_u64().unwrap()
    };
    assert_eq!((at(0), at(50), at(100)), (4 * MIB + stack, 8 * MIB + stack, 8 * MIB + stack));
}

#[test]
fn the_hottest_and_the_coldest_by_hand() {
    let record = Stored::plain();
    let hot = json(&["report", "hot", &record.path(), "--format", "json"]);
    let areas = hot["moments"][0]["areas"].as_array().unwrap();
    let found: Vec<(u64, u64, u64)> = (areas.iter())
        .map(|area| {
            (area["start"].as_u64().unwrap(), area["nr_accesses"].as_u64().unwrap(), area["age_ns"].as_u64().unwrap())
        })
        .collect();
    // 100 % + 1.9 s, 50 % + 1.9 s, −0.9 s, and two adjacent ones at −1.9 s that count as one.
    let expected =
        [(HEAP, 20, 1900 * MS), (STACK, 10, 1900 * MS), (HEAP + 4 * MIB, 0, 900 * MS), (HEAP + 8 * MIB, 0, 1900 * MS)];
    assert_eq!(found, expected);
    let text = said(&["report", "hot", &record.path(), "--at", "500ms"]);
    assert!(
        text.contains("hottest ranges of app at 500 ms") && text.contains("coldest ranges of app at 500 ms"),
        "{text}"
    );
}

#[test]
fn idle_memory_by_hand() {
    let record = Stored::plain();
    let idle = json(&["report", "idle", &record.path(), "--format", "json"]);
    assert_eq!(idle["in_use_bytes"], 4 * MIB + (64 << 10));
    // From 500 ms on: the 4 MiB left 0.9 s ago; from 1 s on: the 8 MiB that never were in use.
    assert_eq!((idle["idle_bytes"][3].as_u64(), idle["idle_bytes"][4].as_u64()), (Some(4 * MIB), Some(8 * MIB)));
    let mean = json(&["report", "idle", &record.path(), "--format", "json", "--at", "all"]);
    assert_eq!((mean["snapshots"].as_u64(), mean["in_use_bytes"].as_u64()), (Some(20), Some(6 * MIB + (64 << 10))));
}

#[test]
fn regions_are_listed_in_the_order_asked_for() {
    let record = Stored::plain();
    let starts = |more: &[&str]| -> Vec<String> {
        let csv = said(&[&["report", "access", &record.path(), "--format", "csv"], more].concat());
        csv.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().to_owned()).collect()
    };
    assert_eq!(starts(&[])[0], HEAP.to_string());
    assert_eq!(starts(&["--reverse"])[0], STACK.to_string());
    assert_eq!(starts(&["--sort", "size"])[4], STACK.to_string());
    assert_eq!(starts(&["--sort", "temperature", "--limit", "2"]), [HEAP.to_string(), STACK.to_string()]);
    assert_eq!(starts(&["--at", "all"]).len(), 100);
    assert_eq!(starts(&["--at", "1s", "--sort", "age"])[4], STACK.to_string(), "equal ages stay in order of addresses");
    let lines = said(&["report", "access", &record.path(), "--at", "all", "--format", "json"]);
    assert_eq!(lines.lines().count(), 20);
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[test]
fn what_a_record_cannot_support_is_refused() {
    let no_intervals = Stored::new(|snapshot| snapshot.intervals = Intervals::default());
    let path = no_intervals.path();
    for view in ["heatmap", "hot", "idle"] {
        let (code, message) = refused(&["report", view, &path]);
        assert!(code == 1 && message.contains("--sample and --aggr"), "{view}: {message}");
    }
    assert!(refused(&["report", "access", &path, "--sort", "temperature"]).1.contains("--sample"));
    for view in ["wss", "access", "info"] {
        assert!(said(&["report", view, &path]).lines().count() > 3, "{view} needs no intervals");
    }
    let no_ages = Stored::new(|snapshot| {
        snapshot.regions.iter_mut().for_each(|region| region.age = None);
    });
    let path = no_ages.path();
    for args in
        [&["report", "hot", &path][..], &["report", "idle", &path], &["report", "access", &path, "--sort", "age"]]
    {
        let (code, message) = refused(args);
        assert!(code == 1 && message.contains("no ages"), "{args:?}: {message}");
    }
    for view in ["heatmap", "wss", "access", "info"] {
        assert!(said(&["report", view, &path]).lines().count() > 3, "{view} needs no ages");
    }
    assert!(said(&["report", "access", &path]).contains('–'), "an age that is missing is shown as missing");
}

#[test]
fn bad_questions_are_refused_with_a_way_out() {
    let record = Stored::plain();
    let path = record.path();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.parquet");
    let trace = trace.to_str().unwrap();
    let table: [(&[&str], i32, &str); 12] = [
        (&["report", "mrc", &path], 2, "order of accesses"),
        (&["report", "idle", trace, "--at", "1h"], 2, "allowed: from 0 to"),
        (&["report", "access", trace], 2, "isotherm monitor"),
        (&["report", "wss", trace, "--target", "0"], 2, "--target is for region records"),
        (&["report", "hot", trace, "--at", "1s"], 2, "--at is for region records"),
        (&["report", "wss", &path, "--window", "1s"], 2, "aggregations"),
        (&["report", "wss", &path, "--from", "2s", "--to", "1s"], 2, "not before --to"),
        (&["report", "wss", &path, "--from", "1h"], 1, "from 0 to 2 s"),
        (&["report", "wss", &path, "--skip", "20"], 2, "all of the 20 snapshots"),
        (&["report", "info", &path, "--target", "nobody"], 2, "0 (app)"),
        (&["report", "hot", &path, "--at", "1ms"], 1, "nothing had been recorded at 1 ms"),
        (&["report", "hot", &path, "--at", "noon"], 2, "`last`, `all`"),
    ];
    for (args, code, words) in table {
        let (found, message) = refused(args);
        assert_eq!(found, code, "{args:?}: {message}");
        assert!(message.contains(words), "{args:?}: {message}");
    }
}

#[test]
fn a_record_without_snapshots_or_regions_is_no_crash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.parquet");
    RegionWriter::create_finished(&path, RecordMeta::single("vaddr", "app")).unwrap().finish().unwrap();
    for view in VIEWS {
        let (code, message) = refused(&["report", view, path.to_str().unwrap()]);
        assert!(code == 1 && message.contains("holds no snapshots"), "{view}: {message}");
    }
    let bare = Stored::new(|snapshot| snapshot.regions.clear());
    for view in VIEWS {
        assert!(!said(&["report", view, &bare.path()]).is_empty(), "{view}");
    }
}

/// Cut at many offsets, in every format: an error or a result, never a crash.
#[test]
fn torn_records_end_well() {
    for record in Stored::in_every_form() {
        let name = record.name;
        let bytes = std::fs::read(record.file()).unwrap();
        for part in 1..6 {
            std::fs::write(record.file(), &bytes[..bytes.len() * part / 6]).unwrap();
            let output = isotherm(&["report", "info", &record.path()]);
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 1)), "{name} {part}/6: {message}");
            assert!(!message.contains("panicked"), "{name} {part}/6: {message}");
            assert!(output.status.success() || message.contains(name), "{name} {part}/6: {message}");
        }
    }
}
