//! `cargo xtask bench`: every benchmark of the workspace, each figure next to its bar. Writes `target/bench.json`.
//!
//! A benchmark is a `[[bench]]` with `harness = false`. It prints one JSON object a line on standard output,
//! `{"name": …, "unit": …, "bar": 5, "value": …, "pass": …}`, with `null` for a figure that has no bar; everything else goes
//! to standard error. Those that a package names in `[package.metadata.bench] counts` can count instructions alone, when they are called with
//! `--count`.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::{Findings, workspace};

/// Counts instructions and measures no time.
const COUNT: &str = "--count";

/// Runs the benchmarks whose target name contains one of `words`, or all of them; after `--count` those that count instructions.
pub(crate) fn run(words: &[String]) -> Findings {
    let (flags, words) = match words {
        [flag, words @ ..] if flag == COUNT => (&[COUNT][..], words),
        words => (&[][..], words),
    };
    let mut findings = Findings::new();
    let mut rows = Vec::new();
    let counting = if flags.is_empty() { None } else { Some(counting(&workspace::root())) };
    for (package, bench) in benches(&workspace::root(), &mut findings) {
        let is_meant = words.is_empty() || words.iter().any(|word| bench.contains(word.as_str()));
        if is_meant && counting.as_ref().is_none_or(|counting| counting.contains(&bench)) {
            run_one(&package, &bench, flags, &mut rows, &mut findings);
        }
    }
    print_table(&rows);
    for row in rows.iter().filter(|row| row["pass"] == Value::Bool(false)) {
        let [name, value, unit] = ["name", "value", "unit"].map(|key| text(&row[key]));
        findings.push(format!("{name}: {value} {unit}; bar {}", bar(row)));
    }
    if rows.is_empty() {
        findings.push("no benchmark printed a figure".into());
    }
    let path = workspace::root().join("target/bench.json");
    let written = std::fs::create_dir_all(workspace::root().join("target"))
        .and_then(|()| std::fs::File::create(&path))
        .and_then(|mut file| writeln!(file, "{:#}", json!({ "rows": rows })));
    if let Err(error) = written {
        findings.push(format!("cannot write {}: {error}", path.display()));
    }
    findings
}

/// (package, bench target) of a workspace, sorted.
pub(crate) fn benches(tree: &Path, findings: &mut Findings) -> Vec<(String, String)> {
    let metadata = match workspace::metadata(tree) {
        Ok(metadata) => metadata,
        Err(error) => {
            findings.push(error);
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for package in workspace::packages(&metadata) {
        for target in package["targets"].as_array().into_iter().flatten() {
            if target["kind"] == json!(["bench"]) {
                found.push((text(&package["name"]), text(&target["name"])));
            }
        }
    }
    found.sort();
    found
}

/// The benchmarks of a workspace that count instructions.
fn counting(tree: &Path) -> Vec<String> {
    let metadata = workspace::metadata(tree).unwrap_or_default();
    let named = |package: &Value| package["metadata"]["bench"]["counts"].as_array().cloned().unwrap_or_default();
    workspace::packages(&metadata).iter().flat_map(named).map(|name| text(&name)).collect()
}

fn run_one(package: &str, bench: &str, flags: &[&str], rows: &mut Vec<Value>, findings: &mut Findings) {
    eprintln!("bench: {package}/{bench}");
    let output = workspace::cargo()
        .args(["bench", "--quiet", "--locked", "--package", package, "--bench", bench, "--"])
        .args(flags)
        .stderr(Stdio::inherit())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return findings.push(format!("cannot run cargo bench: {error}")),
    };
    for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with('{')) {
        match serde_json::from_str::<Value>(line) {
            Ok(row) if ["name", "unit", "bar", "value", "pass"].iter().all(|key| row.get(key).is_some()) => {
                rows.push(row)
            }
            _ => findings.push(format!("{package}/{bench} printed a row that is none: {line}")),
        }
    }
    if !output.status.success() {
        findings.push(format!("{package}/{bench} failed: {}", output.status));
    }
}

fn print_table(rows: &[Value]) {
    let header = ["", "benchmark", "value", "unit", "bar"].map(str::to_owned);
    let mut lines = vec![header];
    for row in rows {
        let verdict = if row["pass"] == Value::Bool(false) { "FAIL" } else { "pass" };
        lines.push([verdict.to_owned(), text(&row["name"]), text(&row["value"]), text(&row["unit"]), bar(row)]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    for line in &lines {
        println!(
            "{:<w0$}  {:<w1$}  {:>w2$}  {:<w3$}  {}",
            line[0],
            line[1],
            line[2],
            line[3],
            line[4],
            w0 = widths[0],
            w1 = widths[1],
            w2 = widths[2],
            w3 = widths[3],
        );
    }
}

/// The bar with its direction, which follows from the values that passed.
fn bar(row: &Value) -> String {
    let (Some(bar), Some(value)) = (row["bar"].as_f64(), row["value"].as_f64()) else { return text(&row["bar"]) };
    let at_most = (value <= bar) == (row["pass"] == Value::Bool(true));
    format!("{} {}", if at_most { "≤" } else { "≥" }, text(&row["bar"]))
}

/// A JSON value for people: strings without quotes, numbers with at most three significant decimals.
fn text(value: &Value) -> String {
    match value {
        Value::String(string) => string.clone(),
        Value::Number(number) if number.is_f64() => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            let decimals = if value.abs() >= 100.0 {
                0
            } else if value.abs() >= 1.0 {
                2
            } else {
                4
            };
            format!("{value:.decimals$}")
        }
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}
