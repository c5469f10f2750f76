//! Group records: the generations and counters of one cgroup, or of the whole system, over time.
//!
//! [`GroupWriter`] records an Arrow IPC stream and turns it into Parquet at the end; [`GroupReader`] reads both, sample by
//! sample. The columns and the metadata: `docs/mechanism/formats.md#group-records`.

pub(crate) mod columns;
mod look;
mod meta;
mod reader;
mod writer;

pub use look::{Gauges, Generation, Look, LookKind};
pub use meta::{GROUP_VERSION, GroupMeta};
pub use reader::{GroupReader, is_group_record};
pub use writer::{GroupWriter, finish_group_record};
