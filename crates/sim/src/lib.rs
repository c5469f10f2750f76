//! The simulated machine: page tables, frames, reclaim, swap, cgroups, pressure. No I/O.
