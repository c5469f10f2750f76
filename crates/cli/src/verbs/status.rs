//! `isotherm daemon status`: what the daemon does.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_units::text::printable_lines;
use isotherm_units::{Bytes, Duration};

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::daemon::{RUN, Running, Told, told};
use crate::ui::Ui;

/// Show the daemon's sections, what they asked for and what was done, and why nothing happened.
///
/// Exit code 0: a daemon is at work; 1: no daemon runs; 3: this user cannot see whether one runs; 4: it is at work, and no section may act
/// now.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm daemon status
  isotherm daemon status --format json")]
pub(crate) struct Args {
    /// Folder of the lock and the state.
    #[arg(long, value_name = "DIR", default_value = RUN)]
    run_dir: PathBuf,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let daemon = Running::find(&args.run_dir)?;
    let (text, told) = told(&args.run_dir, &daemon)?;
    if args.format.format == Format::Json {
        ui.print(format_args!("{text}\n"))?;
    } else {
        ui.print(printable_lines(&words(&told, daemon.pid())))?;
    }
    Ok(ExitCode::from(if told.status.paused.is_none() { 0 } else { 4 }))
}

fn words(told: &Told, pid: i32) -> String {
    use std::fmt::Write as _;
    let size = |bytes: u64| Bytes::new(bytes).approx();
    let time = |ns: u64| Duration::from_ns(ns).approx();
    let Told { configuration, dry_run, status, .. } = told;
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("a string takes all");
    let dry = if *dry_run { ", a dry run" } else { "" };
    line(format!("daemon: process {pid}, {}{dry}", configuration.display()));
    if let Some(age) = told.age {
        line(format!("as of {} ago", age.approx()));
    }
    line(format!(
        "since {}, {} of CPU time, {} resident, longest turn {}",
        time(status.since_start_ns),
        time(status.cpu_ns),
        size(status.resident_bytes.unwrap_or(0)),
        time(status.longest_turn_ns),
    ));
    if let Some(why) = &status.paused {
        line(format!("nothing acts: {why}"));
    }
    if status.stretch > 1 {
        line(format!("sections run {} times less often, to stay within max-cpu", status.stretch));
    }
    for section in &status.sections {
        line(String::new());
        line(format!("{} ({})", section.section, section.engine));
        line(format!("  state: {}", section.state));
        let targets = section.targets.join(", ");
        line(format!("  groups: {}", if targets.is_empty() { "none" } else { &targets }));
        line(format!(
            "  {} runs; {} asked for, {} went, {} refusals",
            section.runs,
            size(section.asked_bytes),
            size(section.verified_bytes),
            section.refused
        ));
        if let Some(ns) = section.since_acted_ns {
            line(format!("  last acted {} ago", time(ns)));
        }
        for said in &section.words {
            line(format!("  {said}"));
        }
    }
    out
}
