//! Why nothing happened: the result of each scheme for every region that it was shown.

use super::filter::Verdict;
use crate::host::Untreated;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A number of regions, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub regions: u64,
    /// Sum of their sizes; a region shown twice counts twice.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64) {
        self.regions += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn join(&mut self, other: Self) {
        self.regions += other.regions;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The result for a region. Each that is shown to a scheme ends in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The region is smaller than the pattern asks for.
    TooSmall,
    /// The region is larger than the pattern allows.
    TooLarge,
    /// It is used less often than the pattern asks for.
    TooFewAccesses,
    /// It is used more often than the pattern allows.
    TooManyAccesses,
    /// Its age is below the pattern's: its behaviour changed too recently.
    TooYoung,
    /// Its age is above the pattern's: its behaviour has lasted for too long.
    TooOld,
    /// It qualified, but the quota was used up.
    QuotaFull,
    /// It qualified, but lies before the place where the quota ran out the last time.
    BeforeResume,
    /// It qualified, but its priority score is below the cut-off.
    LowPriority,
    /// It qualified, but the scheme has made all the snapshots it was allowed.
    SnapshotsUsedUp,
    /// It qualified, but a filter of the core layer leaves it alone.
    CoreFilter,
    /// It was tried, and at least one byte was changed.
    Applied,
    /// Tried, and only counted, as `stat` does.
    Counted,
    /// Tried without a change: page filters stopped it, or it was in that state already.
    NoEffect,
    /// Tried, and most of it is anonymous memory, for which there is no swap.
    NoSwap,
    /// Tried, and most of it is anonymous memory, for which swap is full.
    SwapFull,
    /// Tried, but no memory is mapped there, or it was never touched.
    NothingThere,
    /// Tried, and most of it is free memory.
    Free,
    /// Tried, and the machine has no memory at these addresses.
    Elsewhere,
    /// It was tried, and the host does not support the action.
    NotHere,
    /// It was tried, and the host failed.
    Failed,
    /// It was tried, and the target has ended.
    Gone,
}

/// All reasons, with their names in results.
pub const REASONS: [(Reason, &str); 22] = [
    (Reason::TooSmall, "too_small"),
    (Reason::TooLarge, "too_large"),
    (Reason::TooFewAccesses, "too_few_accesses"),
    (Reason::TooManyAccesses, "too_many_accesses"),
    (Reason::TooYoung, "too_young"),
    (Reason::TooOld, "too_old"),
    (Reason::QuotaFull, "quota_full"),
    (Reason::BeforeResume, "before_resume"),
    (Reason::LowPriority, "low_priority"),
    (Reason::SnapshotsUsedUp, "snapshots_used_up"),
    (Reason::CoreFilter, "core_filter"),
    (Reason::Applied, "applied"),
    (Reason::Counted, "counted"),
    (Reason::NoEffect, "no_effect"),
    (Reason::NoSwap, "no_swap"),
    (Reason::SwapFull, "swap_full"),
    (Reason::NothingThere, "nothing_there"),
    (Reason::Free, "free_memory"),
    (Reason::Elsewhere, "not_this_machines"),
    (Reason::NotHere, "not_here"),
    (Reason::Failed, "failed"),
    (Reason::Gone, "gone"),
];

impl Reason {
    /// How a region is counted that was not treated, or that counts as treated and was not.
    pub(crate) fn of_untreated(untreated: &Untreated) -> Option<Self> {
        let reasons = [Self::NoSwap, Self::SwapFull, Self::NothingThere, Self::Free, Self::Elsewhere];
        let mut largest = None;
        for (reason, bytes) in reasons.into_iter().zip(untreated.by_why()) {
            if bytes > largest.map_or(0, |(_, most)| most) {
                largest = Some((reason, bytes));
            }
        }
        largest.map(|(reason, _)| reason)
    }

    /// Whether the host was asked to apply the action.
    pub fn is_tried(self) -> bool {
        self >= Self::Applied
    }
}

