//! Thrashing prevention: `min_ttl_ms`, what it would do now, and what value to set (docs/spec/mglru.md#s10).
//!
//! The switch protects no page. While the node's daemon reclaims and everything that it could evict is younger than the time to
//! live, it has a process killed: what was used within that time does not fit. So the question to a value is whether it kills
//! while all is well, and that can be told from the ages of generations.

use crate::vocabulary::Listing;
use crate::vocabulary::Swappiness;
use serde::Serialize;
use thiserror::Error;

/// The daemon's first priority: a group whose evictable pages, divided by 2^12, are none is too small to count.
const DEF_PRIORITY: u32 = 12;
/// Largest value: what the kernel's 32 bits hold.
const MAX_MS: u64 = u32::MAX as u64;

/// A value of `min_ttl_ms`; 0 is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MinTtl {
    ms: u64,
}

/// A value of `min_ttl_ms` that the kernel refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("min_ttl_ms is `{got}`; allowed: 0 (off) to {MAX_MS} milliseconds")]
pub struct MinTtlError {
    got: String,
}

/// What counts of a group on the daemon's node.
#[derive(Clone, Copy, Debug)]
pub struct GroupFacts<'a> {
    /// The generations of the group on the node.
    pub listing: &'a Listing,
    /// It uses less than `memory.min` gives it: its pages are not to be had.
    pub is_below_min: bool,
}

/// What the kernel would do now with a given `min_ttl_ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// It would invoke the OOM killer.
    pub kills: bool,
    /// Age of the oldest generation that may be evicted, of the group where it is oldest; `None`: no group has pages to give,
    /// and every value but 0 kills.
    pub oldest_ms: Option<u64>,
    /// The largest value that would kill nobody now; 0: none would not.
    pub largest_safe_ms: u64,
}

/// An unsigned number as C writes it: `0x` hexadecimal, `0` octal, else decimal. Without a sign.
pub fn parse_unsigned(text: &str) -> Option<u64> {
    let is_plain = |digits: &str| !digits.is_empty() && !digits.starts_with('+');
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    is_plain(digits).then(|| u64::from_str_radix(digits, radix).ok())?
}

impl MinTtl {
    pub const OFF: Self = Self { ms: 0 };

    /// With so many milliseconds.
    ///
    /// # Errors
    /// More than fit 32 bits.
    pub fn from_ms(ms: u64) -> Result<Self, MinTtlError> {
        if ms > MAX_MS { Err(MinTtlError { got: ms.to_string() }) } else { Ok(Self { ms }) }
    }

