//! Memory of the kernel before and after an action that must not leak.

use std::time::Duration;

/// Counters of memory that the kernel keeps; limit of their growth in bytes: per-CPU lists hold some back.
const KEPT: [&str; 3] = ["SUnreclaim", "PageTables", "KernelStack"];
const KEPT_SLACK: u64 = 1 << 20;
/// Limit of the decrease of available memory: processes that have just exited are still being freed.
const FREE_SLACK: u64 = 4 << 20;
const FREE: &str = "Free";
/// Free pages on per-CPU lists, which count as used; many MiB since Linux 6.7.
const WAITING: &str = "OnProcessorLists";
/// Memory that is free, that a cache would give back, or that a process still has: memory that is not leaked.
const FREE_PARTS: [&str; 6] = ["MemFree", WAITING, "Buffers", "Cached", "SReclaimable", "AnonPages"];

/// Lines of `/proc/meminfo`, and [`WAITING`], in bytes.
pub(super) struct Memory(Vec<(String, u64)>);

impl Memory {
    pub(super) fn read() -> Result<Self, String> {
        // Pages waiting for the LRU lists are put there, so that unused ones are freed.
        let drain = "/proc/sys/vm/compact_memory";
        std::fs::write(drain, "1").map_err(|error| format!("{drain}: {error}"))?;
        let path = "/proc/meminfo";
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let line = |line: &str| {
            let (name, rest) = line.split_once(':')?;
            let kib: u64 = rest.trim().strip_suffix(" kB")?.parse().ok()?;
            Some((name.to_owned(), kib << 10))
        };
        let mut memory = Self(text.lines().filter_map(line).collect());
        let zones = "/proc/zoneinfo";
        let text = std::fs::read_to_string(zones).map_err(|error| format!("{zones}: {error}"))?;
        let counts = text.lines().filter_map(|line| line.trim().strip_prefix("count:")?.trim().parse::<u64>().ok());
        memory.0.push((WAITING.to_owned(), counts.sum::<u64>() << 12));
        match FREE_PARTS.iter().chain(&KEPT).find(|name| memory.bytes(name).is_none()) {
            Some(name) => Err(format!("{path} has no {name}")),
            None => Ok(memory),
        }
    }

    fn bytes(&self, name: &str) -> Option<u64> {
        if name == FREE {
            return FREE_PARTS.iter().map(|part| self.bytes(part)).sum();
        }
        self.0.iter().find(|(one, _)| one == name).map(|(_, bytes)| *bytes)
    }

    /// Differences between before and now.
    fn changed(&self, now: &Self) -> String {
        let changed = self.0.iter().filter_map(|(name, before)| {
            let now = now.bytes(name)?;
            (now != *before).then(|| format!("{name} {before} {now}"))
        });
        changed.collect::<Vec<_>>().join(", ")
    }
}

/// Memory before and now, once it is as before; the excess, if it persists for seconds.
pub(super) fn settled(before: &Memory) -> Result<Vec<(String, u64, u64)>, String> {
    let mut grown = String::new();
    for _ in 0..40 {
        let now = Memory::read()?;
        let pair = |name: &&str| Some(((*name).to_owned(), before.bytes(name)?, now.bytes(name)?));
        let pairs: Vec<_> = KEPT.iter().chain([&FREE]).filter_map(pair).collect();
        let is_more = |(name, before, now): &&(String, u64, u64)| match name == FREE {
            true => now + FREE_SLACK < *before,
            false => *now > before + KEPT_SLACK,
        };
        match pairs.iter().find(is_more) {
            None => return Ok(pairs),
            Some((name, old, new)) => {
                let changed = before.changed(&now);
                grown = format!("{name} was {old} bytes before the storm, and is {new}; what changed: {changed}");
            }
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    Err(grown)
}
