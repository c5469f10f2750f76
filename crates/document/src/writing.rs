//! The one serializer of documents: into a [`Tree`], from which text and tables of TOML are made.
//!
//! A type that is written is compiled once for each serializer, and `toml` passes the type through four serializers to make text, and
//! through another to make a table. The tree keeps serde's calls, so that it is written exactly as the original type.

use serde::{Serialize, Serializer, ser};
use toml::Table;
use toml::ser::Error;

/// The value as TOML text.
///
/// # Errors
/// It is no table, or holds a value that TOML cannot express.
pub(crate) fn text<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    toml::to_string(&value.serialize(TreeBuilder)?)
}

/// The value as a TOML table.
///
/// # Errors
/// As [`text`].
pub fn to_table<T: Serialize + ?Sized>(value: &T) -> Result<Table, Error> {
    Table::try_from(value.serialize(TreeBuilder)?)
}

/// A value in serde's data model.
enum Tree {
    None,
    Unit,
    UnitStruct(&'static str),
    UnitVariant(Variant),
    Flag(bool),
    Signed(i64),
    Unsigned(u64),
    Single(f32),
    Double(f64),
    Text(String),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Struct(&'static str, Fields),
    NewtypeVariant(Variant, Box<Self>),
    TupleVariant(Variant, Vec<Self>),
    StructVariant(Variant, Fields),
}

type Fields = Vec<(&'static str, Tree)>;

#[derive(Clone, Copy)]
struct Variant {
    of: &'static str,
    index: u32,
    name: &'static str,
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_none(),
            Self::Unit => serializer.serialize_unit(),
            Self::UnitStruct(name) => serializer.serialize_unit_struct(name),
            Self::UnitVariant(variant) => serializer.serialize_unit_variant(variant.of, variant.index, variant.name),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Signed(number) => serializer.serialize_i64(*number),
            Self::Unsigned(number) => serializer.serialize_u64(*number),
            Self::Single(number) => serializer.serialize_f32(*number),
            Self::Double(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
            Self::Struct(name, fields) => {
                use ser::SerializeStruct as _;
                let mut whole = serializer.serialize_struct(name, fields.len())?;
                fields.iter().try_for_each(|(name, value)| whole.serialize_field(name, value))?;
                whole.end()
            }
            Self::NewtypeVariant(variant, value) => {
                serializer.serialize_newtype_variant(variant.of, variant.index, variant.name, &**value)
            }
            Self::TupleVariant(variant, items) => {
                use ser::SerializeTupleVariant as _;
                let Variant { of, index, name } = *variant;
                let mut whole = serializer.serialize_tuple_variant(of, index, name, items.len())?;
                items.iter().try_for_each(|item| whole.serialize_field(item))?;
                whole.end()
            }
            Self::StructVariant(variant, fields) => {
                use ser::SerializeStructVariant as _;
                let Variant { of, index, name } = *variant;
                let mut whole = serializer.serialize_struct_variant(of, index, name, fields.len())?;
                fields.iter().try_for_each(|(name, value)| whole.serialize_field(name, value))?;
                whole.end()
            }
        }
    }
}

struct TreeBuilder;

impl Serializer for TreeBuilder {
    type Ok = Tree;
    type Error = Error;
    type SerializeSeq = ListBuilder;
    type SerializeTuple = ListBuilder;
    type SerializeTupleStruct = ListBuilder;
    type SerializeTupleVariant = ListBuilder;
    type SerializeMap = MapBuilder;
    type SerializeStruct = StructBuilder;
    type SerializeStructVariant = StructBuilder;

    fn serialize_bool(self, flag: bool) -> Result<Tree, Error> {
        Ok(Tree::Flag(flag))
    }

    fn serialize_i8(self, number: i8) -> Result<Tree, Error> {
        Ok(Tree::Signed(number.into()))
    }

    fn serialize_i16(self, number: i16) -> Result<Tree, Error> {
        Ok(Tree::Signed(number.into()))
    }

    fn serialize_i32(self, number: i32) -> Result<Tree, Error> {
        Ok(Tree::Signed(number.into()))
    }

    fn serialize_i64(self, number: i64) -> Result<Tree, Error> {
        Ok(Tree::Signed(number))
    }

    fn serialize_u8(self, number: u8) -> Result<Tree, Error> {
        Ok(Tree::Unsigned(number.into()))
    }

    fn serialize_u16(self, number: u16) -> Result<Tree, Error> {
        Ok(Tree::Unsigned(number.into()))
    }

    fn serialize_u32(self, number: u32) -> Result<Tree, Error> {
        Ok(Tree::Unsigned(number.into()))
    }

    fn serialize_u64(self, number: u64) -> Result<Tree, Error> {
        Ok(Tree::Unsigned(number))
    }

    fn serialize_f32(self, number: f32) -> Result<Tree, Error> {
        Ok(Tree::Single(number))
    }

    fn serialize_f64(self, number: f64) -> Result<Tree, Error> {
        Ok(Tree::Double(number))
    }

    fn serialize_char(self, letter: char) -> Result<Tree, Error> {
        Ok(Tree::Text(letter.into()))
    }

    fn serialize_str(self, text: &str) -> Result<Tree, Error> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Tree, Error> {
        Ok(Tree::List(bytes.iter().map(|&byte| Tree::Unsigned(byte.into())).collect()))
    }

    fn serialize_none(self) -> Result<Tree, Error> {
        Ok(Tree::None)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Tree, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Tree, Error> {
        Ok(Tree::Unit)
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<Tree, Error> {
        Ok(Tree::UnitStruct(name))
    }

    fn serialize_unit_variant(self, of: &'static str, index: u32, name: &'static str) -> Result<Tree, Error> {
        Ok(Tree::UnitVariant(Variant { of, index, name }))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<Tree, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        of: &'static str,
        index: u32,
        name: &'static str,
        value: &T,
    ) -> Result<Tree, Error> {
        Ok(Tree::NewtypeVariant(Variant { of, index, name }, Box::new(value.serialize(self)?)))
    }

    fn serialize_seq(self, nr_items: Option<usize>) -> Result<ListBuilder, Error> {
        Ok(ListBuilder { variant: None, items: Vec::with_capacity(nr_items.unwrap_or(0)) })
    }

    fn serialize_tuple(self, nr_items: usize) -> Result<ListBuilder, Error> {
        self.serialize_seq(Some(nr_items))
    }

    fn serialize_tuple_struct(self, _name: &'static str, nr_items: usize) -> Result<ListBuilder, Error> {
        self.serialize_seq(Some(nr_items))
    }

    fn serialize_tuple_variant(
        self,
        of: &'static str,
        index: u32,
        name: &'static str,
        nr_items: usize,
    ) -> Result<ListBuilder, Error> {
        Ok(ListBuilder { variant: Some(Variant { of, index, name }), items: Vec::with_capacity(nr_items) })
    }

    fn serialize_map(self, nr_entries: Option<usize>) -> Result<MapBuilder, Error> {
        Ok(MapBuilder { entries: Vec::with_capacity(nr_entries.unwrap_or(0)), key: None })
    }

    fn serialize_struct(self, name: &'static str, nr_fields: usize) -> Result<StructBuilder, Error> {
        Ok(StructBuilder { name, variant: None, fields: Vec::with_capacity(nr_fields) })
    }

    fn serialize_struct_variant(
        self,
        of: &'static str,
        index: u32,
        name: &'static str,
        nr_fields: usize,
    ) -> Result<StructBuilder, Error> {
        let variant = Some(Variant { of, index, name });
        Ok(StructBuilder { name, variant, fields: Vec::with_capacity(nr_fields) })
    }
}

struct ListBuilder {
    variant: Option<Variant>,
    items: Vec<Tree>,
}

impl ListBuilder {
    fn add<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.items.push(item.serialize(TreeBuilder)?);
        Ok(())
    }

    fn built(self) -> Tree {
        match self.variant {
            Some(variant) => Tree::TupleVariant(variant, self.items),
            None => Tree::List(self.items),
        }
    }
}

/// Lists have four traits with the same methods.
macro_rules! list {
    ($($kind:ident $add:ident;)*) => {$(
        impl ser::$kind for ListBuilder {
            type Ok = Tree;
            type Error = Error;

            fn $add<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
                self.add(item)
            }

            fn end(self) -> Result<Tree, Error> {
                Ok(self.built())
            }
        }
    )*};
}

list! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

struct MapBuilder {
    entries: Vec<(Tree, Tree)>,
    /// Key of the value that comes next.
    key: Option<Tree>,
}

impl ser::SerializeMap for MapBuilder {
    type Ok = Tree;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(key.serialize(TreeBuilder)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = self.key.take().expect("serde gives each value after its key");
        self.entries.push((key, value.serialize(TreeBuilder)?));
        Ok(())
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(Tree::Map(self.entries))
    }
}

struct StructBuilder {
    name: &'static str,
    variant: Option<Variant>,
    fields: Fields,
}

impl StructBuilder {
    fn add<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.fields.push((name, value.serialize(TreeBuilder)?));
        Ok(())
    }

    fn built(self) -> Tree {
        match self.variant {
            Some(variant) => Tree::StructVariant(variant, self.fields),
            None => Tree::Struct(self.name, self.fields),
        }
    }
}

impl ser::SerializeStruct for StructBuilder {
    type Ok = Tree;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.add(name, value)
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(self.built())
    }
}