/// Counts of one pass, or of all passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    /// Passes in which the scheme was due.
    pub passes: u64,
    /// Passes in which its watermarks had it switched off.
    pub inactive_passes: u64,
    /// Passes in which the quota was smaller than a region from the beginning.
    pub quota_too_small_passes: u64,
    /// Passes in which a goal's metric could not be read, so that the quota stayed as it was.
    pub goal_unread_passes: u64,
    by_reason: [Tally; REASONS.len()],
    /// Regions left alone by each filter of the core layer; the last entry counts regions that no filter matched.
    pub core_filters: Vec<Tally>,
    /// Bytes left alone by each filter of the operations layer; the last entry counts bytes that no filter matched. A filter that the core
    /// adds (`young`, for `pageout` of physical memory) comes between.
    pub page_filter_bytes: Vec<u64>,
    /// Bytes that were tried and could not be treated, also in regions that were treated in part.
    pub untreated: Untreated,
    /// Message of the host's last refusal.
    pub last_refusal: Option<String>,
}

impl Why {
    pub fn of(&self, reason: Reason) -> Tally {
        self.by_reason[reason as usize]
    }

    /// All regions that the scheme was shown, with any result.
    pub fn shown(&self) -> Tally {
        let mut sum = Tally::default();
        self.by_reason.iter().for_each(|tally| sum.join(*tally));
        sum
    }

    /// All regions that the host was asked for.
    pub fn tried(&self) -> Tally {
        let mut sum = Tally::default();
        REASONS.iter().filter(|(reason, _)| reason.is_tried()).for_each(|(reason, _)| sum.join(self.of(*reason)));
        sum
    }

    pub(crate) fn count(&mut self, reason: Reason, bytes: u64) {
        self.by_reason[reason as usize].add(bytes);
    }

    pub(crate) fn count_rejected(&mut self, verdict: Verdict, bytes: u64) {
        debug_assert!(
            matches!(verdict, Verdict::Rejected(_) | Verdict::RejectedByDefault),
            "only what a filter stopped is told as such"
        );
        self.count(Reason::CoreFilter, bytes);
        let last = self.core_filters.len().saturating_sub(1);
        let place = if let Verdict::Rejected(index) = verdict { index } else { last };
        debug_assert!(place < self.core_filters.len(), "each filter has its tally, and so has the default");
        if let Some(tally) = self.core_filters.get_mut(place) {
            tally.add(bytes);
        }
    }

    pub(crate) fn count_stopped_pages(&mut self, stopped_bytes: &[u64]) {
        add_each(&mut self.page_filter_bytes, stopped_bytes);
    }

    /// Makes room for this number of filters, and clears all counts.
    pub(crate) fn clear(&mut self, core_filters: usize, page_filters: usize) {
        *self = Self {
            core_filters: vec![Tally::default(); core_filters + 1],
            page_filter_bytes: vec![0; page_filters + 1],
            ..Self::default()
        };
    }

    /// Adds the counts of a pass.
    pub(crate) fn join(&mut self, pass: &Self) {
        debug_assert!(
            pass.inactive_passes <= pass.passes && pass.quota_too_small_passes <= pass.passes,
            "those are counted of all passes"
        );
        self.passes += pass.passes;
        self.inactive_passes += pass.inactive_passes;
        self.quota_too_small_passes += pass.quota_too_small_passes;
        self.goal_unread_passes += pass.goal_unread_passes;
        self.by_reason.iter_mut().zip(pass.by_reason).for_each(|(sum, tally)| sum.join(tally));
        if self.core_filters.len() < pass.core_filters.len() {
            self.core_filters.resize(pass.core_filters.len(), Tally::default());
        }
        self.core_filters.iter_mut().zip(&pass.core_filters).for_each(|(sum, tally)| sum.join(*tally));
        add_each(&mut self.page_filter_bytes, &pass.page_filter_bytes);
        self.untreated.join(pass.untreated);
        if pass.last_refusal.is_some() {
            self.last_refusal.clone_from(&pass.last_refusal);
        }
    }
}

fn add_each(sums: &mut Vec<u64>, more: &[u64]) {
    if sums.len() < more.len() {
        sums.resize(more.len(), 0);
    }
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(*more);
    }
}

