//! Rules for Rust code: what `kernel`, `sim` and `core` may not use, where `unsafe` is allowed, how long lines may be.

use super::text::COLUMNS_MAX;
use super::{File, bare};
use crate::Findings;

/// APIs that would let the clock, chance, the environment or a hash order into a decision.
const BANNED_IN_DECISIONS: &[(&str, &str)] = &[
    ("Instant::now", "time is injected"),
    ("SystemTime", "time is injected"),
    ("thread_rng", "seeds are arguments"),
    ("rand::rng", "seeds are arguments"),
    ("HashMap", "its order may reach results; use BTreeMap or indices"),
    ("HashSet", "its order may reach results; use BTreeSet or indices"),
    ("std::env", "no environment"),
    ("std::fs", "no files"),
    ("std::thread", "no threads"),
    ("std::net", "no network"),
    ("println!", "no output"),
];

const DECIDING: &[&str] = &["crates/kernel/src/", "crates/sim/src/", "crates/core/src/"];

const UNSAFE_ALLOWED: &[&str] = &["lab/guest/src/sys.rs", "crates/recorder/src/sys.rs", "crates/linux/src/sys.rs"];

pub(super) fn check(file: &File, findings: &mut Findings) {
    let decides = DECIDING.iter().any(|folder| file.path.starts_with(folder));
    let may_be_unsafe = UNSAFE_ALLOWED.contains(&file.path.as_str());
    let mut in_tests = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
    for (index, code) in bare::lines(&file.text).iter().enumerate() {
        in_tests |= code.trim_end() == "#[cfg(test)]";
        if decides && !in_tests {
            for (word, why) in BANNED_IN_DECISIONS.iter().filter(|(word, _)| code.contains(word)) {
                findings.push(file.at(index, &format!("`{word}`: {why}")));
            }
        }
        if !may_be_unsafe && words(code).any(|word| word == "unsafe") {
            findings.push(file.at(
                index,
                "`unsafe` outside lab/guest/src/sys.rs, crates/recorder/src/sys.rs and crates/linux/src/sys.rs",
            ));
        }
        // Strings and comments may be longer: a table of texts is read better unbroken.
        if code.chars().count() > COLUMNS_MAX {
            findings.push(file.at(index, &format!("longer than {COLUMNS_MAX} columns")));
        }
    }
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}
