//! The comparison as Markdown.

use std::fmt::Write as _;

use isotherm_fidelity::folios::{COUNTERS, Errors, FOLIOS, FoliosComparison, FoliosRow, errors};
use isotherm_fidelity::{KERNELS, LIMITS_PERCENT, POLICIES};

/// Errors by kernel, policy and folios, then by counter, then what folios change in the kernels.
pub(super) fn all(compared: &FoliosComparison) -> String {
    [by_policy(&compared.rows), by_counter(&compared.rows), by_workload(&compared.rows)].join("\n")
}

/// Heads and lines under them; the first `texts` columns are words.
fn table(heads: &[&str], texts: usize, lines: &[Vec<String>]) -> String {
    let mut out =
        format!("| {} |\n|{}{}\n", heads.join(" | "), "---|".repeat(texts), "--:|".repeat(heads.len() - texts));
    for line in lines {
        let _ = writeln!(out, "| {} |", line.join(" | "));
    }
    out
}

const ERROR_HEADS: [&str; 5] = ["rows", "single pages: median", "90th percentile", "folios: median", "90th percentile"];

/// Number of rows, and errors of both simulated machines; `None` without rows.
fn error_cells<'a>(rows: impl Iterator<Item = &'a FoliosRow>) -> Option<Vec<String>> {
    let (nr, single, with) = errors(rows);
    let of =
        |errors: Option<Errors>| errors.map_or([String::new(), String::new()], |of| [of.median, of.p90].map(percent));
    (nr > 0).then(|| std::iter::once(nr.to_string()).chain(of(single)).chain(of(with)).collect())
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "from 0".to_owned() }
}

fn by_policy(rows: &[FoliosRow]) -> String {
    let mut lines = Vec::new();
    for folios in FOLIOS.iter().map(|folios| folios.name) {
        for &kernel in KERNELS {
            for &policy in POLICIES {
                let own =
                    rows.iter().filter(|row| row.folios == folios && row.kernel == kernel && row.policy == policy);
                let cells = error_cells(own);
                lines.extend(cells.map(|cells| [vec![folios.into(), kernel.into(), policy.into()], cells].concat()));
            }
        }
    }
    let heads = [["folios", "kernel", "policy"].as_slice(), &ERROR_HEADS].concat();
    table(&heads, 3, &lines)
}

fn by_counter(rows: &[FoliosRow]) -> String {
    let mut lines = Vec::new();
    for folios in FOLIOS.iter().map(|folios| folios.name) {
        for &counter in COUNTERS {
            let cells = error_cells(rows.iter().filter(|row| row.folios == folios && row.metric == counter));
            lines.extend(cells.map(|cells| [vec![folios.into(), counter.into()], cells].concat()));
        }
    }
    table(&[["folios", "counter"].as_slice(), &ERROR_HEADS].concat(), 2, &lines)
}

/// The kernels' counts of each workload: with each kind of folios that it is played with, in the order of [`FOLIOS`].
fn by_workload(rows: &[FoliosRow]) -> String {
    const SHOWN: [&str; 4] = ["major_faults", "refaults_file", "pages_scanned", "pages_stolen"];
    let mut workloads: Vec<&str> = Vec::new();
    for row in rows {
        if !workloads.contains(&row.workload.as_str()) {
            workloads.push(&row.workload);
        }
    }
    let mut lines = Vec::new();
    for workload in workloads {
        let own: Vec<&FoliosRow> = rows.iter().filter(|row| row.workload == workload).collect();
        let kinds = FOLIOS.iter().map(|of| of.name).filter(|name| own.iter().any(|row| row.folios == *name));
        let kinds: Vec<&str> = kinds.collect();
        for (kernel, policy, limit) in cells() {
            let is_here = |row: &&&FoliosRow| {
                (row.kernel.as_str(), row.policy.as_str(), row.limit_percent) == (kernel, policy, limit)
            };
            let here: Vec<&&FoliosRow> = own.iter().filter(is_here).collect();
            let count = |metric: &str, kind: &str| {
                let row = here.iter().find(|row| (row.metric, row.folios) == (metric, kind));
                row.map_or("–".to_owned(), |row| format!("{:.0}", row.real()))
            };
            let counts =
                SHOWN.map(|metric| kinds.iter().map(|kind| count(metric, kind)).collect::<Vec<_>>().join(", "));
            if !here.is_empty() {
                let place = [workload.to_owned(), kernel.to_owned(), policy.to_owned(), format!("{limit} %")];
                lines.push([place.as_slice(), &[kinds.join(", ")], &counts].concat());
            }
        }
    }
    table(&[["workload", "kernel", "policy", "limit", "folios"].as_slice(), &SHOWN].concat(), 5, &lines)
}

/// Kernel, policy and limit of each run of a workload.
fn cells() -> impl Iterator<Item = (&'static str, &'static str, u32)> {
    let policies = |kernel| POLICIES.iter().map(move |policy| (kernel, *policy));
    let limits = |(kernel, policy)| LIMITS_PERCENT.iter().map(move |limit| (kernel, policy, *limit));
    KERNELS.iter().copied().flat_map(policies).flat_map(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_fidelity::folios::{Folios, compare};
    use isotherm_fidelity::{Selection, Workloads};
    use std::path::Path;

    fn row(folios: &'static str, real: u64, single: u64) -> FoliosRow {
        FoliosRow {
            workload: "map-scan".to_owned(),
            kernel: "7.2".to_owned(),
            policy: "classic".to_owned(),
            folios,
            limit_percent: 75,
            metric: "pages_scanned",
            real_low: real,
            real_high: real,
            boots: 1,
            single,
            single_error: Some(single.abs_diff(real) as f64 / real as f64),
            simulated: None,
            error: None,
            is_judged: true,
        }
    }

    #[test]
    fn lines_by_hand() {
        let compared = FoliosComparison {
            kernels: [("7.2".to_owned(), "7.2.1".to_owned())].into(),
            rows: vec![row("single", 1000, 1000), row("xfs", 800, 1000)],
        };
        let text = all(&compared);
        for line in [
            "| single | 7.2 | classic | 1 | 0.0 % | 0.0 % |  |  |",
            "| xfs | 7.2 | classic | 1 | 25.0 % | 25.0 % |  |  |",
            "| xfs | pages_scanned | 1 | 25.0 % | 25.0 % |  |  |",
            "| map-scan | 7.2 | classic | 75 % | single, xfs | –, – | –, – | 1000, 800 | –, – |",
        ] {
            assert!(text.lines().any(|written| written == line), "{line} in {text}");
        }
    }

    #[test]
    fn the_page_shows_the_stored_runs() {
        let selection = Selection::default();
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let workloads = Workloads::bundled_of_folios().build(&selection, folder).unwrap();
        let data: Vec<_> = FOLIOS.iter().map(|of: &'static Folios| (of, of.bundled().unwrap())).collect();
        let compared = compare(&workloads, &selection, &data, &|| ()).unwrap();
        let page = include_str!("../../../../../docs/evidence/folios.md");
        let missing = |line: &&str| line.starts_with('|') && !page.contains(*line);
        assert_eq!(all(&compared).lines().find(missing), None);
    }
}
