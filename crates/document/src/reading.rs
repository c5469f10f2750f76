//! The one deserializer of documents: from text with places ([`Document`](crate::document::Document)), and from tables of TOML.
//!
//! A type that is read is compiled once for each deserializer, and once more for each kind of map that this may hand to it. `toml` has two
//! deserializers, with four kinds of maps; here is one of each. Both kinds of values are read exactly as `toml` reads them, also where it
//! treats the two differently, and have its error messages (toml 1.2.1, `src/de/deserializer/` and `src/value.rs`).

use crate::document;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Error as _, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use std::fmt::{self, Display};
use std::ops::Range;
use std::{slice, vec};
use toml::de::{DeString, DeValue};
use toml::{Spanned, Value, map};

/// A value from text as `T`.
///
/// # Errors
/// The value that is no `T`, with its place in the text.
pub(crate) fn read<T: DeserializeOwned>(value: &document::Value<'_>) -> Result<T, ReadError> {
    T::deserialize(Node::Written(value))
}

/// A value without text as `T`.
///
/// # Errors
/// The value that is no `T`, without a place.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, ReadError> {
    T::deserialize(Node::Plain(value))
}

/// Byte range in the text, for values from text.
type Place = Option<Range<usize>>;

/// Why a value is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    message: String,
    place: Place,
}

impl ReadError {
    /// Without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn span(&self) -> Place {
        self.place.clone()
    }

    fn new(message: impl Into<String>, place: Place) -> Self {
        Self { message: message.into(), place }
    }

    /// At `place`, unless an inner place is known.
    fn at(mut self, place: Place) -> Self {
        self.place = self.place.or(place);
        self
    }
}

impl Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message.to_string(), None)
    }
}

/// A value to be read.
#[derive(Clone, Copy)]
enum Node<'t> {
    Written(&'t document::Value<'t>),
    Plain(&'t Value),
    /// A date of a text, as the entry of a table.
    Date(&'t toml::value::Datetime),
    /// The same, when it is read.
    DateText(&'t str),
}

/// Type of a value in serde's terms.
enum Shape<'t> {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(&'t str),
    Date(String),
    List(Items<'t>),
    Table(Entries<'t>),
}

impl<'t> Node<'t> {
    fn place(self) -> Place {
        match self {
            Self::Written(value) => Some(value.span()),
            Self::Plain(_) | Self::Date(_) | Self::DateText(_) => None,
        }
    }

    fn shape(self) -> Result<Shape<'t>, ReadError> {
        Ok(match self {
            Self::Written(value) => match value.get_ref() {
                DeValue::String(text) => Shape::Text(text),
                DeValue::Integer(number) => {
                    let integer = i64::from_str_radix(number.as_str(), number.radix());
                    Shape::Integer(integer.map_err(|_| ReadError::custom("integer number overflowed"))?)
                }
                DeValue::Float(number) => {
                    let float: Option<f64> = number.as_str().parse().ok();
                    let float = float.filter(|float| !float.is_infinite() || number.as_str().contains("inf"));
                    Shape::Number(float.ok_or_else(|| ReadError::custom("floating-point number overflowed"))?)
                }
                DeValue::Boolean(flag) => Shape::Flag(*flag),
                DeValue::Datetime(date) => Shape::Table(Entries::Date(Some(date))),
                DeValue::Array(list) => Shape::List(Items::Written(list.iter())),
                DeValue::Table(table) => Shape::Table(Entries::Written(table.iter())),
            },
            Self::Plain(value) => match value {
                Value::String(text) => Shape::Text(text),
                Value::Integer(number) => Shape::Integer(*number),
                Value::Float(number) => Shape::Number(*number),
                Value::Boolean(flag) => Shape::Flag(*flag),
                Value::Datetime(date) => Shape::Date(date.to_string()),
                Value::Array(list) => Shape::List(Items::Plain(list.iter())),
                Value::Table(table) => Shape::Table(Entries::Plain(table.iter())),
            },
            Self::Date(date) => Shape::Date(date.to_string()),
            Self::DateText(text) => Shape::Text(text),
        })
    }

    /// Lists and tables without text are read to their end.
    fn is_read(self, nr_left: usize, nr_members: usize, expected: &'static str) -> Result<(), ReadError> {
        match self {
            Self::Plain(_) if nr_left > 0 => Err(ReadError::invalid_length(nr_members, &expected)),
            _ => Ok(()),
        }
    }

    /// The variant of an enum that it names: its text, or the only key of a table.
    fn chosen(self) -> Result<Chosen<'t>, ReadError> {
        match self.shape() {
            Ok(Shape::Text(name)) => Ok(Chosen { name: Key::Plain(name), content: None }),
            Ok(Shape::Table(mut table)) if !matches!(table, Entries::Date(_)) => match (table.len(), table.next()) {
                (1, Some((name, content))) => Ok(Chosen { name, content: Some(content) }),
                (0, _) => Err(ReadError::new("wanted exactly 1 element, found 0 elements", self.place())),
                _ => Err(ReadError::new("wanted exactly 1 element, more than 1 element", self.place())),
            },
            _ if matches!(self, Self::Plain(_)) => {
                Err(ReadError::invalid_type(Unexpected::UnitVariant, &"string only"))
            }
            _ => Err(ReadError::new("wanted string or table", self.place())),
        }
    }

    /// Members of a list, or of a table whose keys are 0, 1 and so on.
    fn members(self, nr_members: usize) -> Result<Items<'t>, ReadError> {
        let items = match self.shape() {
            Ok(Shape::List(items)) => items,
            Ok(Shape::Table(table)) if !matches!(table, Entries::Date(_)) => {
                let mut members = Vec::new();
                for (index, (key, value)) in table.enumerate() {
                    if key.name().parse() != Ok(index) {
                        let message = format!("expected table key `{index}`, but was `{}`", key.name());
                        return Err(ReadError::new(message, key.place()));
                    }
                    members.push(value);
                }
                Items::Picked(members.into_iter())
            }
            _ => return Err(self.no_table()),
        };
        if items.len() != nr_members {
            return Err(ReadError::new(format!("expected tuple with length {nr_members}"), self.place()));
        }
        Ok(items)
    }

    fn is_nothing(self) -> Result<(), ReadError> {
        match self.shape() {
            Ok(Shape::List(items)) if items.len() == 0 => Ok(()),
            Ok(Shape::List(_)) => Err(ReadError::new("expected empty array", self.place())),
            Ok(Shape::Table(table)) if !matches!(table, Entries::Date(_)) => match table.len() {
                0 => Ok(()),
                _ => Err(ReadError::new("expected empty table", self.place())),
            },
            _ => Err(self.no_table()),
        }
    }

    fn no_table(self) -> ReadError {
        let kind = match self {
            Self::Written(value) => value.get_ref().type_str(),
            Self::Plain(value) => value.type_str(),
            Self::Date(_) | Self::DateText(_) => "string",
        };
        ReadError::new(format!("expected table, found {kind}"), self.place())
    }

    /// Refuses keys that a variant of an enum does not have.
    fn has_only(self, fields: &'static [&'static str]) -> Result<(), ReadError> {
        let Ok(Shape::Table(table @ Entries::Written(_))) = self.shape() else { return Ok(()) };
        let others: Vec<Key<'_>> = table.map(|(key, _)| key).filter(|key| !fields.contains(&key.name())).collect();
        let Some(first) = others.first() else { return Ok(()) };
        let names: Vec<&str> = others.iter().map(|key| key.name()).collect();
        let (names, fields) = (names.join(", "), fields.join(", "));
        Err(ReadError::new(format!("unexpected keys in table: {names}, available keys: {fields}"), first.place()))
    }
}

