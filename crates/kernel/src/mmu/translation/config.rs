//! Sizes of the translation caches of a core.

use serde::{Deserialize, Serialize};

/// The `[machine.mmu.translation]` table. The defaults are a recent server core; 0 entries leave a cache out.
///
/// Sizes of paging-structure caches are not published by the makers: those here are of the order that reverse engineering
/// found. Measure the processor in question before believing a result that hangs on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TranslationConfig {
    /// Entries of the second-level TLB, which holds base and 2 MiB pages. Default 1536.
    pub tlb_entries: u32,
    /// Entries among which one address may lie. `tlb_entries / tlb_ways` is a power of two. Default 12.
    pub tlb_ways: u32,
    /// Cached words that point to a table of base pages (spanning 2 MiB). Default 32.
    pub pde_entries: u32,
    /// Cached words that span 1 GiB. Default 4.
    pub pdpte_entries: u32,
    /// Cached words that span 512 GiB. Default 2.
    pub pml4_entries: u32,
    /// Cached words that span 256 TiB, on 5 levels only. Default 2.
    pub pml5_entries: u32,
    /// Whether translations are tagged by address space, so that they outlive a switch to another process: the kernel
    /// keeps six spaces a core. Default true.
    pub pcid: bool,
}

impl Default for TranslationConfig {
    fn default() -> Self {
        Self {
            tlb_entries: 1536,
            tlb_ways: 12,
            pde_entries: 32,
            pdpte_entries: 4,
            pml4_entries: 2,
            pml5_entries: 2,
            pcid: true,
        }
    }
}

impl TranslationConfig {
    /// Sets of the TLB; 0 where there is none.
    pub(super) fn sets(&self) -> u32 {
        self.tlb_entries.checked_div(self.tlb_ways).unwrap_or(0)
    }

    /// The first bad value, with its key and the allowed values.
    pub(in crate::mmu) fn first_error(&self) -> Option<(&'static str, u64, &'static str)> {
        const ENTRIES_MAX: u32 = 1 << 24;
        let ways_ok = (1..=64).contains(&self.tlb_ways);
        let sets_ok = self.tlb_entries == 0
            || ways_ok && self.tlb_entries.is_multiple_of(self.tlb_ways) && self.sets().is_power_of_two();
        let psc = [
            ("mmu.translation.pde-entries", self.pde_entries),
            ("mmu.translation.pdpte-entries", self.pdpte_entries),
            ("mmu.translation.pml4-entries", self.pml4_entries),
            ("mmu.translation.pml5-entries", self.pml5_entries),
        ];
        if !ways_ok {
            return Some(("mmu.translation.tlb-ways", u64::from(self.tlb_ways), "1 to 64"));
        }
        if !sets_ok || self.tlb_entries > ENTRIES_MAX {
            let allowed = "tlb-ways times a power of two, up to 16777216, or 0";
            return Some(("mmu.translation.tlb-entries", u64::from(self.tlb_entries), allowed));
        }
        let too_many = psc.into_iter().find(|&(_, entries)| entries > 4096);
        too_many.map(|(key, entries)| (key, u64::from(entries), "0 to 4096"))
    }
}
