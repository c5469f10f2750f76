//! What `isotherm advise` says about each size.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use isotherm_terminal::CliError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::advice::{isotherm, output};
use super::super::programs::{Program, Workshop};

/// A calibration of the machine that answers without `--host` would take.
const OF_ALL: &str = "/etc/isotherm/host.toml";

/// What is said about one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Said {
    /// It is said to be enough.
    pub(super) is_enough: bool,
    pub(super) is_recommended: bool,
    /// Replays.
    pub(super) n: u64,
    /// Time over that without a limit, in millionths; all 0 if no replay came to its end.
    pub(super) slower_ppm: Range,
    pub(super) major_faults: Range,
    /// Replays that were killed, of the kind of start that is killed more often, and the interval of the chance.
    pub(super) kills: u64,
    /// Replays of that kind; 0 if `kills` is of all replays, as builds said it that counted both kinds together.
    #[serde(default)]
    pub(super) kills_n: u64,
    pub(super) kills_low_ppm: u64,
    pub(super) kills_high_ppm: u64,
}

impl Said {
    /// Replays that [`Self::kills`] is of.
    pub(super) fn nr_of_kills(&self) -> u64 {
        if self.kills_n > 0 { self.kills_n } else { self.n }
    }
}

/// A median in its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Range {
    pub(super) low: u64,
    pub(super) median: u64,
    pub(super) high: u64,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) peak_bytes: u64,
    rows: BTreeMap<u64, Said>,
    /// Of the rows, those that were asked for or are recommended: others are steps of the search.
    of_interest: BTreeSet<u64>,
}

impl Answer {
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.of_interest.iter().copied()
    }

    pub(super) fn said(&self, memory_bytes: u64) -> Option<Said> {
        self.rows.get(&memory_bytes).cloned()
    }

    fn new(answer: &Value, percents: &[u64]) -> Self {
        let peak_bytes = number(&answer["peak_bytes"]);
        let best = &answer["recommendation"];
        let recommended = best["memory_bytes"].as_u64();
        let rows = answer["rows"].as_array().map_or(&[][..], Vec::as_slice);
        // Of "classic + reclaim" the policy alone.
        let asked_of = best["candidate"].as_str().or_else(|| rows.first()?["candidate"].as_str()).unwrap_or_default();
        let policy = asked_of.split(" + ").next().unwrap_or_default();
        let of_policy = rows.iter().filter(|row| row["candidate"] == policy);
        let rows: BTreeMap<u64, Said> = of_policy
            .map(|row| {
                let bytes = number(&row["memory_bytes"]);
                let said = said(row, recommended == Some(bytes));
                // An answer that is withheld calls no size enough.
                (bytes, Said { is_enough: said.is_enough && answer["withheld"].is_null(), ..said })
            })
            .collect();
        // Sizes are rounded to pages: the row that is next to the one asked for.
        let nearest = |percent: &u64| {
            let wanted = peak_bytes / 100 * percent;
            rows.keys()
                .copied()
                .min_by_key(|bytes| bytes.abs_diff(wanted))
                .filter(|bytes| bytes.abs_diff(wanted) * 100 <= wanted)
        };
        let of_interest = percents.iter().filter_map(nearest).chain(recommended).collect();
        Self { peak_bytes, of_interest, rows }
    }
}

/// Measures the prices of this machine.
pub(super) fn calibrate(workshop: &Workshop, file: &Path) -> Result<(), CliError> {
    if Path::new(OF_ALL).exists() {
        let why = "is a calibration of this machine, which both answers would take";
        return Err(CliError::host_cannot(format!("{OF_ALL} {why}; move it away for the time of the measurement")));
    }
    let mut calibrate = Command::new(isotherm()?);
    calibrate.args(["--quiet", "calibrate", "--anyway", "-o"]).arg(file).arg("--folder").arg(workshop.file("."));
    output(&mut calibrate, "calibrate").map(drop)
}

/// Asks about shares of the recording's peak, with prices of this machine or those of the table.
pub(super) fn ask(
    program: &Program,
    workshop: &Workshop,
    trace: &Path,
    percents: &[u64],
    prices: Option<&Path>,
) -> Result<Answer, CliError> {
    let shares: Vec<String> = percents.iter().map(|percent| format!("{percent}%")).collect();
    let mut advise = Command::new(isotherm()?);
    advise.args(["--quiet", "advise"]).arg(trace).args(["--here", "--no-cache", "--rows", "--format", "json"]);
    advise.arg("--memory").arg(shares.join(","));
    // Where no calibration of this user is.
    advise.env("XDG_CONFIG_HOME", workshop.file("."));
    if let Some(prices) = prices {
        advise.arg("--host").arg(prices);
    }
    let text = output(&mut advise, program.name)?;
    Ok(Answer::new(&serde_json::from_slice(&text).map_err(CliError::failed)?, percents))
}

fn said(row: &Value, is_recommended: bool) -> Said {
    let kills = &row["kills"];
    Said {
        is_enough: row["is_fast_enough"].as_bool().unwrap_or(false),
        is_recommended,
        n: number(&row["n"]),
        slower_ppm: range(&row["runtime_ratio_ppm"]),
        major_faults: range(&row["major_faults"]),
        kills: number(&kills["of"]),
        kills_n: number(&kills["n"]),
        kills_low_ppm: number(&kills["low_ppm"]),
        kills_high_ppm: number(&kills["high_ppm"]),
    }
}

fn range(value: &Value) -> Range {
    Range { low: number(&value["low"]), median: number(&value["median"]), high: number(&value["high"]) }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_search_and_of_schemes_are_left_out() {
        let row = |candidate: &str, bytes: u64| {
            serde_json::json!({"candidate": candidate, "memory_bytes": bytes, "is_fast_enough": true, "n": 3,
                "runtime_ratio_ppm": {"low": 1, "median": 2, "high": 3}, "kills": {"of": 1, "n": 3, "low_ppm": 4, "high_ppm": 5}})
        };
        let answer = serde_json::json!({
            "peak_bytes": 1000,
            "recommendation": {"candidate": "classic", "memory_bytes": 870},
            "rows": [row("classic", 900), row("classic", 870), row("classic", 880), row("mglru", 800),
                row("classic + reclaim", 500)],
        });
        let mut withheld = answer.clone();
        withheld["withheld"] = "too short".into();
        assert!(!Answer::new(&withheld, &[90]).said(900).unwrap().is_enough);
        let answer = Answer::new(&answer, &[90, 80, 50]);
        assert_eq!(answer.sizes().collect::<Vec<_>>(), [870, 900]);
        let said = answer.said(870).unwrap();
        assert!(said.is_enough && said.is_recommended);
        assert_eq!((said.slower_ppm, said.kills), (Range { low: 1, median: 2, high: 3 }, 1));
        assert!(!answer.said(900).unwrap().is_recommended);
        assert_eq!(answer.said(800), None);
    }
}
