//! One trait for every part that wakes up, measures and acts: monitors with their schemes, tools over generations, designs of proactive
//! compaction, promotion.
//!
//! A [`Daemon`] reports when it wants to run, runs with a [host](crate::host), and reports its work. The driver (the simulated machine, the
//! live loop, a test) brings time and host, sleeps in between, and books the cost of a run. A new daemon is one file that implements the
//! trait, and one line of the table below.

use crate::host::{HostError, TargetId};
use crate::{compaction, generations, limits, monitor, promotion, schemes};
use isotherm_units::Instant;
use std::error::Error;
use std::fmt;

/// A daemon that needs the host `H`.
///
/// It has one worker or several, which share its state; a driver may give each a thread of its own. Workers are numbered from 0.
pub trait Daemon<H: ?Sized> {
    /// How many workers it has. Does not change.
    fn nr_workers(&self) -> usize {
        1
    }

    /// When a worker wants to run next; a time that has passed means at once. `None`: only after another event; for the only worker of a
    /// daemon, never again.
    fn poll_timeout(&self, worker: usize) -> Option<Instant>;

    /// Does the next piece of work of a worker that is due at `now`. Early calls do nothing; after a long sleep it runs once.
    ///
    /// # Errors
    /// [`DaemonError::Refused`]: it goes on all the same. [`DaemonError::Failed`]: it cannot go on.
    fn handle_timeout(&mut self, worker: usize, now: Instant, host: &mut H) -> Result<Report, DaemonError>;

    /// A space has come, by exec, or by fork from `parent`. Only for daemons that go over all spaces; others have fixed targets.
    fn enter(&mut self, space: TargetId, parent: Option<TargetId>, now: Instant) {
        let _ = (space, parent, now);
    }

    /// A space has ended.
    fn exit(&mut self, space: TargetId) {
        let _ = space;
    }

    /// Changes a control while it runs.
    ///
    /// # Errors
    /// It has no such control, or the value is not allowed: the reason as text; then nothing has changed.
    fn control(&mut self, control: &Control<'_>, now: Instant) -> Result<(), String> {
        let (_, _) = (control, now);
        Err("it has no controls".to_owned())
    }

    /// Counts of its work so far.
    fn account(&self) -> Account;

    /// The counts as text, with the reasons that held it back.
    fn words(&self) -> Vec<String>;
}

/// Changes that a running daemon can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// A file of the daemon, by its name, and the text that is written there.
    Knob { name: &'a str, text: &'a str },
    /// The scale of a space: how much rarer it is scanned than others; 0: not at all.
    Scale { space: TargetId, scale: u32 },
    /// The current value of a goal of `user-input`, by the places of scheme and goal.
    Goal { scheme: usize, goal: usize, value: u64 },
}

/// Why a daemon did not do the work that was due.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The host refused. The work under way is given up; the daemon goes on when it is due next.
    #[error(transparent)]
    Refused(#[from] HostError),
    /// It cannot do its work on this host.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

macro_rules! daemons {
    ($($kind:ident, $report:ty, $account:ty, $name:literal, $summary:literal;)*) => {
        /// The kinds of daemons.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(
                #[doc = $summary]
                $kind,
            )*
        }

        /// All kinds, in the order in which they are added to a machine: earlier kinds are served first.
        pub const DAEMONS: &[Kind] = &[$(Kind::$kind,)*];

        impl Kind {
            /// Name of the kind, as in results and messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }

        /// Results of one run of a daemon.
        #[derive(Clone, Debug)]
        pub enum Report {
            $(
                #[doc = $summary]
                $kind($report),
            )*
        }

        impl Report {
            /// The kind of daemon that made the report.
            pub const fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind,)*
                }
            }
        }

        /// Counts of a daemon's work so far.
        #[derive(Clone, Debug)]
        pub enum Account {
            $(
                #[doc = $summary]
                $kind($account),
            )*
        }
    };
}

