//! The guest's hot memory on a slow node, in the simulated machine.

use isotherm_core::host::{NodeId, TargetId, Tiering};
use isotherm_guest::monitoring::ARENA_PAGE;
use isotherm_guest::patterns::Pattern;
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_sim::host::MemoryHost;
use isotherm_sim::machine::{
    DriverError, Ending, MachineBuilder, MachineConfig, MemoryKind, MonitorDriver, MonitorTarget, NodeConfig,
};
use isotherm_sim::tiering::{BalancingConfig, TieringSpec, tiering_policy};
use isotherm_units::{Bytes, Duration, Instant, PAGE_SHIFT};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::player::{PassTimes, Player};
use super::promotion::{LOOK_EVERY, Looks, MEMORY_BYTES, Measured, PAGES, PASS, RATE_MBPS, TierCase};
use crate::FidelityError;

/// Time at which everything was touched and the first pass begins.
const LOADED: Instant = Instant::from_ns(1_000_000_000);
/// CPU time of a pass in the guest, for all patterns: in all stored runs of mode 2 the first scan comes between the 800th and the
/// 1000th pass, most near the latter, and it comes after 1 s of the process's CPU time (`scan_delay`).
const PASS_CPU: Duration = Duration::from_us(1050);
/// In an emulated guest no memory is slower: the smallest difference that keeps the tiers as in the firmware's tables.
const LATENCIES: [Duration; 2] = [Duration::from_ns(2), Duration::from_ns(5)];

/// Plays a case.
pub(super) fn simulated(case: &TierCase, passes: u64) -> Result<Measured, FidelityError> {
    let balancing = BalancingConfig { promote_rate_limit_mbps: u64::from(RATE_MBPS), ..BalancingConfig::default() };
    let policy = format!("numa-mode-{}", case.mode);
    let spec = TieringSpec { policy, balancing: Some(balancing), ..TieringSpec::default() };
    let (vmstat, looks) = played(case.name, &spec, case.pattern(), None, passes)?;
    Ok(Measured { vmstat, nodes: looks.nodes })
}

/// (passes done, pages on each node): of the arena, and of the part that is used.
#[derive(Debug, Default)]
pub(super) struct TierLooks {
    pub(super) nodes: Looks,
    pub(super) hot_nodes: Looks,
}

