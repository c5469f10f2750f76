//! `cargo xtask bench --against COMMIT`: the benchmarks of this tree and of another commit, run alternately, pair by pair.
//!
//! On a busy machine two runs of one benchmark differ by more than the change to be measured; consecutive runs differ less. A row is
//! the mean ratio of pairs with its 95 % interval; a row that is slower with all of its interval is a finding.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Findings, bench, workspace};

/// Default number of pairs of runs.
const PAIRS: usize = 5;

/// A figure in all runs of one side.
#[derive(Debug, Default)]
struct Row {
    higher_is_better: bool,
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

/// `arguments`: the commit, then `--pairs N`, and words of benchmark names.
pub(crate) fn run(arguments: &[String]) -> Findings {
    match compare(arguments) {
        Ok(rows) => print(&rows),
        Err(error) => vec![error],
    }
}

fn compare(arguments: &[String]) -> Result<BTreeMap<String, Row>, String> {
    let usage = "bench --against COMMIT [--pairs N] [NAME…]: N from 2 to 100";
    let (commit, rest) = arguments.split_first().ok_or(usage)?;
    let (pairs, words) = match rest {
        [flag, number, words @ ..] if flag == "--pairs" => (number.parse().map_err(|_| usage)?, words),
        words => (PAIRS, words),
    };
    if !(2..=100).contains(&pairs) {
        return Err(usage.to_owned());
    }
    let root = workspace::root();
    let hash = said(
        Command::new("git")
            .current_dir(&root)
            .args(["rev-parse", "--verify", "--quiet"])
            .arg(format!("{commit}^{{commit}}")),
    )
    .map_err(|_| format!("`{commit}` is no commit of this repository"))?;
    let other = root.join("target/against").join(&hash[..12]);
    if !other.exists() {
        said(Command::new("git").current_dir(&root).args(["worktree", "add", "--detach"]).arg(&other).arg(&hash))?;
    }
    let compared = pairs_of(&root, &other, pairs, words);
    // Its build is kept next to it for the next time.
    let removed = said(Command::new("git").current_dir(&root).args(["worktree", "remove", "--force"]).arg(&other));
    let rows = compared?;
    removed?;
    Ok(rows)
}

fn pairs_of(root: &Path, other: &Path, pairs: usize, words: &[String]) -> Result<BTreeMap<String, Row>, String> {
    let mut findings = Findings::new();
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let benches = bench::benches(root, &mut findings);
    // A benchmark may have moved to another package since.
    let before: BTreeMap<String, String> =
        bench::benches(other, &mut findings).into_iter().map(|(package, name)| (name, package)).collect();
    if let Some(finding) = findings.pop() {
        return Err(finding);
    }
    let is_meant = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    for (package, name) in benches.iter().filter(|(_, name)| is_meant(name)) {
        let Some(package_before) = before.get(name) else {
            eprintln!("bench: {package}/{name} is not in the other commit");
            continue;
        };
        for pair in 0..pairs {
            eprintln!("bench: {package}/{name}, pair {} of {pairs}", pair + 1);
            // The order alternates, so that drift does not count for one side.
            for ours in [pair % 2 == 0, pair % 2 != 0] {
                let (tree, target, package) = if ours {
                    (root, root.join("target"), package)
                } else {
                    (other, root.join("target/against/build"), package_before)
                };
                for (row, value, higher_is_better) in figures(tree, &target, package, name)? {
                    let row = rows.entry(row).or_default();
                    row.higher_is_better = higher_is_better;
                    if ours { row.ours.push(value) } else { row.theirs.push(value) }
                }
            }
        }
    }
    Ok(rows)
}

/// Name, value and direction of each row that a benchmark of a tree prints.
fn figures(tree: &Path, target: &Path, package: &str, name: &str) -> Result<Vec<(String, f64, bool)>, String> {
    let mut cargo = workspace::cargo();
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", target);
    cargo.args(["bench", "--quiet", "--locked", "--package", package, "--bench", name]).stderr(Stdio::null());
    let output = cargo.output().map_err(|error| format!("cannot run cargo bench: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rows: Vec<_> = rows
        .filter_map(|row| Some((row["name"].as_str()?.to_owned(), row["value"].as_f64()?, is_higher_better(&row))))
        .collect();
    // It fails for a missed bar too, after all its rows.
    if rows.is_empty() {
        return Err(format!("{package}/{name} in {} printed no figure: {}", tree.display(), output.status));
    }
    Ok(rows)
}

/// The direction of a bar follows from the values that passed; without a bar, from the unit: rates are better high, times and sizes low.
fn is_higher_better(row: &Value) -> bool {
    match (row["bar"].as_f64(), row["value"].as_f64(), row["pass"].as_bool()) {
        (Some(bar), Some(value), Some(pass)) if value != bar => (value > bar) == pass,
        _ => row["unit"].as_str().is_some_and(|unit| unit.ends_with("/s") || unit == "×"),
    }
}

/// How much slower each row is, in the order of names; those that are significantly slower are findings.
fn print(rows: &BTreeMap<String, Row>) -> Findings {
    let mut findings = Findings::new();
    println!("{:<70} {:>12} {:>12} {:>8}  95 % interval", "benchmark", "this", "other", "slower");
    for (name, row) in rows {
        let Some((ratio, low, high)) = slower(row) else {
            println!("{name:<70} not in both");
            continue;
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (ours, theirs) = (mean(&row.ours), mean(&row.theirs));
        println!("{name:<70} {ours:>12.4} {theirs:>12.4} {ratio:>7.3}×  {low:.3} to {high:.3}");
        if low > 1.0 {
            findings.push(format!("{name}: slower, {ratio:.3} times ({low:.3} to {high:.3})"));
        }
    }
    findings
}

/// The mean ratio of pairs, above 1 where this tree is slower, with its 95 % interval: by Student's t, over logarithms.
fn slower(row: &Row) -> Option<(f64, f64, f64)> {
    let pairs = row.ours.len();
    if pairs < 2 || pairs != row.theirs.len() {
        return None;
    }
    let logs: Vec<f64> = row.ours.iter().zip(&row.theirs).map(|(ours, theirs)| (ours / theirs).ln()).collect();
    if logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let sign = if row.higher_is_better { -1.0 } else { 1.0 };
    let mean = sign * logs.iter().sum::<f64>() / pairs as f64;
    let squares: f64 = logs.iter().map(|log| (sign * log - mean) * (sign * log - mean)).sum();
    let half = t_95(pairs - 1) * (squares / (pairs - 1) as f64 / pairs as f64).sqrt();
    Some((mean.exp(), (mean - half).exp(), (mean + half).exp()))
}

/// Two-sided 95 % quantile of Student's t; beyond ten degrees of freedom that of eleven, which errs to the wide side.
fn t_95(degrees: usize) -> f64 {
    const TABLE: [f64; 11] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201];
    TABLE[degrees.clamp(1, TABLE.len()) - 1]
}

fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_say_how_much_slower_it_is() {
        let row = |higher_is_better, ours: &[f64], theirs: &[f64]| Row {
            higher_is_better,
            ours: ours.to_vec(),
            theirs: theirs.to_vec(),
        };
        let (ratio, low, high) = slower(&row(false, &[2.0, 4.0, 8.0], &[1.0, 2.0, 4.0])).expect("pairs");
        assert!(
            (ratio - 2.0).abs() < 1e-12 && (low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9,
            "drift of both is none"
        );
        let (ratio, ..) = slower(&row(true, &[2.0, 4.0], &[1.0, 2.0])).expect("pairs");
        assert!((ratio - 0.5).abs() < 1e-12, "a rate that doubled is faster");
        let (_, low, high) = slower(&row(false, &[1.0, 1.2], &[1.2, 1.0])).expect("pairs");
        assert!(low < 1.0 && high > 1.0, "{low} {high}");
        assert_eq!(slower(&row(false, &[1.0], &[1.0])), None, "one pair has no interval");
        assert_eq!(slower(&row(false, &[1.0, 0.0], &[1.0, 1.0])), None, "nothing to divide");
        assert_eq!(slower(&row(false, &[1.0, 2.0], &[])), None, "not in both");
    }

    #[test]
    fn what_is_better_follows_from_the_bar_or_the_unit() {
        let higher = |row: &str| is_higher_better(&serde_json::from_str(row).expect("a row"));
        assert!(higher(r#"{"unit":"×","bar":5,"value":6,"pass":true}"#));
        assert!(higher(r#"{"unit":"×","bar":5,"value":2,"pass":false}"#));
        assert!(!higher(r#"{"unit":"ns","bar":5,"value":2,"pass":true}"#));
        assert!(higher(r#"{"unit":"M/s","bar":null,"value":2,"pass":true}"#));
        assert!(!higher(r#"{"unit":"ns","bar":null,"value":2,"pass":true}"#));
    }
}
