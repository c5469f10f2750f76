//! The working-set size: number of distinct pages touched in each window of trace time.

use serde::Serialize;

use super::{Entry, Limit, TraceStep, WordTable, walk};
use crate::{Result, TraceError, TraceRows};

/// Working-set sizes over time. Pages are in units of the trace's page size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkingSet {
    /// Length of a window, nanoseconds of trace time.
    pub window_ns: u64,
    /// Windows from 0 on without gaps; the last one may be cut short by the end.
    pub windows: Vec<WssWindow>,
    /// Percentiles of the windows' sizes, ascending.
    pub percentiles: Vec<WssPercentile>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WssWindow {
    /// Start of the window, nanoseconds of trace time.
    pub start_ns: u64,
    /// Number of distinct pages touched in the window.
    pub pages: u64,
    /// Pages among them that were written in the window.
    pub written_pages: u64,
    /// Pages touched by all rows of the window, summed.
    pub accesses: u64,
}

/// One percentile by nearest rank: this share of the windows has at most this many pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WssPercentile {
    /// The percentile, 0 to 100.
    pub percent: u8,
    /// Working-set size in pages.
    pub pages: u64,
}

/// Most windows.
const WINDOWS_MAX: u64 = 1 << 20;
const PERCENTS: [u8; 9] = [0, 1, 10, 25, 50, 75, 90, 99, 100];

/// One pass over the trace; memory grows with the footprint (half a byte a page). A window shorter than the trace's epoch is meaningless:
/// rows carry the start time of their epoch.
///
/// # Errors
/// When the window is 0 or shorter than an epoch or makes more than 2^20 windows, or the trace is damaged or touches too many
/// pages.
pub fn wss(reader: &mut dyn TraceRows, window_ns: u64) -> Result<WorkingSet> {
    let epoch_ns = reader.meta().epoch_ns;
    if window_ns == 0 || window_ns < epoch_ns {
        let what = format!("is {window_ns} ns; allowed: from the trace's epoch of {} ns on", epoch_ns.max(1));
        return Err(TraceError::option("window", what));
    }
    let limit = Limit::new(reader, Entry::GROUP);
    let mut groups = WordTable::of(reader.meta());
    let mut seen: Vec<Seen> = Vec::new();
    let mut windows: Vec<WssWindow> = Vec::new();
    let duration_ns = walk(reader, |step| {
        let TraceStep::Rows(rows) = step else { return Ok(()) };
        let index = window_index(rows.time_ns, window_ns)?;
        fill(&mut windows, index, window_ns);
        let window = &mut windows[index as usize];
        window.accesses += rows.accesses();
        for ((start, end), &write) in rows.ranges().zip(rows.write()) {
            limit.admit(&groups, &rows, start, end)?;
            groups.for_each_word(rows.process, start, end, |number, bits| {
                let number = number as usize;
                if number == seen.len() {
                    seen.push(Seen::default());
                }
                seen[number].count(window, index, bits, write);
            });
        }
        Ok(())
    })?;
    // Time after the last row still counts as windows without accesses.
    let last = window_index(duration_ns.saturating_sub(1), window_ns)?;
    fill(&mut windows, last, window_ns);
    Ok(WorkingSet { window_ns, percentiles: percentiles(&windows), windows })
}

/// Touched pages, out of 64, in the last window that touched them.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    touched: u64,
    written: u64,
    /// Index of that window; words of an older window count as empty.
    window: u32,
}

impl Seen {
    /// Counts touches of pages `bits` in the window of `index`.
    #[inline]
    fn count(&mut self, window: &mut WssWindow, index: u32, bits: u64, write: bool) {
        if self.window != index {
            *self = Self { touched: 0, written: 0, window: index };
        }
        let written = if write { bits } else { 0 };
        window.pages += number_of(bits & !self.touched);
        window.written_pages += number_of(written & !self.written);
        self.touched |= bits;
        self.written |= written;
    }
}

/// Number of set bits of a word, which seldom has more than one.
#[inline]
fn number_of(bits: u64) -> u64 {
    if bits & bits.wrapping_sub(1) == 0 { u64::from(bits != 0) } else { u64::from(bits.count_ones()) }
}

fn window_index(time_ns: u64, window_ns: u64) -> Result<u32> {
    let index = time_ns / window_ns;
    if index >= WINDOWS_MAX {
        let what = format!("of {window_ns} ns makes more than {WINDOWS_MAX} windows; take a longer one");
        return Err(TraceError::option("window", what));
    }
    Ok(u32::try_from(index).expect("checked to be small"))
}

fn fill(windows: &mut Vec<WssWindow>, index: u32, window_ns: u64) {
    while windows.len() <= index as usize {
        windows.push(WssWindow { start_ns: windows.len() as u64 * window_ns, ..WssWindow::default() });
    }
}

fn percentiles(windows: &[WssWindow]) -> Vec<WssPercentile> {
    let mut sizes: Vec<u64> = windows.iter().map(|window| window.pages).collect();
    sizes.sort_unstable();
    let at = |percent: u8| {
        let rank = (sizes.len() * usize::from(percent)).div_ceil(100).max(1);
        WssPercentile { percent, pages: sizes.get(rank - 1).copied().unwrap_or(0) }
    };
    PERCENTS.into_iter().map(at).collect()
}
