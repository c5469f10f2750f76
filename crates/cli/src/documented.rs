//! A test of the command line as a whole: what the documentation shows, it accepts.

use std::fmt::Write as _;
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

const BEGIN: &str = "<!-- verbs: made by crates/cli/src/documented.rs -->\n";

/// docs/verbs.md has what each verb says of itself. `ISOTHERM_DOCS=write cargo test -p isotherm-cli documented` writes it anew.
#[test]
fn the_page_of_verbs_is_what_they_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verbs.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, old) = page.split_once(BEGIN).expect("the page has the line above the verbs");
    let mut made = String::new();
    let mut line = crate::command_line().term_width(110).color(clap::ColorChoice::Never).disable_help_subcommand(true);
    line.build();
    let verbs: Vec<clap::Command> = line.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    for verb in verbs {
        let name = format!("isotherm {}", verb.get_name());
        verb_page(verb.bin_name(&name), &name, &mut made);
    }
    if std::env::var_os("ISOTHERM_DOCS").is_some_and(|what| what == "write") {
        std::fs::write(path, format!("{head}{BEGIN}{made}")).unwrap();
        return;
    }
    assert!(old == made, "ISOTHERM_DOCS=write cargo test -p isotherm-cli documented");
}

fn verb_page(mut verb: clap::Command, name: &str, out: &mut String) {
    let help: Vec<String> =
        verb.render_long_help().to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    write!(out, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end()).unwrap();
    let inner: Vec<clap::Command> =
        verb.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()).cloned().collect();
    for verb in inner {
        let name = format!("{name} {}", verb.get_name());
        verb_page(verb.bin_name(&name), &name, out);
    }
}
