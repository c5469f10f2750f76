//! Tests that the command line accepts the examples in the documentation.

use std::path::Path;

use isotherm_terminal::documented;

use crate::CommandLine;

/// Fewest commands in the documentation: the README shows two.
const SHOWN_MIN: usize = 2;

#[test]
fn the_command_line_is_as_documented() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    documented::check::<CommandLine>(root, "README.md", SHOWN_MIN);
}

/// `--help` and the manual pages are made of these texts: every verb, argument and flag has one.
#[test]
fn each_verb_and_flag_says_what_it_is_for() {
    let mut line = crate::command_line().disable_help_subcommand(true);
    line.build();
    let mut silent = Vec::new();
    line.get_subcommands().for_each(|verb| add_silent(verb, &mut silent));
    assert_eq!(silent, [""; 0], "without a word of help");
}

/// Adds the arguments of `verb`, and of the verbs inside it, that have no help.
fn add_silent(verb: &clap::Command, silent: &mut Vec<String>) {
    if verb.is_hide_set() {
        return;
    }
    let name = verb.get_bin_name().unwrap_or(verb.get_name());
    if verb.get_about().is_none() {
        silent.push(name.to_owned());
    }
    let without = verb.get_arguments().filter(|argument| argument.get_help().is_none() && !argument.is_hide_set());
    silent.extend(without.map(|argument| format!("{name}: {}", argument.get_id())));
    verb.get_subcommands().for_each(|inner| add_silent(inner, silent));
}
