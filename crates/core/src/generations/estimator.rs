//! Working-set estimation: makes a generation each interval, and reads the sizes of generations.

use super::error::GenerationsError;
use super::estimate::{Estimate, estimate};
use super::history::{ColdBounds, History};
use super::outcomes::{GenerationReason, GenerationWhy};
use crate::host::{Answer, GenerationsHost, HostError};
use crate::vocabulary::{Ageing, Swappiness};
use crate::vocabulary::{GenerationRow, Listing, Lruvec};
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The target that means all groups.
pub const TARGETS_ALL: &str = "/";
/// Readings that are kept of each group.
const LOOKS: usize = 64;
/// Generations that one reading distinguishes: the youngest and the oldest of four have no beginning.
const WINDOWS_REPORTED: u64 = 2;
/// Kernels count the age of generations in ticks; shorter intervals would be lost in rounding.
const INTERVAL_MIN: Duration = Duration::from_ms(10);

/// Settings of a working-set estimator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct EstimatorConfig {
    /// Paths of groups; each stands for all below it, too. Default: `/`, all.
    pub targets: Vec<String>,
    /// Time between two ageings, 10 ms and more. Costs a walk over all page tables of the targets each.
    pub interval: Duration,
    /// Memory used within this time counts as in use. Windows of one or two times `interval` are reported exactly; other windows have only
    /// bounds. Left out: one interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Duration>,
    /// Whether walks scan all page tables. Otherwise walks skip areas that they take for idle, cost less, and miss some pages.
    pub force_scan: bool,
    /// Types of memory that walks scan: 0 files only, 1 to 200 both types, `"max"` anonymous memory only. Pages of the other type grow old
    /// although they are used.
    pub can_swap: Swappiness,
}

impl Default for EstimatorConfig {
    fn default() -> Self {
        Self {
            targets: vec![TARGETS_ALL.to_owned()],
            interval: Duration::from_secs(1),
            window: None,
            force_scan: true,
            can_swap: Swappiness::Of(1),
        }
    }
}

impl EstimatorConfig {
    /// The window: as configured, else one interval.
    pub fn window(&self) -> Duration {
        self.window.unwrap_or(self.interval)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), GenerationsError> {
        check_targets(&self.targets)?;
        if self.interval < INTERVAL_MIN {
            return Err(GenerationsError::new("interval", self.interval, "10ms and more"));
        }
        let longest = self.interval.saturating_mul(LOOKS as u64);
        if self.window() < self.interval || self.window() > longest {
            let allowed = format!("from one interval ({}) to {LOOKS} ({longest})", self.interval);
            return Err(GenerationsError::new("window", self.window(), allowed));
        }
        Ok(())
    }

    /// Whether generations give the window exactly, not only bounds.
    pub fn is_reported(&self) -> bool {
        let (window, interval) = (self.window().ns(), self.interval.ns());
        window % interval == 0 && window / interval <= WINDOWS_REPORTED
    }
}

/// Paths that start at the root and name no group twice.
pub(super) fn check_targets(targets: &[String]) -> Result<(), GenerationsError> {
    let refuse = |got: &str, allowed: &str| Err(GenerationsError::new("targets", format!("\"{got}\""), allowed));
    if targets.is_empty() {
        return refuse("", "paths of groups, one at least; \"/\" is all of them");
    }
    for (index, target) in targets.iter().enumerate() {
        let is_path = target == TARGETS_ALL
            || target.starts_with('/') && !target.ends_with('/') && !target.contains("//") && !target.contains('\n');
        if !is_path {
            return refuse(target, "paths of groups as the kernel writes them, such as \"/app/db\"");
        }
        if targets[..index].iter().any(|other| covers(other, target) || covers(target, other)) {
            return refuse(target, "groups that do not lie in each other, each once");
        }
    }
    Ok(())
}

/// Whether the group at `path` is `target` or lies below it.
pub fn covers(target: &str, path: &str) -> bool {
    target == TARGETS_ALL || path.strip_prefix(target).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The rows of a group on a node, after its ageing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupReading {
    /// The group, the node, and its generations.
    #[serde(flatten)]
    pub listing: Listing,
    /// Pages used within the window.
    pub estimate: Estimate,
    /// Memory idle for the window and longer, from all readings.
    pub cold: ColdBounds,
}

/// One read of the generations of all targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reading {
    pub at_ns: u64,
    /// Groups, in the order in which the host lists them.
    pub groups: Vec<GroupReading>,
}

impl Reading {
    /// The estimate for all groups together. Bounds are as narrow as this reading and earlier ones make them.
    pub fn estimate(&self) -> Estimate {
        let narrowed = |group: &GroupReading| {
            let total = crate::vocabulary::pages_of(&group.listing.rows);
            let Estimate { low_pages, high_pages, .. } = group.estimate;
            let high_pages = high_pages.min(total.saturating_sub(group.cold.at_least_pages));
            let low_pages = low_pages.max(total.saturating_sub(group.cold.at_most_pages)).min(high_pages);
            Estimate { low_pages, high_pages, ..group.estimate }
        };
        // Groups without a page report nothing, and need not.
        let mut filled =
            self.groups.iter().filter(|group| crate::vocabulary::pages_of(&group.listing.rows) > 0).map(narrowed);
        let first = filled.next().unwrap_or_default();
        filled.fold(first, Estimate::plus)
    }
}

