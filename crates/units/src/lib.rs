//! Newtypes for what memory management counts (addresses, pages, sizes, times, ratios), their parsing and printing, and
//! the vocabulary in which a workload tells a machine what it touches.
//!
//! Nothing here reads a clock or a file. All arithmetic is integer: equal input gives equal results on every machine.

pub mod access;
mod forks;
mod page;
mod quantity;
mod ratio;
mod runs;
mod size;
mod time;
pub mod wildcard;

pub use page::{PAGE_BYTES, PAGE_SHIFT, PageRange, Pages, VirtPage};
pub use quantity::UnitError;
pub use ratio::{Amount, Ratio};
pub use size::Bytes;
pub use time::{Duration, Instant};
