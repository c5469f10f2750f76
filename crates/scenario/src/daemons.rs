//! Daemons in a scenario file: one trait for checking their tables and attaching them to machines.
//!
//! A new kind is one file that implements [`DaemonSpec`] for its table, and one line in [`entry`].

use crate::compaction::CompactionSpec;
use crate::monitoring::{MonitorSpec, Observer, WatchPlan};
use crate::validate::{Checked, Refused};
use crate::{GenerationsSpec, Scenario, ScenarioError, limits, tiering};
use isotherm_core::daemon::Kind;
use isotherm_document::KeyPath;
use isotherm_sim::machine::{MachineBuilder, ProgramId, SimError};
use std::collections::BTreeMap;

/// The table of one daemon.
pub(crate) trait DaemonSpec: Sized {
    const KIND: Kind;
    /// Key of all tables of its kind.
    const SECTION: &'static str;
    /// Plural of its kind, for messages.
    const SEVERAL: &'static str;

    /// All tables of its kind.
    fn tables(scenario: &Scenario) -> &[Self];

    /// Name of the daemon in results.
    fn name(&self) -> &str;

    /// Checks it, together with those before it.
    fn check(&self, earlier: &[Self], scenario: &Scenario) -> Result<(), Misplaced>;

    /// Puts all of its kind on a machine.
    fn attach(site: &mut Site<'_>) -> Result<(), ScenarioError>;
}

/// A key of a daemon's table, and its error.
pub(crate) type Misplaced = (KeyPath, String);

/// A machine that is being put together.
pub(crate) struct Site<'a> {
    pub(crate) builder: &'a mut MachineBuilder,
    pub(crate) scenario: &'a Scenario,
    pub(crate) seed: u64,
    /// Paths of the groups on it.
    pub(crate) groups: &'a [&'a str],
    /// The number of each workload on it.
    pub(crate) programs: &'a BTreeMap<usize, ProgramId>,
    /// Limits are in force. Without them, peaks are measured: no daemon may free or compact memory.
    pub(crate) has_limits: bool,
    /// Targets of monitors, until they are attached.
    pub(crate) watched: Option<WatchPlan<'a>>,
    /// Observers of the monitors.
    pub(crate) observers: Vec<Observer>,
    /// An error of the machine, with the run that it is of.
    pub(crate) error: &'a dyn Fn(SimError) -> ScenarioError,
}

/// Functions of one kind of daemon.
pub(crate) struct Entry {
    /// Whether a scenario's tables make sense.
    pub(crate) check: fn(&Scenario) -> Checked,
    /// Attaches them to a machine.
    pub(crate) attach: fn(&mut Site<'_>) -> Result<(), ScenarioError>,
}

/// The functions of a kind.
pub(crate) const fn entry(kind: Kind) -> Entry {
    match kind {
        Kind::Monitor => of::<MonitorSpec>(),
        // A policy over tiers is one of the whole machine: it has no name, and brings a daemon or none.
        Kind::Promotion => Entry { check: tiering::check, attach: tiering::attach },
        Kind::Generations => of::<GenerationsSpec>(),
        // The name of such a daemon is its group.
        Kind::Limits => Entry { check: limits::check, attach: limits::attach },
        Kind::Compaction => of::<CompactionSpec>(),
    }
}

const fn of<S: DaemonSpec>() -> Entry {
    Entry { check: check::<S>, attach: S::attach }
}

fn check<S: DaemonSpec>(scenario: &Scenario) -> Checked {
    let tables = S::tables(scenario);
    for (index, table) in tables.iter().enumerate() {
        let (name, earlier) = (table.name(), &tables[..index]);
        let checked = if name.is_empty() {
            Err(("name".into(), "its name is empty; give it one".to_owned()))
        } else if earlier.iter().any(|earlier| earlier.name() == name) {
            Err(("name".into(), format!("two {} have this name; give each its own", S::SEVERAL)))
        } else {
            table.check(earlier, scenario)
        };
        checked.map_err(|(key, message)| {
            let place = KeyPath::from(S::SECTION).at(index).join(key);
            Refused::new(place, format!("{} `{name}`: {message}", S::KIND))
        })?;
    }
    Ok(())
}
