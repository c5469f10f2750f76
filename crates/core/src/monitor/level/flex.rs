//! `flex`: like `ptp`, but an entry may reach out of the region by a bounded share (docs/spec/page-table-profiling.md#s5-3).
//!
//! It converges faster, and errs at edges: accesses of neighbours in the part outside count for the region. A cold region next to a hot one
//! is wrong in at most two entries of its length. The tolerances of the published variant are not known; ours are settings (`leaks`), and
//! their defaults our own choice. No tolerance is exactly `ptp`.

use super::{StrategyEntry, pick, place_as_drawn};
use crate::host::Level;

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "flex",
    summary: "like ptp, with entries that may reach out of the region by a bounded share",
    probes_upper: true,
    walks_down: false,
    smallest: Level::LEAF,
    pick: pick::tolerant,
    place: place_as_drawn,
};
