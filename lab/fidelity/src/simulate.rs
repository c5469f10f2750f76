//! A workload in the simulated machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::KernelRelease;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::{Compressor, DeviceKind};
use isotherm_rig::script::Script;
use isotherm_sim::machine::{Incident, Machine, MachineBuilder, MachineConfig, NodeConfig, Outcome, Residency};
use isotherm_units::{Bytes, Duration, Instant, PageRange, Pages};

use crate::matrix::{METRICS, Workload};
use crate::{FidelityError, replay};

/// Memory of the guest and of the simulated machine.
pub const MEMORY: Bytes = Bytes::from_mib(1536);
/// Memory of the machine on which the peak is found.
const ROOMY: Bytes = Bytes::from_gib(64);
/// The group with the limit.
pub const GROUP: &str = "/play";
/// Scripts reach their mark long before.
const UNTIL: Duration = Duration::from_secs(1_000);

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Counters by name of the metric.
    pub counters: BTreeMap<&'static str, u64>,
    /// Resident pages at the mark: lengths of alternating runs, absent first, over [`universe`].
    pub residency: Vec<u64>,
}

/// The release whose rules are nearest to a kernel of the rig, by its name there: its own, or the newest with rules.
pub fn release_of(kernel: &str) -> KernelRelease {
    kernel.parse().unwrap_or_default()
}

/// The simulated form of the rig's guest, with the rules of a release.
pub fn machine_of_release(kernel: KernelRelease, memory: Bytes) -> MachineConfig {
    MachineConfig { kernel, ..machine(memory) }
}

/// The simulated form of the rig's guest.
pub fn machine(memory: Bytes) -> MachineConfig {
    let mut machine =
        MachineConfig { cpus: 1, storage: DeviceKind::Ram.into(), lazy_statistics: true, ..MachineConfig::default() };
    machine.nodes = vec![NodeConfig { memory, ..NodeConfig::default() }];
    machine.swap.size = Some(MEMORY);
    machine.swap.compressor = Compressor::Lz4;
    machine
}

/// Plays a workload on a machine under a policy and a limit.
///
/// # Errors
/// The machine cannot play it to its mark.
pub fn run(
    machine: &MachineConfig,
    workload: &Workload,
    policy: &str,
    limit: Pages,
) -> Result<Simulated, FidelityError> {
    let outcome = outcome(machine, workload, policy, limit)?;
    let group = outcome.cgroup(GROUP).expect("made by `play`");
    let counter = |name: &str| match name {
        "pgscan" => group.counters.pgscan(),
        "pgsteal" => group.counters.pgsteal(),
        _ => Counter::from_name(name).map_or(0, |counter| group.counters.get(counter)),
    };
    Ok(Simulated {
        counters: METRICS.iter().map(|metric| (metric.name, counter(metric.counter))).collect(),
        residency: runs_of(&resident(&outcome), &universe(&workload.script)),
    })
}

/// The same run, with the machine's whole outcome.
///
/// # Errors
/// The machine cannot play it to its mark.
pub fn outcome(
    machine: &MachineConfig,
    workload: &Workload,
    policy: &str,
    limit: Pages,
) -> Result<Outcome, FidelityError> {
    play(machine, workload, policy, Some(limit))
}

/// Most pages charged at a time without a limit.
pub(crate) fn peak(workload: &Workload) -> Result<Pages, FidelityError> {
    // Charges page by page, so that the peak is exact.
    let outcome = play(&machine(ROOMY), workload, "fifo", None)?;
    Ok(Pages::new(outcome.cgroup(GROUP).expect("made by `play`").peak_pages))
}

