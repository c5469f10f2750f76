//! `damon-migrate`: regions of physical memory, the hot ones of slow nodes promoted and the cold ones of fast nodes demoted.
//!
//! Parameters are those of the kernel's sample module `mtier` (docs/spec/promotion.md#s6-4): samples each 5 ms, aggregated over 100 ms and
//! tuned to 4 % accesses, applied each second, 200 MiB a second, until 99.7 % of the fast node are used and 0.5 % free.

use super::{MemoryView, Mover, TieringPolicy};
use crate::machine::MachineConfig;
use isotherm_core::host::AddressRange;
use isotherm_core::monitor::{Attributes, IntervalsGoal, MonitorConfig, Operations};
use isotherm_core::schemes::{
    AccessPattern, Action, Bounds, Filter, FilterRange, FilterType, Frequency, Goal, Metric, Quotas, Scheme,
};
use isotherm_units::{Bytes, Duration, PAGE_BYTES, Ratio};

pub(super) const ENTRY: TieringPolicy = TieringPolicy {
    name: "damon-migrate",
    summary: "region monitor with migrate-hot and migrate-cold on physical memory, as the kernel's sample module `mtier`",
    mover: Mover::Regions(config),
    memory: MemoryView::AsItIs,
};

/// The share of samples that intervals are tuned to.
const TUNED_TO: Ratio = Ratio::from_percent(4);
const APPLIED_EVERY: Duration = Duration::from_secs(1);
const RATE: Bytes = Bytes::from_mib(200);
/// Used share of the fast node, in basis points.
const USED_BP: u64 = 9970;
const FREE_BP: u64 = 50;

fn config(machine: &MachineConfig) -> MonitorConfig {
    let nodes = ranges(machine);
    let first = |is_fast: bool| {
        let found = nodes.iter().zip(0..).find(|((fast, _), _)| *fast == is_fast);
        found.map_or(0, |(_, index): (_, u32)| index)
    };
    let (fast, slow) = (first(true), first(false));
    let goal = |metric, target_value| Goal { metric, target_value, nid: Some(fast), ..Goal::default() };
    // Patterns distinguish hot from cold, filters the nodes: pages of the other kind of node are left out.
    let outside = |is_fast: bool| {
        let other = nodes.iter().filter(move |(fast, _)| *fast != is_fast);
        other.map(|(_, range)| of_addresses(*range)).collect()
    };
    let scheme = |action, pattern, metric, target, to: u32, is_fast| Scheme {
        action,
        access_pattern: pattern,
        apply_interval: APPLIED_EVERY,
        quotas: Quotas {
            size: Some(RATE),
            reset_interval: APPLIED_EVERY,
            goals: vec![goal(metric, target)],
            ..Quotas::default()
        },
        core_filters: outside(is_fast),
        target_nid: Some(to),
        ..Scheme::default()
    };
    let hot = AccessPattern { nr_accesses: Bounds::from(Frequency::Samples(1)), ..AccessPattern::default() };
    let cold = AccessPattern {
        nr_accesses: Bounds::new(Frequency::Samples(0), Frequency::Samples(0)),
        ..AccessPattern::default()
    };
    let default = Attributes::default();
    MonitorConfig {
        operations: Operations::Paddr,
        attributes: Attributes {
            ops_update_interval: Duration::ZERO,
            intervals_goal: Some(IntervalsGoal { access: TUNED_TO, ..IntervalsGoal::default() }),
            ..default
        },
        schemes: vec![
            scheme(Action::MigrateHot, hot, Metric::NodeMemUsedBp, USED_BP, fast, false),
            scheme(Action::MigrateCold, cold, Metric::NodeMemFreeBp, FREE_BP, slow, true),
        ],
        ..MonitorConfig::default()
    }
}

/// Leaves the memory in `range` alone.
fn of_addresses(range: AddressRange) -> Filter {
    let address_range = Some(FilterRange { start: range.start, end: range.end });
    Filter { address_range, ..Filter::new(FilterType::Addr, true, false) }
}

/// For each node: whether it has processors, and its frames as physical addresses.
fn ranges(machine: &MachineConfig) -> Vec<(bool, AddressRange)> {
    let mut start = 0;
    let range = |node: &crate::machine::NodeConfig| {
        let end = start + node.memory.pages_floor().get() * PAGE_BYTES;
        let range = AddressRange::new(start, end);
        start = end;
        (node.has_cpus(), range)
    };
    machine.nodes.iter().map(range).collect()
}
