//! Instruction counts of replays, next to stored counts: they show a slower simulated machine even on a busy host.
//!
//! `cargo xtask bless instructions` stores new counts; a commit that changes them says why. They
//! are of an optimised build of this package alone: what other packages ask of its dependencies does not change them. Prints one JSON
//! object a line: `name, unit, bar, value, pass`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark's output")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::json;

const COUNTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.json");
/// Largest difference from the stored counts, in percent: libraries choose their code by the processor.
const PERCENT: f64 = 3.0;

fn main() {
    if let Err(why) = Command::new("valgrind").arg("--version").output() {
        eprintln!("skipped: valgrind cannot be run: {why}; scripts/install-test-needs installs it");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let policies = ["classic", "mglru", "lru", "clock"];
    let counted: BTreeMap<&str, u64> = policies.map(|policy| (policy, instructions(folder.path(), policy))).into();
    if std::env::var_os("ISOTHERM_BLESS").is_some_and(|value| value == "1") {
        let text = serde_json::to_string_pretty(&counted).expect("numbers") + "\n";
        std::fs::write(COUNTS, text).expect("the checkout is writable");
        return;
    }
    let stored = std::fs::read_to_string(COUNTS).expect("it is in the checkout");
    let stored: BTreeMap<String, u64> = serde_json::from_str(&stored).expect("counts by policy");
    for (policy, &count) in &counted {
        let name = format!("instructions of a replay, {policy}");
        println!("{}", json!({ "name": name, "unit": "", "bar": null, "value": count, "pass": null }));
        let percent = ((count as f64 / stored[*policy] as f64 - 1.0) * 100.0).abs();
        let name = format!("{name}: away from the stored count");
        println!(
            "{}",
            json!({ "name": name, "unit": "%", "bar": PERCENT, "value": percent, "pass": percent <= PERCENT })
        );
    }
}

/// A replay of the smallest bundled recording at 60 % of its peak.
fn scenario(policy: &str) -> String {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/table.parquet");
    format!(
        "name = \"count\"\npolicy = \"{policy}\"\nlimit = \"38MiB\"\nmetrics = [\"major_faults\"]\n[machine.swap]\ndevice = \"zram\"\n\
         [[workloads]]\nname = \"table\"\nload = {{ kind = \"trace\", path = \"{trace}\" }}\n"
    )
}

/// Instructions in user mode, by Valgrind.
fn instructions(folder: &Path, policy: &str) -> u64 {
    let file = folder.join(format!("{policy}.toml"));
    std::fs::write(&file, scenario(policy)).unwrap();
    let output = Command::new("valgrind")
        .args([
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
            env!("CARGO_BIN_EXE_isotherm"),
        ])
        .args(["simulate", file.to_str().unwrap(), "--threads", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let line = said.lines().find(|line| line.contains("refs:")).unwrap_or_else(|| panic!("{said}"));
    let digits: String = line.rsplit(':').next().unwrap().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}
