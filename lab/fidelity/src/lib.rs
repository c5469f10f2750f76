//! The simulated machine versus real kernels: the same page scripts in both, and the differences of the counters.
//!
//! A matrix of workloads, policies, limits and kernels ([`matrix`]) is played by real kernels ([`refresh`]), whose counters are
//! kept as data ([`stored`]), and by the simulated machine ([`simulate`], [`replay`]). The comparison ([`compare`]) needs the data
//! only and runs everywhere. Mechanisms other than page replacement are in [`versus`]. Results: `docs/evidence/fidelity.md`.

pub mod advice;
pub mod compare;
mod error;
pub mod folios;
pub mod matrix;
mod rank;
pub mod refresh;
mod replay;
pub mod simulate;
pub mod stored;
pub mod versus;

pub use compare::{Bar, Comparison, CounterRow};
pub use error::FidelityError;
pub use folios::Folios;
pub use matrix::{Cell, KERNELS, LIMITS_PERCENT, METRICS, POLICIES, Selection, Set, Workload, Workloads};
pub use refresh::Refresh;
pub use stored::{KernelData, StoredRun, write_whole};
