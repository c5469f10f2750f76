//! Several files as one configuration: tables of later files replace earlier ones with the same name.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// Origin of a table: the file, and its index among the tables of that kind in it.
type Origin = (usize, usize);

/// Several files, in order, as one.
#[derive(Debug, Default)]
pub(super) struct Joined {
    table: Table,
    nr_files: usize,
    /// Lists of tables, with the origin of each entry.
    entries: BTreeMap<String, Vec<Origin>>,
    /// Single tables, with their file.
    tables: BTreeMap<String, usize>,
}

impl Joined {
    /// A table in a list replaces the one with its name, or is added; any other table replaces the previous one.
    pub(super) fn add(&mut self, file: Table) {
        let number = self.nr_files;
        self.nr_files += 1;
        for (key, value) in file {
            let Value::Array(list) = value else {
                self.tables.insert(key.clone(), number);
                self.table.insert(key, value);
                continue;
            };
            let origins = self.entries.entry(key.clone()).or_default();
            let known = self.table.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(known) = known else { continue };
            // Two tables of the same name in one file are an error, which the check reports.
            let before = known.len();
            for (nth, entry) in list.into_iter().enumerate() {
                let is_same = |other: &Value| entry.get("name").is_some() && other.get("name") == entry.get("name");
                match known[..before].iter().position(is_same) {
                    Some(at) if origins[at].0 != number => {
                        (known[at], origins[at]) = (entry, (number, nth));
                    }
                    _ => {
                        known.push(entry);
                        origins.push((number, nth));
                    }
                }
            }
        }
    }

    /// All files as one table.
    pub(super) fn table(&self) -> Table {
        self.table.clone()
    }

    /// The file that a key comes from, and the key in that file: `limits[3].floor` may be `limits[0].floor` of the second file.
    pub(super) fn origin(&self, key: &str) -> (usize, String) {
        let end = key.find(['.', '[']).unwrap_or(key.len());
        let (table, rest) = key.split_at(end);
        let index = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let entry = index.and_then(|(number, rest)| {
            let (file, nth) = *self.entries.get(table)?.get(number.parse::<usize>().ok()?)?;
            Some((file, format!("{table}[{nth}]{rest}")))
        });
        entry.unwrap_or_else(|| (self.tables.get(table).copied().unwrap_or(0), key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(files: &[&str]) -> Joined {
        let mut joined = Joined::default();
        files.iter().for_each(|text| joined.add(toml::from_str(text).unwrap()));
        joined
    }

    #[test]
    fn later_tables_take_the_place_of_earlier_ones_with_their_name() {
        let all = joined(&[
            "[daemon]\nmax-cpu = \"1%\"\nprotect = [\"/a\"]\n[[limits]]\nname = \"a\"\nfloor = 1\n[[limits]]\nname = \"b\"\n",
            "[daemon]\nmax-cpu = \"2%\"\n[[limits]]\nname = \"c\"\n[[limits]]\nname = \"a\"\nfloor = 2\n",
        ]);
        let table = all.table();
        assert_eq!(table["daemon"].as_table().unwrap().len(), 1, "a table is one, not the sum of two");
        let names: Vec<_> = table["limits"].as_array().unwrap().iter().map(|entry| entry["name"].as_str()).collect();
        assert_eq!(names, [Some("a"), Some("b"), Some("c")]);
        assert_eq!(table["limits"][0]["floor"].as_integer(), Some(2));
        for (key, origin) in [
            ("limits[0].floor", (1, "limits[1].floor")),
            ("limits[1].name", (0, "limits[1].name")),
            ("limits[2]", (1, "limits[0]")),
            ("daemon.max-cpu", (1, "daemon.max-cpu")),
            ("guard.file", (0, "guard.file")),
            ("limits[9].x", (0, "limits[9].x")),
            ("limits[x", (0, "limits[x")),
        ] {
            assert_eq!(all.origin(key), (origin.0, origin.1.to_owned()), "{key}");
        }
    }

    #[test]
    fn two_of_one_name_in_one_file_stay_two() {
        let twice = joined(&["[[limits]]\nname = \"a\"\n[[limits]]\nname = \"a\"\n"]);
        assert_eq!(twice.table()["limits"].as_array().unwrap().len(), 2);
        assert!(joined(&[]).table().is_empty() && joined(&["", ""]).table().is_empty());
    }
}
