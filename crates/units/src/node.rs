//! NUMA nodes.

use serde::{Deserialize, Serialize};

/// A NUMA node, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);
