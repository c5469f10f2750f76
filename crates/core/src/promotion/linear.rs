//! The series' scan: whole areas in turn from where the last scan ended, until the budget is met (docs/spec/promotion.md#s1-5).

use super::eligible::obstacle;
use super::mode::Limits;
use super::range_scan::{RangeScan, scan_end};
use crate::host::{AddressRange, Area, HostError};

/// A scan under way.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    areas: Vec<Area>,
    /// The area being scanned.
    index: usize,
    /// Where in it.
    at: u64,
    budget: u64,
    /// Bytes of areas passed, including areas that are not scanned.
    passed: u64,
    pub(super) useful: u64,
}

impl Linear {
    /// From the area that holds `address`, or the next; an area is scanned from its start.
    pub(super) fn new(areas: Vec<Area>, address: u64, budget: u64) -> Self {
        let index = areas.partition_point(|area| area.range.end <= address);
        Self { areas, index, at: 0, budget, passed: 0, useful: 0 }
    }

    /// One part of the scan, or the work that remains without a scan. `Some` ends the scan and holds the start of the next one: 0 once all
    /// areas were passed. If the last area meets the budget exactly, the scan ends at the area's end, and the next scan passes nothing.
    ///
    /// # Errors
    /// The space has ended.
    pub(super) fn step(&mut self, scan: &mut RangeScan<'_>, limits: &Limits) -> Result<Option<u64>, HostError> {
        loop {
            let Some(Area { range, kind }) = self.areas.get(self.index).copied() else { return Ok(Some(0)) };
            let is_eligible = obstacle(kind).is_none();
            if is_eligible {
                let start = self.at.max(range.start);
                let end = scan_end(start, range.end);
                let found = scan.scan(AddressRange::new(start, end))?;
                self.useful += found.useful;
                if end < range.end && !found.was_stopped {
                    self.at = end;
                    return Ok(None);
                }
            }
            scan.counters.vma_scans += 1;
            self.passed = self.passed.saturating_add(range.len());
            (self.index, self.at) = (self.index + 1, 0);
            if self.passed >= self.budget {
                if !limits.goes_on || self.useful <= limits.ignore_below {
                    return Ok(Some(range.end));
                }
                // As in the kernel; as the count never falls, nothing stops the scan from here on.
                self.budget = limits.size[2];
            }
            if is_eligible {
                return Ok(None);
            }
        }
    }
}
