//! `/proc/buddyinfo`: free blocks of each zone by order.

use super::{parsed, quoted};
use crate::{LiveError, Root};
use isotherm_core::host::NodeId;
use isotherm_core::vocabulary::FreeBlocks;

/// Free blocks of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneBlocks {
    pub node: NodeId,
    /// `DMA32`, `Normal`.
    pub zone: String,
    /// Of all migrate types together.
    pub blocks: FreeBlocks,
}

/// Reads the zones that have memory, in the order of the file.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<Vec<ZoneBlocks>, LiveError> {
    parsed(root, "/proc/buddyinfo", parse)
}

/// Parses the text of the file.
///
/// # Errors
/// The line that is not understood.
pub fn parse(text: &str) -> Result<Vec<ZoneBlocks>, String> {
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| row(line).ok_or_else(|| quoted(line))).collect()
}

fn row(line: &str) -> Option<ZoneBlocks> {
    let (node, rest) = line.trim().strip_prefix("Node")?.split_once(',')?;
    let mut words = rest.trim_start().strip_prefix("zone")?.split_whitespace();
    let zone = words.next()?.to_owned();
    let counts = words.map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
    Some(ZoneBlocks { node: NodeId(node.trim().parse().ok()?), zone, blocks: FreeBlocks::new(&counts).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_a_line() {
        let zones = parse("Node 0, zone    DMA32      2      2      4 \nNode 1, zone   Normal      0      1      0 \n")
            .unwrap();
        assert_eq!((zones[0].zone.as_str(), zones[0].blocks.pages(), zones[1].node), ("DMA32", 2 + 4 + 16, NodeId(1)));
        for text in ["Node 0", "Node 0, zone", "Node 0, zone DMA", "Node 0, zone DMA x", "Node x, zone DMA 1"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&format!("Node 0, zone DMA {}", u64::MAX)).is_err(), "more memory than there can be");
    }
}
