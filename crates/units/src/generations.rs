//! The contents of `lru_gen`: the generations of a group on a node.

use crate::NodeId;
use serde::{Deserialize, Serialize};

/// The generations of one memory cgroup on one node, as commands name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lruvec {
    /// Number of the group: the number that `lru_gen` prints.
    pub memcg: u64,
    pub node: NodeId,
}

/// One generation. Sizes are pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationRow {
    /// Sequence number of the generation; younger generations have larger numbers.
    pub seq: u64,
    /// Milliseconds since the generation was made.
    pub age_ms: u64,
    /// Anonymous pages of the generation; `file_pages` are its pages of files.
    pub anon_pages: u64,
    pub file_pages: u64,
}

impl GenerationRow {
    /// Anonymous pages and pages of files together.
    pub const fn pages(&self) -> u64 {
        self.anon_pages.saturating_add(self.file_pages)
    }
}

/// Data read of one group on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub lruvec: Lruvec,
    /// Path of the group; `/` is the root.
    pub path: String,
    /// Generations, oldest first, numbers ascending by one.
    pub rows: Vec<GenerationRow>,
}
