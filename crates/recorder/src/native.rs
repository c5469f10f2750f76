//! A run without an engine: time and memory use of the program, as the kernel counts them.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration as WallDuration, Instant as WallInstant};

use isotherm_trace::NativeRun;
use wait4::Wait4 as _;

use crate::error::RecordError;
use crate::program::Program;
use crate::record::exit_of;
use crate::session::wall_since;
use crate::signals::Signals;
use crate::sys;

/// Time from one sample of its memory to the next.
const SAMPLE: WallDuration = WallDuration::from_millis(20);

/// Runs the program natively and samples it.
pub(crate) fn run(program: &Program) -> Result<NativeRun, RecordError> {
    let signals = Signals::catch().map_err(|error| RecordError::io("catch signals", error))?;
    let mut command = Command::new(&program.path);
    let mut words = program.arguments.iter();
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words);
    let stalled_ns = stall_ns();
    let began = WallInstant::now();
    let child = command.spawn();
    let child = child.map_err(|error| RecordError::io(format!("start {}", program.path.display()), error))?;
    let mut peak = Memory::default();
    loop {
        signals.pass_on(Some(child.id()));
        let process = sys::open_process(child.id()).map_err(|error| RecordError::io("watch the program", error))?;
        let milliseconds = u32::try_from(SAMPLE.as_millis()).unwrap_or(20);
        if process.is_none_or(|process| sys::wait_readable(&process, milliseconds).unwrap_or(true)) {
            break;
        }
        peak.rise_to(&memory_of(child.id()));
    }
    let ended = child.wait4().map_err(|error| RecordError::io("wait for the program", error))?;
    // The kernel's own mark misses no peak between two samples: of the largest process, which is all where there is one.
    peak.rss_bytes = peak.rss_bytes.max(ended.rusage.maxrss);
    let cpu = ended.rusage.utime + ended.rusage.stime;
    Ok(NativeRun {
        cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
        wall_ns: wall_since(began).ns(),
        peak_rss_bytes: peak.rss_bytes,
        peak_page_table_bytes: peak.page_table_bytes,
        peak_swap_bytes: peak.swap_bytes,
        system_stall_ns: stalled_ns.zip(stall_ns()).map(|(before, after)| after.saturating_sub(before)),
        sample_ns: u64::try_from(SAMPLE.as_nanos()).unwrap_or(0),
        exit_code: exit_of(ended.status).0,
    })
}

/// Memory of some processes together, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    rss_bytes: u64,
    page_table_bytes: u64,
    swap_bytes: u64,
}

impl Memory {
    fn rise_to(&mut self, other: &Self) {
        self.rss_bytes = self.rss_bytes.max(other.rss_bytes);
        self.page_table_bytes = self.page_table_bytes.max(other.page_table_bytes);
        self.swap_bytes = self.swap_bytes.max(other.swap_bytes);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.rss_bytes = self.rss_bytes.saturating_add(other.rss_bytes);
        self.page_table_bytes = self.page_table_bytes.saturating_add(other.page_table_bytes);
        self.swap_bytes = self.swap_bytes.saturating_add(other.swap_bytes);
    }
}

/// Memory of a process and all its descendants.
fn memory_of(pid: u32) -> Memory {
    let (mut sum, mut seen, mut open) = (Memory::default(), BTreeSet::new(), vec![pid]);
    while let Some(pid) = open.pop() {
        if !seen.insert(pid) {
            continue;
        }
        if let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) {
            sum.add(&memory_in(&status));
        }
        open.extend(children(&format!("/proc/{pid}/task")));
    }
    sum
}

/// Children of all threads of a process; empty if the kernel keeps no such list.
fn children(tasks: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(Path::new(tasks)) else { return Vec::new() };
    let lists = entries.flatten().filter_map(|entry| std::fs::read_to_string(entry.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// `VmRSS`, `VmPTE` and `VmSwap` of proc_pid_status(5), which are in KiB.
pub(crate) fn memory_in(status: &str) -> Memory {
    let bytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
            .map_or(0, |kib| kib.saturating_mul(1024))
    };
    Memory { rss_bytes: bytes("VmRSS"), page_table_bytes: bytes("VmPTE"), swap_bytes: bytes("VmSwap") }
}

/// Time in which some task of the system waited for memory, since boot; `None` without PSI.
fn stall_ns() -> Option<u64> {
    stall_in(&std::fs::read_to_string("/proc/pressure/memory").ok()?)
}

/// `total` of the line `some`, which is in microseconds (Documentation/accounting/psi.rst).
pub(crate) fn stall_in(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read_or_passed_over() {
        let status = "Name:\tx\nVmPeak:\t  99 kB\nVmRSS:\t   12 kB\nVmPTE:\t      4 kB\nVmSwap:\t      0 kB\n";
        assert_eq!(memory_in(status), Memory { rss_bytes: 12 << 10, page_table_bytes: 4 << 10, swap_bytes: 0 });
        for text in ["", "VmRSS:", "VmRSS:\tmany kB", "VmRSSX: 3 kB"] {
            assert_eq!(memory_in(text), Memory::default(), "{text}");
        }
        let mut sum = memory_in("VmRSS: 18446744073709551615 kB");
        sum.add(&memory_in(status));
        assert_eq!(sum.rss_bytes, u64::MAX);
        let pressure =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(stall_in(pressure), Some(1_234_000));
        for text in ["", "full total=3", "some total=x", "some avg10=1", "some total=18446744073709551615"] {
            assert_eq!(stall_in(text), None, "{text}");
        }
    }

    #[test]
    fn a_program_and_its_children_are_counted_together() {
        let line = "python3 -c 'x = bytearray(40 << 20); import time; time.sleep(1.0)' & \
                    python3 -c 'x = bytearray(40 << 20); import time; time.sleep(1.0)'; wait; exit 3";
        let arguments = ["sh", "-c", line].map(std::ffi::OsString::from).to_vec();
        let program = Program { path: "/bin/sh".into(), arguments };
        let native = run(&program).unwrap();
        if native.exit_code != 3 {
            return assert_eq!(native.exit_code, 127, "no python3 here");
        }
        assert!(native.peak_rss_bytes > 80 << 20, "{native:?}");
        assert!(native.wall_ns > 900_000_000 && native.cpu_ns < native.wall_ns, "{native:?}");
        assert!(native.peak_page_table_bytes > 0, "{native:?}");
    }
}
