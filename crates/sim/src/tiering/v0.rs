//! `v0`: the scan daemon of the original series.

use super::{MemoryView, Mover, TieringPolicy};
use isotherm_core::promotion::Mode;

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "v0",
    summary: "kmmscand as first published: first access promotes, one thread, one node",
    mover: Mover::Scan(Mode::V0),
    memory: MemoryView::AsItIs,
};
