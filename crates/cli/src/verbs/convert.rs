//! `isotherm convert`: imports and exports other formats; cuts, merges and scrubs page traces and region records. Each verb is one file
//! and one line in the table.

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

use super::{export, import, scrub};

/// Take recordings from and to other formats; cut, filter, sample, merge and scrub them.
///
/// The output is always a finished file, even if the input was not finished. Its notes say which rows were dropped.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm convert import lackey.log -o app.parquet
  isotherm convert export app.parquet -o app.csv
  isotherm convert cut app.parquet --from 2s --to 5s -o middle.parquet
  isotherm convert cut app.parquet --from 10% -o warm.parquet
  isotherm convert cut damon.data --from 10s --to 20s -o regions.parquet
  isotherm convert filter app.parquet --process redis-server --mapping heap -o heap.parquet
  isotherm convert filter app.parquet --range 0x7f3a00000000-0x7f3a40000000 --writes -o written.parquet
  isotherm convert merge a.parquet b.parquet -o both.parquet
  isotherm convert sample app.parquet --sample 1/16 -o small.parquet
  isotherm convert make --footprint 8GiB --touches 40000000 --length 10min -o made.parquet
  isotherm convert scrub app.parquet -o shared.parquet

What happens to state that began before a window: docs/mechanism/formats.md";

#[derive(clap::Subcommand)]
enum What {
    Import(import::Args),
    Export(export::Args),
    Cut(cut::Args),
    Filter(filter::Args),
    Merge(merge::Args),
    Sample(sample::Args),
    Make(make::Args),
    Scrub(scrub::Args),
}

/// Runs the verb.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    super::unfinished::remove_on_signal()?;
    match args.what {
        What::Import(args) => return import::run(args, ui),
        What::Export(args) => return export::run(args, ui),
        What::Scrub(args) => return scrub::run(args, ui),
        What::Cut(args) => cut::run(&args, ui),
        What::Filter(args) => filter::run(&args, ui),
        What::Merge(args) => merge::run(&args, ui),
        What::Sample(args) => sample::run(&args, ui),
        What::Make(args) => make::run(&args, ui),
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
    /// The path, unless its ending names another format than the one that is written.
    fn path(&self) -> Result<&Path, CliError> {
        let name = self.output.to_string_lossy().to_lowercase();
        let is_other = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        let trace = EXPORTERS.iter().any(|exporter| exporter.name != "parquet" && is_other(exporter.endings));
        if trace || RecordFormat::of(&self.output) == Some(RecordFormat::Json) {
            let output = self.output.display();
            return Err(CliError::usage(format!(
                "`{output}` has the ending of another format; this writes parquet. Take another name, and `isotherm convert export` then"
            )));
        }
        Ok(&self.output)
    }
}

fn say_trace(output: &Path, meta: &TraceMeta, ui: &Ui) {
    ui.say(format_args!("{}: {} rows, {} page accesses", output.display(), meta.rows, meta.accesses));
    meta.notes.iter().for_each(|note| ui.say(format_args!("note: {note}")));
}

/// `warned`: text that was already printed as a warning, and is among the notes too.
fn say_record(output: &Path, meta: &RecordMeta, warned: &[Warning], ui: &Ui) {
    ui.say(format_args!("{}: {} snapshots, {} regions", output.display(), meta.snapshots, meta.regions));
    let warned: Vec<String> = warned.iter().map(Warning::to_string).collect();
    let notes = meta.notes.iter().filter(|note| !warned.contains(note));
    notes.for_each(|note| ui.say(format_args!("note: {note}")));
}
