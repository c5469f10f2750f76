//! Signals of the recorder while the program runs: Ctrl-C belongs to the program, and the recording is finished after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};

use crate::sys;

/// Caught signals; restored on drop.
pub(crate) struct Signals {
    caught: Vec<(i32, Arc<AtomicBool>, SigId)>,
    /// SIGXFSZ, of a file at its largest allowed size (RLIMIT_FSIZE), would kill the recorder. If it is caught, the write fails with the
    /// cause. It is not ignored instead, because the program would inherit that.
    too_large: SigId,
    /// Whether a Ctrl-C reaches the program without our help.
    shares_terminal: bool,
}

impl Signals {
    pub(crate) fn catch() -> std::io::Result<Self> {
        let mut caught = Vec::new();
        for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
            let flag = Arc::new(AtomicBool::new(false));
            let id = signal_hook::flag::register(signal, Arc::clone(&flag))?;
            caught.push((signal, flag, id));
        }
        let too_large = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(Self { caught, too_large, shares_terminal: sys::shares_terminal() })
    }

    /// Forwards signals that arrived since the last call. Returns whether there were any.
    pub(crate) fn pass_on(&self, program: Option<u32>) -> bool {
        let mut any = false;
        for (signal, flag, _) in &self.caught {
            if !flag.swap(false, Ordering::Relaxed) {
                continue;
            }
            any = true;
            let from_terminal = self.shares_terminal && matches!(*signal, SIGINT | SIGQUIT);
            if let Some(pid) = program.filter(|_| !from_terminal) {
                sys::send_signal(pid, *signal);
            }
        }
        any
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (_, _, id) in &self.caught {
            signal_hook::low_level::unregister(*id);
        }
        signal_hook::low_level::unregister(self.too_large);
    }
}
