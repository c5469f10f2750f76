//! `memory.stat` of a cgroup: bytes by kind, and events.

use super::{Counters, parsed};
use crate::{LiveError, Root};
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

/// Bytes of one kind (`anon`, `file`), by node number.
pub type KindByNode = (String, Vec<(u32, u64)>);

/// What `memory.numa_stat` says: of each kind, bytes by node.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read_by_node(root: &Root, folder: &Path) -> Result<Vec<KindByNode>, LiveError> {
    parsed(root, folder.join("memory.numa_stat"), parse_by_node)
}

/// Parses lines of `anon N0=4096 N1=0`.
///
/// # Errors
/// The line that is none.
pub fn parse_by_node(text: &str) -> Result<Vec<KindByNode>, String> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let cell = |word: &str| {
            let (node, bytes) = word.strip_prefix('N')?.split_once('=')?;
            Some((node.parse().ok()?, bytes.parse().ok()?))
        };
        Some((name, words.map(cell).collect::<Option<Vec<_>>>()?))
    };
    let rows = text.lines().filter(|line| !line.trim().is_empty());
    rows.map(|line| row(line).ok_or_else(|| super::quoted(line))).collect()
}