fn play(
    config: &MachineConfig,
    workload: &Workload,
    policy: &str,
    limit: Option<Pages>,
) -> Result<Outcome, FidelityError> {
    let fail =
        |source| FidelityError::Simulation { workload: workload.name.clone(), policy: policy.to_owned(), source };
    let (machine, at) = machine_of(config, workload, policy, limit).map_err(fail)?;
    let outcome = machine.run(Instant::START + UNTIL).map_err(fail)?;
    let unfinished = |what: String| {
        Err(FidelityError::Unfinished { workload: workload.name.clone(), policy: policy.to_owned(), what })
    };
    match outcome.incidents.first() {
        None => match replay::at_mark(&workload.script, &at) {
            Ok(()) => Ok(outcome),
            Err((at, mark)) => unfinished(format!("came to operation {at} of {mark} within {UNTIL}")),
        },
        Some(Incident::OutOfMemory { resident_pages, .. }) => {
            unfinished(format!("killed for want of memory with {resident_pages} pages resident"))
        }
        Some(Incident::BadAccess { page, .. }) => {
            unfinished(format!("touched page {page:#x}, where nothing is mapped"))
        }
    }
}

fn machine_of(
    config: &MachineConfig,
    workload: &Workload,
    policy: &str,
    limit: Option<Pages>,
) -> Result<(Machine, Arc<AtomicUsize>), isotherm_sim::machine::SimError> {
    let policy = policy_by_name(policy)?.build_with(&config.policy_settings());
    let mut builder = MachineBuilder::new(config, policy)?;
    let group = builder.add_cgroup(CgroupId::ROOT, GROUP.trim_start_matches('/'))?;
    if let Some(limit) = limit {
        builder.set(group, Knob::Max, Limit::At(limit));
    }
    let at = Arc::new(AtomicUsize::new(0));
    for (number, program) in replay::programs_of(&Arc::new(workload.script.clone()), &at, &workload.subgroups) {
        let group = match workload.subgroups.is_empty() {
            true => group,
            false => builder.add_cgroup(group, &number.to_string())?,
        };
        let program = builder.add_program(program, group)?;
        builder.start_at(program, Instant::START);
    }
    // While memory is freed continuously, the RCU kernel thread alone runs about once a tick.
    let tick = Duration::from_ns(1_000_000_000 / u64::from(config.hz));
    builder.other_tasks(tick, Instant::START, Instant::NEVER);
    builder.record_residency();
    Ok((builder.build(), at))
}

/// A page that can be resident: of a file, or anonymous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    File(u32),
    Process(u16),
}

/// All pages that a script may have resident, in the order of residency: pages of files, then pages that processes touch.
pub(crate) fn universe(script: &Script) -> Vec<(Place, PageRange)> {
    let files = (0u32..).zip(&script.files).map(|(index, file)| (Place::File(index), PageRange::new(0, file.pages)));
    let watched = script.watched.iter();
    let processes = watched.map(|&(process, first, pages)| (Place::Process(process), PageRange::at(first, pages)));
    files.chain(processes).collect()
}

/// Resident ranges by place, ascending.
pub(crate) type Resident = BTreeMap<Place, Vec<PageRange>>;

fn resident(outcome: &Outcome) -> Resident {
    let empty = Residency::default();
    let residency = outcome.residency.as_ref().unwrap_or(&empty);
    let files = residency.files.iter().map(|file| (Place::File(file.name.parse().unwrap_or(u32::MAX)), &file.pages));
    let processes = residency.processes.iter();
    let processes = processes.map(|of| (Place::Process(of.name.parse().unwrap_or(u16::MAX)), &of.pages));
    union(files.chain(processes))
}

/// Programs in groups of their own each know all files of the script: the pages of a file are joined over the programs.
fn union<'a>(parts: impl Iterator<Item = (Place, &'a Vec<PageRange>)>) -> Resident {
    let mut resident = Resident::new();
    for (place, pages) in parts {
        resident.entry(place).or_default().extend(pages);
    }
    for ranges in resident.values_mut() {
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, range| {
            let meet = next.start <= range.end;
            if meet {
                range.end = range.end.max(next.end);
            }
            meet
        });
    }
    resident
}

