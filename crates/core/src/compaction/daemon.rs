//! A design at work on a node as a daemon.

use super::{DefragError, Defragmenter, Design, Tally};
use crate::daemon::{Account, Daemon, DaemonError, Report};
use crate::host::{Compacting, NodeId};
use isotherm_units::Instant;

/// A design at work on a node, with what it did.
#[derive(Debug)]
pub struct DefragDaemon {
    design: Design,
    running: Box<dyn Defragmenter + Send>,
    tally: Tally,
}

impl DefragDaemon {
    /// `design` at work on a node from `now` on.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn start(design: &Design, node: NodeId, now: Instant) -> Result<Self, DefragError> {
        Ok(Self { design: design.clone(), running: design.start(node, now)?, tally: Tally::default() })
    }
}

impl<H: Compacting> Daemon<H> for DefragDaemon {
    fn poll_timeout(&self, _worker: usize) -> Option<Instant> {
        self.running.poll_timeout()
    }

    fn handle_timeout(&mut self, _worker: usize, now: Instant, host: &mut H) -> Result<Report, DaemonError> {
        match self.running.handle_timeout(now, host) {
            Ok(activity) => {
                self.tally.note(&activity);
                Ok(Report::Defrag(Box::new(activity)))
            }
            Err(refusal) => {
                self.tally.note_refusal(&refusal);
                Err(refusal.into())
            }
        }
    }

    fn account(&self) -> Account {
        Account::Defrag(self.tally.clone())
    }

    fn words(&self) -> Vec<String> {
        self.tally.words(&self.design)
    }
}
