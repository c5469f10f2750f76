//! Resolves the targets of a section to current processes and their groups.

use super::gate::Skipped;
use super::{Running, System, SystemError};
use crate::config::{Config, Target};
use std::collections::BTreeMap;

/// Processes of one group, or one process named individually.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedTarget {
    /// Unit that appears and ends as a whole: a named group, or a process.
    pub(super) top: String,
    /// Path of the group that the processes are in.
    pub(super) group: String,
    pub(super) processes: Vec<u32>,
    /// Name of the program, for a process named individually: of its file, which the process cannot choose for itself.
    command: Option<String>,
}

impl ResolvedTarget {
    /// Name of the left-alone or monitored target: a group, or a single process.
    pub(super) fn name(&self) -> &str {
        if self.command.is_some() { &self.top } else { &self.group }
    }

    /// Returns whether the target is left alone, and if so, notes it.
    pub(super) fn is_spared(&self, spared: &mut Skipped, world: &mut dyn System) -> bool {
        match &self.command {
            None => spared.has(&self.group, world),
            Some(command) => spared.has_process(&self.top, command, &self.group, world),
        }
    }
}

/// Processes that a target means; none for physical memory.
///
/// # Errors
/// [`SystemError`].
pub(super) fn resolve(target: &Target, world: &mut dyn System) -> Result<Vec<ResolvedTarget>, SystemError> {
    let mut all = Vec::new();
    match target {
        Target::Physical => {}
        Target::Groups(pattern) => {
            for top in world.groups(pattern)? {
                let members = world.members(&top)?.into_iter();
                all.extend(members.map(|member| ResolvedTarget {
                    top: top.clone(),
                    group: member.path,
                    processes: member.processes,
                    command: None,
                }));
            }
        }
        Target::Command(_) | Target::Process(_) => {
            let named = |Running { process, command, file, group }| ResolvedTarget {
                top: format!("process {process} ({command})"),
                group,
                processes: vec![process],
                command: Some(file.unwrap_or(command)),
            };
            all.extend(world.processes(target)?.into_iter().map(named));
        }
    }
    Ok(all)
}

/// The same for entries of a section's `targets`: each group or process once, with the first entry that matches it.
///
/// # Errors
/// [`SystemError`].
pub(super) fn whom_of<'a>(
    entries: &'a [String],
    config: &Config,
    world: &mut dyn System,
) -> Result<Vec<(ResolvedTarget, &'a str)>, SystemError> {
    let mut all: BTreeMap<String, (ResolvedTarget, &str)> = BTreeMap::new();
    for entry in entries {
        // The check refuses unknown names.
        let Ok(target) = config.target_of(entry, "") else { continue };
        for one in resolve(&target, world)? {
            all.entry(one.name().to_owned()).or_insert((one, entry));
        }
    }
    Ok(all.into_values().collect())
}
