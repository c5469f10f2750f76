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

pub use isotherm_texts::Counters;

use isotherm_texts::Strange;
use std::fmt::Display;
use std::path::Path;

use crate::{LiveError, Root};

/// Reads and parses a file; what a parser refuses is an error with the path.
pub(crate) fn parsed<T, E: Display>(
    root: &Root,
    path: impl AsRef<Path>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, LiveError> {
    let text = root.read(&path)?;
    parse(&text).map_err(|found| LiveError::strange(root.path(path), found.to_string()))
}

/// What [`LiveError::Strange`] says of a parser's error that is a sentence.
pub(crate) fn unknown(error: impl Display) -> String {
    format!("an unknown text ({error})")
}

/// A text in a message of [`LiveError::Strange`].
pub(crate) fn quoted(text: &str) -> String {
    Strange::new(text).to_string()
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
}
