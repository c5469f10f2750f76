//! Parts of traces, and traces put together.
//!
//! A [`Selection`] says which part of a page trace is meant: a window of trace time, threads, addresses, mappings. A
//! [`TracePart`] is that part as a trace of its own: analyses read it as they read a file, and [`write_part`] makes a file of
//! it, so that a report of a window and a report of the cut file are the same. [`merge()`] puts several traces into one.
//! Everything streams, with the memory of the mappings and events. What happens to state that began before a window is told in
//! `docs/mechanism/formats.md#cut-filter-merge`. For region records: [`crate::region::write_selected`], [`crate::region::merge_records`].

mod merge;
mod part;
mod plan;
mod selection;
mod sieve;
mod standing;
mod steps;

pub use merge::merge;
pub use part::{TracePart, write_part};
pub use selection::{Access, AddressRange, Moment, Selection};
pub(crate) use selection::{joined, window_ns};
