//! Parts of traces, and traces put together.
//!
//! A [`Selection`] selects a part of a page trace: a window of trace time, threads, addresses, mappings. A [`TracePart`] is that part as
//! a separate trace: analyses read it like a file, and [`write_part`] writes it to a file, so that reports of a window and of the cut
//! file are equal. [`merge()`] merges several traces. Everything streams, with the memory of the mappings and events. The treatment of
//! state from before a window: `docs/mechanism/formats.md#cut-filter-merge`. For region records: [`crate::region::write_selected`],
//! [`crate::region::merge_records`].

mod current_mappings;
mod merge;
mod part;
mod plan;
mod selection;
mod sieve;
mod steps;

pub use merge::merge;
pub use part::{TracePart, write_part};
pub use selection::{Access, AddressRange, Moment, Selection};
pub(crate) use selection::{joined, window_ns};
