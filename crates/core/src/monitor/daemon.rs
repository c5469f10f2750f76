//! A monitor as a daemon.

use super::Monitor;
use crate::daemon::{Account, Daemon, DaemonError, Report};
use crate::host::MonitorHost;
use crate::schemes::explain;
use isotherm_units::Instant;

impl<H: MonitorHost> Daemon<H> for Monitor {
    fn poll_timeout(&self, _worker: usize) -> Option<Instant> {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, _worker: usize, now: Instant, host: &mut H) -> Result<Report, DaemonError> {
        // What the host refuses costs a sample or an update, and is reported in the tick.
        Ok(Report::Monitor(self.handle_timeout(now, host)))
    }

    fn account(&self) -> Account {
        Account::Monitor(self.final_reports())
    }

    fn words(&self) -> Vec<String> {
        let reports = self.scheme_reports();
        self.config().schemes.iter().zip(&reports).flat_map(|(scheme, report)| explain(scheme, report)).collect()
    }
}
