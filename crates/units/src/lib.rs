//! Newtypes for the quantities of memory management (addresses, pages, nodes, free blocks, generations, sizes, times, ratios), their
//! parsing and printing; clock, budget and hashes; and the vocabulary in which a workload describes its accesses to a machine.
//!
//! Nothing here reads a clock or a file. All arithmetic is integer: equal input gives equal results on every machine.

pub mod access;
mod address;
mod budget;
mod clock;
mod forks;
pub mod free_blocks;
mod generations;
pub mod hash;
mod node;
mod page;
mod quantity;
pub mod random;
mod ratio;
mod runs;
mod size;
pub mod text;
mod time;
pub mod wildcard;

pub use address::{AddressRange, UnitRange};
pub use budget::{Budget, STRETCH_MAX};
pub use clock::{Clock, Meter, Woken};
pub use generations::{GenerationRow, Listing, Lruvec};
pub use node::NodeId;
pub use page::{PAGE_BYTES, PAGE_SHIFT, PageRange, Pages, VirtPage};
pub use quantity::UnitError;
pub use ratio::{Amount, Ratio};
pub use size::Bytes;
pub use time::{Duration, Instant};
