//! `isotherm convert make`.

use isotherm_scenario::Progress;
use isotherm_terminal::BarProgress;
use isotherm_units::{Bytes, Duration};
use isotherm_workload::synthetic::{MadeTrace, write_made};

use super::OutputArg;
use crate::error::CliError;
use crate::ui::Ui;

/// Make a page trace of a program that never ran, of any length and size.
///
/// For measuring: a service that fills its memory, then answers requests whose pages are drawn by a Zipf distribution that drifts over
/// memory, with a scan now and then. Equal options give equal files. It says nothing about real programs.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    output: OutputArg,
    /// Memory of the program.
    #[arg(long, default_value = "8GiB", value_name = "SIZE")]
    footprint: Bytes,
    /// Page touches, each page once in 10 ms.
    #[arg(long, default_value_t = 40_000_000, value_name = "COUNT")]
    touches: u64,
    /// CPU time of the program.
    #[arg(long, default_value = "10min", value_name = "TIME")]
    length: Duration,
    /// Exponent of the Zipf distribution, 0 (even) to 1.99; key-value stores are often taken to have 0.99.
    #[arg(long, default_value_t = 0.99, value_name = "NUMBER")]
    theta: f64,
    /// Seed of chance: the same one makes the same trace.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm convert make -o long.parquet
  isotherm convert make --footprint 64MiB --touches 1000000 --length 30s -o small.parquet
  isotherm convert make --footprint 64GiB --touches 1000000000 --length 1h -o huge.parquet";

/// Memory that a trace is made for, at most: its pages are held as 4 bytes each.
const FOOTPRINT_MAX: Bytes = Bytes::from_gib(4096);

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let Args { footprint, touches, length, theta, seed, .. } = *args;
    let bad = |what: &str| Err(CliError::usage(what.to_owned()));
    if !(Bytes::from_kib(4)..=FOOTPRINT_MAX).contains(&footprint) {
        return bad(&format!("--footprint {footprint}: allowed: 4KiB to {FOOTPRINT_MAX}"));
    }
    if !(0.0..2.0).contains(&theta) {
        return bad(&format!("--theta {theta}: allowed: 0 to 1.99"));
    }
    if !(Duration::from_ms(20)..=Duration::from_secs(30 * 86_400)).contains(&length) {
        return bad(&format!("--length {length}: allowed: 20ms to 30 days"));
    }
    if touches < footprint.pages_ceil().get() {
        return bad(&format!(
            "--touches {touches}: fewer than the {} pages of the footprint, each of which is touched",
            footprint.pages_ceil().get()
        ));
    }
    let bar = BarProgress::new(ui, "making");
    let made = MadeTrace { footprint, touches, length, theta, seed };
    bar.planned(made.epochs());
    let meta = write_made(args.output.path()?, &made, || bar.done(1));
    bar.finish();
    let meta = meta?;
    ui.say(format_args!("{} touches in {} rows: {}", meta.accesses, meta.rows, args.output.output.display()));
    Ok(())
}
