//! Differential test with damo itself (3.4, PyPI): files of damo are read here as damo reads them, and damo reads files written here,
//! down to `damo report wss` and `damo report heatmap`.
//!
//! damo needs no kernel with DAMON for files. So `tests/differential/damo_records.py` makes records from synthetic results with damo's
//! own classes and its own writer; everything except the numbers is damo's. Two steps do not use damo's command line: plain `json` goes
//! through damo's reader as a function, because damo 3.4 recognises it by the words `JSON data` of the `file` command, and newer versions
//! of that say `JSON text data`; and `kdamonds` go through its classes, because its commands for them read from the kernel. If damo is
//! not installed (`scripts/install-test-needs`), stored files of damo (`tests/data/damo`) are used, and the rest is skipped.

#![expect(clippy::print_stderr, reason = "a skipped comparison says so")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use isotherm_trace::region::kdamonds::{read_kdamonds, write_kdamonds};
use isotherm_trace::region::{
    Intervals, OpenOptions, RecordFormat, RecordMeta, Region, RegionStore, RegionWriter, Snapshot, TargetMeta,
};

const INTERVALS: Intervals = Intervals::new(5_000_000, 100_000_000, 1_000_000_000);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn python() -> PathBuf {
    root().join("target/test-needs/bin/python")
}

/// Whether damo is installed; prints a message if not.
fn has_damo() -> bool {
    let imports = "import importlib.metadata as m; assert m.version('damo').startswith('3.4')";
    let works = Command::new(python()).args(["-c", imports]).output().is_ok_and(|output| output.status.success());
    let works = works && Command::new("file").arg("--version").output().is_ok();
    if !works {
        let required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|value| value == "1");
        assert!(!required, "damo 3.4 or the file command is missing; run scripts/install-test-needs");
        eprintln!("skipped: damo is not installed (scripts/install-test-needs); its checked-in files stand in");
    }
    works
}

