//! `isotherm-lab fidelity-promotion`: hint-fault promotion versus the kernel's.

use std::process::ExitCode;

use isotherm_fidelity::versus::promotion::{PASSES, TIER_CASES, compare, real_all, stored};
use isotherm_terminal::{CliError, Ui};

pub(crate) use super::versus::Args;
use super::versus::{print, with_data};

pub(super) const AFTER_HELP: &str = "\
Examples:
  isotherm-lab fidelity-promotion
  isotherm-lab fidelity-promotion --refresh --boots 3 --data promotion.json";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let data = with_data(&args, stored, &real_all, "fidelity-promotion", ui)?;
    let bar = ui.progress("simulating", data.boots.iter().map(|boot| boot.runs.len() as u64).sum());
    let rows = compare(&data, TIER_CASES, PASSES, &mut || bar.inc(1));
    bar.finish_and_clear();
    print(&data.command, &rows.map_err(super::fidelity::error)?, &args, ui)
}
