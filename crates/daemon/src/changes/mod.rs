//! Writes to the knobs of a machine, and restores them.
//!
//! Each change is recorded in the [journal](Journal) first. So after a power cut, `kill -9` or a full disk at any moment,
//! everything can be restored (docs/spec/live.md#6-state-on-disk).

mod change;
mod error;
mod journal;
mod protected;
#[cfg(test)]
mod tests;

pub use change::{Changed, JournaledKnobs, KnobStore, Returned};
pub use error::{KnobError, NotRestored, Refusal};
pub use journal::{Journal, JournalError, Open, Store, is_rounded, same_value};
pub use protected::{protected, protected_command};
