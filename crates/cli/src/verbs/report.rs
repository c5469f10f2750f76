//! `isotherm report`: shows a page trace, a region record or the kernel's text as pictures and tables. Each view is one file
//! and one line in the table; verbs that explain, judge and compare runs have their own files next to this one.

use std::process::ExitCode;

use crate::error::CliError;
use crate::ui::Ui;

mod access;
mod at;
mod compare;
mod fragmentation;
mod generations;
mod heatmap;
mod hot;
mod idle;
mod info;
mod input;
mod mrc;
mod output;
mod wss;

/// Show from a page trace or a region record which memory was in use, when and how often; or how far free memory is scattered.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm report info traces/sqlite.parquet
  isotherm report heatmap traces/sqlite.parquet
  isotherm report heatmap traces/sqlite.parquet --svg heatmap.svg
  isotherm report wss traces/sqlite.parquet --window 100ms --html wss.html
  isotherm report mrc traces/sqlite.parquet --format csv
  isotherm report generations traces/redis.parquet --interval 200ms
  isotherm report heatmap damon.data --from 10s --to 20s
  isotherm report wss traces/redis.parquet --from 25% --to 75% --mapping heap
  isotherm report access damon.data --at last --sort temperature
  isotherm report idle damon.data --at all --svg idle.svg
  isotherm report idle traces/redis.parquet --at 2s
  isotherm report compare before.regions.parquet after.regions.parquet
  isotherm report fragmentation /proc/buddyinfo
  isotherm report explain my-service.toml
  isotherm report accuracy traces/sqlite.parquet --advise
  isotherm report results before.json after.json

How to read the pictures: docs/use/report.md";

/// Makes the enum that clap parses and the call of each view from one table.
macro_rules! views {
    ($($variant:ident => $module:ident,)*) => {
        #[derive(clap::Subcommand)]
        enum What {
            $($variant($module::Args),)*
            Explain(super::explain::Args),
            Accuracy(super::accuracy::Args),
            Results(super::compare::Args),
        }

        /// Runs the verb.
        pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
            super::unfinished::remove_on_signal()?;
            match args.what {
                $(What::$variant(args) => $module::run(&args, ui),)*
                What::Explain(args) => return super::explain::run(args, ui),
                What::Accuracy(args) => return super::accuracy::run(args, ui),
                What::Results(args) => return super::compare::run(args, ui),
            }?;
            Ok(ExitCode::SUCCESS)
        }
    };
}

views! {
    Heatmap => heatmap,
    Wss => wss,
    Mrc => mrc,
    Hot => hot,
    Idle => idle,
    Access => access,
    Fragmentation => fragmentation,
    Generations => generations,
    Compare => compare,
    Info => info,
}
