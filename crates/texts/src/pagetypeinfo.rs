//! `/proc/pagetypeinfo`: free blocks by migrate type, and how many page blocks each type has. Only root can read it, and the kernel holds
//! the zones' locks while it counts: do not read it more often than every ten seconds.

use crate::TextError;
use crate::line::{self, Words};
use isotherm_units::NodeId;
use isotherm_units::free_blocks::{BlocksError, FreeBlocks, MAX_FREE_PAGES};

/// The contents of `/proc/pagetypeinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTypes {
    /// log2 of the pages of a page block.
    pub block_order: u32,
    /// The zones, in the order of the text.
    pub zones: Vec<ZoneTypes>,
}

/// A zone by migrate types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneTypes {
    pub node: NodeId,
    pub zone: String,
    /// Free blocks of each type, in the order of the text.
    pub free: Vec<TypeBlocks>,
    pub page_blocks: Vec<TypeCount>,
    /// Page blocks that hold pages of other types than their own; only kernels that track owners of pages report it.
    pub mixed_blocks: Option<Vec<TypeCount>>,
}

/// Free blocks of one migrate type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeBlocks {
    /// Name of the migrate type: `Unmovable`, `Movable`, `Reclaimable` and others.
    pub migrate_type: String,
    /// Free blocks by order, from order 0.
    pub blocks: FreeBlocks,
    /// The kernel stopped counting a long list: some counts are lower than they should be.
    pub is_at_least: bool,
}

/// A count for one migrate type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeCount {
    pub migrate_type: String,
    pub count: u64,
}

impl PageTypes {
    /// Free blocks of type `Movable` of a zone; `None` where they are not known or were not counted to the end.
    pub fn movable(&self, node: NodeId, zone: &str) -> Option<FreeBlocks> {
        let zone = self.zones.iter().find(|one| one.node == node && one.zone == zone)?;
        zone.movable().filter(|free| !free.is_at_least).map(|free| free.blocks)
    }
}

impl ZoneTypes {
    /// All types together, as `/proc/buddyinfo` has them.
    pub fn blocks(&self) -> FreeBlocks {
        let orders = self.free.iter().map(|free| free.blocks.counts().len()).max().unwrap_or(1);
        let mut counts = vec![0_u64; orders];
        for free in &self.free {
            for (sum, count) in counts.iter_mut().zip(free.blocks.counts()) {
                *sum += count;
            }
        }
        FreeBlocks::new(&counts).expect("checked when the text was read")
    }

    /// Free blocks of type `Movable`.
    pub fn movable(&self) -> Option<&TypeBlocks> {
        self.free.iter().find(|free| free.migrate_type == "Movable")
    }

    /// Whether counts are lower bounds somewhere.
    pub fn is_at_least(&self) -> bool {
        self.free.iter().any(|free| free.is_at_least)
    }
}

/// Reads `/proc/pagetypeinfo`. Types are taken by their names: their order differs between kernels, and some are not in all.
/// Each node has the whole of headings and tables to itself.
///
/// # Errors
/// The first wrong line, or the part that is missing at the end. A text that ends behind a node of several cannot be distinguished from a
/// whole one.
pub fn parse(text: &str) -> Result<PageTypes, TextError> {
    let lines = line::lines(text)?;
    let mut reader = Reader { lines: &lines, at: 0 };
    let block_order = reader.block_order()?;
    let mut zones = Vec::new();
    reader.tables(&mut zones)?;
    while reader.at < lines.len() {
        let (line, found) = lines[reader.at];
        if reader.block_order()? != block_order {
            return Err(line::unexpected(line, format!("block order {block_order}, as of the node before"), found));
        }
        reader.tables(&mut zones)?;
    }
    Ok(PageTypes { block_order, zones })
}

