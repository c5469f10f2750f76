//! `isotherm report fragmentation`.

use std::io::Read;
use std::path::{Path, PathBuf};

use isotherm_core::compaction::{FreeBlocks, HUGE_ORDER, SpoilRate, estimated_yield, node_score, weighted_score};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_texts::free_text::FreeText;
use isotherm_texts::pagetypeinfo::ZoneTypes;
use isotherm_texts::zoneinfo::{self, Zone};
use serde::Serialize;

use super::output::{Outcome, json};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Show how far free memory is scattered: the kernel's indices, from /proc/buddyinfo or /proc/pagetypeinfo.
///
/// For each zone and order: extfrag, percent of free memory in blocks that are too small (the kernel's fragmentation score); the unusable
/// index, the same in per mille; and the fragmentation index, towards 0 where an allocation would fail for lack of memory, towards 1000 for
/// fragmentation, -1000 where it would not fail. Meaning of the figures: docs/mechanism/compaction.md#fragmentation.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Text of /proc/buddyinfo or /proc/pagetypeinfo (root only; it also counts movable memory separately); `-` reads standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Text of /proc/zoneinfo of the same machine: it gives the weights of the zones, which the score of a node needs.
    #[arg(long, value_name = "FILE")]
    zoneinfo: Option<PathBuf>,
    /// The order of the summary: 9 is a huge page of 2 MiB in pages of 4 KiB.
    #[arg(long, value_name = "ORDER", default_value_t = HUGE_ORDER)]
    order: u32,
    /// Write a page as one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  isotherm report fragmentation /proc/buddyinfo
  isotherm report fragmentation /proc/buddyinfo --zoneinfo /proc/zoneinfo
  isotherm report fragmentation /proc/buddyinfo --order 4 --format json
  sudo cat /proc/pagetypeinfo | isotherm report fragmentation -";

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let name = args.file.display();
    let text =
        FreeText::parse(&read(&args.file)?).map_err(|error| CliError::failed(error).while_doing(name.to_string()))?;
    let zoneinfo = match &args.zoneinfo {
        None => Vec::new(),
        Some(path) => {
            zoneinfo::parse(&read(path)?)
                .map_err(|error| CliError::failed(error).while_doing(path.display().to_string()))?
                .zones
        }
    };
    let report = Report::new(&text, &zoneinfo, args.order).map_err(CliError::usage)?;
    let outcome = Outcome {
        title: "Fragmentation of free memory".into(),
        drawing: None,
        tables: report.tables(),
        csv: &|| report.orders_table(),
        json: &|| json(&report),
        notes: report.notes(),
    };
    outcome.put_out_tables(args.html.as_deref(), args.format.format, ui)
}

/// The kernel's files are a few KiB; a larger file is not one of them.
const LARGEST: u64 = 16 << 20;

fn read(path: &Path) -> Result<String, CliError> {
    let what = || format!("cannot read `{}`", path.display());
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| CliError::failed(error).while_doing(what()))?)
    };
    let mut text = String::new();
    let read = source.take(LARGEST + 1).read_to_string(&mut text);
    read.map_err(|error| CliError::failed(error).while_doing(what()))?;
    if text.len() as u64 > LARGEST {
        let message = "it is larger than 16 MiB; give the text of /proc/buddyinfo or /proc/pagetypeinfo";
        return Err(CliError::failed(message).while_doing(what()));
    }
    Ok(text)
}

/// The whole result, as JSON has it.
#[derive(Debug, Serialize)]
struct Report {
    /// Order that the summary is about.
    order: u32,
    nodes: Vec<NodeRow>,
    zones: Vec<ZoneRow>,
}

#[derive(Debug, Serialize)]
struct NodeRow {
    node: u32,
    free_pages: u64,
    available_blocks: u64,
    /// The kernel's score, which is always of order 9; without zoneinfo it is not known.
    score: Option<u32>,
}

