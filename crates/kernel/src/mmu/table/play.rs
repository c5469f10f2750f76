//! The hit path: a batch of accesses against the words of the table.

use super::tiers::planes_around;
use super::{
    ACCESSED, CHUNK_MASK, CHUNK_PAGES, CHUNK_SHIFT, DIRTY, Hits, Need, PLANES_MAX, PRESENT, PageTable, WRITABLE,
};
use isotherm_units::access::Run;

/// Where [`PageTable::play_through`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All runs are done.
    Done,
    /// The time is up; the run at the cursor has not begun or is partly done.
    TimeUp,
    /// The page needs the kernel.
    Fault {
        /// Virtual page number.
        page: u64,
        /// Entry that the access needs.
        need: Need,
    },
    /// The run at the cursor goes through a file descriptor.
    Descriptor,
}

/// How far a thread has come in its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Runs finished.
    pub run: usize,
    /// Pages finished of the run at `run`.
    pub page: u32,
    /// Whether the think time of the run at `run` has passed.
    pub thought: bool,
}

/// The clock of a playing thread; times in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Current time in ns.
    pub now_ns: u64,
    /// Stop when `now_ns` reaches this.
    pub until_ns: u64,
    /// Cost of each page touched, in the fastest memory.
    pub page_ns: u64,
    /// Additional cost of a page in each slower class of memory, by class - 1. Wraps: under load the fastest memory may cost more than
    /// others.
    pub slower_ns: [u64; PLANES_MAX],
    /// Pages touched in each class. Counted only where there are classes.
    pub hits: Hits,
}

impl Pace {
    /// Books `pages` of class `class`.
    #[inline]
    pub(super) fn pay(&mut self, pages: u64, class: usize) {
        let slower_ns = if class == 0 { 0 } else { self.slower_ns[class - 1] };
        self.now_ns += pages * self.page_ns.wrapping_add(slower_ns);
        self.hits[class] += pages;
    }

    /// The earliest pages of `hits` that begin before the time is up when the first begins at `now_ns`, and their cost.
    #[inline]
    fn afford<const PLANES: usize>(&self, now_ns: u64, hits: u64, planes: [u64; PLANES]) -> (u64, u64) {
        let whole = self.cost(hits, planes);
        if now_ns.saturating_add(whole) <= self.until_ns {
            return (hits, whole);
        }
        let (mut left, mut taken, mut ns) = (hits, 0, 0);
        while left != 0 && now_ns + ns < self.until_ns {
            let bit = left & left.wrapping_neg();
            ns += self.cost(bit, planes);
            taken |= bit;
            left ^= bit;
        }
        (taken, ns)
    }

    #[inline(always)]
    fn cost<const PLANES: usize>(&self, hits: u64, planes: [u64; PLANES]) -> u64 {
        let mut ns = u64::from(hits.count_ones()) * self.page_ns;
        for (plane, slower_ns) in planes.into_iter().zip(self.slower_ns) {
            ns = ns.wrapping_add(u64::from((hits & plane).count_ones()).wrapping_mul(slower_ns));
        }
        ns
    }

    #[inline(always)]
    fn count<const PLANES: usize>(&mut self, hits: u64, planes: [u64; PLANES]) {
        let mut fast = u64::from(hits.count_ones());
        for (plane, nr) in planes.into_iter().zip(&mut self.hits[1..]) {
            let slow = u64::from((hits & plane).count_ones());
            *nr += slow;
            fast -= slow;
        }
        self.hits[0] += fast;
    }
}

impl PageTable {
    /// Plays runs until one needs the kernel, the time is up or all are done: the hit path.
    ///
    /// Sets accessed bits (and dirty bits for stores) of resident pages and advances `cursor` and `pace.now_ns`.
    pub(crate) fn play(&mut self, runs: &[Run], cursor: &mut Cursor, pace: &mut Pace) -> Stop {
        match self.extension.nr_planes {
            0 => self.play_tiers::<0>(runs, cursor, pace),
            1 => self.play_tiers::<1>(runs, cursor, pace),
            2 => self.play_tiers::<2>(runs, cursor, pace),
            _ => self.play_tiers::<PLANES_MAX>(runs, cursor, pace),
        }
    }

