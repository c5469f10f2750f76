//! `isotherm report compare`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn isotherm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isotherm")).args(arguments).env_remove("COLUMNS").output().expect("it starts")
}

fn trace(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.parquet"));
    path.to_str().unwrap().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn traces_and_records_are_compared_with_their_like() {
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str, strategy: &str| {
        let path = folder.path().join(name).to_str().unwrap().to_owned();
        let made = isotherm(&["monitor", &trace("sqlite"), "-o", &path, "--strategy", strategy]);
        assert!(made.status.success(), "{}", said(&made));
        path
    };
    let (one, other) = (record("one.parquet", "leaf"), record("other.parquet", "ptp"));
    for (one, other) in [(one.as_str(), other.as_str()), (&trace("sqlite"), &trace("gcc"))] {
        let output = isotherm(&["report", "compare", one, other, "--format", "json"]);
        assert!(output.status.success(), "{}", said(&output));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let sides = document["sides"].as_array().unwrap();
        assert_eq!(sides.len(), 2);
        assert!(sides.iter().all(|side| !side["working_set"].as_array().unwrap().is_empty()), "{document}");
        let table = isotherm(&["report", "compare", one, other]);
        let text = String::from_utf8_lossy(&table.stdout).into_owned();
        assert!(text.contains("50 % (median)") && text.contains("memory by idle time"), "{text}");
        let html = folder.path().join("c.html");
        let page = isotherm(&["report", "compare", one, other, "--html", html.to_str().unwrap()]);
        assert!(page.status.success() && html.is_file(), "{}", said(&page));
    }
    // A file compared with itself has not changed.
    let same = isotherm(&["report", "compare", &one, &one, "--format", "csv"]);
    let text = String::from_utf8_lossy(&same.stdout).into_owned();
    assert!(text.lines().count() > 5, "{text}");
    assert!(text.lines().skip(1).all(|line| line.trim_end().ends_with(",0")), "{text}");
    let mixed = isotherm(&["report", "compare", &one, &trace("sqlite")]);
    assert_eq!(mixed.status.code(), Some(2));
    assert!(said(&mixed).contains("isotherm monitor TRACE"), "{}", said(&mixed));
    let garbage = folder.path().join("garbage");
    std::fs::write(&garbage, [0xff; 100]).unwrap();
    for bad in [garbage.to_str().unwrap(), "/no/such/file"] {
        let output = isotherm(&["report", "compare", &one, bad]);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{bad}: {}", said(&output));
    }
}

#[test]
fn heatmaps_of_records_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str, of: &str, strategy: &str| {
        let path = folder.path().join(name).to_str().unwrap().to_owned();
        let made = isotherm(&["monitor", &trace(of), "-o", &path, "--strategy", strategy]);
        assert!(made.status.success(), "{}", said(&made));
        path
    };
    let (one, other) = (record("one.parquet", "redis", "leaf"), record("other.parquet", "redis", "ptp"));
    let text = String::from_utf8(isotherm(&["report", "compare", &one, &other]).stdout).unwrap();
    let names = text.lines().find(|line| line.contains("one.parquet") && line.contains("other.parquet"));
    assert!(names.is_some() && text.contains("% of checks found an access"), "{text}");
    assert_eq!(text.matches("left out").count() % 2, 0, "folds stand in both: {text}");
    assert!(text.contains("Working sets"), "{text}");

    let json = |one: &str, other: &str| -> serde_json::Value {
        let flags = ["--format", "json", "--width", "10", "--height", "8"];
        let output = isotherm(&[&["report", "compare", one, other][..], &flags].concat());
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let heatmaps = &json(&one, &one)["heatmaps"];
    let rates = heatmaps["rate_ppm"].as_array().unwrap();
    assert!(rates[0].as_array().unwrap().iter().any(|rate| rate.as_u64() > Some(0)), "{heatmaps}");
    assert_eq!(rates[0], rates[1], "a record and itself");
    let heatmaps = &json(&one, &other)["heatmaps"];
    assert_ne!(heatmaps["rate_ppm"][0], heatmaps["rate_ppm"][1]);
    let rows: u64 = heatmaps["bands"].as_array().unwrap().iter().map(|band| band["rows"].as_u64().unwrap()).sum();
    let cells = rows * heatmaps["columns"].as_u64().unwrap();
    for side in heatmaps["rate_ppm"].as_array().unwrap() {
        assert_eq!(side.as_array().unwrap().len() as u64, cells, "{heatmaps}");
    }

    let third = record("third.parquet", "sqlite", "leaf");
    let warned = isotherm(&["report", "compare", &one, &third]);
    assert!(
        said(&warned).contains("different targets are compared, `redis-server` and `sqlite3`"),
        "{}",
        said(&warned)
    );
    let svg = folder.path().join("both.svg");
    let drawn = isotherm(&["report", "compare", &one, &other, "--svg", svg.to_str().unwrap()]);
    assert!(drawn.status.success(), "{}", said(&drawn));
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(
        svg.contains("one.parquet") && svg.contains("Working sets") && svg.contains("<image"),
        "both are in one picture"
    );
}

/// A record of physical addresses next to one of a process.
#[test]
fn physical_and_virtual_addresses_have_no_heatmaps_in_common() {
    use isotherm_trace::region::{Intervals, RecordMeta, Region, RegionWriter, Snapshot};
    let folder = tempfile::tempdir().unwrap();
    let record = |operations: &str| {
        let path = folder.path().join(operations);
        let mut writer = RegionWriter::create(&path, RecordMeta::single(operations, "x")).unwrap();
        for number in 1..4 {
            let region = Region { start: 0, end: 1 << 20, nr_accesses: 20, age: Some(1), ..Region::default() };
            let intervals = Intervals::new(5_000_000, 100_000_000, 1_000_000_000);
            writer
                .push(&Snapshot {
                    time_ns: number * 100_000_000,
                    intervals,
                    regions: vec![region],
                    ..Snapshot::default()
                })
                .unwrap();
        }
        writer.finish().unwrap();
        path.to_str().unwrap().to_owned()
    };
    let output = isotherm(&["report", "compare", &record("vaddr"), &record("paddr")]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("no heatmaps: ") && said(&output).contains("name different memory"),
        "{}",
        said(&output)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Working sets") && !text.contains("checks found an access"), "{text}");
}

#[test]
fn a_group_record_is_known_to_info() {
    use isotherm_trace::group::{Gauges, Generation, GroupMeta, GroupWriter, Look, LookKind};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.parquet");
    let meta = GroupMeta { group: "/app".to_owned(), kernel: "7.2".to_owned(), ..GroupMeta::default() };
    let mut writer = GroupWriter::create(&path, meta).unwrap();
    for (number, kind) in [(0u64, LookKind::Read), (1, LookKind::Aged), (2, LookKind::Aged)] {
        let generation = |seq, anon_bytes| Generation { seq, anon_bytes, age_ns: 1, ..Generation::default() };
        let look = Look {
            time_ns: number * 1_000_000_000,
            kind,
            gauges: Gauges { refaults_anon: Some(number), ..Gauges::default() },
            generations: vec![generation(number, 4096), generation(number + 1, 8192 * (number + 1))],
        };
        writer.push(&look).unwrap();
    }
    writer.finish().unwrap();
    let output = isotherm(&["report", "info", path.to_str().unwrap(), "--format", "json"]);
    assert!(output.status.success(), "{}", said(&output));
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (info["group"].as_str(), info["looks"].as_u64(), info["aged_looks"].as_u64()),
        (Some("/app"), Some(3), Some(2))
    );
    assert_eq!((info["span_ns"].as_u64(), info["least_bytes"].as_u64()), (Some(2_000_000_000), Some(4096 + 8192)));
    assert_eq!(info["gauges"], serde_json::json!(["refaults_anon"]));
    let advice = isotherm(&["advise", path.to_str().unwrap(), "--format", "json"]);
    assert_eq!(advice.status.code(), Some(1), "{}", said(&advice));
    assert!(said(&advice).contains("fewer than two pairs of consecutive looks"), "{}", said(&advice));
    // Flags that a record cannot answer are refused, and not ignored.
    for flag in [["--memory", "50%"], ["--slowdown", "5%"], ["--cpus", "4"], ["--threads", "2"], ["--kernel", "7.2"]] {
        let refused = isotherm(&["advise", path.to_str().unwrap(), flag[0], flag[1]]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(&format!("{} is for page traces", flag[0])), "{}", said(&refused));
    }
}
