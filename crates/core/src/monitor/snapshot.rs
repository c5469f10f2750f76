//! The results of monitoring: a snapshot each aggregation, an outcome each tick, counters of its own work.

use super::level::LEVELS_MAX;
use super::ranges::RangesError;
use super::region::PROBES_MAX;
use crate::host::{AddressRange, HostError, Level, ProbeResult, Seen, TargetId};
use crate::schemes::TriedRegion;
use isotherm_units::{Duration, Instant};
use std::ops::Range;

/// The result of one aggregation: all regions after merging, before their counters are reset and they are split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Time at which the aggregation ended.
    pub at: Instant,
    /// Number of the snapshot in its context, from 1; 0 before the first.
    pub number: u64,
    /// The intervals that counts and ages are stated in. After tuning these are the new ones already, and counts and ages
    /// were converted to them.
    pub sample_interval: Duration,
    /// The aggregation interval; see `sample_interval`.
    pub aggr_interval: Duration,
    /// The highest count that these intervals allow; an interval change may leave higher ones.
    pub nr_accesses_max: u32,
    /// Time since the snapshot before (or the start), which late wake-ups stretch: counts are still stated as if every tick
    /// had come in time.
    pub elapsed: Duration,
    /// Targets in order, each with the range of its regions in `regions`.
    pub targets: Vec<(TargetId, Range<usize>)>,
    /// Regions of all targets, by target, then by address.
    pub regions: Vec<RegionRecord>,
    /// Tests of this aggregation by the level of the page table that answered.
    pub levels: [LevelCount; LEVELS_MAX],
}

/// One region of a [`Snapshot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionRecord {
    /// Byte addresses of the region.
    pub range: AddressRange,
    /// Samples of the aggregation that found the region accessed, 0 to [`Snapshot::nr_accesses_max`] in general.
    pub nr_accesses: u32,
    /// Aggregations in a row with similar counts.
    pub age: u32,
    /// Samples in which each attribute probe held, in the order of the probes.
    pub probe_hits: [u32; PROBES_MAX],
    /// The level of the page table at which it was last sampled. Above 0, one access means a whole entry: some of the region was
    /// used, not necessarily all of it.
    pub level: Level,
}

/// Tests of accessed bits at one level of the page table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCount {
    /// Entries whose accessed bit was read.
    pub tests: u64,
    /// Entries among them whose bit was set.
    pub accessed: u64,
}

/// Counts of a context's work since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Number of times it was woken and had work to do.
    pub wakeups: u64,
    /// Sampling ticks that were carried out.
    pub ticks: u64,
    /// Samples that would have been taken, had it not been woken late.
    pub missed_ticks: u64,
    /// Aggregations completed; each makes a snapshot.
    pub aggregations: u64,
    /// Accessed bits cleared by probes, by level asked for.
    pub clears: [u64; LEVELS_MAX],
    /// Accessed bits tested by probes, by level that answered.
    pub tests: [LevelCount; LEVELS_MAX],
    /// Samples dropped because the entry changed its kind or regions changed between clear and test.
    pub dropped_samples: u64,
    /// Page tables that `ptp-descend` scanned.
    pub child_scans: u64,
    /// Page-table words read and cleared by these.
    pub child_scan_words: u64,
    /// Times that cached translations were flushed.
    pub flushes: u64,
    /// Tests above the leaf with an entry below tested at the same time: the total for the next count.
    pub consistency_tests: u64,
    /// Cases among them in which the upper entry was clear although one below was set: translation caches hide accesses from upper entries.
    pub upper_clear_but_leaf_set: u64,
    /// Times that intervals were changed by tuning.
    pub tunings: u64,
}

impl Activity {
    /// Counts the results of a sample, by the level that answered.
    pub(crate) fn count_tests(&mut self, results: &[ProbeResult]) {
        // Nearly always all are leaves. No branch in between, so that many are read at once.
        let (mut highest, mut accessed) = (Level::LEAF, 0u32);
        for result in results {
            highest = highest.max(result.level);
            accessed += u32::from(result.seen == Seen::Accessed);
        }
        if highest == Level::LEAF {
            self.tests[slot(highest)].tests += results.len() as u64;
            self.tests[slot(highest)].accessed += u64::from(accessed);
            return;
        }
        for result in results {
            let count = &mut self.tests[slot(result.level)];
            count.tests += 1;
            count.accessed += u64::from(result.seen == Seen::Accessed);
        }
    }

    pub(crate) fn count_scan(&mut self, words_of_bits: usize, nr_entries: u64) {
        self.child_scans += 1;
        // A host that finds no table reads one word: the entry.
        self.child_scan_words += if words_of_bits == 0 { 1 } else { nr_entries };
    }
}

/// Where a level is counted.
pub(crate) fn slot(level: Level) -> usize {
    usize::from(level.0).min(LEVELS_MAX - 1)
}

/// Results of one call of [`Monitor::handle_timeout`](super::Monitor::handle_timeout). Nothing is left out: errors are in `events`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// This call completed an aggregation: a new [`Snapshot`] is available.
    pub has_snapshot: bool,
    /// Ticks that did not happen because this call came late.
    pub missed: u64,
    /// Unusual events, in the order in which they happened.
    pub events: Vec<Event>,
}

/// An unusual event in a [`Tick`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The target has ended; its regions are dropped.
    TargetGone(TargetId),
    /// The mappings of a target cannot be made into ranges. Without regions before, it has none until the next update; with
    /// some, it keeps them.
    NoLayout {
        target: TargetId,
        /// Why the mappings cannot be made into ranges.
        why: RangesError,
    },
    /// A process has mappings in fewer than three separate places, so three ranges cannot be made: each place is monitored as it is. The
    /// kernel's `vaddr` monitors nothing then.
    FewPlaces {
        target: TargetId,
        /// How many there are: 1 or 2.
        places: usize,
    },
    /// The host refused a call. The sample, scan or update it was for is lost.
    HostFailed {
        target: TargetId,
        /// Name of the request to the host.
        call: &'static str,
        /// The host's answer.
        error: HostError,
    },
    /// Tuning changed the intervals.
    Tuned {
        /// The new sampling interval.
        sample_interval: Duration,
        /// The new aggregation interval.
        aggr_interval: Duration,
    },
    /// A configuration that was committed earlier has taken effect.
    Committed,
    /// The regions that schemes were tried on since [`start_walk`](super::Monitor::start_walk), one pass of each scheme.
    TriedRegions(Vec<TriedRegion>),
    /// Tried regions are not collected any more: no scheme is at work.
    WalkCancelled,
    /// No target is left; the context has stopped.
    Stopped,
}
