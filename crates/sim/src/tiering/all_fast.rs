//! `all-fast`: a bound: what would be if all memory were fast.

use super::{MemoryView, Mover, TieringPolicy};

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "all-fast",
    summary: "bound: all memory as fast as the fastest",
    mover: Mover::Nobody,
    memory: MemoryView::AllFast,
};