impl ser::SerializeStructVariant for StructBuilder {
    type Ok = Tree;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.add(name, value)
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(self.built())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// All types that serde distinguishes.
    #[derive(Clone, Default, Serialize)]
    struct Whole {
        none: Option<u8>,
        flag: bool,
        signed: (i8, i16, i32, i64),
        unsigned: [u32; 2],
        large: Option<u64>,
        numbers: Vec<f64>,
        single: f32,
        letter: char,
        text: String,
        by_number: BTreeMap<u16, String>,
        by_name: BTreeMap<String, Option<Choice>>,
        choice: Choice,
        choices: Vec<Choice>,
        pair: Newtype,
        tagged: Option<Tagged>,
        #[serde(flatten)]
        flat: BTreeMap<String, u8>,
        any: toml::Table,
        unit: Option<()>,
        nested: Vec<Option<u8>>,
        tables: Vec<Whole>,
        table: Option<Box<Whole>>,
    }

    #[derive(Clone, Default, Serialize)]
    struct Newtype(Option<String>);

    #[derive(Clone, Default, Serialize)]
    #[serde(rename_all = "kebab-case")]
    enum Choice {
        #[default]
        Plain,
        Held(Option<u8>),
        Table(BTreeMap<String, u8>),
        Both(u8, bool),
        Named {
            a: u8,
            b: Option<u8>,
        },
    }

