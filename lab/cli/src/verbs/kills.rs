//! `isotherm-lab kills`: what a restore makes of a machine that changed after the daemon was killed.

use std::process::ExitCode;

use isotherm_fidelity::versus::live_restores::{RestoreRun, restores};
use isotherm_guest::restoring::RestoreState;
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, FormatArg, Ui};

use super::in_kernels::InKernels;

/// Kill `isotherm daemon run` at random moments inside real kernels, bring the machine into a state, and see what `isotherm restore` makes
/// of it.
///
/// States: the disk of the journal is full; it can only be read; zeros follow the journal's last line; a group was removed and made again
/// with a limit of its administrator; the machine was rebooted. After each restore all files of /proc and /sys that can be set are compared
/// with what they must hold. Exit code 1: a knob does not, or an exit code of `isotherm restore` does not say what happened.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm-lab kills
  isotherm-lab kills --moments 40
  isotherm-lab kills --kernel 6.12 --state disk-full,other-boot --seed 7 --format json

Needs what `isotherm-lab live` needs.")]
pub(crate) struct Args {
    /// Moments of each state.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    moments: u64,
    /// Only these states: disk-full, read-only, zeroed-tail, group-made-again, other-boot.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<RestoreState>,
    /// Seed of the moments.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    place: InKernels,
    #[command(flatten)]
    format: FormatArg,
}

tidy!(RestoreRun, restored);

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    args.place.check()?;
    let states = if args.state.is_empty() { RestoreState::ALL.to_vec() } else { args.state.clone() };
    let runs = args.place.each(
        "killing",
        &states,
        |state| state.name().to_owned(),
        |rig, product, &state| restores(rig, product, &[state], args.moments, args.seed).map(|mut runs| runs.pop()),
        ui,
    )?;
    let done = runs.put_out(&table(&runs.done), args.format.format, ui)?;
    let wrong: Vec<&String> = runs.done.iter().flat_map(|run| &run.restored.codes_wrong).collect();
    match wrong.first() {
        None => Ok(done),
        Some(first) => Err(CliError::failed(format!("{} exit codes are wrong; the first: {first}", wrong.len()))),
    }
}

/// A state by its name, with hyphens in the place of blanks.
fn state(text: &str) -> Result<RestoreState, String> {
    let name = |state: &RestoreState| state.name().replace(' ', "-");
    let known = || RestoreState::ALL.iter().map(name).collect::<Vec<_>>().join(", ");
    let found = RestoreState::ALL.into_iter().find(|state| name(state) == text);
    found.ok_or_else(|| format!("no such state; allowed: {}", known()))
}

fn table(runs: &[RestoreRun]) -> Table {
    let mut columns = ["state", "kernel"].map(Column::text).to_vec();
    let counts = ["moments", "knobs changed then", "as before", "not ours untouched"];
    columns.extend(counts.map(|name| Column::number(name, Unit::Count)));
    columns.extend(["exit codes", "of the second"].map(Column::text));
    let mut table = Table::new("`isotherm restore` after the daemon was killed", columns);
    for RestoreRun { kernel, restored } in runs {
        table.push(vec![
            Cell::from(restored.state.name()),
            Cell::from(kernel.as_str()),
            restored.moments.into(),
            restored.changed_when_killed.into(),
            restored.as_before.into(),
            restored.others_untouched.into(),
            Cell::from(counted(&restored.codes)),
            Cell::from(counted(&restored.codes_again)),
        ]);
    }
    table
}

/// `4 (31 times), 0 (9 times)` as `4: 31, 0: 9`.
fn counted(codes: &std::collections::BTreeMap<String, u64>) -> String {
    codes.iter().map(|(code, times)| format!("{code}: {times}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_guest::restoring::Restored;

    #[test]
    fn states_have_names_without_blanks() {
        assert_eq!(state("group-made-again"), Ok(RestoreState::GroupMadeAgain));
        let error = state("power-cut").unwrap_err();
        assert!(error.contains("allowed: disk-full, read-only, zeroed-tail, group-made-again, other-boot"), "{error}");
    }

    #[test]
    fn a_row_counts_exit_codes() {
        let codes = [("0".to_owned(), 3), ("4".to_owned(), 37)].into();
        let restored = Restored { moments: 40, as_before: 40, codes, ..Restored::new(RestoreState::ReadOnly) };
        let run = RestoreRun { kernel: "6.12.1".to_owned(), restored };
        let json: serde_json::Value = serde_json::from_str(&table(&[run]).to_json()).unwrap();
        let row = &json["rows"][0];
        assert_eq!((row["state"].as_str(), row["exit_codes"].as_str()), (Some("read-only"), Some("0: 3, 4: 37")));
    }
}
