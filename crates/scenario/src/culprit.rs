//! Which key of a table is the one that is refused, where whoever refuses cannot say.
//!
//! Types that choose by a tag, or take in the keys of others, read a whole table before they look at it: serde then knows the
//! table and no longer the key. So the keys are tried: it is the one without which something else is said, or nothing.

use crate::keypath::{KeyPath, PathSegment};
use toml::Value;

/// Keys that say which other keys there are: without them everything is refused.
const TAGS: [&str; 5] = ["kind", "design", "mode", "shape", "preset"];

/// Most entries of a table or list that are tried, so that a huge file is refused soon.
const TRIED_MAX: usize = 256;

/// What is said of a document, if it is refused.
pub(crate) type Refusal<'a> = &'a dyn Fn(&Value) -> Option<String>;

/// The value below `from` that `refusal` is of, or `from` itself if no single one is.
pub(crate) fn culprit(whole: &Value, from: KeyPath, refusal: Refusal<'_>) -> KeyPath {
    let Some(said) = refusal(whole) else { return from };
    let mut path = from;
    while let Some(next) = next(whole, &path, &said, refusal) {
        path = next;
    }
    path
}

/// One step nearer.
fn next(whole: &Value, path: &KeyPath, said: &str, refusal: Refusal<'_>) -> Option<KeyPath> {
    // How sure, and the path: the surest counts, of equals the last.
    let mut best: Option<(u8, KeyPath)> = None;
    for child in children(whole, path.steps()) {
        let tried = path.clone().step(child.clone());
        let mut without = whole.clone();
        remove(&mut without, tried.steps());
        let sure = match (refusal(&without), &child) {
            (Some(other), _) if other == said => continue,
            (Some(other), PathSegment::Key(key)) if other.starts_with(&format!("missing field `{key}`")) => {
                // It is needed. Another key that is needed is not what is missing, and a tag is wrong only if nothing else is.
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
