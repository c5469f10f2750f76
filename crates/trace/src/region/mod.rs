//! Region records: results of a monitor, snapshot by snapshot.
//!
//! [`RegionStore`] reads any supported format, distinguished by content; [`RegionWriter`] records in our own;
//! [`RecordFormat`] lists the formats that can be written. [`kdamonds`] reads and writes damo's configurations.
//! [`write_selected`] and [`merge_records`] cut, filter and merge. The formats, their limits, and replacements for
//! missing data: `docs/mechanism/formats.md#region-records`. Everything streams with the memory of one snapshot.

pub(crate) mod columns;
mod companion;
mod damo;
mod edit;
pub mod kdamonds;
mod meta;
mod reader;
mod snapshot;
mod store;
mod warning;
mod writer;

pub use edit::{RecordSelection, merge_records, record_span_ns, write_selected};
pub use meta::{ContextMeta, IntervalsGoal, RECORD_VERSION, RecordMeta, SnapshotStats, TargetMeta};
pub use reader::RegionReader;
pub use snapshot::{Intervals, PROBES_MAX, Region, SchemeStats, Snapshot};
pub use store::{OpenOptions, RecordForm, RecordFormat, RegionStore};
pub use warning::Warning;
pub use writer::{RegionWriter, finish_record};
