//! `/proc/buddyinfo`: a row per zone that has memory, free blocks by order, all migrate types together. Pages on per-CPU lists
//! are not in it. The kernel takes no lock for it, so that a row may be torn a little.

use crate::TextError;
use crate::line::{self, Words};
use isotherm_units::NodeId;
use isotherm_units::free_blocks::FreeBlocks;
use std::fmt::Write as _;

/// The free blocks of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneBlocks {
    pub node: NodeId,
    /// Name of the zone: `DMA`, `DMA32`, `Normal`, `HighMem`, `Movable` or `Device`.
    pub zone: String,
    /// Free blocks by order, from order 0.
    pub blocks: FreeBlocks,
}

/// Reads `/proc/buddyinfo`. Zones in the order of the text.
///
/// # Errors
/// The first line that is wrong.
pub fn parse(text: &str) -> Result<Vec<ZoneBlocks>, TextError> {
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
            return Err(TextError::Twice { line: number, what: format!("node {}, zone {zone}", node.0) });
        }
        zones.push(ZoneBlocks { node, zone, blocks });
    }
    if zones.is_empty() { Err(TextError::Empty) } else { Ok(zones) }
}

/// Writes the text as the kernel does: numbers that are wider than their column move the rest of the row.
pub fn write(zones: &[ZoneBlocks]) -> String {
    let mut text = String::new();
    for ZoneBlocks { node, zone, blocks } in zones {
        let counts: String = blocks.counts().iter().map(|count| format!("{count:6} ")).collect();
        writeln!(text, "Node {}, zone {zone:>8} {counts}", node.0).expect("strings take all");
    }
    text
}
