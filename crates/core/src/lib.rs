//! Decisions about memory, independent of the system they act on: which memory is hot, and the actions on it.
//!
//! Everything here is a state machine without I/O. A driver (the simulated machine, the live daemon, a test) asks for the time of the next
//! call, calls it with the time and a [`host`], and reads results. No clock, no files, no threads, no floats in decisions.

pub mod compaction;
pub mod daemon;
pub mod generations;
pub mod host;
pub mod limits;
pub mod monitor;
mod out_of_range;
pub mod presets;
pub mod promotion;
pub mod schemes;
pub mod vocabulary;

pub use out_of_range::OutOfRange;