// Kind, what one run did, what all runs did, name, what it is for.
daemons! {
    Monitor, monitor::Tick, Vec<schemes::SchemeReport>, "monitor", "watches regions of memory, and applies schemes to them";
    Promotion, promotion::TimeoutReport, Box<promotion::PromotionCounters>, "promotion", "scans for hot pages on slow memory, and moves them";
    Generations, Option<generations::Sample>, generations::ToolAccount, "generations",
        "ages generations, estimates the working set, evicts what is old";
    Limits, Option<limits::LimitsStep>, limits::LimitsWhy, "limits", "finds the least memory.high that keeps harm below a goal";
    Compaction, Box<compaction::Activity>, compaction::Tally, "compaction", "compacts a node before somebody waits for it";
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::{CompactionDaemon, Design, MergedConfig};
    use crate::generations::{EstimatorConfig, Tool, ToolConfig};
    use crate::host::NodeId;
    use crate::limits::{LimitsConfig, LimitsDaemon};
    use crate::monitor::{Monitor, MonitorConfig};
    use crate::promotion::{Promotion, PromotionConfig};

    const SPACE: TargetId = TargetId(0);

    /// Runs whatever is due next, this number of times: how each run ended, by the worker.
    fn drive<H>(daemon: &mut dyn Daemon<H>, host: &mut H, runs: usize) -> Vec<(usize, Result<Kind, String>)> {
        let mut ended = Vec::new();
        let mut now = Instant::START;
        for _ in 0..runs {
            let due = (0..daemon.nr_workers()).filter_map(|worker| Some((daemon.poll_timeout(worker)?, worker)));
            let Some((at, worker)) = due.min() else { break };
            now = now.max(at);
            let ran = daemon.handle_timeout(worker, now, host);
            ended.push((worker, ran.map(|report| report.kind()).map_err(|error| error.to_string())));
        }
        ended
    }

    #[test]
    fn all_kinds_are_driven_alike() {
        let mut world = crate::monitor::World::new(&[(0, 1 << 30)]);
        let mut monitor = Monitor::new(MonitorConfig::default(), 1).expect("allowed");
        monitor.add_target(SPACE, &[], &world).expect("it is there");
        assert_eq!(drive(&mut monitor, &mut world, 3), [], "it was not started");
        monitor.start(Instant::START);
        assert_eq!(drive(&mut monitor, &mut world, 3), vec![(0, Ok(Kind::Monitor)); 3]);

        let mut host = crate::generations::fake::FakeHost::default();
        host.add("/app", 300, 1000);
        let config = ToolConfig::Estimate(EstimatorConfig::default());
        let mut tool = Tool::start(config, Instant::START).expect("allowed");
        assert_eq!(drive(&mut tool, &mut host, 3), vec![(0, Ok(Kind::Generations)); 3]);

        let mut group = crate::limits::FakeGroup::default();
        let mut limits = LimitsDaemon::start(LimitsConfig::new("/web"), Instant::START).expect("allowed");
        assert_eq!(drive(&mut limits, &mut group, 3), vec![(0, Ok(Kind::Limits)); 3]);

        let mut world = crate::promotion::fake::World::new();
        world.map(0, &[(0, 1 << 30)]);
        let mut promotion = Promotion::new(PromotionConfig::default(), 1, &world).expect("allowed");
        assert_eq!(drive(&mut promotion, &mut world, 3), [], "there is no space");
        Daemon::<crate::promotion::fake::World>::enter(&mut promotion, SPACE, None, Instant::START);
        assert_eq!(drive(&mut promotion, &mut world, 3), vec![(0, Ok(Kind::Promotion)); 3]);
        Daemon::<crate::promotion::fake::World>::exit(&mut promotion, SPACE);
        assert_eq!(promotion.spaces().count(), 0);
    }

    /// A refusal is counted and reported; the daemon goes on.
    #[test]
    fn who_is_refused_goes_on() {
        let refusal = Some(HostError::Failed("EIO".to_owned()));
        let mut machine = crate::compaction::fake::Machine { refusal, ..crate::compaction::fake::Machine::default() };
        let design = Design::Merged(MergedConfig::default());
        let mut daemon = CompactionDaemon::start(&design, NodeId(0), Instant::START).expect("allowed");
        assert_eq!(drive(&mut daemon, &mut machine, 2), vec![(0, Err("EIO".to_owned())); 2]);
        machine.refusal = None;
        assert_eq!(drive(&mut daemon, &mut machine, 1), [(0, Ok(Kind::Compaction))]);
        let reported = Daemon::<crate::compaction::fake::Machine>::account(&daemon);
        assert!(matches!(reported, Account::Compaction(tally) if (tally.checks, tally.refusals) == (1, 2)));
        let words = Daemon::<crate::compaction::fake::Machine>::words(&daemon);
        assert_eq!(words.last().map(String::as_str), Some("refused 2 times, the last time: EIO"));
    }

    #[test]
    fn kinds_have_names_of_their_own() {
        let mut names: Vec<String> = DAEMONS.iter().map(Kind::to_string).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DAEMONS.len());
    }
}
