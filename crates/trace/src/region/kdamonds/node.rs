//! A place in a configuration, with its name for messages.

use serde_json::{Map, Value};

use super::Limit;
use crate::region::damo::quantity::{Quantity, Units, parse, shortened};

/// Path of an error, and its text.
pub(super) type Flaw = (String, String);

/// A value and its place, as `kdamonds[0].contexts[1].ops`.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    pub(super) value: &'a Value,
    pub(super) place: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, place: String::new() }
    }

    pub(super) fn flaw<T>(&self, what: impl Into<String>) -> Result<T, Flaw> {
        let place = if self.place.is_empty() { "the whole" } else { &self.place };
        Err((place.to_owned(), what.into()))
    }

    fn wrong<T>(&self, wanted: &str) -> Result<T, Flaw> {
        self.flaw(format!("{} where {wanted} should be", shortened(&self.value.to_string())))
    }

    fn map(&self) -> Result<&'a Map<String, Value>, Flaw> {
        self.value.as_object().map_or_else(|| self.wrong("an object with keys"), Ok)
    }

    /// Keys that are not among `known`.
    pub(super) fn others(&self, known: &[&str]) -> Result<Vec<String>, Flaw> {
        let others = self.map()?.keys().filter(|key| !known.contains(&key.as_str()));
        Ok(others.map(|key| self.child_place(key)).collect())
    }

    fn child_place(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    /// The value under `key`; `None` when it is absent or null.
    pub(super) fn get(&self, key: &str) -> Result<Option<Self>, Flaw> {
        let value = self.map()?.get(key).filter(|value| !value.is_null());
        Ok(value.map(|value| Self { value, place: self.child_place(key) }))
    }

    pub(super) fn need(&self, key: &str) -> Result<Self, Flaw> {
        let found = self.get(key)?;
        found.map_or_else(|| Err((self.child_place(key), "it is missing, and has no default".to_owned())), Ok)
    }

    /// The members of the list under `key`; none when it is absent.
    pub(super) fn list(&self, key: &str) -> Result<Vec<Self>, Flaw> {
        self.get(key)?.map_or(Ok(Vec::new()), |node| node.members())
    }

    pub(super) fn members(&self) -> Result<Vec<Self>, Flaw> {
        let Some(members) = self.value.as_array() else { return self.wrong("a list") };
        let member = |(index, value)| Self { value, place: format!("{}[{index}]", self.place) };
        Ok(members.iter().enumerate().map(member).collect())
    }

    pub(super) fn text(&self) -> Result<String, Flaw> {
        match self.value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => self.wrong("a text"),
        }
    }

    pub(super) fn text_or(&self, key: &str, default: &str) -> Result<String, Flaw> {
        self.get(key)?.map_or_else(|| Ok(default.to_owned()), |node| node.text())
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<String>, Flaw> {
        let text = self.get(key)?.map(|node| node.text()).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, Flaw> {
        let Some(node) = self.get(key)? else { return Ok(default) };
        match node.value {
            Value::Bool(flag) => Ok(*flag),
            Value::String(text) if ["y", "yes", "true"].contains(&&*text.to_ascii_lowercase()) => Ok(true),
            Value::String(text) if ["n", "no", "false"].contains(&&*text.to_ascii_lowercase()) => Ok(false),
            _ => node.wrong("true or false"),
        }
    }

    pub(super) fn quantity(&self, units: Units, plain: u64) -> Result<u64, Flaw> {
        let text = match self.value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return self.wrong("a number"),
        };
        match parse(&text, units, plain) {
            Ok(Quantity { value, .. }) => Ok(value),
            Err(what) => self.flaw(what),
        }
    }

    pub(super) fn quantity_or(&self, key: &str, units: Units, plain: u64, default: u64) -> Result<u64, Flaw> {
        self.get(key)?.map_or(Ok(default), |node| node.quantity(units, plain))
    }

    pub(super) fn limit(&self, units: Units, plain: u64) -> Result<Limit, Flaw> {
        Ok(match self.quantity(units, plain)? {
            u64::MAX => Limit::Max,
            value => Limit::At(value),
        })
    }
}