#[derive(Debug, Serialize)]
struct ZoneRow {
    node: u32,
    zone: String,
    free_pages: u64,
    free_blocks: u64,
    present_pages: Option<u64>,
    /// The zone's part in its node's score.
    weighted_score: Option<u32>,
    /// Page blocks of type Movable, and in them free pages that are scattered.
    movable_blocks: Option<u64>,
    /// Blocks of the huge order that compaction may free, estimated from page types only.
    estimated_yield: Option<u64>,
    /// The kernel stopped counting: the true number of free blocks is higher.
    is_at_least: bool,
    orders: Vec<OrderRow>,
}

#[derive(Debug, Serialize)]
struct OrderRow {
    order: u32,
    /// Free blocks of this very order.
    free_blocks: u64,
    /// Blocks of this order, together with those that splitting larger blocks would give.
    available_blocks: u64,
    extfrag_percent: u32,
    unusable_permille: u32,
    fragmentation_index_permille: i32,
}

impl OrderRow {
    fn new(blocks: &FreeBlocks, order: u32) -> Self {
        Self {
            order,
            free_blocks: blocks.counts()[order as usize],
            available_blocks: blocks.suitable(order),
            extfrag_percent: blocks.extfrag(order),
            unusable_permille: blocks.unusable(order),
            fragmentation_index_permille: blocks.fragmentation_index(order),
        }
    }
}

