//! The hands: what writes to a machine, and takes back what it wrote.
//!
//! Whoever changes a knob says so in the [journal](Journal) first. So a power cut, `kill -9` or a full disk at any moment leaves
//! behind what is needed to put everything back (docs/spec/live.md#6-state-on-disk).

mod change;
mod journal;
mod protected;
#[cfg(test)]
mod tests;

pub use change::{Changed, Hands, Refusal, Returned, Taken};
pub use journal::{Journal, JournalError, Open, Store, is_rounded, same_value};
pub use protected::{protected, protected_command};
