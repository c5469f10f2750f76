//! Whether recommendations of `isotherm advise` hold in real kernels.
//!
//! [`programs`] lists the recordings. [`play`] plays them in real kernels, at the sizes that [`wanted`] asks for, and keeps the
//! counters in a [`store`]. The result of a rule is an [`answer`]. [`judge`] compares answers and intervals with the stores,
//! and [`mod@calibrate`] finds the factors for widening intervals.

pub mod answer;
pub mod calibrate;
pub mod judge;
pub mod play;
pub mod predictions;
pub mod programs;
pub mod store;
pub mod wanted;

pub use answer::{Answer, Answers, Recommended};
pub use calibrate::{Calibration, Interval, calibrate};
pub use judge::{Coverage, Judged, coverage};
pub use play::{Jobs, play_wanted};
pub use predictions::{Prediction, Predictions};
pub use programs::{Listed, Program, Programs};
pub use store::{Boot, Key, Store, StoredPlay};
pub use wanted::Wanted;

use isotherm_units::Bytes;

/// Kernels by their names in the rig, each with its release: the name of its store, and what `--kernel` takes.
pub const KERNELS: &[(&str, &str)] = &[("7.2", "7.2"), ("6.12", "6.12")];

/// Memory of the guest, and size of its zram. Whole recordings need more than [`crate::simulate::MEMORY`]. All this memory lies below 4 GiB
/// (QEMU's q35 has no hole below 2816 MiB), so that there is one large zone, as in the comparison of counters.
pub const MEMORY: Bytes = Bytes::from_mib(2560);
