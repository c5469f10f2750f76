//! Memory of the kernel before and after something that must leave nothing behind.

use std::time::Duration;

/// What the kernel keeps for itself, and may not grow; at most so many bytes: lists of each processor hold some back.
const KEPT: [&str; 3] = ["SUnreclaim", "PageTables", "KernelStack"];
const KEPT_SLACK: u64 = 1 << 20;
/// Free memory may shrink by so much: processes that have just ended are still being buried.
const FREE_SLACK: u64 = 8 << 20;
const FREE: &str = "Free";

/// Bytes by name.
pub(super) type Memory = Vec<(&'static str, u64)>;

pub(super) fn read() -> Result<Memory, String> {
    // Free pages on lists of single processors count as used; compaction gives them back. They may be many MiB since Linux 6.7.
    let drain = "/proc/sys/vm/compact_memory";
    std::fs::write(drain, "1").map_err(|error| format!("{drain}: {error}"))?;
    let path = "/proc/meminfo";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.map(|kib| kib << 10).ok_or_else(|| format!("{path} has no {name}"))
    };
    let mut memory = KEPT.iter().map(|name| Ok((*name, bytes(name)?))).collect::<Result<Memory, String>>()?;
    let free = ["MemFree", "Buffers", "Cached", "SReclaimable"].map(bytes);
    memory.push((FREE, free.into_iter().sum::<Result<u64, String>>()?));
    Ok(memory)
}

/// Memory before and now, once it is as before; what is more, if it stays so for seconds.
pub(super) fn settled(before: &Memory) -> Result<Vec<(String, u64, u64)>, String> {
    let mut grown = String::new();
    for _ in 0..40 {
        let now = read()?;
        let pairs = before.iter().zip(&now).map(|((name, before), (_, now))| ((*name).to_owned(), *before, *now));
        let pairs: Vec<_> = pairs.collect();
        let is_more = |(name, before, now): &&(String, u64, u64)| match name == FREE {
            true => now + FREE_SLACK < *before,
            false => *now > before + KEPT_SLACK,
        };
        match pairs.iter().find(is_more) {
            None => return Ok(pairs),
            Some((name, before, now)) => grown = format!("{name} was {before} bytes before the storm, and is {now}"),
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    let all = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let words: Vec<&str> = all.split_whitespace().collect();
    Err(format!("{grown}; /proc/meminfo: {}", words.join(" ")))
}
