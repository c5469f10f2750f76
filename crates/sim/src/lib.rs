//! The simulated machine: page tables, frames, reclaim, swap, cgroups, pressure. No I/O, no clock, no floats, no unsafe.
//!
//! [`Memory`](memory::Memory) is the state, a [`ReclaimPolicy`](reclaim::ReclaimPolicy) decides which page goes,
//! [`machine`] moves the clock and plays programs.

pub mod cgroup;
pub mod compaction;
pub mod costs;
pub mod counters;
pub mod fault;
pub mod host;
pub mod machine;
pub mod memory;
pub mod migrate;
pub mod mmu;
pub mod pressure;
pub mod readahead;
pub mod reclaim;
pub mod swap;
#[cfg(any(test, feature = "conformance"))]
#[cfg_attr(
    not(test),
    allow(dead_code, unused_imports, unreachable_pub, reason = "the suite for policies needs a part of it")
)]
mod testkit;
pub mod tick;
pub mod tiering;
