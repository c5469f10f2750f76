//! Memory cgroups, version 2: finds them by path or pattern, and reads their files.

mod named;
mod own;

use crate::counters::parsed;
use crate::{LiveError, Root};
pub use isotherm_texts::cgroup::Limit;
use isotherm_texts::cgroup::processes;
use isotherm_units::Bytes;
use isotherm_units::wildcard::fits;
pub use own::{Ceiling, OwnGroup, OwnGroups, Spent};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Mount points of version 2: alone, and next to version 1 by systemd.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Most groups that a pattern search visits.
const GROUPS_MAX: usize = 1 << 16;

/// The hierarchy of version 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    root: Root,
    /// Mount point, below the root.
    mount: PathBuf,
}

/// A group, which may have been removed since it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    root: Root,
    /// Folder of the group, below the root.
    folder: PathBuf,
    /// Path in the hierarchy, with a leading slash: `/app.slice/web.service`.
    path: String,
    /// Inode number, constant while the group exists; a new group of the same name has another.
    number: u64,
}

impl Hierarchy {
    /// Finds where version 2 with the memory controller is mounted.
    ///
    /// # Errors
    /// [`LiveError::NotHere`] that names the missing part: version 2, or the memory controller in it.
    pub fn find(root: &Root) -> Result<Self, LiveError> {
        let mut has_version_2 = false;
        for mount in MOUNTS {
            let Ok(controllers) = root.read(format!("{mount}/cgroup.controllers")) else { continue };
            has_version_2 = true;
            if controllers.split_whitespace().any(|name| name == "memory") {
                return Ok(Self { root: root.clone(), mount: mount.into() });
            }
        }
        let needs = if root.has("/sys/fs/cgroup/memory") {
            "the memory controller belongs to cgroup version 1 here, which isotherm does not use; boot with \
             `systemd.unified_cgroup_hierarchy=1`, so that version 2 has it"
        } else if has_version_2 {
            "cgroup version 2 has no memory controller here; boot without `cgroup_disable=memory` (on some boards with `cgroup_enable=memory`)"
        } else {
            "cgroup version 2 is not mounted; `mount -t cgroup2 none /sys/fs/cgroup` mounts it"
        };
        Err(LiveError::NotHere { what: "memory of cgroups", needs: needs.to_owned() })
    }

    /// Finds where version 2 is mounted, with or without the memory controller; for callers that only need the members of groups.
    ///
    /// # Errors
    /// [`LiveError::NotHere`].
    pub fn unified(root: &Root) -> Result<Self, LiveError> {
        match MOUNTS.iter().find(|mount| root.has(format!("{mount}/cgroup.controllers"))) {
            Some(mount) => Ok(Self { root: root.clone(), mount: mount.into() }),
            // `find` returns the cause.
            None => Self::find(root),
        }
    }

    /// The group whose folder has this inode number. Searches the tree, because the kernel has no lookup by number.
    pub fn numbered(&self, number: u64) -> Option<Group> {
        let mut open = vec!["/".to_owned()];
        for _ in 0..GROUPS_MAX {
            // A group may be removed during the search.
            let path = open.pop()?;
            let Ok(group) = self.group(&path) else { continue };
            if group.number == number {
                return Some(group);
            }
            open.extend(group.below());
        }
        None
    }

    /// The group at a path: in the hierarchy (`/app.slice/web.service`, with or without the slash), or with the mount point as
    /// prefix. A name without a slash may be that of a unit or a container too.
    ///
    /// # Errors
    /// [`LiveError::Refused`] for a path outside the hierarchy and for a name that several have, [`LiveError::Gone`] if there is no such
    /// group.
    pub fn group(&self, path: &str) -> Result<Group, LiveError> {
        match self.at(path) {
            Err(LiveError::Gone(_)) if !path.contains('/') && !path.is_empty() => self.named(path),
            found => found,
        }
    }

    fn at(&self, path: &str) -> Result<Group, LiveError> {
        let path = self.normal(path)?;
        let folder = self.mount.join(path.trim_start_matches('/'));
        match std::fs::metadata(self.root.path(&folder)) {
            Ok(data) if data.is_dir() => Ok(Group { root: self.root.clone(), folder, path, number: data.ino() }),
            _ => Err(LiveError::Gone(format!("there is no cgroup {path}; `systemd-cgls` lists those that there are"))),
        }
    }

