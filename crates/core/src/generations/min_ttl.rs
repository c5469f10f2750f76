//! Thrashing prevention: the effect that a value of `min_ttl_ms` would have now, and the largest value that is safe
//! (docs/spec/mglru.md#s10).
//!
//! The switch protects no page. While the node's daemon reclaims and everything that it could evict is younger than the time to live, it
//! has a process killed. Ages of generations show beforehand whether a value would kill.

use crate::vocabulary::{GenerationRow, Listing, Swappiness};

/// The daemon's first priority: a group whose evictable pages, divided by 2^12, are none is too small to count.
const DEF_PRIORITY: u32 = 12;

/// The part of a group that counts on the daemon's node.
#[derive(Clone, Copy, Debug)]
pub struct GroupFacts<'a> {
    /// The generations of the group on the node.
    pub listing: &'a Listing,
    /// It uses less than `memory.min` gives it: its pages are not evicted.
    pub is_below_min: bool,
}

/// The effect of a value of `min_ttl_ms` now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// It would invoke the OOM killer.
    pub kills: bool,
    /// Age of the oldest generation that may be evicted, in the group where it is oldest. `None`: no group has pages to evict, and every
    /// value but 0 kills.
    pub oldest_ms: Option<u64>,
    /// The largest value that would not kill now, at most the kernel's 32 bits; 0: only off is safe.
    pub largest_safe_ms: u64,
}

/// The effect of `min_ttl_ms` (0 is off) on a node with these groups. `swappiness` decides which types may be evicted there: without free
/// swap, only files.
pub fn forecast(min_ttl_ms: u64, groups: &[GroupFacts<'_>], swappiness: Swappiness) -> Forecast {
    let evictable = |row: &GenerationRow| {
        let anon = if swappiness.takes_anon() { row.anon_pages } else { 0 };
        let file = if swappiness.takes_file() { row.file_pages } else { 0 };
        anon.saturating_add(file)
    };
    let oldest_of = |group: &GroupFacts<'_>| {
        let rows = &group.listing.rows;
        let pages = rows.iter().map(evictable).fold(0, u64::saturating_add);
        let counts = !group.is_below_min && pages >> DEF_PRIORITY != 0;
        rows.iter().find(|row| evictable(row) > 0).filter(|_| counts).map(|row| row.age_ms)
    };
    let oldest_ms = groups.iter().filter_map(oldest_of).max();
    // A generation is spared unless it is strictly older than the time to live.
    let largest_safe_ms = oldest_ms.map_or(0, |oldest| oldest.saturating_sub(1)).min(u64::from(u32::MAX));
    Forecast { kills: min_ttl_ms > largest_safe_ms, oldest_ms, largest_safe_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(rows: &[(u64, u64, u64)]) -> Listing {
        let row = |(seq, &(age_ms, anon_pages, file_pages)): (u64, &(u64, u64, u64))| GenerationRow {
            seq,
            age_ms,
            anon_pages,
            file_pages,
        };
        Listing { rows: (0..).zip(rows).map(row).collect(), ..Listing::default() }
    }

    /// E17: oldest evictable generation made at 10,000, time to live 1000: at 11,000 a kill, at 11,001 none.
    #[test]
    fn e17_min_ttl_is_forecast() {
        let at = |now: u64| {
            let listing = listing(&[(now - 10_000, 5000, 0), (0, 0, 0)]);
            forecast(1000, &[GroupFacts { listing: &listing, is_below_min: false }], Swappiness::Of(60))
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
            forecast(1000, &[facts(&old_small), facts(&old_anon), facts(&young)], swappiness)
        };
        let mixed = listing(&[(9000, 8000, 0), (700, 0, 8000)]);
        let files = forecast(1000, &[GroupFacts { listing: &mixed, is_below_min: false }], Swappiness::Of(0));
        assert_eq!(
            (files.kills, files.oldest_ms),
            (true, Some(700)),
            "generations without evictable pages have no age"
        );
        assert_eq!(all(Swappiness::Of(60), false).oldest_ms, Some(9000), "8000 anonymous pages");
        let files = all(Swappiness::Of(0), false);
        assert_eq!((files.kills, files.oldest_ms), (true, Some(500)), "4095 pages and fewer are too small to count");
        let protected = all(Swappiness::Of(60), true);
        assert_eq!((protected.kills, protected.oldest_ms, protected.largest_safe_ms), (true, None, 0));
        assert!(!forecast(0, &[], Swappiness::Of(60)).kills, "off kills nothing");
    }
}
