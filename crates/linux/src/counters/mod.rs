//! Counters of the kernel, a file for each source. Fields that are not known are kept or passed over; what is no such file at all is
//! [`LiveError::Strange`] with the path.

pub mod buddyinfo;
pub mod kpageflags;
pub mod meminfo;
pub mod memory_stat;
pub mod nodes;
pub mod numa_maps;
pub mod pagetypeinfo;
pub mod pressure;
pub mod swaps;
pub mod vmstat;
pub mod zoneinfo;

use std::collections::BTreeMap;
use std::path::Path;

use crate::root::shortened;
use crate::{LiveError, Root};

/// Numbers by name, as in `/proc/vmstat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// The number of this name; `None` where the kernel does not write it.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Sum of those that are there; `None` if none is. Saturates.
    pub fn sum(&self, names: &[&str]) -> Option<u64> {
        names.iter().filter_map(|name| self.get(name)).reduce(u64::saturating_add)
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, &number)| (name.as_str(), number))
    }

    /// Lines of `name number`. The other lines must have a name and a value, too, and are passed over.
    fn parse(text: &str) -> Result<Self, String> {
        let mut counters = BTreeMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line.trim().split_once(' ').ok_or_else(|| quoted(line))?;
            if let Ok(number) = value.trim().parse() {
                counters.insert(name.to_owned(), number);
            }
        }
        if counters.is_empty() { Err(quoted(text)) } else { Ok(Self(counters)) }
    }
}

/// Reads and parses a file; what a parser refuses is an error with the path.
pub(crate) fn parsed<T>(
    root: &Root,
    path: impl AsRef<Path>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, LiveError> {
    let text = root.read(&path)?;
    parse(&text).map_err(|found| LiveError::strange(root.path(path), found))
}

/// A text in a message of [`LiveError::Strange`].
pub(crate) fn quoted(text: &str) -> String {
    match text.trim() {
        "" => "nothing".to_owned(),
        text => format!("`{}`", shortened(text)),
    }
}

/// A list of numbers as the kernel writes it: `0-2,5`. Empty for an empty text.
///
/// # Errors
/// The text, if it is no such list or has more than 65,536 numbers.
pub(crate) fn number_list(text: &str) -> Result<Vec<u32>, String> {
    const NUMBERS_MAX: u32 = 1 << 16;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| quoted(part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last - first >= NUMBERS_MAX || numbers.len() >= NUMBERS_MAX as usize {
            return Err(quoted(part));
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbers_and_ranges() {
        for (text, numbers) in [("0\n", vec![0]), ("0-2,5\n", vec![0, 1, 2, 5]), ("\n", vec![])] {
            assert_eq!(number_list(text).unwrap(), numbers);
        }
        for text in ["x", "1-", "3-1", "0-4294967295", "-1", "99999999999"] {
            assert!(number_list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counters_keep_what_they_do_not_know() {
        let counters = Counters::parse("nr_free_pages 12\nnew_thing 3\nword max\n").unwrap();
        assert_eq!((counters.get("new_thing"), counters.get("word")), (Some(3), None));
        assert_eq!(
            (counters.sum(&["nr_free_pages", "new_thing", "absent"]), counters.sum(&["absent"])),
            (Some(15), None)
        );
        assert_eq!(counters.iter().count(), 2);
        assert!(Counters::parse("nr_free_pages").is_err() && Counters::parse("").is_err());
    }
}
