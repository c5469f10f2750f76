//! A page that goes to swap and comes back: on this machine, in a group of its own, and on the simulated one.

use crate::price::SWAPPED_PAGE;
use crate::{CalibrationError, Measured};
use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::KernelRelease;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_linux::cgroup::{Ceiling, OwnGroups};
use isotherm_linux::{Root, own_cpu_time};
use isotherm_sim::machine::{Ending, MachineBuilder, MachineConfig};
use isotherm_units::access::{
    After, Batch, Mapping, Process, Program, Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::random::Random;
use isotherm_units::{Bytes, Instant, PageRange, Pages};
use isotherm_verify::{Order, Size, Start, run};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

const PAGE: usize = 4096;
/// Pages of the probe, of which [`FIT`] fit; it needs no more of swap than the rest, and what reclaim takes ahead.
pub const PROBE_PAGES: u64 = PAGES as u64;
const PAGES: usize = 16 << 10;
const FIT: u64 = PROBE_PAGES / 2;
/// What its program takes in addition.
const BESIDE: Bytes = Bytes::from_mib(4);
/// Rounds over all pages, the first of which are not counted.
const ROUNDS: u32 = 10;
const NOT_COUNTED: u32 = 2;
/// A run that takes longer is ended.
const AT_MOST: Duration = Duration::from_secs(60);
/// Runs until one is not killed: a group whose memory is all used again at once may be (docs/evidence/live.md#a-group-without-files).
const TRIES: u32 = 3;
/// An odd number scatters pages over a power of two of them.
const APART: u64 = 0x9e37_79b1;
const APART_HERE: usize = 0x9e37_79b1;

/// What the probe does in its own process: prints the CPU time of each page that came from swap, in ns, a line a round.
pub fn probe() -> String {
    let mut memory = vec![0u8; PAGES * PAGE];
    let mut random = Random::new(1);
    // Pointers into a heap, as most memory of programs is: it becomes two and a half times smaller.
    for word in memory.chunks_exact_mut(8) {
        word.copy_from_slice(&(0x7f3a_4000_0000 + (random.below(1 << 20) << 4)).to_le_bytes());
    }
    let mut lines = String::new();
    for round in 0..ROUNDS {
        let (began, faults) = (own_cpu_time(), major_faults());
        for page in (0..PAGES).map(|nr| nr * APART_HERE % PAGES) {
            *black_box(&mut memory[page * PAGE]) ^= 1;
        }
        let (spent, faults) = (own_cpu_time().saturating_sub(began).ns(), major_faults() - faults);
        // A round without a fault measures nothing.
        if round >= NOT_COUNTED && faults > PROBE_PAGES / 4 {
            let _ = writeln!(lines, "{}", spent / faults);
        }
    }
    lines
}

fn major_faults() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    isotherm_texts::stat::Stat::parse(&text).map_or(0, |stat| stat.major_faults)
}

/// Measures with `command`, which calls [`probe`] and prints what it returns.
///
/// # Errors
/// The run cannot be made, or fails each time, or does not fault.
pub fn swapping(
    groups: &OwnGroups,
    command: &[OsString],
    goes_on: &dyn Fn() -> bool,
) -> Result<Measured, CalibrationError> {
    let limit = Bytes::new(FIT * PAGE as u64 + BESIDE.get());
    let order = Order {
        command,
        limit: Some((Ceiling::Max, Size { bytes: limit, is_asked: true })),
        start: Start::Warm,
        has_bursts: true,
        at_most: AT_MOST,
    };
    let mut why = String::new();
    for _ in 0..TRIES {
        let run = run(groups, &order, goes_on, None)?;
        if run.is_good() {
            let samples: Vec<f64> = run.bursts_ns.iter().map(|&ns| ns as f64).collect();
            let how = "CPU time of a page that is written, comes from swap and sends another one there, in a memory cgroup that holds half of \
                       64 MiB of pointers";
            return Measured::of(SWAPPED_PAGE, how, &samples).ok_or(CalibrationError::NoFaults);
        }
        why = if run.kills > 0 { "the kernel killed it at its limit".to_owned() } else { run.said };
    }
    Err(CalibrationError::Probe(why))
}

