//! Counters of groups, added up now and then.
//!
//! Each processor counts for itself. Reclaim reads sums that a worker makes every 2 s of the machine's time (Linux since 6.8,
//! `flush_memcg_stats_dwork`, `mem_cgroup_flush_stats_ratelimited` in `prepare_scan_control`), or that were made for a reader of
//! `memory.stat`. The machine calls [`flush_statistics`](crate::reclaim::ReclaimPolicy::flush_statistics) at both. The sums decide whether
//! active pages are deactivated, and whether a refault is recent. True sizes decide how much of each list is scanned.

use super::Classic;
use crate::memory::Memory;
use crate::reclaim::LruvecId;
use crate::reclaim::scan_balance::{Lru, PageType, inactive_is_low};

/// Counts of one lruvec and all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Lengths of the four lists.
    pub(super) sizes: [u64; 4],
    /// Refaults that were activated, by type.
    pub(super) activations: [u64; 2],
}

/// The sums that reclaim reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Statistics {
    by_lruvec: Vec<Counted>,
}

impl Statistics {
    pub(super) fn flush(&mut self, by_lruvec: Vec<Counted>) {
        self.by_lruvec = by_lruvec;
    }

    /// The sums of an lruvec; `None` where counters are up to date always.
    fn of(&self, memory: &Memory, lruvec: LruvecId) -> Option<Counted> {
        // A group that was made later counts nothing yet.
        memory.config.lazy_statistics.then(|| self.by_lruvec.get(lruvec.index()).copied().unwrap_or_default())
    }

    pub(super) fn activations(&self, memory: &Memory, lruvec: LruvecId) -> Option<[u64; 2]> {
        Some(self.of(memory, lruvec)?.activations)
    }
}

impl Classic {
    /// Pages on `lru` of the lruvec's group and all below it, as far as they were added up.
    pub(super) fn counted_len(&self, memory: &Memory, lruvec: LruvecId, lru: Lru) -> u64 {
        let counted = self.statistics.of(memory, lruvec);
        counted.map_or_else(|| self.lists.subtree_len(lruvec, lru), |counted| counted.sizes[lru as usize])
    }

    /// Whether the subtree has too few cold pages of a type (docs/spec/classic-lru.md#s4), by the sums last made.
    pub(super) fn inactive_is_low(&self, memory: &Memory, lruvec: LruvecId, page_type: PageType) -> bool {
        let (inactive, active) = match page_type {
            PageType::Anon => (Lru::InactiveAnon, Lru::ActiveAnon),
            PageType::File => (Lru::InactiveFile, Lru::ActiveFile),
        };
        let [inactive, active] = [inactive, active].map(|lru| self.counted_len(memory, lruvec, lru));
        inactive_is_low(inactive, active, memory.config.sample_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::CgroupId;
    use crate::memory::NodeId;
    use crate::reclaim::{Reclaimer, Scan};
    use crate::swap::device::DeviceKind;
    use crate::testkit::Testbed;

    /// With 5000 cold file pages reclaim trims the cache (C10), once it knows of them.
    #[test]
    fn reclaim_knows_what_was_added_up() {
        let trims = |lazy: bool, pass: &dyn Fn(&mut Testbed)| {
            let mut bed = Testbed::new(Box::new(Classic::new()), 8192, DeviceKind::Nvme, 4096);
            bed.memory.config.lazy_statistics = lazy;
            let group = bed.group(CgroupId::ROOT, "a");
            let walk = |bed: &mut Testbed| {
                let mut scan = Scan::new(Reclaimer::Limit, group, 32, 60);
                bed.policy.begin_walk(&mut bed.memory, NodeId::default(), &mut scan);
                scan.cache_trim_used
            };
            assert!(!walk(&mut bed), "nothing is there");
            let file = bed.file("data", 5000);
            (0..5000).for_each(|page| _ = bed.cached(group, file, page));
            pass(&mut bed);
            walk(&mut bed)
        };
        assert!(trims(false, &|_| ()), "up to date always");
        assert!(!trims(true, &|_| ()), "of the time before the pages came");
        assert!(trims(true, &|bed| bed.policy.flush_statistics()), "they were added up");
    }
}