fn succeed(output: Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn script(verb: &str, argument: &Path) -> String {
    let script = root().join("tests/differential/damo_records.py");
    succeed(Command::new(python()).arg(script).arg(verb).arg(argument).output().unwrap())
}

fn damo(folder: &Path, arguments: &[&str]) -> String {
    let damo = python().with_file_name("damo");
    succeed(Command::new(python()).arg(damo).args(arguments).current_dir(folder).env("HOME", folder).output().unwrap())
}

/// Contents of a file, in the format of the script's `dump`: target after target.
fn dump(path: &Path) -> String {
    let has_intervals = !matches!(RegionStore::open(path).unwrap().form().name(), "perf_script");
    let mut store = RegionStore::open_with(path, OpenOptions { intervals: INTERVALS }).unwrap();
    let all = store.read_all().unwrap();
    let mut text = String::new();
    for (index, target) in store.meta().targets.iter().enumerate() {
        let context = &store.meta().contexts[target.context];
        if has_intervals {
            let Intervals { sample_ns, aggregation_ns, update_ns } = context.intervals;
            let known = |time: Option<u64>| time.unwrap();
            writeln!(text, "intervals {} {} {}", known(sample_ns), known(aggregation_ns), known(update_ns)).unwrap();
        }
        for snapshot in all.iter().filter(|snapshot| snapshot.target as usize == index) {
            let (start, end) = (snapshot.start_ns(), snapshot.time_ns);
            writeln!(text, "snapshot {} {} {start} {end}", context.kdamond, target.id.unwrap()).unwrap();
            for region in &snapshot.regions {
                let Region { start, end, nr_accesses, age, .. } = region;
                let age = age.map_or("None".to_owned(), |age| age.to_string());
                writeln!(text, "region {start} {end} {nr_accesses} {age}").unwrap();
            }
        }
    }
    text
}

/// A record in our format: two targets, some snapshots, tuning, unknown ages, numbers of every size.
fn our_record(path: &Path, with_ages: bool, snapshots: u64) {
    let mut meta = RecordMeta::single("vaddr", "app");
    meta.contexts[0].intervals = INTERVALS;
    meta.targets.push(TargetMeta { id: Some(1), name: "other".into(), ..TargetMeta::default() });
    let mut writer = RegionWriter::create(path, meta).unwrap();
    for index in 0..snapshots {
        for target in 0..2 {
            let region = |number: u64| Region {
                start: 0x5555_0000_0000 + number * (1 << 21),
                end: 0x5555_0000_0000 + (number + 1) * (1 << 21) - 4096 * (index % 3),
                nr_accesses: u32::try_from((number * 3 + index) % 21).unwrap(),
                age: with_ages.then(|| u32::try_from(number * 1000 + index).unwrap()),
                probe_hits: [u32::from(number == 3), 0, 0, 0],
                filter_passed_bytes: number * 12_345,
                ..Region::default()
            };
            writer
                .push(&Snapshot {
                    target,
                    time_ns: 1_748_191_726_000_000_000 + (index + 1) * 100_000_000,
                    duration_ns: Some(100_000_000),
                    intervals: if index == 2 {
                        Intervals::new(7_500_000, 150_000_000, 1_000_000_000)
                    } else {
                        INTERVALS
                    },
                    regions: (0..20).map(region).collect(),
                    ..Snapshot::default()
                })
                .unwrap();
        }
    }
    writer.finish().unwrap();
}

#[test]
fn what_damo_writes_is_read_as_damo_reads_it() {
    if !has_damo() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    script("make", folder.path());
    let checked_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/damo");
    let kept = [("json", "record.json"), ("json_compressed", "record.data"), ("perf_script", "record.txt")];
    for (format, kept) in kept {
        let path = folder.path().join(format);
        let ours = dump(&path);
        assert_eq!(ours, script("dump", &path), "{format}");
        assert_eq!(ours, dump(&checked_in.join(kept)), "{format}: make the checked-in files anew");
    }
}

#[test]
fn what_is_written_here_damo_reads() {
    if !has_damo() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.parquet");
    for (with_ages, snapshots) in [(true, 5), (false, 5), (true, 1)] {
        our_record(&own, with_ages, snapshots);
        let path = folder.path().join("json");
        RegionStore::open(&own).unwrap().write(&path, RecordFormat::Json).unwrap();
        assert_eq!(script("dump", &path), dump(&path), "{with_ages}, {snapshots}");
    }
}

#[test]
fn damo_s_reports_take_our_records() {
    if !has_damo() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    our_record(&folder.path().join("own"), true, 50);
    let mut store = RegionStore::open(folder.path().join("own")).unwrap();
    store.write(folder.path().join("json"), RecordFormat::Json).unwrap();
    // The command line accepts plain json only with old versions of `file`: docs/mechanism/formats.md#region-records, and the head of
    // this file.
    let compress = "import sys, zlib; sys.stdout.buffer.write(zlib.compress(sys.stdin.buffer.read()))";
    let json = File::open(folder.path().join("json")).unwrap();
    let compressed = Command::new(python()).args(["-c", compress]).stdin(json).output().unwrap();
    std::fs::write(folder.path().join("compressed"), compressed.stdout).unwrap();
    let wss = damo(folder.path(), &["report", "wss", "--input", "compressed", "--raw"]);
    assert!(wss.contains("target_id\t0"), "{wss}");
    let heatmap = damo(folder.path(), &["report", "heatmap", "--input", "compressed", "--output", "raw"]);
    assert!(heatmap.lines().count() > 100, "{heatmap}");
    // The largest working set by damo's own sum: accessed regions of all targets at one time, as in our report.
    let mut sums = BTreeMap::<u64, u64>::new();
    store
        .for_each(|snapshot| {
            let accessed = snapshot.regions.iter().filter(|region| region.nr_accesses > 0);
            *sums.entry(snapshot.time_ns).or_default() += accessed.map(Region::len).sum::<u64>();
            Ok::<(), isotherm_trace::TraceError>(())
        })
        .unwrap();
    let most = sums.values().max().unwrap().to_string();
    let percentile_100 = wss.lines().find_map(|line| line.strip_prefix("100")).unwrap();
    assert_eq!(percentile_100.split_whitespace().next(), Some(&*most), "{wss}");
}

#[test]
fn kdamonds_go_there_and_back() {
    if !has_damo() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    script("make-kdamonds", folder.path());
    let (kdamonds, warnings) = read_kdamonds(folder.path().join("kdamonds.json")).unwrap();
    assert_eq!(warnings, []);
    let original = script("kdamonds", &folder.path().join("kdamonds.json"));
    let path = folder.path().join("ours.json");
    write_kdamonds(&path, &kdamonds).unwrap();
    assert_eq!(script("kdamonds", &path), original);
}
