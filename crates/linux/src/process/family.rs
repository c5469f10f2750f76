//! Processes that are monitored together: a process with its children, or all processes of a control group. They start and end; each change
//! is reported once.

use super::read_stat;
use crate::cgroup::Hierarchy;
use crate::{LiveError, Root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A process of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    pub pid: u32,
    /// Start time in clock ticks since boot; together with the PID it is unique.
    pub start_time: u64,
}

/// Processes added and removed since the last update, each ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub came: Vec<Member>,
    pub went: Vec<Member>,
}

#[derive(Clone, Debug)]
enum Rule {
    Descendants(Member),
    Group(PathBuf),
}

/// Processes that belong together.
#[derive(Clone, Debug)]
pub struct Family {
    root: Root,
    rule: Rule,
    members: BTreeSet<Member>,
}

impl Family {
    /// A process and its descendants. A child stays a member when its parent ends before it. A child whose parent ended before any update
    /// saw that child is not found.
    ///
    /// # Errors
    /// [`LiveError::Gone`] if there is no such process; [`LiveError::Strange`].
    pub fn of_process(root: &Root, pid: u32) -> Result<Self, LiveError> {
        let first = Member { pid, start_time: read_stat(root, pid)?.start_time };
        Ok(Self { root: root.clone(), rule: Rule::Descendants(first), members: BTreeSet::new() })
    }

    /// All processes of a control group (version 2) and of the groups below it. The path is relative to the mount, as in
    /// `/proc/PID/cgroup`, or starts with the mount.
    ///
    /// # Errors
    /// [`LiveError::NotHere`] without version 2, [`LiveError::Gone`] if there is no such group, [`LiveError::Refused`] for a path outside
    /// the hierarchy.
    pub fn of_group(root: &Root, group: &str) -> Result<Self, LiveError> {
        let folder = Hierarchy::unified(root)?.group(group)?.folder().to_owned();
        Ok(Self { root: root.clone(), rule: Rule::Group(folder), members: BTreeSet::new() })
    }

    /// Members as of the last update, ascending.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.members.iter().copied()
    }

    /// Updates the members. The first call reports all processes as added.
    ///
    /// # Errors
    /// [`LiveError::Io`] if the list of processes cannot be read. A vanished group or process is no error: all members are removed.
    pub fn update(&mut self) -> Result<Changes, LiveError> {
        let now = match &self.rule {
            Rule::Descendants(first) => self.descendants(*first)?,
            Rule::Group(folder) => self.of_folder(folder)?,
        };
        let came = now.difference(&self.members).copied().collect();
        let went = self.members.difference(&now).copied().collect();
        self.members = now;
        Ok(Changes { came, went })
    }

    fn descendants(&self, first: Member) -> Result<BTreeSet<Member>, LiveError> {
        let mut children = Children { root: &self.root, by_parent: None };
        let known = self.members.iter().copied().chain([first]);
        let mut left: Vec<Member> = known.filter(|member| self.living(member.pid) == Some(*member)).collect();
        let mut found = BTreeSet::new();
        while let Some(member) = left.pop() {
            if found.insert(member) {
                left.extend(children.of(member.pid)?.into_iter().filter_map(|child| self.living(child)));
            }
        }
        Ok(found)
    }

    /// The process with this PID, unless it has ended.
    fn living(&self, pid: u32) -> Option<Member> {
        let stat = read_stat(&self.root, pid).ok().filter(|stat| !stat.has_ended())?;
        Some(Member { pid, start_time: stat.start_time })
    }

    fn of_folder(&self, folder: &Path) -> Result<BTreeSet<Member>, LiveError> {
        let mut found = BTreeSet::new();
        let mut left = vec![folder.to_owned()];
        while let Some(group) = left.pop() {
            match self.root.read(group.join("cgroup.procs")) {
                Ok(text) => found.extend(numbers(&text).filter_map(|pid| self.living(pid))),
                // Removed meanwhile, or a threaded group, whose parent lists its processes.
                Err(LiveError::Io { source, .. })
                    if matches!(source.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)) => {}
                Err(error) => return Err(error),
            }
            let Ok(entries) = fs::read_dir(self.root.path(&group)) else { continue };
            let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            left.extend(entries.flatten().filter(is_folder).map(|entry| group.join(entry.file_name())));
        }
        Ok(found)
    }
}

/// Children of processes: from the list of each thread if the kernel has it (`CONFIG_PROC_CHILDREN`), else from the parents of all
/// processes.
struct Children<'a> {
    root: &'a Root,
    by_parent: Option<BTreeMap<u32, Vec<u32>>>,
}

impl Children<'_> {
    fn of(&mut self, pid: u32) -> Result<Vec<u32>, LiveError> {
        if self.by_parent.is_none() {
            if let Some(listed) = self.listed(pid) {
                return Ok(listed);
            }
            self.by_parent = Some(self.all()?);
        }
        Ok(self.by_parent.as_ref().and_then(|all| all.get(&pid)).cloned().unwrap_or_default())
    }

    fn listed(&self, pid: u32) -> Option<Vec<u32>> {
        let tasks = format!("/proc/{pid}/task");
        if !self.root.has(format!("{tasks}/{pid}/children")) {
            return None;
        }
        let threads = fs::read_dir(self.root.path(&tasks)).ok()?.flatten();
        let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        Some(texts.flat_map(|text| numbers(&text).collect::<Vec<_>>()).collect())
    }

    fn all(&self) -> Result<BTreeMap<u32, Vec<u32>>, LiveError> {
        let path = self.root.path("/proc");
        let entries = fs::read_dir(&path).map_err(|error| LiveError::io("read", &path, error))?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut by_parent: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for stat in pids.filter_map(|pid| read_stat(self.root, pid).ok()) {
            by_parent.entry(stat.parent).or_default().push(stat.pid);
        }
        Ok(by_parent)
    }
}

/// PIDs, separated by white space. 0 is a process outside this PID namespace, which has no PID here.
fn numbers(text: &str) -> impl Iterator<Item = u32> + '_ {
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).filter(|&pid| pid != 0)
}
