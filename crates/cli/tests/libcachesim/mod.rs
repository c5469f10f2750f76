//! Differential test: under `lru`, `fifo`, `clock` and `opt` the same requests miss here as in libCacheSim, one by one.
//!
//! `docs/mechanism/reclaim.md#baselines` holds the definitions. Three parties are compared on each trace and size: libCacheSim itself (when
//! `scripts/install-test-needs` could install it), its results as checked in (`tests/differential/golden.tsv`), a naive model
//! that is the definitions in code, and the simulated machine. `cargo xtask bless libcachesim` writes the golden file from
//! libCacheSim.

#![expect(clippy::print_stderr, reason = "a skipped comparison says so")]

mod machine;
mod naive;
mod requests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use requests::Requests;

/// Memory sizes, in pages; each trace has more pages than the largest.
const SIZES: &[usize] = &[48, 200, 700, 1600];
const POLICIES: &[&str] = &["lru", "fifo", "clock", "opt"];
const GOLDEN: &str = "tests/differential/golden.tsv";

/// Compared values: (trace, policy, pages) → number of requests, number of misses, digest of the misses.
type Results = BTreeMap<(String, String, usize), (usize, usize, u64)>;

#[test]
fn golden_is_what_libcachesim_says() {
    let Some(live) = run_libcachesim() else { return };
    if std::env::var_os("ISOTHERM_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(root().join(GOLDEN), print(&live)).unwrap();
    }
    assert_equal("libCacheSim", &live, "the golden file", &golden());
}

#[test]
fn the_definitions_miss_on_the_same_requests() {
    assert_equal("the naive model", &run(naive::misses), "libCacheSim (golden)", &golden());
}

#[test]
fn the_machine_misses_on_the_same_requests() {
    assert_equal("the simulated machine", &run(machine::misses), "libCacheSim (golden)", &golden());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Results of `misses(requests, policy, pages)`, which says for each request whether it missed.
fn run(misses: impl Fn(&Requests, &str, usize) -> Vec<bool>) -> Results {
    let mut results = Results::new();
    for requests in Requests::all() {
        for policy in POLICIES {
            for &pages in SIZES {
                let missed = misses(&requests, policy, pages);
                assert_eq!(missed.len(), requests.pages.len());
                let count = missed.iter().filter(|&&missed| missed).count();
                let key = (requests.name.to_owned(), (*policy).to_owned(), pages);
                results.insert(key, (missed.len(), count, requests::digest(&missed)));
            }
        }
    }
    results
}

/// `None`, with a message, if it is not installed.
fn run_libcachesim() -> Option<Results> {
    let python = root().join("target/test-needs/bin/python");
    let works = Command::new(&python).args(["-c", "import libcachesim"]).output().is_ok_and(|out| out.status.success());
    if !works {
        let required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|value| value == "1");
        assert!(!required, "libcachesim is not installed; run scripts/install-test-needs");
        eprintln!(
            "skipped: libcachesim is not installed (scripts/install-test-needs); its checked-in results stand in"
        );
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let traces: Vec<PathBuf> =
        Requests::all().iter().map(|requests| requests.write_oracle_general(folder.path())).collect();
    let sizes: Vec<String> = SIZES.iter().map(usize::to_string).collect();
    let output = Command::new(&python)
        .arg(root().join("tests/differential/libcachesim_misses.py"))
        .arg(sizes.join(","))
        .args(traces)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(parse(&String::from_utf8(output.stdout).unwrap()))
}

fn golden() -> Results {
    parse(&std::fs::read_to_string(root().join(GOLDEN)).unwrap())
}

fn parse(text: &str) -> Results {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parse_line = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [trace, policy, pages, requests, misses, digest] = fields[..] else { panic!("not six fields: {line}") };
        let numbers = (requests.parse().unwrap(), misses.parse().unwrap(), u64::from_str_radix(digest, 16).unwrap());
        ((trace.to_owned(), policy.to_owned(), pages.parse().unwrap()), numbers)
    };
    lines.map(parse_line).collect()
}

fn print(results: &Results) -> String {
    let mut text = String::from(
        "# Which requests miss in libCacheSim 0.3.5 (PyPI `libcachesim`), printed by libcachesim_misses.py.\n\
         # Made by: cargo xtask bless libcachesim\n\
         # trace\tpolicy\tpages\trequests\tmisses\tdigest\n",
    );
    for ((trace, policy, pages), (requests, misses, digest)) in results {
        text += &format!("{trace}\t{policy}\t{pages}\t{requests}\t{misses}\t{digest:016x}\n");
    }
    text
}

fn assert_equal(left_name: &str, left: &Results, right_name: &str, right: &Results) {
    assert_eq!(left.len(), Requests::all().len() * POLICIES.len() * SIZES.len(), "{left_name}: results are missing");
    assert_eq!(left.len(), right.len(), "{left_name} and {right_name} have different numbers of results");
    let differ = |key| left.get(key) != right.get(key);
    let complain = |key| format!("{key:?}: {left_name} {:x?}, {right_name} {:x?}\n", left.get(key), right.get(key));
    let differences: String = left.keys().filter(|key| differ(*key)).map(complain).collect();
    assert!(
        differences.is_empty(),
        "(requests, misses, digest of which)\n{differences}\
         Was a bundled trace replaced? Then: cargo xtask bless libcachesim"
    );
}
