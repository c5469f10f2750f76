//! Plain words: comments say things as the field does. What reads oddly to a kernel engineer is counted by folder, and the count may only
//! fall: `words.txt` has it, and `cargo xtask bless words` writes it after comments were mended.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::File;
use crate::Findings;

const BUDGET: &str = "xtask/src/tidy/words.txt";

/// What is counted, and what to write instead. `docs/glossary.md` has the words of the field.
const ODD: &[(&str, &str)] = &[
    ("told", "reported, given, said"),
    ("so many", "that number"),
    ("so much", "that amount"),
    ("so long", "that time"),
    ("so often", "that many times"),
    ("look at", "scan, sample, read, check"),
    ("looks at", "scans, samples, reads, checks"),
    ("looked at", "scanned, sampled, read, checked"),
    ("beside", "next to, alongside"),
    ("nobody", "no one, no process, no caller"),
    ("somebody", "another process, a caller"),
    ("anew", "again"),
    ("whom", "name the process, group or reader"),
    ("passed over", "skipped"),
    ("what of", "a sentence with a subject"),
    ("but for", "except"),
    ("set-up", "configuration"),
    ("yardstick", "baseline"),
];

/// Odd comment lines of each folder (`crates/sim`, `lab/rig`, `xtask` …), as (path with line, word, what to write).
fn odd(files: &[File]) -> BTreeMap<String, Vec<(String, &'static str, &'static str)>> {
    let mut found: BTreeMap<String, Vec<_>> = BTreeMap::new();
    // The list above is full of them.
    for file in files.iter().filter(|file| file.is("rs") && file.path != "xtask/src/tidy/words.rs") {
        for (index, line) in file.text.lines().enumerate() {
            let comment = line.trim_start();
            let Some(comment) = comment.strip_prefix("//") else { continue };
            if let Some(&(word, instead)) = ODD.iter().find(|(word, _)| has_word(comment, word)) {
                let place = format!("{}:{}", file.path, index + 1);
                found.entry(folder_of(&file.path)).or_default().push((place, word, instead));
            }
        }
    }
    found
}

fn folder_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let depth = if matches!(parts[0], "crates" | "lab") { 2 } else { 1 };
    parts[..depth.min(parts.len() - 1)].join("/")
}

/// Whether `word` stands in `text` by itself, in either case.
fn has_word(text: &str, word: &str) -> bool {
    let text = text.to_lowercase();
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word)
        .any(|(at, _)| !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + word.len()..].chars().next()))
}

fn budgets(text: &str) -> BTreeMap<&str, usize> {
    let row = |line| {
        let (folder, count) = str::rsplit_once(line, ' ')?;
        Some((folder, count.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

pub(super) fn check(files: &[File], findings: &mut Findings) {
    let budget = files.iter().find(|file| file.path == BUDGET).map_or("", |file| file.text.as_str());
    let (budgets, odd) = (budgets(budget), odd(files));
    for (folder, places) in &odd {
        let allowed = budgets.get(folder.as_str()).copied().unwrap_or(0);
        if places.len() > allowed {
            let shown = places.iter().map(|(place, word, instead)| format!("\n  {place}: `{word}`: write {instead}"));
            let nr_places = places.len();
            findings.push(format!(
                "{folder}: {nr_places} comment lines with odd words, at most {allowed} allowed ({BUDGET}):{}",
                shown.collect::<String>()
            ));
        }
    }
    for (folder, allowed) in budgets {
        let nr_places = odd.get(folder).map_or(0, Vec::len);
        if nr_places < allowed {
            findings
                .push(format!("{BUDGET}: {folder} has {nr_places} odd comment lines now: `cargo xtask bless words`"));
        }
    }
}

/// Writes the counts that have fallen. A count that has risen is a finding, and nothing is written.
pub(crate) fn write(root: &Path) -> Findings {
    let files = super::sources(root);
    let mut findings = Findings::new();
    check(&files, &mut findings);
    findings.retain(|finding| finding.contains("at most"));
    if !findings.is_empty() {
        return findings;
    }
    let mut text = String::new();
    for (folder, places) in odd(&files) {
        let _ = writeln!(text, "{folder} {}", places.len());
    }
    std::fs::write(root.join(BUDGET), text).map_or_else(|error| vec![format!("{BUDGET}: {error}")], |()| Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(budget: &str, comment: &str) -> Findings {
        let file = |path: &str, text: String| File { path: path.to_owned(), text };
        let files =
            [file(BUDGET, budget.to_owned()), file("crates/sim/src/a.rs", format!("{comment}\nlet told = 1;\n"))];
        let mut findings = Findings::new();
        check(&files, &mut findings);
        findings
    }

    #[test]
    fn more_than_allowed_is_shown_and_less_lowers_the_budget() {
        let one = "// Nobody is told.";
        assert_eq!(found("crates/sim 1\n", one), [""; 0]);
        let findings = found("", one);
        assert!(findings.len() == 1 && findings[0].contains("crates/sim/src/a.rs:1: `told`"), "{findings:?}");
        let findings = found("crates/sim 1\n", "// No process is woken.");
        assert!(findings.len() == 1 && findings[0].contains("bless words"), "{findings:?}");
    }

    #[test]
    fn words_stand_by_themselves() {
        assert!(has_word("/ Who was TOLD?", "told") && has_word(" so many pages", "so many"));
        assert!(!has_word("/ untold", "told") && !has_word("/ besides", "beside") && !has_word(" told_spared", "told"));
    }
}
