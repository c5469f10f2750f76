//! `memory.stat` of a cgroup: bytes by kind, and events.

use super::{Counters, parsed};
use crate::{LiveError, Root};
use isotherm_texts::numa_stat::{self, KindByNode};
use std::path::Path;

/// Reads those of the group whose folder is given from the root on. Sizes are bytes; refaults, faults and scans are events in pages.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root, folder: &Path) -> Result<Counters, LiveError> {
    parsed(root, folder.join("memory.stat"), Counters::parse)
}

/// Reads `memory.events` of the same group: how often it met its limits.
///
/// # Errors
/// As of [`read`].
pub fn read_events(root: &Root, folder: &Path) -> Result<Counters, LiveError> {
    parsed(root, folder.join("memory.events"), Counters::parse)
}

/// What `memory.numa_stat` says: of each kind, bytes by node.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read_by_node(root: &Root, folder: &Path) -> Result<Vec<KindByNode>, LiveError> {
    parsed(root, folder.join("memory.numa_stat"), numa_stat::parse)
}
