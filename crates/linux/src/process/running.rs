//! Processes by program, with their own names and their groups.

use super::read_stat;
use crate::{LiveError, Root};
use isotherm_texts::stat::Stat;
use std::cmp::Reverse;
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

/// All processes that run a program, ascending: by the name of its file, and only where that cannot be read by their own name, which any
/// process can choose. Of one user if `user` is given, by number. Process 1 is never among them.
///
/// # Errors
/// [`LiveError::Io`] if the list of processes cannot be read.
pub fn running(root: &Root, command: &str, user: Option<u32>) -> Result<Vec<Running>, LiveError> {
    let path = root.path("/proc");
    let entries = fs::read_dir(&path).map_err(|error| LiveError::io("read", &path, error))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found = BTreeMap::new();
    for pid in pids.filter(|&pid| pid != 1) {
        let Ok(stat) = read_stat(root, pid) else { continue };
        let is_owners = || user.is_none() || user_of(root, pid) == user;
        if is_program(&stat) && runs(root, &stat, command) && is_owners() {
            found.extend(Running::of(root, pid).map(|one| (pid, one)));
        }
    }
    Ok(found.into_values().collect())
}

/// Number of the user with this name or number.
///
/// # Errors
/// [`LiveError::NotHere`] if `/etc/passwd` has no such name, [`LiveError::Io`] if it cannot be read.
pub fn user_number(root: &Root, user: &str) -> Result<u32, LiveError> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let text = root.read("/etc/passwd")?;
    let mut lines = text.lines().map(|line| line.split(':'));
    let found = lines.find_map(|mut line| (line.next() == Some(user)).then(|| line.nth(1)?.parse().ok()).flatten());
    found.ok_or_else(|| LiveError::NotHere {
        what: "a user",
        needs: format!("/etc/passwd has no `{user}`; give the number of the user, as `id -u {user}` says it"),
    })
}

/// Real user of a process.
fn user_of(root: &Root, pid: u32) -> Option<u32> {
    let status = root.read(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().next()?.parse().ok()
}

/// The largest of these processes by resident memory, the largest first, `most` of them at most. Of two of one size the one with the lower
/// PID comes first. One that has ended counts as empty.
pub fn largest(root: &Root, pids: &[u32], most: usize) -> Vec<u32> {
    let pages = |pid: u32| -> Option<u64> {
        root.read(format!("/proc/{pid}/statm")).ok()?.split_whitespace().nth(1)?.parse().ok()
    };
    let mut by_size: Vec<(Reverse<u64>, u32)> =
        pids.iter().map(|&pid| (Reverse(pages(pid).unwrap_or(0)), pid)).collect();
    by_size.sort_unstable();
    by_size.into_iter().take(most).map(|(_, pid)| pid).collect()
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
    program_of(root, stat.pid).map_or(stat.name == command || is_cut, |name| name == command)
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
    fn programs_are_found_by_file_and_without_one_by_name() {
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
        process(folder.path(), 28, "redis-server", runs, None);
        let found =
            |command, user| running(&root, command, user).unwrap().iter().map(|one| one.pid).collect::<Vec<_>>();
        let pids = |command| found(command, None);
        assert_eq!(pids("redis-server"), [21, 28], "a name that a process gave itself counts only without a file");
        assert_eq!(pids("redis-check-rdb"), [20]);
        for (pid, user) in [(21, 999), (28, 1000)] {
            let status = format!("Name:\tx\nUid:\t{user}\t0\t0\t0\n");
            fs::write(folder.path().join(format!("proc/{pid}/status")), status).unwrap();
        }
        assert_eq!((found("redis-server", Some(999)), found("redis-server", Some(0))), (vec![21], vec![]));
        assert_eq!(pids("a-program-with-a-long-name"), [24, 26], "of one without a file its name decides");
        assert_eq!(pids("nobody"), []);
        let one = Running::of(&root, 21).unwrap();
        assert_eq!((one.name.as_str(), one.group.as_str()), ("io-thread", "/app/web 1"));
        assert_eq!((Running::of(&root, 22), Running::of(&root, 99)), (None, None));
        assert!(running(&Root::below(folder.path().join("x")), "a", None).is_err());
    }

    #[test]
    fn users_have_names_and_numbers() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("etc")).unwrap();
        fs::write(folder.path().join("etc/passwd"), "root:x:0:0::/:/bin/sh\nredis:x:999:998::/:\nx\nbad:x:y\n")
            .unwrap();
        let root = Root::below(folder.path());
        let number = |user| user_number(&root, user).map_err(|error| error.to_string());
        assert_eq!((number("redis"), number("1000"), number("root")), (Ok(999), Ok(1000), Ok(0)));
        for unknown in ["nobody", "bad", "x", "redi", ""] {
            assert!(number(unknown).unwrap_err().contains("/etc/passwd has no"), "{unknown}");
        }
    }

    #[test]
    fn the_largest_are_those_with_most_memory_and_of_equals_the_first() {
        let folder = tempfile::tempdir().unwrap();
        for (pid, statm) in [(5, "900 7 0"), (6, "10 90 0"), (7, "1 7 0"), (8, "1 8"), (9, "garbage")] {
            fs::create_dir_all(folder.path().join(format!("proc/{pid}"))).unwrap();
            fs::write(folder.path().join(format!("proc/{pid}/statm")), statm).unwrap();
        }
        let root = Root::below(folder.path());
        assert_eq!(largest(&root, &[9, 8, 7, 6, 5, 4], 4), [6, 8, 5, 7]);
        assert_eq!(largest(&root, &[9, 8, 4], 9), [8, 4, 9]);
    }

    #[test]
    fn groups_are_those_of_version_2() {
        for (text, group) in [("", "/"), ("0::/\n", "/"), ("12:cpu:/a\n0::/b\n", "/b"), ("0::\n", "/"), ("0::x\n", "/")]
        {
            assert_eq!(unified(text), group, "{text}");
        }
    }
}
