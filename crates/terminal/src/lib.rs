//! Shared by the commands: output for people, and exit codes.
//!
//! `isotherm` and `isotherm-lab` build their verbs on it: results on standard output, talk and progress on standard error, rows in three
//! forms, errors with exit codes. Code that only one of them needs is elsewhere.

mod command;
mod data;
pub mod documented;
pub mod error;
pub mod format;
mod onto;
mod progress;
mod table;
pub mod ui;

pub use command::{EXIT_CODES, Talk, run};
pub use data::data_folder;
pub use error::CliError;
pub use format::{Format, FormatArg};
pub use progress::BarProgress;
pub use table::{Styled, render, style};
pub use ui::Ui;
