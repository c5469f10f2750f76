//! The process that the OOM killer would take.

use super::{Running, read_stat};
use crate::cgroup::Hierarchy;
use crate::{LiveError, Root};
use std::fs;

/// Adjustment with which a process is never killed (`OOM_SCORE_ADJ_MIN`).
const NEVER: i64 = -1000;

/// The process that the OOM killer would take now, as the kernel scores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub process: Running,
    /// `/proc/PID/oom_score`: resident memory, swap and page tables in thousandths of memory and swap, adjusted.
    pub score: u64,
    /// The outermost group that is killed as a whole with it: `memory.oom.group`.
    pub group: Option<String>,
}

/// The process with the highest `oom_score`, of equal ones the last (mm/oom_kill.c: `oom_evaluate_task`). Process 1, kernel threads and
/// those with the adjustment -1000 are never taken. `None` if there is no other.
///
/// # Errors
/// [`LiveError::Io`] if the list of processes cannot be read.
pub fn victim(root: &Root) -> Result<Option<Victim>, LiveError> {
    let path = root.path("/proc");
    let entries = fs::read_dir(&path).map_err(|error| LiveError::io("read", &path, error))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let scored = pids.filter(|&pid| pid != 1).filter_map(|pid| Some((score_of(root, pid)?, pid)));
    let Some((score, pid)) = scored.max() else { return Ok(None) };
    Ok(Running::of(root, pid).map(|process| {
        let group = killed_whole(root, &process.group);
        Victim { process, score, group }
    }))
}

/// Its score, if it may be killed.
fn score_of(root: &Root, pid: u32) -> Option<u64> {
    let adjustment: i64 = root.value(format!("/proc/{pid}/oom_score_adj")).ok()?;
    let is_program = read_stat(root, pid).is_ok_and(|stat| !stat.is_kernel_thread() && !stat.has_ended());
    (adjustment > NEVER && is_program).then(|| root.value(format!("/proc/{pid}/oom_score")).ok())?
}

/// The outermost group, of this one and those above it, whose processes are killed together (mm/memcontrol.c:
/// `mem_cgroup_get_oom_group`).
fn killed_whole(root: &Root, path: &str) -> Option<String> {
    let hierarchy = Hierarchy::unified(root).ok()?;
    let ends = path.match_indices('/').skip(1).map(|(at, _)| at).chain([path.len()]);
    let is_whole = |path: &&str| {
        let group = hierarchy.group(path).ok();
        group.is_some_and(|group| root.value::<u64>(group.folder().join("memory.oom.group")).is_ok_and(|is| is == 1))
    };
    ends.map(|end| &path[..end]).filter(|path| path.len() > 1).find(is_whole).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(root: &Root, pid: u32, (score, adjustment): (u64, i64), flags: u64) {
        let stat = format!("{pid} (p{pid}) S 1 1 1 0 -1 {flags} {}\n", "0 ".repeat(43));
        for (file, text) in [
            ("stat", stat.as_str()),
            ("oom_score", &format!("{score}\n")),
            ("oom_score_adj", &format!("{adjustment}\n")),
            ("cgroup", "0::/app.slice/web.service/x\n"),
        ] {
            let path = root.path(format!("/proc/{pid}/{file}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn the_highest_score_that_may_be_killed_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        fs::create_dir_all(root.path("/proc/self")).unwrap();
        assert_eq!(victim(&root).unwrap(), None);
        process(&root, 1, (2000, 0), 0);
        process(&root, 10, (1999, -1000), 0);
        // A thread of the kernel.
        process(&root, 11, (1998, 0), 0x0020_0000);
        process(&root, 12, (700, 0), 0);
        process(&root, 13, (700, 0), 0);
        process(&root, 14, (100, 900), 0);
        let found = victim(&root).unwrap().unwrap();
        assert_eq!((found.process.pid, found.process.name.as_str(), found.score), (13, "p13", 700));
        assert_eq!(found.group, None);
        for (group, whole) in [("app.slice", 0), ("app.slice/web.service", 1), ("app.slice/web.service/x", 1)] {
            let folder = root.path(format!("/sys/fs/cgroup/{group}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("memory.oom.group"), format!("{whole}\n")).unwrap();
        }
        fs::write(root.path("/sys/fs/cgroup/cgroup.controllers"), "memory\n").unwrap();
        assert_eq!(victim(&root).unwrap().unwrap().group.as_deref(), Some("/app.slice/web.service"));
    }
}
