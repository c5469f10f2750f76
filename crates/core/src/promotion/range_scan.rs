//! One part of a scan, over a range of its space: the host scans, the filter judges, useful pages are queued and counted.

use super::counters::PromotionCounters;
use super::queue::{MigrationList, SlotKey};
use crate::host::{AddressRange, HostError, PromotionHost, TargetId};
use crate::vocabulary::ScanFilter;
use isotherm_units::Duration;

/// Bytes that one part of a scan takes at most: 16,384 entries, a fraction of a millisecond. Between parts the scanned process
/// can exit.
const SCAN_BYTES: u64 = 64 << 20;
/// Parts end between huge pages, which would be judged twice otherwise.
const HUGE_BYTES: u64 = 2 << 20;

/// Where a part that begins at `start` ends, at `end` at most.
pub(super) fn scan_end(start: u64, end: u64) -> u64 {
    end.min(start.saturating_add(SCAN_BYTES) & !(HUGE_BYTES - 1))
}

/// The parts of the daemon that a scan of a space needs.
pub(super) struct RangeScan<'a> {
    pub(super) host: &'a mut dyn PromotionHost,
    pub(super) target: TargetId,
    pub(super) key: SlotKey,
    pub(super) filter: &'a mut ScanFilter,
    pub(super) list: &'a mut MigrationList,
    pub(super) counters: &'a mut PromotionCounters,
    /// CPU time so far.
    pub(super) spent: Duration,
}

/// Findings of a part of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) useful: u64,
    /// Pages on slow nodes whose bit was set, useful or not.
    pub(super) touched: u64,
    pub(super) present: u64,
    /// The filter ended it before the end of the range.
    pub(super) was_stopped: bool,
}

impl RangeScan<'_> {
    /// Scans a range. A host that fails there has found nothing.
    ///
    /// # Errors
    /// The space has ended.
    pub(super) fn scan(&mut self, range: AddressRange) -> Result<Found, HostError> {
        self.filter.restart();
        let scanned = match self.host.scan_accessed(self.target, range, self.filter) {
            Ok(scanned) => scanned,
            Err(gone @ HostError::Gone(_)) => return Err(gone),
            Err(HostError::NotHere(_) | HostError::Failed(_)) => {
                self.counters.scan_failed += 1;
                self.filter.restart();
                return Ok(Found::default());
            }
        };
        self.spent += scanned.spent;
        let filter = &*self.filter;
        self.counters.queued += self.list.splice(self.key, &filter.runs);
        self.counters.slow_tier += filter.useful;
        self.counters.top_tier += filter.top_tier;
        self.counters.idle_page += filter.idle;
        self.counters.scanned += filter.present;
        Ok(Found {
            useful: filter.useful,
            touched: filter.touched,
            present: filter.present,
            was_stopped: scanned.next < range.end,
        })
    }
}
