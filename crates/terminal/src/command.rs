//! A whole command: common flags, its verbs, its exit code.

use std::process::ExitCode;

use clap::Parser;

use crate::error::CliError;
use crate::onto;
use crate::ui::{self, ColourChoice, Ui};

/// Flags that each command and each verb takes; for `#[command(flatten)]`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Talk {
    /// Print only results, warnings and errors.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Colour the output: always, never, or auto: on a terminal, unless NO_COLOR is set [default: auto].
    #[arg(long, global = true, alias = "colour", value_enum, value_name = "WHEN", default_value_t)]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    color: ColourChoice,
}

/// Part of each command's help.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line or an input asks for something that is not allowed
  3  this host cannot do it (the message says what is missing)
  4  done in part (the message says what is missing)";

/// Parses the command line, runs its verb and returns its exit code: the body of `main`.
pub fn run<Line: Parser>(
    talk: impl FnOnce(&Line) -> Talk,
    verb: impl FnOnce(Line, &Ui) -> Result<ExitCode, CliError>,
) -> ExitCode {
    let parsed = Line::command().try_get_matches().and_then(|matches| Ok((Line::from_arg_matches(&matches)?, matches)));
    let (line, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(help_or_error) => return ui::print_clap(&help_or_error.format(&mut Line::command())),
    };
    let talk = talk(&line);
    let ui = Ui::new(talk.quiet, talk.color);
    match onto::refuse(&matches).and_then(|()| verb(line, &ui)) {
        Ok(code) => code,
        Err(error) => {
            if error.is_to_be_said() {
                ui.print_error(&error);
            }
            error.exit_code()
        }
    }
}

/// Makes the enum that clap parses and the call of each verb from one table. Each line names a module with `Args` and `run`; its doc
/// comment becomes clap's help.
#[macro_export]
macro_rules! verbs {
    ($($(#[$clap:meta])* $variant:ident => $module:ident,)*) => {
        #[derive(clap::Subcommand)]
        pub(crate) enum Verb {
            $($(#[$clap])* $variant($module::Args),)*
        }

        impl Verb {
            /// Runs the verb that was asked for.
            pub(crate) fn run(self, ui: &$crate::Ui) -> Result<std::process::ExitCode, $crate::CliError> {
                match self {
                    $(Self::$variant(args) => $module::run(args, ui),)*
                }
            }
        }
    };
}
