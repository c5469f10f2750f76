//! Region monitoring: which addresses are used how often, at a cost bounded by the number of regions, however large memory is.
//!
//! Addresses are kept as [`Region`]s that are taken to behave alike. Each tick one address of every region is sampled: its
//! accessed bit is cleared (PREPARE), and after the sampling interval tested (CHECK). Each aggregation, neighbours that behave
//! alike are merged, a [`Snapshot`] is made, and regions are cut at random to find out whether their parts differ. The
//! [`Strategy`] chooses the level of the page table at which bits are read.
//!
//! Behaviour follows Linux's DAMON; departures are described where they are made. Sections named in comments are sections of the project's
//! specification `docs/spec/monitoring.md`. Design and departures in one place: `docs/mechanism/monitoring.md`.

mod attrs;
mod batch;
mod change;
mod config;
mod daemon;
mod error;
#[cfg(test)]
pub(crate) mod fake;
mod flush;
mod level;
mod merge;
mod probes;
mod random;
mod ranges;
mod region;
mod snapshot;
mod split;
mod target;
#[cfg(test)]
mod tests;
mod tick;
mod tune;

pub use attrs::{Attributes, Baseline, IntervalsGoal};
pub use change::TargetChange;
pub use config::{MonitorConfig, OTHER_NAMES, Operations, Sampling};
pub use error::MonitorError;
pub use flush::FlushPolicy;
pub use level::ptp_descend::DescendConfig;
pub use level::{LEVELS_MAX, STRATEGIES, Strategy, StrategyEntry};
pub use probes::{AttributeProbe, ProbeFilter};
pub use random::context_seed;
pub use ranges::RangesError;
pub use region::{PROBES_MAX, Region};
pub use snapshot::{Activity, Event, LevelCount, RegionRecord, Snapshot, Tick};

#[cfg(test)]
pub(crate) use fake::World;
pub(crate) use region::HIT_BP;
pub(crate) use split::align_down;
pub(crate) use target::Target;

use crate::host::{AddressRange, MonitorHost, TargetId};
use crate::schemes::{self, Engine, SchemeReport};
use crate::vocabulary::UnitRange;
use isotherm_units::Instant;
use level::Levels;
use probes::ProbeBuffers;
pub(crate) use random::Random;

/// The smallest region while no target has reported the size of its pages.
const PAGE: u64 = 4096;

/// One monitoring context, driven from outside: call [`handle_timeout`](Self::handle_timeout) at the time that
/// [`poll_timeout`](Self::poll_timeout) returns, then read [`snapshot`](Self::snapshot) if there is a new one.
#[derive(Clone, Debug)]
pub struct Monitor {
    config: MonitorConfig,
    /// Attributes in force: tuning moves the intervals.
    attributes: Attributes,
    /// Samples of an aggregation as asked for, which tuning keeps.
    aggr_samples: u64,
    random: Random,
    targets: Vec<Target>,
    schemes: Engine,
    /// No region is cut smaller.
    size_min: u64,
    /// No regions are merged larger: as computed from the total last read.
    size_max: u64,
    schedule: Schedule,
    phase: Phase,
    pending: Option<change::Plan>,
    /// The highest count of any region in this tick.
    highest_count: u32,
    /// Number of regions when they were last cut at random.
    nr_regions_cut: u64,
    /// Translations are dropped until this number of aggregations have ended (`adaptive`).
    flush_until: u64,
    snapshot: Snapshot,
    activity: Activity,
    /// Counters when the last aggregation ended.
    activity_before: Activity,
    events: Vec<Event>,
    // Buffers, kept so that a tick makes none.
    /// Places of probes that the host knows to be accessed.
    accessed: Vec<usize>,
    spare: Vec<Region>,
    mappings: Vec<AddressRange>,
    probe_buffers: ProbeBuffers,
}

/// Ticks at which each kind of work is due.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    /// Ticks since the start.
    tick: u64,
    next_aggregation: u64,
    next_update: u64,
    /// Armed at the start, advanced by tuning only. If tuning is switched on later, it starts from zero, so that it runs at every
    /// aggregation until it has caught up: as in the kernel (section 10, example 50).
    next_tuning: u64,
}

