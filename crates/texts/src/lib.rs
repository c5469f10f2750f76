//! The kernel's texts: each file of `/proc`, `/sys` and debugfs as a type. `parse` makes the type of the text, `write` the text
//! of the type where it is needed. No I/O: callers open the files.
//!
//! Nothing that differs between kernels is assumed: how many orders, which zones, which counters in which order. Text that is
//! cut short, mixed up or too large is refused, and the error quotes it.

#[cfg(test)]
mod bad_input;
pub mod buddyinfo;
pub mod cgroup;
mod counters;
pub mod cpu_time;
pub mod damon;
mod error;
pub mod free_text;
mod line;
pub mod lru_gen;
pub mod maps;
pub mod meminfo;
pub mod min_ttl;
pub mod numa_stat;
pub mod numbers;
pub mod pagetypeinfo;
pub mod pressure;
pub mod smaps;
pub mod stat;
pub mod swaps;
#[cfg(test)]
mod tests;
pub mod zoneinfo;

pub use counters::Counters;
pub use error::{Strange, TextError, shortened};
