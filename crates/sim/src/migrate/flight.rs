//! Pages in flight: out of reach from their unmapping to their arrival.
//!
//! Kernel paths see a page where it will be. Only accesses must not go through, and the hit path must not pay for that: before
//! a thread plays on a table of which pages are in flight, their present and writable bits are cleared, and set again after
//! (`PageTable::veil`); it plays no further than to the next departure or arrival.

use super::Flush;
use crate::mmu::SpaceId;
use isotherm_core::host::Stalls;
use isotherm_units::{Duration, Instant, PageRange};
use std::collections::BTreeMap;

/// A page that one space maps, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// First virtual page.
    pub page: u64,
    /// Base pages.
    pub pages: u32,
    /// When it is unmapped.
    pub from: Instant,
    /// When it is mapped again.
    pub until: Instant,
}

impl Flight {
    fn range(&self) -> PageRange {
        PageRange::at(self.page, u64::from(self.pages))
    }
    fn is_out_of_reach(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }
}

/// All pages in flight, and what they cost those who wanted them.
#[derive(Debug)]
pub struct Flights {
    by_space: BTreeMap<SpaceId, Vec<Flight>>,
    /// No flight ends before: until then none is to be looked for that is over.
    first_arrival: Instant,
    /// How far threads have played: what was played is not undone by a batch that begins before.
    played: Instant,
    /// When translations are flushed.
    pub flush: Flush,
    /// Flights of no more than this are not waited for: a machine that is coarser than that cannot tell.
    pub resolution: Duration,
    /// Waits for pages in flight so far, all threads together.
    pub stalls: Stalls,
    /// Those that nobody was told of who compacts.
    unreported: Stalls,
}

impl Default for Flights {
    fn default() -> Self {
        Self {
            by_space: BTreeMap::new(),
            first_arrival: Instant::NEVER,
            played: Instant::START,
            flush: Flush::default(),
            resolution: Duration::default(),
            stalls: Stalls::default(),
            unreported: Stalls::default(),
        }
    }
}

impl Flights {
    /// Whether no page is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_space.is_empty()
    }

    /// A thread waits so long.
    pub(crate) fn note_stall(&mut self, wait: Duration) {
        self.stalls.add(wait);
        self.unreported.add(wait);
    }

    /// Waits since the last call: those of pages moved before it, for the waits for what is being moved are still to come.
    pub(crate) fn take_unreported(&mut self) -> Stalls {
        std::mem::take(&mut self.unreported)
    }

    /// A thread has played up to `now`.
    #[inline]
    pub(crate) fn note_played(&mut self, now: Instant) {
        self.played = self.played.max(now);
    }

    /// When a batch begins for those who play, if it begins at `at` for who migrates: CPUs may be a step apart, and who moves
    /// several batches in one stretch is ahead of the others, who are at `now`. Flights that are over for them are forgotten.
    pub(super) fn begin(&mut self, now: Instant, at: Instant) -> Instant {
        // Who moves page by page begins as many batches as there are pages, all in one stretch.
        if self.first_arrival <= now {
            self.by_space.retain(|_, flights| {
                flights.retain(|flight| flight.until > now);
                !flights.is_empty()
            });
            let left = self.by_space.values().flatten().map(|flight| flight.until);
            self.first_arrival = left.min().unwrap_or(Instant::NEVER);
        }
        at.max(self.played)
    }

    /// Base pages on their way at `now`, counted once for each space that maps them.
    pub(crate) fn pages_in_flight(&self, now: Instant) -> u64 {
        let flights = self.by_space.values().flatten().filter(|flight| flight.until > now);
        flights.map(|flight| u64::from(flight.pages)).sum()
    }

    pub(super) fn add(&mut self, space: SpaceId, flight: Flight) {
        if flight.until.since(flight.from) <= self.resolution {
            return;
        }
        self.first_arrival = self.first_arrival.min(flight.until);
        self.by_space.entry(space).or_default().push(flight);
    }

    /// When a page that is out of reach arrives.
    pub(super) fn arrival(&self, space: SpaceId, page: u64, now: Instant) -> Option<Instant> {
        let flights = self.by_space.get(&space)?.iter();
        let hits = flights.filter(|flight| flight.range().contains(page) && flight.is_out_of_reach(now));
        hits.map(|flight| flight.until).max()
    }

    /// What of a space is out of reach at `now`, and when that changes next; `None` if nothing of it is in flight. Forgets what
    /// has arrived.
    pub(crate) fn veiled(&mut self, space: SpaceId, now: Instant) -> Option<(Vec<PageRange>, Instant)> {
        let flights = self.by_space.get_mut(&space)?;
        flights.retain(|flight| flight.until > now);
        if flights.is_empty() {
            self.by_space.remove(&space);
            return None;
        }
        let edges = flights.iter().map(|flight| if flight.from > now { flight.from } else { flight.until });
        let next = edges.min().unwrap_or(Instant::NEVER);
        let veiled = flights.iter().filter(|flight| flight.is_out_of_reach(now)).map(Flight::range).collect();
        Some((veiled, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever moves several batches in one stretch begins the second when the first is over for it, not for the others.
    #[test]
    fn an_earlier_batch_of_the_same_stretch_is_not_forgotten() {
        let at = Instant::from_ns;
        let (space, mut flights) = (SpaceId(1), Flights::default());
        let flight = |page, from, until| Flight { page, pages: 1, from: at(from), until: at(until) };
        assert_eq!(flights.begin(at(1000), at(1000)), at(1000));
        flights.add(space, flight(7, 1000, 1400));
        assert_eq!(flights.begin(at(1000), at(1400)), at(1400));
        flights.add(space, flight(8, 1400, 1800));
        assert_eq!(flights.arrival(space, 7, at(1200)), Some(at(1400)));
        flights.begin(at(1500), at(1500));
        assert_eq!(flights.arrival(space, 7, at(1200)), None, "over for all");
        assert_eq!(flights.arrival(space, 8, at(1600)), Some(at(1800)));
    }
}