    /// Plays on, without translation caches, where a fault has just left the page of the access at `cursor` as that access would: the same
    /// as [`play_through`](Self::play_through). The table must be [plain](Self::is_plain).
    #[inline]
    pub fn play_on(&mut self, runs: &[Run], cursor: &mut Cursor, pace: &mut Pace) -> Stop {
        debug_assert!(self.is_plain(), "accessed bits are set by the access alone");
        if !self.has_classes() && runs[cursor.run].is_single_page() && pace.now_ns < pace.until_ns {
            pace.now_ns += pace.page_ns;
            *cursor = Cursor { run: cursor.run + 1, ..Cursor::default() };
            if let Some(need) = self.play_singles(runs, cursor, pace) {
                return Stop::Fault { page: runs[cursor.run].page(), need };
            }
        }
        self.play(runs, cursor, pace)
    }

    /// Touches single resident pages from an access on that has not begun, up to one that faults, which is at the cursor then; `None`: it
    /// stopped before.
    #[inline(never)]
    fn play_singles(&mut self, runs: &[Run], cursor: &mut Cursor, pace: &mut Pace) -> Option<Need> {
        let mut now_ns = pace.now_ns;
        let (nr_done, fault) = self.touch_singles::<0>(&runs[cursor.run..], &mut now_ns, pace);
        cursor.run += nr_done;
        cursor.thought = fault.is_some();
        pace.now_ns = now_ns;
        fault
    }

    /// Not inlined: together they would have too few registers for the hot loop.
    #[inline(never)]
    fn play_tiers<const PLANES: usize>(&mut self, runs: &[Run], cursor: &mut Cursor, pace: &mut Pace) -> Stop {
        debug_assert!(cursor.run <= runs.len(), "the cursor is one of this batch");
        let mut now_ns = pace.now_ns;
        let stop = loop {
            if !cursor.thought && cursor.page == 0 {
                let (nr_done, fault) = self.touch_singles::<PLANES>(&runs[cursor.run..], &mut now_ns, pace);
                cursor.run += nr_done;
                if let Some(need) = fault {
                    cursor.thought = true;
                    break Stop::Fault { page: runs[cursor.run].page(), need };
                }
            }
            let Some(&run) = runs.get(cursor.run) else { break Stop::Done };
            if now_ns >= pace.until_ns {
                break Stop::TimeUp;
            }
            if !cursor.thought {
                now_ns += u64::from(run.think_ns);
                cursor.thought = true;
                if now_ns >= pace.until_ns {
                    break Stop::TimeUp;
                }
            }
            if run.is_single_page() {
                match self.touch_one(run.page(), run.is_write()) {
                    Ok(()) if PLANES == 0 => now_ns += pace.page_ns,
                    Ok(()) => {
                        pace.now_ns = now_ns;
                        pace.pay(1, self.class_at(run.page()));
                        now_ns = pace.now_ns;
                    }
                    Err(stop) => break stop,
                }
            } else {
                match self.touch_rest::<PLANES>(run, cursor, &mut now_ns, pace) {
                    Ok(()) => {}
                    Err(stop) => break stop,
                }
            }
            cursor.run += 1;
            cursor.page = 0;
            cursor.thought = false;
        };
        pace.now_ns = now_ns;
        stop
    }

