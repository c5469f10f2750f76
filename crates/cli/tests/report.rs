//! `isotherm report` on a bundled recording: every kind in every format.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.parquet")
}

fn isotherm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isotherm")).args(args).env_remove("COLUMNS").output().expect("it starts")
}

fn report(kind: &str, args: &[&str]) -> String {
    let trace = trace();
    let mut all = vec!["report", kind, trace.to_str().expect("a UTF-8 path")];
    all.extend(args);
    let output = isotherm(&all);
    assert!(output.status.success(), "{all:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

const KINDS: [&str; 6] = ["heatmap", "wss", "mrc", "hot", "idle", "info"];

#[test]
fn every_kind_in_every_format() {
    for kind in KINDS {
        let text = report(kind, &[]);
        assert!(text.lines().count() > 5 && !text.contains('\u{1b}'), "{kind}: {text}");
        let json: serde_json::Value = serde_json::from_str(&report(kind, &["--format", "json"])).expect(kind);
        assert_eq!(json["page_bytes"], 4096, "{kind}");
        let csv = report(kind, &["--format", "csv"]);
        let columns = csv.lines().next().expect("a header").split(',').count();
        assert!(columns >= 3 && csv.lines().count() > 3, "{kind}: {csv}");
    }
}

#[test]
fn the_same_numbers_in_every_form() {
    let json: serde_json::Value = serde_json::from_str(&report("mrc", &["--format", "json"])).unwrap();
    let csv = report("mrc", &["--format", "csv"]);
    let last = json["points"].as_array().unwrap().last().unwrap();
    let bytes = last["pages"].as_u64().unwrap() * 4096;
    assert!(csv.lines().last().unwrap().starts_with(&format!("{bytes},{},", last["misses"])), "{last}");
    assert_eq!(last["misses"], json["cold_misses"], "memory for everything misses first touches only");
}

#[test]
fn pictures_are_written_and_nothing_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for kind in ["heatmap", "wss", "mrc", "idle"] {
        let (svg, html) = (path("x.svg"), path("x.html"));
        let args = ["--svg", &svg, "--html", &html, "--width", "640", "--height", "400"];
        assert_eq!(report(kind, &args), "");
        let svg = std::fs::read_to_string(svg).unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("width=\"640\" height=\"400\""), "{kind}");
        assert!(std::fs::read_to_string(html).unwrap().contains("sqlite3"), "{kind}");
    }
}

#[test]
fn colour_only_where_it_is_asked_for() {
    assert!(report("heatmap", &["--color", "always"]).contains('▀'));
    assert!(!report("heatmap", &["--color", "never"]).contains('\u{1b}'));
}

#[test]
fn bad_input_is_refused_with_a_way_out() {
    let trace = trace();
    let trace = trace.to_str().unwrap();
    let table: [(&[&str], i32, &str); 5] = [
        (&["report", "wss", trace, "--window", "1ns"], 2, "epoch"),
        (&["report", "mrc", "no-such-file.parquet"], 1, "no-such-file.parquet"),
        (&["report", "heatmap", trace, "--svg", "no-such-folder/x.svg"], 1, "no-such-folder/x.svg"),
        (&["report", "heatmap", trace, "--svg", "x.PNG"], 2, "write `x.svg`; `rsvg-convert x.svg -o x.PNG`"),
        (&["report", "heatmap", trace, "--width", "0"], 2, "1..=16384"),
    ];
    for (args, code, word) in table {
        let output = isotherm(args);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains(word), "{args:?}: {message}");
    }
}

/// Text of a real kernel (`crates/texts/src/real`).
fn kernel_text(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../texts/src");
    folder.join(name).to_str().expect("a UTF-8 path").to_owned()
}

