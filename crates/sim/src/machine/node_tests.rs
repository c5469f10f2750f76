//! Machines with several nodes: what accesses cost, where memory comes from, who may use which.

use super::tests::{Rig, program, sweeps};
use super::*;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::Bytes;
use isotherm_units::access::Timing;

fn machine(kinds: &[MemoryKind], swap: DeviceKind) -> MachineConfig {
    MachineConfig {
        nodes: kinds.iter().map(|&kind| NodeConfig::of_kind(kind, Bytes::from_mib(8))).collect(),
        swap: SwapConfig { device: swap.into(), ..SwapConfig::default() },
        ..MachineConfig::default()
    }
}

/// 500 pages written three times, on the node if one is given.
fn play(config: &MachineConfig, timing: Timing, pages: u64, bound: Option<usize>) -> Outcome {
    let mut rig = Rig::new(config);
    let program = Program { timing, ..program("p", vec![sweeps(pages, 3, 100)]) };
    let id = rig.builder.add_program(program, rig.app).unwrap();
    if let Some(node) = bound {
        rig.builder.bind_memory(id, node).unwrap();
    }
    rig.builder.start_at(id, Instant::START);
    rig.builder.build().run(Instant::START + Duration::from_secs(100)).unwrap()
}

fn compute_ns(outcome: &Outcome) -> u64 {
    outcome.programs[0].time.compute_ns
}

#[test]
fn an_access_costs_the_latency_of_its_node() {
    let config = machine(&[MemoryKind::Dram, MemoryKind::Cxl, MemoryKind::CxlFar], DeviceKind::None);
    let table = [
        (Timing::Modelled, None, 100),
        (Timing::Modelled, Some(0), 100),
        (Timing::Modelled, Some(1), 250),
        (Timing::Modelled, Some(2), 400),
        (Timing::Recorded, Some(0), 0),
        (Timing::Recorded, Some(1), 150),
        (Timing::Recorded, Some(2), 300),
    ];
    for (timing, bound, latency_ns) in table {
        let outcome = play(&config, timing, 500, bound);
        assert_eq!(outcome.programs[0].ending, Ending::Finished);
        assert_eq!(compute_ns(&outcome), 1500 * (100 + latency_ns), "{timing:?} on {bound:?}");
    }
}

/// Also where no memory is as fast as DRAM: a recording holds the latency of DRAM and no more.
#[test]
fn a_recording_on_slow_memory_alone_pays_for_it() {
    let config = machine(&[MemoryKind::Dram, MemoryKind::Cxl], DeviceKind::None);
    for (policy, latency_ns) in [("all-fast", 0), ("all-slow", 150)] {
        let config = crate::tiering::tiering_policy(policy).unwrap().applied_to(config.clone());
        assert_eq!(compute_ns(&play(&config, Timing::Recorded, 500, None)), 1500 * (100 + latency_ns), "{policy}");
    }
}

/// Nodes of equal latency are one: to the nanosecond what one node costs.
#[test]
fn equal_nodes_cost_what_one_costs() {
    let one = play(&machine(&[MemoryKind::Dram], DeviceKind::None), Timing::Modelled, 500, None);
    let two = play(&machine(&[MemoryKind::Dram; 2], DeviceKind::None), Timing::Modelled, 500, None);
    assert_eq!(compute_ns(&one), compute_ns(&two));
}

#[test]
fn a_full_fast_node_sends_new_pages_to_the_slow_one() {
    let config = machine(&[MemoryKind::Dram, MemoryKind::Cxl], DeviceKind::None);
    let outcome = play(&config, Timing::Modelled, 3000, None);
    let memory = isotherm_kernel::memory::Memory::assemble(&config.memory_setup()).unwrap();
    let on_fast = 2048 - memory.nodes.get(NodeId::new(0)).zones[0].marks.low;
    assert_eq!(compute_ns(&outcome), 3 * (on_fast * 200 + (3000 - on_fast) * 350));
    assert_eq!(outcome.system().counters.get(Counter::PgScanKswapd), 0, "nobody was short");
}

