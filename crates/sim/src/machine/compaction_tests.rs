//! Daemons that compact, in machines.

use crate::machine::{MachineBuilder, MachineConfig, NodeConfig};
use isotherm_core::compaction::{ControllerConfig, DESIGNS, Design, ExplicitConfig, OrderMarks, RfcConfig};
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_units::Bytes;

fn config(nodes: usize) -> MachineConfig {
    let node = NodeConfig { memory: Bytes::from_mib(64), ..NodeConfig::default() };
    MachineConfig { nodes: vec![node; nodes], ..MachineConfig::default() }
}

fn builder(nodes: usize) -> MachineBuilder {
    MachineBuilder::new(&config(nodes), policy_by_name("classic").expect("registered").build()).expect("a machine")
}

#[test]
fn what_a_machine_cannot_meet_is_refused() {
    let said = |design: &Design, node: u32| {
        let said = builder(2).compaction("d", design, node).unwrap_err().to_string();
        assert_eq!(config(2).check_compaction("d", design, node).unwrap_err().to_string(), said, "without a machine");
        said
    };
    let keep = 33;
    let controller = Design::Controller(ControllerConfig { keep, ..ControllerConfig::default() });
    assert_eq!(said(&controller, 0), "compaction `d`: `keep` is 33; allowed: up to 32, all memory of the node");
    assert_eq!(said(&controller, 2), "compaction `d`: `node` is 2; allowed: 0 to 1");
    let explicit = |config: ExplicitConfig| said(&Design::Explicit(config), 1);
    let base = ExplicitConfig::default;
    assert_eq!(
        explicit(ExplicitConfig { order: 11, ..base() }),
        "compaction `d`: `order` is 11; allowed: 1 to 10, the largest here"
    );
    assert_eq!(
        explicit(ExplicitConfig { zone: Some(3), ..base() }),
        "compaction `d`: `zone` is 3; allowed: 0, the only one of the node"
    );
    assert_eq!(
        explicit(ExplicitConfig { low: 50, high: 40, ..base() }),
        "compaction `d`: `low` is 50; allowed: 0 to `high` (40)"
    );
    let orders = [("12".to_owned(), OrderMarks { low: 1, high: 2 })].into();
    let rfc = Design::Rfc(RfcConfig { orders, ..RfcConfig::default() });
    assert_eq!(said(&rfc, 0), "compaction `d`: `orders` is \"12\"; allowed: orders 1 to 10, the largest here");
}

#[test]
fn every_design_runs_in_a_machine() {
    for entry in DESIGNS {
        builder(1).compaction(entry.name, &(entry.make)(), 0).expect("defaults fit any machine");
    }
}
