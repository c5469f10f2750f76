//! `numa-mode-2`: NUMA balancing for tiers.

use super::{MemoryView, Mover, TieringPolicy};
use isotherm_core::promotion::hint_fault::Balancing;

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "numa-mode-2",
    summary: "NUMA balancing, mode 2: pages that fault soon after they were marked",
    mover: Mover::HintFaults(Balancing::Tiering),
    memory: MemoryView::AsItIs,
};
