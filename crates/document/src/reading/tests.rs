//! Compared with the two deserializers of `toml`: results, messages and places.

use super::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::de::{DeTable, ValueDeserializer};

/// All kinds of types that serde distinguishes.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Whole {
    flag: bool,
    small: Option<u8>,
    large: u64,
    number: f64,
    text: String,
    list: Vec<i16>,
    pair: Option<(u8, String)>,
    fixed: Option<[u8; 2]>,
    by_number: BTreeMap<u16, String>,
    by_name: BTreeMap<Newtype, Choice>,
    choice: Choice,
    tagged: Option<Tagged>,
    either: Option<Either>,
    flat: Option<Flat>,
    any: Option<Value>,
    tables: Vec<Whole>,
    nothing: Option<()>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Newtype(String);

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Choice {
    #[default]
    Plain,
    Held(u8),
    Both(u8, bool),
    Named {
        a: u8,
        #[serde(default)]
        b: String,
    },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Tagged {
    One { x: u32 },
    Other { y: Vec<Choice>, z: Option<f64> },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Either {
    Flag(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    List(Vec<Self>),
    Table(BTreeMap<String, Self>),
}

#[derive(Debug, PartialEq, Deserialize)]
struct Flat {
    a: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, Either>,
}

/// Keys of [`Whole`] with all these, one after the other.
const VALUES: &[&str] = &[
    "true",
    "1",
    "-1",
    "0x1f",
    "300",
    "1.5",
    "inf",
    "1e400",
    "''",
    "'plain'",
    "'held'",
    "'other'",
    "'one'",
    "1979-05-27",
    "1979-05-27T07:32:00Z",
    "[]",
    "[1]",
    "[1, 2]",
    "[1, 'b']",
    "[1, 2, 3]",
    "['plain', 1]",
    "[[1], 2.5, 'c', { d = 1979-05-27 }]",
    "{}",
    "{ a = 1 }",
    "{ a = 'x' }",
    "{ a = 1, b = 2 }",
    "{ a = 1, b = 'x', c = 1979-05-27 }",
    "{ 1 = 'x', 2 = 'y' }",
    "{ 99999 = 'x' }",
    "{ plain = [] }",
    "{ plain = {} }",
    "{ plain = [1] }",
    "{ plain = { x = 1 } }",
    "{ plain = 1 }",
    "{ held = 1 }",
    "{ held = 'x' }",
    "{ held = 1, both = 2 }",
    "{ none = 1 }",
    "{ both = [1, true] }",
    "{ both = [1] }",
    "{ both = [1, 2] }",
    "{ both = { 0 = 1, 1 = true } }",
    "{ both = { 0 = 1, 2 = true } }",
    "{ both = 1979-05-27 }",
    "{ named = { a = 1 } }",
    "{ named = { a = 'x' } }",
    "{ named = { a = 1, z = 2, y = 3 } }",
    "{ named = {} }",
    "{ named = [1, 'x'] }",
    "{ named = 3 }",
    "{ x = 'plain', y = { held = 1 }, z = 1979-05-27 }",
    "{ kind = 'one', x = 1 }",
    "{ kind = 'one', x = 'a' }",
    "{ kind = 'one', x = 1, y = 1 }",
    "{ kind = 'other', y = ['plain', { held = 300 }] }",
    "{ kind = 'other', y = ['plain', { both = [1, true] }], z = 1 }",
    "{ kind = 'none' }",
    "{ kind = 1 }",
    "{ x = 1 }",
    "[{ flag = true }, { small = 1 }]",
    "[{ flag = true }, { small = 300 }]",
    "[{ tables = [{ choice = 'no' }] }]",
    "[[true], { what = 1 }]",
];
const KEYS: &[&str] = &[
    "flag",
    "small",
    "large",
    "number",
    "text",
    "list",
    "pair",
    "fixed",
    "by_number",
    "by_name",
    "choice",
    "tagged",
    "either",
    "flat",
    "any",
    "tables",
    "nothing",
    "unknown",
];

#[test]
fn values_are_read_and_refused_as_by_toml() {
    for (key, value) in KEYS.iter().flat_map(|key| VALUES.iter().map(move |value| (key, value))) {
        let text = format!("large = 7\n{key}  =  {value}\n");
        let text = if *key == "large" { text[10..].to_owned() } else { text };
        let written = DeTable::parse(&text).unwrap();
        let written = Spanned::new(written.span(), DeValue::Table(written.into_inner()));
        let ours = read::<Whole>(&written).map_err(|error| (error.message().to_owned(), error.span()));
        let theirs = Whole::deserialize(ValueDeserializer::from(written));
        let theirs = theirs.map_err(|error| (error.message().to_owned(), error.span()));
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{text}");
        let Ok(plain) = text.parse::<toml::Table>().map(Value::Table) else { continue };
        let ours = from_value::<Whole>(&plain).map_err(|error| error.message().to_owned());
        let theirs = Whole::deserialize(plain).map_err(|error| error.message().to_owned());
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{text}");
    }
}
