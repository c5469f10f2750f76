//! The Multi-Gen LRU in whole machines: the daemon, the scheduler's marks, the guard over young pages.

use super::tests::{config, program, script, sweeps};
use super::*;
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::reclaim::{Mglru, MglruConfig};
use crate::swap::device::DeviceKind;
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

/// A hot set that is used all the time stays while a large area is swept: walks and look-arounds see it.
#[test]
fn the_daemon_keeps_what_is_used_all_the_time() {
    for swap in [DeviceKind::Zram, DeviceKind::Nvme] {
        let mut runs = Vec::new();
        for page in 0..12_000u64 {
            runs.push(Run::write(1000 + page % 4000, 1).after_ns(2000));
            runs.push(Run::read(page * 7 % 200, 1).after_ns(2000));
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

/// With a time to live longer than the run everything is too young to be evicted: somebody is killed. Without, nobody is.
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
