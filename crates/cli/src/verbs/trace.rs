//! `isotherm trace`: parts of page traces and region records, and several put together. One file for each and one line in the
//! table.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_trace::TraceMeta;
use isotherm_trace::export::EXPORTERS;
use isotherm_trace::region::{RecordFormat, RecordMeta, Warning};

use crate::error::CliError;
use crate::ui::Ui;

mod cut;
mod filter;
mod make;
mod merge;
mod sample;

pub(super) use filter::write_trace;

/// Cut a page trace or a region record in time, filter it, sample its memory, merge several, or make one.
///
/// The output is a finished file of the same kind, also of one that was not. What was dropped is among its notes.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm trace cut app.parquet --from 2s --to 5s -o middle.parquet
  isotherm trace cut app.parquet --from 10% -o warm.parquet
  isotherm trace filter app.parquet --process redis-server --mapping heap -o heap.parquet
  isotherm trace filter app.parquet --range 0x7f3a00000000-0x7f3a40000000 --writes -o written.parquet
  isotherm trace merge a.parquet b.parquet -o both.parquet
  isotherm trace sample app.parquet --sample 1/16 -o small.parquet
  isotherm trace make --footprint 8GiB --touches 40000000 --length 10min -o made.parquet
  isotherm trace cut damon.data --from 10s --to 20s -o regions.parquet

What happens to state that began before a window: docs/mechanism/formats.md";

#[derive(clap::Subcommand)]
enum What {
    Cut(cut::Args),
    Filter(filter::Args),
    Make(make::Args),
    Merge(merge::Args),
    Sample(sample::Args),
}

/// Runs the verb.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    super::unfinished::remove_on_signal()?;
    match args.what {
        What::Cut(args) => cut::run(&args, ui),
        What::Filter(args) => filter::run(&args, ui),
        What::Make(args) => make::run(&args, ui),
        What::Merge(args) => merge::run(&args, ui),
        What::Sample(args) => sample::run(&args, ui),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// The file to write; for `#[command(flatten)]`.
#[derive(Debug, clap::Args)]
struct OutputArg {
    /// The file to write (Parquet).
    #[arg(long, short, value_name = "OUTPUT")]
    output: PathBuf,
}

impl OutputArg {
    /// The path, unless its ending says another format than the one that is written.
    fn path(&self) -> Result<&Path, CliError> {
        let name = self.output.to_string_lossy().to_lowercase();
        let is_other = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        let trace = EXPORTERS.iter().any(|exporter| exporter.name != "parquet" && is_other(exporter.endings));
        if trace || RecordFormat::of(&self.output) == Some(RecordFormat::Json) {
            let output = self.output.display();
            return Err(CliError::usage(format!(
                "`{output}` has the ending of another format; this writes parquet. Take another name, and `isotherm export` then"
            )));
        }
        Ok(&self.output)
    }
}

fn say_trace(output: &Path, meta: &TraceMeta, ui: &Ui) {
    ui.say(format_args!("{}: {} rows, {} page accesses", output.display(), meta.rows, meta.accesses));
    meta.notes.iter().for_each(|note| ui.say(format_args!("note: {note}")));
}

/// `warned`: what has been said as a warning, and is among the notes too.
fn say_record(output: &Path, meta: &RecordMeta, warned: &[Warning], ui: &Ui) {
    ui.say(format_args!("{}: {} snapshots, {} regions", output.display(), meta.snapshots, meta.regions));
    let warned: Vec<String> = warned.iter().map(Warning::to_string).collect();
    let notes = meta.notes.iter().filter(|note| !warned.contains(note));
    notes.for_each(|note| ui.say(format_args!("note: {note}")));
}
