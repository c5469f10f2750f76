//! One spelling of keys: `accesses-per-second`. Keys such as `accesses_per_second` are read as if spelt with `-`.
//!
//! This is done to the parsed document, for all types alike, because serde's attributes would have to give both spellings for each of some
//! hundred fields. Names are not keys: a patch uses them for entries of a list, and they stay as they are. Maps whose keys are data (orders
//! of blocks) have numbers for them.

use crate::document::{Patches, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys of a document that were spelt with `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OldSpelling {
    /// Offset of the first occurrence.
    pub(crate) offset: usize,
    pub(crate) written: String,
    /// The spelling that is read.
    pub(crate) meant: String,
    pub(crate) nr_keys: usize,
}

/// Why a document mixes spellings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpellingError {
    /// Offset of the error.
    pub(crate) offset: usize,
    kind: ErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ErrorKind {
    Twice { key: String, first: usize },
    TooDeep,
}

/// Most levels of tables in tables. The parser has the same limit for brackets, but lets dotted keys go deeper.
const DEPTH_MAX: usize = 80;

impl SpellingError {
    /// The message; `line_of` gives the line of a byte.
    pub(crate) fn message(&self, line_of: impl Fn(usize) -> usize) -> String {
        match &self.kind {
            ErrorKind::Twice { key, first } => format!(
                "`{key}` and `{}` are one key, which line {} gives already (line {} again); keep one, as `{key}`",
                key.replace('-', "_"),
                line_of(*first),
                line_of(self.offset)
            ),
            ErrorKind::TooDeep => {
                format!("tables stand in tables more than {DEPTH_MAX} deep; no key is as deep as that")
            }
        }
    }
}

/// Spells all keys with `-`.
///
/// # Errors
/// A key that one table has in both spellings.
pub(crate) fn normalise(root: &mut Value<'_>, patches: Option<Patches>) -> Result<Option<OldSpelling>, SpellingError> {
    let mut speller = Speller { found: None };
    let Some(table) = table_of(root) else { return Ok(None) };
    // Patches come last: the tables that they change distinguish names from keys.
    let patched = patches.and_then(|patches| Some((patches.key, table.remove_entry(patches.list)?)));
    speller.value(root, &[], 0)?;
    if let Some((patch_key, (key, mut entries))) = patched {
        if let DeValue::Array(list) = entries.get_mut() {
            for entry in list.iter_mut() {
                let patch = table_of(entry).and_then(|entry| entry.remove_entry(patch_key));
                speller.value(entry, &[], 1)?;
                if let (Some((key, mut patch)), Some(entry)) = (patch, table_of(entry)) {
                    speller.value(&mut patch, &[root], 2)?;
                    entry.insert(key, patch);
                }
            }
        }
        if let Some(table) = table_of(root) {
            table.insert(key, entries);
        }
    }
    Ok(speller.found)
}

/// The name of an entry of a list in patches.
pub(crate) fn name_of<'v>(entry: &'v Value<'_>) -> Option<&'v str> {
    ["name", "path"].iter().find_map(|key| entry.get_ref().get(*key)?.get_ref().as_str())
}

fn table_of<'v, 'a>(value: &'v mut Value<'a>) -> Option<&'v mut DeTable<'a>> {
    match value.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

struct Speller {
    found: Option<OldSpelling>,
}

impl Speller {
    /// `bases` are the values that a patch may change here.
    fn value(&mut self, value: &mut Value<'_>, bases: &[&Value<'_>], depth: usize) -> Result<(), SpellingError> {
        let offset = value.span().start;
        if depth > DEPTH_MAX {
            return Err(SpellingError { offset, kind: ErrorKind::TooDeep });
        }
        let entries: Vec<&Value<'_>> =
            bases.iter().filter_map(|base| base.get_ref().as_array()).flat_map(|list| list.iter()).collect();
        let is_over_list = bases.iter().any(|base| base.get_ref().is_array());
        match value.get_mut() {
            DeValue::Table(named) if is_over_list => named.iter_mut().try_for_each(|(name, change)| {
                let name: &str = name.get_ref();
                let is_meant = |entry: &&&Value<'_>| name == "*" || name_of(entry) == Some(name);
                let meant: Vec<&Value<'_>> = entries.iter().filter(is_meant).copied().collect();
                self.value(change, &meant, depth + 1)
            }),
            DeValue::Table(table) => self.table(table, bases, depth),
            DeValue::Array(list) => list.iter_mut().try_for_each(|entry| self.value(entry, &[], depth + 1)),
            _ => Ok(()),
        }
    }

    fn table(&mut self, table: &mut DeTable<'_>, bases: &[&Value<'_>], depth: usize) -> Result<(), SpellingError> {
        for (mut key, mut value) in std::mem::take(table) {
            if key.get_ref().contains('_') {
                let meant = key.get_ref().replace('_', "-");
                self.note(&key, &meant);
                *key.get_mut() = meant.into();
            }
            let name: &str = key.get_ref();
            if let Some((other, _)) = table.get_key_value(name) {
                let (one, other) = (key.span().start, other.span().start);
                let kind = ErrorKind::Twice { key: name.to_owned(), first: one.min(other) };
                return Err(SpellingError { offset: one.max(other), kind });
            }
            let bases: Vec<&Value<'_>> = bases.iter().filter_map(|base| base.get_ref().get(name)).collect();
            self.value(&mut value, &bases, depth + 1)?;
            table.insert(key, value);
        }
        Ok(())
    }

    fn note(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, meant: &str) {
        let offset = key.span().start;
        let nr_keys = 1 + self.found.as_ref().map_or(0, |found| found.nr_keys);
        match &mut self.found {
            Some(found) if found.offset < offset => found.nr_keys = nr_keys,
            found => {
                let written = key.get_ref().clone().into_owned();
                *found = Some(OldSpelling { offset, written, meant: meant.to_owned(), nr_keys });
            }
        }
    }
}
