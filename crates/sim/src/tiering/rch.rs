//! `rch`: rotating cursor and region heat, ours.

use super::{MemoryView, Mover, TieringPolicy};
use isotherm_core::promotion::Mode;

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "rch",
    summary: "rotating cursor and region heat: hot regions first, all of a space in a minute",
    mover: Mover::Scan(Mode::Rch),
    memory: MemoryView::AsItIs,
};
