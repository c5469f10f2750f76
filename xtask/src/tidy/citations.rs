//! Rules for citations of pages in comments, messages and documents: `docs/…/NAME.md#anchor` leads somewhere, and a specification is never
//! cited by its bare name, which a reader could not open.

use std::collections::{BTreeMap, BTreeSet};

use super::File;
use super::markdown::anchors;
use crate::Findings;

const SPEC: &str = "docs/spec/";

/// Every Markdown page of the checkout with its anchors.
pub(super) struct Pages<'a>(BTreeMap<&'a str, BTreeSet<String>>);

impl<'a> Pages<'a> {
    pub(super) fn of(files: &'a [File]) -> Self {
        let pages = files.iter().filter(|file| file.is("md"));
        Self(pages.map(|file| (file.path.as_str(), anchors(&file.text).collect())).collect())
    }

    /// The finding for a citation; `None` if it leads somewhere.
    fn broken(&self, path: &str, anchor: Option<&str>) -> Option<String> {
        let Some(anchors) = self.0.get(path) else { return Some(format!("there is no {path}")) };
        let anchor = anchor.filter(|anchor| !anchors.contains(*anchor))?;
        Some(format!("{path} has no heading or anchor `{anchor}`"))
    }

    /// Names of the specifications.
    fn specifications(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|path| path.strip_prefix(SPEC)?.strip_suffix(".md"))
    }
}

pub(super) fn check(file: &File, pages: &Pages<'_>, findings: &mut Findings) {
    for (index, line) in file.text.lines().enumerate() {
        for complaint in cited(line).into_iter().filter_map(|(path, anchor)| pages.broken(path, anchor)) {
            findings.push(file.at(index, &format!("citation: {complaint}")));
        }
        if !file.is("md") {
            for name in pages.specifications().filter(|name| is_bare(line, name)) {
                findings.push(file.at(index, &format!("cite {SPEC}{name}.md#anchor, not the bare name")));
            }
        }
    }
}

/// Pages named in full on a line, each with its anchor. Anchors that follow (`#s2, #s3-1`) belong to the page before them.
fn cited(line: &str) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    for (start, _) in line.match_indices("docs/") {
        let before = line[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_')) {
            continue;
        }
        let path = &line[start..start + length(&line[start..], |c| c.is_alphanumeric() || "/-_.".contains(c))];
        let Some(end) = path.find(".md").map(|at| at + 3) else { continue };
        let (path, mut rest) = (&path[..end], &line[start + end..]);
        let mut anchors = 0;
        while let Some(at) = next_anchor(rest, anchors == 0) {
            let anchor = &rest[at..at + length(&rest[at..], |c| c.is_alphanumeric() || c == '-')];
            found.push((path, Some(anchor.trim_end_matches('-'))));
            rest = &rest[at + anchor.len()..];
            anchors += 1;
        }
        if anchors == 0 {
            found.push((path, None));
        }
    }
    found
}

/// Where the next anchor of a citation begins, behind its `#`.
fn next_anchor(rest: &str, is_first: bool) -> Option<usize> {
    let joins: &[&str] = if is_first { &["#"] } else { &[", #", " and #", ", and #", " to #"] };
    joins.iter().find(|join| rest.starts_with(**join)).map(|join| join.len())
}

/// Bytes of the longest prefix of such characters.
fn length(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c: char| !is_part(c)).unwrap_or(text.len())
}

/// Whether a specification is named without its folder: `NAME.md`, or with "spec" before it.
fn is_bare(line: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || "/-_.".contains(c);
    line.match_indices(name).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + name.len()..]);
        let is_file = after.starts_with(".md") && !before.ends_with(is_word);
        let is_told = before.to_lowercase().ends_with("spec ") && !after.starts_with(is_word);
        is_file || is_told
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_found_with_their_anchors() {
        let of = |line| cited(line);
        let page = "docs/spec/a.md";
        assert_eq!(of("x (docs/spec/a.md#s1-2, #s3 and #s4; #x) #5"), ["s1-2", "s3", "s4"].map(|at| (page, Some(at))));
        assert_eq!(of("see `docs/spec/a.md`."), [(page, None)]);
        assert_eq!(of("see docs/spec/a.md#s1."), [(page, Some("s1"))]);
        assert_eq!(of("https://x.org/docs/a.md, docs/ and docs/x.toml"), []);
    }

    #[test]
    fn bare_names_of_specifications_are_found() {
        for line in ["(a-b.md section 3)", "`a-b.md`", "Spec a-b 3.1", "spec a-b"] {
            assert!(is_bare(line, "a-b"), "{line}");
        }
        for line in ["docs/spec/a-b.md#s1", "docs/a-b.md", "x-a-b.md", "the spec a-bc", "spec.a-b"] {
            assert!(!is_bare(line, "a-b"), "{line}");
        }
    }
}
