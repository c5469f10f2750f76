//! Progress of replays on the terminal, and the way to end them early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use isotherm_scenario::Progress;
use signal_hook::SigId;
use signal_hook::consts::SIGINT;

use crate::ui::Ui;

/// A bar that counts runs.
pub struct BarProgress {
    bar: ProgressBar,
    interrupt: Option<Interrupt>,
}

/// Ctrl-C, once: end early with the results so far. A second Ctrl-C ends the process as usual.
struct Interrupt {
    is_stopped: Arc<AtomicBool>,
    is_told: AtomicBool,
    handlers: Vec<SigId>,
}

impl BarProgress {
    /// An empty bar; `what` is its prefix.
    pub fn new(ui: &Ui, what: &str) -> Self {
        Self { bar: ui.progress(what, 0), interrupt: None }
    }

    /// An empty bar of work that Ctrl-C ends early, with the results so far.
    pub fn interruptible(ui: &Ui, what: &str) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        // In this order: the first signal sets the flag, the second finds it set.
        let handlers = [
            signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&is_stopped)),
            signal_hook::flag::register(SIGINT, Arc::clone(&is_stopped)),
        ];
        let handlers = handlers.into_iter().filter_map(Result::ok).collect();
        let interrupt = Interrupt { is_stopped, is_told: AtomicBool::new(false), handlers };
        Self { bar: ui.work(what), interrupt: Some(interrupt) }
    }

    /// A bar over `total` small steps, such as rows; `what` is its prefix.
    pub fn of(ui: &Ui, what: &str, total: u64) -> Self {
        Self { bar: ui.progress(what, total), interrupt: None }
    }

    /// Advances by `steps`.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for BarProgress {
    fn planned(&self, work: u64) {
        self.bar.inc_length(work);
    }
    fn done(&self, work: u64) {
        self.bar.inc(work);
    }
    fn is_stopped(&self) -> bool {
        let Some(interrupt) = &self.interrupt else { return false };
        let is_stopped = interrupt.is_stopped.load(Ordering::Relaxed);
        if is_stopped && !interrupt.is_told.swap(true, Ordering::Relaxed) {
            self.bar.set_message("interrupted; waiting for replays under way (Ctrl-C again ends at once)");
        }
        is_stopped
    }
}

impl Drop for BarProgress {
    fn drop(&mut self) {
        for handler in self.interrupt.iter().flat_map(|interrupt| &interrupt.handlers) {
            signal_hook::low_level::unregister(*handler);
        }
    }
}
