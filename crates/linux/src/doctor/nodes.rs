//! Nodes of different speed: tiers, and what moves pages between them.

use super::{Context, Finding, Part, State, said};
use crate::LiveError;
use crate::counters::nodes::{self, Node, Tier};

const PART: Part = Part::Acting;
const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const PROMOTION_LIMIT: &str = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps";
/// Bits of [`BALANCING`]: `include/linux/sched/sysctl.h` (6.1).
const TO_CPUS: u32 = 1;
const TO_FAST: u32 = 2;

fn read(context: &Context<'_>) -> Result<(Vec<Node>, Vec<Tier>), LiveError> {
    Ok((nodes::read(context.root)?, nodes::tiers(context.root)?))
}

pub(super) fn tiers(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "memory tiers";
    let (nodes, tiers) = match read(context) {
        Ok(read) => read,
        Err(error) => return vec![Finding::new(PART, NAME, State::Missing, said(&error))],
    };
    vec![match (nodes.len(), tiers.len()) {
        (0 | 1, _) => {
            Finding::new(PART, NAME, State::Missing, "one node: there is nothing to promote to or demote from")
        }
        (several, 0) => Finding::new(PART, NAME, State::Partly, format!("{several} nodes; the kernel tells no tiers"))
            .fix("Linux 6.1 or newer"),
        (several, 1) => Finding::new(PART, NAME, State::Partly, format!("{several} nodes in one tier")).fix(
            "firmware tables (HMAT) that tell which node is slow, and a kernel that reads them: 6.12 does, 6.1 not",
        ),
        (several, count) => {
            let tier = |tier: &Tier| format!("node {} (tier {})", numbers(&tier.nodes), tier.rank);
            let list: Vec<String> = tiers.iter().map(tier).collect();
            let words = format!("{several} nodes in {count} tiers, fast ones first: {}", list.join(", "));
            Finding::new(PART, NAME, State::Works, words)
        }
    }]
}

pub(super) fn demotion(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "demotion";
    if !context.root.has(DEMOTION) {
        return vec![
            Finding::new(PART, NAME, State::Missing, "this kernel does not move cold pages to slower nodes")
                .fix("Linux 5.15 or newer, with CONFIG_NUMA and CONFIG_MIGRATION"),
        ];
    }
    let is_on = match switch(context) {
        Ok(is_on) => is_on,
        Err(error) => return vec![Finding::new(PART, NAME, State::Missing, said(&error))],
    };
    let word = if is_on { "on" } else { "off" };
    let (nodes, tiers) = match read(context) {
        Ok(read) => read,
        Err(error) => return vec![Finding::new(PART, NAME, State::Partly, format!("{word}; {}", said(&error)))],
    };
    let ways = nodes.iter().filter_map(|node| {
        let targets = nodes::demotion_targets(&nodes, &tiers, node.id);
        (!targets.is_empty()).then(|| format!("{} → {}", node.id.0, numbers(&targets)))
    });
    let ways: Vec<String> = ways.collect();
    vec![if ways.is_empty() {
        Finding::new(PART, NAME, State::Missing, format!("{word}; no node is slower than another"))
    } else if is_on {
        Finding::new(
            PART,
            NAME,
            State::Works,
            format!("on: reclaim moves pages from node to node: {}", ways.join(", ")),
        )
    } else {
        let words = format!("off: reclaim swaps out of fast nodes; it could move pages: {}", ways.join(", "));
        Finding::new(PART, NAME, State::Partly, words).fix(format!("as root: echo 1 > {DEMOTION}"))
    }]
}

/// Whether demotion is on. The kernel writes `true` and `false`: `mm/memory-tiers.c: demotion_enabled_show` (6.1).
fn switch(context: &Context<'_>) -> Result<bool, LiveError> {
    let text: String = context.root.value(DEMOTION)?;
    match text.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => {
            Err(LiveError::strange(context.root.path(DEMOTION), format!("`{}`", isotherm_texts::shortened(other))))
        }
    }
}

pub(super) fn balancing(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "NUMA balancing";
    if !context.root.has(BALANCING) {
        return vec![
            Finding::new(PART, NAME, State::Missing, "this kernel does not move pages to those who use them")
                .fix("a kernel with CONFIG_NUMA_BALANCING"),
        ];
    }
    let mode: u32 = match context.root.value(BALANCING) {
        Ok(mode) => mode,
        Err(error) => return vec![Finding::new(PART, NAME, State::Missing, said(&error))],
    };
    let (nr_nodes, nr_tiers) = match read(context) {
        Ok((nodes, tiers)) => (nodes.len(), tiers.len()),
        Err(error) => {
            return vec![Finding::new(PART, NAME, State::Partly, format!("mode {mode}; {}", said(&error)))];
        }
    };
    let promote = format!("as root: echo 2 > {BALANCING}");
    let finding = |state, words: String| Finding::new(PART, NAME, state, format!("mode {mode}: {words}"));
    if mode & !(TO_CPUS | TO_FAST) != 0 {
        return vec![finding(State::Partly, "which no known kernel has".to_owned())];
    }
    if nr_nodes < 2 {
        return vec![finding(State::Missing, "one node, so that it has nothing to move".to_owned())];
    }
    vec![if mode & TO_FAST != 0 && nr_tiers > 1 {
        match context.root.value::<u64>(PROMOTION_LIMIT) {
            Ok(limit) => finding(State::Works, format!("promotes hot pages to faster nodes, at most {limit} MB/s")),
            Err(error) if error.is_missing() => {
                finding(State::Works, "promotes hot pages to faster nodes, without a limit of their rate".to_owned())
            }
            Err(error) => finding(State::Partly, format!("promotes hot pages to faster nodes; {}", said(&error))),
        }
    } else if mode & TO_FAST != 0 {
        finding(State::Partly, "promotes hot pages to faster nodes, of which there are none".to_owned())
    } else if mode & TO_CPUS != 0 {
        // It also moves pages of the measured program: docs/spec/live-linux.md#s6.
        let words = "moves pages to the nodes of the processors that use them, also while isotherm places or measures";
        let moves = finding(State::Works, words.to_owned());
        if nr_tiers > 1 { Finding { state: State::Partly, ..moves }.fix(promote) } else { moves }
    } else if nr_tiers > 1 {
        finding(State::Partly, "off: the kernel promotes nothing".to_owned()).fix(promote)
    } else {
        finding(State::Works, "off: the kernel moves nothing by itself".to_owned())
    }]
}

/// Node numbers, as `0, 1`.
fn numbers(nodes: &[isotherm_core::host::NodeId]) -> String {
    let numbers: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
    numbers.join(", ")
}
