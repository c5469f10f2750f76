//! Actions of schemes on memory: one table of all actions.

use serde::{Deserialize, Serialize};

/// Action on a region (docs/spec/schemes.md#s10; work of the host for each: [`Applying::apply`](crate::host::Applying::apply)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Nothing: regions are counted and keep their age.
    #[default]
    Stat,
    /// Bring in memory that was swapped out or not read yet.
    Willneed,
    /// Make it the first that reclaim takes.
    Cold,
    /// Reclaim the region now.
    Pageout,
    /// Back it by huge pages as chances come.
    Hugepage,
    /// Do not back it by huge pages.
    Nohugepage,
    /// Back it by huge pages at once.
    Collapse,
    /// Move it to the head of the active list, or to a young generation.
    #[serde(alias = "lru_prio")]
    LruPrio,
    /// Move it to the inactive list, or to an old generation.
    #[serde(alias = "lru_deprio")]
    LruDeprio,
    /// Migrate to other nodes, hottest regions first.
    #[serde(alias = "migrate_hot")]
    MigrateHot,
    /// Migrate to other nodes, coldest regions first.
    #[serde(alias = "migrate_cold")]
    MigrateCold,
}

/// Order in which an action treats regions when a quota does not allow all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scorer {
    /// Regions used often and for long come first.
    Hot,
    /// Regions unused for long come first.
    Cold,
    /// All regions rank the same.
    Equal,
}

/// An action with its name and the kinds of address space that it applies to; an entry of [`ACTIONS`].
#[derive(Clone, Copy, Debug)]
pub struct ActionEntry {
    pub action: Action,
    /// Name of the action in files; underscores are taken as well.
    pub name: &'static str,
    /// Order of the regions on physical memory; `None`: not an action for it.
    pub physical: Option<Scorer>,
    /// Order of the regions in a process; `None`: not an action for it.
    pub virtual_space: Option<Scorer>,
}

const fn entry(
    action: Action,
    name: &'static str,
    physical: Option<Scorer>,
    virtual_space: Option<Scorer>,
) -> ActionEntry {
    ActionEntry { action, name, physical, virtual_space }
}

pub const ACTIONS: &[ActionEntry] = {
    use Scorer::{Cold, Equal, Hot};
    &[
        entry(Action::Stat, "stat", Some(Equal), Some(Equal)),
        entry(Action::Willneed, "willneed", None, Some(Equal)),
        entry(Action::Cold, "cold", None, Some(Equal)),
        entry(Action::Pageout, "pageout", Some(Cold), Some(Cold)),
        entry(Action::Hugepage, "hugepage", None, Some(Equal)),
        entry(Action::Nohugepage, "nohugepage", None, Some(Equal)),
        entry(Action::Collapse, "collapse", None, Some(Equal)),
        entry(Action::LruPrio, "lru-prio", Some(Hot), Some(Hot)),
        entry(Action::LruDeprio, "lru-deprio", Some(Cold), Some(Cold)),
        entry(Action::MigrateHot, "migrate-hot", Some(Hot), Some(Hot)),
        entry(Action::MigrateCold, "migrate-cold", Some(Cold), Some(Cold)),
    ]
};

impl Action {
    /// The entry of this action in [`ACTIONS`].
    pub fn entry(self) -> &'static ActionEntry {
        ACTIONS.iter().find(|entry| entry.action == self).expect("every action has a line")
    }

    /// Name of the action in files, in kebab-case.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Order of the regions; `None` if the space has no such action.
    pub fn scorer(self, is_physical: bool) -> Option<Scorer> {
        if is_physical { self.entry().physical } else { self.entry().virtual_space }
    }

    /// Whether the action needs a node.
    pub const fn migrates(self) -> bool {
        matches!(self, Self::MigrateHot | Self::MigrateCold)
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, Serialize, PartialEq, Debug)]
    struct One {
        action: Action,
    }

    #[test]
    fn names_are_read_in_both_spellings() {
        for entry in ACTIONS {
            for name in [entry.name.to_owned(), entry.name.replace('-', "_")] {
                let read: One = toml::from_str(&format!("action = \"{name}\"")).expect("a name of the table");
                assert_eq!(read.action, entry.action);
            }
            let written = toml::to_string(&One { action: entry.action }).expect("plain");
            assert_eq!(written.trim(), format!("action = \"{}\"", entry.name));
        }
    }
}
