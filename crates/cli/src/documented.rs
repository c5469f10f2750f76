//! Tests of the command line as a whole. What the documentation shows, the command accepts: every line `$ isotherm …` of a
//! console block in a Markdown file parses, and the README names every verb.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};

use crate::CommandLine;

#[test]
fn the_command_line_is_consistent() {
    CommandLine::command().debug_assert();
}

#[test]
fn long_flags_are_kebab_case_and_every_verb_shows_examples() {
    for verb in CommandLine::command().get_subcommands().filter(|verb| verb.get_name() != "help") {
        let name = verb.get_name();
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains(&format!("isotherm {name}")), "`{name}` has no example in its after_help");
        for flag in verb.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(flag.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "--{flag}");
        }
    }
}

#[test]
fn every_documented_command_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut shown = 0;
    let mut complaints = String::new();
    for page in pages(&root) {
        let text = std::fs::read_to_string(&page).unwrap();
        for (number, line) in console_lines(&text) {
            let words = words(&line);
            if words.first().is_none_or(|word| word != "isotherm") || words.iter().any(|word| word.contains('…')) {
                continue;
            }
            shown += 1;
            if let Err(error) = CommandLine::try_parse_from(&words)
                && error.use_stderr()
            {
                let page = page.strip_prefix(&root).unwrap().display();
                complaints += &format!("{page}:{number}: {line}\n{error}\n");
            }
        }
    }
    assert!(complaints.is_empty(), "documented commands that do not parse:\n{complaints}");
    assert!(shown >= 2, "the README shows at least its two commands");
}

#[test]
fn the_readme_names_every_verb() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    for verb in CommandLine::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = verb.get_name();
        assert!(name == "help" || readme.contains(&format!("isotherm {name}")), "README.md does not name `{name}`");
    }
}

/// Markdown files at the root and below `docs`, `traces`, `scenarios`.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![(root.to_path_buf(), false)];
    folders.extend(["docs", "traces", "scenarios"].map(|folder| (root.join(folder), true)));
    while let Some((folder, deep)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            } else if deep && path.is_dir() {
                folders.push((path, true));
            }
        }
    }
    pages.sort();
    pages
}

/// Commands of console blocks with their line numbers; a line that ends in `\` goes on in the next.
fn console_lines(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut in_console = false;
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            in_console = line == "```console";
        } else if in_console && goes_on {
            let last = &mut found.last_mut().expect("a line goes on").1;
            last.pop();
            last.push_str(line);
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_console) {
            found.push((index + 1, command.to_owned()));
        } else {
            continue;
        }
        goes_on = in_console && line.ends_with('\\');
    }
    found
}

/// The words of the first command of a shell line: quotes are taken off, pipes, redirections and comments end it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | ';' | '&') => break,
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn shell_lines_are_split() {
    assert_eq!(words("isotherm record -- sh -c 'a; b' | head"), ["isotherm", "record", "--", "sh", "-c", "a; b"]);
    assert_eq!(words("isotherm x \"\" # why"), ["isotherm", "x", ""]);
    let block = "```console\n$ isotherm a \\\n    --b\nout\n```\n$ isotherm c\n";
    assert_eq!(console_lines(block), [(2, "isotherm a --b".to_owned())]);
}
