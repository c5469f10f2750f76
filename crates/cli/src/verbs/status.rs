//! `isotherm daemon status`: what the daemon does.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_units::{Bytes, Duration};

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::daemon::{Answer, Ask, Heard, RUN, Running, Told, ask, pace_words, stalled_words, told};
use crate::ui::Ui;

/// Show the daemon's sections, what they asked for and what was done, and why nothing happened.
///
/// The daemon is asked at its control socket, and tells the state of now. One that has none, or does not answer, has written its state to a
/// file at most five seconds ago.
///
/// Exit code 0: a daemon is at work; 1: none is; 3: whether one is cannot be seen by this user; 4: it is, and nothing acts now.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm daemon status
  isotherm daemon status --format json")]
pub(crate) struct Args {
    /// Folder of the lock, the control socket and the state.
    #[arg(long, value_name = "DIR", default_value = RUN)]
    run_dir: PathBuf,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let daemon = Running::find(&args.run_dir)?;
    let told = state(&args, &daemon, ui)?;
    if args.format.format == Format::Json {
        let text = serde_json::to_string_pretty(&told).map_err(CliError::failed)?;
        ui.print_data(format_args!("{text}\n"))?;
    } else {
        ui.print(words(&told, daemon.pid()))?;
    }
    Ok(ExitCode::from(if told.status.paused.is_none() { 0 } else { 4 }))
}

/// The state of now, or the last one that was written.
fn state(args: &Args, daemon: &Running, ui: &Ui) -> Result<Told, CliError> {
    match ask(&args.run_dir, daemon, Ask::Status)? {
        Heard::Answer(Answer::Status(told)) => return Ok(*told),
        Heard::Answer(_) | Heard::NotAsked => {}
        Heard::Unknown(why) => ui.warn(format_args!("{why}: this is what it wrote last")),
    }
    told(&args.run_dir, daemon)
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
    for stalled in &status.stalled {
        line(stalled_words(stalled));
    }
    for section in &status.sections {
        line(String::new());
        line(format!("{} ({})", section.section, section.engine));
        line(format!("  state: {}", section.state));
        if section.stretch > 1 {
            line(format!("  runs {}", pace_words(section.stretch)));
        }
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
