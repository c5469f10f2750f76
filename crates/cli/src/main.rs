//! The `isotherm` command: parse the command line, run the verb, say how it ended.

#[cfg(test)]
mod documented;
mod error;
mod format;
mod kernel;
mod ui;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use crate::error::CliError;
use crate::ui::{ColourChoice, Ui};
use crate::verbs::Verb;

/// Finds out which memory is hot and which is cold, and how much of it a program needs.
///
/// Results go to standard output, everything else to standard error. Sizes and times carry units: 1.5GiB, 5ms, 75%.
#[derive(Parser)]
#[command(name = "isotherm", version, max_term_width = 110, arg_required_else_help = true, after_help = AFTER_HELP)]
struct CommandLine {
    /// Say nothing but results, warnings and errors.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Colour the output. `auto`: on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, alias = "colour", value_enum, value_name = "WHEN", default_value_t)]
    color: ColourChoice,
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line or an input asks for something that is not allowed
  3  this host cannot do it (the message says what is missing)
  4  done in part (the message says what is missing)

Each verb has examples: isotherm VERB --help";

fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(help_or_error) => return ui::print_clap(&help_or_error),
    };
    let ui = Ui::new(line.quiet, line.color);
    match line.verb.run(&ui) {
        Ok(code) => code,
        Err(CliError::NobodyReads) => ExitCode::SUCCESS,
        Err(error) => {
            ui.print_error(&error);
            error.exit_code()
        }
    }
}
