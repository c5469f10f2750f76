//! Prices of this machine that user space can measure: faults, swapping, system calls. A simulated machine takes them in place of those of
//! the table of costs, which are those of a server on bare metal. Nothing is left behind, and no setting is changed.

mod disk;
mod faults;
mod file;
mod host;
mod memory;
mod pin;
mod price;
mod probes;
mod requests;
mod swap;
mod switch;

pub use disk::{READ, Storage, WRITTEN, storage};
pub use file::{Calibration, CalibrationError, VERSION};
pub use host::Host;
pub use price::{Measured, NAMES_BY_SWAP, SWAPPED_PAGE, prices};
pub use probes::{Unprivileged, unprivileged};
pub use swap::{PROBE_PAGES, Simulated, has_room, probe, simulated, swapping};
pub use switch::echo;
