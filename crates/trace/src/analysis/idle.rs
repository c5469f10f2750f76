//! Idle age: time since the last touch of each page, at given times.

use super::{Clock, Entry, Limit, PageTable, TraceStep, walk};
use crate::{EventKind, Result, TraceError, TraceRows};

/// The moments at which idle ages are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleAt {
    /// Right after the last access, before the last process ends and its memory is freed.
    LastAccess,
    /// The moment at this trace time, after all earlier events.
    Time(u64),
    /// This number of moments at equal distances; the last moment is the last access.
    Spread(u32),
}

/// Pages by idle age at one moment. Only pages that had been touched and were still mapped count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleMoment {
    /// Trace time in nanoseconds.
    pub time_ns: u64,
    /// Pages touched less than one epoch ago; without epochs, pages touched at this very time.
    pub in_use_pages: u64,
    /// The other pages by age, in bins from each bound (included) to the next (excluded).
    pub idle_pages: Vec<u64>,
}

/// Most moments of [`IdleAt::Spread`]: each of them visits all pages.
pub const IDLE_MOMENTS_MAX: u32 = 10_000;

/// Two passes over the trace; memory grows with the footprint (13 to 120 bytes a page). `bounds_ns` are the lower bounds of
/// the bins in ascending order. The age of a page is the time since the start of the epoch of its last access.
///
/// # Errors
/// When the bounds do not begin with 0 or do not ascend, the time is beyond the trace's end, the moments are none or more than
/// [`IDLE_MOMENTS_MAX`], or the trace is damaged or touches too many pages.
pub fn idle(reader: &mut dyn TraceRows, at: IdleAt, bounds_ns: &[u64]) -> Result<Vec<IdleMoment>> {
    if bounds_ns.first() != Some(&0) || bounds_ns.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(TraceError::option("bounds", "are not ascending from 0 on".to_owned()));
    }
    let (mut rows, mut last_access_ns) = (0u64, 0);
    let duration_ns = walk(reader, |step| {
        if let TraceStep::Rows(some) = step {
            rows += some.len() as u64;
            last_access_ns = some.time_ns;
        }
        Ok(())
    })?;
    let moments_ns = match at {
        IdleAt::LastAccess => vec![last_access_ns],
        IdleAt::Time(time_ns) if time_ns <= duration_ns => vec![time_ns],
        IdleAt::Time(time_ns) => {
            let what = format!("is {time_ns} ns; allowed: from 0 to the end of what is read, {duration_ns} ns");
            return Err(TraceError::option("at", what));
        }
        IdleAt::Spread(count @ 1..=IDLE_MOMENTS_MAX) => spread(count, last_access_ns),
        IdleAt::Spread(count) => {
            return Err(TraceError::option("moments", format!("are {count}; allowed: 1 to {IDLE_MOMENTS_MAX}")));
        }
    };
    // A single time is used as given; the other moments come before the events after the last access.
    let before_the_end = !matches!(at, IdleAt::Time(_));
    let meta = reader.meta().clone();
    let limit = Limit::new(reader, Entry::PAGE);
    let mut clock = Clock::new(&meta);
    let mut ages = Ages { pages: PageTable::of(&meta), last_ns: Vec::new(), epoch_ns: meta.epoch_ns.max(1), bounds_ns };
    let mut waiting = moments_ns.iter().copied().peekable();
    let mut found = Vec::with_capacity(moments_ns.len());
    let mut rows_left = rows;
    walk(reader, |step| {
        match step {
            TraceStep::Rows(rows) => {
                let time_ns = clock.advance(rows.thread, rows.cpu_ns);
                while let Some(moment_ns) = waiting.next_if(|&moment_ns| moment_ns < time_ns) {
                    found.push(ages.at(moment_ns));
                }
                for (start, end) in rows.ranges() {
                    limit.admit(&ages.pages, &rows, start, end)?;
                    (start..end).for_each(|page| ages.touch(rows.process, page, time_ns));
                }
                rows_left -= rows.len() as u64;
                if rows_left == 0 && before_the_end {
                    found.extend(waiting.by_ref().map(|moment_ns| ages.at(moment_ns)));
                }
            }
            TraceStep::Event { event, process } => {
                let now_ns = clock.advance(event.thread, event.time_ns);
                while let Some(moment_ns) = waiting.next_if(|&moment_ns| moment_ns < now_ns) {
                    found.push(ages.at(moment_ns));
                }
                clock.see(&meta, event);
                match &event.kind {
                    EventKind::Map(map) => ages.forget(process, map.start, map.end),
                    EventKind::Unmap { start, end } => ages.forget(process, *start, *end),
                    _ => {}
                }
            }
            TraceStep::Exit { process } => ages.forget(process, 0, crate::PAGE_LIMIT),
        }
        Ok(())
    })?;
    found.extend(waiting.map(|moment_ns| ages.at(moment_ns)));
    Ok(found)
}

fn spread(count: u32, last_ns: u64) -> Vec<u64> {
    let nth = |n: u32| u128::from(last_ns) * u128::from(n) / u128::from(count);
    (1..=count).map(|n| u64::try_from(nth(n)).expect("at most the last access")).collect()
}

/// Mapped pages, with the time of their last access.
struct Ages<'a> {
    pages: PageTable,
    /// Time of the last access by page number; `None` once the page is unmapped.
    last_ns: Vec<Option<u64>>,
    epoch_ns: u64,
    bounds_ns: &'a [u64],
}

impl Ages<'_> {
    fn touch(&mut self, process: usize, page: u64, time_ns: u64) {
        let number = self.pages.insert(process, page) as usize;
        if number == self.last_ns.len() {
            self.last_ns.push(None);
        }
        self.last_ns[number] = Some(time_ns);
    }

    fn forget(&mut self, process: usize, start: u64, end: u64) {
        let Self { pages, last_ns, .. } = self;
        pages.for_each_in(process, start, end, |number| last_ns[number as usize] = None);
    }

    fn at(&self, time_ns: u64) -> IdleMoment {
        let mut moment = IdleMoment { time_ns, in_use_pages: 0, idle_pages: vec![0; self.bounds_ns.len()] };
        for last_ns in self.last_ns.iter().flatten() {
            let age_ns = time_ns.saturating_sub(*last_ns);
            if age_ns < self.epoch_ns {
                moment.in_use_pages += 1;
            } else {
                moment.idle_pages[self.bounds_ns.partition_point(|&bound_ns| bound_ns <= age_ns) - 1] += 1;
            }
        }
        moment
    }
}
