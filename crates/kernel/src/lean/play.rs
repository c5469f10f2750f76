//! Touches and faults, under any policy: [`Stop`](crate::mmu::Stop) and [`fault`](crate::fault) for the memory that the engine covers.

use super::account::Account;
use super::attempt::{Attempt, Scan, Step};
use super::bits::State;
use super::layout::{Layout, NUMBERS};
use super::{Clock, Event, Halt, Lean};
use crate::memory::Memory;
use crate::mmu::Cursor;
use crate::reclaim::ListSizes;
use isotherm_units::Instant;
use isotherm_units::access::{Channel, Run};

/// How a page came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    /// From swap, for a store or a load.
    SwapIn {
        write: bool,
    },
}

/// A policy, with the page table and lists in the form that it needs.
pub(super) trait Policy: Clone + Send + 'static {
    /// One page is reclaimed for each page needed.
    const IS_EXACT: bool;
    /// No page of this layout was used.
    fn new(layout: &Layout, account: &Account) -> Self;
    /// Uses a page, if its entry permits that.
    fn touch(&mut self, page: u32, write: bool) -> bool;
    /// Uses pages from `page` on as far as their entries permit it, at most `most`, and perhaps fewer. Returns how many; 0: it faults.
    fn touch_row(&mut self, page: u32, most: u64, write: bool) -> u32;
    /// Before this number of touches.
    fn reserve(&mut self, _touches: usize) {}
    fn state(&self, page: u32) -> State;
    fn map_zero(&mut self, page: u32);
    /// A page comes, and is mapped as the access leaves it for which it comes.
    fn added(&mut self, account: &mut Account, page: u32, arrival: Arrival);
    /// One pass over the lists.
    fn shrink(&mut self, account: &mut Account, scan: &mut Scan);
    /// All priorities of a run are done.
    fn reclaim_ended(&mut self) {}
    fn sizes(&self) -> ListSizes;
    /// Counters are added up, where they are not up to date always.
    fn flush_statistics(&mut self) {}
    /// All pages are freed.
    fn exit(&mut self);
    /// Whether all numbers still fit.
    fn fits(&self) -> bool {
        true
    }
    /// Reads what a fault at this page needs, so that it is in the host's caches.
    fn warm(&self, page: u32) -> u64;
}

/// The engine under one policy.
#[derive(Clone, Debug)]
pub(super) struct Engine<P> {
    layout: Layout,
    account: Account,
    policy: P,
    /// The page for which the last fault found no room.
    missing: Option<(u32, Arrival)>,
    /// The reclaim for that page, and when it began.
    attempt: Option<(Attempt, u64)>,
    /// It is over, and the page was not tried again yet.
    is_reclaimed: bool,
    /// The page of the last fault, as long as the access is still to come that it was for. It is mapped as that access leaves it.
    fresh: Option<u32>,
    /// Runs of the batch before this one were read ahead.
    looked_ahead: usize,
}

/// Why the thread does not go on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    TimeUp,
    /// There is no room under the limit: reclaim comes first.
    Short,
    GivesUp,
}

/// Runs that are read ahead together.
const TOGETHER: usize = 64;

/// The hot loop: touches single resident pages while there is time. Returns how many, and whether the next one faults, after its think
/// time.
#[inline(never)]
fn touch_singles<P: Policy>(policy: &mut P, runs: &[Run], origin: u64, clock: &mut Clock) -> (usize, bool) {
    let Clock { mut now_ns, until_ns, page_ns, .. } = *clock;
    policy.reserve(runs.len());
    let mut left = runs.iter();
    let mut rest = runs.len();
    while let Some(run) = left.next() {
        // Pages that are no numbers have no entry.
        let Some(page) = run.single_page_from(origin, NUMBERS) else { break };
        let begun_ns = now_ns + u64::from(run.think_ns);
        if begun_ns >= until_ns {
            break;
        }
        if !policy.touch(page as u32, run.is_write()) {
            clock.now_ns = begun_ns;
            return (runs.len() - left.as_slice().len() - 1, true);
        }
        now_ns = begun_ns + page_ns;
        rest = left.as_slice().len();
    }
    clock.now_ns = now_ns;
    (runs.len() - rest, false)
}

