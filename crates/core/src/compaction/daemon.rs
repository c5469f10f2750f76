//! A design at work on a node as a daemon.

use super::{Compactor, Design, Tally};
use crate::OutOfRange;
use crate::daemon::{Account, Daemon, DaemonError, Report};
use crate::host::{Compacting, NodeId};
use isotherm_units::Instant;

/// A design at work on a node, with counts of its work.
#[derive(Debug)]
pub struct CompactionDaemon {
    design: Design,
    running: Box<dyn Compactor + Send>,
    tally: Tally,
}

impl CompactionDaemon {
    /// `design` at work on a node from `now` on.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn start(design: &Design, node: NodeId, now: Instant) -> Result<Self, OutOfRange> {
        Ok(Self { design: design.clone(), running: design.start(node, now)?, tally: Tally::default() })
    }
}

impl<H: Compacting> Daemon<H> for CompactionDaemon {
    fn poll_timeout(&self, _worker: usize) -> Option<Instant> {
        self.running.poll_timeout()
    }

    fn handle_timeout(&mut self, _worker: usize, now: Instant, host: &mut H) -> Result<Report, DaemonError> {
        match self.running.handle_timeout(now, host) {
            Ok(activity) => {
                self.tally.note(&activity);
                Ok(Report::Compaction(Box::new(activity)))
            }
            Err(refusal) => {
                self.tally.note_refusal(&refusal);
                Err(refusal.into())
            }
        }
    }

    fn account(&self) -> Account {
        Account::Compaction(self.tally.clone())
    }

    fn words(&self) -> Vec<String> {
        self.tally.words(&self.design)
    }
}