#[test]
fn bound_memory_comes_from_nowhere_else() {
    let config = machine(&[MemoryKind::Dram, MemoryKind::Cxl], DeviceKind::None);
    let outcome = play(&config, Timing::Modelled, 3000, Some(1));
    assert_eq!(outcome.programs[0].ending, Ending::OutOfMemory, "the fast node is empty all the same");
    let config = machine(&[MemoryKind::Dram, MemoryKind::Cxl], DeviceKind::Zram);
    let outcome = play(&config, Timing::Modelled, 3000, Some(0));
    assert_eq!(outcome.programs[0].ending, Ending::Finished);
    assert_eq!(compute_ns(&outcome), 9000 * 200);
    assert!(outcome.system().counters.get(Counter::PswpOut) > 0);
}

/// Demotion goes before swap, even if the program's policy binds it to a node.
#[test]
fn with_demotion_a_bound_program_spills_to_the_slow_node() {
    let mut config = machine(&[MemoryKind::Dram, MemoryKind::Cxl], DeviceKind::Zram);
    config.tiering.demotion = true;
    let outcome = play(&config, Timing::Modelled, 3000, Some(0));
    let count = |counter| outcome.system().counters.get(counter);
    assert_eq!((outcome.programs[0].ending, count(Counter::PswpOut)), (Ending::Finished, 0));
    assert!(count(Counter::PgDemoteKswapd) + count(Counter::PgDemoteDirect) >= 3000 - 2048);
    assert!(compute_ns(&outcome) > 9000 * 200);
    let [fast, slow] = &outcome.nodes[..] else { panic!("two nodes") };
    let demoted: u64 = fast.counters.values().sum();
    assert_eq!((fast.moved_out_pages, slow.moved_in_pages, slow.counters.len()), (demoted, demoted, 0));
    assert_eq!((fast.tier, slow.tier, fast.is_top_tier, slow.is_top_tier), (4, 90, true, false));
    let [fast_accesses, slow_accesses] = [fast, slow].map(|node| node.accesses.unwrap());
    assert_eq!(
        compute_ns(&outcome),
        fast_accesses * 200 + slow_accesses * 350,
        "each access is counted where it is paid"
    );
    assert_eq!(slow.traffic_bytes, Some(slow_accesses * 64 + demoted * 4096));
    assert_eq!((fast.free_pages, slow.free_pages), (2048, 2048), "the program has ended");
    // 4 lines of a touched page are used.
    let outcome = play(&config, Timing::Lines(4), 3000, Some(0));
    let slow = &outcome.nodes[1];
    let moved = slow.moved_in_pages + slow.moved_out_pages;
    assert_eq!(slow.traffic_bytes, slow.accesses.map(|touches| touches * 4 * 64 + moved * 4096));
}

#[test]
fn threads_take_memory_of_the_node_they_run_on() {
    let mut config = machine(&[MemoryKind::Dram, MemoryKind::Dram, MemoryKind::Cxl], DeviceKind::None);
    config.nodes[1].latency = Duration::from_ns(120);
    let mut rig = Rig::new(&config);
    for name in ["a", "b"] {
        let program = Program { timing: Timing::Modelled, ..program(name, vec![sweeps(500, 3, 100)]) };
        let id = rig.builder.add_program(program, rig.app).unwrap();
        rig.builder.start_at(id, Instant::START);
    }
    let outcome = rig.builder.build().run(Instant::START + Duration::from_secs(100)).unwrap();
    let mut spent: Vec<u64> = outcome.programs.iter().map(|program| program.time.compute_ns).collect();
    spent.sort_unstable();
    assert_eq!(spent, [1500 * 200, 1500 * 220], "two processors, one on each node");
}

#[test]
fn what_cannot_be_is_refused_before_the_run() {
    let mut config = machine(&[MemoryKind::Dram, MemoryKind::Cxl], DeviceKind::None);
    let mut rig = Rig::new(&config);
    let id = rig.builder.add_program(program("p", vec![sweeps(5, 1, 1)]), rig.app).unwrap();
    let message = rig.builder.bind_memory(id, 2).unwrap_err().to_string();
    assert_eq!(message, "node 2 is not on this machine; allowed: 0 to 1");
    config.tiering.demotion = true;
    let Err(error) = MachineBuilder::new(&config, policy_by_name("lru").unwrap().build()) else { panic!("refused") };
    assert!(
        error.to_string().contains("`tiering.demotion` is true; allowed: false under a page-exact baseline"),
        "{error}"
    );
}
