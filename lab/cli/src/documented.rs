//! Tests of the command line as a whole: what the documentation shows, it accepts, and the README names every comparison.

use std::path::Path;

use clap::CommandFactory;
use isotherm_terminal::documented;

use crate::CommandLine;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_command_line_is_consistent() {
    CommandLine::command().debug_assert();
}

#[test]
fn long_flags_are_kebab_case_and_every_verb_shows_examples() {
    assert_eq!(documented::irregular(&CommandLine::command()), "");
}

#[test]
fn every_documented_command_parses() {
    let (complaints, shown) = documented::parse::<CommandLine>(Path::new(ROOT));
    assert!(complaints.is_empty(), "documented commands that do not parse:\n{complaints}");
    assert!(shown >= 6, "each comparison's page shows its commands");
}

#[test]
fn the_readme_of_the_lab_names_every_verb() {
    let readme = std::fs::read_to_string(Path::new(ROOT).join("lab/README.md")).unwrap();
    assert_eq!(documented::unnamed(&CommandLine::command(), &readme), [""; 0]);
}
