//! `/proc/pagetypeinfo`: free blocks of each zone by migrate type and order, and page blocks by type. For root only.

use super::{parsed, quoted};
use crate::{LiveError, Root};
use isotherm_core::host::NodeId;
use isotherm_core::vocabulary::{FreeBlocks, MAX_ORDERS};

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageTypes {
    /// log2 of the pages of a page block: 9 on x86-64.
    pub block_order: Option<u32>,
    /// Free blocks, a line a zone and type.
    pub free: Vec<TypeBlocks>,
    /// Page blocks by type, a line a zone.
    pub blocks: Vec<BlockCounts>,
}

/// Free blocks of one migrate type in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeBlocks {
    pub node: NodeId,
    pub zone: String,
    /// `Movable`, `Unmovable`, `Reclaimable`, and what the kernel adds.
    pub migrate_type: String,
    pub blocks: FreeBlocks,
    /// The kernel stopped to count some of them at 100,000: it wrote `>100000`.
    pub is_capped: bool,
}

/// Page blocks of a zone by migrate type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCounts {
    pub node: NodeId,
    pub zone: String,
    /// Type and number of page blocks, in the order of the file.
    pub counts: Vec<(String, u64)>,
}

impl PageTypes {
    /// Free blocks of type Movable of a zone; `None` where they are not known or were not counted to the end.
    pub fn movable(&self, node: NodeId, zone: &str) -> Option<FreeBlocks> {
        let is_it = |row: &&TypeBlocks| row.node == node && row.zone == zone && row.migrate_type == "Movable";
        self.free.iter().find(is_it).filter(|row| !row.is_capped).map(|row| row.blocks)
    }
}

/// Reads it.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<PageTypes, LiveError> {
    parsed(root, "/proc/pagetypeinfo", parse)
}

/// Parses the text of the file. Lines that are neither are passed over.
///
/// # Errors
/// The line that is not understood.
pub fn parse(text: &str) -> Result<PageTypes, String> {
    let mut found = PageTypes::default();
    let mut types: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(order) = line.strip_prefix("Page block order:") {
            found.block_order = Some(order.trim().parse().map_err(|_| quoted(line))?);
        } else if let Some(rest) = line.strip_prefix("Number of blocks type") {
            types = rest.split_whitespace().map(str::to_owned).collect();
        } else if line.starts_with("Node") {
            match row(line, &types).ok_or_else(|| quoted(line))? {
                Row::Free(row) => found.free.push(row),
                Row::Blocks(row) => found.blocks.push(row),
            }
        }
    }
    if found == PageTypes::default() { Err(quoted(text)) } else { Ok(found) }
}

enum Row {
    Free(TypeBlocks),
    Blocks(BlockCounts),
}

fn row(line: &str, types: &[String]) -> Option<Row> {
    let (node, rest) = line.strip_prefix("Node")?.split_once(',')?;
    let node = NodeId(node.trim().parse().ok()?);
    let rest = rest.trim_start().strip_prefix("zone")?;
    if let Some((zone, rest)) = rest.split_once(',') {
        let mut words = rest.trim_start().strip_prefix("type")?.split_whitespace();
        let (migrate_type, mut is_capped) = (words.next()?.to_owned(), false);
        let count = |word: &str| {
            is_capped |= word.starts_with('>');
            word.trim_start_matches('>').parse().ok()
        };
        let counts = words.take(MAX_ORDERS + 1).map(count).collect::<Option<Vec<u64>>>()?;
        let blocks = FreeBlocks::new(&counts).ok()?;
        return Some(Row::Free(TypeBlocks { node, zone: zone.trim().to_owned(), migrate_type, blocks, is_capped }));
    }
    let mut words = rest.split_whitespace();
    let zone = words.next()?.to_owned();
    let counts = words.map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
    // Without its head line, nobody knows what the numbers count.
    if counts.len() != types.len() || counts.is_empty() {
        return None;
    }
    Some(Row::Blocks(BlockCounts { node, zone, counts: types.iter().cloned().zip(counts).collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Page block order: 9\nPages per block:  512\n\n\
        Free pages count per migrate type at order       0      1      2 \n\
        Node    0, zone   Normal, type    Unmovable      1      0      0 \n\
        Node    0, zone   Normal, type      Movable      3      0      1 \n\
        Node    1, zone   Normal, type      Movable >100000      0      1 \n\n\
        Number of blocks type     Unmovable      Movable \n\
        Node 0, zone   Normal            5         7 \n";

    #[test]
    fn free_blocks_and_page_blocks_by_type() {
        let types = parse(TEXT).unwrap();
        assert_eq!((types.block_order, types.free.len()), (Some(9), 3));
        assert_eq!(types.movable(NodeId(0), "Normal").map(|blocks| blocks.pages()), Some(7));
        assert_eq!(types.movable(NodeId(1), "Normal"), None, "it was not counted to the end");
        assert_eq!(types.blocks[0].counts, [("Unmovable".to_owned(), 5), ("Movable".to_owned(), 7)]);
        for text in
            ["", "nothing", "Page block order: x", "Node 0, zone", "Node 0, zone Normal, type", "Node 0, zone Normal 1"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
