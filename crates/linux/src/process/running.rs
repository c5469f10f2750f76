//! Processes by program, with their own names and their groups.

use super::read_stat;
use crate::{LiveError, Root};
use isotherm_texts::stat::Stat;
use std::collections::BTreeMap;
use std::fs;

/// Longest name in the kernel, in bytes (`TASK_COMM_LEN` without the zero behind it).
const NAME_BYTES: usize = 15;

/// A live process that is no kernel thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub pid: u32,
    /// Name that the process gives itself, as in `/proc/PID/comm`: cut to 15 bytes.
    pub name: String,
    /// Name of the file of its program; `None` if it cannot be read.
    pub file: Option<String>,
    /// Path of its cgroup v2; `/` if it has none.
    pub group: String,
}

impl Running {
    /// The process with this PID; `None` if it has ended, or is a kernel thread.
    pub fn of(root: &Root, pid: u32) -> Option<Self> {
        let stat = read_stat(root, pid).ok().filter(is_program)?;
        let groups = root.read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        Some(Self { pid, file: program_of(root, pid), name: stat.name, group: unified(&groups).to_owned() })
    }
}

/// All processes that run a program, by its file name or by their own name, ascending. Process 1 is never among them.
///
/// # Errors
/// [`LiveError::Io`] if the list of processes cannot be read.
pub fn running(root: &Root, command: &str) -> Result<Vec<Running>, LiveError> {
    let path = root.path("/proc");
    let entries = fs::read_dir(&path).map_err(|error| LiveError::io("read", &path, error))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found = BTreeMap::new();
    for pid in pids.filter(|&pid| pid != 1) {
        let Ok(stat) = read_stat(root, pid) else { continue };
        if is_program(&stat) && runs(root, &stat, command) {
            found.extend(Running::of(root, pid).map(|one| (pid, one)));
        }
    }
    Ok(found.into_values().collect())
}

/// Name of the file that a process runs.
fn program_of(root: &Root, pid: u32) -> Option<String> {
    let file = fs::read_link(root.path(format!("/proc/{pid}/exe"))).ok()?;
    let name = file.file_name()?.to_string_lossy().into_owned();
    Some(name.strip_suffix(" (deleted)").map(str::to_owned).unwrap_or(name))
}

fn is_program(stat: &Stat) -> bool {
    !stat.is_kernel_thread() && !stat.has_ended() && !stat.is_exiting()
}

fn runs(root: &Root, stat: &Stat, command: &str) -> bool {
    let cut =
        command.char_indices().map(|(at, letter)| at + letter.len_utf8()).take_while(|&end| end <= NAME_BYTES).last();
    let is_cut = command.len() > NAME_BYTES && stat.name == command[..cut.unwrap_or(0)];
    if stat.name == command {
        return true;
    }
    // A cut name may be ambiguous, so the file decides if it can be read.
    program_of(root, stat.pid).map_or(is_cut, |name| name == command)
}

/// The path of version 2 in `/proc/PID/cgroup`: `0::/app.slice/web.service`.
fn unified(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("0::")).filter(|path| path.starts_with('/')).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn process(folder: &std::path::Path, pid: u32, name: &str, (flags, state): (u64, char), exe: Option<&str>) {
        let own = folder.join(format!("proc/{pid}"));
        fs::create_dir_all(&own).unwrap();
        let rest = "0 ".repeat(17);
        fs::write(own.join("stat"), format!("{pid} ({name}) {state} 1 1 1 0 -1 {flags} {rest}\n")).unwrap();
        fs::write(own.join("cgroup"), "1:memory:/old\n0::/app/web 1\n").unwrap();
        if let Some(exe) = exe {
            symlink(exe, own.join("exe")).unwrap();
        }
    }

    #[test]
    fn programs_are_found_by_file_and_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        let runs = (0, 'S');
        process(folder.path(), 1, "redis-server", runs, None);
        process(folder.path(), 20, "redis-server", runs, Some("/usr/bin/redis-check-rdb"));
        process(folder.path(), 21, "io-thread", runs, Some("/usr/bin/redis-server (deleted)"));
        process(folder.path(), 22, "redis-server", (0x20_0000, 'S'), None);
        process(folder.path(), 23, "redis-server", (0, 'Z'), None);
        process(folder.path(), 24, "a-program-with-", runs, Some("/opt/a-program-with-a-long-name"));
        process(folder.path(), 25, "a-program-with-", runs, Some("/opt/a-program-with-another-name"));
        process(folder.path(), 26, "a-program-with-", runs, None);
        fs::create_dir_all(folder.path().join("proc/27")).unwrap();
        let pids = |command| running(&root, command).unwrap().iter().map(|one| one.pid).collect::<Vec<_>>();
        assert_eq!(pids("redis-server"), [20, 21]);
        assert_eq!(pids("a-program-with-a-long-name"), [24, 26], "of one without a file its name decides");
        assert_eq!(pids("nobody"), []);
        let one = Running::of(&root, 21).unwrap();
        assert_eq!((one.name.as_str(), one.group.as_str()), ("io-thread", "/app/web 1"));
        assert_eq!((Running::of(&root, 22), Running::of(&root, 99)), (None, None));
        assert!(running(&Root::below(folder.path().join("x")), "a").is_err());
    }

    #[test]
    fn groups_are_those_of_version_2() {
        for (text, group) in [("", "/"), ("0::/\n", "/"), ("12:cpu:/a\n0::/b\n", "/b"), ("0::\n", "/"), ("0::x\n", "/")]
        {
            assert_eq!(unified(text), group, "{text}");
        }
    }
}
