//! The `isotherm` command: parse the command line, run the verb, report the result.

#[cfg(test)]
mod documented;
mod kernel;
mod lab;
mod live;
mod python;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use isotherm_terminal::{EXIT_CODES, Talk, error, format, ui};

use crate::verbs::Verb;

/// Finds out which memory is hot and which is cold, and how much of it a program needs.
///
/// Results go to standard output, everything else to standard error. Sizes and times carry units: 1.5GiB, 5ms, 75%.
#[derive(Parser)]
#[command(name = "isotherm", version, long_version = LONG_VERSION, max_term_width = 110, arg_required_else_help = true)]
#[command(help_template = verbs::help_template())]
#[command(after_help = format!("{EXIT_CODES}\n\nEach verb has examples: isotherm VERB --help"))]
struct CommandLine {
    #[command(flatten)]
    talk: Talk,
    #[command(subcommand)]
    verb: Verb,
}

/// The version, with the commit and build that it comes from (build.rs).
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("ISOTHERM_COMMIT"),
    "\nbuild:  ",
    env!("ISOTHERM_PROFILE"),
    ", ",
    env!("ISOTHERM_TARGET"),
    ", ",
    env!("ISOTHERM_RUSTC")
);

/// The command line, for code that generates text from it.
pub(crate) fn command_line() -> clap::Command {
    <CommandLine as clap::CommandFactory>::command()
}

fn main() -> ExitCode {
    isotherm_terminal::run(|line: &CommandLine| line.talk, |line, ui| line.verb.run(ui))
}
