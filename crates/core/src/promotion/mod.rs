//! Promotion between memory tiers by scans of accessed bits: which space is scanned when and how far, which pages are worth
//! moving, and where to.
//!
//! [`Promotion`] is the scan daemon. A thread scans spaces in turn and queues pages of slow nodes that are used; the same thread or another
//! moves them to a node of the top tier. The period and size of a space's scans follow from the findings of its last two scans
//! ([`Throttle`]). The modes `v0` to `v3` are the versions of kmmscand; `rch`, the default, scans the hot regions of a space first and goes
//! round the rest at its own rate.
//!
//! [`hint_fault`] has the decisions of NUMA balancing, the alternative to it.
//!
//! Sections named in comments are sections of the project's specification `docs/spec/promotion.md`. Design and departures in one place:
//! `docs/mechanism/promotion.md`.

mod config;
mod counters;
mod daemon;
mod eligible;
mod error;
#[cfg(test)]
pub(crate) mod fake;
mod feedback;
mod heat;
pub mod hint_fault;
mod knobs;
mod linear;
mod migrate;
mod mode;
mod queue;
mod range_scan;
mod rate;
mod rotate;
mod scan;
mod slot;
mod target_node;
#[cfg(test)]
mod tests;
mod throttle;

pub use crate::vocabulary::{Bit, Flow, NodeTally, PageMarks, PageRule, Run, ScanFilter, ScannedPage};
pub use config::PromotionConfig;
pub use counters::PromotionCounters;
pub use eligible::{Obstacle, obstacle};
pub use error::PromotionError;
pub use knobs::KNOBS;
pub use migrate::MigrationReport;
pub use mode::{Limits, MODES, Mode, ModeEntry, Turn};
pub use scan::ScanReport;
pub use slot::SpaceReport;
pub use target_node::TargetRule;
pub use throttle::{Case, SCALE_MAX, Stretch, Throttle, Throttling};

use crate::host::{HostError, NodeId, PromotionHost, TargetId, TieringCapabilities};
use crate::monitor::Random;
use isotherm_units::{Duration, Instant};
use queue::{MigrationList, SlotKey};
use rotate::RotateRules;
use slot::Slot;
use std::collections::BTreeMap;

/// The daemon's threads, which a driver may give CPU time of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thread {
    /// The scanning thread, `kmmscand`.
    Scan,
    /// `kmmmigrated`. In `v0` it is never due: the scanning thread moves pages.
    Migrate,
}

/// Results of one call of [`Promotion::handle_timeout`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeoutReport {
    /// CPU time of the thread that the host reported. The driver adds the time of its own decisions.
    pub spent: Duration,
    /// The scan that ended in this call; `None` if none did.
    pub scan: Option<ScanReport>,
    /// The batch that was handled in this call; `None` if none was.
    pub migration: Option<MigrationReport>,
}

/// The scan daemon, driven from outside: call [`handle_timeout`](Self::handle_timeout) for a thread at the time that
/// [`poll_timeout`](Self::poll_timeout) returns. One call does one bounded piece of work; a driver that charges CPU time calls again once
/// that time has passed.
#[derive(Clone, Debug)]
pub struct Promotion {
    config: PromotionConfig,
    /// The mode's limits, with the configured exceptions.
    limits: Limits,
    rules: RotateRules,
    host_has: TieringCapabilities,
    random: Random,
    slots: BTreeMap<SlotKey, Slot>,
    keys: BTreeMap<TargetId, SlotKey>,
    next_key: SlotKey,
    scanner: scan::Scanner,
    mover: migrate::Mover,
    list: MigrationList,
    filter: ScanFilter,
    counters: PromotionCounters,
}

impl Promotion {
    /// A daemon without spaces. Daemons of one run get different seeds: [`context_seed`](crate::monitor::context_seed).
    ///
    /// # Errors
    /// The first value of `config` outside its limits, or the feature that the host lacks.
    pub fn new(config: PromotionConfig, seed: u64, host: &dyn PromotionHost) -> Result<Self, PromotionError> {
        config.validate()?;
        let host_has = host.tiering_capabilities();
        let limits = config.limits();
        admit(&config, &limits, &host_has)?;
        let tally = |node: &crate::host::TierNode| NodeTally {
            node: node.node,
            is_top_tier: node.is_top_tier,
            scanned: 0,
            accessed: 0,
        };
        Ok(Self {
            rules: RotateRules {
                cover_ms: config.cover_ms(),
                nr_probes: config.nr_probes(),
                probe_above: config.probe_above_bytes(),
                has_page_nodes: host_has.page_nodes,
            },
            filter: ScanFilter {
                rule: limits.rule,
                skips_unmovable: limits.skips_unmovable,
                stops_at_hole: limits.stops_at_hole,
                splits_huge: limits.splits_huge,
                nodes: host_has.nodes.iter().map(tally).collect(),
                ..ScanFilter::default()
            },
            random: Random::new(seed),
            slots: BTreeMap::new(),
            keys: BTreeMap::new(),
            next_key: 0,
            scanner: scan::Scanner::default(),
            mover: migrate::Mover::default(),
            list: MigrationList::new(limits.turn),
            counters: PromotionCounters::default(),
            host_has,
            limits,
            config,
        })
    }

    /// A space has come, by exec or fork. The child of a fork has its parent's scale.
    ///
    /// # Errors
    /// It is here already.
    pub fn enter(&mut self, target: TargetId, parent: Option<TargetId>, now: Instant) -> Result<(), PromotionError> {
        if self.keys.contains_key(&target) {
            return Err(PromotionError::Space { target, why: "is being scanned already" });
        }
        let scale = parent.and_then(|parent| self.slot(parent)).map_or(1, |slot| slot.scale);
        let slot = Slot::new(target, &self.limits, self.config.period_ms(), scale, now);
        self.slots.insert(self.next_key, slot);
        self.keys.insert(target, self.next_key);
        self.next_key += 1;
        Ok(())
    }

