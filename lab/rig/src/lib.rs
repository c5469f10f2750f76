//! The real-kernel rig: boots a Linux kernel in a virtual machine, plays a page script in it, and returns the kernel's counters.
//!
//! Kernels come from the system's package manager into a folder of their own ([`packages`]); the virtual machine is QEMU's
//! software emulation ([`vm`]), so that it needs no privileges and no particular processor. Times are meaningless under emulation, so
//! only counts are compared. Use and limits: `docs/evidence/fidelity.md#the-rig`.

mod at_hand;
mod error;
mod file_system;
mod flatten;
mod initramfs;
mod modules;
pub mod packages;
mod programs;
mod run;
mod series;
mod vm;

pub use at_hand::AtHand;
pub use error::RigError;
pub use file_system::{FILE_SYSTEMS, FileSystem};
pub use flatten::script_of;
pub use isotherm_guest::job::{self, Job, Observation, Report, Task};
pub use isotherm_guest::script::{self, Script};
pub use isotherm_guest::{living, patterns, pricing};
pub use packages::{KERNELS, Kernel, KernelEntry};
pub use programs::HostProgram;
pub use run::{Extra, Extras, Run, RunResult, guest_program};
pub use series::{CutSeries, SeriesOutcome, SeriesPlay};
pub use vm::{Clock, Machine};
