//! Touches and faults, under any policy: [`Stop`](crate::mmu::Stop) and [`fault`](crate::fault) for the memory that the engine covers.

use super::account::Account;
use super::attempt::{Attempt, Scan};
use super::bits::State;
use super::layout::Layout;
use super::{Clock, Halt, Lean, Step};
use crate::memory::Memory;
use crate::mmu::Cursor;
use crate::reclaim::ListSizes;
use isotherm_units::access::{Channel, Run};

/// How a page came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    /// From swap, for a store or a load.
    SwapIn { write: bool },
}

/// A policy, with the page table and lists in the form that it needs.
pub(super) trait Policy: Clone + Send + 'static {
    /// One page is reclaimed for each page needed.
    const IS_EXACT: bool;
    /// No page of this layout was used.
    fn new(layout: &Layout, account: &Account) -> Self;
    /// Uses a page, if its entry permits that.
    fn touch(&mut self, page: usize, write: bool) -> bool;
    /// Uses pages from `page` on as far as their entries permit it, at most `most`, and perhaps fewer. Returns how many; 0: it faults.
    fn touch_row(&mut self, page: u32, most: u64, write: bool) -> u32;
    /// Before so many touches.
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
    attempt: Option<Attempt>,
    /// The page of the last fault, as long as the access is still to come that it was for. It is mapped as that access leaves it.
    fresh: Option<u32>,
    /// Runs of the batch before this one were read ahead.
    looked_ahead: usize,
}

/// Runs that are read ahead together.
const TOGETHER: usize = 64;

impl<P: Policy> Engine<P> {
    pub(super) fn new(layout: Layout, account: Account) -> Self {
        let policy = P::new(&layout, &account);
        Self { layout, account, policy, missing: None, attempt: None, fresh: None, looked_ahead: 0 }
    }

    /// The hot loop: touches single resident pages while there is time. Returns how many.
    #[inline(never)]
    fn touch_singles(&mut self, runs: &[Run], clock: &mut Clock) -> usize {
        let Clock { mut now_ns, until_ns, page_ns, .. } = *clock;
        let (origin, span) = (self.layout.origin, self.layout.span);
        self.policy.reserve(runs.len());
        let mut left = runs.iter();
        let mut done = 0;
        for run in left.by_ref() {
            let Some(page) = run.single_page_from(origin, span) else { break };
            let begun_ns = now_ns + u64::from(run.think_ns);
            if begun_ns >= until_ns || !self.policy.touch(page as usize, run.is_write()) {
                break;
            }
            now_ns = begun_ns + page_ns;
            done += 1;
        }
        clock.now_ns = now_ns;
        done
    }

    /// Plays one run from the cursor on. `None`: it is done.
    #[inline]
    fn play_run(&mut self, run: Run, cursor: &mut Cursor, clock: &mut Clock) -> Option<Halt> {
        if clock.now_ns >= clock.until_ns {
            return Some(Halt::TimeUp);
        }
        if !cursor.thought {
            clock.now_ns += u64::from(run.think_ns);
            cursor.thought = true;
        }
        if run.channel() == Channel::FileDescriptor {
            return Some(Halt::GivesUp);
        }
        while cursor.page < run.pages || run.is_single_page() {
            if clock.now_ns >= clock.until_ns {
                return Some(Halt::TimeUp);
            }
            let page = run.page() + u64::from(cursor.page);
            let Some(number) = self.layout.number(page) else { return Some(Halt::GivesUp) };
            let is_fresh = self.fresh.take() == Some(number);
            if run.is_single_page() {
                if is_fresh || self.policy.touch(number as usize, run.is_write()) {
                    clock.now_ns += clock.page_ns;
                    return None;
                }
            } else {
                let begun = match clock.page_ns {
                    0 => u64::MAX,
                    page_ns => (clock.until_ns - clock.now_ns).div_ceil(page_ns),
                };
                let most = u64::from(run.pages - cursor.page).min(begun);
                let touched = if is_fresh { 1 } else { self.policy.touch_row(number, most, run.is_write()) };
                if touched > 0 {
                    clock.now_ns += u64::from(touched) * clock.page_ns;
                    cursor.page += touched;
                    continue;
                }
            }
            if !self.account.is_covered() || !self.policy.fits() {
                return Some(Halt::GivesUp);
            }
            let is_served = self.fault(number, run.is_write());
            let ns = self.account.take_ns();
            clock.now_ns += ns;
            clock.fault_ns += ns;
            if !is_served {
                return Some(Halt::Short);
            }
        }
        None
    }

    /// Handles a fault. `false`: there is no room under the limit.
    #[inline]
    fn fault(&mut self, page: u32, write: bool) -> bool {
        let arrival = match self.policy.state(page) {
            State::Absent if !write => {
                self.account.fault_zero();
                self.policy.map_zero(page);
                self.fresh = Some(page);
                return true;
            }
            State::Swapped => Arrival::SwapIn { write },
            State::Absent | State::Zero | State::Resident => Arrival::New,
        };
        self.account.fault(arrival != Arrival::New);
        self.supply(page, arrival)
    }

    /// Charges the page and brings it in.
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

    /// Reads what faults of the next runs need.
    fn look_ahead(&mut self, runs: &[Run], at: usize) {
        if at < self.looked_ahead {
            return;
        }
        let runs = &runs[at..runs.len().min(at + TOGETHER)];
        self.looked_ahead = at + runs.len();
        let origin = self.layout.origin;
        let number = |run: &Run| u32::try_from(run.page().wrapping_sub(origin)).unwrap_or(u32::MAX);
        std::hint::black_box(runs.iter().fold(0, |sum, run| sum ^ self.policy.warm(number(run))));
    }
}

impl<P: Policy> Lean for Engine<P> {
    fn play(&mut self, runs: &[Run], cursor: &mut Cursor, clock: &mut Clock) -> Halt {
        if cursor.run == 0 {
            self.looked_ahead = 0;
        }
        loop {
            if !cursor.thought && cursor.page == 0 {
                cursor.run += self.touch_singles(&runs[cursor.run..], clock);
            }
            let Some(&run) = runs.get(cursor.run) else { return Halt::Done };
            self.look_ahead(runs, cursor.run);
            if let Some(halt) = self.play_run(run, cursor, clock) {
                return halt;
            }
            *cursor = Cursor { run: cursor.run + 1, ..Cursor::default() };
        }
    }

    fn reclaim(&mut self, ns: &mut u64) -> Step {
        let mut attempt = self.attempt.unwrap_or(const { Attempt::new() });
        let step = attempt.step(&mut self.policy, &mut self.account);
        *ns += self.account.take_ns();
        self.attempt = if step == Step::Again { Some(attempt) } else { None };
        step
    }

    fn fault_again(&mut self, ns: &mut u64) -> bool {
        let Some((page, arrival)) = self.missing.take() else { return true };
        let is_served = self.supply(page, arrival);
        *ns += self.account.take_ns();
        is_served
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

    fn peak_resident(&self) -> u64 {
        self.account.peak_resident
    }

    fn fork(&self) -> Box<dyn Lean> {
        Box::new(self.clone())
    }
}