    #[derive(Clone, Serialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        One { x: Vec<Choice> },
        Inner(BTreeMap<String, f64>),
    }

    #[test]
    fn values_are_written_and_refused_as_by_toml() {
        let by_name = |choice: Option<Choice>| BTreeMap::from([("a b".to_owned(), choice), ("c".to_owned(), None)]);
        let choices =
            [Choice::Plain, Choice::Held(Some(1)), Choice::Both(1, true), Choice::Named { a: 1, b: None }].to_vec();
        let any: toml::Table = "a = 1979-05-27\nb = [{ c = 07:32:00 }, { d = nan }]\nc.d.e = -inf".parse().unwrap();
        let base = Whole { text: "é\n\"'".into(), letter: '"', single: 0.1, any: any.clone(), ..Whole::default() };
        let numbers = vec![0.1, f64::NAN, -f64::NAN, -0.0, f64::INFINITY, 1e300, 3.0];
        let mut all = vec![Whole::default(), base.clone()];
        all.extend([
            Whole { numbers, signed: (-1, -2, -3, i64::MIN), unsigned: [0, u32::MAX], ..base.clone() },
            Whole { large: Some(u64::MAX), ..base.clone() },
            Whole { large: Some(i64::MAX as u64), by_number: BTreeMap::from([(7, "x".into())]), ..base.clone() },
            Whole { choices: choices.clone(), pair: Newtype(Some("x".into())), ..base.clone() },
            Whole { choices: vec![choices[3].clone(); 2], ..base.clone() },
            Whole { choice: Choice::Held(None), ..base.clone() },
            Whole { choice: Choice::Table(BTreeMap::from([("t".into(), 1)])), ..base.clone() },
            Whole { tagged: Some(Tagged::One { x: choices.clone() }), ..base.clone() },
            Whole { tagged: Some(Tagged::Inner(BTreeMap::from([("y".into(), 2.0)]))), ..base.clone() },
            Whole { flat: BTreeMap::from([("f".into(), 1), ("flag".into(), 2)]), ..base.clone() },
            Whole { unit: Some(()), ..base.clone() },
            Whole { nested: vec![None], ..base.clone() },
        ]);
        all.extend(choices.into_iter().map(|choice| Whole { by_name: by_name(Some(choice)), ..base.clone() }));
        let nested = Whole { tables: all.clone(), table: Some(Box::new(base.clone())), ..base.clone() };
        let fine = |whole: &Whole| toml::to_string(whole).is_ok();
        let of_fine = Whole { tables: all.iter().filter(|whole| fine(whole)).cloned().collect(), ..nested.clone() };
        assert!(of_fine.tables.len() > 5 && fine(&of_fine));
        for whole in all.iter().chain([&nested, &of_fine]) {
            assert_eq!(text(whole), toml::to_string(whole));
            assert_eq!(format!("{:?}", to_table(whole)), format!("{:?}", Table::try_from(whole)));
        }
        assert_eq!(text(&any), toml::to_string(&any));
        for no_table in [Choice::Plain, Choice::Held(Some(1)), Choice::Both(1, true), Choice::Named { a: 1, b: None }] {
            assert_eq!(text(&no_table), toml::to_string(&no_table));
            assert_eq!(to_table(&no_table), Table::try_from(&no_table));
        }
        assert_eq!(text(&[1]), toml::to_string(&[1]));
        assert_eq!(text("x"), toml::to_string("x"));
    }
}
