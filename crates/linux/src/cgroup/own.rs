//! Memory cgroups of our own, version 1 or 2: a program is started in one, may be limited, and is counted. None outlives its maker.

use super::Hierarchy;
use crate::counters::{Counters, memory_stat, parsed, pressure};
use crate::{LiveError, Root};
use isotherm_units::{Bytes, Duration};
use rustix::fs::{Access, access};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Mount point of the memory controller of version 1.
const VERSION_1: &str = "/sys/fs/cgroup/memory";
/// Members of control groups, of which the program that asks is one (cgroups(7)).
const OWN: &str = "/proc/self/cgroup";
/// The group for the program that asks, where groups are made below its own: a group with members has no controllers for those below it
/// (Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint").
const ASIDE: &str = "isotherm-itself";

/// Joins the group and becomes the program, so that all of the program's memory is the group's.
const JOIN: &str = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
/// Once its input ends, which it does when this program ends in whatever way: ends all members and removes the group.
const KEEP: &str = "trap '' INT TERM HUP QUIT\n\
    cat > /dev/null\n\
    turn=0\n\
    while [ -d \"$0\" ] && [ $turn -lt 100 ]; do\n\
        kill -9 $(cat \"$0/cgroup.procs\") 2> /dev/null\n\
        rmdir \"$0\" 2> /dev/null || sleep 0.1\n\
        turn=$((turn + 1))\n\
    done";
/// How often a group is asked to go that its last process has just left, and the time between.
const REMOVALS: u32 = 1000;
const BETWEEN_REMOVALS: std::time::Duration = std::time::Duration::from_millis(2);

/// Names of the files of a version.
#[derive(Debug)]
struct Files {
    version: u8,
    max: &'static str,
    /// Above it the kernel reclaims and kills nothing.
    high: Option<&'static str>,
    peak: &'static str,
    /// A file with a line `oom_kill N`.
    kills: &'static str,
    /// Writing the text to the file makes the kernel reclaim what is charged.
    reclaim: (&'static str, &'static str),
}

const FILES_1: Files = Files {
    version: 1,
    max: "memory.limit_in_bytes",
    high: None,
    peak: "memory.max_usage_in_bytes",
    kills: "memory.oom_control",
    reclaim: ("memory.force_empty", "0"),
};
const FILES_2: Files = Files {
    version: 2,
    max: "memory.max",
    high: Some("memory.high"),
    peak: "memory.peak",
    kills: "memory.events",
    reclaim: ("memory.reclaim", "1T"),
};

/// Which limit a size becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ceiling {
    /// `memory.max`; `memory.limit_in_bytes` in version 1. What cannot be reclaimed is a reason to kill.
    Max,
    /// `memory.high`, of version 2 alone.
    High,
}

/// Where groups are made.
#[derive(Debug)]
pub struct OwnGroups {
    root: Root,
    /// Path of the parent's folder below the root.
    parent: PathBuf,
    files: &'static Files,
    /// Set if the parent is the group of this program, which stands aside for as long.
    aside: Option<Aside>,
}

/// This program in a group below its own.
#[derive(Debug)]
struct Aside {
    root: Root,
    own: PathBuf,
}

/// A group; whoever is in it is ended, and it is removed, when this is dropped or this program ends.
#[derive(Debug)]
pub struct OwnGroup<'g> {
    groups: &'g OwnGroups,
    folder: PathBuf,
    keeper: Option<Child>,
}

/// What a group used, from the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Highest charge; `None` where the kernel does not keep it (version 2 before 5.19).
    pub peak: Option<Bytes>,
    pub major_faults: u64,
    /// Processes that were killed because the group's memory could not be reclaimed.
    pub kills: u64,
    /// Time in which every task that could run waited for memory (PSI, `full`); `None` in version 1 and without PSI.
    pub stalled: Option<Duration>,
}

impl OwnGroups {
    /// Finds where this user may make groups that limit memory. In version 2 that is the root of the hierarchy, or, in a group that is
    /// delegated to this program and has no other member, that group.
    ///
    /// # Errors
    /// [`LiveError::NotHere`] with what is missing.
    pub fn find(root: &Root) -> Result<Self, LiveError> {
        let may_write = |folder: &Path| access(root.path(folder), Access::WRITE_OK | Access::EXEC_OK).is_ok();
        if root.has(Path::new(VERSION_1).join(FILES_1.max)) {
            let parent = PathBuf::from(VERSION_1);
            return match may_write(&parent) {
                true => Ok(Self { root: root.clone(), parent, files: &FILES_1, aside: None }),
                false => Err(refused(format!("{VERSION_1} cannot be written: start it as root"))),
            };
        }
        let mount = Hierarchy::find(root)?.mount;
        if may_write(&mount) && passes_memory(root, &mount) {
            return Ok(Self { root: root.clone(), parent: mount, files: &FILES_2, aside: None });
        }
        let own = own_group(root).map(|path| mount.join(path.trim_start_matches('/')));
        if let Some(own) = own.filter(|own| *own != mount && may_write(own)) {
            let aside = Aside::stand(root, own.clone())?;
            return Ok(Self { root: root.clone(), parent: own, files: &FILES_2, aside: Some(aside) });
        }
        let needs = if may_write(&mount) {
            format!(
                "{0}/cgroup.subtree_control does not name memory: `echo +memory > {0}/cgroup.subtree_control`",
                mount.display()
            )
        } else {
            "this user may make none here; start it as root, or in a group of its own: `systemd-run --user --scope -p Delegate=yes \
             isotherm …` (in a container: on its host)"
                .to_owned()
        };
        Err(refused(needs))
    }

