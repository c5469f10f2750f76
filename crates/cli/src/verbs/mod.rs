//! The verbs. A new one = one file here with `Args` (its help text is the struct's doc comment, its examples are
//! `after_help`) and `run`, a `mod` line, and one line in the table.

mod accuracy;
mod advise;
mod explain;
mod export;
mod import;
mod monitor;
mod record;
mod region_files;
mod report;
mod rig;
mod simulate;

use std::process::ExitCode;

use isotherm_report::{Table, TermStyle};

use crate::error::CliError;
use crate::format::Format;
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
    Accuracy => accuracy,
    Advise => advise,
    Explain => explain,
    Export => export,
    Import => import,
    Monitor => monitor,
    Record => record,
    Report => report,
    Rig => rig,
    Simulate => simulate,
}

/// A table in the form that was asked for.
pub(crate) fn render(table: &Table, format: Format, ui: &Ui) -> String {
    match format {
        // A file or pipe has no width: nothing is cut.
        Format::Table if !ui.is_terminal() => table.to_text(&TermStyle { width: usize::MAX, ..style(ui) }),
        Format::Table => table.to_text(&style(ui)),
        Format::Json => table.to_json(),
        Format::Csv => table.to_csv(),
    }
}

/// What the user's terminal can show.
pub(crate) fn style(ui: &Ui) -> TermStyle {
    TermStyle::detect(ui.colour(), (ui.columns(), 24), |name| std::env::var(name).ok())
}
