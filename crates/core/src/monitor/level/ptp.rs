//! `ptp`: page-table-level profiling. The highest entry inside the region on the way to a random address represents the
//! region.
//!
//! Source: "mm/DAMON: Profiling enhancements" of 2023 and 2024 and its reviews (docs/spec/page-table-profiling.md#s2 to #s4). Finds hot
//! parts of a thousandth in tens of samples. It reports a whole entry as accessed for one touched page, so regions must shrink before their
//! counts are meaningful. A region that has shrunk below an upper entry is sampled by the page again and may seem to cool. Regions may
//! become as small as a page here, as in the patches; `ptp-aligned` does better.

use super::{StrategyEntry, pick, place_as_drawn};
use crate::host::Level;

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "ptp",
    summary: "the highest page-table entry inside the region stands for it",
    probes_upper: true,
    walks_down: false,
    smallest: Level::LEAF,
    pick: pick::bounded,
    place: place_as_drawn,
};