/// Lengths of alternating runs, absent first.
pub(crate) fn runs_of(resident: &Resident, universe: &[(Place, PageRange)]) -> Vec<u64> {
    let (mut runs, mut present) = (vec![0u64], false);
    let mut add = |is_present: bool, pages: u64| {
        if pages == 0 {
            return;
        }
        if is_present != present {
            runs.push(0);
            present = is_present;
        }
        *runs.last_mut().expect("never empty") += pages;
    };
    for (place, range) in universe {
        let mut at = range.start;
        for pages in resident.get(place).into_iter().flatten() {
            let here = pages.intersection(*range);
            if here.is_empty() {
                continue;
            }
            add(false, here.start - at);
            add(true, here.len());
            at = here.end;
        }
        add(false, range.end - at);
    }
    runs
}

/// Jaccard index of two residencies over the same pages: pages resident in both over those resident in one; 1 if there are none.
pub fn overlap(one: &[u64], other: &[u64]) -> f64 {
    let ends = |runs: &[u64]| -> Vec<(u64, bool)> {
        let sums = runs.iter().enumerate().scan(0, |at, (index, &pages)| {
            *at += pages;
            Some((*at, index % 2 == 1))
        });
        sums.collect()
    };
    let (one, other) = (ends(one), ends(other));
    let (mut i, mut j, mut at, mut both, mut either) = (0, 0, 0, 0u64, 0u64);
    while i < one.len() || j < other.len() {
        let state = |ends: &[(u64, bool)], index: usize| ends.get(index).copied().unwrap_or((u64::MAX, false));
        let ((end, is_one), (other_end, is_other)) = (state(&one, i), state(&other, j));
        let next = end.min(other_end);
        both += if is_one && is_other { next - at } else { 0 };
        either += if is_one || is_other { next - at } else { 0 };
        i += usize::from(end == next);
        j += usize::from(other_end == next);
        at = next;
    }
    if either == 0 { 1.0 } else { both as f64 / either as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Universe: file pages 0..10, then pages 100..105 of process 3.
    #[test]
    fn residency_as_runs_by_hand() {
        let universe = [(Place::File(0), PageRange::new(0, 10)), (Place::Process(3), PageRange::new(100, 105))];
        let resident = Resident::from([
            (Place::File(0), vec![PageRange::new(2, 4), PageRange::new(8, 20)]),
            (Place::Process(3), vec![PageRange::new(90, 101), PageRange::new(103, 104)]),
        ]);
        // Absent 2, present 2, absent 4, present 2 + 1, absent 2, present 1, absent 1.
        assert_eq!(runs_of(&resident, &universe), [2, 2, 4, 3, 2, 1, 1]);
        assert_eq!(runs_of(&Resident::new(), &universe), [15]);
    }

    /// Two programs know file 0; each has pages of it.
    #[test]
    fn what_programs_have_of_a_file_is_joined() {
        let (one, other, none) = (vec![PageRange::new(4, 6)], vec![PageRange::new(0, 2), PageRange::new(5, 9)], vec![]);
        let parts =
            [(Place::File(0), &one), (Place::File(1), &none), (Place::File(0), &other), (Place::File(0), &none)];
        let joined = union(parts.into_iter());
        assert_eq!(joined[&Place::File(0)], [PageRange::new(0, 2), PageRange::new(4, 9)]);
        assert_eq!(joined[&Place::File(1)], []);
    }

    #[test]
    fn overlaps_by_hand() {
        // Pages 2..4 and 8..10 against 3..9: in both 3 and 8, in either 2..10.
        assert!((overlap(&[2, 2, 4, 2], &[3, 6, 1]) - 2.0 / 8.0).abs() < 1e-12);
        assert!((overlap(&[0, 5], &[0, 5, 5]) - 1.0).abs() < 1e-12);
        assert!((overlap(&[9], &[9]) - 1.0).abs() < 1e-12);
        assert!(overlap(&[0, 5, 5], &[5, 5]).abs() < 1e-12);
    }
}
