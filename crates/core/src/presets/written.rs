//! A preset as written in files.

use super::Preset;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Reads the name of a preset, or a table of its name and the keys that differ: for `deserialize_with`.
///
/// # Errors
/// Errors of the deserializer, and unknown names.
pub fn name_or_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Preset, D::Error> {
    struct NameOrTable;
    impl<'de> Visitor<'de> for NameOrTable {
        type Value = Preset;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("the name of a preset, or a table of its name and what differs")
        }
        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Preset, E> {
            name.parse().map_err(E::custom)
        }
        fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Preset, A::Error> {
            Preset::deserialize(MapAccessDeserializer::new(table))
        }
    }
    deserializer.deserialize_any(NameOrTable)
}