/// The simulated machine that stands for this one.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    pub kernel: KernelRelease,
    pub policy: &'static str,
    pub swap: DeviceConfig,
}

/// CPU time of the same page on a simulated machine with the prices of the table, in ns.
///
/// # Errors
/// The run fails, which no machine of these does.
pub fn simulated(machine: Simulated) -> Result<u64, CalibrationError> {
    let run_of = |rounds: u32| cpu_and_faults(machine, rounds);
    let ((few_ns, few), (many_ns, many)) = (run_of(NOT_COUNTED)?, run_of(ROUNDS)?);
    (many_ns - few_ns).checked_div(many - few).ok_or(CalibrationError::NoFaults)
}

fn cpu_and_faults(machine: Simulated, rounds: u32) -> Result<(u64, u64), CalibrationError> {
    let failed = |what: &str| CalibrationError::Simulated(what.to_owned());
    let mut config = MachineConfig { kernel: machine.kernel, page_cluster: 0, ..MachineConfig::default() };
    config.swap.device = machine.swap;
    let policy = policy_by_name(machine.policy).map_err(|_| failed("no such policy"))?;
    let mut builder = MachineBuilder::new(&config, policy.build()).map_err(|error| failed(&error.to_string()))?;
    let group = builder.add_cgroup(CgroupId::ROOT, "probe").map_err(|error| failed(&error.to_string()))?;
    builder.set(group, Knob::Max, Limit::At(Pages::new(FIT)));
    let stream = Rounds { next: 0, all: u64::from(rounds) * PROBE_PAGES };
    let layout = vec![Mapping::anonymous(PageRange::at(1 << 20, PROBE_PAGES))];
    let program = Program {
        name: "probe".to_owned(),
        files: Vec::new(),
        processes: vec![Process { layout, ..Process::default() }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(stream) }],
        timing: Timing::Recorded,
        future: None,
    };
    let program = builder.add_program(program, group).map_err(|error| failed(&error.to_string()))?;
    builder.start_at(program, Instant::START);
    let outcome = builder.build().run(Instant::NEVER).map_err(|error| failed(&error.to_string()))?;
    let of_program = &outcome.programs[program.0];
    if of_program.ending != Ending::Finished {
        return Err(failed("it was killed"));
    }
    let time = &of_program.time;
    Ok((time.fault_cpu_ns + time.reclaim_cpu_ns, outcome.system().counters.get(Counter::PgMajFault)))
}

/// All pages again and again, in the order of the probe.
struct Rounds {
    next: u64,
    all: u64,
}

impl Stream for Rounds {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if self.next == self.all {
            return Ok(After::Finish);
        }
        let end = (self.next + 4096).min(self.all);
        batch.runs.extend((self.next..end).map(|nr| Run::write((1 << 20) + nr * APART % PROBE_PAGES, 1)));
        self.next = end;
        Ok(After::Continue)
    }
}

/// Whether this machine has swap for the probe, and as much again for others.
///
/// # Errors
/// As of `/proc/meminfo`.
pub fn has_room(root: &Root) -> Result<bool, CalibrationError> {
    let memory = isotherm_linux::counters::meminfo::read(root)?;
    Ok(memory.get("SwapFree").unwrap_or(0) > 2 * PROBE_PAGES * PAGE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_page_costs_the_sum_of_its_parts() {
        for policy in ["classic", "mglru"] {
            for kernel in [KernelRelease::V6_12, KernelRelease::V7_2] {
                let ns = simulated(Simulated { kernel, policy, swap: MachineConfig::default().swap.device }).unwrap();
                // Compressing (6 µs) and decompressing (2.2), the fault (1.5), and the rest.
                assert!((9_700..16_000).contains(&ns), "{policy} {}: {ns} ns", kernel.name());
            }
        }
    }
}
