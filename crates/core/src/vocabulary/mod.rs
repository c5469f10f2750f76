//! What the core and its hosts talk about: addresses, actions, page filters, metrics, free blocks, generations. Data and tables; what is
//! decided with them lies in the features.

mod action;
mod address;
mod destination;
mod filter_type;
mod free_blocks;
mod listing;
mod lru_gen_command;
mod metric;
mod page_filters;
mod scan_filter;
mod zone;

pub use action::{ACTIONS, Action, ActionEntry, Scorer};
pub use address::{AddressRange, Level, NodeId, Probe, ProbeResult, Seen, TargetId, UnitRange};
pub use destination::{Destination, choose, interleave_index};
pub use filter_type::{FILTER_TYPES, FilterEntry, FilterType, Layer};
pub use free_blocks::{BlocksError, FreeBlocks, HUGE_ORDER, MAX_FREE_PAGES, MAX_ORDERS, node_score, weighted_score};
pub use listing::{GenerationRow, Listing, Lruvec, cold_pages, pages_of, working_set_pages};
pub use lru_gen_command::{Ageing, Eviction, SWAPPINESS_MAX, Swappiness};
pub use metric::{METRICS, Metric, MetricEntry};
pub use page_filters::{PageFilter, PageFilters, PageTest};
pub use scan_filter::{Bit, Flow, NodeTally, PageMarks, PageRule, Run, ScanFilter, ScannedPage};
pub use zone::{BlockUse, Marks};

pub(crate) use free_blocks::ORDERS;
#[cfg(test)]
pub(crate) use free_blocks::tests as blocks_tests;
