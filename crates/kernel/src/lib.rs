//! The simulated kernel: page tables, frames, faults, reclaim, swap, cgroups, pressure. No I/O, no clock, no floats, no unsafe.
//!
//! [`Memory`](memory::Memory) is the state, a [`ReclaimPolicy`](reclaim::ReclaimPolicy) decides which page goes. Who touches the pages
//! and when is not known here: the crate above, `isotherm-sim`, moves the clock and plays programs.

pub mod cgroup;
pub mod compaction;
pub mod costs;
pub mod counters;
pub mod fault;
pub mod lean;
pub mod memory;
pub mod migrate;
pub mod mmu;
pub mod pressure;
pub mod prices;
pub mod readahead;
pub mod reclaim;
pub mod swap;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod tick;
