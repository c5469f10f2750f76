//! `v3`: patch version 3.

use super::{MemoryView, Mover, TieringPolicy};
use isotherm_core::promotion::Mode;

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "v3",
    summary: "kscand, patch version 3: two accesses in a row, failures slow it down",
    mover: Mover::Scan(Mode::V3),
    memory: MemoryView::AsItIs,
};
