//! Lists of numbers: `online`, `cpulist`, `nodelist` and `distance` of NUMA nodes.

use crate::Strange;

/// A list of numbers as the kernel writes it: `0-2,5`. Empty for an empty text.
///
/// # Errors
/// The text, if it is no such list or has more than 65,536 numbers.
pub fn list(text: &str) -> Result<Vec<u32>, Strange> {
    const NUMBERS_MAX: u32 = 1 << 16;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| Strange::new(part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last - first >= NUMBERS_MAX || numbers.len() >= NUMBERS_MAX as usize {
            return Err(Strange::new(part));
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

/// Numbers with blanks between them: the distances of a node.
///
/// # Errors
/// The text, if a word is no number.
pub fn row(text: &str) -> Result<Vec<u32>, Strange> {
    text.split_whitespace().map(|word| word.parse().map_err(|_| Strange::new(text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbers_and_ranges() {
        for (text, numbers) in [("0\n", vec![0]), ("0-2,5\n", vec![0, 1, 2, 5]), ("\n", vec![])] {
            assert_eq!(list(text).unwrap(), numbers);
        }
        for text in ["x", "1-", "3-1", "0-4294967295", "-1", "99999999999"] {
            assert!(list(text).is_err(), "{text}");
        }
    }
}
