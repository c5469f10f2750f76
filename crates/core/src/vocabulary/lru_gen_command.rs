//! Commands for `lru_gen` (docs/spec/mglru.md#s14-2). `Display` gives the kernel's text of one command.

use super::Lruvec;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest number for the preference for anonymous pages.
pub const SWAPPINESS_MAX: u32 = 200;
/// The kernel's number for [`Swappiness::AnonOnly`].
const ANON_ONLY: u32 = 201;

/// Preference for anonymous pages over pages of files: `0` to `200`, or `"max"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swappiness {
    /// 0 spares anonymous pages, 200 prefers them. Made by [`Swappiness::of`].
    Of(u32),
    /// Anonymous pages only; written as `max`.
    AnonOnly,
}

impl Swappiness {
    /// With this number.
    ///
    /// # Errors
    /// A number above [`SWAPPINESS_MAX`], as text.
    pub fn of(number: u32) -> Result<Self, String> {
        match number {
            0..=SWAPPINESS_MAX => Ok(Self::Of(number)),
            _ => Err(format!(
                "swappiness is {number}; allowed: 0 to {SWAPPINESS_MAX}, or \"max\" for anonymous pages only"
            )),
        }
    }

    /// The kernel's internal value: 0 to 200, 201 for anonymous pages only.
    pub const fn number(self) -> u32 {
        match self {
            Self::Of(number) => number,
            Self::AnonOnly => ANON_ONLY,
        }
    }

    /// Whether anonymous pages are included.
    pub const fn takes_anon(self) -> bool {
        self.number() > 0
    }

    /// Whether pages of files are included.
    pub const fn takes_file(self) -> bool {
        self.number() < ANON_ONLY
    }
}

impl fmt::Display for Swappiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(number) => number.fmt(f),
            Self::AnonOnly => f.write_str("max"),
        }
    }
}

/// The form in files: a number, or `"max"`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u32),
    Word(String),
}

impl Serialize for Swappiness {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Of(number) => number.serialize(serializer),
            Self::AnonOnly => "max".serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Swappiness {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let refuse = |got: &dyn fmt::Display| {
            serde::de::Error::custom(format!(
                "swappiness is {got}; allowed: 0 to {SWAPPINESS_MAX}, or \"max\" for anonymous pages only"
            ))
        };
        match Written::deserialize(deserializer).map_err(|_| refuse(&"neither a number nor a word"))? {
            Written::Number(number) => Self::of(number).map_err(serde::de::Error::custom),
            Written::Word(word) if word == "max" => Ok(Self::AnonOnly),
            Written::Word(word) => Err(refuse(&format!("\"{word}\""))),
        }
    }
}

/// `+`: makes generation `max_gen_nr` + 1 after a walk over the page tables of the group's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    pub lruvec: Lruvec,
    /// The youngest generation as it was last read. A generation that is no longer the youngest does no harm; a number from the future is
    /// refused.
    pub max_gen_nr: u64,
    /// The kernel's `can_swap`: which types are scanned. Pages of the other types grow old although they are used. It needs no swap: 1
    /// scans both types also without it.
    pub swappiness: Swappiness,
    /// Whether the walk scans everywhere. Otherwise the walk skips areas that it takes for idle.
    pub force_scan: bool,
}

/// `-`: evicts generations up to `min_gen_nr`, as far as their pages are not in use after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub lruvec: Lruvec,
    /// The youngest generation to evict, at most the youngest of all minus 2.
    pub min_gen_nr: u64,
    /// Types of pages to evict, and their proportion.
    pub swappiness: Swappiness,
    /// Pages at most; the kernel may free a batch more.
    pub limit_pages: Option<u64>,
}

impl fmt::Display for Ageing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lruvec { memcg, node } = self.lruvec;
        let walk = if self.force_scan { "" } else { " 0" };
        write!(f, "+ {memcg} {} {} {}{walk}", node.0, self.max_gen_nr, self.swappiness)
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lruvec { memcg, node } = self.lruvec;
        write!(f, "- {memcg} {} {} {}", node.0, self.min_gen_nr, self.swappiness)?;
        self.limit_pages.map_or(Ok(()), |pages| write!(f, " {pages}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::NodeId;

    /// The commands of docs/spec/mglru.md#s14-2 and of example E21, as written.
    #[test]
    fn e21_commands_are_the_kernels() {
        let lruvec = Lruvec { memcg: 1, node: NodeId(0) };
        let age =
            |max_gen_nr, swappiness, force_scan| Ageing { lruvec, max_gen_nr, swappiness, force_scan }.to_string();
        assert_eq!(age(7, Swappiness::Of(1), true), "+ 1 0 7 1");
        assert_eq!(age(7, Swappiness::Of(0), false), "+ 1 0 7 0 0");
        let evict =
            |min_gen_nr, swappiness, limit_pages| Eviction { lruvec, min_gen_nr, swappiness, limit_pages }.to_string();
        assert_eq!(evict(5, Swappiness::Of(60), None), "- 1 0 5 60");
        assert_eq!(evict(5, Swappiness::AnonOnly, Some(100)), "- 1 0 5 max 100");
    }

    #[test]
    fn swappiness_is_a_number_up_to_200_or_max() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Table {
            swappiness: Swappiness,
        }
        for (text, swappiness) in
            [("0", Swappiness::Of(0)), ("200", Swappiness::Of(200)), ("\"max\"", Swappiness::AnonOnly)]
        {
            let table: Table = toml::from_str(&format!("swappiness = {text}")).expect(text);
            assert_eq!(table, Table { swappiness });
            assert_eq!(toml::to_string(&table).expect("plain"), format!("swappiness = {text}\n"));
        }
        for text in ["201", "-1", "\"all\"", "true", "99999999999"] {
            let error = toml::from_str::<Table>(&format!("swappiness = {text}")).expect_err(text).to_string();
            assert!(error.contains("allowed: 0 to 200, or \"max\""), "{text}: {error}");
        }
        assert_eq!((Swappiness::AnonOnly.number(), Swappiness::AnonOnly.takes_file()), (201, false));
        assert!(!Swappiness::Of(0).takes_anon() && Swappiness::Of(200).takes_file());
    }
}
