//! Rules for every text file: length, leftovers, whitespace.

use std::path::{Path, PathBuf};

use super::File;
use crate::Findings;

const LINES_MAX: usize = 700;
pub(super) const COLUMNS_MAX: usize = 140;
const FILE_BYTES_MAX: u64 = 3 << 20;

/// Words of unfinished work, assembled here so that this file does not contain them.
const LEFTOVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];

/// No file of the repository is large: a clone stays quick.
pub(super) fn sizes(root: &Path, paths: &[PathBuf]) -> Findings {
    let size = |path: &PathBuf| std::fs::metadata(root.join(path)).map_or(0, |metadata| metadata.len());
    paths
        .iter()
        .filter(|path| size(path) > FILE_BYTES_MAX)
        .map(|path| format!("{}: larger than 3 MiB ({} bytes)", path.display(), size(path)))
        .collect()
}

pub(super) fn check(file: &File, findings: &mut Findings) {
    // Files in a folder `vendor` stay as their authors wrote them.
    let is_ours = !file.path.contains("/vendor/");
    let written_by_hand = is_ours && !file.is("svg") && !file.is("json") && !file.is("csv") && !file.is("html");
    if (file.is("rs") || file.is("py")) && file.text.lines().count() > LINES_MAX {
        findings.push(format!("{}: more than {LINES_MAX} lines; which two nouns is it?", file.path));
    }
    for (index, line) in file.text.lines().enumerate() {
        for word in LEFTOVERS.iter().filter(|word| line.contains(**word)) {
            findings.push(file.at(index, &format!("leftover `{word}`")));
        }
        if !written_by_hand {
            continue;
        }
        if line.chars().count() > COLUMNS_MAX && !may_be_long(file, line) {
            findings.push(file.at(index, &format!("longer than {COLUMNS_MAX} columns")));
        }
        if line.ends_with([' ', '\t', '\r']) && !file.is("txt") {
            findings.push(file.at(index, "trailing space"));
        }
        if file.is("rs") && line.contains('\t') {
            findings.push(file.at(index, "tab"));
        }
    }
    if written_by_hand && !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(format!("{}: no line end after the last line", file.path));
    }
}

/// Table rows of Markdown, formulas of the specifications, addresses, files written by tools, and Rust, whose strings do not count.
fn may_be_long(file: &File, line: &str) -> bool {
    file.is("rs")
        || file.path.starts_with("docs/spec/")
        || (file.is("md") && line.starts_with(['|', ' ', '$']))
        || line.contains("://")
        || file.is("txt")
        || file.is("js")
}
