//! Monitors in the machine: their targets, their results, and drivers that monitor memory in their own way.

use super::daemon::{AnyDaemon, Ended, Habits, NewDaemon, Recorder, Wakeup, Watches};
use super::{ConfigError, MachineBuilder, Outcome, ProgramId, SimError};
use crate::host::{MemoryHost, ProbeCounts};
use isotherm_core::daemon::{Account, Daemon, DaemonError, Kind, Report};
use isotherm_core::monitor::Tick;
use isotherm_core::schemes::SchemeReport;
use isotherm_kernel::memory::Memory;
use isotherm_units::Instant;
use serde::Serialize;

/// The work of a monitor thread that is no monitor of `isotherm-core`.
pub trait MonitorDriver: Send {
    /// Runs the work that is due at `now`; returns the time of the next run, or `None` if it is done for good. Target `i` of the host is
    /// entry `i` of the list given to [`MachineBuilder::monitor`].
    ///
    /// Called first when all monitored processes have started. May come late when all processors are busy.
    ///
    /// # Errors
    /// It cannot do its work on this machine: the run ends with [`SimError::Daemon`].
    fn run(&mut self, now: Instant, host: &mut MemoryHost<'_>) -> Result<Option<Instant>, DriverError>;
}

/// Why a driver cannot go on.
pub type DriverError = Box<dyn std::error::Error + Send + Sync>;

/// A target of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorTarget {
    /// Virtual memory of a process of a program, by its index in the program.
    Process(ProgramId, usize),
    /// Physical memory.
    Physical,
}

/// Work of a monitor and its costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MonitorOutcome {
    pub name: String,
    /// When its first targets existed; `None` if they never did.
    pub started_ns: Option<u64>,
    /// CPU time of its thread.
    pub cpu_ns: u64,
    /// How often it was woken.
    pub wakeups: u64,
    /// Delay of its runs after their due time, summed over all wake-ups.
    pub late_ns: u64,
    /// Probes of the monitor.
    pub probes: ProbeCounts,
    /// Schemes in order, in their final state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<SchemeReport>,
}

/// A driver as a daemon.
struct Driven {
    driver: Box<dyn MonitorDriver>,
    due: Option<Instant>,
}

impl Daemon<MemoryHost<'_>> for Driven {
    fn poll_timeout(&self, _worker: usize) -> Option<Instant> {
        self.due
    }

    fn handle_timeout(
        &mut self,
        _worker: usize,
        now: Instant,
        host: &mut MemoryHost<'_>,
    ) -> Result<Report, DaemonError> {
        self.due = self.driver.run(now, host).map_err(DaemonError::Failed)?;
        Ok(Report::Monitor(Tick::default()))
    }

    fn account(&self) -> Account {
        Account::Monitor(Vec::new())
    }

    fn words(&self) -> Vec<String> {
        Vec::new()
    }
}

impl MachineBuilder {
    /// Adds a kernel thread that runs `driver`, called `name` in results. It begins when all processes in `targets` have
    /// started.
    ///
    /// # Errors
    /// A program or process that was not added, or a machine with folios of files.
    pub fn monitor(
        &mut self,
        name: &str,
        targets: Vec<MonitorTarget>,
        driver: Box<dyn MonitorDriver>,
    ) -> Result<(), SimError> {
        self.add_monitor(name, targets, Box::new(Driven { driver, due: None }))
    }

    /// Refuses a machine whose files may have folios of several pages; `allowed` says what is possible instead.
    pub(super) fn refuse_folios(&self, allowed: &'static str) -> Result<(), SimError> {
        match self.machine.config.file_system {
            Some(file_system) => Err(ConfigError::new("file-system", file_system, allowed).into()),
            None => Ok(()),
        }
    }

    pub(super) fn add_monitor(
        &mut self,
        name: &str,
        targets: Vec<MonitorTarget>,
        daemon: Box<AnyDaemon>,
    ) -> Result<(), SimError> {
        self.refuse_folios("absent where memory is monitored: monitors know single pages only")?;
        for &target in &targets {
            if let MonitorTarget::Process(ProgramId(program), process) = target
                && self.machine.programs.get(program).is_none_or(|program| process >= program.spaces.len())
            {
                return Err(SimError::NoSuchProcess { monitor: name.to_owned(), program, process });
            }
        }
        self.machine.add_daemon(NewDaemon {
            kind: Kind::Monitor,
            name: name.to_owned(),
            daemon,
            recorder: Box::new(MonitorRecorder),
            watches: Watches::Targets(targets),
            habits: Habits { wakeup: Wakeup::Thread, goes_by_steps: false, asks_for_stalls: false },
        });
        Ok(())
    }
}

/// Ticks are reported to the monitor's listener; only the end is recorded.
struct MonitorRecorder;

impl Recorder for MonitorRecorder {
    fn note(&mut self, _report: Report, _ns: u64, _at: Instant, _memory: &Memory) {}

    fn finish(self: Box<Self>, ended: Ended, outcome: &mut Outcome) {
        let Account::Monitor(schemes) = ended.daemon.account() else { return };
        let ledger = ended.ledger;
        outcome.monitors.push(MonitorOutcome {
            name: ended.name,
            started_ns: ledger.started_ns,
            cpu_ns: ledger.cpu_ns,
            wakeups: ledger.wakeups,
            late_ns: ledger.late_ns,
            probes: ended.probes,
            schemes,
        });
    }
}
