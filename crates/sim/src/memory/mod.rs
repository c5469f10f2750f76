//! Physical memory: frames and who owns them, free memory per node, page cache, intrusive lists.

pub mod buddy;
mod chain;
mod check;
mod files;
mod frames;
mod io;
mod list;
mod marks;
mod node;
mod setup;
mod store;
mod warm;
pub mod watermarks;
mod witness;
mod zone;

pub use chain::{Chain, ListEnd};
pub use files::{CachePage, FileId, FileMapping, Files, SimFile};
pub use frames::{Flag, Flags, FrameId, Frames, PageOwner};
pub use io::{Completion, Io, Written};
pub use list::List;
pub use node::{NoBlock, Node, NodeId, Nodes};
pub use setup::MemorySetup;
pub use store::{Ledger, Mapper, Memory, MemoryConfig};
pub(crate) use warm::Warm;
pub use witness::{Used, Witness};
pub use zone::{Mark, Zone};
