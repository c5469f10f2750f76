//! Writes to the knobs of a machine, and restores them.
//!
//! Each change is recorded in the [journal](Journal) first. So after a power cut, `kill -9` or a full disk at any moment,
//! everything can be restored (docs/spec/live.md#6-state-on-disk).

mod change;
mod error;
mod journal;
mod knob_table;
mod line;
mod protected;
#[cfg(test)]
mod tests;
mod unit;

pub use change::{Changed, JournaledKnobs, KnobStore, Restored, Returned};
pub use error::{KnobError, NotRestored, Refusal};
pub use journal::{Journal, JournalError, Store};
pub use line::{Open, is_rounded, same_value};
pub use protected::{is_protected_name, protected, protected_command};
pub use unit::{DropIns, UnitKnob, is_unit, parts, shown};
