//! Swap: slots, what they hold, and the device behind them.

mod config;
pub mod device;
mod slots;

pub use config::{BadDevice, DeviceConfig, DeviceNumbers};
pub use slots::{Slot, SlotId, Slots};
