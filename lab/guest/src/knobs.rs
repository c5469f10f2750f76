//! Reads all knobs of the machine, to find knobs that a program left changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where knobs are.
const FOLDERS: &[&str] = &[
    "/proc/sys/vm",
    "/proc/sys/kernel",
    "/sys/kernel/mm",
    "/sys/module",
    "/sys/devices/system/node",
    "/sys/block",
    "/sys/fs/cgroup",
];
/// Not settings: lists of processes and devices, counters, and files whose write triggers an action.
const PASSED_OVER: &[&str] = &[
    "cgroup.procs",
    "cgroup.threads",
    "drop_caches",
    "compact_memory",
    "random",
    "ns_last_pid",
    "uevent",
    "memory.reclaim",
    "memory.peak",
    "memory.swap.peak",
    "stat",
    "mem_used_max",
    "compact",
    "pty",
    "tainted",
];
/// A longer file is no knob.
const LONGEST: usize = 4096;
const DEEPEST: usize = 10;

/// Every file below those folders that may be written and read, with its text.
pub(crate) fn read_all() -> BTreeMap<String, String> {
    let mut knobs = BTreeMap::new();
    FOLDERS.iter().for_each(|folder| read_below(Path::new(folder), DEEPEST, &mut knobs));
    knobs
}

fn read_below(folder: &Path, depth: usize, knobs: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() && depth > 0 {
            read_below(&path, depth - 1, knobs);
        }
        let is_knob = meta.is_file() && meta.mode() & 0o200 != 0 && meta.mode() & 0o400 != 0;
        if !is_knob || PASSED_OVER.iter().any(|passed| name == *passed) || name.to_string_lossy().ends_with(".pressure")
        {
            continue;
        }
        if let Ok(text) = fs::read_to_string(&path)
            && text.len() <= LONGEST
        {
            knobs.insert(path.display().to_string(), text);
        }
    }
}

/// Differences, a line each.
pub(crate) fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let mut lines = Vec::new();
    let shown = |text: Option<&String>| text.map_or("nothing".to_owned(), |text| format!("`{}`", text.trim()));
    for path in before.keys().chain(after.keys().filter(|path| !before.contains_key(*path))) {
        let (old, new) = (before.get(path), after.get(path));
        if old != new {
            lines.push(format!("{path}: {} is now {}", shown(old), shown(new)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let (before, after) = (map(&[("/a", "1\n"), ("/b", "2")]), map(&[("/a", "3"), ("/c", "4")]));
        assert_eq!(
            differences(&before, &after),
            ["/a: `1` is now `3`", "/b: `2` is now nothing", "/c: nothing is now `4`"]
        );
        assert!(differences(&before, &before).is_empty());
    }
}
