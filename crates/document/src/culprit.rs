//! Finds the key of a table that is refused, where the deserializer does not report it.
//!
//! Types that choose by a tag, or flatten others, read a whole table before they interpret it: serde then knows the table and
//! no longer the key. So keys are removed one at a time: the refused key is the one whose removal changes the error.

use crate::keypath::{KeyPath, PathSegment};
use toml::Value;

/// Keys that decide which other keys are allowed: without them everything is refused.
const TAGS: [&str; 5] = ["kind", "design", "mode", "shape", "preset"];

/// Most entries of a table or list that are tried, so that a huge file is refused soon.
const TRIED_MAX: usize = 256;

/// The error message for a document, if it is refused.
pub type Refusal<'a> = &'a dyn Fn(&Value) -> Option<String>;

/// The value below `from` that `refusal` is about, or `from` itself if no single one is.
pub fn culprit(whole: &Value, from: KeyPath, refusal: Refusal<'_>) -> KeyPath {
    let Some(said) = refusal(whole) else { return from };
    let mut path = from;
    while let Some(next) = next(whole, &path, &said, refusal) {
        path = next;
    }
    path
}

/// One step nearer.
fn next(whole: &Value, path: &KeyPath, said: &str, refusal: Refusal<'_>) -> Option<KeyPath> {
    // Certainty, and the path: the most certain counts, of equals the last.
    let mut best: Option<(u8, KeyPath)> = None;
    for child in children(whole, path.steps()) {
        let tried = path.clone().step(child.clone());
        let mut without = whole.clone();
        remove(&mut without, tried.steps());
        let sure = match (refusal(&without), &child) {
            (Some(other), _) if other == said => continue,
            (Some(other), PathSegment::Key(key)) if other.starts_with(&format!("missing field `{key}`")) => {
                // The key is required. Another required key is not the missing one, and a tag is wrong only if no other key is.
                if said.starts_with("missing field") {
                    continue;
                }
                u8::from(!TAGS.contains(&key.as_str()))
            }
            _ => 2,
        };
        if best.as_ref().is_none_or(|(before, _)| sure >= *before) {
            best = Some((sure, tried));
        }
    }
    best.map(|(_, path)| path)
}

fn children(whole: &Value, path: &[PathSegment]) -> Vec<PathSegment> {
    let value = path.iter().try_fold(whole, |value, step| match step {
        PathSegment::Key(key) => value.get(key),
        PathSegment::At(index) => value.get(*index),
    });
    match value {
        Some(Value::Table(table)) => table.keys().take(TRIED_MAX).cloned().map(PathSegment::Key).collect(),
        Some(Value::Array(list)) => (0..list.len().min(TRIED_MAX)).map(PathSegment::At).collect(),
        _ => Vec::new(),
    }
}

fn remove(whole: &mut Value, path: &[PathSegment]) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(whole, |value, step| match step {
        PathSegment::Key(key) => value.get_mut(key),
        PathSegment::At(index) => value.get_mut(*index),
    });
    match (parent, last) {
        (Some(Value::Table(table)), PathSegment::Key(key)) => {
            table.remove(key);
        }
        (Some(Value::Array(list)), PathSegment::At(index)) if *index < list.len() => {
            list.remove(*index);
        }
        _ => {}
    }
}
