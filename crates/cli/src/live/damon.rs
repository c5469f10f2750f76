//! DAMON as a source: the kernel monitors, and we read its results.

use isotherm_core::host::{AddressRange, Level};
use isotherm_core::monitor::{Attributes, RegionRecord};
use isotherm_daemon::{Finding, RegionLook, Source, SourceError};
use isotherm_linux::damon::{DamonTarget, Options, Session};
use isotherm_linux::{LiveError, Process, Root};
use isotherm_units::{Duration, Instant};

use super::{to_cli, undo};
use crate::error::CliError;

/// Shortest time between two reads of regions: each has four files.
const LOOK: Duration = Duration::from_secs(1);

/// A session of the kernel's monitor.
#[derive(Debug)]
pub(crate) struct DamonSource {
    root: Root,
    target: DamonTarget,
    /// Attributes as configured.
    attributes: Attributes,
    options: Options,
    session: Option<Session>,
    process: Option<Process>,
    stretch: u32,
    next: Instant,
    last: Instant,
    is_announced: bool,
    /// CPU time of kdamonds of sessions that have ended.
    spent_before: Duration,
    spent: Duration,
}

impl DamonSource {
    /// Starts the kernel's monitor.
    pub(crate) fn start(
        root: &Root,
        target: DamonTarget,
        attributes: Attributes,
        options: Options,
        now: Instant,
    ) -> Result<Self, CliError> {
        let process = match &target {
            DamonTarget::Process(pid) | DamonTarget::Ranges(pid, _) => Some(Process::open(root, *pid).map_err(to_cli)?),
            DamonTarget::Physical(_) => None,
        };
        let session = Session::start(root, &attributes, &target, options, || undo(root)).map_err(to_cli)?;
        let mut source = Self {
            root: root.clone(),
            target,
            attributes,
            options,
            session: Some(session),
            process,
            stretch: 1,
            next: now,
            last: now,
            is_announced: false,
            spent_before: Duration::ZERO,
            spent: Duration::ZERO,
        };
        source.next = now + source.interval();
        Ok(source)
    }

    fn interval(&self) -> Duration {
        self.attributes.aggr_interval.saturating_mul(u64::from(self.stretch)).max(LOOK)
    }

    fn stretched(&self) -> Attributes {
        let mut attributes = self.attributes.clone();
        attributes.sample_interval = attributes.sample_interval.saturating_mul(u64::from(self.stretch));
        attributes.aggr_interval = attributes.aggr_interval.saturating_mul(u64::from(self.stretch));
        attributes.ops_update_interval = attributes.ops_update_interval.max(attributes.aggr_interval);
        attributes
    }

    /// Error for the end of a session.
    fn ended(&self, error: Option<LiveError>) -> SourceError {
        match (&self.process, error) {
            (Some(process), _) if process.check().is_err() => {
                SourceError::Gone(format!("process {} has ended, or is another program now", process.pid()))
            }
            (_, Some(LiveError::Gone(words))) => SourceError::Gone(words),
            (_, Some(error)) => SourceError::Lost(format!("DAMON does not answer any more: {error}")),
            (_, None) => SourceError::Lost("somebody switched our kdamond off".to_owned()),
        }
    }
}

impl Source for DamonSource {
    fn poll_timeout(&self) -> Option<Instant> {
        self.session.as_ref().map(|_| self.next)
    }

    fn look(&mut self, now: Instant, found: &mut Vec<Finding>) -> Result<(), SourceError> {
        if now < self.next {
            return Ok(());
        }
        if !self.is_announced {
            self.is_announced = true;
            let pid = self.process.as_ref().map(Process::pid);
            let name = self.process.as_ref().map_or("physical memory", Process::name).to_owned();
            found.push(Finding::Came { target: 0, pid, name });
        }
        let Some(session) = &self.session else { return Ok(()) };
        if !session.is_on() {
            return Err(self.ended(None));
        }
        let snapshot = match session.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => return Err(self.ended(Some(error))),
        };
        let tuned = session.tuned().ok().flatten();
        let attributes = self.stretched();
        let (sample_interval, aggr_interval) = tuned
            .map_or((attributes.sample_interval, attributes.aggr_interval), |tuned| {
                (tuned.sample_interval, tuned.aggr_interval)
            });
        let region = |region: &isotherm_linux::damon::TriedRegion| RegionRecord {
            range: region.range,
            nr_accesses: region.nr_accesses,
            age: region.age,
            level: Level::LEAF,
            ..RegionRecord::default()
        };
        found.push(Finding::Regions(RegionLook {
            target: 0,
            at: now,
            elapsed: now.since(self.last).min(aggr_interval),
            sample_interval,
            aggr_interval,
            regions: snapshot.regions.iter().map(region).collect(),
        }));
        self.last = now;
        self.next = now + self.interval();
        Ok(())
    }

    fn spent_by_kernel(&mut self) -> Duration {
        if let Some(spent) = self.session.as_ref().and_then(Session::cpu_time) {
            self.spent = spent;
        }
        self.spent_before + self.spent
    }

    /// Restarts the kernel's monitor with longer intervals.
    fn stretch(&mut self, stretch: u32, now: Instant) -> Result<(), SourceError> {
        let _ = self.spent_by_kernel();
        self.spent_before += self.spent;
        self.spent = Duration::ZERO;
        self.stretch = stretch;
        if let Some(session) = self.session.take() {
            session.stop().map_err(|error| SourceError::Failed(Box::new(error)))?;
        }
        let session = Session::start(&self.root, &self.stretched(), &self.target, self.options, || undo(&self.root));
        self.session = Some(session.map_err(|error| SourceError::Failed(Box::new(error)))?);
        self.next = now + self.interval();
        Ok(())
    }
}

/// Physical memory as the kernel lists it: System RAM, from the first to the last byte of each range.
pub(crate) fn system_ram(root: &Root) -> Result<Vec<AddressRange>, CliError> {
    let text = root.read("/proc/iomem").map_err(to_cli)?;
    let ranges = ram_in(&text);
    if ranges.is_empty() {
        return Err(CliError::host_cannot("/proc/iomem names no memory: it shows addresses to root only"));
    }
    Ok(ranges)
}

fn ram_in(text: &str) -> Vec<AddressRange> {
    let piece = |line: &str| {
        // Indented lines are parts of others.
        let (range, name) = line.split_once(" : ")?;
        let (start, end) = range.split_once('-')?;
        let address = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (address(start)?, address(end)?.checked_add(1)?);
        (name == "System RAM" && start < end).then(|| AddressRange::new(start, end))
    };
    text.lines().filter_map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_among_devices() {
        let text = "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n  00002000-00002fff : Kernel code\n\
                    100000000-17fffffff : System RAM\n";
        assert_eq!(
            ram_in(text),
            [AddressRange::new(0x1000, 0x9_fc00), AddressRange::new(0x1_0000_0000, 0x1_8000_0000)]
        );
        for nothing in ["", "x", "0-0 : System RAM x", "5-1 : System RAM", "0-ffffffffffffffff : System RAM"] {
            assert_eq!(ram_in(nothing), [], "{nothing}");
        }
        assert_eq!(
            ram_in("00000000-00000000 : System RAM\n"),
            [AddressRange::new(0, 1)],
            "hidden from others than root"
        );
    }
}