    /// A space has ended. Its queued pages are dropped, and a scan of it ends at once. Takes time for its own pages only. `false`: it was
    /// not here.
    pub fn exit(&mut self, target: TargetId) -> bool {
        let Some(key) = self.keys.remove(&target) else { return false };
        self.slots.remove(&key);
        self.counters.dropped_exit += self.list.clear(key);
        self.scanner.forget(key);
        true
    }

    /// Takes in all spaces that the host lists, and drops those that it no longer lists. Returns the numbers of new and of ended spaces.
    ///
    /// # Errors
    /// [`HostError::NotHere`] from a host whose driver calls [`enter`](Self::enter) and [`exit`](Self::exit).
    pub fn find_spaces(&mut self, now: Instant, host: &mut dyn PromotionHost) -> Result<(u64, u64), HostError> {
        let mut there = Vec::new();
        host.spaces(&mut there)?;
        let gone: Vec<TargetId> =
            self.keys.keys().filter(|target| there.binary_search(target).is_err()).copied().collect();
        let (mut came, mut went) = (0, 0);
        for target in gone {
            went += u64::from(self.exit(target));
        }
        for target in there {
            came += u64::from(self.enter(target, None, now).is_ok());
        }
        Ok((came, went))
    }

    /// When a thread wants to be called next; `None` while it has no work. A time that has passed means at once. May change after
    /// any call.
    pub fn poll_timeout(&self, thread: Thread) -> Option<Instant> {
        match thread {
            Thread::Scan => self.poll_scan(),
            Thread::Migrate => self.poll_migrate(),
        }
    }

    /// The thread that wants to be called next, and when; the scanner among equals.
    pub fn next_timeout(&self) -> Option<(Instant, Thread)> {
        let due = |thread| self.poll_timeout(thread).map(|at| (at, thread));
        [Thread::Scan, Thread::Migrate].into_iter().filter_map(due).min()
    }

    /// Does the next piece of work of a thread that is due at `now`. Early calls do nothing.
    pub fn handle_timeout(&mut self, thread: Thread, now: Instant, host: &mut dyn PromotionHost) -> TimeoutReport {
        if self.poll_timeout(thread).is_none_or(|at| at > now) {
            return TimeoutReport::default();
        }
        let step = match thread {
            Thread::Scan => self.handle_scan(now, host),
            Thread::Migrate => self.handle_migrate(now, host),
        };
        debug_assert_eq!(self.counters.outstanding(), self.list.folios(), "each entry ends in one way");
        step
    }

    /// The space whose mappings the scanner has locked for reading, from the first part of a scan to its last: writers of its
    /// mappings, and its exit, wait.
    pub fn locked_space(&self) -> Option<TargetId> {
        self.scanner.job_key().and_then(|key| self.slots.get(&key)).map(|slot| slot.target)
    }

    /// State of a space; `None` if it is not here.
    pub fn space(&self, target: TargetId) -> Option<SpaceReport> {
        let key = self.keys.get(&target)?;
        self.slots.get(key).map(|slot| slot.report(self.list.folios_of(*key)))
    }

    /// All spaces, in the order of their numbers.
    pub fn spaces(&self) -> impl Iterator<Item = TargetId> + '_ {
        self.keys.keys().copied()
    }

    /// Number of folios that wait to be moved.
    pub fn queued(&self) -> u64 {
        self.list.folios()
    }

    /// Counts since the daemon was made.
    pub fn counters(&self) -> &PromotionCounters {
        &self.counters
    }

    /// The configuration in force.
    pub fn config(&self) -> &PromotionConfig {
        &self.config
    }

    fn slot(&self, target: TargetId) -> Option<&Slot> {
        self.slots.get(self.keys.get(&target)?)
    }
}

/// Whether the host has the features that the configuration needs.
fn admit(config: &PromotionConfig, limits: &Limits, has: &TieringCapabilities) -> Result<(), PromotionError> {
    let not_here = |needs| Err(PromotionError::NotHere { mode: config.mode().entry().name, needs });
    if !has.scan_accessed {
        return not_here("scans of ranges for accessed pages");
    }
    if !has.migrate {
        return not_here("moves of pages between nodes");
    }
    if limits.only_active && !has.knows_active {
        return not_here("moves of active pages only");
    }
    for (tier, is_top_tier) in [("fast", true), ("slow", false)] {
        if !has.nodes.iter().any(|node| node.is_top_tier == is_top_tier && node.has_memory) {
            return Err(PromotionError::OneTier { tier, nodes: listed(has.nodes.iter().map(|node| node.node)) });
        }
    }
    check_target_node(NodeId(config.target_node), has)
}

/// Whether pages can be promoted to `node`.
fn check_target_node(node: NodeId, has: &TieringCapabilities) -> Result<(), PromotionError> {
    let why = match has.nodes.iter().find(|other| other.node == node) {
        None => "is not there",
        Some(found) if !found.is_top_tier => "is not of the top tier",
        Some(found) if !found.has_memory => "has no memory",
        Some(_) => return Ok(()),
    };
    let good = has.nodes.iter().filter(|node| node.is_top_tier && node.has_memory);
    Err(PromotionError::TargetNode { node, why, allowed: listed(good.map(|node| node.node)) })
}

/// `node 0, node 2`, or `none`.
fn listed(nodes: impl Iterator<Item = NodeId>) -> String {
    let names: Vec<String> = nodes.map(|node| format!("node {}", node.0)).collect();
    if names.is_empty() { "no nodes".to_owned() } else { names.join(", ") }
}
