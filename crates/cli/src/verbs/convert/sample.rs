//! `isotherm convert sample`.

use std::path::PathBuf;

use isotherm_trace::TraceReader;
use isotherm_trace::sample::{SampleRate, write_sample};

use super::OutputArg;
use crate::error::CliError;
use crate::ui::Ui;

/// Keep a part of the memory, packed together: a small trace that stands for a large one.
///
/// One of N groups of pages (256 KiB each) is kept, evenly over all memory and all files. A replay on a machine with `sample = N` counts
/// each page for N. `isotherm advise --sample` does both.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A page trace, finished or not.
    #[arg(value_name = "FILE")]
    input: PathBuf,
    #[command(flatten)]
    output: OutputArg,
    /// The part to keep, 1/2 to 1/1024.
    #[arg(long, value_name = "1/N")]
    sample: SampleRate,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm convert sample app.parquet --sample 1/16 -o small.parquet
  isotherm report info small.parquet

How well a sample stands for the whole: docs/use/advise.md#samples";

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let output = args.output.path()?;
    let mut reader = TraceReader::open(&args.input)?;
    let bar = ui.progress("reading rows", reader.meta().rows);
    let written = write_sample(&mut reader, args.sample, output, |rows| bar.inc(rows));
    bar.finish_and_clear();
    super::say_trace(output, &written?, ui);
    Ok(())
}
