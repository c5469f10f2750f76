//! Resolves the targets of a section to current processes and their groups.

use super::gate::Skipped;
use super::trouble::TargetError;
use super::{Running, System, SystemError};
use crate::config::{Config, Target};
use std::collections::{BTreeMap, BTreeSet};

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

    /// The group whose pressure tells what acting on it does.
    pub(super) fn domain(&self) -> &str {
        if self.command.is_some() { &self.group } else { &self.top }
    }

    /// Whether it is left alone; if so, notes it.
    pub(super) fn is_spared(&self, spared: &mut Skipped, world: &mut dyn System) -> bool {
        match &self.command {
            None => spared.has(&self.group, world),
            Some(command) => spared.has_process(&self.top, command, &self.group, world),
        }
    }
}

/// Most processes that one section watches: each adds regions, and work.
pub(super) const PROCESSES_MAX: usize = 256;

/// The processes of a section that are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Crowd {
    /// Of more than may be watched the largest ones, the largest first; else all, by number.
    pub(super) watched: Vec<u32>,
    pub(super) left_out: usize,
}

impl Crowd {
    /// Of these, ascending by number.
    pub(super) fn of(all: Vec<u32>, world: &mut dyn System) -> Self {
        if all.len() <= PROCESSES_MAX {
            return Self { watched: all, left_out: 0 };
        }
        let watched = world.largest(&all, PROCESSES_MAX);
        Self { left_out: all.len() - watched.len(), watched }
    }

    /// Those that must be watched. Where some are left out the smaller half need not: sizes change all the time, and each change of what
    /// is watched may cost what is known.
    pub(super) fn needed(&self) -> &[u32] {
        if self.left_out == 0 { &self.watched } else { &self.watched[..self.watched.len() / 2] }
    }

    /// Which to watch, where those of `now` are watched already and are still there.
    pub(super) fn with_those_of(&self, now: impl Iterator<Item = u32>) -> BTreeSet<u32> {
        let mut kept: BTreeSet<u32> = self.needed().iter().copied().collect();
        for process in now.chain(self.watched.iter().copied()) {
            if kept.len() < self.watched.len() {
                kept.insert(process);
            }
        }
        kept
    }

    /// That some are left out.
    pub(super) fn trouble(&self) -> Option<TargetError> {
        let Self { watched, left_out } = self;
        (*left_out > 0).then_some(TargetError::Unwatched { watched: watched.len(), left_out: *left_out })
    }
}

/// Those of `all` that are meant, asked for one by one. `None` if the daemon has to end meanwhile: thousands of groups take longer than an
/// end may.
pub(super) fn meant<T, C: Default + Extend<T>>(
    all: impl IntoIterator<Item = T>,
    world: &mut dyn System,
    mut is_meant: impl FnMut(&T, &mut dyn System) -> bool,
) -> Option<C> {
    let mut found = C::default();
    for one in all {
        if world.has_to_end() {
            return None;
        }
        if is_meant(&one, world) {
            found.extend([one]);
        }
    }
    Some(found)
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
                if world.has_to_end() {
                    return Err(SystemError::new("the daemon has to end"));
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_watched_stays_unless_a_large_one_needs_the_place() {
        let crowd = Crowd { watched: vec![9, 8, 3, 4], left_out: 6 };
        assert_eq!(crowd.needed(), [9, 8]);
        assert_eq!(crowd.with_those_of([1, 2, 3].into_iter()), BTreeSet::from([1, 2, 8, 9]));
        assert_eq!(crowd.with_those_of([].into_iter()), BTreeSet::from([3, 4, 8, 9]));
        assert_eq!(crowd.trouble(), Some(TargetError::Unwatched { watched: 4, left_out: 6 }));
        let all = Crowd { watched: vec![1, 2], left_out: 0 };
        assert_eq!((all.needed(), all.trouble()), (&[1, 2][..], None));
    }
}
