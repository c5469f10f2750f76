//! Costs of scans, probes and flushes of the accessed-bit module in real kernels, next to those in the simulated machine.
//!
//! A guest's clock counts one nanosecond for each instruction of any kind. So its figures are numbers of instructions, in which a cache
//! miss or a locked operation costs nothing. They compare kernels and acts with each other. Nothing is fitted to them.

use std::path::Path;
use std::time::Duration;

use isotherm_guest::pricing::{Act, Price, PricedMemory, Pricing};
use isotherm_kernel::costs::Costs;
use isotherm_rig::job::{Job, Setting};
use isotherm_rig::{Clock, Extras, Machine, Report, Task};
use serde::Serialize;

use super::{Rig, quiet, reports};
use crate::FidelityError;

/// Pages of the processes with small and with huge pages: 1 GiB.
pub const PAGES: u64 = 1 << 18;
/// Entries of a page table.
const TABLE: u64 = 512;

/// Extent of the measurement.
pub const PRICING: Pricing = Pricing { pages: PAGES, repeats: 5 };

/// Cost of one act in one kernel, and its simulated cost.
#[derive(Clone, Debug, Serialize)]
pub struct PriceRun {
    /// `uname -r`.
    pub kernel: String,
    /// Price as the guest reported it.
    pub price: Price,
    /// Median of its repeats, in ns of the guest, which are instructions.
    pub took_ns: u64,
    /// Simulated cost, in ns of a real processor; `None` if the simulated machine has no such act.
    pub simulated_ns: Option<u64>,
}

impl PriceRun {
    /// A total in ns as a figure for one entry.
    pub fn per_entry(&self, total_ns: u64) -> f64 {
        total_ns as f64 / self.price.nr_entries.max(1) as f64
    }

    /// A total in ns as ms for 1 GiB of memory; `None` for acts that do not walk a range entry by entry.
    pub fn ms_per_gib(&self, total_ns: u64) -> Option<f64> {
        let is_over_range = match self.price.act {
            Act::Read | Act::Clear | Act::ClearWritten => true,
            Act::Pagemap | Act::PagemapScan | Act::ClearRefs | Act::Smaps => true,
            Act::Call | Act::Test | Act::TestClear | Act::TestClearAlone | Act::Flush => false,
        };
        // A huge page's entry spans 2 MiB, also where 4 KiB were asked for.
        let level = if self.price.memory == PricedMemory::Huge { 1 } else { self.price.level };
        let gib = self.price.nr_entries as f64 * 512f64.powi(i32::from(level)) / PAGES as f64;
        is_over_range.then(|| total_ns as f64 / 1e6 / gib)
    }
}

/// Simulated cost of the act; `None` if the simulated machine has no such act. Calls are free unless the act is a call.
pub fn simulated_ns(costs: &Costs, price: &Price) -> Option<u64> {
    let entry = |name: &str| costs.entry(name).map(|entry| entry.value);
    let n = price.nr_entries;
    let tables = n.div_ceil(TABLE);
    let is_leaf = price.level == 0 || price.memory == PricedMemory::Huge;
    match price.act {
        Act::Call => entry("syscall_ns").map(|ns| ns * n),
        Act::Read => Some(tables * costs.table_pass_ns(0)),
        Act::Clear => Some(tables * costs.table_pass_ns(u32::try_from(price.nr_young / tables.max(1)).unwrap_or(512))),
        Act::ClearWritten => None,
        Act::Test | Act::TestClear | Act::TestClearAlone => Some(n * costs.probe_of_ns(price.level, is_leaf)),
        Act::Flush => Some(n * costs.flush_ns(0)),
        Act::Pagemap | Act::PagemapScan | Act::ClearRefs | Act::Smaps => entry("pte_scan_ns").map(|ns| ns * n),
    }
}