/// Where in a tick it sleeps, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Stopped,
    /// The state before the first PREPARE.
    Starting(Instant),
    /// Between PREPARE and CHECK.
    Sampling(Instant),
    /// Before a PREPARE: no scheme is at work. Watermarks are checked again then.
    Inactive(Instant),
    /// Between the two halves of a tick, with the work that was due when its first half began.
    Paused {
        until: Instant,
        due: Due,
    },
}

/// Work of a tick besides its sample. Taken at its beginning: changes count from the next tick on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    aggregation: bool,
    next_aggregation: u64,
    update: bool,
    next_update: u64,
}

impl Monitor {
    /// A context without targets, stopped. Contexts of one run get different seeds: [`context_seed`].
    ///
    /// # Errors
    /// The first value of `config` outside its limits, with the allowed values.
    pub fn new(config: MonitorConfig, seed: u64) -> Result<Self, MonitorError> {
        config.validate()?;
        Ok(Self {
            attributes: config.attributes.clone(),
            aggr_samples: config.attributes.aggr_ticks(),
            random: Random::new(seed),
            targets: Vec::new(),
            schemes: Engine::new(&config.schemes),
            size_min: config.min_region_size.map_or(PAGE, isotherm_units::Bytes::get),
            size_max: u64::MAX,
            schedule: Schedule::default(),
            phase: Phase::Stopped,
            pending: None,
            highest_count: 0,
            nr_regions_cut: 0,
            flush_until: 0,
            snapshot: Snapshot::default(),
            activity: Activity::default(),
            activity_before: Activity::default(),
            events: Vec::new(),
            accessed: Vec::new(),
            spare: Vec::new(),
            mappings: Vec::new(),
            probe_buffers: ProbeBuffers::default(),
            config,
        })
    }

    /// Adds a target, also while running. `ranges`, in address units, may be left empty for `vaddr`: then they come from
    /// the mappings at the start, or at the next update when it is added later.
    ///
    /// # Errors
    /// The ranges are invalid, or the host lacks a feature that the configuration needs; then nothing is added.
    pub fn add_target(
        &mut self,
        id: TargetId,
        ranges: &[UnitRange],
        host: &dyn MonitorHost,
    ) -> Result<(), MonitorError> {
        if self.targets.iter().any(|target| target.id == id) {
            return Err(MonitorError::TargetTwice(id));
        }
        if self.config.operations == Operations::Paddr && !self.targets.is_empty() {
            return Err(MonitorError::SecondPhysicalTarget(id));
        }
        let operations = self.config.operations;
        if ranges.is_empty() && operations != Operations::Vaddr {
            return Err(MonitorError::RangesMissing { target: id, operations: operations.name() });
        }
        let levels = admit(&self.config, id, host)?;
        let size_min = if self.targets.is_empty() { self.config.size_min(&levels) } else { self.size_min };
        debug_assert!(size_min.is_power_of_two(), "ranges are aligned by masks");
        ranges::validate(ranges, size_min, self.config.addr_unit.get())
            .map_err(|source| MonitorError::Ranges { target: id, source })?;
        let mut target = Target::new(id, levels, ranges.to_vec());
        if self.is_running() {
            ranges::apply(&mut target.regions, ranges, size_min, &mut self.spare);
        }
        self.size_min = size_min;
        self.targets.push(target);
        Ok(())
    }

    /// Begins monitoring at `now`; counters of work go on from before. Does nothing if it runs already.
    pub fn start(&mut self, now: Instant) {
        if !self.is_running() {
            self.phase = Phase::Starting(now);
        }
    }

    /// Ends monitoring and drops all regions. Targets stay, for another [`start`](Self::start).
    pub fn stop(&mut self) {
        self.phase = Phase::Stopped;
        self.schemes.forget(|_| true);
        self.schemes.stop_clock();
        self.cancel_walk();
        for target in &mut self.targets {
            target.regions.clear();
            target.drop_sample();
            target.descent = level::ptp_descend::Descent::default();
        }
    }