impl<P: Policy> Engine<P> {
    pub(super) fn new(layout: Layout, account: Account) -> Self {
        let policy = P::new(&layout, &account);
        Self {
            layout,
            account,
            policy,
            missing: None,
            attempt: None,
            is_reclaimed: false,
            fresh: None,
            looked_ahead: 0,
        }
    }

    /// Plays runs from the cursor on. `None`: all are done.
    #[inline]
    fn play_to_stop(&mut self, runs: &[Run], cursor: &mut Cursor, clock: &mut Clock) -> Option<Stop> {
        loop {
            while !cursor.thought && cursor.page == 0 {
                let (done, faults) = touch_singles(&mut self.policy, &runs[cursor.run..], self.layout.origin, clock);
                cursor.run += done;
                if !faults {
                    break;
                }
                cursor.thought = true;
                let run = runs[cursor.run];
                self.look_ahead(runs, cursor.run);
                let Some(number) = self.layout.number(run.page()) else { return Some(Stop::GivesUp) };
                let stop = self.fault(number, run.is_write(), clock);
                if stop.is_some() {
                    return stop;
                }
                self.touch_fresh(cursor, clock);
            }
            let run = *runs.get(cursor.run)?;
            let stop = self.play_run(run, cursor, clock);
            if stop.is_some() {
                return stop;
            }
            *cursor = Cursor { run: cursor.run + 1, ..Cursor::default() };
        }
    }

    /// The access to a single page for which the page has just come, if there is time for it.
    #[inline]
    fn touch_fresh(&mut self, cursor: &mut Cursor, clock: &mut Clock) {
        if clock.now_ns < clock.until_ns {
            self.fresh = None;
            clock.now_ns += clock.page_ns;
            *cursor = Cursor { run: cursor.run + 1, ..Cursor::default() };
        }
    }

    /// Plays one run from the cursor on. `None`: it is done.
    #[inline(never)]
    fn play_run(&mut self, run: Run, cursor: &mut Cursor, clock: &mut Clock) -> Option<Stop> {
        if clock.now_ns >= clock.until_ns {
            return Some(Stop::TimeUp);
        }
        if !cursor.thought {
            clock.now_ns += u64::from(run.think_ns);
            cursor.thought = true;
        }
        if run.channel() == Channel::FileDescriptor {
            return Some(Stop::GivesUp);
        }
        while cursor.page < run.pages {
            if clock.now_ns >= clock.until_ns {
                return Some(Stop::TimeUp);
            }
            let page = run.page() + u64::from(cursor.page);
            let Some(number) = self.layout.number(page) else { return Some(Stop::GivesUp) };
            let begun = match clock.page_ns {
                0 => u64::MAX,
                page_ns => (clock.until_ns - clock.now_ns).div_ceil(page_ns),
            };
            let most = u64::from(run.pages - cursor.page).min(begun);
            let is_fresh = self.fresh.take() == Some(number);
            let touched = if is_fresh { 1 } else { self.policy.touch_row(number, most, run.is_write()) };
            clock.now_ns += u64::from(touched) * clock.page_ns;
            cursor.page += touched;
            if touched == 0
                && let Some(stop) = self.fault(number, run.is_write(), clock)
            {
                return Some(stop);
            }
        }
        None
    }

    /// Handles a fault. `None`: the page is there.
    #[inline]
    fn fault(&mut self, page: u32, write: bool, clock: &mut Clock) -> Option<Stop> {
        let arrival = match self.policy.state(page) {
            State::Swapped => Arrival::SwapIn { write },
            _ if !self.account.is_covered() => return Some(Stop::GivesUp),
            State::Absent if !write => {
                self.account.fault_zero();
                self.policy.map_zero(page);
                self.fresh = Some(page);
                return self.pay(clock, true);
            }
            State::Absent | State::Zero | State::Resident => Arrival::New,
        };
        self.account.fault(arrival != Arrival::New);
        let is_served = self.supply(page, arrival);
        self.pay(clock, is_served)
    }

    #[inline]
    fn pay(&mut self, clock: &mut Clock, is_served: bool) -> Option<Stop> {
        let ns = self.account.take_ns();
        clock.now_ns += ns;
        clock.fault_ns += ns;
        if is_served { None } else { Some(Stop::Short) }
    }

