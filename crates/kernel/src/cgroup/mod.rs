//! Control groups: who pays for which page, and limits on it (cgroup v2 memory controller).

pub mod high;
mod limit;
pub mod proactive;
pub mod protection;
mod tree;

pub use limit::Limit;
pub use tree::{Cgroup, CgroupId, Cgroups, Charge, Knob, MemoryEvents, OverLimit};