    /// Pauses at the service point of the next tick, or lets a paused context go on. Paused, it wakes each sampling interval
    /// and only serves changes; the tick in which it paused goes on where it was.
    pub fn set_paused(&mut self, paused: bool) {
        self.config.paused = paused;
        if let Some(plan) = &mut self.pending {
            plan.set_paused(paused);
        }
    }

    /// Whether the monitor was started and has not stopped.
    pub fn is_running(&self) -> bool {
        self.phase != Phase::Stopped
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next; `None` while stopped. May change after any call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Stopped => None,
            Phase::Starting(at) | Phase::Sampling(at) | Phase::Inactive(at) | Phase::Paused { until: at, .. } => {
                Some(at)
            }
        }
    }

    /// The result of the last aggregation; its number is 0 before the first. Overwritten by the next.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The present regions of a target, in address units: in the middle of an aggregation their counts are partial, and `nr_accesses_bp /
    /// 10,000` is the better estimate. `None` for a target that is not here.
    pub fn regions(&self, target: TargetId) -> Option<&[Region]> {
        self.targets.iter().find(|other| other.id == target).map(|target| target.regions.as_slice())
    }

    /// The targets that are still there, in order.
    pub fn targets(&self) -> impl Iterator<Item = TargetId> + '_ {
        self.targets.iter().map(|target| target.id)
    }

    /// State and counts of all schemes, in order.
    pub fn scheme_reports(&self) -> Vec<SchemeReport> {
        self.schemes.reports(self.size_min.saturating_mul(self.config.addr_unit.get()))
    }

    /// Reports at the end of a run, with places.
    pub(crate) fn final_reports(&self) -> Vec<SchemeReport> {
        let with_places = |(report, places)| SchemeReport { places, ..report };
        self.scheme_reports().into_iter().zip(self.schemes.places()).map(with_places).collect()
    }

    /// Collects the regions that schemes are tried on, one pass of each, for an [`Event::TriedRegions`]. `false`: it is collecting already,
    /// or there are no schemes.
    pub fn start_walk(&mut self) -> bool {
        self.schemes.start_walk()
    }

    /// Reports the current value of a goal of `user-input`, by the places of scheme and goal. `false`: no such goal.
    pub fn report_goal_value(&mut self, scheme: usize, goal: usize, value: u64) -> bool {
        self.schemes.report_value(scheme, goal, value)
    }

    /// Counts of the monitor's work since it was made.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The attributes in force: the configured ones, except intervals that tuning has changed.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The configuration as it was given, before tuning.
    pub fn config(&self) -> &MonitorConfig {
        &self.config
    }
}

/// Checks that the host has the features that `config` needs for `id`; returns its levels.
fn admit(config: &MonitorConfig, id: TargetId, host: &dyn MonitorHost) -> Result<Levels, MonitorError> {
    let capabilities = host.capabilities(id);
    let strategy = config.strategy.entry();
    let not_here = |what, needs| Err(MonitorError::NotHere { target: id, what, needs });
    if strategy.probes_upper && capabilities.highest_level == crate::host::Level::LEAF {
        return not_here(strategy.name, "accessed bits above the leaves of the page table");
    }
    if strategy.walks_down && !capabilities.scan_children {
        return not_here(strategy.name, "a scan of whole page tables");
    }
    if config.flush != FlushPolicy::None && !capabilities.flush {
        return not_here("flush", "a way to drop cached translations");
    }
    if config.flush == FlushPolicy::Adaptive && capabilities.rules_out && strategy.probes_upper {
        return not_here(
            "flush = \"adaptive\"",
            "upper entries that say what was used, which those of physical memory do not",
        );
    }
    for (index, scheme) in config.schemes.iter().enumerate() {
        schemes::admit(scheme, id, host).map_err(|source| MonitorError::Scheme { index, source })?;
    }
    Levels::new(id, capabilities, &config.leaks)
}