impl Serialize for Why {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("passes", &self.passes)?;
        map.serialize_entry("inactive_passes", &self.inactive_passes)?;
        map.serialize_entry("quota_too_small_passes", &self.quota_too_small_passes)?;
        map.serialize_entry("goal_unread_passes", &self.goal_unread_passes)?;
        for (reason, name) in REASONS {
            map.serialize_entry(name, &self.of(reason))?;
        }
        map.serialize_entry("core_filters", &self.core_filters)?;
        map.serialize_entry("page_filter_bytes", &self.page_filter_bytes)?;
        map.serialize_entry("untreated", &self.untreated)?;
        map.serialize_entry("last_refusal", &self.last_refusal)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Why {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Counts)
    }
}

/// Counts as they were written; missing ones are 0, and unknown reasons are refused.
struct Counts;

impl<'de> Visitor<'de> for Counts {
    type Value = Why;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the counts of a scheme's passes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Why, A::Error> {
        let mut why = Why::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "passes" => why.passes = map.next_value()?,
                "inactive_passes" => why.inactive_passes = map.next_value()?,
                "quota_too_small_passes" => why.quota_too_small_passes = map.next_value()?,
                "goal_unread_passes" => why.goal_unread_passes = map.next_value()?,
                "core_filters" => why.core_filters = map.next_value()?,
                "page_filter_bytes" => why.page_filter_bytes = map.next_value()?,
                "untreated" => why.untreated = map.next_value()?,
                "last_refusal" => why.last_refusal = map.next_value()?,
                name => {
                    let known = REASONS.iter().find(|(_, known)| *known == name);
                    let (reason, _) = known.ok_or_else(|| A::Error::custom(format!("`{name}` is no reason")))?;
                    why.by_reason[*reason as usize] = map.next_value()?;
                }
            }
        }
        Ok(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_are_written() {
        let mut why = Why::default();
        why.clear(1, 2);
        (why.passes, why.inactive_passes, why.last_refusal) = (3, 1, Some("no".to_owned()));
        REASONS.iter().zip(1..).for_each(|((reason, _), bytes)| why.count(*reason, bytes));
        why.count_stopped_pages(&[5, 0, 7]);
        why.untreated = Untreated { no_swap: 9, elsewhere: 2, ..Untreated::default() };
        let text = toml::to_string(&why).expect("plain");
        let read: Why = toml::from_str(&text).expect("as it was written");
        assert_eq!(read, why);
        let odd = toml::from_str::<Why>("bored = { regions = 1, bytes = 1 }").unwrap_err();
        assert!(odd.to_string().contains("`bored` is no reason"), "{odd}");
    }

    #[test]
    fn the_largest_part_gives_the_reason() {
        let none = Untreated::default();
        assert_eq!(Reason::of_untreated(&none), None);
        let both = Untreated { no_swap: 5, free: 6, ..none };
        assert_eq!(Reason::of_untreated(&both), Some(Reason::Free));
        assert_eq!(
            Reason::of_untreated(&Untreated { no_swap: 6, ..both }),
            Some(Reason::NoSwap),
            "the first of equals"
        );
        let mut sum = both;
        sum.join(Untreated { free: u64::MAX, elsewhere: 1, ..none });
        assert_eq!((sum.by_why(), sum.bytes()), ([5, 0, 0, u64::MAX, 1], u64::MAX));
    }

    #[test]
    fn reasons_stand_in_their_own_places() {
        for (place, (reason, _)) in REASONS.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }

    #[test]
    fn passes_add_up() {
        let mut pass = Why::default();
        pass.clear(1, 0);
        pass.passes = 1;
        pass.count(Reason::TooYoung, 10);
        pass.count(Reason::Applied, 20);
        pass.count_rejected(Verdict::Rejected(0), 5);
        pass.count_rejected(Verdict::RejectedByDefault, 7);
        pass.count_stopped_pages(&[3]);
        let mut total = Why::default();
        total.join(&pass);
        total.join(&pass);
        assert_eq!((total.passes, total.shown()), (2, Tally { regions: 8, bytes: 84 }));
        assert_eq!(total.tried(), Tally { regions: 2, bytes: 40 });
        assert_eq!(total.core_filters, [Tally { regions: 2, bytes: 10 }, Tally { regions: 2, bytes: 14 }]);
        assert_eq!(total.page_filter_bytes, [6]);
    }
}
