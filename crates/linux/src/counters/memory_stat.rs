//! `memory.stat` of a cgroup: bytes by kind, and events.

use super::{Counters, parsed};
use crate::{LiveError, Root};
use isotherm_texts::numa_stat::{self, KindByNode};
use std::path::Path;

/// Reads the counters of the group in `folder`, a path below the root. Sizes are bytes; refaults, faults and scans are events in pages.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root, folder: &Path) -> Result<Counters, LiveError> {
    parsed(root, folder.join("memory.stat"), Counters::parse)
}

/// Reads `memory.events` of the same group: how many times it reached its limits.
///
/// # Errors
/// As of [`read`].
pub fn read_events(root: &Root, folder: &Path) -> Result<Counters, LiveError> {
    parsed(root, folder.join("memory.events"), Counters::parse)
}

/// Reads `memory.numa_stat`: bytes of each kind by node.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read_by_node(root: &Root, folder: &Path) -> Result<Vec<KindByNode>, LiveError> {
    parsed(root, folder.join("memory.numa_stat"), numa_stat::parse)
}
