//! The monitor of `isotherm-core` as a source.

use isotherm_core::host::{MonitorHost, TargetId, UnitRange};
use isotherm_core::monitor::{Event, Monitor, MonitorConfig, MonitorError, TargetChange};
use isotherm_units::Instant;

use crate::{Finding, RegionLook, Source, SourceError};

/// A monitor with the host that it probes.
#[derive(Debug)]
pub struct Monitored<H> {
    monitor: Monitor,
    /// Intervals as configured; stretches multiply these.
    config: MonitorConfig,
    host: H,
    /// All targets that ever were, by their index in records.
    known: Vec<TargetId>,
    /// Refusals already reported, so that each is reported once.
    told: Vec<String>,
    /// Found before the first sample.
    pending: Vec<Finding>,
}

impl<H: MonitorHost> Monitored<H> {
    /// Begins at `now`. `targets` carry ranges in address units; no ranges means all that a process
    /// maps.
    ///
    /// # Errors
    /// A bad configuration, or a feature that the host lacks for it.
    pub fn start(
        config: MonitorConfig,
        seed: u64,
        host: H,
        targets: &[(TargetId, Vec<UnitRange>)],
        now: Instant,
    ) -> Result<Self, MonitorError> {
        let mut monitor = Monitor::new(config.clone(), seed)?;
        for (target, ranges) in targets {
            monitor.add_target(*target, ranges, &host)?;
        }
        monitor.start(now);
        let known = targets.iter().map(|(target, _)| *target).collect();
        Ok(Self { monitor, config, host, known, told: Vec::new(), pending: Vec::new() })
    }

    /// Reports a target as newly arrived at the first sample.
    #[must_use]
    pub fn announcing(mut self, target: TargetId, name: &str) -> Self {
        let number = self.known.iter().position(|known| *known == target).map(index_of);
        self.pending.extend(number.map(|target| Finding::Came { target, pid: None, name: name.to_owned() }));
        self
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The host, to add and remove targets.
    pub fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// The monitor, with its counts.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Monitors one more target from now on. Returns its index in findings.
    ///
    /// # Errors
    /// A feature that the host lacks for the target.
    pub fn add_target(&mut self, target: TargetId, ranges: &[UnitRange]) -> Result<u32, MonitorError> {
        self.monitor.add_target(target, ranges, &self.host)?;
        if let Some(index) = self.known.iter().position(|known| *known == target) {
            return Ok(index_of(index));
        }
        self.known.push(target);
        Ok(index_of(self.known.len() - 1))
    }

    /// Stops monitoring a target.
    ///
    /// # Errors
    /// Why the monitor cannot go on with the targets that stay.
    pub fn remove_target(&mut self, target: TargetId) -> Result<(), MonitorError> {
        let changes: Vec<TargetChange> = self
            .monitor
            .targets()
            .map(|id| if id == target { TargetChange::Remove } else { TargetChange::Set { id, ranges: Vec::new() } })
            .collect();
        let config = self.monitor.config().clone();
        self.monitor.commit(config, Some(&changes), &self.host)
    }

    fn told_once(&mut self, words: String, found: &mut Vec<Finding>) {
        if !self.told.contains(&words) {
            self.told.push(words.clone());
            found.push(Finding::Said(words));
        }
    }

    fn looks(&self) -> impl Iterator<Item = RegionLook> + '_ {
        let snapshot = self.monitor.snapshot();
        snapshot.targets.iter().filter_map(|(id, place)| {
            let target = index_of(self.known.iter().position(|known| known == id)?);
            let regions = snapshot.regions[place.clone()].to_vec();
            Some(RegionLook {
                target,
                at: snapshot.at,
                elapsed: snapshot.elapsed,
                sample_interval: snapshot.sample_interval,
                aggr_interval: snapshot.aggr_interval,
                regions,
            })
        })
    }
}

fn index_of(index: usize) -> u32 {
    u32::try_from(index).expect("targets are processes, of which there are fewer than 2^22")
}

/// Text of an event that the user should see; `None` for routine events.
fn words(event: &Event) -> Option<String> {
    match event {
        Event::NoLayout { why, .. } => Some(format!("nothing to watch yet: {why}")),
        Event::FewPlaces { places, .. } => {
            Some(format!("mappings in {places} separate places, fewer than three: watched as they are"))
        }
        Event::HostFailed { call, error, .. } => Some(format!("a sample was lost, `{call}`: {error}")),
        Event::Tuned { sample_interval, aggr_interval } => {
            Some(format!("tuned: a sample each {sample_interval}, an aggregation each {aggr_interval}"))
        }
        _ => None,
    }
}

impl<H: MonitorHost> Source for Monitored<H> {
    fn poll_timeout(&self) -> Option<Instant> {
        self.monitor.poll_timeout()
    }

    fn look(&mut self, now: Instant, found: &mut Vec<Finding>) -> Result<(), SourceError> {
        found.append(&mut self.pending);
        let tick = self.monitor.handle_timeout(now, &mut self.host);
        for event in &tick.events {
            if let Some(words) = words(event) {
                self.told_once(words, found);
            }
        }
        if tick.has_snapshot {
            found.extend(self.looks().map(Finding::Regions));
        }
        if tick.events.contains(&Event::Stopped) {
            return Err(SourceError::Gone("all that was watched has ended".to_owned()));
        }
        Ok(())
    }

    fn stretch(&mut self, stretch: u32, _now: Instant) -> Result<(), SourceError> {
        let mut config = self.config.clone();
        config.stretch(stretch);
        self.monitor.commit(config, None, &self.host).map_err(|error| SourceError::Failed(Box::new(error)))
    }
}
