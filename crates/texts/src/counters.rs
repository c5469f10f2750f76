//! Numbers by name.

use crate::Strange;
use std::collections::BTreeMap;

/// Numbers by name, as in `/proc/vmstat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// The number of this name; `None` where the kernel does not write it.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Sum of the present counters; `None` if none is present. Saturates.
    pub fn sum(&self, names: &[&str]) -> Option<u64> {
        names.iter().filter_map(|name| self.get(name)).reduce(u64::saturating_add)
    }

    /// All counters, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, &number)| (name.as_str(), number))
    }

    /// Adds a counter; of several with the same name the last counts.
    pub fn insert(&mut self, name: &str, number: u64) {
        self.0.insert(name.to_owned(), number);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lines of `name number`: `/proc/vmstat`, in pages for `nr_…` and events otherwise; `memory.stat`, in bytes and events;
    /// `memory.events`. The other lines must have a name and a value, too, and are skipped.
    ///
    /// # Errors
    /// The line without a value, or the whole text if it has no number.
    pub fn parse(text: &str) -> Result<Self, Strange> {
        let mut counters = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line.trim().split_once(' ').ok_or_else(|| Strange::new(line))?;
            if let Ok(number) = value.trim().parse() {
                counters.insert(name, number);
            }
        }
        if counters.is_empty() { Err(Strange::new(text)) } else { Ok(counters) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
