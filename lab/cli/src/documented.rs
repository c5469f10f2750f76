//! Tests the whole command line: it accepts all commands shown in the documentation.

use std::path::Path;

use isotherm_terminal::documented;

use crate::CommandLine;

/// Least number of commands shown: each comparison's page shows its commands.
const SHOWN_MIN: usize = 6;

#[test]
fn the_command_line_is_as_documented() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    documented::check::<CommandLine>(root, "lab/README.md", SHOWN_MIN);
}
