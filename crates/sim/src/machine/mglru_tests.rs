//! The Multi-Gen LRU in whole machines: the daemon, the scheduler's marks, the guard over young pages.

use super::tests::{config, program, script, sweeps};
use super::*;
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::KernelRelease;
use isotherm_kernel::reclaim::mglru::Baseline;
use isotherm_kernel::reclaim::{Mglru, MglruConfig};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::Bytes;
use isotherm_units::access::{After, Run};

fn play(config: &MachineConfig, policy: MglruConfig, programs: Vec<Program>) -> Outcome {
    let mut builder = MachineBuilder::new(config, Box::new(Mglru::with_config(policy))).unwrap();
    builder.strict();
    for program in programs {
        let id = builder.add_program(program, CgroupId::ROOT).unwrap();
        builder.start_at(id, Instant::START);
    }
    builder.build().run(Instant::START + Duration::from_secs(1000)).unwrap()
}

fn count(outcome: &Outcome, counter: Counter) -> u64 {
    outcome.system().counters.get(counter)
}

/// A hot set in constant use stays while a large area is swept: walks and look-arounds see it.
#[test]
fn the_daemon_keeps_what_is_used_all_the_time() {
    for swap in [DeviceKind::Zram, DeviceKind::Nvme] {
        let mut runs = Vec::new();
        for page in 0..12_000u64 {
            runs.push(Run::write(1000 + page % 4000, 1).after_ns(2000));
            runs.push(Run::write(page * 7 % 200, 1).after_ns(2000));
            runs.push(Run::read(page * 11 % 200, 1).after_ns(2000));
        }
        let sweep = program("sweep", vec![script(vec![(runs, After::Continue)])]);
        let outcome = play(&config(Bytes::from_mib(12), swap), MglruConfig::default(), vec![sweep]);
        assert_eq!(outcome.programs[0].ending, Ending::Finished, "{swap}");
        assert!(count(&outcome, Counter::PgStealKswapd) > 1000, "{swap}");
        // 12 000 swept pages miss at most once each; the hot set adds little to it.
        assert!(count(&outcome, Counter::PgMajFault) < 9_000, "{swap}: {}", count(&outcome, Counter::PgMajFault));
    }
}

/// With a time to live longer than the run everything is too young to be evicted: a process is killed. Without it, none is.
#[test]
fn a_time_to_live_kills_instead_of_thrashing() {
    for (min_ttl, killed) in [(Duration::from_secs(100), true), (Duration::ZERO, false)] {
        let sweep = program("sweep", vec![sweeps(4000, 3, 1000)]);
        let policy = MglruConfig { min_ttl, ..MglruConfig::default() };
        let outcome = play(&config(Bytes::from_mib(12), DeviceKind::Zram), policy, vec![sweep]);
        assert_eq!(outcome.programs[0].ending == Ending::OutOfMemory, killed);
        assert_eq!(count(&outcome, Counter::OomKill), u64::from(killed));
    }
}

/// A large area swept next to a hot set.
fn busy() -> Vec<Program> {
    let mut runs = Vec::new();
    for page in 0..12_000u64 {
        runs.push(Run::write(1000 + page % 4000, 1).after_ns(2000));
        runs.push(Run::write(page * 7 % 400, 1).after_ns(2000));
    }
    vec![program("busy", vec![script(vec![(runs, After::Continue)])])]
}

/// Patch 01: a processor that sets no accessed bits. There are no walks, so making a generation clears nothing and brings no burst of
/// faults; look-arounds and the reverse map clear some bits, each at the price of at most one fault.
#[test]
fn without_accessed_bits_faults_are_few_and_spread() {
    let mut machine = config(Bytes::from_mib(12), DeviceKind::Zram);
    let with = play(&machine, MglruConfig::default(), busy());
    assert!(with.work.spaces_walked > 0 && with.work.accessed_faults == 0);
    machine.mmu.leaf_accessed = false;
    let without = play(&machine, MglruConfig::default(), busy());
    let work = without.work;
    assert_eq!((work.spaces_walked, work.tables_tested, work.filter_tests), (0, 0, 0));
    assert!(work.ageings > 0 && work.accessed_faults > 0, "{work:?}");
    assert!(work.accessed_faults <= work.entries_cleared, "a fault for each cleared bit at most: {work:?}");
    assert!(count(&without, Counter::PgFault) >= count(&without, Counter::PgMajFault) + work.accessed_faults);
    // Pages in use stay without walks too.
    assert!(count(&without, Counter::PgMajFault) < 9_000, "{}", count(&without, Counter::PgMajFault));
}