    /// Version of control groups, 1 or 2.
    pub const fn version(&self) -> u8 {
        self.files.version
    }

    /// Makes a group without a limit. One at a time: they have the same name.
    ///
    /// # Errors
    /// [`LiveError::Io`].
    pub fn make(&self) -> Result<OwnGroup<'_>, LiveError> {
        let folder = self.parent.join(format!("isotherm-own-{}", std::process::id()));
        let full = self.root.path(&folder);
        fs::create_dir(&full).map_err(|error| LiveError::io("make", &full, error))?;
        let mut group = OwnGroup { groups: self, folder, keeper: None };
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEP]).arg(&full).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        group.keeper = Some(keeper.spawn().map_err(|error| LiveError::io("start", Path::new("sh"), error))?);
        Ok(group)
    }
}

impl Drop for OwnGroups {
    fn drop(&mut self) {
        if let Some(aside) = self.aside.take() {
            aside.back();
        }
    }
}

impl Aside {
    fn stand(root: &Root, own: PathBuf) -> Result<Self, LiveError> {
        let members: Vec<u32> = parsed(root, own.join("cgroup.procs"), isotherm_texts::cgroup::processes)?;
        if members != [std::process::id()] {
            return Err(refused(format!(
                "the group {} of this program has other members; start it alone in one: `systemd-run --user --scope -p Delegate=yes \
                 isotherm …`",
                own.display()
            )));
        }
        let aside = root.path(own.join(ASIDE));
        fs::create_dir(&aside).map_err(|error| LiveError::io("make", &aside, error))?;
        let this = Self { root: root.clone(), own };
        let moved = this.move_to(&this.own.join(ASIDE)).and_then(|()| this.pass_memory("+memory"));
        if let Err(error) = moved {
            this.back();
            return Err(refused(format!("its own group does not pass the memory controller on: {error}")));
        }
        Ok(this)
    }

    fn move_to(&self, group: &Path) -> Result<(), LiveError> {
        self.root.write(group.join("cgroup.procs"), &std::process::id().to_string())
    }

    fn pass_memory(&self, change: &str) -> Result<(), LiveError> {
        self.root.write(self.own.join("cgroup.subtree_control"), change)
    }

    /// As it was before. What fails here goes with the group, which is this program's alone.
    fn back(&self) {
        let _ = self.pass_memory("-memory");
        let _ = self.move_to(&self.own);
        let _ = fs::remove_dir(self.root.path(self.own.join(ASIDE)));
    }
}

impl OwnGroup<'_> {
    /// Sets its limit, and reads it back.
    ///
    /// # Errors
    /// [`LiveError::NotHere`] for `memory.high` in version 1; [`LiveError::Io`]; [`LiveError::Refused`] if another value stands there.
    pub fn limit(&self, ceiling: Ceiling, limit: Bytes) -> Result<(), LiveError> {
        let Files { max, high, .. } = self.groups.files;
        let file = match ceiling {
            Ceiling::Max => *max,
            Ceiling::High => high.ok_or_else(|| LiveError::NotHere {
                what: "memory.high",
                needs: "control groups are of version 1 here, which has none".to_owned(),
            })?,
        };
        let path = self.folder.join(file);
        // The kernel keeps whole pages.
        let bytes = limit.get() / crate::page_bytes() * crate::page_bytes();
        self.groups.root.write(&path, &bytes.to_string())?;
        let stands: u64 = self.groups.root.value(&path)?;
        if stands == bytes {
            return Ok(());
        }
        Err(LiveError::Refused(format!("{} holds {stands} after {bytes} was written", path.display())))
    }

    /// The command that starts `words` in this group.
    pub fn command(&self, words: &[OsString]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", JOIN]).arg(self.groups.root.path(&self.folder)).args(words);
        command
    }

    /// PIDs of its members.
    ///
    /// # Errors
    /// [`LiveError::Io`], [`LiveError::Strange`].
    pub fn processes(&self) -> Result<Vec<u32>, LiveError> {
        parsed(&self.groups.root, self.folder.join("cgroup.procs"), isotherm_texts::cgroup::processes)
    }

    /// Asks all members to end, with SIGKILL.
    pub fn kill(&self) {
        for pid in self.processes().unwrap_or_default() {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            // One that has ended meanwhile is what is wanted.
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
    }

    /// Gives the files that it has read back, when its members have ended. They stay in memory, charged to no group that runs, where the
    /// kernel is too old for it (version 2 before 5.19).
    pub fn empty(&self) {
        let (file, text) = self.groups.files.reclaim;
        // In version 2 the kernel says EAGAIN when there is no more to reclaim, which is less than it is asked for.
        let _ = self.groups.root.write(self.folder.join(file), text);
    }

    /// What it used so far. Reading its statistics makes the kernel bring them up to date, which changes what reclaim sees of a program
    /// that still runs: ask when it has ended.
    pub fn spent(&self) -> Spent {
        let (root, files) = (&self.groups.root, self.groups.files);
        let kills = parsed(root, self.folder.join(files.kills), Counters::parse).ok();
        let stat = memory_stat::read(root, &self.folder).ok();
        let stalled = pressure::of_group(root, &self.folder, pressure::Resource::Memory).ok();
        Spent {
            peak: root.value(self.folder.join(files.peak)).ok().map(Bytes::new),
            // Version 1 counts those of groups below apart.
            major_faults: stat.and_then(|stat| stat.get("total_pgmajfault").or(stat.get("pgmajfault"))).unwrap_or(0),
            kills: kills.and_then(|kills| kills.get("oom_kill")).unwrap_or(0),
            stalled: stalled.and_then(|stalled| stalled.full).map(|full| Duration::from_us(full.total_us)),
        }
    }
}

