//! Policies that decide which pages are on fast memory: one table.
//!
//! Scan daemons and NUMA balancing are decided by `isotherm-core`; their drivers in a machine are in `machine/tiering.rs` (daemons) and
//! `machine/balancing.rs` (hint faults). Design: `docs/mechanism/promotion.md`; results: `docs/evidence/promotion.md`.

mod balancing;
mod damon_migrate;
mod page_memory;

pub use balancing::BalancingConfig;
pub(crate) use balancing::{Balancer, Where};
pub(crate) use page_memory::PageMemory;

use crate::machine::{ConfigError, MachineConfig};
use isotherm_core::OutOfRange;
use isotherm_core::monitor::MonitorConfig;
use isotherm_core::promotion::hint_fault::Balancing;
use isotherm_core::promotion::{Mode, PromotionConfig};
use serde::{Deserialize, Serialize};

/// A policy over tiers of memory.
#[derive(Clone, Copy, Debug)]
pub struct TieringPolicy {
    /// Name in scenarios and results.
    pub name: &'static str,
    /// One line of description.
    pub summary: &'static str,
    /// Mechanism that moves pages.
    pub mover: Mover,
    /// The cost of memory under it.
    pub memory: MemoryView,
}

/// Mechanism that moves pages.
#[derive(Clone, Copy, Debug)]
pub enum Mover {
    Nobody,
    /// The scan daemon in this mode.
    Scan(Mode),
    /// NUMA balancing.
    HintFaults(Balancing),
    /// A region monitor with schemes on physical memory.
    Regions(fn(&MachineConfig) -> MonitorConfig),
}

/// The cost of memory under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryView {
    /// Setting of the machine.
    AsItIs,
    /// All memory costs as the fastest node.
    AllFast,
    /// All memory costs as the slowest node.
    AllSlow,
}

/// All policies. To add a policy: a line here, and a file in this folder if it decides something itself; scenarios, tests and documentation
/// read this table.
#[rustfmt::skip]
pub const TIERING_POLICIES: &[TieringPolicy] = &[
    policy("none", "nobody moves pages", Mover::Nobody, MemoryView::AsItIs),
    policy("v0", "kmmscand as first published: first access promotes, one thread, one node", Mover::Scan(Mode::V0), MemoryView::AsItIs),
    policy("v1", "kmmscand, patch version 1: a migration thread, no node below its high watermark", Mover::Scan(Mode::V1), MemoryView::AsItIs),
    policy("v2", "kscand, patch version 2: lists by space, only active pages", Mover::Scan(Mode::V2), MemoryView::AsItIs),
    policy("v3", "kscand, patch version 3: two accesses in a row, failures slow it down", Mover::Scan(Mode::V3), MemoryView::AsItIs),
    policy("rch", "rotating cursor and region heat: hot regions first, all of a space in a minute", Mover::Scan(Mode::Rch), MemoryView::AsItIs),
    policy("numa-mode-1", "NUMA balancing, mode 1: pages follow the threads that fault on them twice", Mover::HintFaults(Balancing::Normal), MemoryView::AsItIs),
    policy("numa-mode-2", "NUMA balancing, mode 2: pages that fault soon after they were marked", Mover::HintFaults(Balancing::Tiering), MemoryView::AsItIs),
    damon_migrate::ENTRY,
    policy("all-fast", "bound: all memory as fast as the fastest", Mover::Nobody, MemoryView::AllFast),
    policy("all-slow", "bound: all memory as slow as the slowest", Mover::Nobody, MemoryView::AllSlow),
];

const fn policy(name: &'static str, summary: &'static str, mover: Mover, memory: MemoryView) -> TieringPolicy {
    TieringPolicy { name, summary, mover, memory }
}

/// The policy of this name.
pub fn tiering_policy(name: &str) -> Option<&'static TieringPolicy> {
    TIERING_POLICIES.iter().find(|policy| policy.name == name)
}

/// The policy and its settings: `[tiering]` of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TieringSpec {
    /// Name of the policy, one of [`TIERING_POLICIES`].
    pub policy: String,
    /// Keys of the scan daemon, except its mode, which follows from the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promotion: Option<PromotionConfig>,
    /// Controls of NUMA balancing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balancing: Option<BalancingConfig>,
}

impl Default for TieringSpec {
    fn default() -> Self {
        Self { policy: "none".to_owned(), promotion: None, balancing: None }
    }
}

