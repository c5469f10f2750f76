//! Checks for the commands' tests: each command accepts all its command lines in the documentation.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, Parser};

/// Checks every command line of the project: it is consistent, follows the house rules, accepts the command lines in the documentation
/// below `root` (`shown_min` lines and more), and is named verb by verb in `readme`.
///
/// # Panics
/// A check fails: lists all complaints. For tests.
pub fn check<Line: Parser>(root: &Path, readme: &str, shown_min: usize) {
    let command = Line::command();
    command.clone().debug_assert();
    assert_eq!(irregular(&command), "");
    let (complaints, shown) = parse::<Line>(root);
    assert!(complaints.is_empty(), "documented commands that do not parse:\n{complaints}");
    assert!(shown >= shown_min, "only {shown} documented commands were found");
    let readme = std::fs::read_to_string(root.join(readme)).expect("it is there");
    assert_eq!(unnamed(&command, &readme), [""; 0], "verbs that the README does not name");
}

/// Parses every line `$ COMMAND …` of a console block in a Markdown file below `root`. Complaints, empty when all parse, and how many
/// lines were found.
fn parse<Line: Parser>(root: &Path) -> (String, usize) {
    let name = Line::command().get_name().to_owned();
    let (mut complaints, mut shown) = (String::new(), 0);
    for page in pages(root) {
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        for (number, line) in console_lines(&text) {
            let words = words(&line);
            if words.first() != Some(&name) || words.iter().any(|word| word.contains('…')) {
                continue;
            }
            shown += 1;
            if let Err(error) = Line::try_parse_from(&words)
                && error.use_stderr()
            {
                let page = page.strip_prefix(root).unwrap_or(&page).display();
                let _ = writeln!(complaints, "{page}:{number}: {line}\n{error}");
            }
        }
    }
    (complaints, shown)
}

/// The house rules for command lines: long flags are in kebab-case, every verb shows examples. Complaints, empty when all is well.
fn irregular(command: &Command) -> String {
    let mut complaints = String::new();
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let example = format!("{} {}", command.get_name(), verb.get_name());
        // A hidden one is the old name of another, whose name its examples have.
        let has_example = |help: &clap::builder::StyledStr| help.to_string().contains(&example);
        if !verb.is_hide_set() && !verb.get_after_help().is_some_and(has_example) {
            let _ = writeln!(complaints, "`{example}` has no example in its after_help");
        }
        for flag in verb.get_arguments().filter_map(Arg::get_long) {
            if !flag.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
                let _ = writeln!(complaints, "`{example}`: --{flag}");
            }
        }
    }
    complaints
}

/// Verbs that `text` does not name.
fn unnamed(command: &Command, text: &str) -> Vec<String> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
    let names = verbs.map(|verb| format!("{} {}", command.get_name(), verb.get_name()));
    names.filter(|name| !text.contains(name)).collect()
}

/// Markdown files at the root and below `docs`, `traces`, `scenarios`, `lab`.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![(root.to_path_buf(), false)];
    folders.extend(["docs", "traces", "scenarios", "lab"].map(|folder| (root.join(folder), true)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_lines_are_split() {
        assert_eq!(words("isotherm record -- sh -c 'a; b' | head"), ["isotherm", "record", "--", "sh", "-c", "a; b"]);
        assert_eq!(words("isotherm x \"\" # why"), ["isotherm", "x", ""]);
        let block = "```console\n$ isotherm a \\\n    --b\nout\n```\n$ isotherm c\n";
        assert_eq!(console_lines(block), [(2, "isotherm a --b".to_owned())]);
    }
}
