//! `leaf`: plain DAMON. One random page represents its region.
//!
//! Good where regions are small or evenly used. In a region of hundreds of GiB with a small hot part nearly every sample
//! lands on a cold page, and the hot part is never found (docs/spec/page-table-profiling.md#s6-4).

use super::{StrategyEntry, place_as_drawn};
use crate::host::Level;

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "leaf",
    summary: "one random page stands for its region, as DAMON does",
    probes_upper: false,
    walks_down: false,
    smallest: Level::LEAF,
    pick: |_, _, _| Level::LEAF,
    place: place_as_drawn,
};