    /// Charges the page and brings it in. `false`: there is no room.
    #[inline]
    fn supply(&mut self, page: u32, arrival: Arrival) -> bool {
        if !self.account.charge() {
            self.missing = Some((page, arrival));
            return false;
        }
        self.account.filled(arrival != Arrival::New);
        self.policy.added(&mut self.account, page, arrival);
        self.fresh = Some(page);
        true
    }

    /// Reclaims until the fault that was short is served.
    fn resume(&mut self, clock: &mut Clock, events: &mut Vec<Event>) -> Option<Stop> {
        while let Some((page, arrival)) = self.missing {
            if !self.is_reclaimed
                && let Some(stop) = self.reclaim(clock, events)
            {
                return Some(stop);
            }
            if clock.now_ns >= clock.until_ns {
                return Some(Stop::TimeUp);
            }
            (self.is_reclaimed, self.missing) = (false, None);
            let is_served = self.supply(page, arrival);
            self.pay(clock, is_served);
            if is_served {
                events.push(Event::Served(clock.now_ns));
            }
        }
        None
    }

    /// Makes one attempt to reclaim, or goes on with it.
    #[inline]
    fn reclaim(&mut self, clock: &mut Clock, events: &mut Vec<Event>) -> Option<Stop> {
        let (mut attempt, began_ns) = self.attempt.take().unwrap_or_else(|| {
            events.push(Event::Short(clock.now_ns));
            (Attempt::new(), clock.now_ns)
        });
        loop {
            if clock.now_ns >= clock.until_ns {
                self.attempt = Some((attempt, began_ns));
                return Some(Stop::TimeUp);
            }
            self.account.now = Instant::from_ns(clock.now_ns);
            let step = attempt.step(&mut self.policy, &mut self.account);
            let ns = self.account.take_ns();
            clock.now_ns += ns;
            clock.reclaim_ns += ns;
            match step {
                Step::Again => {}
                Step::Done if self.policy.fits() => break,
                Step::Done | Step::Failed => return Some(Stop::GivesUp),
            }
        }
        events.push(Event::Reclaimed(clock.now_ns - began_ns));
        self.is_reclaimed = true;
        None
    }

    /// Reads what faults of the next runs need.
    #[inline]
    fn look_ahead(&mut self, runs: &[Run], at: usize) {
        if at < self.looked_ahead {
            return;
        }
        let runs = &runs[at..runs.len().min(at + TOGETHER)];
        self.looked_ahead = at + runs.len();
        let (origin, span) = (self.layout.origin, self.layout.span);
        let number = |run: &Run| run.single_page_from(origin, span).map_or(0, |page| page as u32);
        std::hint::black_box(runs.iter().fold(0, |sum, run| sum ^ self.policy.warm(number(run))));
    }
}

impl<P: Policy> Lean for Engine<P> {
    fn play(&mut self, runs: &[Run], cursor: &mut Cursor, clock: &mut Clock, events: &mut Vec<Event>) -> Halt {
        if cursor.run == 0 {
            self.looked_ahead = 0;
        }
        if !self.account.is_limit_covered() {
            return Halt::GivesUp;
        }
        loop {
            let mut stop = None;
            if self.missing.is_some() {
                stop = self.resume(clock, events);
                if stop.is_none() && runs[cursor.run].is_single_page() {
                    self.touch_fresh(cursor, clock);
                }
            }
            let stop = stop.or_else(|| self.play_to_stop(runs, cursor, clock));
            match stop {
                None => return Halt::Done,
                Some(Stop::Short) => {}
                Some(Stop::TimeUp) => return Halt::TimeUp,
                Some(Stop::GivesUp) => return Halt::GivesUp,
            }
        }
    }

    fn enter(&mut self, memory: &Memory) {
        self.account.enter(memory);
    }

    fn settle(&mut self, memory: &mut Memory) {
        self.account.settle(memory);
    }

    fn exit(&mut self) {
        self.account.exit();
        self.policy.exit();
    }

    fn sizes(&self) -> ListSizes {
        self.policy.sizes()
    }

    fn flush_statistics(&mut self) {
        self.policy.flush_statistics();
    }

    fn peak_resident(&self) -> u64 {
        self.account.peak_resident
    }

    fn fork(&self) -> Box<dyn Lean> {
        Box::new(self.clone())
    }
}
