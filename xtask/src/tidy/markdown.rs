//! Rules for documentation: links lead somewhere, pages are in the index, `make` targets exist. That shown commands parse are
//! tests of `crates/cli` and `lab/cli`, which know the verbs.

use std::path::{Component, Path, PathBuf};

use super::File;
use crate::Findings;

pub(super) fn check(root: &Path, file: &File, files: &[File], findings: &mut Findings) {
    if let Some(page) = file.path.strip_prefix("docs/").filter(|page| *page != "README.md") {
        let index = files.iter().find(|other| other.path == "docs/README.md");
        if !index.is_some_and(|index| index.text.contains(&format!("({page}"))) {
            findings.push(format!("{}: docs/README.md, the index, does not link to it", file.path));
        }
    }
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            if let Some(target) = line.strip_prefix("$ make ").and_then(|rest| rest.split_whitespace().next()) {
                let is_target =
                    |makefile: &File| makefile.text.lines().any(|rule| rule.starts_with(&format!("{target}:")));
                if !files.iter().any(|other| other.path == "Makefile" && is_target(other)) {
                    findings.push(file.at(index, &format!("the Makefile has no target `{target}`")));
                }
            }
            continue;
        }
        for link in links(line) {
            if let Some(complaint) = broken(root, file, files, link) {
                findings.push(file.at(index, &complaint));
            }
        }
    }
}

/// The targets of `[text](target)` and `![text](target)`; code spans are left out.
fn links(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = line[from..].find("](").map(|offset| from + offset + 2) {
        let Some(end) = line[start..].find(')').map(|offset| start + offset) else { break };
        let in_code = line[..start].matches('`').count() % 2 == 1;
        if !in_code {
            found.push(&line[start..end]);
        }
        from = end;
    }
    found
}

fn broken(root: &Path, file: &File, files: &[File], link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() { PathBuf::from(&file.path) } else { beside(&file.path, path) };
    if !root.join(&target).exists() {
        return Some(format!("link to `{link}`: there is no {}", target.display()));
    }
    let page = files.iter().find(|other| Path::new(&other.path) == target && other.is("md"))?;
    let anchor = anchor?;
    let has = anchors(&page.text).any(|known| known == anchor);
    (!has).then(|| format!("link to `{link}`: {} has no heading `{anchor}`", target.display()))
}

/// `path` as seen from the folder of `from`.
fn beside(from: &str, path: &str) -> PathBuf {
    let mut target = Path::new(from).parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                target.pop();
            }
            Component::Normal(name) => target.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    target
}

/// Targets of links into a page: its headings, and anchors set by hand (`<a id="s1-2"></a>`).
pub(super) fn anchors(text: &str) -> impl Iterator<Item = String> {
    headings(text).chain(text.lines().filter_map(|line| {
        let (id, _) = line.strip_prefix("<a id=\"")?.split_once('"')?;
        Some(id.to_owned())
    }))
}

/// Anchors as code hosts make them: lower case, spaces to hyphens, punctuation dropped.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| line.strip_prefix('#')).map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).map(hyphen).collect()
    })
}

fn hyphen(c: char) -> char {
    if c == ' ' { '-' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_are_found() {
        assert_eq!(links("a [b](c.md#d), `[x](y)` and ![e](f.png)"), ["c.md#d", "f.png"]);
        assert_eq!(beside("docs/a/b.md", "../c.md"), Path::new("docs/c.md"));
        assert_eq!(headings("# `lru`: least recently used\n").next().as_deref(), Some("lru-least-recently-used"));
        let page = "<a id=\"s1-2\"></a>\n\n### 1.2 Ways\n";
        assert_eq!(anchors(page).collect::<Vec<_>>(), ["12-ways", "s1-2"]);
    }
}
