//! Handles Ctrl-C on verbs that write files: no half-written file is left behind.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::error::CliError;

/// From here on, a signal that ends the process first removes the files that it is making. Meant for verbs that do not catch signals
/// otherwise.
pub(super) fn remove_on_signal() -> Result<(), CliError> {
    let ignored = ignored_signals();
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0));
    let mut signals = signals.map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            isotherm_trace::remove_unfinished_files();
            // The parent that waits for the process sees the signal.
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// Signals that the process ignores, for example under `nohup`: one bit each, lowest for signal 1. These must not end the process now.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
