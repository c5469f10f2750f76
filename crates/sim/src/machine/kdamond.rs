//! A monitor of `isotherm-core` as a kernel thread of the simulated machine.

use super::monitor::MonitorTarget;
use super::{MachineBuilder, SimError};
use crate::host::MemoryHost;
use isotherm_core::daemon::{Account, Control, Daemon, DaemonError, Kind, Report};
use isotherm_core::host::{AddressRange, TargetId, UnitRange};
use isotherm_core::monitor::{Monitor, MonitorConfig, Tick};
use isotherm_units::access::Backing;
use isotherm_units::{Bytes, Instant, PAGE_SHIFT};

/// Called after each tick of a monitor with the monitor itself (its snapshot, activity, regions, schemes' reports), and the results of the
/// tick. A new snapshot is there if [`Tick::has_snapshot`].
pub type TickSink = Box<dyn FnMut(&Monitor, &Tick) + Send>;

/// The target of a monitor, and its ranges. Without ranges a process's mappings are followed; physical memory needs ranges, see
/// [`MachineBuilder::physical_range`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub target: MonitorTarget,
    /// Ranges in address units of the monitor.
    pub ranges: Vec<UnitRange>,
}

/// A monitor whose targets are added when it begins, and whose ticks are reported.
struct Kdamond {
    monitor: Monitor,
    /// Targets to be added at the start, numbered by their place.
    ranges: Vec<Vec<UnitRange>>,
    sink: TickSink,
}

impl<'h> Daemon<MemoryHost<'h>> for Kdamond {
    fn poll_timeout(&self, worker: usize) -> Option<Instant> {
        Daemon::<MemoryHost<'h>>::poll_timeout(&self.monitor, worker)
    }

    fn handle_timeout(
        &mut self,
        worker: usize,
        now: Instant,
        host: &mut MemoryHost<'h>,
    ) -> Result<Report, DaemonError> {
        if !self.ranges.is_empty() {
            for (id, ranges) in (0..).zip(std::mem::take(&mut self.ranges)) {
                let added = self.monitor.add_target(TargetId(id), &ranges, host);
                added.map_err(|error| DaemonError::Failed(error.into()))?;
            }
            self.monitor.start(now);
        }
        let report = Daemon::handle_timeout(&mut self.monitor, worker, now, host)?;
        if let Report::Monitor(tick) = &report {
            (self.sink)(&self.monitor, tick);
        }
        Ok(report)
    }

    fn control(&mut self, control: &Control<'_>, _: Instant) -> Result<(), String> {
        let Control::Goal { scheme, goal, value } = *control else { return Err("it has no such control".to_owned()) };
        let is_reported = self.monitor.report_goal_value(scheme, goal, value);
        is_reported.then_some(()).ok_or_else(|| format!("scheme {scheme} has no goal {goal} of `user-input`"))
    }

    fn account(&self) -> Account {
        Daemon::<MemoryHost<'h>>::account(&self.monitor)
    }

    fn words(&self) -> Vec<String> {
        Daemon::<MemoryHost<'h>>::words(&self.monitor)
    }
}

impl MachineBuilder {
    /// Adds a kernel thread that monitors `watched`, target `i` being entry `i`, applies the schemes of `config`, and reports each tick to
    /// `sink`. CPU time, probes and schemes' reports are in [`Outcome::monitors`](super::Outcome::monitors). See [`monitor`](Self::monitor)
    /// for when it begins.
    ///
    /// # Errors
    /// A bad value in `config` ([`SimError::Daemon`]), or a process that was not added. A feature that the machine lacks for a target ends
    /// the run with [`SimError::Daemon`].
    pub fn kdamond(
        &mut self,
        name: &str,
        config: MonitorConfig,
        seed: u64,
        watched: Vec<Watched>,
        sink: TickSink,
    ) -> Result<(), SimError> {
        let monitor = Monitor::new(config, seed).map_err(|source| SimError::of(Kind::Monitor, name, source))?;
        let (targets, ranges) = watched.into_iter().map(|watched| (watched.target, watched.ranges)).unzip();
        self.add_monitor(name, targets, Box::new(Kdamond { monitor, ranges, sink }))
    }

    /// All physical addresses: the machine's frames, followed by the addresses of the programs [premapped](Self::premap) so far. The range
    /// in address units of `unit` bytes.
    pub fn physical_range(&self, unit: Bytes) -> UnitRange {
        let premapped = self.machine.programs.iter().filter(|program| program.premapped);
        let mappings = premapped.flat_map(|program| &program.program.processes).flat_map(|process| &process.layout);
        let premapped =
            mappings.filter(|mapping| mapping.backing == Backing::Anonymous).map(|mapping| mapping.pages.len());
        let pages = self.machine.memory.frames.len() as u64 + premapped.sum::<u64>();
        AddressRange::new(0, pages << PAGE_SHIFT).in_units(unit)
    }
}
