//! `all-slow`: a bound: what would be if all memory were slow.

use super::{MemoryView, Mover, TieringPolicy};

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "all-slow",
    summary: "bound: all memory as slow as the slowest",
    mover: Mover::Nobody,
    memory: MemoryView::AllSlow,
};
