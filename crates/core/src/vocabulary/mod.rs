//! Types shared by the core and its hosts: addresses, actions, page filters, metrics, free blocks, generations. Data and tables;
//! the features decide with them.

mod action;
mod address;
mod destination;
mod filter_type;
mod listing;
mod lru_gen_command;
mod metric;
mod node_score;
mod page_filters;
mod scan_filter;
mod zone;

pub use action::{ACTIONS, Action, ActionEntry, Scorer};
pub use address::{Level, Probe, ProbeResult, Seen, TargetId};
pub use destination::{Destination, choose, interleave_index};
pub use filter_type::{FILTER_TYPES, FilterEntry, FilterType, Layer};
pub use isotherm_units::free_blocks::{BlocksError, FreeBlocks, HUGE_ORDER, MAX_FREE_PAGES, MAX_ORDERS};
pub use isotherm_units::{AddressRange, NodeId, UnitRange};
pub use listing::{GenerationRow, Listing, Lruvec, cold_pages, pages_of, working_set_pages};
pub use lru_gen_command::{Ageing, Eviction, SWAPPINESS_MAX, Swappiness};
pub use metric::{METRICS, Metric, MetricEntry};
pub use node_score::{node_score, weighted_score};
pub use page_filters::{PageFilter, PageFilters, PageTest};
pub use scan_filter::{Bit, Flow, NodeTally, PageMarks, PageRule, Run, ScanFilter, ScannedPage};
pub use zone::{BlockUse, Marks};

pub(crate) use isotherm_units::free_blocks::ORDERS;

/// Rows of free blocks that tests share.
#[cfg(test)]
pub(crate) mod blocks_tests {
    use super::FreeBlocks;

    pub(crate) fn blocks(row: &[u64]) -> FreeBlocks {
        let mut counts = [0; 11];
        counts[..row.len()].copy_from_slice(row);
        FreeBlocks::new(&counts).expect("orders and pages in range")
    }

    /// The original fragmenter on `sections` of 2 MiB: the first 384 pages of each freed.
    pub(crate) fn contig(sections: u64) -> FreeBlocks {
        blocks(&[0, 0, 0, 0, 0, 0, 0, sections, sections])
    }

    /// The same, every fourth page kept.
    pub(crate) fn stride(sections: u64) -> FreeBlocks {
        blocks(&[128 * sections, 128 * sections])
    }
}
