//! Analyses of a trace without a replay. Integers only; every result serialises.
//!
//! All analyses take accesses in the order of the file, and refuse traces that touch more pages than [`limit`] allows. A page is a virtual page of a process: a file page mapped by two
//! processes, or shared after a fork, counts once for each. *Trace time* is a thread's CPU time plus its sleeps plus the
//! trace time at which it was started; over all threads it never goes back. It is the time of a run on enough CPUs
//! without faults.

mod footprint;
mod heatmap;
mod hot;
mod huge;
mod idle;
mod info;
mod layout;
mod limit;
mod mrc;
mod pages;
mod sample;
mod stack;
mod walk;
mod words;
mod wss;

pub use footprint::{Footprint, check_for_replay, footprint, page_cache_pages};
pub use heatmap::{Band, Heatmap, HeatmapOptions, HeatmapRow, heatmap};
pub use hot::{Hot, HotMapping, HotRange, hot};
pub use huge::{HugeRanges, HugeStep, NotReported, huge_ranges};
pub use idle::{IDLE_MOMENTS_MAX, IdleAt, IdleMoment, idle};
pub use info::{Info, MappingInfo, ThreadInfo, info};
pub use mrc::{MissRatioCurve, MrcPoint, SampledPart, mrc, mrc_sampled};
pub use sample::{Sample, Sampling};
pub use wss::{WorkingSet, WssPercentile, WssWindow, wss};

pub(crate) use layout::Layout;
pub(crate) use limit::{Entry, Limit};
pub(crate) use pages::PageTable;
pub(crate) use walk::{Clock, TraceStep, walk};
pub(crate) use words::WordTable;

/// Parts per million of a whole, rounded down; 0 if the whole is 0.
pub(crate) fn share_ppm(part: u64, whole: u64) -> u64 {
    let ppm = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(ppm).unwrap_or(u64::MAX)
}
