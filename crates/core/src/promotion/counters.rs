//! Counts of the daemon's work, under the kernel's names where it has one.

use crate::host::PageMove;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident => $name:literal;)*) => {
        /// Counts since the daemon was made. Entries are folios that were queued.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct PromotionCounters {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl PromotionCounters {
            /// Name and value of each, in order. Names that begin with `nr_kmmscand_` are the kernel's, of patch version 1;
            /// the first has the same counts.
            pub fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field),)*]
            }
        }
    };
}

counters! {
    /// Scans of spaces that ended.
    mm_scans => "nr_kmmscand_mm_scans";
    /// Areas that were passed, including areas that were not scanned; in `rch` scans of regions.
    vma_scans => "nr_kmmscand_vma_scans";
    /// Entries queued to be moved.
    queued => "nr_kmmscand_migadded";
    /// Entries that were moved, of any size.
    migrated => "nr_kmmscand_migrated";
    /// Entries that were not moved, for any reason below, except those dropped.
    migrate_failed => "nr_kmmscand_migrate_failed";
    /// Useful pages that scans found on slow nodes.
    slow_tier => "nr_kmmscand_slowtier";
    /// Pages seen on nodes of the top tier, accessed or not.
    top_tier => "nr_kmmscand_toptier";
    /// Pages whose accessed bit was clear.
    idle_page => "nr_kmmscand_idlepage";
    /// Base pages that scans checked.
    scanned => "pages_scanned";
    /// Rounds over the scan list that were begun.
    rounds => "rounds";
    /// Times a space was skipped as its mappings were locked.
    lock_busy => "lock_busy";
    /// Ranges that the host could not scan.
    scan_failed => "scan_failed";
    regions_probed => "regions_probed";
    /// Probed regions in which a page on a slow node had been accessed.
    probes_hit => "probes_hit";
    /// Regions skipped because no use had set the table entry above them.
    regions_quiet => "regions_quiet";
    /// Base pages that were moved.
    migrated_pages => "pages_migrated";
    /// Entries not moved because they were on their node already.
    failed_same_node => "failed_same_node";
    /// Entries not moved because they were on another node of the top tier.
    failed_top_tier => "failed_top_tier";
    /// Entries not moved because the page was gone or on no list.
    failed_not_present => "failed_not_present";
    /// Entries not moved because the page was locked, under write-back or isolated.
    failed_busy => "failed_busy";
    /// Entries not moved because others held references to the page.
    failed_pinned => "failed_pinned";
    /// Entries not moved because several spaces mapped the page.
    failed_shared => "failed_shared";
    /// Entries not moved because they were dirty pages of files.
    failed_dirty => "failed_dirty";
    /// Entries not moved because they were not among the active pages.
    failed_not_active => "failed_not_active";
    /// Entries not moved because the node had no free page.
    failed_full => "failed_full";
    /// Entries not moved because the node would have fallen below its high watermark.
    failed_below_watermark => "failed_below_watermark";
    /// Entries not moved because the host refused the whole call.
    failed_call => "failed_call";
    /// Entries dropped because their space exited.
    dropped_exit => "dropped_exit";
    /// Entries dropped as their node was full, or as the space was scanned again before they moved (`rch`).
    dropped_stale => "dropped_stale";
}

impl PromotionCounters {
    /// Counts the result of an entry.
    pub(super) fn moved(&mut self, outcome: PageMove) {
        let reason = match outcome {
            PageMove::Moved(pages) => {
                self.migrated += 1;
                self.migrated_pages += u64::from(pages);
                return;
            }
            PageMove::SameNode => &mut self.failed_same_node,
            PageMove::TopTier => &mut self.failed_top_tier,
            PageMove::NotPresent => &mut self.failed_not_present,
            PageMove::Busy => &mut self.failed_busy,
            PageMove::Pinned => &mut self.failed_pinned,
            PageMove::Shared => &mut self.failed_shared,
            PageMove::Dirty => &mut self.failed_dirty,
            PageMove::NotActive => &mut self.failed_not_active,
            PageMove::Full => &mut self.failed_full,
            PageMove::BelowWatermark => &mut self.failed_below_watermark,
        };
        *reason += 1;
        self.migrate_failed += 1;
    }

    /// Entries that are neither moved, failed nor dropped: as many must be queued.
    pub(super) fn outstanding(&self) -> u64 {
        self.queued - self.migrated - self.migrate_failed - self.dropped_exit - self.dropped_stale
    }
}
