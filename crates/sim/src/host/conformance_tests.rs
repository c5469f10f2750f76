//! The simulated machine keeps the contract of hosts in every role, under both lists and generations.

use super::stage::{FRAMES, PHYSICAL, Stage};
use isotherm_core::host::conformance::{
    Fixture, applying, compacting, gauging, generations, mappings, probing, tiering,
};
use isotherm_core::host::{AddressRange, TargetId};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::PageRange;

const PAGE: u64 = 4096;

/// A process of 1024 pages, the first 512 of them written, and a process that has ended.
fn stage(policy: &str) -> (Stage, Fixture) {
    let mut stage = Stage::with_nodes(policy, DeviceKind::Zram, &[FRAMES, FRAMES]);
    let (space, process) = stage.process(1024);
    stage.write_all(space, PageRange::new(0, 512));
    let (ended, gone) = stage.process(16);
    stage.exit(ended);
    stage.settle();
    let fixture = Fixture {
        process: TargetId(process),
        mapped: AddressRange::new(0, 512 * PAGE),
        hole: 1 << 40,
        gone: Some(TargetId(gone)),
    };
    (stage, fixture)
}

#[test]
fn the_simulated_machine_keeps_the_contract_of_hosts() {
    for policy in ["classic", "mglru"] {
        let play = |role: &dyn Fn(&mut Stage, &Fixture)| {
            let (mut stage, fixture) = stage(policy);
            role(&mut stage, &fixture);
            stage.check();
        };
        play(&|stage, fixture| probing(&mut stage.host(), fixture).assert_none());
        play(&|stage, fixture| mappings(&mut stage.host(), fixture).assert_none());
        play(&|stage, fixture| applying(&mut stage.host(), fixture).assert_none());
        play(&|stage, fixture| gauging(&mut stage.host(), fixture).assert_none());
        play(&|stage, fixture| tiering(&mut stage.host(), fixture).assert_none());
        play(&|stage, _| compacting(&mut stage.host()).assert_none());
        play(&|stage, _| generations(&mut stage.host()).assert_none());
        // Page frames have neither mappings nor a table; the contract of schemes and gauges holds for them
        // too.
        let frames = |fixture: &Fixture| Fixture { process: TargetId(PHYSICAL), gone: None, ..fixture.clone() };
        play(&|stage, fixture| applying(&mut stage.host(), &frames(fixture)).assert_none());
        play(&|stage, fixture| gauging(&mut stage.host(), &frames(fixture)).assert_none());
    }
}
