//! Physical memory: frames and their owners, free memory per node, page cache, intrusive lists.

pub mod buddy;
mod chain;
mod check;
mod file_requests;
mod files;
mod folios;
mod frames;
mod ground_truth;
mod io;
mod kernel_pages;
mod latency;
mod list;
mod marks;
mod node;
mod release;
mod setup;
mod shadow_nodes;
mod shootdown;
mod store;
mod tiers;
mod warm;
pub mod watermarks;
mod zone;

pub use chain::{Chain, ListEnd, ReadAhead};
pub use files::{CachePage, FileId, FileMapping, Files, SimFile};
pub(crate) use folios::FolioMapper;
pub use folios::{FOLIO_ORDER_MAX, FileSystem};
pub use frames::{Flag, Flags, FrameId, Frames, PageOwner};
pub use ground_truth::{GroundTruth, Used};
pub use io::{Completion, Io, Written};
pub use kernel_pages::KernelPages;
pub use latency::{CLASSES_MAX, LatencyClasses};
pub use list::List;
pub use node::{NoBlock, Node, NodeId, Nodes};
pub use release::{KernelRelease, UnknownRelease};
pub use setup::MemorySetup;
pub use store::{Ledger, Mapper, Mappers, Memory, MemoryConfig};
pub use tiers::{
    DRAM_ADISTANCE, DemotionTargets, LOCAL_DISTANCE, NodeSetup, Performance, REMOTE_DISTANCE, TieringSetup, Tiers,
    UNKNOWN_ADISTANCE, adistance, tier_of,
};
pub(crate) use warm::Warm;
pub use zone::{Mark, Zone};
