//! A configuration for output: JSON with keys in damo's order.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Null,
    Flag(bool),
    Number(u64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(&'static str, Tree)>),
}

impl Tree {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
    pub(super) fn optional_text(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }
    pub(super) fn count(count: u64) -> Self {
        Self::Text(count.to_string())
    }
    pub(super) fn list<T>(members: &[T], each: impl Fn(&T) -> Self) -> Self {
        Self::List(members.iter().map(each).collect())
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(members) => serializer.collect_seq(members),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}