/// Makes a generation of each target each interval, and reads.
#[derive(Debug)]
pub struct Estimator {
    config: EstimatorConfig,
    due: Option<Instant>,
    missed: u64,
    /// History of each group on each node.
    known: BTreeMap<Lruvec, Known>,
    /// The last reading failed: generations may have been made since.
    is_stale: bool,
    why: GenerationWhy,
}

#[derive(Debug)]
struct Known {
    max_gen_nr: u64,
    history: History,
}

impl Estimator {
    /// Not running yet.
    ///
    /// # Errors
    /// An invalid value of `config`.
    pub fn new(config: EstimatorConfig) -> Result<Self, GenerationsError> {
        config.validate()?;
        Ok(Self {
            config,
            due: None,
            missed: 0,
            known: BTreeMap::new(),
            is_stale: false,
            why: GenerationWhy::default(),
        })
    }

    pub const fn config(&self) -> &EstimatorConfig {
        &self.config
    }

    /// Begins: the first ageing is due at once, so that one interval later there is an estimate.
    pub fn start(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called; `None` before the start.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Number of intervals that were left out because a call came too late.
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Counts of what happened to each group when it was aged.
    pub const fn why(&self) -> &GenerationWhy {
        &self.why
    }

    /// Makes a generation of each target if one is due at `now`, and reads. Early calls do nothing and give `None`; so does a call that
    /// could not read; [`why`](Self::why) then holds the reason. After a long sleep it does so once, and counts the runs that it missed.
    pub fn handle_timeout(&mut self, now: Instant, host: &mut dyn GenerationsHost) -> Option<Reading> {
        let due = self.due.filter(|&due| due <= now)?;
        let intervals = now.since(due).ns() / self.config.interval.ns();
        self.missed += intervals;
        self.due = Some(due + self.config.interval.saturating_mul(intervals + 1));
        self.why.passes.begun += 1;
        // Groups that are unknown, or not known any more, must be read before they can be aged.
        let listings = if self.known.is_empty() || self.is_stale { self.read(host)? } else { Vec::new() };
        self.meet(listings);
        self.age(host);
        let listings = self.read(host)?;
        if listings.is_empty() {
            self.why.count(GenerationReason::NoGroup, 0);
        }
        Some(self.sample(now, listings))
    }

    /// The listings of the targets.
    fn read(&mut self, host: &mut dyn GenerationsHost) -> Option<Vec<Listing>> {
        let mut listings = Vec::new();
        match host.read_generations(&mut listings) {
            Ok(()) => {
                let targets = &self.config.targets;
                listings.retain(|listing| targets.iter().any(|target| covers(target, &listing.path)));
                self.is_stale = false;
                Some(listings)
            }
            Err(error) => {
                self.why.refused(&error);
                self.is_stale = true;
                if matches!(error, HostError::NotHere(_)) {
                    // Switched off: what was seen before says nothing about what follows.
                    self.known.clear();
                }
                None
            }
        }
    }

    fn meet(&mut self, listings: Vec<Listing>) {
        for listing in listings {
            let Some(youngest) = listing.rows.last() else { continue };
            let history = self.history_of(listing.lruvec);
            self.known.insert(listing.lruvec, Known { max_gen_nr: youngest.seq, history });
        }
    }

    /// History of a group. The history itself detects that a new group has the number of one that is gone.
    fn history_of(&mut self, lruvec: Lruvec) -> History {
        self.known.remove(&lruvec).map_or_else(|| History::new(LOOKS), |known| known.history)
    }

    fn age(&mut self, host: &mut dyn GenerationsHost) {
        let EstimatorConfig { can_swap, force_scan, .. } = self.config;
        let orders: Vec<Ageing> = (self.known.iter())
            .map(|(&lruvec, known)| Ageing { lruvec, max_gen_nr: known.max_gen_nr, swappiness: can_swap, force_scan })
            .collect();
        if orders.is_empty() {
            return;
        }
        let mut answers = Vec::with_capacity(orders.len());
        host.age_generations(&orders, &mut answers);
        for answer in answers {
            match answer {
                Answer::Done { .. } | Answer::Partly { .. } => self.why.count(GenerationReason::Aged, 0),
                Answer::NotHere(missing) => self.why.refused(&HostError::NotHere(missing)),
                // The next reading shows whether the group is gone, or another one has its number.
                Answer::Failed(cause) => self.why.refused(&HostError::Failed(cause)),
            }
        }
    }

    fn sample(&mut self, now: Instant, listings: Vec<Listing>) -> Reading {
        let window_ms = self.config.window().ns() / 1_000_000;
        let mut known = BTreeMap::new();
        let mut groups = Vec::with_capacity(listings.len());
        for listing in listings {
            let Some(GenerationRow { seq, .. }) = listing.rows.last().copied() else { continue };
            let mut history = self.history_of(listing.lruvec);
            history.push(now, &listing.rows);
            let cold = history.cold_bounds(window_ms).unwrap_or_default();
            known.insert(listing.lruvec, Known { max_gen_nr: seq, history });
            groups.push(GroupReading { estimate: estimate(&listing.rows, window_ms), cold, listing });
        }
        self.known = known;
        Reading { at_ns: now.ns(), groups }
    }
}
