//! Progress of a scenario's runs.

use indicatif::ProgressBar;
use isotherm_scenario::Progress;

use crate::ui::Ui;

/// A progress bar for runs of a scenario.
pub struct BarProgress(ProgressBar);

impl BarProgress {
    /// An empty bar; `what` stands in front.
    pub fn new(ui: &Ui, what: &str) -> Self {
        Self(ui.progress(what, 0))
    }
    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for BarProgress {
    fn planned(&self, runs: u64) {
        self.0.inc_length(runs);
    }
    fn done(&self) {
        self.0.inc(1);
    }
}