impl Report {
    fn new(text: &FreeText, zoneinfo: &[Zone], order: u32) -> Result<Self, String> {
        let zones: Vec<(u32, &str, FreeBlocks, Option<&ZoneTypes>)> = match text {
            FreeText::Buddyinfo(zones) => {
                zones.iter().map(|zone| (zone.node.0, zone.zone.as_str(), zone.blocks, None)).collect()
            }
            FreeText::PageTypes(types) => {
                types.zones.iter().map(|zone| (zone.node.0, zone.zone.as_str(), zone.blocks(), Some(zone))).collect()
            }
        };
        let largest = zones.iter().map(|(_, _, blocks, _)| blocks.orders()).min().unwrap_or(1) - 1;
        if order > largest {
            return Err(format!("--order is {order}; allowed: 0 to {largest}, the largest of this machine"));
        }
        let mut rows = Vec::new();
        for (node, zone, blocks, types) in zones {
            let info = zoneinfo.iter().find(|info| info.node.0 == node && info.name == zone);
            if info.is_none() && !zoneinfo.is_empty() {
                return Err(format!("--zoneinfo has no node {node}, zone {zone}; give that of the same machine"));
            }
            let node_present = zoneinfo.iter().filter(|info| info.node.0 == node).map(|info| info.present).sum();
            let score = |info: &Zone| weighted_score(blocks.extfrag(HUGE_ORDER), info.present, node_present);
            let movable = types.and_then(ZoneTypes::movable).map(|movable| movable.blocks);
            let of_type = |types: &ZoneTypes| {
                types.page_blocks.iter().find(|count| count.migrate_type == "Movable").map(|count| count.count)
            };
            rows.push(ZoneRow {
                node,
                zone: zone.to_owned(),
                free_pages: blocks.pages(),
                free_blocks: blocks.blocks(),
                present_pages: info.map(|info| info.present),
                weighted_score: info.map(score),
                movable_blocks: types.and_then(of_type),
                estimated_yield: movable.map(|movable| estimated_yield(&movable, SpoilRate::default().ppm())),
                is_at_least: types.is_some_and(ZoneTypes::is_at_least),
                orders: (0..blocks.orders()).map(|order| OrderRow::new(&blocks, order)).collect(),
            });
        }
        Ok(Self { order, nodes: nodes(&rows, order), zones: rows })
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.zones_table()];
        if self.nodes.iter().any(|node| node.score.is_some()) {
            tables.push(self.nodes_table());
        }
        tables.push(self.orders_table());
        tables
    }

    fn zones_table(&self) -> Table {
        let has_types = self.zones.iter().any(|zone| zone.estimated_yield.is_some());
        let mut columns = vec![
            Column::number("node", Unit::Count),
            Column::text("zone"),
            Column::number("free", Unit::Pages),
            Column::number("blocks", Unit::Count),
            Column::number("extfrag [%]", Unit::Count),
            Column::number("unusable [‰]", Unit::Count),
            Column::number("index [‰]", Unit::Count),
        ];
        if has_types {
            columns.push(Column::number("movable", Unit::Count));
            columns.push(Column::number("yield", Unit::Count));
        }
        let title = format!("Order {}: free blocks, and how far free memory is scattered", self.order);
        let mut table = Table::new(title, columns);
        for zone in &self.zones {
            let order = &zone.orders[self.order as usize];
            let mut row = vec![
                u64::from(zone.node).into(),
                zone.zone.as_str().into(),
                zone.free_pages.into(),
                order.available_blocks.into(),
                u64::from(order.extfrag_percent).into(),
                u64::from(order.unusable_permille).into(),
                Cell::Float(f64::from(order.fragmentation_index_permille)),
            ];
            if has_types {
                row.extend([zone.movable_blocks.into(), zone.estimated_yield.into()]);
            }
            table.push(row);
        }
        table
    }

    fn nodes_table(&self) -> Table {
        let columns = vec![Column::number("node", Unit::Count), Column::number("score", Unit::Count)];
        let mut table = Table::new("Score of nodes, order 9: compaction starts above 90 by default", columns);
        for node in &self.nodes {
            table.push(vec![u64::from(node.node).into(), node.score.map(u64::from).into()]);
        }
        table
    }

    fn orders_table(&self) -> Table {
        let columns = vec![
            Column::number("node", Unit::Count),
            Column::text("zone"),
            Column::number("order", Unit::Count),
            Column::number("free blocks", Unit::Count),
            Column::number("available blocks", Unit::Count),
            Column::number("extfrag percent", Unit::Count),
            Column::number("unusable permille", Unit::Count),
            Column::number("fragmentation index permille", Unit::Count),
        ];
        let mut table = Table::new("By order", columns);
        for zone in &self.zones {
            for row in &zone.orders {
                table.push(vec![
                    u64::from(zone.node).into(),
                    zone.zone.as_str().into(),
                    u64::from(row.order).into(),
                    row.free_blocks.into(),
                    row.available_blocks.into(),
                    u64::from(row.extfrag_percent).into(),
                    u64::from(row.unusable_permille).into(),
                    Cell::Float(f64::from(row.fragmentation_index_permille)),
                ]);
            }
        }
        table
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "extfrag is a share of free memory: it swings with reclaim as well as with layout. Look at blocks, too"
                .to_owned(),
        ];
        if self.zones.iter().any(|zone| zone.is_at_least) {
            notes
                .push("the kernel stopped counting a long list (`>`): indices of those zones are not exact".to_owned());
        }
        if self.zones.iter().any(|zone| zone.estimated_yield.is_some()) {
            notes
                .push("estimated yield: huge pages that compaction may free, if one block in ten is spoilt".to_owned());
        }
        notes
    }
}

fn nodes(zones: &[ZoneRow], order: u32) -> Vec<NodeRow> {
    let mut numbers: Vec<u32> = zones.iter().map(|zone| zone.node).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let of = |node: u32| zones.iter().filter(move |zone| zone.node == node);
    let row = |node: u32| {
        let scores: Option<Vec<(u32, u64)>> = of(node)
            .map(|zone| {
                let score = zone.orders.get(HUGE_ORDER as usize).map(|row| row.extfrag_percent);
                score.zip(zone.present_pages)
            })
            .collect();
        NodeRow {
            node,
            free_pages: of(node).map(|zone| zone.free_pages).sum(),
            available_blocks: of(node).map(|zone| zone.orders[order as usize].available_blocks).sum(),
            score: scores.map(|scores| node_score(&scores)),
        }
    };
    numbers.into_iter().map(row).collect()
}
