//! Swap: slots, what they hold, and the device behind them.

pub mod device;
mod slots;

pub use slots::{Slot, SlotId, Slots};
