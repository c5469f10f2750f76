//! Workloads: the memory that a program touches, as accesses that a simulated machine plays.
//!
//! A [`WorkloadSpec`] is a workload as written in a scenario file; [`WorkloadSpec::build`] makes an [`isotherm_units::access::Program`]
//! from the spec. Generators are seeded: equal specs and seeds give equal accesses on every machine. A new kind of workload is one file and
//! one line in `spec.rs`.
//!
//! Usage of each kind: `docs/use/scenarios.md#workloads`.

mod abench;
mod application;
mod chance;
mod error;
mod extent;
mod far_chunk;
mod fragmenter;
mod hot_cold;
mod huge_pages;
mod idle;
mod kernel_memory;
pub mod key_value;
pub mod layout;
pub mod masim;
pub mod order;
mod phases;
mod registered;
pub mod replay;
mod scan;
mod sort;
mod spaces;
mod spec;
pub mod synthetic;
mod thpscale;

pub use abench::AbenchSpec;
pub use application::{ApplicationSpec, AreaSpec, StepSpec};
pub use error::WorkloadError;
pub use far_chunk::FarChunkSpec;
pub use fragmenter::{FragmenterSpec, Pattern};
pub use hot_cold::HotColdSpec;
pub use huge_pages::{Effort, HugePagesSpec};
pub use idle::IdleSpec;
pub use kernel_memory::KernelMemorySpec;
pub use key_value::KeyValueSpec;
pub use masim::MasimSpec;
pub use phases::PhasesSpec;
pub use registered::{Parameter, RegisteredSpec, RegisteredWorkloads, WorkloadMaker};
pub use replay::{TraceSpec, TraceStore};
pub use scan::ScanSpec;
pub use sort::SortSpec;
pub use spec::{Access, BuildContext, KINDS, KindEntry, Storage, WorkloadSpec, kind_named};
pub use thpscale::ThpscaleSpec;
