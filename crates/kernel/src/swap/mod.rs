//! Swap: slots, their contents, and the device behind them.

mod config;
pub mod device;
mod slots;

pub use config::{BadDevice, DeviceConfig, DeviceNumbers};
pub use slots::{SlotId, Slots};
