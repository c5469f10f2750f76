//! Text ↔ types, for checks that need only the names of keys.

use crate::document::{Dialect, Document};
use crate::{DocumentError, writing};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a check refuses a document of the right type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The key, from the root on: `generations[1].targets[0]`.
    pub key: String,
    /// Another key that it disagrees with.
    pub other: Option<String>,
    pub message: String,
}

/// Reads and checks a document; `name` is for messages.
///
/// # Errors
/// The first error, with file, line and column, the allowed values, and a suggestion for misspelt keys. Where two keys disagree both
/// places are named.
pub fn parse_as<T: DeserializeOwned>(
    text: &str,
    name: &str,
    dialect: Dialect,
    check: impl Fn(&T) -> Result<(), Misfit>,
) -> Result<T, DocumentError> {
    let document = Document::parse(text, name, dialect)?;
    let read: T = document.read()?;
    check(&read).map_err(|Misfit { key, other, message }| {
        let place = |key: String| document.place(&key.into());
        let other = other.map_or_else(String::new, |other| format!(" (the other: {})", place(other)));
        DocumentError::Meaning { place: place(key), message: format!("{message}{other}") }
    })?;
    Ok(read)
}

/// Writes a document so that [`parse_as`] gives it back.
///
/// # Errors
/// A message: it is no table, or holds a value that TOML cannot express.
pub fn print_as<T: Serialize>(document: &T) -> Result<String, String> {
    writing::text(document).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Patches;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    struct Shop {
        #[serde(alias = "label")]
        name: String,
        #[serde(default)]
        shelf_height: u8,
        #[serde(default)]
        goods: Vec<toml::Table>,
        #[serde(default)]
        sales: Vec<toml::Table>,
    }

    const DIALECT: Dialect =
        Dialect { other_names: &[("name", &["label"])], patches: Some(Patches { list: "sales", key: "change" }) };

    fn refusal(text: &str, misfit: &Misfit) -> String {
        parse_as::<Shop>(text, "s.toml", DIALECT, |_| Err(misfit.clone())).unwrap_err().to_string()
    }

    fn misfit(key: &str, other: Option<&str>) -> Misfit {
        Misfit { key: key.to_owned(), other: other.map(str::to_owned), message: "no".to_owned() }
    }

    #[test]
    fn other_names_and_spellings_are_the_same_keys() {
        let text = "label = 'x'\nshelf_height = 3\n[[goods]]\na = 1\n";
        let goods = vec![toml::Table::from_iter([("a".to_owned(), 1.into())])];
        let shop = Shop { name: "x".to_owned(), shelf_height: 3, goods, sales: Vec::new() };
        assert_eq!(parse_as::<Shop>(text, "s.toml", DIALECT, |_| Ok(())).unwrap(), shop);
    }

    #[test]
    fn errors_name_the_place_of_the_key() {
        let text = "label = 'x'\n  shelf_height = 3\n[[goods]]\nname = 'tea'\n";
        assert_eq!(refusal(text, &misfit("shelf-height", None)), "s.toml:2:3: no");
        assert_eq!(refusal(text, &misfit("goods[0].name", Some("name"))), "s.toml:4:1: no (the other: s.toml:1:1)");
        assert_eq!(refusal(text, &misfit("goods[0].price", None)), "s.toml:3:1: no");
        assert_eq!(refusal(text, &misfit("nothing", None)), "s.toml: no");
        let error = refusal("name = 'x'\nshelf-heigt = 3\n", &misfit("name", None));
        assert!(error.starts_with("s.toml:2:1: unknown field `shelf-heigt`"), "{error}");
        assert!(error.ends_with("did you mean `shelf-height`?"), "{error}");
    }

    #[test]
    fn places_in_patches_are_those_of_the_patch_where_it_names_the_key() {
        let text = "name = 'x'\n[[goods]]\nname = 'green_tea'\nunit-price = 1\n\
            [[sales]]\nchange = { goods = { green_tea = { unit_price = 2 } } }\n";
        let document = Document::parse(text, "s.toml", DIALECT).unwrap();
        let place = |key: &str| document.place_in(&"sales[0].change".into(), &key.into());
        assert_eq!(place("goods[0].unit-price").as_deref(), Some("s.toml:6:36"));
        assert_eq!(place("goods[0].name").as_deref(), Some("s.toml:3:1"));
        assert_eq!(place("name").as_deref(), Some("s.toml:1:1"));
        assert_eq!(place("nothing"), None);
        assert!(document.note().unwrap().starts_with("s.toml:6:36: `unit_price` is spelt `unit-price`; "));
    }

    #[test]
    fn deep_nesting_is_refused_whatever_stands_in_it() {
        let parse = |text: &str| parse_as::<Shop>(text, "s.toml", DIALECT, |_| Ok(()));
        for open in ["[", "{ a = ", "[{ a = ", "{ a = [1] [b]\n c = ", "{ a = 1\n[[w]]\nc = "] {
            let text = format!("name = {}", open.repeat(20_000));
            let message = parse(&text).unwrap_err().to_string();
            assert!(message.contains("nested more than 200 deep"), "{open}: {message}");
        }
        parse(&format!("# {}\nname = \"{}\"\n", "[".repeat(300), "{".repeat(300))).unwrap();
    }
}
