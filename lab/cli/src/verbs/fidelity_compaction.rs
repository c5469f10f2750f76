//! `isotherm-lab fidelity-compaction`: compaction and huge pages versus the kernel's.

use std::process::ExitCode;

use isotherm_fidelity::versus::compaction::{CASES, compare, real_all, stored};
use isotherm_terminal::{CliError, Ui};

pub(crate) use super::versus::Args;
use super::versus::{print, with_data};

pub(super) const AFTER_HELP: &str = "\
Examples:
  isotherm-lab fidelity-compaction
  isotherm-lab fidelity-compaction --refresh --boots 1 --data compaction.json";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let data = with_data(&args, stored, &real_all, "fidelity-compaction", ui)?;
    let bar = ui.progress("simulating", data.boots.iter().map(|boot| boot.runs.len() as u64).sum());
    let rows = compare(&data, &CASES, &mut || bar.inc(1));
    bar.finish_and_clear();
    print(&data.command, &rows.map_err(super::fidelity::error)?, &args, ui)
}
