//! `isotherm doctor`: what works on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_advise::advice::words::folded;
use isotherm_kernel::memory::KernelRelease;
use isotherm_linux::Root;
use isotherm_linux::doctor::{Context, Finding, Part, State, WATCHES, child_main, examine, verdict};
use isotherm_report::{Cell, Column, Table};
use serde::Serialize;

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::{child, undo};
use crate::ui::Ui;

/// Find out which features of isotherm work on this machine, and what the others need.
///
/// Each way of watching is tried on a process of our own: it touches half of its memory, and the check is whether that half is found.
/// Nothing that another process uses is touched; the answer is "busy" then. Exit code 0: a way to watch processes works, and the kernel
/// reports pressure; 4: only in part, or in use by others; 3: no way to watch works. Other missing features do not count.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm doctor
  sudo isotherm doctor
  isotherm doctor --format json

Every probe, what it changes and how to read it: docs/use/watch.md#doctor")]
pub(crate) struct Args {
    #[command(flatten)]
    format: FormatArg,
    /// Check a tree of files in place of this machine.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
    /// Be the process that the probes watch.
    #[arg(long, hide = true)]
    child: bool,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if args.child {
        child_main(&mut std::io::stdin(), &mut std::io::stdout()).map_err(CliError::failed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let root = args.root.map_or_else(Root::default, Root::below);
    let child = if root.is_real() {
        child().map_err(|error| ui.warn(format_args!("nothing can be tried: {error}"))).ok()
    } else {
        None
    };
    let findings = examine(&Context {
        root: &root,
        child: child.as_ref(),
        models: &KernelRelease::ALL.map(KernelRelease::name),
        undo,
    });
    drop(child);
    let verdict = verdict(&findings);
    print(&findings, verdict, args.format.format, ui)?;
    Ok(ExitCode::from(match verdict {
        State::Works => 0,
        State::Partly | State::Busy => 4,
        State::Missing => 3,
    }))
}

fn print(findings: &[Finding], verdict: State, format: Format, ui: &Ui) -> Result<(), CliError> {
    if format == Format::Json {
        #[derive(Serialize)]
        struct Document<'a> {
            verdict: State,
            findings: &'a [Finding],
        }
        let text = serde_json::to_string_pretty(&Document { verdict, findings }).map_err(CliError::failed)?;
        return ui.print_data(format_args!("{text}\n"));
    }
    if format == Format::Csv {
        let mut table = Table::new("", ["part", "name", "state", "words", "fix"].map(Column::text).to_vec());
        for finding in findings {
            let fix = finding.fix.clone().unwrap_or_default();
            let cells = [
                part(finding.part).to_owned(),
                finding.name.to_owned(),
                state(finding.state).to_owned(),
                finding.words.clone(),
                fix,
            ];
            table.push(cells.map(Cell::Text).to_vec());
        }
        return ui.print_data(table.to_csv());
    }
    let mut last = None;
    for finding in findings {
        if last.replace(finding.part) != Some(finding.part) {
            ui.print(format_args!("{}\n", part(finding.part)))?;
        }
        let text = format!("{}: {}", finding.name, finding.words);
        let bullet = format!("  {:<8} ", state(finding.state));
        ui.print(format_args!("{}\n", folded(&text, &bullet, ui.columns())))?;
        if let (Some(fix), true) = (&finding.fix, finding.state != State::Works) {
            ui.print(format_args!("{}\n", folded(fix, "           → ", ui.columns())))?;
        }
    }
    ui.print(format_args!("\n{}\n", folded(&words(findings, verdict), "", ui.columns())))
}

fn words(findings: &[Finding], verdict: State) -> String {
    let state = |name: &str| findings.iter().find(|finding| finding.name == name).map(|finding| finding.state);
    let works = |name: &str| state(name) == Some(State::Works);
    let sources: Vec<_> = WATCHES.into_iter().zip(["damon", "module", "clear-refs"]).collect();
    let watch = match sources.iter().find(|(name, _)| works(name)) {
        Some((_, source)) => format!("isotherm monitor takes --source {source}"),
        None if verdict == State::Partly => "no way of watching worked fully here".to_owned(),
        None => "nothing here shows which memory is used".to_owned(),
    };
    let record = if works("accessed-bit module") { "record --pid works" } else { "record --pid needs the module" };
    let advise = if works("generations") && state("cgroup v2").is_some_and(|state| state != State::Missing) {
        "advise --cgroup works"
    } else {
        "advise --cgroup needs generations and cgroup v2"
    };
    format!("{watch}; {record}; {advise}; top shows what these give.")
}

fn part(part: Part) -> &'static str {
    match part {
        Part::Machine => "This machine",
        Part::Watching => "Watching",
        Part::Acting => "Acting",
        Part::Numbers => "Numbers",
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Works => "works",
        State::Partly => "partly",
        State::Busy => "busy",
        State::Missing => "missing",
    }
}
