//! The knobs that isotherm writes, and the values that may be written. A journal is a file, so its contents are checked: no other file is
//! written.

use super::unit::{DropIns, UnitKnob};

/// Values of a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// A number, decimal or hexadecimal.
    Number,
    /// A number, or `max`.
    Limit,
    /// `Y`, `N`, `true`, `false`, or a number.
    Switch,
    /// `on` or `off`.
    State,
    /// A property of a unit of systemd, with its drop-in ([`UnitKnob`]).
    Property,
}

impl Values {
    fn allowed(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Limit => "a number or max",
            Self::Switch => "Y, N, true, false or a number",
            Self::State => "on or off",
            Self::Property => "a number or infinity",
        }
    }

    fn has(self, value: &str) -> bool {
        let words: &[&str] = match self {
            Self::Number => &[],
            Self::Limit => &["max"],
            Self::Switch => &["Y", "N", "y", "n", "true", "false"],
            Self::State => return ["on", "off"].contains(&value),
            Self::Property => &["infinity"],
        };
        words.contains(&value) || value.parse::<i64>().is_ok() || value.parse::<u64>().is_ok() || is_hexadecimal(value)
    }
}

fn is_hexadecimal(value: &str) -> bool {
    value.strip_prefix("0x").is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok())
}

/// Paths, and the values of the knobs there. `*` stands for one name, `**` for one or more.
const KNOBS: &[(&str, Values)] = &[
    ("/**/memory.high", Values::Limit),
    ("/**/memory.max", Values::Limit),
    ("/etc/systemd/system.control/*/*", Values::Property),
    ("/run/systemd/system.control/*/*", Values::Property),
    ("/run/systemd/transient/*/*", Values::Property),
    ("/proc/sys/kernel/numa_balancing", Values::Number),
    ("/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", Values::Number),
    ("/proc/sys/vm/compaction_proactiveness", Values::Number),
    ("/sys/kernel/debug/fault_around_bytes", Values::Number),
    ("/sys/kernel/debug/sched/numa_balancing/*", Values::Number),
    ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", Values::Number),
    ("/sys/kernel/mm/damon/admin/kdamonds/0/state", Values::State),
    ("/sys/kernel/mm/lru_gen/enabled", Values::Switch),
    ("/sys/kernel/mm/lru_gen/min_ttl_ms", Values::Number),
    ("/sys/kernel/mm/numa/demotion_enabled", Values::Switch),
    ("/sys/module/damon_lru_sort/parameters/*", Values::Switch),
    ("/sys/module/damon_reclaim/parameters/*", Values::Switch),
    ("/sys/module/damon_stat/parameters/*", Values::Switch),
];

/// Refuses a path that is not a knob of ours, or a value that the knob does not take; the text names the allowed values.
pub(super) fn refusal(path: &str, value: &str) -> Option<String> {
    if let Some(unit) = UnitKnob::of(path) {
        return unit.refusal(value);
    }
    match values_of(path) {
        None => Some("isotherm writes no such knob, whatever its journal says".to_owned()),
        Some(values) if values.has(value) => None,
        Some(values) => Some(format!("`{}` is no value of it; allowed: {}", value.escape_debug(), values.allowed())),
    }
}

pub(super) fn is_knob(path: &str) -> bool {
    values_of(path).is_some()
}

/// Whether the value stays through a reboot.
pub(super) fn outlives_boot(path: &str) -> bool {
    UnitKnob::of(path).is_some_and(|unit| unit.place == DropIns::Persistent)
}

fn values_of(path: &str) -> Option<Values> {
    let names: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    if names.iter().any(|name| ["", ".", ".."].contains(name)) {
        return None;
    }
    let values = KNOBS.iter().find(|(pattern, _)| matches(pattern, &names)).map(|&(_, values)| values)?;
    (values != Values::Property || UnitKnob::of(path).is_some()).then_some(values)
}

fn matches(pattern: &str, names: &[&str]) -> bool {
    let parts: Vec<&str> = pattern[1..].split('/').collect();
    let is_same = |part: &&str, name: &&str| *part == "*" || part == name;
    match parts.split_first() {
        Some((&"**", rest)) => {
            names.len() > rest.len()
                && rest.iter().zip(&names[names.len() - rest.len()..]).all(|(part, name)| is_same(part, name))
        }
        _ => parts.len() == names.len() && parts.iter().zip(names).all(|(part, name)| is_same(part, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_knobs_and_their_values_are_written() {
        for (path, value) in [
            ("/sys/fs/cgroup/a.slice/b/memory.high", "max"),
            ("/sys/fs/cgroup/memory.max", "104857600"),
            ("/sys/kernel/mm/lru_gen/enabled", "0x0007"),
            ("/sys/kernel/mm/damon/admin/kdamonds/0/state", "off"),
            ("/sys/kernel/mm/lru_gen/enabled", "y"),
            ("/sys/module/damon_reclaim/parameters/enabled", "N"),
            ("/proc/sys/kernel/numa_balancing", "-1"),
            ("/etc/systemd/system.control/a@b.service.d/50-MemoryMax.conf", "infinity"),
            ("/run/systemd/transient/x.scope.d/50-MemoryHigh.conf", "4096\n[Scope]\nMemoryHigh=4096\n"),
        ] {
            assert_eq!(refusal(path, value), None, "{path} = {value}");
        }
        for (path, value, words) in [
            ("/etc/passwd", "1", "no such knob"),
            ("/sys/fs/cgroup/../../../etc/memory.high", "1", "no such knob"),
            ("/sys//memory.high", "1", "no such knob"),
            ("memory.high", "1", "no such knob"),
            ("/memory.high", "1", "no such knob"),
            ("/sys/module/zswap/parameters/enabled", "Y", "no such knob"),
            ("/proc/sys/kernel/core_pattern", "|/tmp/x", "no such knob"),
            ("/etc/systemd/system.control/a.service.d/50-ExecStart.conf", "1", "no such knob"),
            ("/etc/systemd/system.control/a.service.d/evil.conf", "1", "no such knob"),
            ("/etc/systemd/system.control/a.service.d/50-MemoryMax.conf", "max", "a number or infinity"),
            ("/etc/systemd/system.control/a.service.d/50-MemoryMax.conf", "1\nExecStart=x", "the line `ExecStart=x`"),
            ("/sys/fs/cgroup/a/memory.high", "evil::0:0", "a number or max"),
            ("/sys/fs/cgroup/a/memory.high", "", "a number or max"),
            ("/sys/fs/cgroup/a/memory.high", "1\n2", "`1\\n2` is no value of it"),
            ("/proc/sys/kernel/numa_balancing", "max", "a number"),
            ("/sys/kernel/mm/damon/admin/kdamonds/0/state", "1", "on or off"),
            ("/sys/module/damon_reclaim/parameters/enabled", "0xzz", "Y, N"),
        ] {
            assert!(refusal(path, value).is_some_and(|why| why.contains(words)), "{path} = {value}");
        }
    }
}
