//! How many instructions replays take, beside stored counts: what makes the simulated machine slower shows here, however busy the host is.
//!
//! `ISOTHERM_COUNTS=write cargo test -p isotherm-cli --test instructions` stores new counts; a commit that changes them says why.
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const COUNTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/instructions.json");
/// By so much counts may differ from those stored, in percent: libraries choose their code by the processor.
const PERCENT: f64 = 3.0;

fn skip(why: &str) {
    assert!(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_none_or(|value| value != "1"), "{why}");
    eprintln!("skipped: {why}");
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

#[test]
fn replays_take_as_many_instructions_as_before() {
    if let Err(why) = Command::new("valgrind").arg("--version").output() {
        skip(&format!("valgrind cannot be run: {why}; scripts/install-test-needs installs it"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let policies = ["classic", "mglru", "lru", "clock"];
    let counted: BTreeMap<&str, u64> = policies.map(|policy| (policy, instructions(folder.path(), policy))).into();
    if std::env::var_os("ISOTHERM_COUNTS").is_some_and(|what| what == "write") {
        std::fs::write(COUNTS, serde_json::to_string_pretty(&counted).unwrap() + "\n").unwrap();
        return;
    }
    let stored: BTreeMap<String, u64> = serde_json::from_str(&std::fs::read_to_string(COUNTS).unwrap()).unwrap();
    for (policy, &count) in &counted {
        let before = stored[*policy];
        let percent = (count as f64 / before as f64 - 1.0) * 100.0;
        assert!(
            percent.abs() <= PERCENT,
            "{policy}: {count} instructions, stored are {before}: {percent:+.1} %. If that is meant: \
             ISOTHERM_COUNTS=write cargo test -p isotherm-cli --test instructions"
        );
    }
}