/// Plays a pattern that begins on the slow node under a policy. `hot`: first page and number of pages of the part that is used.
pub(super) fn played(
    name: &str,
    spec: &TieringSpec,
    pattern: Pattern,
    hot: Option<(u32, u32)>,
    passes: u64,
) -> Result<(BTreeMap<String, i64>, TierLooks), FidelityError> {
    let policy =
        tiering_policy(&spec.policy).ok_or_else(|| FidelityError::Live(format!("no policy {}", spec.policy)))?;
    let machine = policy.applied_to(machine());
    let mut builder = MachineBuilder::new(&machine, policy_by_name("classic").expect("the table has it").build())?;
    let player = Player {
        pattern,
        others: Vec::new(),
        pass: PASS,
        passes: Some(passes),
        compute: PASS_CPU,
        begin: LOADED,
        times: PassTimes::default(),
    };
    let id = builder.add_program(player.into_program(), CgroupId::ROOT)?;
    builder.start_at(id, Instant::START);
    builder.take_memory_of(id, 1)?;
    builder.tiering(spec, 1)?;
    let samples = Arc::new(Mutex::new(TierLooks::default()));
    let looker = Looker { passes: 0, last: passes, hot, samples: samples.clone() };
    builder.monitor("looker", vec![MonitorTarget::Process(id, 0)], Box::new(looker))?;
    let outcome = builder.build().run(Instant::START + Duration::from_secs(3600))?;
    if outcome.programs[0].ending != Ending::Finished {
        return Err(FidelityError::Unfinished {
            workload: name.to_owned(),
            policy: policy.name.to_owned(),
            what: format!("it did not come to its end: {:?}", outcome.programs[0].ending),
        });
    }
    let counters = &outcome.system().counters;
    let value = |counter| i64::try_from(counters.get(counter)).unwrap_or(i64::MAX);
    let mut vmstat: BTreeMap<String, i64> =
        Counter::ALL.iter().map(|&counter| (counter.name().to_owned(), value(counter))).collect();
    // Pages promoted by their latency, and those promoted because there was room, which the kernel counts separately.
    let (hot, ample) = outcome.tiering.as_ref().map_or((0, 0), |tiering| tiering.candidates);
    for (name, pages) in [("pgpromote_candidate", hot), ("pgpromote_candidate_nrl", ample)] {
        vmstat.insert(name.to_owned(), i64::try_from(pages).unwrap_or(i64::MAX));
    }
    let looks = std::mem::take(&mut *samples.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((vmstat, looks))
}

fn machine() -> MachineConfig {
    let memory = [MEMORY_BYTES.0, MEMORY_BYTES.1].map(Bytes::new);
    let kinds = [MemoryKind::Dram, MemoryKind::Cxl];
    let node =
        |index: usize| NodeConfig { latency: LATENCIES[index], ..NodeConfig::of_kind(kinds[index], memory[index]) };
    let mut machine = MachineConfig { cpus: 1, nodes: vec![node(0), node(1)], ..MachineConfig::default() };
    machine.tiering.demotion = true;
    machine
}

/// Samples the pages of the arena on each node.
struct Looker {
    /// Passes done at the next sample.
    passes: u64,
    last: u64,
    hot: Option<(u32, u32)>,
    samples: Arc<Mutex<TierLooks>>,
}

impl MonitorDriver for Looker {
    fn run(&mut self, now: Instant, host: &mut MemoryHost<'_>) -> Result<Option<Instant>, DriverError> {
        let due = |passes: u64| LOADED + PASS.saturating_mul(passes);
        if due(self.passes) <= now {
            let addresses: Vec<u64> = (0..u64::from(PAGES)).map(|page| (ARENA_PAGE + page) << PAGE_SHIFT).collect();
            let mut found = vec![None; addresses.len()];
            host.page_nodes(TargetId(0), &addresses, &mut found)?;
            let on = |found: &[Option<NodeId>], node| {
                found.iter().filter(|found| **found == Some(NodeId(node))).count() as u64
            };
            let sample = |found: &[Option<NodeId>]| (self.passes, vec![on(found, 0), on(found, 1)]);
            let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
            samples.nodes.push(sample(&found));
            if let Some((first, pages)) = self.hot {
                samples.hot_nodes.push(sample(&found[first as usize..(first + pages) as usize]));
            }
            self.passes += LOOK_EVERY;
        }
        Ok((self.passes <= self.last).then(|| due(self.passes)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::promotion::TIER_CASES;
    use super::*;

    #[test]
    fn tiers_are_those_of_the_guest() {
        let policy = policy_by_name("classic").unwrap().build();
        let outcome = MachineBuilder::new(&machine(), policy).unwrap().build().run(Instant::START).unwrap();
        // As `memory_tier4: 0` and `memory_tier90: 1` in the data.
        assert_eq!(outcome.nodes.iter().map(|node| node.tier).collect::<Vec<_>>(), [4, 90]);
    }

    /// The scan comes after 1 s of CPU time, and each marked page in use faults once.
    #[test]
    fn a_hot_set_is_promoted_and_the_rest_stays() {
        let hot = TIER_CASES.iter().find(|case| (case.name, case.mode) == ("hot-set", 2)).unwrap();
        let measured = simulated(hot, 1200).unwrap();
        assert_eq!(measured.nodes[0], (0, vec![0, u64::from(PAGES)]), "it begins on the slow node");
        assert_eq!(measured.nodes.last().unwrap().1, [8192, u64::from(PAGES) - 8192]);
        assert_eq!(measured.vmstat["pgpromote_success"], 8192);
        assert_eq!((measured.vmstat["pgpromote_candidate"], measured.vmstat["pgpromote_candidate_nrl"]), (8192, 0));
        assert_eq!(measured.vmstat["pgdemote_kswapd"], 0);
    }
}
