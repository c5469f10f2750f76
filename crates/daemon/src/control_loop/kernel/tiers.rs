//! Promotion by NUMA balancing, and demotion by reclaim (docs/spec/promotion.md#s4, docs/spec/live-linux.md#s6).

use super::settings::{Setting, Tallied, standing, writes};
use super::{Counts, EngineError, Kernel, Line, Standing, System, SystemError, Trouble, Write};
use crate::config::{Config, TieringConfig};
use isotherm_units::{Duration, PAGE_BYTES};

const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";
const RATE_LIMIT: &str = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps";
/// Counters in pages since boot.
const COUNTERS: &[&str] = &[
    "pgpromote_candidate",
    "pgpromote_success",
    "pgdemote_kswapd",
    "pgdemote_direct",
    "pgdemote_khugepaged",
    "pgdemote_proactive",
];

/// The kernel's tiering.
#[derive(Debug)]
pub(in super::super) struct Tiers {
    settings: Vec<Setting>,
    tallied: Tallied,
}

impl Tiers {
    pub(in super::super) fn new(spec: &TieringConfig) -> Self {
        const DEBUGFS: &str = "it needs CONFIG_NUMA_BALANCING and debugfs, mounted at /sys/kernel/debug";
        let ms = |time: Duration| (time.ns() / 1_000_000).to_string();
        let balancing = &spec.balancing;
        let debugfs = |file, value: Option<String>| (file, value, DEBUGFS);
        let all = [
            (
                RATE_LIMIT,
                balancing.promote_rate_limit_mbps.map(|limit| limit.to_string()),
                "it needs Linux 6.1 or later",
            ),
            debugfs("/sys/kernel/debug/sched/numa_balancing/hot_threshold_ms", balancing.hot_threshold.map(ms)),
            debugfs("/sys/kernel/debug/sched/numa_balancing/scan_delay_ms", balancing.scan_delay.map(ms)),
            debugfs("/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms", balancing.scan_period_min.map(ms)),
            debugfs("/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms", balancing.scan_period_max.map(ms)),
            debugfs(
                "/sys/kernel/debug/sched/numa_balancing/scan_size_mb",
                balancing.scan_size.map(|size| (size.get() >> 20).to_string()),
            ),
            (
                DEMOTION,
                spec.demotion.map(|is_on| is_on.to_string()),
                "it needs Linux 6.1 or later with CONFIG_NUMA and CONFIG_MIGRATION",
            ),
            (BALANCING, spec.mode().map(str::to_owned), "it needs a kernel with CONFIG_NUMA_BALANCING"),
        ];
        let wanted = all.into_iter().filter_map(|(path, value, needs)| Some(Setting { path, value: value?, needs }));
        Self { settings: wanted.collect(), tallied: Tallied::new(COUNTERS) }
    }

    /// Checks that there is a slower tier to move pages to.
    fn has_tiers(world: &mut dyn System) -> Result<(), EngineError> {
        let tiers = world.memory_tiers()?;
        if tiers.len() > 1 {
            return Ok(());
        }
        let nodes: usize = tiers.iter().map(Vec::len).sum();
        Err(match (tiers.len(), nodes) {
            (0, _) => EngineError::NoTiers,
            (_, 0 | 1) => EngineError::OneNode,
            _ => EngineError::OneTier(nodes),
        })
    }
}

impl Kernel for Tiers {
    fn engine(&self) -> &'static str {
        "kernel: NUMA balancing"
    }

    fn why(&self) -> String {
        "the kernel promotes at hint faults, and demotes in reclaim".to_owned()
    }

    fn targets(&self) -> Vec<String> {
        vec!["all processes".to_owned()]
    }

    fn follow(&mut self, _: &Config, _: &mut dyn System) -> Vec<Line> {
        Vec::new()
    }

    fn writes(&mut self, world: &mut dyn System) -> Result<Vec<Write>, EngineError> {
        Self::has_tiers(world)?;
        writes(&self.settings, world)
    }

    fn begins(&mut self, world: &mut dyn System) -> Result<(), EngineError> {
        self.tallied.begin(world);
        Ok(())
    }

    fn standing(&mut self, world: &mut dyn System) -> Result<Standing, SystemError> {
        standing(&self.settings, world)
    }

    /// Asked bytes are candidates plus demoted pages; verified bytes have moved.
    fn counts(&self, is_on: bool, world: &mut dyn System) -> Counts {
        if !is_on {
            return Counts::default();
        }
        let grown = self.tallied.grown(world);
        let sum = |is_it: &dyn Fn(&str) -> bool| {
            let pages = grown.iter().filter(|(name, _)| is_it(name)).map(|(_, pages)| *pages);
            pages.fold(0, u64::saturating_add).saturating_mul(PAGE_BYTES)
        };
        let verified_bytes = sum(&|name| name != "pgpromote_candidate");
        // If a node has room, pages are promoted without being candidates.
        let asked_bytes = sum(&|name| name != "pgpromote_success").max(verified_bytes);
        let words = grown.iter().map(|(name, pages)| format!("{name} {pages} pages")).collect();
        Counts { asked_bytes, verified_bytes, words }
    }

    fn shortcoming(&self, _: &mut dyn System) -> Option<Trouble> {
        None
    }
}