#[test]
fn fragmentation_of_a_kernels_free_memory() {
    let (buddyinfo, zoneinfo) = (kernel_text("real/linux-6.12/buddyinfo"), kernel_text("real/linux-6.12/zoneinfo"));
    let print = |args: &[&str]| {
        let all: Vec<&str> = ["report", "fragmentation"].into_iter().chain(args.iter().copied()).collect();
        let output = isotherm(&all);
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text, _) = print(&[&buddyinfo, "--zoneinfo", &zoneinfo, "--format", "json"]);
    assert_eq!(code, Some(0));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let row = &json["zones"][1]["orders"][9];
    // The kernel's own debugfs files gave 1.000 and 0.997.
    assert_eq!((&row["unusable_permille"], &row["fragmentation_index_permille"]), (&1000.into(), &997.into()));
    assert_eq!((&row["extfrag_percent"], &row["available_blocks"]), (&100.into(), &0.into()));
    assert_eq!(json["nodes"][0]["score"], 99);
    let (_, csv, _) = print(&[&buddyinfo, "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + 3 * 11);
    assert!(csv.contains("0,Normal,9,0,0,100,1000,997\n") && csv.contains("0,DMA,0,0,3712,0,0,-1000\n"), "{csv}");
    let (_, table, notes) = print(&[&kernel_text("real/linux-6.1/pagetypeinfo")]);
    assert!(table.contains("   1  DMA32 ") && table.contains("yield") && notes.contains("extfrag"), "{table}");

    for (args, code, said) in [
        (vec![buddyinfo.as_str(), "--order", "11"], 2, "--order is 11; allowed: 0 to 10"),
        (
            vec![kernel_text("real/linux-6.1/buddyinfo").as_str(), "--zoneinfo", &zoneinfo],
            2,
            "has no node 1, zone DMA32",
        ),
        (vec![zoneinfo.as_str()], 1, "line 1: expected counts of free blocks, by order"),
        (vec![trace().to_str().unwrap()], 1, "stream did not contain valid UTF-8"),
        (vec!["no-such-file"], 1, "cannot read `no-such-file`"),
        (vec!["/dev/zero"], 1, "larger than 16 MiB"),
        (vec!["/dev/null"], 1, "no zones in it"),
    ] {
        let (found, _, error) = print(&args);
        assert!(found == Some(code) && error.contains(said), "{args:?}: {found:?} {error}");
    }
}

/// Generations of a replayed recording: the same samples as text and as JSON, next to the ground truth.
#[test]
fn generations_are_shown_beside_the_truth() {
    let json: serde_json::Value =
        serde_json::from_str(&report("generations", &["--interval", "400ms", "--format", "json"])).unwrap();
    let samples = json["tools"][0]["samples"].as_array().unwrap();
    assert!(samples.len() >= 6, "{}", samples.len());
    let reported = &samples[3];
    assert_eq!(reported["estimate"]["reported_window_ms"], 400);
    let (estimated, used) =
        (reported["estimate"]["pages"].as_u64().unwrap(), reported["used"]["present_pages"].as_u64().unwrap());
    assert!(used > 100 && estimated.abs_diff(used) * 5 < used, "{estimated} of {used}");
    let groups = reported["groups"].as_array().unwrap();
    assert_eq!((groups.len(), groups[1]["rows"].as_array().unwrap().len()), (2, 4), "the root, and the program's own");
    let text = report("generations", &["--interval", "400ms"]);
    assert!(text.contains("memory by generation, youngest first"), "{text}");
}

#[test]
fn generations_refuse_what_makes_no_sense() {
    let trace = trace();
    let trace = trace.to_str().unwrap();
    let table: [(&[&str], &str); 4] = [
        (&["--interval", "1ms"], "--interval is 1ms; allowed: from the trace's epoch of 5ms on"),
        (&["--interval", "100ms", "--window", "50ms"], "--window is 50ms; allowed: from one interval (100ms)"),
        (&["--variant", "x"], "is no scenario: --variant is for scenarios"),
        (&["--interval", "soon"], "soon"),
    ];
    for (args, expected) in table {
        let output = isotherm(&[&["report", "generations", trace][..], args].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{args:?}: {said}");
    }
    let output = isotherm(&["report", "generations", "policies", "--interval", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("policies is a scenario"), "{said}");
}