    /// The group with guaranteed memory (`memory.min`, `memory.low`) that reclaim from this one would take from: this one or one above it,
    /// or, `with_below`, one directly below it. A guarantee counts as in the kernel (`mem_cgroup_calculate_protection`, mm/memcontrol.c,
    /// Linux 6.12): not beyond the guarantees of the groups above, except directly below the group that memory is reclaimed from. A
    /// guarantee that the owner of a group below wrote into a file of his own counts for nothing.
    ///
    /// # Errors
    /// As of [`group`](Self::group).
    pub fn guaranteed(&self, path: &str, with_below: bool) -> Result<Option<String>, LiveError> {
        let group = self.group(path)?;
        let owner = std::fs::metadata(self.root.path(&self.mount)).map_or(0, |data| data.uid());
        let mut found = None;
        let mut above = String::new();
        for name in group.path.split('/').filter(|name| !name.is_empty()) {
            above = format!("{above}/{name}");
            match self.group(&above)?.guarantee(owner) {
                Some(true) => found = Some(above.clone()),
                Some(false) => break,
                None => {}
            }
        }
        if found.is_none() && with_below {
            let is_guaranteed =
                |path: &String| self.group(path).is_ok_and(|group| group.guarantee(owner) == Some(true));
            found = group.below().into_iter().find(is_guaranteed);
        }
        Ok(found)
    }

    /// A path in the hierarchy, with one leading slash and no trailing one; `/` is the root.
    fn normal(&self, path: &str) -> Result<String, LiveError> {
        let inside = match Path::new(path).strip_prefix(&self.mount) {
            Ok(inside) => inside,
            Err(_) => Path::new(path),
        };
        let mut normal = String::new();
        for part in inside.components() {
            match part {
                Component::Normal(name) => {
                    normal.push('/');
                    normal.push_str(&name.to_string_lossy());
                }
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(LiveError::Refused(format!("the cgroup path {path} has `..` in it; write it out")));
                }
            }
        }
        Ok(if normal.is_empty() { "/".to_owned() } else { normal })
    }

    /// The groups whose path matches a pattern, by path. `*` matches any characters except a slash, `?` a single one.
    ///
    /// # Errors
    /// [`LiveError::Refused`] for a pattern outside the hierarchy.
    pub fn matching(&self, pattern: &str) -> Result<Vec<Group>, LiveError> {
        let pattern = self.normal(pattern)?;
        let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
        let mut found = vec!["/".to_owned()];
        for part in parts {
            let mut next = Vec::new();
            for path in found {
                let folder = self.mount.join(path.trim_start_matches('/'));
                // A group may be removed during the search.
                let Ok(entries) = std::fs::read_dir(self.root.path(folder)) else { continue };
                for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                    if let Some(name) = entry.file_name().to_str().filter(|name| fits(part, name)) {
                        next.push(format!("{}/{name}", path.trim_end_matches('/')));
                    }
                }
            }
            next.truncate(GROUPS_MAX);
            found = next;
        }
        found.sort_unstable();
        Ok(found.iter().filter_map(|path| self.group(path).ok()).collect())
    }
}