impl Drop for OwnGroup<'_> {
    fn drop(&mut self) {
        let full = self.groups.root.path(&self.folder);
        for turn in 0..REMOVALS {
            // The files that it has read stay in memory, charged to no group that runs: as after the end of any service.
            if fs::remove_dir(&full).is_ok() || !full.exists() {
                break;
            }
            if turn % 100 == 0 {
                self.kill();
            }
            std::thread::sleep(BETWEEN_REMOVALS);
        }
        // It tries on if the group is still there.
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// Whether groups directly below have the memory controller.
fn passes_memory(root: &Root, group: &Path) -> bool {
    let passed = root.read(group.join("cgroup.subtree_control")).unwrap_or_default();
    passed.split_whitespace().any(|name| name == "memory")
}

/// Path of this program's group in the hierarchy of version 2.
fn own_group(root: &Root) -> Option<String> {
    root.read(OWN).ok()?.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

fn refused(needs: String) -> LiveError {
    LiveError::NotHere { what: "memory cgroups of its own", needs }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::below(folder.path());
        (folder, root)
    }

    const UNIFIED: &str = "sys/fs/cgroup/cgroup.controllers";
    const PASSED: &str = "sys/fs/cgroup/cgroup.subtree_control";

    #[test]
    fn groups_are_made_where_memory_can_be_limited() {
        let (_folder, root) = tree(&[("sys/fs/cgroup/memory/memory.limit_in_bytes", "1\n")]);
        let groups = OwnGroups::find(&root).unwrap();
        assert_eq!((groups.version(), groups.parent.as_path()), (1, Path::new(VERSION_1)));
        let (_folder, root) = tree(&[(UNIFIED, "cpu memory\n"), (PASSED, "memory pids\n")]);
        let groups = OwnGroups::find(&root).unwrap();
        assert_eq!((groups.version(), groups.parent.as_path()), (2, Path::new("/sys/fs/cgroup")));
    }

    #[test]
    fn what_is_missing_is_said() {
        for (files, words) in [
            (&[("x", "")][..], "not mounted"),
            (&[(UNIFIED, "cpu\n")], "no memory controller"),
            (&[(UNIFIED, "memory\n"), (PASSED, "cpu\n")], "echo +memory > /sys/fs/cgroup/cgroup.subtree_control"),
            (
                &[
                    (UNIFIED, "memory\n"),
                    (PASSED, ""),
                    (&OWN[1..], "0::/a\n"),
                    ("sys/fs/cgroup/a/cgroup.procs", "1\n2\n"),
                ],
                "has other members",
            ),
        ] {
            let (_folder, root) = tree(files);
            let error = OwnGroups::find(&root).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_group_that_does_not_pass_memory_on_is_left_as_it_was() {
        let own = std::process::id().to_string();
        let (_folder, root) = tree(&[
            (UNIFIED, "memory\n"),
            (PASSED, ""),
            (&OWN[1..], "0::/a\n"),
            ("sys/fs/cgroup/a/cgroup.procs", &own),
            ("sys/fs/cgroup/a/cgroup.subtree_control", ""),
        ]);
        // In a folder that no kernel made there is no file to move this program with.
        let error = OwnGroups::find(&root).unwrap_err().to_string();
        assert!(error.contains("does not pass the memory controller on"), "{error}");
        assert!(!root.has("/sys/fs/cgroup/a/isotherm-itself"));
        assert_eq!(root.read("/sys/fs/cgroup/a/cgroup.procs").unwrap(), own);
    }
}
