//! Pages in flight: out of reach from their unmapping to their arrival.
//!
//! Kernel paths see a page where it will be. Only accesses must not go through, and the hit path must not pay for that. Before a
//! thread plays on a table with pages in flight, their present and writable bits are cleared, and set again after
//! (`PageTable::set_migration_entries`). It plays no further than to the next departure or arrival.

use super::Flush;
use crate::memory::FrameId;
use crate::mmu::SpaceId;
use isotherm_core::host::Stalls;
use isotherm_units::{Duration, Instant, PageRange};
use std::collections::BTreeMap;

/// The mover of pages: waits for its pages are reported only to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mover {
    /// Movers that take no reports of waits: threads for themselves, kcompactd, tiers.
    #[default]
    Anybody,
    /// A daemon that compacts, by its number.
    Daemon(u32),
}

/// A page in flight that is mapped by one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// First virtual page.
    pub page: u64,
    /// Base pages.
    pub pages: u32,
    /// Time at which it is unmapped.
    pub from: Instant,
    /// Time at which it is mapped again.
    pub until: Instant,
    /// Mover of the page.
    pub mover: Mover,
}

/// A page of a file, locked until it has arrived.
#[derive(Clone, Copy, Debug)]
struct Locked {
    from: Instant,
    until: Instant,
    mover: Mover,
}

impl Flight {
    fn range(&self) -> PageRange {
        PageRange::at(self.page, u64::from(self.pages))
    }
    fn is_out_of_reach(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }
}

/// All pages in flight, and the waits for them.
#[derive(Clone, Debug)]
pub struct Flights {
    by_space: BTreeMap<SpaceId, Vec<Flight>>,
    /// No flight ends before: until then there is no need to search for ended ones.
    first_arrival: Instant,
    /// Pages of files, by their frames during the flight, with departure and arrival: a write through a descriptor finds them without a
    /// mapping.
    of_files: BTreeMap<FrameId, Locked>,
    /// All pages: when they arrive, and how many base pages.
    isolated: Vec<(Instant, u32)>,
    /// Time up to which threads have played: a batch that begins earlier does not undo their work.
    played: Instant,
    /// When translations are flushed.
    pub flush: Flush,
    /// Flights up to this time are not waited for: the machine's clock is coarser than they are.
    pub resolution: Duration,
    /// Waits for pages in flight so far, all threads together.
    pub stalls: Stalls,
    /// The present mover.
    pub(super) mover: Mover,
    /// Stalls that a daemon has caused and that were not reported to it yet.
    unreported: BTreeMap<Mover, Stalls>,
}

impl Default for Flights {
    fn default() -> Self {
        Self {
            by_space: BTreeMap::new(),
            first_arrival: Instant::NEVER,
            of_files: BTreeMap::new(),
            isolated: Vec::new(),
            played: Instant::START,
            flush: Flush::default(),
            resolution: Duration::default(),
            stalls: Stalls::default(),
            mover: Mover::default(),
            unreported: BTreeMap::new(),
        }
    }
}

