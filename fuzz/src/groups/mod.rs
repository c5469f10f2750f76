//! The targets. One file a group, one line a target.

mod configs;
mod imports;
mod kernel;
mod planted;
mod traces;
mod units;
mod wire;

use crate::target::Target;

/// Every group: its name on the command line, and its targets.
pub const GROUPS: &[(&str, &[Target])] = &[
    ("units", units::TARGETS),
    ("traces", traces::TARGETS),
    ("imports", imports::TARGETS),
    ("kernel", kernel::TARGETS),
    ("configs", configs::TARGETS),
    ("wire", wire::TARGETS),
];

/// Every target.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    GROUPS.iter().flat_map(|(_, targets)| targets.iter())
}

/// The target of that name, or the targets of that group; none if it is neither. Planted faults have names, but are in no list.
pub fn named(name: &str) -> Vec<&'static Target> {
    let of_group = GROUPS.iter().filter(|(group, _)| *group == name).flat_map(|(_, targets)| targets.iter());
    of_group.chain(targets().chain(planted::TARGETS).filter(|target| target.name == name)).collect()
}
