//! Errors of miss-ratio curves of a sample, on all bundled recordings and synthetic traces: the table in
//! `docs/mechanism/formats.md`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use isotherm_trace::TraceReader;
use isotherm_trace::analysis::{MissRatioCurve, Sampling, mrc, mrc_sampled};
use isotherm_units::{Bytes, Duration};
use isotherm_workload::synthetic::{MadeTrace, write_made};

const RATES: [&str; 3] = ["1/4", "1/16", "1/64"];
/// Sizes at which curves are compared, from nothing to that from which nothing improves.
const SIZES: u64 = 100;
const BEGIN: &str = "<!-- sampled curves: written by cargo xtask bless sampled-curves -->\n";
const END: &str = "<!-- end -->";

#[test]
fn the_documented_errors_are_those_of_the_sample() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let mut traces: Vec<(String, PathBuf)> = Vec::new();
    for place in ["traces", "traces/more"] {
        let files = std::fs::read_dir(root.join(place)).unwrap().map(|entry| entry.unwrap().path());
        let recordings = files.filter(|path| path.extension().is_some_and(|extension| extension == "parquet"));
        traces.extend(recordings.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)));
    }
    traces.sort();
    for (mib, theta) in [(256, 0.99), (256, 0.6), (1024, 0.99)] {
        let path = folder.path().join(format!("{mib} {theta}"));
        let (footprint, length) = (Bytes::from_mib(mib), Duration::from_secs(20));
        write_made(
            &path,
            &MadeTrace { footprint, touches: 10 * footprint.pages_ceil().get(), length, theta, seed: 1 },
            || {},
        )
        .unwrap();
        traces.push((format!("made, {mib} MiB, Zipf {theta}"), path));
    }
    let mut table = String::from("| trace | touches | pages |");
    RATES.iter().for_each(|rate| write!(table, " {rate}: mean, largest, said |").unwrap());
    table += "\n|---|---|---|---|---|---|\n";
    for (name, path) in traces {
        let mut reader = TraceReader::open(&path).unwrap();
        let exact = mrc(&mut reader).unwrap();
        let pages = exact.points.last().map_or(0, |point| point.pages);
        write!(table, "| {name} | {:.1} M | {:.0} k |", exact.accesses as f64 / 1e6, pages as f64 / 1e3).unwrap();
        for rate in RATES {
            let sampling: Sampling = rate.parse().unwrap();
            let curve = mrc_sampled(&mut reader, sampling).unwrap();
            let (mean, largest) = errors(&exact, &curve);
            let said = curve.sample.unwrap().error_ppm as f64 / 1e4;
            write!(table, " {:.2}, {:.2}, {said:.2} |", mean * 100.0, largest * 100.0).unwrap();
            if rate == "1/16" && pages > 100_000 {
                assert!(mean < 0.01 && reader.meta().accesses == curve.accesses, "{name}: {mean}");
            }
        }
        table.push('\n');
    }
    let page = root.join("docs/mechanism/formats.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("docs/mechanism/formats.md has the table");
    let (stands, after) = rest.split_once(END).expect("docs/mechanism/formats.md has the table's end");
    if std::env::var_os("ISOTHERM_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert!(
            stands == table,
            "docs/mechanism/formats.md has other errors; `cargo xtask bless sampled-curves` writes them. Found:\n{table}"
        );
    }
}

/// Mean and largest difference of the miss ratios over all sizes.
fn errors(exact: &MissRatioCurve, sampled: &MissRatioCurve) -> (f64, f64) {
    let differences = exact
        .sampled(SIZES + 1)
        .into_iter()
        .skip(1)
        .map(|point| (point.misses.abs_diff(sampled.misses_at(point.pages))) as f64 / exact.accesses as f64);
    let all: Vec<f64> = differences.collect();
    (all.iter().sum::<f64>() / all.len() as f64, all.iter().copied().fold(0.0, f64::max))
}
