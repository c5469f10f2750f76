//! Page traces on disk: which pages each thread of a program touched, epoch by epoch. Reader, writer, importers, exporters, analyses, cuts
//! and merges. [Region records](region): results of a monitor. [Group records](group): the kernel's data on a cgroup over time.
//!
//! The formats are described in `docs/mechanism/formats.md` and `docs/mechanism/formats.md#region-records`. Everything streams: no function
//! holds a whole trace unless its comment tells that.

pub mod analysis;
pub mod edit;
mod epoch;
mod error;
pub mod export;
mod file;
mod fold;
#[doc(hidden)]
pub mod fuzzing;
pub mod group;
pub mod import;
mod meta;
mod reader;
pub mod region;
mod row;
mod rows;
pub mod sample;
mod writer;

pub use epoch::EpochFilter;
pub use error::{Result, TraceError};
pub use file::foreign::{no_text, text_of};
pub use file::temporary::{remove_unfinished_files, write_in_one_step};
pub use meta::{
    Clock, ClockKind, Event, EventKind, FORMAT_VERSION, Fraction, MapKind, MapRange, NativeRun, PageCacheRange,
    ProcessMeta, ThreadMeta, TraceMeta,
};
pub use reader::TraceReader;
pub use row::{BATCH_ROWS, PAGE_LIMIT, PageRun, RowBatch, TraceRow};
pub use rows::TraceRows;
pub use writer::{TraceWriter, finish_stream};
