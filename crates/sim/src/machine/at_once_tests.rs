//! Faults that are handled between two touches, in whole machines: the same as by the long way, which a machine takes that notes each use.

use super::tests::{config, program, script};
use super::*;
use isotherm_kernel::cgroup::{CgroupId, Limit};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{After, Run, Stream};
use isotherm_units::{Bytes, Pages};

/// Reads and writes over 600 pages, most of them in the first hundred.
fn scattered(seed: u64) -> Box<dyn Stream> {
    let run = |at: u64| {
        let draw = (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let page = if draw.is_multiple_of(4) { draw / 4 % 600 } else { draw / 4 % 100 };
        match draw % 9 {
            0 => Run::read(page, 1),
            1 => Run::write(page, 3),
            _ => Run::write(page, 1).after_ns(700),
        }
    };
    script((0..8).map(|batch| ((0..2000).map(|at| run(batch * 2000 + at)).collect(), After::Continue)).collect())
}

fn play(policy: &str, knobs: &[(Knob, u64)], mib: u64, notes_uses: bool) -> Outcome {
    let config = MachineConfig { cpus: 2, ..config(Bytes::from_mib(mib), DeviceKind::Zram) };
    let mut builder = MachineBuilder::new(&config, policy_by_name(policy).unwrap().build()).unwrap();
    let group = builder.add_cgroup(CgroupId::ROOT, "app").unwrap();
    for &(knob, pages) in knobs {
        builder.set(group, knob, Limit::At(Pages::new(pages)));
    }
    if notes_uses {
        builder.ground_truth();
    }
    let id = builder.add_program(program("app", vec![scattered(0), scattered(1 << 20)]), group).unwrap();
    builder.start_at(id, Instant::START);
    builder.build().run(Instant::START + Duration::from_secs(100)).unwrap()
}

#[test]
fn whole_machines_go_the_same_way() {
    for policy in ["classic", "mglru"] {
        for (knobs, mib) in [
            (&[][..], 64),
            (&[(Knob::Max, 200)][..], 64),
            (&[(Knob::High, 40)][..], 64),
            (&[(Knob::Max, 200), (Knob::High, 150)][..], 64),
        ] {
            let [short, long] = [false, true].map(|notes_uses| play(policy, knobs, mib, notes_uses));
            let faults = short.system().counters.get(Counter::PgFault);
            assert!(
                faults > 500 && (knobs.is_empty() || short.system().counters.pgsteal() > 100),
                "{policy} {knobs:?}"
            );
            assert_eq!(short, long, "{policy} {knobs:?}");
        }
    }
}