struct Reader<'a> {
    lines: &'a [(usize, &'a str)],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<Words<'a>> {
        self.lines.get(self.at).map(|&(number, text)| Words::new(number, text))
    }

    fn next(&mut self) -> Option<Words<'a>> {
        let words = self.peek();
        self.at += 1;
        words
    }

    /// A line of a heading and one number.
    fn heading(&mut self, heading: &str, is_allowed: impl Fn(&u64) -> bool) -> Result<u64, TextError> {
        let missing = || TextError::Missing { missing: format!("`{heading}`") };
        let mut words = self.next().ok_or_else(missing)?;
        let error = words.unexpected(format!("`{heading}` and a number"));
        if !words.takes(&heading.split(' ').collect::<Vec<_>>()) {
            return Err(error);
        }
        match words.numbers()? {
            (numbers, false) => numbers.first().copied().filter(is_allowed).filter(|_| numbers.len() == 1).ok_or(error),
            (_, true) => Err(error),
        }
    }

    /// log2 of the pages of a page block, which two lines give.
    fn block_order(&mut self) -> Result<u32, TextError> {
        let order = self.heading("Page block order:", |&order| order < u64::from(u64::BITS))?;
        let pages = self.heading("Pages per block:", |_| true)?;
        if pages != 1 << order {
            let (line, found) = self.lines[self.at - 1];
            return Err(line::unexpected(line, format!("2^{order} pages, as the line before says"), found));
        }
        Ok(u32::try_from(order).expect("below 64"))
    }

    /// The tables of a node, whose zones are put behind `zones`.
    fn tables(&mut self, zones: &mut Vec<ZoneTypes>) -> Result<(), TextError> {
        let first = zones.len();
        self.free_lists(zones)?;
        let zones = &mut zones[first..];
        if zones.is_empty() {
            return Err(TextError::Empty);
        }
        self.block_counts(&["Number", "of", "blocks", "type"], zones, |zone, counts| zone.page_blocks = counts)?;
        let mixed = ["Number", "of", "mixed", "blocks"];
        if self.peek().is_some_and(|mut words| words.takes(&mixed)) {
            self.block_counts(&mixed, zones, |zone, counts| zone.mixed_blocks = Some(counts))?;
        }
        Ok(())
    }

    /// The table of free blocks, up to the one behind it.
    fn free_lists(&mut self, zones: &mut Vec<ZoneTypes>) -> Result<(), TextError> {
        let title = "`Free pages count per migrate type at order`";
        let mut words = self.next().ok_or_else(|| TextError::Missing { missing: title.to_owned() })?;
        if !words.takes(&["Free", "pages", "count", "per", "migrate", "type", "at", "order"]) {
            return Err(words.unexpected(title));
        }
        let (orders, _) = words.numbers()?;
        if orders.is_empty() || !orders.iter().copied().eq(0..orders.len() as u64) {
            return Err(words.unexpected("orders 0, 1, 2 and so on"));
        }
        let mut orders = Some(orders.len());
        while let Some(mut words) = self.peek() {
            if words.takes(&["Number"]) {
                break;
            }
            self.at += 1;
            free_list(&mut words, &mut orders, zones)?;
        }
        Ok(())
    }

    /// A table of page blocks by type, with a row for each of `zones`.
    fn block_counts(
        &mut self,
        title: &[&str],
        zones: &mut [ZoneTypes],
        place: impl Fn(&mut ZoneTypes, Vec<TypeCount>),
    ) -> Result<(), TextError> {
        let shown = title.join(" ");
        let missing = |what: String| TextError::Missing { missing: what };
        let mut words = self.next().ok_or_else(|| missing(format!("`{shown}`")))?;
        if !words.takes(title) {
            return Err(words.unexpected(format!("`{shown}`")));
        }
        let types = words.names("migrate type")?;
        for zone in zones {
            let (node, name) = (zone.node, zone.zone.clone());
            let what = format!("node {}, zone {name} of `{shown}`", node.0);
            let mut words = self.next().ok_or_else(|| missing(what.clone()))?;
            let error = words.unexpected(what);
            if words.node()? != node || words.name("zone", false)? != name {
                return Err(error);
            }
            let (counts, is_at_least) = words.numbers()?;
            if counts.len() != types.len() || is_at_least {
                return Err(words.unexpected(format!("{} plain numbers", types.len())));
            }
            let counts = types.iter().cloned().zip(counts);
            place(zone, counts.map(|(migrate_type, count)| TypeCount { migrate_type, count }).collect());
        }
        Ok(())
    }
}

/// A row `Node 0, zone Normal, type Movable` with counts.
fn free_list(words: &mut Words<'_>, orders: &mut Option<usize>, zones: &mut Vec<ZoneTypes>) -> Result<(), TextError> {
    let line = words.line();
    let node = words.node()?;
    let zone = words.name("zone", true)?;
    if !words.takes(&["type"]) {
        return Err(words.unexpected("`type` and a migrate type behind the zone"));
    }
    let migrate_type = words.name("migrate type", false)?;
    let (counts, is_at_least) = words.numbers()?;
    let blocks = line::blocks(line, &counts, orders)?;
    let index = match zones.iter().position(|other| other.node == node && other.zone == zone) {
        Some(index) => index,
        None => {
            zones.push(ZoneTypes { node, zone, free: Vec::new(), page_blocks: Vec::new(), mixed_blocks: None });
            zones.len() - 1
        }
    };
    let zone = &mut zones[index];
    if zone.free.iter().any(|other| other.migrate_type == migrate_type) {
        let what = format!("node {}, zone {}, type {migrate_type}", node.0, zone.zone);
        return Err(TextError::Twice { line, what });
    }
    zone.free.push(TypeBlocks { migrate_type, blocks, is_at_least });
    let pages: u64 = zone.free.iter().map(|free| free.blocks.pages()).sum();
    if pages > MAX_FREE_PAGES {
        return Err(TextError::Blocks { line, source: BlocksError::TooMany });
    }
    Ok(())
}
