//! `isotherm daemon status`: what the daemon does.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_units::{Bytes, Duration};

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::daemon::{RUN, Running, told};
use crate::ui::Ui;

/// Tell what the daemon does: its sections, what they asked for and what went, and why nothing happened.
///
/// Exit code 0: a daemon is at work; 1: none is; 4: it is, and nothing acts now.
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
    let (text, _) = told(&args.run_dir)?;
    if args.format.format == Format::Json {
        ui.print(format_args!("{text}\n"))?;
    } else {
        ui.print(words(&text, daemon.pid())?)?;
    }
    let state: serde_json::Value = serde_json::from_str(&text).map_err(CliError::failed)?;
    Ok(ExitCode::from(if state["paused"].is_null() { 0 } else { 4 }))
}

fn words(text: &str, pid: i32) -> Result<String, CliError> {
    use std::fmt::Write as _;
    let state: serde_json::Value = serde_json::from_str(text).map_err(CliError::failed)?;
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
    let size = |value: &serde_json::Value| Bytes::new(number(value)).approx().to_string();
    let time = |value: &serde_json::Value| Duration::from_ns(number(value)).approx().to_string();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("?").to_owned();
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("a string takes all");
    let dry = if state["dry_run"] == true { ", a dry run" } else { "" };
    line(format!("daemon: process {pid}, {}{dry}", word(&state["configuration"])));
    line(format!(
        "since {}, {} of CPU time, {} resident, longest turn {}",
        time(&state["since_start_ns"]),
        time(&state["cpu_ns"]),
        size(&state["resident_bytes"]),
        time(&state["longest_turn_ns"]),
    ));
    if let Some(why) = state["paused"].as_str() {
        line(format!("nothing acts: {why}"));
    }
    if number(&state["stretch"]) > 1 {
        line(format!("sections run {} times less often, to stay within max-cpu", number(&state["stretch"])));
    }
    for section in state["sections"].as_array().into_iter().flatten() {
        line(String::new());
        line(format!("{} ({})", word(&section["section"]), word(&section["engine"])));
        line(format!("  state: {}", word(&section["state"])));
        let targets: Vec<&str> =
            section["targets"].as_array().into_iter().flatten().filter_map(|target| target.as_str()).collect();
        line(format!("  groups: {}", if targets.is_empty() { "none".to_owned() } else { targets.join(", ") }));
        line(format!(
            "  {} runs; {} asked for, {} went, {} refusals",
            number(&section["runs"]),
            size(&section["asked_bytes"]),
            size(&section["verified_bytes"]),
            number(&section["refused"])
        ));
        for said in section["words"].as_array().into_iter().flatten().filter_map(|said| said.as_str()) {
            line(format!("  {said}"));
        }
    }
    Ok(out)
}
