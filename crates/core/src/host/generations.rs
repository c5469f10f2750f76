//! Generations: what a host can do with them, and how it answers.

/// What a host can do with the generations of the Multi-Gen LRU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationCapabilities {
    /// [`Host::read_generations`](super::Host::read_generations) is there.
    pub read: bool,
    /// [`Host::age_generations`](super::Host::age_generations) is there.
    pub age: bool,
    /// [`Host::evict_generations`](super::Host::evict_generations) is there.
    pub evict: bool,
    /// What would have to be there for the rest, in words.
    pub missing: Option<&'static str>,
}

/// What came of one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All of it was done.
    Done {
        /// Bytes freed; 0 for orders that free nothing.
        bytes: u64,
    },
    /// It was carried out, and something is left.
    Partly {
        /// Bytes freed.
        bytes: u64,
    },
    /// This host has no such call, and what it would need.
    NotHere(&'static str),
    /// It was tried and refused, with the cause; nothing changed.
    Failed(String),
}

/// What a host without generations says.
pub(super) const NO_GENERATIONS: &str = "needs mglru: the Multi-Gen LRU, switched on, and its file `lru_gen`";