impl Group {
    /// Paths of its direct children.
    pub fn below(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.path(&self.folder)).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let path = self.path.trim_end_matches('/');
        folders.filter_map(|entry| Some(format!("{path}/{}", entry.file_name().to_str()?))).collect()
    }

    /// Path in the hierarchy, with a leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Folder of the group, below the root, for [`memory_stat`](crate::counters::memory_stat) and [`pressure`](crate::counters::pressure).
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Inode number.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the group still exists, and was not replaced by another of the same name.
    pub fn is_there(&self) -> bool {
        std::fs::metadata(self.root.path(&self.folder)).is_ok_and(|data| data.ino() == self.number)
    }

    /// PIDs of its processes, without those in groups below; empty for an empty group.
    ///
    /// # Errors
    /// [`LiveError::Io`], [`LiveError::Strange`].
    pub fn processes(&self) -> Result<Vec<u32>, LiveError> {
        parsed(&self.root, self.folder.join("cgroup.procs"), processes)
    }

    /// Bytes that are charged to it. The root group has no such file.
    ///
    /// # Errors
    /// As of [`limit`](Self::limit).
    pub fn current(&self) -> Result<Bytes, LiveError> {
        self.bytes("memory.current")
    }

    /// The size in one of its files: `memory.current`, `memory.peak` (5.19 and newer), `memory.swap.current`.
    ///
    /// # Errors
    /// As of [`limit`](Self::limit).
    pub fn bytes(&self, file: &str) -> Result<Bytes, LiveError> {
        let value = self.root.value(self.folder.join(file)).map(Bytes::new);
        value.map_err(|error| self.explained(file, error))
    }

    /// Value of one of `memory.high`, `memory.max`, `memory.min`, `memory.low`, `memory.swap.max`.
    ///
    /// # Errors
    /// [`LiveError::NotHere`] if the memory controller is off for this group, with how to switch it on; [`LiveError::Gone`];
    /// [`LiveError::Strange`].
    pub fn limit(&self, file: &str) -> Result<Limit, LiveError> {
        let limit = parsed(&self.root, self.folder.join(file), Limit::parse);
        limit.map_err(|error| self.explained(file, error))
    }

    /// Whether its own files guarantee memory to it; `None` if it has no such files. A file that cannot be read may guarantee some memory.
    /// `owner`: user whose files count.
    fn guarantee(&self, owner: u32) -> Option<bool> {
        let mut has_file = false;
        for file in ["memory.min", "memory.low"] {
            let is_owners =
                std::fs::metadata(self.root.path(self.folder.join(file))).is_ok_and(|data| data.uid() == owner);
            match self.limit(file) {
                Ok(Limit::At(bytes)) if bytes == Bytes::new(0) => has_file = true,
                Err(LiveError::NotHere { .. } | LiveError::Gone(_)) => {}
                _ if is_owners => return Some(true),
                _ => has_file = true,
            }
        }
        has_file.then_some(false)
    }

    /// Why a file of the memory controller is missing.
    fn explained(&self, file: &str, error: LiveError) -> LiveError {
        if !error.is_missing() {
            return error;
        }
        if !self.is_there() {
            return LiveError::Gone(format!("the cgroup {} has been removed", self.path));
        }
        let needs = match self.folder.parent() {
            _ if self.path == "/" => format!("the root group has no {file}; name a group below it"),
            Some(parent) => format!(
                "the cgroup {} has no {file}; `echo +memory > {}/cgroup.subtree_control` switches the memory controller on for it \
                 (or MemoryAccounting=yes in its unit), unless the kernel is too old for this file",
                self.path,
                parent.display()
            ),
            None => format!("the cgroup {} has no {file}", self.path),
        };
        LiveError::NotHere { what: "memory of a cgroup", needs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("sys/fs/cgroup").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::below(folder.path());
        (folder, root)
    }

    #[test]
    fn groups_by_number_are_those_of_their_folders() {
        let (_folder, root) =
            tree(&[("cgroup.controllers", "memory\n"), ("a/b/cgroup.procs", ""), ("c/cgroup.procs", "")]);
        let all = Hierarchy::find(&root).unwrap();
        for path in ["/", "/a", "/a/b", "/c"] {
            let group = all.group(path).unwrap();
            assert_eq!(all.numbered(group.number).unwrap(), group, "{path}");
        }
        assert!(all.numbered(1 << 60).is_none());
        assert!(matches!(all.group("/a/b/cgroup.procs"), Err(LiveError::Gone(_))), "a file is no group");
    }

    #[test]
    fn groups_by_path_and_pattern() {
        let (_folder, root) = tree(&[
            ("cgroup.controllers", "cpu memory\n"),
            ("app.slice/web-1.service/memory.current", "4096\n"),
            ("app.slice/web-1.service/memory.high", "max\n"),
            ("app.slice/web-1.service/memory.max", "8192\n"),
            ("app.slice/web-1.service/memory.low", "much\n"),
            ("app.slice/web-1.service/cgroup.procs", "0\n12\n13\n"),
            ("app.slice/web-22.service/cgroup.procs", ""),
        ]);
        let all = Hierarchy::find(&root).unwrap();
        let web = all.group("/app.slice/web-1.service").unwrap();
        for path in
            ["app.slice/web-1.service/", "/sys/fs/cgroup/app.slice/web-1.service", "//app.slice/./web-1.service"]
        {
            assert_eq!(all.group(path).unwrap(), web, "{path}");
        }
        assert_eq!((web.current().unwrap(), web.processes().unwrap()), (Bytes::new(4096), vec![12, 13]));
        assert_eq!(web.limit("memory.high").unwrap(), Limit::Unlimited);
        assert_eq!(web.limit("memory.max").unwrap(), Limit::At(Bytes::new(8192)));
        assert!(matches!(web.limit("memory.low"), Err(LiveError::Strange { .. })));
        let paths =
            |pattern| all.matching(pattern).unwrap().iter().map(|group| group.path().to_owned()).collect::<Vec<_>>();
        assert_eq!(paths("/app.slice/web-*.service"), ["/app.slice/web-1.service", "/app.slice/web-22.service"]);
        assert_eq!((paths("/app.slice/web-?.service").len(), paths("/*").len(), paths("/x/*").len()), (1, 1, 0));
        let empty = all.group("/app.slice/web-22.service").unwrap();
        assert_eq!(empty.processes().unwrap(), []);
        assert!(empty.current().unwrap_err().to_string().contains("app.slice/cgroup.subtree_control"));
        assert!(matches!(all.group("/../../proc"), Err(LiveError::Refused(_))));
        assert!(matches!(all.group("/absent"), Err(LiveError::Gone(_))));
        fs::remove_dir_all(root.path("/sys/fs/cgroup/app.slice")).unwrap();
        assert!(!web.is_there() && matches!(web.current(), Err(LiveError::Gone(_))));
    }

    #[test]
    fn guarantees_count_by_their_effect() {
        let (_folder, root) = tree(&[
            ("cgroup.controllers", "memory\n"),
            ("app/memory.low", "0\n"),
            ("app/memory.min", "0\n"),
            ("app/db/memory.low", "1073741824\n"),
            ("app/db/memory.min", "0\n"),
            ("app/db/x/memory.low", "0\n"),
            ("app/web/memory.low", "0\n"),
            ("app/web/u/memory.low", "4096\n"),
            ("kept/memory.min", "4096\n"),
            ("kept/in/memory.min", "0\n"),
            ("old/cgroup.procs", ""),
            ("old/in/memory.low", "max\n"),
        ]);
        let all = Hierarchy::find(&root).unwrap();
        for (path, with_below, found) in [
            ("/app", true, Some("/app/db")),
            ("/app", false, None),
            // Nothing is guaranteed to what is below a group without a guarantee.
            ("/app/db", true, None),
            ("/app/web/u", true, None),
            ("/kept", false, Some("/kept")),
            ("/kept/in", true, Some("/kept")),
            ("/old/in", false, Some("/old/in")),
            ("/", false, None),
            ("/", true, Some("/kept")),
        ] {
            assert_eq!(all.guaranteed(path, with_below).unwrap().as_deref(), found, "{path}");
        }
        // What the owner of a group below wrote. Only root can give a file away.
        let own = root.path("/sys/fs/cgroup/app/db/memory.low");
        if std::os::unix::fs::chown(&own, Some(65_534), None).is_ok() {
            assert_eq!(all.guaranteed("/app", true).unwrap(), None);
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        for (file, words) in [
            ("memory/memory.limit_in_bytes", "version 1"),
            ("cgroup.controllers", "cgroup_disable"),
            ("x", "not mounted"),
        ] {
            let (_folder, root) = tree(&[(file, "cpu\n")]);
            let error = Hierarchy::find(&root).unwrap_err().to_string();
            assert!(error.contains(words), "{file}: {error}");
        }
        let (_folder, root) = tree(&[("unified/cgroup.controllers", "memory\n")]);
        assert_eq!(Hierarchy::find(&root).unwrap().mount, Path::new("/sys/fs/cgroup/unified"));
    }
}
