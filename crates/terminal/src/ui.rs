//! Output for the user: results on standard output, messages on standard error, progress on a terminal only.

use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use isotherm_units::text::printable_lines;

use crate::error::CliError;
use crate::table::Styled;

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Even into a file or pipe.
    Always,
    /// Not at all.
    Never,
}

/// The two streams and their capabilities.
#[derive(Debug)]
pub struct Ui {
    quiet: bool,
    choice: ColourChoice,
    colour_stdout: bool,
    colour_stderr: bool,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
}

impl Ui {
    /// Reads the process's own streams and environment once.
    pub fn new(quiet: bool, choice: ColourChoice) -> Self {
        let stdout_is_terminal = io::stdout().is_terminal();
        let stderr_is_terminal = io::stderr().is_terminal();
        // https://no-color.org: set and not empty. A dumb terminal takes no escape sequences either.
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            quiet,
            choice,
            colour_stdout: wants_colour(choice, stdout_is_terminal, refused),
            colour_stderr: wants_colour(choice, stderr_is_terminal, refused),
            stdout_is_terminal,
            stderr_is_terminal,
        }
    }

    /// The flags that make another command print in the same way.
    pub fn flags(&self) -> Vec<&'static str> {
        let colour = match self.choice {
            ColourChoice::Auto => "--color=auto",
            ColourChoice::Always => "--color=always",
            ColourChoice::Never => "--color=never",
        };
        self.quiet.then_some("--quiet").into_iter().chain([colour]).collect()
    }

    /// Whether results may carry escape sequences for colour.
    pub fn colour(&self) -> bool {
        self.colour_stdout
    }

    /// Whether results go to a terminal.
    pub fn is_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// Columns for results: the terminal's width, and 100 elsewhere.
    pub fn columns(&self) -> usize {
        let size = self.stdout_is_terminal.then(|| rustix::termios::tcgetwinsize(io::stdout()).ok()).flatten();
        size.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0).unwrap_or(100)
    }

    /// Prints words for a reader, which may contain names of others: nothing in them steers a terminal.
    ///
    /// # Errors
    /// [`CliError::NobodyReads`] when the reader is gone: pass it up, `main` ends quietly.
    pub fn print(&self, text: impl Display) -> Result<(), CliError> {
        self.write(&printable_lines(&text.to_string()))
    }

    /// Prints text for a program: JSON, CSV, a script. A file or a pipe gets it byte for byte; nothing in it steers a terminal.
    ///
    /// # Errors
    /// As [`Ui::print`].
    pub fn print_data(&self, text: impl Display) -> Result<(), CliError> {
        if self.stdout_is_terminal { self.print(text) } else { self.write(&text.to_string()) }
    }

    /// Prints a drawn table or picture, with its colours.
    ///
    /// # Errors
    /// As [`Ui::print`].
    pub fn print_styled(&self, text: &Styled) -> Result<(), CliError> {
        self.write(text.as_str())
    }

    /// Prints one line; silent with `--quiet`.
    pub fn say(&self, line: impl Display) {
        if !self.quiet {
            self.talk(format_args!("{}", printable_lines(&line.to_string())));
        }
    }

    /// Prints a warning; the work goes on. The warning is printed even with `--quiet`.
    pub fn warn(&self, line: impl Display) {
        self.talk(format_args!("{} {}", self.label("warning:", "33"), printable_lines(&line.to_string())));
    }

    /// Asks a question that is answered with `y`. `None`: no one can answer, as in scripts and with `--quiet`.
    pub fn agrees(&self, question: impl Display) -> Option<bool> {
        if self.quiet || !self.stderr_is_terminal || !io::stdin().is_terminal() {
            return None;
        }
        // The answer is on the line of the question.
        let mut stderr = io::stderr().lock();
        write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).ok()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        Some(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Writes results to standard output, which nothing else here does.
    fn write(&self, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::stdout)
    }

    /// The last line of a verb that failed.
    pub fn print_error(&self, error: &CliError) {
        self.talk(format_args!("{} {}", self.label("error:", "31"), printable_lines(&error.to_string())));
    }

    /// A progress bar over `total` steps; `what` is its prefix. Invisible unless standard error is a terminal.
    pub fn progress(&self, what: &str, total: u64) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {elapsed} (ends in {eta})");
        self.bar(ProgressBar::with_draw_target(Some(total), self.draw_target()), style, what)
    }

    /// A progress bar for parts of different size, whose total becomes known on the way; `what` is its prefix.
    pub fn work(&self, what: &str) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {percent} % {elapsed} (ends in {eta})");
        self.bar(ProgressBar::with_draw_target(Some(0), self.draw_target()), style, what)
    }

    /// A progress line for work whose end is not known.
    pub fn spinner(&self, what: &str) -> ProgressBar {
        let style = ProgressStyle::with_template("{spinner} {msg} {pos} {elapsed}");
        let bar = self.bar(ProgressBar::with_draw_target(None, self.draw_target()), style, what);
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    fn bar(
        &self,
        bar: ProgressBar,
        style: Result<ProgressStyle, indicatif::style::TemplateError>,
        what: &str,
    ) -> ProgressBar {
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_message(what.to_owned());
        bar
    }

    fn draw_target(&self) -> ProgressDrawTarget {
        if self.stderr_is_terminal && !self.quiet {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        }
    }

    fn label(&self, text: &str, colour: &str) -> String {
        if self.colour_stderr { format!("\x1b[1;{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// If standard error is closed there is no one to report to: the failure to write is dropped.
    fn talk(&self, line: fmt::Arguments<'_>) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}

/// Prints clap's help, version or complaint to where it belongs.
pub(crate) fn print_clap(help_or_error: &clap::Error) -> ExitCode {
    let _ = help_or_error.print();
    ExitCode::from(if help_or_error.use_stderr() { 2 } else { 0 })
}

fn wants_colour(choice: ColourChoice, terminal: bool, refused: bool) -> bool {
    match choice {
        ColourChoice::Auto => terminal && !refused,
        ColourChoice::Always => true,
        ColourChoice::Never => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_needs_a_terminal_and_consent() {
        use ColourChoice::{Always, Auto, Never};
        let table = [
            (Auto, true, false, true),
            (Auto, false, false, false),
            (Auto, true, true, false),
            (Always, false, true, true),
            (Never, true, false, false),
        ];
        for (choice, terminal, refused, coloured) in table {
            assert_eq!(wants_colour(choice, terminal, refused), coloured, "{choice:?} {terminal} {refused}");
        }
    }
}
