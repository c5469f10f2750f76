//! A text as a tree with the place of each key and value.

use crate::DocumentError;
use crate::culprit::culprit;
use crate::keypath::{KeyPath, PathSegment};
use crate::reading::{self, ReadError, from_value};
use crate::spelling::{self, OldSpelling};
use crate::suggestion::with_suggestion;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

/// A value and its byte range in the text.
pub(crate) type Value<'a> = Spanned<DeValue<'a>>;

/// Features that a kind of document has in addition to TOML. The default has no features.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dialect {
    /// By key: further names that are read for it; [`Document::place`] finds them as well.
    pub other_names: &'static [(&'static str, &'static [&'static str])],
    pub patches: Option<Patches>,
}

/// Place of the patches in a document: tables that change the rest of it. In a patch, a table in place of a list changes the list's
/// entries, each by its `name` or `path`, or all as `*`; such names are no keys, and keep their spelling.
#[derive(Clone, Copy, Debug)]
pub struct Patches {
    /// Key of the root whose entries have patches.
    pub list: &'static str,
    /// Key of an entry.
    pub key: &'static str,
}

/// A parsed file. All keys are spelt with `-`, regardless of the text.
pub struct Document<'a> {
    name: &'a str,
    text: &'a str,
    dialect: Dialect,
    root: Value<'a>,
    old_spelling: Option<OldSpelling>,
}

/// How far a path could be followed, and the place reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    nr_steps: usize,
    offset: usize,
}

impl<'a> Document<'a> {
    /// Parses `text`; `name` is for messages.
    ///
    /// # Errors
    /// [`DocumentError::Syntax`]: not TOML, a number that TOML cannot hold, or a key that one table has in both spellings.
    pub fn parse(text: &'a str, name: &'a str, dialect: Dialect) -> Result<Self, DocumentError> {
        let fail = |offset: Option<usize>, message: String| {
            let place = offset.map_or_else(|| name.to_owned(), |offset| place(text, name, offset));
            DocumentError::Syntax { place, message }
        };
        if let Some(offset) = too_deep(text) {
            return Err(fail(
                Some(offset),
                format!("brackets are nested more than {DEPTH_MAX} deep; is one not closed?"),
            ));
        }
        let root = DeTable::parse(text)
            .map_err(|error| fail(error.span().map(|span| span.start), error.message().to_owned()))?;
        let mut root = Spanned::new(root.span(), DeValue::Table(root.into_inner()));
        if let Some((offset, number)) = too_large(&root) {
            let message = format!("{number} is out of range: numbers of TOML are {} to {}", i64::MIN, i64::MAX);
            return Err(fail(Some(offset), message));
        }
        let old_spelling = spelling::normalise(&mut root, dialect.patches)
            .map_err(|refusal| fail(Some(refusal.offset), refusal.message(|offset| line_of(text, offset))))?;
        Ok(Self { name, text, dialect, root, old_spelling })
    }

    /// The document as `T`.
    ///
    /// # Errors
    /// [`DocumentError::Syntax`]: the key or value that is not of a `T`, with a suggestion for misspelt keys.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        reading::read(&self.root).map_err(|error| self.misread::<T>(&error))
    }

    /// Serde reports the place. For tables that it buffered it reports only where they begin; there the key is found by trying.
    fn misread<T: DeserializeOwned>(&self, error: &ReadError) -> DocumentError {
        let container = error.span().and_then(|span| self.container_at(&span));
        let key = container.and_then(|container| {
            let whole: toml::Value = reading::read(&self.root).ok()?;
            let refusal = |whole: &toml::Value| from_value::<T>(whole).err().map(|error| error.message().to_owned());
            let key = culprit(&whole, container.clone(), &refusal);
            (key != container).then_some(key)
        });
        let place = match (key, error.span()) {
            (Some(key), _) if error.message().starts_with("unknown field") => self.place(&key),
            (Some(key), _) => self.place_of_value(&key),
            (None, Some(span)) => self.at(span.start),
            (None, None) => self.place(&KeyPath::root()),
        };
        DocumentError::Syntax { place, message: with_suggestion(error.message()) }
    }

    /// Note on keys that are not spelt as documented, if there are any.
    pub fn note(&self) -> Option<String> {
        let old = self.old_spelling.as_ref()?;
        let OldSpelling { offset, written, meant, nr_keys } = old;
        let others = match nr_keys - 1 {
            0 => String::new(),
            1 => ", and 1 more key likewise".to_owned(),
            others => format!(", and {others} more keys likewise"),
        };
        Some(format!(
            "{}: `{written}` is spelt `{meant}`{others}; keys are written with `-`, those with `_` are still read",
            self.at(*offset)
        ))
    }

    /// `name:line:column` of a byte of the text.
    fn at(&self, offset: usize) -> String {
        place(self.text, self.name, offset)
    }

    /// Place of `path`. A key that is left out has the place of its table.
    pub fn place(&self, path: &KeyPath) -> String {
        self.place_found(self.deepest(path))
    }

    /// Place of `path` in the patch at `patch`, or else in the document itself; `None` if neither names any part of it.
    pub fn place_in(&self, patch: &KeyPath, path: &KeyPath) -> Option<String> {
        let own = self.deepest(path);
        let patched = self.value(patch).map(|patch| deepest(patch, Some(&self.root), path.steps(), self.dialect));
        let is_said = |found: &Found| found.nr_steps == path.steps().len() || found.nr_steps > own.nr_steps;
        let found = patched.filter(is_said).or((own.nr_steps > 0).then_some(own))?;
        Some(self.place_found(found))
    }

    fn place_found(&self, found: Found) -> String {
        // Nothing of the path is written: only the file can be named.
        if found.nr_steps == 0 { self.name.to_owned() } else { self.at(found.offset) }
    }

    fn deepest(&self, path: &KeyPath) -> Found {
        deepest(&self.root, None, path.steps(), self.dialect)
    }

    /// Start of the value at `path`.
    fn place_of_value(&self, path: &KeyPath) -> String {
        self.value(path).map_or_else(|| self.place(path), |value| self.at(value.span().start))
    }

    /// The table or list with exactly this byte range.
    fn container_at(&self, span: &Range<usize>) -> Option<KeyPath> {
        fn search(value: &Value<'_>, span: &Range<usize>, path: KeyPath) -> Option<KeyPath> {
            match value.get_ref() {
                DeValue::Table(_) | DeValue::Array(_) if value.span() == *span => Some(path),
                DeValue::Table(table) => {
                    table.iter().find_map(|(key, value)| search(value, span, path.clone().key(key.get_ref())))
                }
                DeValue::Array(list) => {
                    list.iter().enumerate().find_map(|(index, value)| search(value, span, path.clone().at(index)))
                }
                _ => None,
            }
        }
        search(&self.root, span, KeyPath::root())
    }

    fn value(&self, path: &KeyPath) -> Option<&Value<'a>> {
        path.steps().iter().try_fold(&self.root, |value, step| match (value.get_ref(), step) {
            (DeValue::Table(table), PathSegment::Key(key)) => table.get(key.as_str()),
            (DeValue::Array(list), PathSegment::At(index)) => list.get(*index),
            _ => None,
        })
    }
}