/// Patch 03: both policies share one driver. Switched off before anything runs, `mglru` is `classic` to the last count.
#[test]
fn switched_off_it_is_the_two_lists() {
    let machine = config(Bytes::from_mib(12), DeviceKind::Nvme);
    let outcome = |policy: &str, text: &str| {
        let policy = isotherm_kernel::reclaim::policy_by_name(policy).unwrap().build();
        let mut builder = MachineBuilder::new(&machine, policy).unwrap();
        if !text.is_empty() {
            let action = Action::WriteMglru(isotherm_kernel::reclaim::mglru::ControlFile::Enabled, text.to_owned());
            builder.plan(Plan { at: Instant::START, every: None, action });
        }
        let programs: Vec<_> =
            busy().into_iter().map(|program| builder.add_program(program, CgroupId::ROOT).unwrap()).collect();
        programs.into_iter().for_each(|id| builder.start_at(id, Instant::from_ns(1_000_000)));
        builder.build().run(Instant::START + Duration::from_secs(1000)).unwrap()
    };
    let (classic, off, on) = (outcome("classic", ""), outcome("mglru", "n"), outcome("mglru", ""));
    assert_eq!(classic.system(), off.system());
    assert_eq!((classic.kernel, &classic.programs), (off.kernel, &off.programs));
    assert_ne!(classic.system().counters, on.system().counters);
}

/// Patch 08: walks spare the reverse map work, and reclaim its CPU time, where memory is mapped and used.
#[test]
fn walks_spare_the_reverse_map() {
    let play = |walks| {
        let mut policy = MglruConfig::default();
        (policy.features.walks, policy.features.look_around) = (walks, false);
        let outcome = play(&config(Bytes::from_mib(12), DeviceKind::Zram), policy, busy());
        (outcome.work.rmap_walks, outcome.kernel.kswapd_ns + outcome.kernel.direct_ns)
    };
    let (with, without) = (play(true), play(false));
    assert!(with.0 < without.0, "reverse-map walks: {with:?} {without:?}");
}

/// The machine's release alone decides: no key of the Multi-Gen LRU is set.
#[test]
fn the_kernel_of_the_machine_is_that_of_its_generations() {
    let of = |kernel, baseline| {
        let mut machine = MachineConfig { kernel, ..config(Bytes::from_mib(12), DeviceKind::Nvme) };
        machine.mglru.baseline = baseline;
        play(&machine, machine.policy_settings().mglru, busy())
    };
    let (old, new) = (KernelRelease::V6_12, KernelRelease::V7_2);
    let alone = of(old, None);
    assert_eq!(alone, of(old, Some(Baseline::V6_12)), "6.12 alone is 6.12 spelt out");
    assert_ne!(alone, of(old, Some(Baseline::V7_2)), "and not what it was before: generations of 7.2");
    assert_eq!(of(new, None), of(new, Some(Baseline::V7_2)), "nothing changes on 7.2");
}

#[test]
fn the_older_release_runs_whole_machines() {
    for swap in [DeviceKind::Zram, DeviceKind::Nvme] {
        let policy = MglruConfig { baseline: Some(Baseline::V6_12), ..MglruConfig::default() };
        let outcome = play(&config(Bytes::from_mib(12), swap), policy, busy());
        assert_eq!(outcome.programs[0].ending, Ending::Finished, "{swap}");
        assert!(outcome.work.ageings > 0 && count(&outcome, Counter::PgStealKswapd) > 0, "{swap}");
        assert!(count(&outcome, Counter::PgMajFault) < 10_000, "{swap}: {}", count(&outcome, Counter::PgMajFault));
    }
}
