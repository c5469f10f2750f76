//! How groups waited for memory, from the top of the tree down.

use crate::cgroup::{Group, Hierarchy};
use crate::counters::{Counters, memory_stat, parsed, pressure};
use crate::{LiveError, Root};
use isotherm_texts::pressure::Stall;
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt as _;

/// Most groups that are read, three small files each.
const GROUPS_MAX: usize = 64;

/// How a group, with those below it, waited for memory. Totals since it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStall {
    /// Path in the hierarchy, with a leading slash.
    pub path: String,
    /// Microseconds in which all its tasks waited; `None` if the kernel does not measure it.
    pub full_us: Option<u64>,
    /// How often it was at its own `memory.high` or `memory.max`; for one that was handed over to a user, also how often groups in it were.
    pub limit_hits: u64,
    /// Whether all groups directly below it are listed, or it was handed over to a user.
    pub is_whole: bool,
}

/// Reads groups, those nearest to the top first, up to 64 of them. Groups in one that was handed over to a user (its folder has another
/// owner than the tree) are not listed: the user makes as many as they like, and sets their limits.
///
/// Empty if more than 64 groups are at the top.
///
/// # Errors
/// [`LiveError::NotHere`] if there is no version 2 of control groups, with the memory controller.
pub fn group_stalls(root: &Root) -> Result<Vec<GroupStall>, LiveError> {
    let all = Hierarchy::find(root)?;
    let top = all.group("/")?;
    let owner = owner_of(root, &top);
    let mut queue: VecDeque<String> = sorted(&top).into();
    let mut found: BTreeMap<String, GroupStall> = BTreeMap::new();
    while let Some(path) = queue.pop_front() {
        if found.len() >= GROUPS_MAX {
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            let Some(above) = found.get_mut(above) else { return Ok(Vec::new()) };
            above.is_whole = false;
            continue;
        }
        // A group may be removed during the search.
        let Ok(group) = all.group(&path) else { continue };
        let is_handed_over = owner_of(root, &group) != owner;
        if !is_handed_over {
            queue.extend(sorted(&group));
        }
        found.insert(path, stall(root, &group, is_handed_over));
    }
    Ok(found.into_values().collect())
}

fn sorted(group: &Group) -> Vec<String> {
    let mut below = group.below();
    below.sort_unstable();
    below
}

fn owner_of(root: &Root, group: &Group) -> Option<u32> {
    std::fs::metadata(root.path(group.folder())).ok().map(|data| data.uid())
}

fn stall(root: &Root, group: &Group, is_handed_over: bool) -> GroupStall {
    let full = pressure::of_group(root, group.folder(), pressure::Resource::Memory).ok().and_then(|all| all.full);
    let own = || parsed(root, group.folder().join("memory.events.local"), Counters::parse);
    let events = if is_handed_over { memory_stat::read_events(root, group.folder()) } else { own() };
    let hits = events.map_or(0, |events| events.sum(&["high", "max"]).unwrap_or(0));
    GroupStall {
        path: group.path().to_owned(),
        full_us: full.map(|Stall { total_us, .. }| total_us),
        limit_hits: hits,
        is_whole: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn group(folder: &std::path::Path, path: &str, us: u64, own: u64, all: u64) {
        let path = folder.join("sys/fs/cgroup").join(path);
        fs::create_dir_all(&path).unwrap();
        let line = |kind: &str, us: u64| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n");
        fs::write(path.join("memory.pressure"), line("some", us * 2) + &line("full", us)).unwrap();
        for (file, hits) in [("memory.events.local", own), ("memory.events", all)] {
            fs::write(path.join(file), format!("low 9\nhigh {hits}\nmax 1\noom 0\n")).unwrap();
        }
    }

    fn tree() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("sys/fs/cgroup")).unwrap();
        fs::write(folder.path().join("sys/fs/cgroup/cgroup.controllers"), "memory\n").unwrap();
        let root = Root::below(folder.path());
        (folder, root)
    }

    #[test]
    fn limits_count_for_the_group_that_has_them() {
        let (folder, root) = tree();
        group(folder.path(), "app", 5, 0, 70);
        group(folder.path(), "app/web", 6, 70, 70);
        fs::create_dir_all(folder.path().join("sys/fs/cgroup/init.scope")).unwrap();
        let row =
            |path: &str, full_us, limit_hits| GroupStall { path: path.to_owned(), full_us, limit_hits, is_whole: true };
        let expected = [row("/app", Some(5), 1), row("/app/web", Some(6), 71), row("/init.scope", None, 0)];
        assert_eq!(group_stalls(&root).unwrap(), expected);
        // Only root can give a folder away.
        if std::os::unix::fs::chown(root.path("/sys/fs/cgroup/app"), Some(65_534), None).is_ok() {
            assert_eq!(group_stalls(&root).unwrap(), [row("/app", Some(5), 71), expected[2].clone()]);
        }
        assert!(group_stalls(&Root::below(folder.path().join("x"))).is_err());
    }

    #[test]
    fn a_tree_of_many_groups_is_read_from_the_top_and_not_further() {
        let (folder, root) = tree();
        for number in 0..100 {
            group(folder.path(), &format!("pods/pod{number:03}/c"), 1, 0, 0);
        }
        group(folder.path(), "zoo", 1, 0, 0);
        group(folder.path(), "pods", 1, 0, 0);
        let found = group_stalls(&root).unwrap();
        let whole = |path: &str| found.iter().find(|one| one.path == path).map(|one| one.is_whole);
        assert_eq!(
            (found.len(), whole("/pods"), whole("/zoo"), whole("/pods/pod000")),
            (64, Some(false), Some(true), Some(false))
        );
        for number in 0..64 {
            group(folder.path(), &format!("top{number}"), 1, 0, 0);
        }
        assert_eq!(group_stalls(&root).unwrap(), [], "there is no telling who waits");
    }
}
