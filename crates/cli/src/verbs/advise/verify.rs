//! `isotherm advise --verify`: replays the recommendation on a real kernel, by `isotherm-lab`.

use std::ffi::OsString;
use std::path::Path;

use isotherm_advise::{Advice, Interval};
use isotherm_kernel::memory::KernelRelease;
use isotherm_report::{Cell, Column, Table, Unit};
use serde::Deserialize;

use crate::error::CliError;
use crate::lab::Lab;
use crate::ui::Ui;

/// Finds the lab, and has it check that it has everything it needs, so that an error is reported before anything is replayed.
pub(super) fn ready(releases: &[KernelRelease], ui: &Ui) -> Result<Lab, CliError> {
    let lab = Lab::find("--verify plays on real kernels")?;
    let names = releases.iter().map(|release| release.name());
    lab.run(&["rig", "ready"].into_iter().chain(names).collect::<Vec<_>>(), ui)?;
    Ok(lab)
}

/// A recommendation at one size, on one release.
#[derive(serde::Serialize)]
pub(super) struct Verified {
    kernel: KernelRelease,
    /// Configuration.
    candidate: &'static str,
    /// `memory.max` of the recorded pages.
    memory_bytes: u64,
    /// It in thousandths of the recommended.
    of_recommended_permil: u64,
    /// Major faults as predicted.
    predicted: Interval,
    /// Major faults that the real kernel counted; absent when the program was killed.
    real: Option<u64>,
    /// Whether the measured faults are at most the predicted ones.
    holds: bool,
}

/// Results that the lab prints, in the order of the plays.
#[derive(Deserialize)]
struct Played {
    rows: Vec<PlayedRow>,
}

#[derive(Deserialize)]
struct PlayedRow {
    major_faults: Option<u64>,
}

/// Plays each answer's recommendation, 3 % less and 3 % more, in the kernel of its release.
pub(super) fn verify(lab: &Lab, answers: &[Advice], trace: &Path, ui: &Ui) -> Result<Vec<Verified>, CliError> {
    let mut verified: Vec<Verified> = answers.iter().flat_map(to_verify).collect();
    if verified.is_empty() {
        return Ok(verified);
    }
    let mut arguments: Vec<OsString> = vec!["verify".into(), "--format=json".into()];
    arguments.push(format!("--name={}", answers[0].program).into());
    for row in &verified {
        let policy = row.candidate.split(" + ").next().unwrap_or_default();
        arguments.push(format!("--play={}/{policy}/{}", row.kernel, row.memory_bytes).into());
    }
    arguments.extend(["--".into(), trace.into()]);
    let printed = lab.run(&arguments, ui)?;
    let Played { rows } = serde_json::from_slice(&printed)
        .map_err(|error| CliError::failed(error).while_doing("isotherm-lab verify printed what is no result of it"))?;
    if rows.len() != verified.len() {
        let (got, wanted) = (rows.len(), verified.len());
        return Err(CliError::failed(format!("isotherm-lab verify printed {got} rows for {wanted} plays")));
    }
    for (row, played) in verified.iter_mut().zip(rows) {
        row.real = played.major_faults;
        row.holds = played.major_faults.is_some_and(|counted| counted <= row.predicted.high);
    }
    Ok(verified)
}

/// An answer's recommendation and its neighbours of 3 %, not played yet.
fn to_verify(advice: &Advice) -> Vec<Verified> {
    let Some(best) = &advice.recommendation else { return Vec::new() };
    let near = best.neighbours.iter().map(|one| (one.of_recommended_permil, one.memory_bytes, one.major_faults));
    let mut sizes: Vec<(u64, u64, Interval)> = near.filter(|(permil, ..)| *permil <= 1030).collect();
    sizes.push((1000, best.memory_bytes, best.major_faults));
    sizes.sort_by_key(|(permil, ..)| *permil);
    let of = |(of_recommended_permil, memory_bytes, predicted)| Verified {
        kernel: advice.kernel,
        candidate: best.candidate,
        memory_bytes,
        of_recommended_permil,
        predicted,
        real: None,
        holds: false,
    };
    sizes.into_iter().map(of).collect()
}

/// Predicted next to real.
pub(super) fn table(verified: &[Verified]) -> Table {
    let columns = vec![
        Column::text("kernel"),
        Column::text("configuration"),
        Column::number("memory", Unit::Bytes),
        Column::number("of recommended", Unit::Ppm),
        Column::number("predicted median", Unit::Count),
        Column::number("at least", Unit::Count),
        Column::number("at most", Unit::Count),
        Column::number("real", Unit::Count),
        Column::text("holds"),
    ];
    let mut table = Table::new("Major faults on a real kernel, one boot", columns);
    for row in verified {
        table.push(vec![
            Cell::from(row.kernel.name()),
            Cell::from(row.candidate),
            row.memory_bytes.into(),
            (row.of_recommended_permil * 1000).into(),
            row.predicted.median.into(),
            row.predicted.low.into(),
            row.predicted.high.into(),
            row.real.into(),
            Cell::from(if row.holds { "yes" } else { "no" }),
        ]);
    }
    table
}
