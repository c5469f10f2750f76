//! What the writes of a section can stall.

use isotherm_core::vocabulary::Action;
use std::collections::BTreeSet;

/// What the writes of a section can stall: tasks of groups, or all tasks of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Reach {
    pub(super) machine: bool,
    /// Paths. None of them is below another one: pressure of a group includes the groups below it.
    pub(super) groups: BTreeSet<String>,
}

impl Reach {
    /// Of a section that takes memory of the machine, or acts on memory of everyone.
    pub(in super::super) fn machine() -> Self {
        Self { machine: true, groups: BTreeSet::new() }
    }

    /// Of a section that acts on memory of these groups alone. The root group is the machine.
    pub(in super::super) fn groups<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let all: BTreeSet<&str> = paths.into_iter().collect();
        let is_outermost = |path: &&&str| above(path).all(|above| !all.contains(above));
        let outermost = all.iter().filter(|path| **path != "/").filter(is_outermost);
        Self { machine: all.contains("/"), groups: outermost.map(|path| (*path).to_owned()).collect() }
    }

    /// The same, and the machine if `takes`.
    pub(in super::super) fn and_machine(self, takes: bool) -> Self {
        Self { machine: self.machine || takes, ..self }
    }
}

/// Whether an action on memory of a process takes memory that others need: of the machine, or of a node.
pub(in super::super) fn takes_from_all(action: Action) -> bool {
    match action {
        Action::Willneed | Action::Hugepage | Action::Collapse | Action::MigrateHot | Action::MigrateCold => true,
        Action::Stat | Action::Cold | Action::Pageout | Action::Nohugepage | Action::LruPrio | Action::LruDeprio => {
            false
        }
    }
}

/// Paths of the groups above a group, from the nearest up, without the root.
pub(super) fn above(path: &str) -> impl Iterator<Item = &str> {
    path.rmatch_indices('/').map(|(at, _)| &path[..at]).filter(|above| !above.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_groups_speak_for_those_below() {
        let reach = Reach::groups(["/a/b", "/a", "/a/b/c", "/ab", "/d/e"]);
        assert_eq!(reach.groups.iter().collect::<Vec<_>>(), ["/a", "/ab", "/d/e"]);
        assert!(!reach.machine && Reach::groups(["/"]).machine);
        assert_eq!(above("/a/b/c").collect::<Vec<_>>(), ["/a/b", "/a"]);
    }
}
