//! TOML with places: a text becomes a type, and each error names file, line and column.
//!
//! [`parse_as`] reads a text and checks it; [`print_as`] writes one. [`Document`] is the parsed text, for callers whose checks need more
//! than one place of a key. This crate does not know the subject of a document: [`Dialect`] has the features of a kind of document in
//! addition to TOML.

mod culprit;
mod document;
mod error;
mod keypath;
mod parse;
mod reading;
mod spelling;
mod suggestion;
mod writing;

pub use culprit::{Refusal, culprit};
pub use document::{Dialect, Document, Patches};
pub use error::DocumentError;
pub use keypath::{KeyPath, PathSegment};
pub use parse::{Misfit, parse_as, print_as};
pub use reading::{ReadError, from_value};
pub use suggestion::{nearest, with_suggestion};
pub use writing::to_table;
