//! The counters of `/proc/vmstat` and `memory.stat` that memory management moves (docs/spec/pressure.md#s5).
//!
//! The comment of each counter names the event that increments it. "Events" count occurrences, all others count base pages. Kernels split
//! `pgskip` and `allocstall` by zone; here each is one sum over the zones.

use std::fmt;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// One counter. [`Counter::ALL`] is the order of every listing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Counter {
            $($(#[$doc])* $variant,)+
        }

        impl Counter {
            /// All counters in the order in which they are listed.
            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

            /// The kernel's name, as in `/proc/vmstat`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

counters! {
    /// Events: faults handled, major ones included.
    PgFault = "pgfault",
    /// Events: file faults without a page-cache entry and swap-in faults without a swap-cache entry. Charged to the group
    /// of the faulting process. Synchronous devices and zero-filled slots count too.
    PgMajFault = "pgmajfault",
    /// Pages read from the swap device, the whole readahead window; zero-filled slots do not count.
    PswpIn = "pswpin",
    /// Pages written to the swap device; zero-filled pages do not count.
    PswpOut = "pswpout",
    /// Swap readahead neighbours read.
    SwapRa = "swap_ra",
    /// Swap readahead neighbours touched for the first time.
    SwapRaHit = "swap_ra_hit",
    /// Scanned by the node's daemon. Classic: examined at the inactive tail; multi-gen: isolated.
    PgScanKswapd = "pgscan_kswapd",
    /// Scanned by tasks that could not allocate or hit a limit.
    PgScanDirect = "pgscan_direct",
    /// Scanned by the huge-page daemon.
    PgScanKhugepaged = "pgscan_khugepaged",
    /// Scanned on request: `memory.reclaim` and schemes.
    PgScanProactive = "pgscan_proactive",
    /// Anonymous pages scanned, by all.
    PgScanAnon = "pgscan_anon",
    /// File pages scanned, by all.
    PgScanFile = "pgscan_file",
    /// Freed or demoted by the node's daemon.
    PgStealKswapd = "pgsteal_kswapd",
    /// Freed or demoted by tasks that could not allocate or hit a limit.
    PgStealDirect = "pgsteal_direct",
    /// Freed or demoted by the huge-page daemon.
    PgStealKhugepaged = "pgsteal_khugepaged",
    /// Freed or demoted on request.
    PgStealProactive = "pgsteal_proactive",
    /// Anonymous pages freed or demoted, by all.
    PgStealAnon = "pgsteal_anon",
    /// File pages freed or demoted, by all.
    PgStealFile = "pgsteal_file",
    /// Classic: active pages scanned; multi-gen: pages moved to a younger generation while scanning.
    PgRefill = "pgrefill",
    /// Pages activated by a reclaim outcome, by marking a listed page accessed, or by a scheme.
    PgActivate = "pgactivate",
    /// Pages deactivated by balancing or by a hint.
    PgDeactivate = "pgdeactivate",
    /// Pages moved to the tail after write-back or by a hint.
    PgRotated = "pgrotated",
    /// Pages made lazily freeable.
    PgLazyFree = "pglazyfree",
    /// Lazily freeable pages freed.
    PgLazyFreed = "pglazyfreed",
    /// Pages skipped because their zone is too high.
    PgSkip = "pgskip",
    /// Events: entries into global direct reclaim (not at a group's limit).
    AllocStall = "allocstall",
    /// Events: tasks made to wait for the node's daemon before direct reclaim.
    PgScanDirectThrottle = "pgscan_direct_throttle",
    /// Events: balancing runs of the node's daemon.
    PageOutRun = "pageoutrun",
    /// Events: the daemon wanted to sleep but was woken or fell under the low watermark at once.
    KswapdLowWmarkHitQuickly = "kswapd_low_wmark_hit_quickly",
    /// Events: the daemon wanted to sleep but the high watermark did not hold.
    KswapdHighWmarkHitQuickly = "kswapd_high_wmark_hit_quickly",
    /// Anonymous pages that were faulted in again and had a shadow.
    WorkingsetRefaultAnon = "workingset_refault_anon",
    /// File pages that were read again and had a shadow.
    WorkingsetRefaultFile = "workingset_refault_file",
    /// Anonymous refaults that were recent: activated.
    WorkingsetActivateAnon = "workingset_activate_anon",
    /// File refaults that were recent: activated.
    WorkingsetActivateFile = "workingset_activate_file",
    /// Recent anonymous refaults of pages that were in the working set when evicted.
    WorkingsetRestoreAnon = "workingset_restore_anon",
    /// Recent file refaults of pages that were in the working set when evicted.
    WorkingsetRestoreFile = "workingset_restore_file",
    /// Nodes of shadows pruned.
    WorkingsetNodeReclaim = "workingset_nodereclaim",
    /// Entries made inaccessible so that their next use shows who uses them.
    NumaPteUpdates = "numa_pte_updates",
    /// Events: of these, entries of huge pages.
    NumaHugePteUpdates = "numa_huge_pte_updates",
    /// Events: faults on these entries.
    NumaHintFaults = "numa_hint_faults",
    /// Events: of these, of threads on the node of the page.
    NumaHintFaultsLocal = "numa_hint_faults_local",
    /// Pages that moved to the thread which faulted on them.
    NumaPagesMigrated = "numa_pages_migrated",
    /// Events: processes killed for want of memory.
    OomKill = "oom_kill",
    /// Pages moved from a slow node to one of the top tier. Counted by that node as well.
    PgPromoteSuccess = "pgpromote_success",
    /// Pages below the hot threshold of NUMA balancing, before its rate limit. Counted by the target node as well.
    PgPromoteCandidate = "pgpromote_candidate",
    /// Pages promoted without threshold and limit, because the target node had room to spare.
    PgPromoteCandidateNrl = "pgpromote_candidate_nrl",
    /// Pages moved to a lower tier by the node's daemon. Counted by the node that they left as well, like all of these.
    PgDemoteKswapd = "pgdemote_kswapd",
    /// Pages moved to a lower tier by tasks that could not allocate or hit a limit.
    PgDemoteDirect = "pgdemote_direct",
    /// Pages moved to a lower tier by the huge-page daemon.
    PgDemoteKhugepaged = "pgdemote_khugepaged",
    /// Pages moved to a lower tier on request.
    PgDemoteProactive = "pgdemote_proactive",
    /// Pages moved to other frames, by all.
    PgMigrateSuccess = "pgmigrate_success",
    /// Pages that could not be moved after all tries.
    PgMigrateFail = "pgmigrate_fail",
    /// Events: huge pages moved whole.
    ThpMigrationSuccess = "thp_migration_success",
    /// Events: huge pages that could not be moved.
    ThpMigrationFail = "thp_migration_fail",
    /// Events: huge pages split because they could not be moved whole.
    ThpMigrationSplit = "thp_migration_split",
    /// Events: direct compactions that were neither skipped nor deferred in all zones.
    CompactStall = "compact_stall",
    /// Events: direct compactions among `compact_stall` after which the task got its page.
    CompactSuccess = "compact_success",
    /// Events: direct compactions among `compact_stall` after which it did not.
    CompactFail = "compact_fail",
    /// Pages scanned for sources, by all.
    CompactMigrateScanned = "compact_migrate_scanned",
    /// Pages scanned for targets, by all.
    CompactFreeScanned = "compact_free_scanned",
    /// Pages isolated, sources and targets.
    CompactIsolated = "compact_isolated",
    /// Events: runs of kcompactd on demand; proactive runs do not count.
    CompactDaemonWake = "compact_daemon_wake",
    /// Pages scanned for sources by kcompactd, and by other passes that no thread waits for.
    CompactDaemonMigrateScanned = "compact_daemon_migrate_scanned",
    /// Likewise, for targets.
    CompactDaemonFreeScanned = "compact_daemon_free_scanned",
    /// Events: faults that got a huge page.
    ThpFaultAlloc = "thp_fault_alloc",
    /// Events: faults that wanted a huge page and got a base page.
    ThpFaultFallback = "thp_fault_fallback",
    /// Events: faults among these whose group had no room for a huge page.
    ThpFaultFallbackCharge = "thp_fault_fallback_charge",
}

impl Counter {
    /// The counter with the kernel's name `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|counter| counter.name() == name)
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A value for each [`Counter`]; all zero at first. Adding saturates.
///
/// Serialised as a map from name to value with all counters in order; missing names are read as zero, unknown ones refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Counter::ALL.len()])
    }
}

impl Counters {
    /// Adds `n` to one counter.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        let value = &mut self.0[counter as usize];
        *value = value.saturating_add(n);
    }
    /// The value of one counter.
    #[inline]
    pub const fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (counter, n) in other.iter() {
            self.add(counter, n);
        }
    }
    /// The counts added since `earlier` was copied from these counters; zero where `earlier` is higher.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut grown = *self;
        for (value, before) in grown.0.iter_mut().zip(earlier.0) {
            *value = value.saturating_sub(before);
        }
        grown
    }
    /// Counters and values in listing order.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.into_iter().zip(self.0)
    }
    /// `pgscan` of `memory.stat`: pages scanned by all four kinds of reclaimers.
    pub fn pgscan(&self) -> u64 {
        use Counter::{PgScanDirect, PgScanKhugepaged, PgScanKswapd, PgScanProactive};
        self.sum(&[PgScanKswapd, PgScanDirect, PgScanKhugepaged, PgScanProactive])
    }
    /// `pgsteal` of `memory.stat`: pages freed by all four kinds of reclaimers.
    pub fn pgsteal(&self) -> u64 {
        use Counter::{PgStealDirect, PgStealKhugepaged, PgStealKswapd, PgStealProactive};
        self.sum(&[PgStealKswapd, PgStealDirect, PgStealKhugepaged, PgStealProactive])
    }
    /// Evicted pages that were brought in again, of both types.
    pub fn refaults(&self) -> u64 {
        self.sum(&[Counter::WorkingsetRefaultAnon, Counter::WorkingsetRefaultFile])
    }
    fn sum(&self, counters: &[Counter]) -> u64 {
        counters.iter().fold(0, |sum: u64, &counter| sum.saturating_add(self.get(counter)))
    }
}

