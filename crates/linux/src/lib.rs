//! Live Linux: the Host of `isotherm-core` over a running kernel. Each source has a file. Everything is read and written below one
//! [`Root`], so trees of files can test it. System calls are in one module. There is no policy and no loop.
//!
//! Specifications: `docs/spec/live.md`, `docs/spec/live-linux.md`.

pub mod cgroup;
mod clear_refs;
mod clock;
pub mod counters;
pub mod damon;
pub mod doctor;
mod error;
pub mod found;
mod host;
pub mod knobs;
pub mod lru_gen;
mod maps;
mod module;
mod pagemap;
mod process;
mod release;
mod reverse_map;
mod root;
mod smaps;
mod stalls;
mod sys;
pub mod systemd;
mod workers;

pub use clear_refs::{ClearRefs, ClearedPages, Referenced, sweep_interval};
pub use clock::{Stopwatch, Wake, Waker, own_cpu_time, page_bytes, process_cpu_time, thread_cpu_time};
pub use error::LiveError;
pub use host::{LiveHost, LiveTarget, free_zones};
pub use maps::{Mapping, maps};
pub use module::{Bitmap, Look, Module, ScanResult};
pub use pagemap::{Categories, PageRegion, PagemapEntry, pagemap, pagemap_scan};
pub use process::{Changes, Family, Life, Member, Process, Running, Victim, largest, running, user_number, victim};
pub use release::kernel_version;
pub use root::Root;
pub use smaps::{SmapsArea, VmFlags, smaps};
pub use stalls::{GroupStall, group_stalls};
pub use sys::OwnMapping;
pub use workers::Workers;
