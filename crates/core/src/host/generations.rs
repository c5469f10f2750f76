//! Generations: features and answers of a host.

use super::HostError;
use crate::vocabulary::{Ageing, Eviction, Listing};

/// Reads, ages and evicts the generations of the Multi-Gen LRU. Calls that a host does not implement answer "not here".
pub trait Generational {
    /// Features of this host for generations.
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        GenerationCapabilities { missing: Some(NO_GENERATIONS), ..GenerationCapabilities::default() }
    }

    /// Appends the generations of all groups on all nodes with memory, in the order of `lru_gen`.
    ///
    /// # Errors
    /// [`HostError::NotHere`], [`HostError::Failed`]; nothing was appended.
    fn read_generations(&mut self, _out: &mut Vec<Listing>) -> Result<(), HostError> {
        Err(HostError::NotHere(NO_GENERATIONS))
    }

    /// Makes a generation of each group that is named. Appends one answer per order: done, or failed with the text of the
    /// kernel's refusal.
    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        answers.extend(orders.iter().map(|_| Answer::NotHere(NO_GENERATIONS)));
    }

    /// Evicts generations. Appends one answer per order: done, when no requested page is left or the limit was reached; partly,
    /// when pages stayed; failed with the text of the kernel's refusal.
    fn evict_generations(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        answers.extend(orders.iter().map(|_| Answer::NotHere(NO_GENERATIONS)));
    }
}

/// Features of a host for the generations of the Multi-Gen LRU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationCapabilities {
    /// Whether [`Generational::read_generations`] works here.
    pub read: bool,
    /// Whether [`Generational::age_generations`] works here.
    pub age: bool,
    /// Whether [`Generational::evict_generations`] works here.
    pub evict: bool,
    /// Features that the host would need for the rest, as text.
    pub missing: Option<&'static str>,
}

/// The answer to one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done {
        /// Bytes freed; 0 for orders that free nothing.
        bytes: u64,
    },
    /// It was carried out in part.
    Partly {
        /// Bytes that were freed.
        bytes: u64,
    },
    /// This host has no such call; the text names the feature that it would need.
    NotHere(&'static str),
    /// It was tried and refused, with the cause; nothing changed.
    Failed(String),
}

/// The answer of a host without generations.
pub(super) const NO_GENERATIONS: &str = "needs mglru: the Multi-Gen LRU, switched on, and its file `lru_gen`";