// Calls of `map_err` and the like would be compiled again for each type: matches are half as much code.
impl<'de> de::Deserializer<'de> for Node<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let read = match self.shape() {
            Ok(Shape::Flag(flag)) => visitor.visit_bool(flag),
            Ok(Shape::Integer(number)) => visitor.visit_i64(number),
            Ok(Shape::Number(number)) => visitor.visit_f64(number),
            Ok(Shape::Text(text)) => visitor.visit_str(text),
            Ok(Shape::Date(text)) => visitor.visit_str(&text),
            Ok(Shape::List(mut items)) => {
                let nr_items = items.len();
                match visitor.visit_seq(ListReader(&mut items)) {
                    Ok(read) => match self.is_read(items.len(), nr_items, "fewer elements in array") {
                        Ok(()) => return Ok(read),
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(error),
                }
            }
            Ok(Shape::Table(mut entries)) => {
                let nr_entries = entries.len();
                match visitor.visit_map(TableReader { entries: &mut entries, value: None }) {
                    Ok(read) => match self.is_read(entries.len(), nr_entries, "fewer elements in map") {
                        Ok(()) => return Ok(read),
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        match read {
            Ok(read) => Ok(read),
            Err(error) => Err(error.at(self.place())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match visitor.visit_some(self) {
            Ok(read) => Ok(read),
            Err(error) => Err(error.at(self.place())),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match visitor.visit_newtype_struct(self) {
            Ok(read) => Ok(read),
            Err(error) => Err(error.at(self.place())),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match visitor.visit_enum(self.chosen()?) {
            Ok(read) => Ok(read),
            Err(error) => Err(error.at(self.place())),
        }
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
        map struct identifier ignored_any
    }
}

/// Members of a list that are not read yet.
enum Items<'t> {
    Written(slice::Iter<'t, document::Value<'t>>),
    Plain(slice::Iter<'t, Value>),
    Picked(vec::IntoIter<Node<'t>>),
}

impl Items<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Written(items) => items.len(),
            Self::Plain(items) => items.len(),
            Self::Picked(items) => items.len(),
        }
    }
}

impl<'t> Iterator for Items<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Node<'t>> {
        match self {
            Self::Written(items) => items.next().map(Node::Written),
            Self::Plain(items) => items.next().map(Node::Plain),
            Self::Picked(items) => items.next(),
        }
    }
}

struct ListReader<'i, 't>(&'i mut Items<'t>);

impl<'de> de::SeqAccess<'de> for ListReader<'_, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some(item) = self.0.next() else { return Ok(None) };
        match seed.deserialize(item) {
            Ok(read) => Ok(Some(read)),
            Err(error) => Err(error),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Entries of a table that are not read yet.
enum Entries<'t> {
    Written(map::Iter<'t, Spanned<DeString<'t>>, document::Value<'t>>),
    Plain(map::Iter<'t, String, Value>),
    /// `toml` passes dates of a text on as tables with one key.
    Date(Option<&'t toml::value::Datetime>),
}

/// The key by which `toml` recognises its dates (toml_datetime 1.1.3, `src/datetime.rs`: `FIELD`).
const DATE: &str = "$__toml_private_datetime";

impl Entries<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Written(entries) => entries.len(),
            Self::Plain(entries) => entries.len(),
            Self::Date(date) => usize::from(date.is_some()),
        }
    }
}

impl<'t> Iterator for Entries<'t> {
    type Item = (Key<'t>, Node<'t>);

    fn next(&mut self) -> Option<(Key<'t>, Node<'t>)> {
        match self {
            Self::Written(entries) => entries.next().map(|(key, value)| (Key::Written(key), Node::Written(value))),
            Self::Plain(entries) => entries.next().map(|(key, value)| (Key::Plain(key), Node::Plain(value))),
            Self::Date(date) => date.take().map(|date| (Key::Date, Node::Date(date))),
        }
    }
}

struct TableReader<'e, 't> {
    entries: &'e mut Entries<'t>,
    /// Value of the key that was read last.
    value: Option<Node<'t>>,
}

impl<'de> de::MapAccess<'de> for TableReader<'_, '_> {
    type Error = ReadError;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        match seed.deserialize(key) {
            Ok(read) => Ok(Some(read)),
            Err(error) => Err(error.at(key.place())),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let Some(value) = self.value.take() else { return Err(ReadError::new("value is missing", None)) };
        let text;
        let value = match value {
            Node::Date(date) => {
                text = date.to_string();
                Node::DateText(&text)
            }
            other => other,
        };
        match seed.deserialize(value) {
            Ok(read) => Ok(read),
            Err(error) => Err(error.at(value.place())),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A key of a table, or the name of a variant.
#[derive(Clone, Copy)]
enum Key<'t> {
    Written(&'t Spanned<DeString<'t>>),
    Plain(&'t str),
    /// A date in `toml`'s form.
    Date,
}

impl<'t> Key<'t> {
    fn name(self) -> &'t str {
        match self {
            Self::Written(key) => key.get_ref(),
            Self::Plain(key) => key,
            Self::Date => DATE,
        }
    }

    fn place(self) -> Place {
        match self {
            Self::Written(key) => Some(key.span()),
            Self::Plain(_) | Self::Date => None,
        }
    }
}

/// Keys of a text may be numbers.
macro_rules! parsed {
    ($($deserialize:ident $visit:ident $kind:ty;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match self {
                Self::Written(key) => visitor.$visit(key.get_ref().parse::<$kind>().map_err(ReadError::custom)?),
                Self::Plain(_) | Self::Date => visitor.visit_str(self.name()),
            }
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Key<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_str(self.name())
    }

    parsed! {
        deserialize_bool visit_bool bool;
        deserialize_char visit_char char;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self {
            Self::Date => visitor.visit_str(DATE),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_enum(Chosen { name: self, content: None })
    }

    forward_to_deserialize_any! {
        f32 f64 str string bytes byte_buf option unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A variant of an enum.
struct Chosen<'t> {
    name: Key<'t>,
    /// Content of the variant. A variant that is only a name has none.
    content: Option<Node<'t>>,
}

impl<'de> de::EnumAccess<'de> for Chosen<'_> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), ReadError> {
        match seed.deserialize(self.name) {
            Ok(read) => Ok((read, self)),
            Err(error) => Err(error.at(self.name.place())),
        }
    }
}

impl<'de> de::VariantAccess<'de> for Chosen<'_> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        self.content.map_or(Ok(()), Node::is_nothing)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self.content_of(&"newtype variant")?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, nr_members: usize, visitor: V) -> Result<V::Value, ReadError> {
        let mut items = self.content_of(&"tuple variant")?.members(nr_members)?;
        visitor.visit_seq(ListReader(&mut items))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let content = self.content_of(&"struct variant")?;
        content.has_only(fields)?;
        de::Deserializer::deserialize_any(content, visitor)
    }
}

impl<'t> Chosen<'t> {
    fn content_of(self, expected: &'static &'static str) -> Result<Node<'t>, ReadError> {
        self.content.ok_or_else(|| ReadError::invalid_type(Unexpected::UnitVariant, expected))
    }
}

#[cfg(test)]
mod tests;
