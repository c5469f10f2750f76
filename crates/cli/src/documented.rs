//! A test of the command line as a whole: what the documentation shows, it accepts.

use std::path::Path;

use isotherm_terminal::documented;

use crate::CommandLine;

/// Of commands shown: the README shows its two commands at least.
const SHOWN_MIN: usize = 2;

#[test]
fn the_command_line_is_as_documented() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    documented::check::<CommandLine>(root, "README.md", SHOWN_MIN);
}
