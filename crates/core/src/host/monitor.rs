//! What a host says it can do for monitors.

use super::Level;
use serde::{Deserialize, Serialize};

/// What a host can do. The core plans with it and never asks for more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// log2 of the bytes that an entry spans, from the base page up, ascending: `[12, 21, 30, 39]` for four levels on
    /// x86-64. Levels outside it do not exist.
    pub shifts: Vec<u8>,
    /// The highest level whose accessed bit means something: 0 where hardware sets no bits above the leaf, one below the
    /// top where user and kernel halves have separate top tables.
    pub highest_level: Level,
    /// [`Host::flush`](super::Host::flush) does something.
    pub flush: bool,
    /// [`Host::scan_children`](super::Host::scan_children) is there.
    pub scan_children: bool,
}

impl Capabilities {
    /// Bytes spanned by an entry at `level`; `None` above the top.
    pub fn span(&self, level: Level) -> Option<u128> {
        self.shifts.get(usize::from(level.0)).map(|shift| 1 << shift)
    }
}

/// A kind of page that an attribute probe may ask for (docs/spec/monitoring.md#s12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribute {
    /// Anonymous memory.
    Anon,
    /// Charged to this memory cgroup.
    Memcg(u64),
}
