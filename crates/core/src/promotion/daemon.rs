//! The scan daemon as a daemon with two workers, the scanning and the moving thread.

use super::{Promotion, Thread};
use crate::daemon::{Account, Control, Daemon, DaemonError, Report};
use crate::host::{PromotionHost, TargetId};
use isotherm_units::Instant;

/// Workers by their number.
const WORKERS: [Thread; 2] = [Thread::Scan, Thread::Migrate];

impl<H: PromotionHost> Daemon<H> for Promotion {
    fn nr_workers(&self) -> usize {
        WORKERS.len()
    }

    fn poll_timeout(&self, worker: usize) -> Option<Instant> {
        self.poll_timeout(WORKERS[worker])
    }

    fn handle_timeout(&mut self, worker: usize, now: Instant, host: &mut H) -> Result<Report, DaemonError> {
        // What the host refuses ends a scan or a move, and is counted.
        Ok(Report::Promotion(self.handle_timeout(WORKERS[worker], now, host)))
    }

    fn enter(&mut self, space: TargetId, parent: Option<TargetId>, now: Instant) {
        let entered = self.enter(space, parent, now);
        debug_assert!(entered.is_ok(), "each space comes once");
    }

    fn exit(&mut self, space: TargetId) {
        self.exit(space);
    }

    fn control(&mut self, control: &Control<'_>, now: Instant) -> Result<(), String> {
        let changed = match *control {
            Control::Knob { name, text } => self.set_knob(name, text, now),
            Control::Scale { space, scale } => self.set_scale(space, scale),
            Control::Goal { .. } => return Err("it has no goals".to_owned()),
        };
        changed.map_err(|error| error.to_string())
    }

    fn account(&self) -> Account {
        Account::Promotion(Box::new(self.counters().clone()))
    }

    fn words(&self) -> Vec<String> {
        let reported = self.counters().rows().into_iter().filter(|&(_, count)| count > 0);
        reported.map(|(name, count)| format!("{name} {count}")).collect()
    }
}