    /// As the kernel takes it: an unsigned number, decimal, or as C writes octal and hexadecimal ones.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, MinTtlError> {
        let word = text.trim();
        let refuse = || MinTtlError { got: word.chars().take(40).collect() };
        let ms = parse_unsigned(word).filter(|&ms| ms <= MAX_MS);
        ms.map(|ms| Self { ms }).ok_or_else(refuse)
    }

    /// The value in milliseconds; 0 is off.
    pub const fn ms(self) -> u64 {
        self.ms
    }

    pub fn text(self) -> String {
        format!("{}\n", self.ms)
    }

    /// What the daemon of a node would do with this value, from all groups on it. `swappiness` says which types may be evicted
    /// there: without free swap, files alone.
    pub fn forecast(self, groups: &[GroupFacts<'_>], swappiness: Swappiness) -> Forecast {
        let oldest_of = |group: &GroupFacts<'_>| {
            let evictable = |row: &crate::vocabulary::GenerationRow| {
                let anon = if swappiness.takes_anon() { row.anon_pages } else { 0 };
                let file = if swappiness.takes_file() { row.file_pages } else { 0 };
                anon.saturating_add(file)
            };
            let pages = group.listing.rows.iter().map(evictable).fold(0, u64::saturating_add);
            let counts = !group.is_below_min && pages >> DEF_PRIORITY != 0;
            group.listing.rows.iter().find(|row| evictable(row) > 0).filter(|_| counts).map(|row| row.age_ms)
        };
        let oldest_ms = groups.iter().filter_map(oldest_of).max();
        // Strictly older than the time to live.
        let largest_safe_ms = oldest_ms.map_or(0, |oldest| oldest.saturating_sub(1)).min(MAX_MS);
        Forecast { kills: self.ms > largest_safe_ms, oldest_ms, largest_safe_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::GenerationRow;

    fn listing(rows: &[(u64, u64, u64)]) -> Listing {
        let row = |(seq, &(age_ms, anon_pages, file_pages)): (u64, &(u64, u64, u64))| GenerationRow {
            seq,
            age_ms,
            anon_pages,
            file_pages,
        };
        Listing { rows: (0..).zip(rows).map(row).collect(), ..Listing::default() }
    }

    fn ttl(ms: u64) -> MinTtl {
        MinTtl::from_ms(ms).expect("fits")
    }

    /// E17: oldest evictable generation made at 10,000, time to live 1000: at 11,000 a kill, at 11,001 none.
    #[test]
    fn e17_min_ttl_is_forecast() {
        let at = |now: u64| {
            let listing = listing(&[(now - 10_000, 5000, 0), (0, 0, 0)]);
            ttl(1000).forecast(&[GroupFacts { listing: &listing, is_below_min: false }], Swappiness::Of(60))
        };
        assert_eq!(at(11_000), Forecast { kills: true, oldest_ms: Some(1000), largest_safe_ms: 999 });
        assert_eq!(at(11_001), Forecast { kills: false, oldest_ms: Some(1001), largest_safe_ms: 1000 });
    }

    #[test]
    fn only_groups_with_pages_to_give_count() {
        let (old_small, old_anon, young) = (
            listing(&[(9000, 4000, 95), (0, 0, 0)]),
            listing(&[(9000, 8000, 0), (0, 0, 0)]),
            listing(&[(500, 0, 9000)]),
        );
        let all = |swappiness, is_below_min| {
            let facts = |listing| GroupFacts { listing, is_below_min };
            ttl(1000).forecast(&[facts(&old_small), facts(&old_anon), facts(&young)], swappiness)
        };
        let mixed = listing(&[(9000, 8000, 0), (700, 0, 8000)]);
        let facts = [GroupFacts { listing: &mixed, is_below_min: false }];
        let files = ttl(1000).forecast(&facts, Swappiness::Of(0));
        assert_eq!((files.kills, files.oldest_ms), (true, Some(700)), "what cannot be evicted is not old");
        assert_eq!(all(Swappiness::Of(60), false).oldest_ms, Some(9000), "8000 anonymous pages");
        let files = all(Swappiness::Of(0), false);
        assert_eq!((files.kills, files.oldest_ms), (true, Some(500)), "4095 pages and fewer are too small to count");
        let protected = all(Swappiness::Of(60), true);
        assert_eq!((protected.kills, protected.oldest_ms, protected.largest_safe_ms), (true, None, 0));
        assert!(!MinTtl::OFF.forecast(&[], Swappiness::Of(60)).kills, "off kills nobody");
    }

    #[test]
    fn values_are_checked_as_the_kernel_does() {
        assert_eq!(MinTtl::parse("1000\n").map(MinTtl::text), Ok("1000\n".to_owned()));
        assert_eq!(MinTtl::parse(" 0x10\n").map(MinTtl::ms), Ok(16));
        assert_eq!(MinTtl::parse("010").map(MinTtl::ms), Ok(8));
        for text in ["", "-1", "+1", "0x", "0x+1", "08", "1s", "é", "4294967296", "99999999999999999999999"] {
            let error = MinTtl::parse(text).expect_err(text).to_string();
            assert!(
                error.starts_with("min_ttl_ms is `") && error.contains("allowed: 0 (off) to 4294967295"),
                "{error}"
            );
        }
    }
}
