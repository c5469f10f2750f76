//! Tables in the form that the terminal and `--format` ask for.

use isotherm_report::{Table, TermStyle};

use crate::format::Format;
use crate::ui::Ui;

/// A table in the form that was asked for.
pub fn render(table: &Table, format: Format, ui: &Ui) -> String {
    match format {
        // A file or pipe has no width: nothing is cut.
        Format::Table if !ui.is_terminal() => table.to_text(&TermStyle { width: usize::MAX, ..style(ui) }),
        Format::Table => table.to_text(&style(ui)),
        Format::Json => table.to_json(),
        Format::Csv => table.to_csv(),
    }
}

/// Capabilities of the user's terminal.
pub fn style(ui: &Ui) -> TermStyle {
    TermStyle::detect(ui.colour(), (ui.columns(), 24), |name| std::env::var(name).ok())
}