impl TieringSpec {
    /// The policy, if all values make sense with it on `machine`.
    ///
    /// # Errors
    /// The first setting that does not fit, with the allowed values.
    pub fn check(&self, machine: &MachineConfig) -> Result<&'static TieringPolicy, ConfigError> {
        let error = |field: &str, got: String, allowed: String| Err(ConfigError::new(field, got, allowed));
        let Some(policy) = tiering_policy(&self.policy) else {
            let names: Vec<&str> = TIERING_POLICIES.iter().map(|policy| policy.name).collect();
            return error("policy", self.policy.clone(), names.join(", "));
        };
        if self.promotion.is_some() && !matches!(policy.mover, Mover::Scan(_)) {
            return error("promotion", "given".to_owned(), format!("with a scan daemon, not with `{}`", policy.name));
        }
        if self.balancing.is_some() && !matches!(policy.mover, Mover::HintFaults(_)) {
            return error("balancing", "given".to_owned(), format!("with NUMA balancing, not with `{}`", policy.name));
        }
        if let Mover::Scan(mode) = policy.mover {
            let given = self.promotion.as_ref().and_then(|config| config.mode);
            if let Some(given) = given.filter(|given| *given != mode) {
                let got = given.entry().name.to_owned();
                return error("promotion.mode", got, format!("none: it is that of the policy, `{}`", policy.name));
            }
            if let Err(OutOfRange { place, got, allowed }) = self.promotion_config(mode).validate() {
                return error(&format!("promotion.{place}"), got, allowed);
            }
        }
        if let Some(balancing) = self.balancing {
            balancing.check()?;
        }
        let has_slow = machine.nodes.iter().any(|node| !node.has_cpus());
        if !matches!(policy.mover, Mover::Nobody) && !has_slow {
            let allowed =
                "a machine with a node without processors, which is the slow tier: `kind = \"cxl\"`, for example";
            return error("policy", policy.name.to_owned(), allowed.to_owned());
        }
        if let Mover::Scan(mode) = policy.mover {
            let target = self.promotion_config(mode).target_node;
            let node = usize::try_from(target).ok().and_then(|index| machine.nodes.get(index));
            if !node.is_some_and(crate::machine::NodeConfig::has_cpus) {
                let fast = (0..).zip(&machine.nodes).filter(|(_, node): &(u32, _)| node.has_cpus());
                let fast: Vec<String> = fast.map(|(index, _)| index.to_string()).collect();
                let allowed = format!("a node of the top tier with memory: {}", fast.join(", "));
                return error("promotion.target-node", target.to_string(), allowed);
            }
        }
        Ok(policy)
    }

    /// The scan daemon's configuration in this mode.
    pub(crate) fn promotion_config(&self, mode: Mode) -> PromotionConfig {
        PromotionConfig { mode: Some(mode), ..self.promotion.clone().unwrap_or_default() }
    }
}

impl TieringPolicy {
    /// Whether released kernels have it. The scan daemon was published and never merged; bounds are no policies.
    pub fn runs_on_linux(&self) -> bool {
        self.memory == MemoryView::AsItIs && !matches!(self.mover, Mover::Scan(_))
    }

