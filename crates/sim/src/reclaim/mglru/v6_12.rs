//! What Linux 6.12 does otherwise than both 6.1 and 7.2: when an lruvec ages, and when its eviction ends. Uses of pages, insertion,
//! sorting, shadows, type and tier are those of `v6_1.rs`; groups in turn and the time to live those of 7.2.

use super::Mglru;
use super::ageing::Effort;
use super::baseline::Baseline;
use super::evict::{Queue, Turn};
use super::generations::Lruvec;
use super::page::{MIN_LRU_BATCH, MIN_NR_GENS};
use crate::cgroup::protection::Standing;
use crate::memory::Memory;
use crate::reclaim::{DEF_PRIORITY, LruvecId, Scan};

/// What [`Mglru::amount_v6_12`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    /// So many pages.
    Pages(u64),
    /// It had to age, or is protected: nothing is taken from it now.
    Rotate,
}

impl Lruvec {
    /// Oldest generations that are empty are given up after a batch, which counts as a page looked at (`evict_folios`,
    /// `try_to_inc_min_seq`). With two generations left there is nothing to go on with.
    pub(super) fn scanned_v6_12(&mut self, scanned: u64, swappiness: u32) -> u64 {
        let has_advanced = self.flush_min_seq(swappiness, Baseline::V6_12);
        if self.nr_generations(Self::checked_v6_1(swappiness)) == MIN_NR_GENS {
            return 0;
        }
        scanned + u64::from(has_advanced)
    }
}

impl Mglru {
    /// How much to look at (`get_nr_to_scan`): all pages that may go, shifted by the priority. Where ageing is due below the first
    /// priority the lruvec ages in place of it.
    fn amount_v6_12(&mut self, memory: &mut Memory, lruvec: LruvecId, swappiness: u32, scan: &Scan) -> Amount {
        let usage = memory.cgroups.get(memory.cgroup_of(lruvec)).usage;
        if scan.effective.standing(usage) == Standing::BelowMin {
            return Amount::Rotate;
        }
        let own = self.generations.get(lruvec);
        let can_evict = own.nr_generations(Lruvec::checked_v6_1(swappiness)) > MIN_NR_GENS;
        let total = if can_evict { own.evictable_pages(swappiness) } else { 0 };
        if total > 0 && self.is_offline(lruvec) {
            return Amount::Pages(total);
        }
        if scan.priority == DEF_PRIORITY || !own.is_due_v6_1(swappiness) {
            return Amount::Pages(total >> scan.priority);
        }
        self.age(memory, lruvec, swappiness, Effort::Heuristic);
        Amount::Rotate
    }

    /// Evicts from one lruvec as far as this priority asks for (`try_to_shrink_lruvec`). Reclaim for a limit does not stop at its
    /// target (`should_abort_scan`), for fairness among groups.
    pub(super) fn shrink_v6_12(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) -> Turn {
        let swappiness = Self::effective_swappiness(memory, lruvec, scan);
        let mut scanned = 0;
        loop {
            let amount = match self.amount_v6_12(memory, lruvec, swappiness, scan) {
                Amount::Rotate => return Turn::Rotate,
                Amount::Pages(pages) => pages,
            };
            if amount == 0 {
                return Turn::Stay;
            }
            let batch = self.evict_batch(memory, lruvec, MIN_LRU_BATCH, swappiness, Queue::Waits, scan);
            scanned += batch.scanned;
            if batch.scanned == 0 || scan.blocked || scanned >= amount {
                return Turn::Stay;
            }
            if scan.is_global() && self.is_enough(memory, lruvec, scan) {
                return Turn::Stay;
            }
        }
    }
}
