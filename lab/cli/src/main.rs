//! The `isotherm-lab` command: parse the command line, run the verb, return its exit code.

#[cfg(test)]
mod documented;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use isotherm_terminal::{EXIT_CODES, Talk};

use crate::verbs::Verb;

/// Plays in real kernels what isotherm simulates, and lays both side by side.
///
/// For developers of isotherm; `isotherm advise --verify` runs it too. Results go to standard output, everything else to standard error.
#[derive(Parser)]
#[command(name = "isotherm-lab", version, max_term_width = 110, arg_required_else_help = true)]
#[command(after_help = format!("{EXIT_CODES}\n\nEach verb has examples: isotherm-lab VERB --help"))]
struct CommandLine {
    #[command(flatten)]
    talk: Talk,
    #[command(subcommand)]
    verb: Verb,
}

fn main() -> ExitCode {
    isotherm_terminal::run(|line: &CommandLine| line.talk, |line, ui| line.verb.run(ui))
}
