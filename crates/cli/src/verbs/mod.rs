//! The verbs. A new one = one file here with `Args` (its help text is the struct's doc comment, its examples are
//! `after_help`) and `run`, a `mod` line, and one line in the table.

mod import;

use std::process::ExitCode;

use crate::error::CliError;
use crate::ui::Ui;

/// Makes the enum that clap parses and the call of each verb from one table.
macro_rules! verbs {
    ($($variant:ident => $module:ident,)*) => {
        #[derive(clap::Subcommand)]
        pub(crate) enum Verb {
            $($variant($module::Args),)*
        }

        impl Verb {
            /// Runs the verb that was asked for.
            pub(crate) fn run(self, ui: &Ui) -> Result<ExitCode, CliError> {
                match self {
                    $(Self::$variant(args) => $module::run(args, ui),)*
                }
            }
        }
    };
}

verbs! {
    Import => import,
}
