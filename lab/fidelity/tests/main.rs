//! The comparison with real kernels. One program, so that it is linked once.

use std::sync::Mutex;

mod comparison;
mod damaged;
mod refresh;
mod versus;

/// Guests take turns: two at once would share the processors, and neither would end in time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