/// Follows `steps` from `value` as far as they go. `base` is the value that a patch changes, used to resolve names of entries.
fn deepest(value: &Value<'_>, base: Option<&Value<'_>>, steps: &[PathSegment], dialect: Dialect) -> Found {
    let own = Found { nr_steps: 0, offset: value.span().start };
    let Some((step, rest)) = steps.split_first() else { return own };
    let into = |child: &Value<'_>, base: Option<&Value<'_>>, key: Option<usize>| {
        let below = deepest(child, base, rest, dialect);
        // In `[machine]` the bracket comes first, in `load = {}` the key.
        let start = child.span().start;
        let offset = if below.nr_steps == 0 { key.map_or(start, |key| key.min(start)) } else { below.offset };
        Found { nr_steps: below.nr_steps + 1, offset }
    };
    let key_of = |table: &DeTable<'_>, base: Option<&Value<'_>>, key: &str| {
        let (written, child) = table.get_key_value(key)?;
        Some(into(child, base, Some(written.span().start)))
    };
    let found = match (value.get_ref(), step) {
        (DeValue::Table(table), PathSegment::Key(key)) => {
            let base = base.and_then(|base| base.get_ref().get(key.as_str()));
            let others =
                dialect.other_names.iter().find(|(ours, _)| ours == key).map_or(&[][..], |(_, others)| *others);
            std::iter::once(&key.as_str()).chain(others).find_map(|name| key_of(table, base, name))
        }
        (DeValue::Array(list), PathSegment::At(index)) => list.get(*index).map(|entry| into(entry, None, None)),
        (DeValue::Table(named), PathSegment::At(index)) => {
            let entry = base.and_then(|base| base.get_ref().get(*index));
            let names = entry.and_then(spelling::name_of).into_iter().chain(["*"]);
            let found = names.filter_map(|name| key_of(named, entry, name));
            // Of two that reach equally far the one by name counts, which is merged after `*`.
            found.reduce(|best, other| if other.nr_steps > best.nr_steps { other } else { best })
        }
        _ => None,
    };
    found.unwrap_or(own)
}

/// Brackets within brackets that are read. No file needs more than some ten.
const DEPTH_MAX: usize = 200;

/// Offset at which brackets are nested too deeply: the parser recurses for each. Its own bound fails if a bracket is in the place of a key:
/// skipped brackets count as closed but never as opened (toml_parser 1.1.5, `ignore_to_value_close`), and the stack overflowed.
fn too_deep(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    for token in Source::new(text).lex() {
        match token.kind() {
            kind @ (TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket) => open.push(kind),
            TokenKind::RightSquareBracket => drop(open.pop_if(|last| *last == TokenKind::LeftSquareBracket)),
            TokenKind::RightCurlyBracket => drop(open.pop_if(|last| *last == TokenKind::LeftCurlyBracket)),
            _ => {}
        }
        if open.len() > DEPTH_MAX {
            return Some(token.span().start());
        }
    }
    None
}

/// The first number that does not fit a signed 64-bit integer, and its offset. The parser takes numbers up to 2^64 - 1, which could not
/// be written again: TOML v1.0.0, section Integer.
fn too_large<'a>(value: &'a Value<'_>) -> Option<(usize, &'a str)> {
    match value.get_ref() {
        DeValue::Integer(number) => {
            let is_fine = i64::from_str_radix(number.as_str(), number.radix()).is_ok();
            (!is_fine).then(|| (value.span().start, number.as_str()))
        }
        DeValue::Table(table) => table.iter().find_map(|(_, value)| too_large(value)),
        DeValue::Array(list) => list.iter().find_map(too_large),
        _ => None,
    }
}

/// `name:line:column` of a byte offset.
fn place(text: &str, name: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    format!("{name}:{}:{column}", line_of(text, offset))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}
