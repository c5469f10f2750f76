//! `v1`: patch version 1.

use super::{MemoryView, Mover, TieringPolicy};
use isotherm_core::promotion::Mode;

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "v1",
    summary: "kmmscand, patch version 1: a migration thread, no node below its high watermark",
    mover: Mover::Scan(Mode::V1),
    memory: MemoryView::AsItIs,
};
