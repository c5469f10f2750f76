//! Tables in the form that the terminal and `--format` ask for.

use isotherm_report::{Table, TermStyle};
use isotherm_units::text::printable_lines;

use crate::format::Format;
use crate::ui::Ui;

/// Text that may go to a terminal as it is: what was drawn by a renderer, which replaces what steers a terminal in the names that it draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Styled(String);

impl Styled {
    /// Text of a renderer of [`isotherm_report`], with its colours.
    pub fn drawn(text: String) -> Self {
        Self(text)
    }

    /// After an empty line.
    #[must_use]
    pub fn after_line(self) -> Self {
        Self(format!("\n{}", self.0))
    }

    /// Before an empty line.
    #[must_use]
    pub fn before_line(self) -> Self {
        Self(self.0 + "\n")
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A table in the form that was asked for.
pub fn render(table: &Table, format: Format, ui: &Ui) -> Styled {
    let data = |text: String| if ui.is_terminal() { printable_lines(&text).into_owned() } else { text };
    Styled(match format {
        // A file or pipe has no width: nothing is cut.
        Format::Table if !ui.is_terminal() => table.to_text(&TermStyle { width: usize::MAX, ..style(ui) }),
        Format::Table => table.to_text(&style(ui)),
        Format::Json => data(table.to_json()),
        Format::Csv => data(table.to_csv()),
    })
}

/// Capabilities of the user's terminal.
pub fn style(ui: &Ui) -> TermStyle {
    TermStyle::detect(ui.colour(), (ui.columns(), 24), |name| std::env::var(name).ok())
}