    /// The hot loop: touches single resident pages from the start of `runs` while there is time. Returns the number of pages, and the entry
    /// that the next one faults for after its think time, if that is why it stopped; else the caller finds out why.
    ///
    /// Few instructions matter here more than few cycles each: the more accesses fit the processor's window, the more of
    /// their cache misses overlap.
    #[inline(always)]
    fn touch_singles<const PLANES: usize>(
        &mut self,
        runs: &[Run],
        now_ns: &mut u64,
        pace: &mut Pace,
    ) -> (usize, Option<Need>) {
        let (until_ns, page_ns) = (pace.until_ns, pace.page_ns);
        let mut now = *now_ns;
        let mut fault = None;
        let mut slower = [0; PLANES];
        let mut rest = runs;
        'chunks: while let Some(first) = rest.first() {
            let high = first.page() >> CHUNK_SHIFT;
            let Some(&slot) = self.directory.get(high as usize) else { break };
            let Some(chunk) = self.chunks.get_mut((slot as usize).wrapping_sub(1)) else { break };
            let first_page = high << CHUNK_SHIFT;
            let mut left = rest.iter();
            loop {
                rest = left.as_slice();
                let Some(run) = left.next() else { break 'chunks };
                let Some(within) = run.single_page_from(first_page, CHUNK_PAGES) else {
                    // In another chunk, perhaps.
                    if run.is_single_page() {
                        continue 'chunks;
                    }
                    break 'chunks;
                };
                now += u64::from(run.think_ns);
                if now >= until_ns {
                    now -= u64::from(run.think_ns);
                    break 'chunks;
                }
                let within = within as usize;
                let bit = 1u64 << (within % 64);
                let group = &mut chunk.groups[within / 64];
                if run.is_write() {
                    let stores = &mut chunk.stores[within / 64];
                    if stores[WRITABLE] & bit == 0 {
                        fault = Some(Need::Write);
                        break 'chunks;
                    }
                    debug_assert!(group[PRESENT] & bit != 0, "a writable page is present");
                    stores[DIRTY] |= bit;
                } else if group[PRESENT] & bit == 0 {
                    fault = Some(Need::Read);
                    break 'chunks;
                }
                group[ACCESSED] |= bit;
                chunk.upper.settle(within);
                now += page_ns;
                if PLANES > 0 {
                    for (plane, word) in planes_around::<PLANES>(&chunk.planes, within).into_iter().enumerate() {
                        let is_slower = word >> (within % 64) & 1;
                        slower[plane] += is_slower;
                        now = now.wrapping_add(is_slower.wrapping_mul(pace.slower_ns[plane]));
                    }
                }
            }
        }
        let nr_done = runs.len() - rest.len();
        *now_ns = now;
        if PLANES > 0 {
            pace.hits[0] += nr_done as u64 - slower.iter().sum::<u64>();
            pace.hits[1..].iter_mut().zip(slower).for_each(|(hits, nr)| *hits += nr);
        }
        (nr_done, fault)
    }

    /// A read of `page` as far as it leaves a mark: the accessed bits of a present page, nothing of an absent one. The table must be
    /// [plain](Self::is_plain).
    pub fn use_again(&mut self, page: u64) {
        debug_assert!(self.is_plain(), "accessed bits are set by the access alone");
        _ = self.touch_one(page, false); // a page that is absent faults when it is named
    }

    pub(super) fn touch_one(&mut self, page: u64, write: bool) -> Result<(), Stop> {
        let need = if write { Need::Write } else { Need::Read };
        let fault = Stop::Fault { page, need };
        let slot = *self.directory.get((page >> CHUNK_SHIFT) as usize).ok_or(fault)?;
        let Some(chunk) = self.chunks.get_mut((slot as usize).wrapping_sub(1)) else { return Err(fault) };
        let within = (page & CHUNK_MASK) as usize;
        let group = &mut chunk.groups[within / 64];
        let bit = 1u64 << (within % 64);
        if write {
            let stores = &mut chunk.stores[within / 64];
            if stores[WRITABLE] & bit == 0 {
                return Err(fault);
            }
            debug_assert!(group[PRESENT] & bit != 0, "a writable page is present");
            stores[DIRTY] |= bit;
        } else if group[PRESENT] & bit == 0 {
            return Err(fault);
        }
        group[ACCESSED] |= bit;
        chunk.upper.settle(within);
        Ok(())
    }

