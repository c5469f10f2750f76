//! Knobs that are not as they must be, by whose they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::knobs;

/// Text of each knob by its path.
pub(super) type Knobs = BTreeMap<String, String>;

/// Knobs that a journal names.
pub(super) struct Owned(BTreeSet<String>);

impl Owned {
    /// Those that lines of a journal set, except for `other`. What is no line of JSON is skipped.
    pub(super) fn in_journal(text: &str, other: Option<String>) -> Self {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let paths = lines.filter_map(|line| Some(line["path"].as_str()?.to_owned()));
        Self(paths.filter(|path| other.as_ref() != Some(path)).collect())
    }
}

/// Lines of differences.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) ours: Vec<String>,
    pub(super) others: Vec<String>,
}

impl Found {
    /// Adds what differs.
    pub(super) fn compare(&mut self, owned: &Owned, expected: &Knobs, now: &Knobs) {
        for line in knobs::differences(expected, now) {
            let is_ours = line.split_once(": ").is_some_and(|(path, _)| owned.0.contains(path));
            if is_ours { self.ours.push(line) } else { self.others.push(line) }
        }
    }
}

/// Writes what differs, so that the next moment begins as this one did.
pub(super) fn mend(before: &Knobs, now: &Knobs) {
    for (path, text) in before.iter().filter(|(path, text)| now.get(*path) != Some(text)) {
        // Reported already; a knob that is stuck is reported again.
        let _ = std::fs::write(path, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_of_the_journal_or_of_others() {
        let knobs = |pairs: [(&str, &str); 3]| pairs.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let (before, now) =
            (knobs([("/a", "1"), ("/b", "2"), ("/c", "3")]), knobs([("/a", "1"), ("/b", "9"), ("/c", "9")]));
        let text =
            "{\"kind\":\"journal\",\"version\":2}\n{\"path\":\"/a\"}\n{\"path\":\"/b\"}\n{\"path\":\"/c\"}\n\0\0";
        let mut found = Found::default();
        found.compare(&Owned::in_journal(text, Some("/c".to_owned())), &before, &now);
        assert_eq!(found.ours, ["/b: `2` is now `9`"]);
        assert_eq!(found.others, ["/c: `3` is now `9`"]);
    }
}