    /// The machine under this policy.
    pub fn applied_to(&self, mut machine: MachineConfig) -> MachineConfig {
        // In the kernel the mark belongs to the tiering mode of NUMA balancing; ours wants the same room, the series did without.
        let wants_room = match self.mover {
            Mover::HintFaults(mode) => mode.is_tiering(),
            Mover::Scan(mode) => mode == Mode::Rch,
            Mover::Nobody | Mover::Regions(_) => false,
        };
        machine.tiering.promo_watermark |= wants_room;
        let model = match self.memory {
            MemoryView::AsItIs => None,
            MemoryView::AllFast => machine.nodes.iter().min_by_key(|node| node.latency).cloned(),
            MemoryView::AllSlow => machine.nodes.iter().max_by_key(|node| node.latency).cloned(),
        };
        if let Some(model) = model {
            for node in &mut machine.nodes {
                let cpus = Some(node.has_cpus());
                *node = crate::machine::NodeConfig { memory: node.memory, cpus, ..model.clone() };
            }
        }
        machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{MemoryKind, NodeConfig};
    use isotherm_units::{Bytes, Duration};

    fn machine() -> MachineConfig {
        let node = |kind| NodeConfig::of_kind(kind, Bytes::from_gib(1));
        MachineConfig { nodes: vec![node(MemoryKind::Dram), node(MemoryKind::Cxl)], ..MachineConfig::default() }
    }

    fn of(policy: &str) -> TieringSpec {
        TieringSpec { policy: policy.to_owned(), ..TieringSpec::default() }
    }

    #[test]
    fn each_policy_is_found_by_its_name_and_taken_on_two_tiers() {
        for (index, policy) in TIERING_POLICIES.iter().enumerate() {
            assert_eq!(tiering_policy(policy.name).map(|found| found.summary), Some(policy.summary));
            assert!(TIERING_POLICIES[..index].iter().all(|other| other.name != policy.name), "{}", policy.name);
            assert_eq!(of(policy.name).check(&machine()).map(|policy| policy.name), Ok(policy.name));
            assert_eq!(policy.applied_to(machine()).validate(), Ok(()), "{}", policy.name);
        }
    }

    #[test]
    fn bad_input_is_refused_in_words() {
        type Row = (fn(&mut TieringSpec, &mut MachineConfig), &'static str);
        let table: [Row; 10] = [
            (|s, _| s.policy = "v4".into(), "`policy` is v4; allowed: none, v0, v1, v2, v3, rch, numa-mode-1"),
            (
                |s, _| s.promotion.get_or_insert_default().mm_scan_period = Some(Duration::from_ms(1)),
                "`promotion.mm-scan-period` is 1ms; allowed: whole milliseconds from 400ms to 5s",
            ),
            (
                |s, _| s.promotion.get_or_insert_default().rate_limit = Some(Bytes::ZERO),
                "`promotion.rate-limit` is 0B; allowed: 4KiB a second and more",
            ),
            (
                |s, _| s.promotion.get_or_insert_default().target_node = 1,
                "`promotion.target-node` is 1; allowed: a node of the top tier with memory: 0",
            ),
            (
                |s, _| s.promotion.get_or_insert_default().target_node = 7,
                "`promotion.target-node` is 7; allowed: a node of the top tier with memory: 0",
            ),
            (
                |s, _| s.promotion.get_or_insert_default().mode = Some(Mode::V2),
                "`promotion.mode` is v2; allowed: none: it is that of the policy, `rch`",
            ),
            (
                |s, _| {
                    s.policy = "v0".into();
                    s.promotion.get_or_insert_default().mode = Some(Mode::default());
                },
                "`promotion.mode` is rch; allowed: none: it is that of the policy, `v0`",
            ),
            (|s, _| s.balancing = Some(BalancingConfig::default()), "allowed: with NUMA balancing, not with `rch`"),
            (|_, m| m.nodes.truncate(1), "`policy` is rch; allowed: a machine with a node without processors"),
            (
                |s, _| (s.policy, s.promotion) = ("none".into(), Some(PromotionConfig::default())),
                "`promotion` is given; allowed: with a scan daemon, not with `none`",
            ),
        ];
        for (change, expected) in table {
            let (mut spec, mut machine) = (of("rch"), machine());
            change(&mut spec, &mut machine);
            let message = spec.check(&machine).unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        }
    }

    /// docs/spec/promotion.md#s4-1 and #s4-5: a rate of zero is accepted, and nothing passes except through free memory.
    #[test]
    fn a_rate_of_zero_is_the_kernels_to_take() {
        let balancing = Some(BalancingConfig { promote_rate_limit_mbps: 0, ..BalancingConfig::default() });
        assert!(TieringSpec { balancing, ..of("numa-mode-2") }.check(&machine()).is_ok());
    }

    #[test]
    fn bounds_cost_the_same_everywhere_and_tiering_raises_the_mark() {
        let latencies = |name: &str| {
            let machine = tiering_policy(name).unwrap().applied_to(machine());
            machine.nodes.iter().map(|node| node.latency.ns()).collect::<Vec<_>>()
        };
        assert_eq!(
            [latencies("none"), latencies("all-fast"), latencies("all-slow")],
            [[100, 250], [100, 100], [250, 250]]
        );
        let raises = |name: &str| tiering_policy(name).unwrap().applied_to(machine()).tiering.promo_watermark;
        assert_eq!(["numa-mode-2", "numa-mode-1", "rch", "v3"].map(raises), [true, false, true, false]);
    }
}