    /// Touches the rest of a run of several pages, 64 at a time by mask.
    fn touch_rest<const PLANES: usize>(
        &mut self,
        run: Run,
        cursor: &mut Cursor,
        now_ns: &mut u64,
        pace: &mut Pace,
    ) -> Result<(), Stop> {
        if run.channel() == isotherm_units::access::Channel::FileDescriptor {
            return Err(Stop::Descriptor);
        }
        let need = if run.is_write() { Need::Write } else { Need::Read };
        while cursor.page < run.pages {
            if *now_ns >= pace.until_ns {
                return Err(Stop::TimeUp);
            }
            let page = run.page() + u64::from(cursor.page);
            let fault = Stop::Fault { page, need };
            let dense = self.dense(page).ok_or(fault)?;
            let affordable = match pace.page_ns {
                _ if PLANES > 0 => u64::MAX, // found page by page
                0 => u64::MAX,
                page_ns => (pace.until_ns - *now_ns).div_ceil(page_ns),
            };
            let wanted = u64::from(run.pages - cursor.page).min(64 - (page % 64)).min(affordable) as u32;
            debug_assert!(wanted > 0, "pages and time are left");
            let within = dense.within();
            let chunk = &mut self.chunks[dense.slot()];
            let planes = chunk.planes_at::<PLANES>(within);
            let (group, stores) = (&mut chunk.groups[within / 64], &mut chunk.stores[within / 64]);
            let mask = (u64::MAX >> (64 - wanted)) << (within % 64);
            let permitted = if need == Need::Write { stores[WRITABLE] } else { group[PRESENT] };
            let mut missing = mask & !permitted;
            // Pages before the first missing one are hits.
            let mut hits = if missing == 0 { mask } else { mask & ((1 << missing.trailing_zeros()) - 1) };
            if PLANES > 0 {
                let (afforded, ns) = pace.afford(*now_ns, hits, planes);
                *now_ns += ns;
                if afforded != hits || *now_ns >= pace.until_ns {
                    missing = 0; // not reached
                }
                hits = afforded;
                pace.count(hits, planes);
            }
            debug_assert!(hits & !group[PRESENT] == 0, "a writable page is present");
            group[ACCESSED] |= hits;
            if need == Need::Write {
                stores[DIRTY] |= hits;
            }
            if hits != 0 {
                chunk.upper.settle(within);
            }
            let nr_hits = hits.count_ones();
            cursor.page += nr_hits;
            if PLANES == 0 {
                *now_ns += u64::from(nr_hits) * pace.page_ns;
            }
            if missing != 0 {
                return Err(Stop::Fault { page: page + u64::from(nr_hits), need });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mapped, pace};
    use super::*;
    use crate::memory::FrameId;

    #[test]
    fn runs_in_several_blocks_are_one_batch() {
        let far = CHUNK_PAGES * 3 + 7;
        let mut table = mapped(&[1, 2, far, far + 1], true);
        let runs = [Run::read(1, 1), Run::write(far, 1).after_ns(5), Run::read(2, 1), Run::read(far + 1, 1)];
        let (mut cursor, mut clock) = (Cursor::default(), pace(1_000, 10));
        assert_eq!((table.play(&runs, &mut cursor, &mut clock), clock.now_ns), (Stop::Done, 45));
        let stop = table.play(&[Run::read(CHUNK_PAGES, 1)], &mut Cursor::default(), &mut clock);
        assert_eq!(stop, Stop::Fault { page: CHUNK_PAGES, need: Need::Read }, "no block there");
    }

    #[test]
    fn what_a_fault_left_as_the_access_would_is_passed() {
        let run = Run::write(3, 1).after_ns(50);
        let reached = |passes: bool, until_ns| {
            let mut table = mapped(&[1], true);
            let (mut cursor, mut clock) = (Cursor::default(), pace(until_ns, 10));
            let stop = table.play(&[run], &mut cursor, &mut clock);
            assert_eq!(stop, Stop::Fault { page: 3, need: Need::Write });
            let dense = table.dense(3).unwrap();
            table.set_present_anew(dense, FrameId::new(9), true);
            clock.now_ns += 30; // of the fault
            let stop = match passes {
                true => table.play_on(&[run], &mut cursor, &mut clock),
                false => table.play(&[run], &mut cursor, &mut clock),
            };
            (stop, cursor, clock.now_ns, table.is_young(dense), table.is_dirty(dense))
        };
        for until_ns in [80, 81, 1_000] {
            assert_eq!(reached(true, until_ns), reached(false, until_ns), "{until_ns}");
        }
    }
}
