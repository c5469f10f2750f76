//! `v2`: patch version 2.

use super::{MemoryView, Mover, TieringPolicy};
use isotherm_core::promotion::Mode;

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "v2",
    summary: "kscand, patch version 2: lists by space, only active pages",
    mover: Mover::Scan(Mode::V2),
    memory: MemoryView::AsItIs,
};
