//! The monitor of `isotherm-core` over the processes of a family, which start and end.

use std::collections::BTreeMap;

use isotherm_core::host::{TargetId, UnitRange};
use isotherm_core::monitor::MonitorConfig;
use isotherm_daemon::{Finding, Monitored, Source, SourceError};
use isotherm_linux::{Family, LiveHost, LiveTarget, Member, Process, Root};
use isotherm_units::{Duration, Instant};

use super::to_cli;
use crate::error::CliError;

/// Time between two updates of the family.
const FOLLOW: Duration = Duration::from_secs(1);

/// A monitor whose targets are the members of a family.
#[derive(Debug)]
pub(crate) struct Following {
    watched: Monitored<LiveHost>,
    root: Root,
    family: Family,
    known: BTreeMap<Member, TargetId>,
    next_number: u32,
    next_follow: Instant,
    /// Found before the first sample.
    pending: Vec<Finding>,
}

impl Following {
    /// Starts with the current members.
    pub(crate) fn start(
        config: MonitorConfig,
        ranges: &[UnitRange],
        seed: u64,
        mut host: LiveHost,
        root: &Root,
        mut family: Family,
        now: Instant,
    ) -> Result<Self, CliError> {
        let mut pending = Vec::new();
        let mut known = BTreeMap::new();
        let mut targets = Vec::new();
        let mut refusal = None;
        for member in family.update().map_err(to_cli)?.came {
            match Process::open(root, member.pid) {
                Ok(process) => {
                    let id = TargetId(u32::try_from(targets.len()).unwrap_or(u32::MAX));
                    pending.push(came(id.0, &process));
                    host.add(id, LiveTarget::Process(process));
                    targets.push((id, ranges.to_vec()));
                    known.insert(member, id);
                }
                Err(error) => refusal = Some(error),
            }
        }
        if targets.is_empty() {
            return Err(match refusal {
                Some(error) => to_cli(error),
                None => CliError::failed("there is no process to watch: the group is empty, or all have ended"),
            });
        }
        let next_number = u32::try_from(targets.len()).unwrap_or(u32::MAX);
        let watched = Monitored::start(config, seed, host, &targets, now).map_err(CliError::host_cannot)?;
        Ok(Self { watched, root: root.clone(), family, known, next_number, next_follow: now + FOLLOW, pending })
    }

    fn follow(&mut self, found: &mut Vec<Finding>) -> Result<(), SourceError> {
        let changes = self.family.update().map_err(|error| SourceError::Failed(Box::new(error)))?;
        for member in changes.went {
            if let Some(id) = self.known.remove(&member) {
                self.forget(id, found);
            }
        }
        // A process that runs another program now is another target.
        let replaced: Vec<Member> = self
            .known
            .iter()
            .filter(|(_, id)| !self.watched.host().is_as_added(**id))
            .map(|(member, _)| *member)
            .collect();
        for member in &replaced {
            if let Some(id) = self.known.remove(member) {
                self.forget(id, found);
            }
        }
        for member in changes.came.into_iter().chain(replaced) {
            // Ended already, or not readable for us: nothing to monitor.
            let Ok(process) = Process::open(&self.root, member.pid) else { continue };
            if process.start_time() != member.start_time {
                continue;
            }
            let id = TargetId(self.next_number);
            let words = came(id.0, &process);
            self.watched.host_mut().add(id, LiveTarget::Process(process));
            match self.watched.add_target(id, &[]) {
                Ok(_) => {
                    self.next_number += 1;
                    self.known.insert(member, id);
                    found.push(words);
                }
                Err(error) => found.push(Finding::Said(format!("process {} is not watched: {error}", member.pid))),
            }
        }
        Ok(())
    }

    fn forget(&mut self, id: TargetId, found: &mut Vec<Finding>) {
        // The monitor may have noticed already; then there is nothing to remove.
        if self.watched.monitor().targets().any(|target| target == id) {
            let _ = self.watched.remove_target(id);
        }
        self.watched.host_mut().remove(id);
        found.push(Finding::Went { target: id.0 });
    }
}

fn came(target: u32, process: &Process) -> Finding {
    Finding::Came { target, pid: Some(process.pid()), name: process.name().to_owned() }
}

impl Source for Following {
    fn poll_timeout(&self) -> Option<Instant> {
        self.watched.poll_timeout()
    }

    fn look(&mut self, now: Instant, found: &mut Vec<Finding>) -> Result<(), SourceError> {
        found.append(&mut self.pending);
        if now >= self.next_follow {
            self.next_follow = now + FOLLOW;
            self.follow(found)?;
        }
        self.watched.look(now, found)
    }

    fn stretch(&mut self, stretch: u32, now: Instant) -> Result<(), SourceError> {
        self.watched.stretch(stretch, now)
    }
}