impl Flights {
    /// Whether no page is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_space.is_empty()
    }

    /// Pages move for `mover` from now on.
    pub const fn set_mover(&mut self, mover: Mover) {
        self.mover = mover;
    }

    /// A thread waits for `wait` for a page that `mover` moves.
    pub(crate) fn note_stall(&mut self, wait: Duration, mover: Mover) {
        self.stalls.add(wait);
        if mover != Mover::Anybody {
            self.unreported.entry(mover).or_default().add(wait);
        }
    }

    /// Waits for pages that the present mover has moved, since its last call: only waits for pages moved before it, because waits for pages
    /// in flight are still to come.
    pub fn take_unreported(&mut self) -> Stalls {
        self.unreported.remove(&self.mover).unwrap_or_default()
    }

    /// A thread has played up to `now`.
    #[inline]
    pub fn note_played(&mut self, now: Instant) {
        self.played = self.played.max(now);
    }

    /// When a batch begins for playing threads, if it begins at `at` for the mover. CPUs may be a step apart, and a mover of
    /// several batches in one stretch is ahead of the others, which are at `now`. Flights that are over for them are forgotten.
    pub(super) fn begin(&mut self, now: Instant, at: Instant) -> Instant {
        // A mover of single pages begins as many batches as there are pages, all in one stretch.
        if self.first_arrival <= now {
            self.by_space.retain(|_, flights| {
                flights.retain(|flight| flight.until > now);
                !flights.is_empty()
            });
            self.of_files.retain(|_, locked| locked.until > now);
            self.isolated.retain(|&(until, _)| until > now);
            let mapped = self.by_space.values().flatten().map(|flight| flight.until);
            let all = mapped.chain(self.isolated.iter().map(|&(until, _)| until));
            self.first_arrival = all.min().unwrap_or(Instant::NEVER);
        }
        at.max(self.played)
    }

    /// Base pages on their way at `now`, mapped or not, each once (`NR_ISOLATED_ANON` and `NR_ISOLATED_FILE`).
    pub(crate) fn pages_in_flight(&self, now: Instant) -> u64 {
        let isolated = self.isolated.iter().filter(|&&(until, _)| until > now);
        isolated.map(|&(_, pages)| u64::from(pages)).sum()
    }

    /// A number of base pages leave at `from` and arrive at `until`, mapped or not.
    pub(super) fn add_isolated(&mut self, from: Instant, until: Instant, pages: u32) {
        if until.since(from) > self.resolution {
            self.first_arrival = self.first_arrival.min(until);
            self.isolated.push((until, pages));
        }
    }

    pub(super) fn add(&mut self, space: SpaceId, flight: Flight) {
        if flight.until.since(flight.from) <= self.resolution {
            return;
        }
        self.first_arrival = self.first_arrival.min(flight.until);
        self.by_space.entry(space).or_default().push(flight);
    }

    /// A page of a file, by the frame that it has from now on, is locked between these.
    pub(super) fn add_of_file(&mut self, frame: FrameId, from: Instant, until: Instant) {
        if until.since(from) > self.resolution {
            self.of_files.insert(frame, Locked { from, until, mover: self.mover });
        }
    }

    /// When the page of a file that has a frame is unlocked, and who moves it, if it is on its way at `now`.
    #[inline]
    pub(super) fn arrival_at(&self, frame: FrameId, now: Instant) -> Option<(Instant, Mover)> {
        if self.of_files.is_empty() {
            return None;
        }
        let locked = self.of_files.get(&frame).filter(|locked| locked.from <= now && now < locked.until)?;
        Some((locked.until, locked.mover))
    }

    /// When a page that is out of reach arrives, and who moves it.
    pub(super) fn arrival(&self, space: SpaceId, page: u64, now: Instant) -> Option<(Instant, Mover)> {
        let flights = self.by_space.get(&space)?.iter();
        let hits = flights.filter(|flight| flight.range().contains(page) && flight.is_out_of_reach(now));
        hits.map(|flight| (flight.until, flight.mover)).max()
    }

    /// The part of a space that is out of reach at `now`, and the time of the next change; `None` if no page of it is in flight. Forgets
    /// pages that have arrived.
    pub fn migrating(&mut self, space: SpaceId, now: Instant) -> Option<(Vec<PageRange>, Instant)> {
        let flights = self.by_space.get_mut(&space)?;
        flights.retain(|flight| flight.until > now);
        if flights.is_empty() {
            self.by_space.remove(&space);
            return None;
        }
        let edges = flights.iter().map(|flight| if flight.from > now { flight.from } else { flight.until });
        let next = edges.min().unwrap_or(Instant::NEVER);
        let migrating = flights.iter().filter(|flight| flight.is_out_of_reach(now)).map(Flight::range).collect();
        Some((migrating, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mover of several batches in one stretch begins the second when the first is over for it, not for the others.
    #[test]
    fn an_earlier_batch_of_the_same_stretch_is_not_forgotten() {
        let at = Instant::from_ns;
        let (space, mut flights) = (SpaceId(1), Flights::default());
        let mover = Mover::Anybody;
        let flight = |page, from, until| Flight { page, pages: 1, from: at(from), until: at(until), mover };
        assert_eq!(flights.begin(at(1000), at(1000)), at(1000));
        flights.add(space, flight(7, 1000, 1400));
        assert_eq!(flights.begin(at(1000), at(1400)), at(1400));
        flights.add(space, flight(8, 1400, 1800));
        assert_eq!(flights.arrival(space, 7, at(1200)), Some((at(1400), mover)));
        flights.begin(at(1500), at(1500));
        assert_eq!(flights.arrival(space, 7, at(1200)), None, "over for all");
        assert_eq!(flights.arrival(space, 8, at(1600)), Some((at(1800), mover)));
    }

    /// Of several that compact, each gets reports of the waits that it caused itself, and of each wait once.
    #[test]
    fn waits_are_told_to_who_caused_them() {
        let mut flights = Flights::default();
        let [us, them] = [1, 2].map(Mover::Daemon);
        for (wait, mover) in [(10, us), (20, Mover::Anybody), (40, them), (80, us)] {
            flights.note_stall(Duration::from_us(wait), mover);
        }
        let mut reported = |mover| {
            flights.mover = mover;
            let stalls = flights.take_unreported();
            (stalls.count, stalls.total)
        };
        assert_eq!(reported(us), (2, Duration::from_us(90)));
        assert_eq!(reported(us), (0, Duration::ZERO), "once");
        assert_eq!((reported(them), reported(Mover::Anybody)), ((1, Duration::from_us(40)), (0, Duration::ZERO)));
        assert_eq!((flights.stalls.count, flights.stalls.total), (4, Duration::from_us(150)), "of all");
    }
}
