//! Guests of the rig. One program, so that it is linked once.

use std::sync::Mutex;

mod guests;
mod module;
mod series;

/// Guests take turns: two at once would share the processors, and neither would end in time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
