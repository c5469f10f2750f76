//! `numa-mode-1`: NUMA balancing as it was before tiers.

use super::{MemoryView, Mover, TieringPolicy};
use isotherm_core::promotion::hint_fault::Balancing;

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "numa-mode-1",
    summary: "NUMA balancing, mode 1: pages follow the threads that fault on them twice",
    mover: Mover::HintFaults(Balancing::Normal),
    memory: MemoryView::AsItIs,
};
