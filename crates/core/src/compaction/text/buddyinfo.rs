//! `/proc/buddyinfo`: a row per zone that has memory, free blocks by order, all migrate types together. Pages on per-CPU lists
//! are not in it. The kernel takes no lock for it, so that a row may be torn a little.

use super::TextError;
use super::line::{self, Words};
use crate::compaction::FreeBlocks;

/// The free blocks of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneBlocks {
    /// Number of the NUMA node.
    pub node: u32,
    /// Name of the zone: `DMA`, `DMA32`, `Normal`, `HighMem`, `Movable` or `Device`.
    pub zone: String,
    /// Free blocks by order, from order 0.
    pub blocks: FreeBlocks,
}

/// Reads `/proc/buddyinfo`. Zones in the order of the text.
///
/// # Errors
/// The first line that is wrong.
pub fn parse_buddyinfo(text: &str) -> Result<Vec<ZoneBlocks>, TextError> {
    let mut zones: Vec<ZoneBlocks> = Vec::new();
    let mut orders = None;
    for (number, text) in line::lines(text)? {
        let mut words = Words::new(number, text);
        let node = words.node()?;
        let zone = words.name("zone", false)?;
        let (counts, is_at_least) = words.numbers()?;
        if is_at_least {
            return Err(words.unexpected("plain numbers"));
        }
        let blocks = line::blocks(number, &counts, &mut orders)?;
        if zones.iter().any(|other| other.node == node && other.zone == zone) {
            return Err(TextError::Twice { line: number, what: format!("node {node}, zone {zone}") });
        }
        zones.push(ZoneBlocks { node, zone, blocks });
    }
    if zones.is_empty() { Err(TextError::Empty) } else { Ok(zones) }
}