impl serde::Serialize for Counters {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(counter, value)| (counter.name(), value)))
    }
}

impl<'de> serde::Deserialize<'de> for Counters {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Counters;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from counter names to numbers")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Counters, A::Error> {
                let mut counters = Counters::default();
                while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    let Some(counter) = Counter::from_name(&name) else {
                        return Err(serde::de::Error::custom(format_args!(
                            "unknown counter `{name}`; known are those of /proc/vmstat such as `pgmajfault`"
                        )));
                    };
                    counters.add(counter, map.next_value()?);
                }
                Ok(counters)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for counter in Counter::ALL {
            assert_eq!(Counter::from_name(counter.name()), Some(counter));
        }
        assert_eq!(Counter::from_name("pgpgin"), None);
    }

    #[test]
    fn counters_add_merge_and_differ() {
        let mut first = Counters::default();
        first.add(Counter::PgScanKswapd, 3);
        first.add(Counter::PgScanDirect, 4);
        let mut second = first;
        second.add(Counter::PgStealDirect, 2);
        assert_eq!((second.pgscan(), second.pgsteal()), (7, 2));
        assert_eq!(second.since(&first).iter().map(|(_, n)| n).sum::<u64>(), 2);
        first.merge(&second);
        assert_eq!(first.get(Counter::PgScanDirect), 8);
        first.add(Counter::PgScanDirect, u64::MAX);
        assert_eq!(first.pgscan(), u64::MAX, "saturates");
    }

    #[test]
    fn counters_are_listed_in_one_order() {
        let names: Vec<_> = Counters::default().iter().map(|(counter, _)| counter.name()).collect();
        assert_eq!((names[0], names[names.len() - 1]), ("pgfault", "thp_fault_fallback_charge"));
        assert_eq!(names.len(), Counter::ALL.len());
    }

    #[test]
    fn counters_are_read_back_by_name() {
        use serde::Deserialize;
        use serde::de::value::{Error, MapDeserializer};
        let read = |pairs: &[(&'static str, u64)]| {
            Counters::deserialize(MapDeserializer::<_, Error>::new(pairs.iter().copied()))
        };
        let counters = read(&[("oom_kill", 2), ("pswpin", 7)]).unwrap();
        assert_eq!((counters.get(Counter::OomKill), counters.get(Counter::PswpIn), counters.pgscan()), (2, 7, 0));
        assert!(read(&[("pswpinn", 1)]).unwrap_err().to_string().contains("`pswpinn`"));
    }
}
