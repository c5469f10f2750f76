//! Playing accesses where the page table alone does not decide what happens: through translation caches, or on premapped
//! memory.

use super::super::translation::{Caches, Off, Reads, Translation};
use super::{ACCESSED, CHUNK_SHIFT, Cursor, DIRTY, Level, Need, PRESENT, Pace, PageTable, Stop, WRITABLE};
use isotherm_units::access::{Channel, Run};
use std::collections::BTreeSet;

impl PageTable {
    /// Whether all its memory has frames, and processors set its accessed bits.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.extension.premapped.is_none() && !self.extension.kind.by_fault
    }

    /// Plays runs until one needs the kernel, the time is up or all are done. `huge` holds the blocks under one entry; `caches` are the
    /// translation caches of the processor, if there are any.
    ///
    /// Sets accessed bits (and dirty bits for stores) of resident pages and advances `cursor`, `pace.now_ns` and `pace.hits`.
    #[inline]
    pub fn play_through(
        &mut self,
        caches: Option<&mut Caches>,
        huge: &BTreeSet<u64>,
        runs: &[Run],
        cursor: &mut Cursor,
        pace: &mut Pace,
    ) -> Stop {
        match caches {
            None if self.is_plain() => self.play(runs, cursor, pace),
            caches => self.play_walked(caches, huge, runs, cursor, pace),
        }
    }

    /// Not inlined elsewhere: the loops below belong to this crate, with what they inline.
    fn play_walked(
        &mut self,
        caches: Option<&mut Caches>,
        huge: &BTreeSet<u64>,
        runs: &[Run],
        cursor: &mut Cursor,
        pace: &mut Pace,
    ) -> Stop {
        match caches {
            None => self.play_in(&mut Off, huge, runs, cursor, pace),
            Some(caches) => self.play_in(caches, huge, runs, cursor, pace),
        }
    }

    /// Plays runs as [`play`](Self::play) does, through `translation`. `huge` holds the blocks under one entry.
    ///
    /// Without translation caches and premapped memory, on a processor that sets accessed bits, this is `play` itself.
    #[inline]
    pub(crate) fn play_in<T: Translation>(
        &mut self,
        translation: &mut T,
        huge: &BTreeSet<u64>,
        runs: &[Run],
        cursor: &mut Cursor,
        pace: &mut Pace,
    ) -> Stop {
        debug_assert!(cursor.run <= runs.len(), "the cursor is one of this batch");
        if T::OFF && self.is_plain() {
            return self.play(runs, cursor, pace);
        }
        loop {
            if T::OFF
                && !self.extension.kind.by_fault
                && !cursor.thought
                && let Some(premapped) = &mut self.extension.premapped
            {
                cursor.run += premapped.touch_singles(&runs[cursor.run..], pace);
            }
            let Some(&run) = runs.get(cursor.run) else { return Stop::Done };
            if pace.now_ns >= pace.until_ns {
                return Stop::TimeUp;
            }
            if !cursor.thought {
                pace.now_ns += u64::from(run.think_ns);
                cursor.thought = true;
            }
            if run.channel() == Channel::FileDescriptor {
                return Stop::Descriptor;
            }
            while cursor.page < run.pages {
                if pace.now_ns >= pace.until_ns {
                    return Stop::TimeUp;
                }
                let page = run.page() + u64::from(cursor.page);
                let left = u64::from(run.pages - cursor.page);
                let done = if T::OFF && !self.extension.kind.by_fault {
                    let affordable = match pace.page_ns {
                        0 => u64::MAX,
                        page_ns => (pace.until_ns - pace.now_ns).div_ceil(page_ns),
                    };
                    self.touch_premapped_or_page(page, left.min(affordable), run.is_write())
                } else {
                    self.touch_translated(translation, huge, page, run.is_write())
                };
                match done {
                    Ok(pages) => {
                        cursor.page += pages;
                        // Premapped memory is in the fastest memory, and has no bits.
                        let class = if self.extension.classes.is_some() { self.class_at(page) } else { 0 };
                        pace.pay(u64::from(pages), class);
                    }
                    Err(stop) => return stop,
                }
            }
            *cursor = Cursor { run: cursor.run + 1, ..Cursor::default() };
        }
    }

    /// Touches up to `wanted` pages of premapped memory, or one page elsewhere; returns their number.
    #[inline]
    fn touch_premapped_or_page(&mut self, page: u64, wanted: u64, write: bool) -> Result<u32, Stop> {
        if let Some(premapped) = &mut self.extension.premapped {
            let touched = premapped.touch(page, wanted);
            debug_assert!(touched <= wanted, "no more is touched than was asked for");
            if touched > 0 {
                return Ok(touched as u32);
            }
        }
        self.touch_one(page, write).map(|()| 1)
    }

    /// Touches one page and sets the bits of the words that its walk reads.
    #[inline]
    fn touch_translated<T: Translation>(
        &mut self,
        translation: &mut T,
        huge: &BTreeSet<u64>,
        page: u64,
        write: bool,
    ) -> Result<u32, Stop> {
        if let Some(premapped) = &mut self.extension.premapped
            && let Some(leaf) = premapped.leaf_level(page)
        {
            let reads = translation.walk(page, || leaf);
            premapped.mark(page, reads);
            return Ok(1);
        }
        let fault = Stop::Fault { page, need: if write { Need::Write } else { Need::Read } };
        let slot = *self.directory.get((page >> CHUNK_SHIFT) as usize).ok_or(fault)?;
        let Some(chunk) = self.chunks.get_mut((slot as usize).wrapping_sub(1)) else { return Err(fault) };
        let within = (page & super::CHUNK_MASK) as usize;
        let (group, bit) = (&mut chunk.groups[within / 64], 1u64 << (within % 64));
        if self.extension.kind.by_fault && group[ACCESSED] & bit == 0 {
            return Err(fault);
        }
        if write {
            let stores = &mut chunk.stores[within / 64];
            if stores[WRITABLE] & bit == 0 {
                return Err(fault);
            }
            // The kernel flushes whenever it clears a dirty bit, so that a store always finds its way to the entry.
            debug_assert!(group[PRESENT] & bit != 0, "a writable page is present");
            stores[DIRTY] |= bit;
        } else if group[PRESENT] & bit == 0 {
            return Err(fault);
        }
        let is_huge = || !huge.is_empty() && huge.contains(&(page >> Level::PMD.span_shift()));
        let reads = translation.walk(page, || if is_huge() { Level::PMD } else { Level::LEAF });
        if reads != Reads::NONE {
            // Reclaim goes by the base entries of a huge page: they represent its one bit.
            group[ACCESSED] |= bit;
            chunk.upper.read(within, reads);
        }
        Ok(1)
    }
}