/// Measures all acts in one boot of a kernel. `module` is the accessed-bit module built for it.
///
/// # Errors
/// The guest does not finish; or an act there did not find the expected entries.
pub fn prices(rig: &Rig<'_>, module: &Path, pricing: Pricing) -> Result<Vec<PriceRun>, FidelityError> {
    let mut settings = quiet();
    let huge = "/sys/kernel/mm/transparent_hugepage/enabled";
    settings.retain(|setting| setting.path != huge);
    settings.push(Setting { path: huge.to_owned(), value: "madvise".to_owned(), optional: false });
    let job = Job { settings, zram_bytes: None, files_device: None, task: Task::Price(pricing) };
    let machine = Machine {
        memory_bytes: 2 << 30,
        clock: Clock::Instructions,
        time_limit: Duration::from_secs(1800),
        ..Machine::default()
    };
    let extras = Extras { modules: vec![module.to_owned()], ..Extras::default() };
    let result = rig.run_with(&machine, &job, &extras)?;
    let priced = reports(&result, 1, |report| match report {
        Report::Priced(priced) => Some(priced),
        _ => None,
    })?;
    let costs = Costs::default();
    let run = |price: &Price| {
        let mut took = price.took_ns.clone();
        took.sort_unstable();
        PriceRun {
            kernel: result.kernel.clone(),
            took_ns: took.get(took.len() / 2).copied().unwrap_or_default(),
            simulated_ns: simulated_ns(&costs, price),
            price: price.clone(),
        }
    };
    Ok(priced[0].prices.iter().map(run).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(memory: PricedMemory, act: Act, level: u8, nr_entries: u64, nr_young: u64) -> PriceRun {
        let price = Price { memory, act, level, nr_entries, nr_young, nr_calls: 1, took_ns: vec![3_000_000] };
        let simulated_ns = simulated_ns(&Costs::default(), &price);
        PriceRun { kernel: "6.12".to_owned(), price, took_ns: 3_000_000, simulated_ns }
    }

    #[test]
    fn a_gib_has_as_many_entries_as_its_level_says() {
        let small = run(PricedMemory::Small, Act::Clear, 0, PAGES, PAGES);
        assert_eq!(small.ms_per_gib(small.took_ns), Some(3.0));
        let huge = run(PricedMemory::Huge, Act::Clear, 0, 512, 512);
        assert_eq!(huge.ms_per_gib(huge.took_ns), Some(3.0));
        let upper = run(PricedMemory::Sparse, Act::Clear, 2, 512, 512);
        assert_eq!(upper.ms_per_gib(upper.took_ns), Some(3.0 / 512.0));
        assert_eq!(run(PricedMemory::Small, Act::Flush, 0, 1000, 0).ms_per_gib(1), None);
    }

    /// By hand from docs/mechanism/machine.md#costs: 50 + 500 + 1500 for a table that is cleared whole, 50 + 500 for one that is read.
    #[test]
    fn simulated_prices_are_those_of_the_table() {
        let simulated = |memory, act, level, entries, young| run(memory, act, level, entries, young).simulated_ns;
        assert_eq!(simulated(PricedMemory::Small, Act::Clear, 0, PAGES, PAGES), Some(512 * 2050));
        assert_eq!(simulated(PricedMemory::Small, Act::Read, 0, PAGES, 0), Some(512 * 550));
        // An eighth of the table's bits are set.
        assert_eq!(simulated(PricedMemory::Sparse, Act::Clear, 3, 64, 64), Some(550 + 187));
        assert_eq!(simulated(PricedMemory::Small, Act::Test, 0, 10, 0), Some(10 * (50 + 333)));
        assert_eq!(simulated(PricedMemory::Small, Act::TestClear, 1, 10, 10), Some(10 * (50 + 150)));
        assert_eq!(simulated(PricedMemory::Huge, Act::TestClear, 1, 10, 10), Some(10 * (50 + 267)));
        assert_eq!(simulated(PricedMemory::Small, Act::Flush, 0, 10, 0), Some(10_000));
        assert_eq!(simulated(PricedMemory::Small, Act::Pagemap, 0, 10, 0), Some(120));
        assert_eq!(simulated(PricedMemory::Small, Act::ClearWritten, 0, 10, 10), None);
    }
}
