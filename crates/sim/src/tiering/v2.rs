//! `v2`: its third posting.

use super::{MemoryView, Mover, TieringPolicy};
use isotherm_core::promotion::Mode;

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "v2",
    summary: "kscand, third posting: lists by space, only active pages",
    mover: Mover::Scan(Mode::V2),
    memory: MemoryView::AsItIs,
};
