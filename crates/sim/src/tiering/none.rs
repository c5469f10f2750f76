//! `none`: pages stay where they were first put.

use super::{MemoryView, Mover, TieringPolicy};

pub(super) const ENTRY: TieringPolicy =
    TieringPolicy { name: "none", summary: "nobody moves pages", mover: Mover::Nobody, memory: MemoryView::AsItIs };
