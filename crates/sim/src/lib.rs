//! The simulated machine: threads, programs, tiers of memory and virtual time around the simulated kernel. No I/O, no floats, no unsafe.
//!
//! `isotherm-kernel` below has memory and the policies that reclaim it; [`machine`] moves the clock and plays programs, [`host`] lets
//! the engines of `isotherm-core` probe and change its memory.

pub mod host;
pub mod machine;
pub mod tiering;
